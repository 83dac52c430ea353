"""Mistyped commands and lack of memory: one line that states what is wrong, where, and what to do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.servers import completed
from tests.support import make_run

from svload.api import RunResult
from svload.drive import probe
from svload.model.errors import ExitCode, fail
from svload.run.execution import Outcome
from svload.store import RunDir

STUDY = """\
name: t
lab:
  api: {at: "http://127.0.0.1:9"}
traffic:
  users: {executor: constant-vus, vus: 2, request: GET http://api/}
measure: {duration: 0.3s, replicates: 2}
"""
ELSEWHERE = """\
name: o
lab:
  api: {kit: truth, role: store, on: there}
factors: {users: [2, 4]}
traffic:
  users: {executor: constant-vus, vus: "${users}", request: GET http://api/}
measure: {duration: 0.3s, replicates: 2}
"""
K6 = """\
import http from 'k6/http';
export const options = { vus: 10, duration: '30s' };
export default function () { http.get('http://127.0.0.1:9/'); }
"""
Say = Callable[[str], tuple[int, str]]
Svload = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def say(svload: Svload, tmp_path: Path) -> Say:
    """say(line) → exit code and stderr of this command line, in a folder with the studies `s` and `o` (its
    server is elsewhere) and a run `r`."""
    for name, text in (("s", STUDY), ("o", ELSEWHERE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.yaml").write_text(text)
    (tmp_path / "s/load.js").write_text(K6)
    make_run(tmp_path / "runs", cases=1, replicates=1).path.rename(tmp_path / "r")

    def said(line: str) -> tuple[int, str]:
        code, printed, text = svload(line)
        assert code != 2 or printed == ""
        return code, text

    return said


URL = "http://127.0.0.1:9/"
# Contradictions between options of a load have their own tables: tests/study/test_quick.py, test_k6.py.
MISTYPED = {
    f"load {URL} -d ''": "the value is empty",
    f"load {URL} --data '\udcff'": "'--data' / '--body': the value is not UTF-8 text",
    f"load {URL} -d 1s --authorise '\udcff'": "the value is not UTF-8 text",
    f"load {URL}\udcff": "the URL is not UTF-8 text. Write each byte as %XX",
    f"compare {URL} latest": "http://127.0.0.1:9/ is a URL, and latest is a run",
    "compare one two --rate 5": "--rate applies to URLs",
    "compare one two --rate 0": "--rate applies to URLs",
    "compare http://x/ http://y/ --to page.html": "--to applies to runs",
    f"compare {URL} https://127.0.0.1:9/ --cacert no.pem": "--cacert no.pem cannot be read",
    f"compare {URL} http://127.0.0.1:8/ --cacert no.pem": "--cacert applies to HTTPS",
    f"compare {URL} 127.0.0.1:8": "127.0.0.1:8 is not a URL without its scheme. Write http://127.0.0.1:8.",
    f"compare http://[::1/ {URL}": "Invalid IPv6 URL",
    f"compare {URL} http://127.0.0.1:x/": "Port could not be cast",
    f"compare {URL} http://other.example/": "http://other.example is not authorised",
    f"compare {URL} {URL} --fail-if slower": "--fail-if: expected worse, better or",
    "query r 'select \udcff'": "the statement is not UTF-8 text",
    "aa o": "api can't run on there: no inventory is given. “svload run” and “svload resume” take an --inventory",
    "capacity o --over users --from 1 --to 9 --that 'p95 < 1 s'": "api can't run on there: no inventory is given",
    "doctor --profile demo": "--profile applies to a study",
    "doctor --no-wait": "--no-wait applies to --certify",
    "run s --for 5s": "--for bounds the blocks that a gate or measure.until adds, and this study adds none",
    "run s -i nowhere.ini": "nowhere.ini: The inventory can't be used: there is no such file",
    "run s --duration 0s": "svload: --duration: it must be above 0, found 0s",
    "plan s --duration 5": "svload: --duration: a unit is missing",
    f"capacity {URL}": "a search needs a criterion. Write --that",
    "capacity localhost:9/x --rate --that 'p95 < 1 s'": "Write http://localhost:9/x. [usage]",
    "capacity ftp://x/ --that 'p95 < 1 s'": "its scheme is “ftp”",
    f"capacity {URL} --that 'p95 < 1 s' --over users": "--over applies to a study, and",
    f"capacity {URL} --that 'p95 < 1 s' --profile demo": "--profile applies to a study",
    "capacity s --that 'p95 < 1 s' --over users --from 1 --to 9": "nothing in s depends on users",
    "lab down nothing": "there is no lab nothing. No lab is running.",
    "lab reset": "no lab is running. Start one with “svload lab up STUDY”",
    "schema nothing": "Invalid value for 'of': 'nothing' is not one of 'study', 'findings'",
    "fleet install -i hosts --profile demo": "--profile applies to a study",
    "resume --out nowhere": "There is no unfinished run at “nowhere”",
    "plan s --only ,": "--only , names no case",
    f"load {URL} -d 1e400s": "--duration 1e400s: “1e400s” is not a usable number",
    f"load {URL} -d 1e9h": "--duration: at most 7,776,000 seconds can be planned",
    f"load {URL} -R 1e30": "--rate: at most 100,000,000 arrivals a second can be planned",
    f"load {URL} -R nan": "--rate takes a number above 0",
    f"load {URL} -n 99999999999999999999": "--requests: at most 10,000,000,000 iterations",
    f"load {URL} --spin 1s": "--spin: at most 10,000,000 ns",
    f"load {URL} -R 9 --on-full burst": "--on-full: expected one of wait, drop",
    f"load {URL} --follow-redirects 70000": "less than or equal to 100",
    f"load {URL} -c 2 -d 0.3s --ramp-up 5h --out new": "more than 1,000,000 intervals of 1 ms",
    "load https://127.0.0.1:9/ --cacert s/study.yaml": "--cacert s/study.yaml holds no certificate",
    "load http://me:hunter2@127.0.0.1:9/": "“http://…@127.0.0.1:9/” is not a URL",
    f"load {URL} --out /proc/x": "/proc/x cannot be written",
    "pack r --to /proc/x.zip": "/proc/x.zip cannot be written",
    "report r --markdown --json": "--markdown and --json can't be combined",
    "report r --markdown --tables s/t.json": "--tables is for a whole report",
    "export r --timestamps": "--timestamps is for OpenMetrics",
    "export r -f openmetrics --json": "--json lists files, and OpenMetrics goes to stdout",
    f"init {URL} s/study.yaml": "s/study.yaml/study.yaml cannot be written",
    "plan s --replicates 99999999999": "svload: --replicates: at most 50,000 trials can be planned",
    "aa s --pairs 99999999999": "pairs are more than 10,000",
    "lab up s --for 0s": "--for 0s is not between 0 and 30 days",
    "warm --for -1s": "--for -1s is not between 0 and 30 days",
    "warm --end --for 1m": "--for and --end can't be combined",
    f"probe {URL} -H 'a b: c'": "“a b: c” is not a header",
    "probe 'http://127.0.0.1:9/a b'": "holds a space",
    "why r nothing": "r has no sealed trial, case or comparison “nothing”",
    "why nothing": "There is no run at “runs/latest”",
    "why r r --run r": "the run is named twice",
    "query r ''": "the statement is empty",
    "query r 'select 1; select 2'": "it is more than one statement",
    "query r selec": 'syntax error at or near "selec". The tables are',
    "load http://no-such-host.test/ --authorise no-such-host.test": "is not known",
    "load http://127.0.0.1:99999/": "Port out of range",
    "load 'http://127.0.0.1:9/a b'": "%20",
    "load https://127.0.0.1:9/ --ca no.pem": "--cacert no.pem cannot be read",
    f"load {URL} -c 100000": "local ports",
    f"load {URL} --stage 1s:9e9/s": "is not a stage",
    f"load {URL} --data-file no.bin": "--data-file no.bin cannot be read",
    f"load {URL} --data x -H 'Content-Length: 1'": "follows from the body",
    f"load {URL} --connect-to nowhere": "--connect-to nowhere",
    f"load {URL} --connect-to shop.example:80": "--authorise shop.example",
    f"load {URL} --connect-to other:1:127.0.0.1:9": "the URL doesn't",
    f"probe {URL} -X HEAD --data x": "HEAD can't have a body",
    "run no-such-study": "There is no study",
    "plan s/load.js": "s/load.js is a k6 script, not a study.",
    "run 001-svload --profile dmeo": "There is no profile",
    "run 001-svload --profile demo --only TC99": "There is no case TC99",
    "demo --plant no-luck": "no planted fault",
    "demo --plant no-hits --only TC0": "Plant it in svload demo without --only",
    "resume no-such-run": "There is no run",
    "lab up 001-svload --for ever": "--for ever",
    "frobnicate": "No such command",
    f"load {URL} --sleep 1s": "--sleep. Write --think-time. [usage]",
    f"load {URL} --users 5": "--users. Write --vus. [usage]",
    f"load {URL} --rps 5": "--rps. Write --rate. [usage]",
    f"load {URL} --nonsense 5": "“svload load -h” for its options",
    "plan s --sleep 1s": "“svload plan -h” for its options",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_it_is_one_line_and_exit_2(say: Say, line: str):
    before = {*Path().iterdir(), *Path("runs").glob("*")}
    code, text = say(line)
    assert (code, len(text.splitlines())) == (2, 1), text
    assert MISTYPED[line] in text and text.startswith("svload: ")
    assert "hunter2" not in text and "/passing/" not in text, "no file of svload's own is named"
    assert {*Path().iterdir(), *Path("runs").glob("*")} == before, "nothing is begun"


def test_an_answer_in_json_keeps_every_column_and_its_numbers(svload: Svload, tmp_path: Path):
    make_run(tmp_path, cases=1, replicates=1).path.rename(tmp_path / "r")
    line = "query r 'select 1 a, 2 a, 3 a_1, 0.5 half, 0/0 nothing from trials' --json"
    row = {"a": 1, "a_1": 2, "a_1_1": 3, "half": 0.5, "nothing": None}
    assert json.loads(svload(line)[1]) == [row]


def test_the_next_commands_of_init_can_be_copied(svload: Svload):
    _, printed, _ = svload(f"init {URL} 'my study' --authorise shop.example")
    wanted = "next: svload plan 'my study' && svload run 'my study' --authorise shop.example"
    assert printed.splitlines()[-1] == wanted


def test_a_bare_address_is_a_server_and_no_command(say: Say):
    assert say("init 127.0.0.1:9 i")[0] == 0
    assert '{at: "http://127.0.0.1:9"}' in Path("i/study.yaml").read_text()


def test_why_takes_the_run_before_the_name_or_by_its_option(say: Say):
    asked = ("why r", "why --run r", "why r TC0.r1", "why TC0.r1 --run r")
    assert [say(line) for line in asked] == [(0, "")] * 4


def test_nothing_in_a_message_is_obeyed_by_a_terminal(say: Say):
    assert say("plan '\x1b[2Jx\r\n'") == (
        2,
        "svload: There is no study at “ [2Jx ”. Name a folder that holds study.yaml, or the file itself. "
        "[study-not-found]\n",
    )


def test_what_is_gone_afterwards_is_not_to_be_resumed(say: Say):
    """A load without --out leaves nothing behind."""
    code, text = say(f"load {URL} -d 0.3s")
    assert (code, "svload resume" in text, "lab.server" in text) == (3, False, False)


def test_a_long_probe_shows_how_far_it_is(svload: Svload, monkeypatch: pytest.MonkeyPatch):
    def run_share(share: str, inputs: dict[str, Any], sink: Callable[[str], None]) -> Any:
        sink('{"groups": [{"ok": 3, "failed": 1}]}')
        return real(share, inputs, lambda text: None)

    real = probe._native.run_share
    monkeypatch.setattr(probe._native, "run_share", run_share)
    code, printed, text = svload(f"probe {URL} -n 1000")
    assert (code, text) == (3, "4 of 1,000 transfers have ended\n")
    assert "1000 transfers, 1000 failed" in printed


def test_ctrl_c_is_reported(say: Say, monkeypatch: pytest.MonkeyPatch):
    def pressed(*words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("svload.api.verify", pressed)
    assert say("verify r") == (130, "svload: interrupted\n")


def test_ctrl_c_while_a_load_waits_for_another_names_no_trials(say: Say, monkeypatch: pytest.MonkeyPatch):
    stopped = Outcome(ExitCode.INTERRUPTED, 0, 1, False, error=fail("interrupted", run="load-1"))
    ended = RunResult(RunDir(Path("load-1")), stopped, None, {}, ExitCode.INTERRUPTED)
    monkeypatch.setattr(import_module("svload.api.load"), "run_study", lambda *_: ended)
    said = "svload: Interrupted; the load was stopped before its end. [load-interrupted]\n"
    assert say(f"load {URL} -d 0.3s") == (130, said)


IMPORTING = """
class Pressing:
    def find_spec(self, name, *rest):
        if name == "svload.cli.warm_client":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Pressing())
"""
STARTING = """
from svload.cli import warm_client
warm_client.forward = lambda words: signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.parametrize("moment", [IMPORTING, STARTING], ids=["while it imports", "while it starts"])
def test_ctrl_c_is_reported_before_any_handler_is_installed(moment: str):
    code = f"import signal, sys\n{moment}\nfrom svload.cli.main import main\nmain()"
    ended = completed([sys.executable, "-c", code])
    assert (ended.returncode, ended.stderr) == (130, "svload: interrupted\n")


SHORT = (
    "svload: svload needs more memory than it is allowed to use. Raise the limit (ulimit -v), or free memory. "
    "[memory-short]\n"
)


@pytest.mark.parametrize(
    ("error", "is_short"),
    [
        (MemoryError(), True),
        (ImportError("libarrow.so: failed to map segment from shared object"), True),
        (ImportError("x.so: cannot allocate memory in static TLS block"), True),
        (ImportError("no module named x"), False),
    ],
    ids=["allocation", "mapping", "thread-local", "a defect"],
)
def test_full_memory_is_reported(
    svload: Svload, monkeypatch: pytest.MonkeyPatch, error: Exception, is_short: bool
) -> None:
    def app(**_: object) -> None:
        raise error

    monkeypatch.setattr("svload.cli.app.app", app)
    code, _, text = svload("schema")
    assert (code, text == SHORT, "[internal]" in text) == (3, is_short, not is_short)
