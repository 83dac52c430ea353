"""A user's own server in two minutes: init, plan, run, load, probe; and every slip is one
clear line before anything starts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S

from svload.cli.main import main

from .world import World, assert_valid

pytestmark = pytest.mark.truth
SERVER = Path(__file__).parents[2] / "examples" / "two-builds" / "builds" / "main" / "server"
GREETER = """\
#!{python}
import argparse, http.server, pathlib

options = argparse.ArgumentParser()
options.add_argument("--port", type=int, required=True)
options.add_argument("--greeting", type=pathlib.Path)
asked = options.parse_args()
greeting = asked.greeting.read_bytes() if asked.greeting else b""


class Greeter(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(greeting)))
        self.end_headers()
        self.wfile.write(greeting)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", asked.port), Greeter).serve_forever()
"""
QUICK = ("--replicates", "2", "--duration", "0.2s")
LOAD_FIELDS = {
    "due", "begun", "waiting", "dropped", "requests", "ok", "failed", "in_flight", "errors", "duration_s",
    "throughput_rps", "bytes_received", "response_ms", "ok_response_ms", "service_ms", "generator_lag_ms", "cpu_s",
    "server",
}  # fmt: skip
TIMES = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")


@pytest.mark.smoke
def test_a_url_becomes_a_ten_line_study_that_runs(world: World, truth: dict[str, int]):
    url = f"http://127.0.0.1:{truth['http_port']}"
    made = world.svload("init", url, "mine")
    assert made.returncode == 0, made.stderr
    assert "answered" in made.stdout
    text = (world.root / "mine" / "study.yaml").read_text()
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= 10
    planned = world.svload("plan", "mine")
    assert planned.returncode == 0
    assert "6 trials" in planned.stdout
    assert list(world.runs.iterdir()) == []
    trials = world.run("mine", *QUICK)["trials"]
    assert len(trials) == 2
    assert_valid(trials[0], "accounting")
    assert world.silent() == []
    again = world.svload("init", url, "mine")
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_a_command_becomes_a_study_that_starts_it(world: World):
    mine = world.root / "mine"
    mine.mkdir()
    shutil.copy2(SERVER, mine / "server")
    made = world.svload("init", f"{sys.executable} ./server --port {{port}}", str(mine))
    assert made.returncode == 0, made.stderr
    assert "${port}" in (mine / "study.yaml").read_text()
    assert world.svload("plan", str(mine)).returncode == 0
    assert world.silent() == [], "a plan starts nothing"
    study = mine / "study.yaml"
    study.write_text(study.read_text().replace("GET http://server/", "GET http://server/items"))
    edited = world.svload("run", str(mine), *QUICK, "--out", str(world.runs))
    assert edited.returncode == 2, "edited since init: its command is asked about again"
    assert "--trust" in edited.stderr
    assert list(world.runs.iterdir()) == []
    metrics = world.run(mine, *QUICK, "--trust")["trials"][0]["metrics"]
    assert metrics["users.success_rate"]["value"] == 1.0
    assert metrics["users.response.mean"]["value"] > 0.004, "it takes 5 ms for an answer"
    assert world.silent() == []
    assert world.labs() == []


def own_server(world: World) -> Path:
    """A user's server in their current folder, which greets with what its --greeting file says."""
    server = world.root / "server"
    server.write_text(GREETER.format(python=sys.executable))
    server.chmod(0o755)
    (world.root / "conf").mkdir()
    (world.root / "conf" / "greeting.txt").write_text("hello")
    return server


COMMANDS = [
    ("./server --port {port} --greeting conf/greeting.txt", "../server --port ${port} --greeting ../conf/greeting.txt", 5),
    ("./server --port {port} --greeting=conf/greeting.txt", "../server --port ${port} --greeting=../conf/greeting.txt", 5),
    ("HERE/server --port {port}", "HERE/server --port ${port}", 0),
    ("server --port {port}", "../server --port ${port}", 0),
    ("python3 server --port {port} --greeting conf/greeting.txt", "python3 ../server --port ${port} --greeting ../conf/greeting.txt", 5),
    ("python3 -m http.server {port} --directory conf", "python3 -m http.server ${port} --directory ../conf", None),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "written", "size"), COMMANDS)
def test_a_command_runs_as_it_was_typed_in_this_folder(
    world: World, typed: str, written: str, size: int | None
):
    """README's five minutes. Whatever the study's folder, init starts the command once and says what it answered."""
    own_server(world)
    typed, written = (text.replace("HERE", str(world.root)) for text in (typed, written))
    made = world.svload("init", typed, "s1")
    assert made.returncode == 0, made.stderr
    assert f'run: "{written}"' in (world.root / "s1" / "study.yaml").read_text()
    assert "GET / was answered with 200" in made.stdout
    assert size is None or f"({size} bytes)" in made.stdout
    planned = world.svload("plan", "s1")
    assert planned.returncode == 0, planned.stderr
    assert "--trust" not in planned.stdout
    assert world.silent() == []
    assert world.labs() == []


def test_a_study_that_init_wrote_runs_from_any_folder_without_trust(world: World):
    own_server(world)
    assert (
        world.svload("init", "./server --port {port} --greeting conf/greeting.txt", "studies/s1").returncode
        == 0
    )
    elsewhere = world.root / "elsewhere"
    elsewhere.mkdir()
    for where, study in ((world.root, "studies/s1"), (elsewhere, "../studies/s1")):
        ended = world.svload("run", study, *QUICK, "--out", str(world.runs), "--json", cwd=where)
        told = json.loads(ended.stdout)
        assert told["complete"], ended.stderr[-1500:]
        metrics = told["findings"]["trials"][0]["metrics"]
        assert metrics["users.success_rate"]["value"] == 1.0
    assert world.silent() == []


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        ("./no-such-server --port {port}", 2, "There is no file ./no-such-server, neither here nor in s1"),
        ("no-such-server --port {port}", 3, "which is not installed on this machine"),
        ("./server --colour {port}", 3, "required: --port"),
        ("./server 'x", 2, "cannot be split into words"),
    ],
)
def test_a_command_that_does_not_start_is_told_and_nothing_is_left(
    world: World, typed: str, code: int, words: str
):
    own_server(world)
    ended = world.svload("init", typed, "s1")
    assert (ended.returncode, ended.stdout) == (code, "")
    assert words in ended.stderr.splitlines()[-1]
    assert "{port" not in ended.stderr.splitlines()[-1].replace(typed, "").replace("${port}", "")
    assert not (world.root / "s1").exists()
    assert world.silent() == []


@pytest.mark.parametrize("how", [("--vus", "4"), ("--rate", "200")])
def test_load_prints_a_balanced_account(world: World, truth: dict[str, int], how: tuple[str, str]):
    url = f"http://127.0.0.1:{truth['http_port']}/v1/a/c/o"
    ended = world.svload("load", url, *how, "--duration", "1s", "--json")
    said: dict[str, Any] = json.loads(ended.stdout)
    assert set(said) >= LOAD_FIELDS
    assert said["due"] == said["begun"] + said["waiting"] + said["dropped"]
    assert said["begun"] == said["requests"] + said["in_flight"]
    assert said["requests"] == said["ok"] + said["failed"]
    assert said["failed"] == sum(said["errors"].values()) == said["requests"], "there is no such object: 404"
    assert tuple(said["response_ms"]) == TIMES
    assert said["cpu_s"] > 0
    assert said["instrument"]["grade"] in ("VALID", "WEAK", "REFUSED")
    if how[0] == "--rate":
        assert said["due"] in range(199, 202)
    plain = world.svload("load", url, *how, "--duration", "0.2s")
    assert "server " in plain.stdout
    assert "longest silence" in plain.stdout
    assert world.silent() == []


def test_load_over_tls_is_verified(world: World, serve_truth: Callable[..., dict[str, int]], tmp_path: Path):
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    tls = {
        "cert_pem": b"".join(blob.bytes() for blob in issued.cert_chain_pems).decode(),
        "key_pem": issued.private_key_pem.bytes().decode(),
    }
    ports = serve_truth(https_port=0, tls=tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ours.pem"))
    for host in ("localhost", "127.0.0.1"):
        url = f"https://{host}:{ports['https_port']}/info"
        known = world.svload(
            "load", url, "--vus", "2", "-n", "10", "--ca", str(tmp_path / "ours.pem"), "--json"
        )
        assert json.loads(known.stdout)["ok"] == 10
    unknown = world.svload("load", url, "--vus", "2", "-n", "10", "--json")
    assert (unknown.returncode, unknown.stdout) == (3, "")
    assert "answered no request: tls_untrusted" in unknown.stderr.splitlines()[-1]
    any_will_do = world.svload("load", url, "-c", "2", "-n", "10", "--insecure", "--json")
    assert json.loads(any_will_do.stdout)["ok"] == 10
    row = json.loads(world.svload("probe", url, "--json").stdout)[0]
    assert row["error"] == "tls_untrusted"
    row = json.loads(world.svload("probe", url, "--cacert", str(tmp_path / "ours.pem"), "--json").stdout)[0]
    assert row["error"] == ""
    assert row["time_appconnect"] > row["time_connect"] > 0
    row = json.loads(world.svload("probe", url, "-k", "--json").stdout)[0]
    assert (row["error"], row["http_code"]) == ("", 200)


NOBODY = "http://127.0.0.1:9/"
SLIPS = [
    (("load", "http://no-such-host.test/", "--authorise", "no-such-host.test"), "is not known"),
    (("load", "ftp://127.0.0.1/"), "not http or https"),
    (("load", "http://127.0.0.1:99999/"), "Port out of range"),
    (("load", "http://user:secret@127.0.0.1/"), "user or password"),
    (("load", NOBODY, "--rate", "0"), "--rate takes a number above 0"),
    (("load", NOBODY, "--rate", "10", "--vus", "2"), "together with --vus"),
    (("load", NOBODY, "--vus", "0"), "--vus"),
    (("load", NOBODY, "--duration", "soon"), "--duration soon"),
    (("load", NOBODY, "--duration", "0s"), "--duration 0s"),
    (("load", "https://127.0.0.1:9/", "--ca", "no.pem"), "--cacert no.pem cannot be read"),
    (("load", NOBODY, "--data-file", "no.bin"), "--data-file no.bin cannot be read"),
    (("load", NOBODY, "-H", "nonsense"), "is not a header"),
    (("load", NOBODY, "--threshold", "p(98)<1s"), "not among the percentiles"),
    (("load", NOBODY, "--rate", "1e9", "--no-keepalive"), "local ports"),
    (("load", NOBODY, "--stage", "1s:9e9/s"), "is not a stage"),
    (("load", NOBODY, "--stage", "1s:900000000/s", "--no-keepalive"), "local ports"),
    (("load", NOBODY, "-c", "100000"), "local ports"),
    (("load", "http://127.0.0.1:9/a b"), "%20"),
    (("load", NOBODY, "--data", "x", "-H", "Content-Length: 1"), "follows from the body"),
    (("load", NOBODY, "--connect-to", "nowhere"), "--connect-to nowhere"),
    (("load", NOBODY, "--connect-to", "shop.example:80"), "--authorise shop.example"),
    (("load", NOBODY, "--connect-to", "other:1:127.0.0.1:9"), "the URL doesn't"),
    (("load", NOBODY, "--insecure"), "the URL is http"),
    (("load", NOBODY, "--stage", "10"), "is not a stage"),
    (("load", NOBODY, "-n", "5", "--rate", "5"), "Leave one of them out"),
    (("load", NOBODY, "-d", "5s", "--max-vus", "5"), "add --rate"),
    (("load",), "Missing argument"),
    (("probe", NOBODY, "--header", "nonsense"), "is not a header"),
    (("probe", NOBODY, "-k"), "the URL is http"),
    (("probe", NOBODY, "-X", "HEAD", "--data", "x"), "does not go with HEAD"),
    (("probe", NOBODY, "-D", "no.bin"), "--data-file no.bin cannot be read"),
    (("init", "gopher://127.0.0.1/", "x"), "scheme"),
    (("run", "no-such-study"), "There is no study"),
    (("run", "001-svload", "--profile", "dmeo"), "There is no profile"),
    (("run", "001-svload", "--profile", "demo", "--only", "TC99"), "There is no case TC99"),
    (("demo", "--plant", "no-luck"), "no planted fault"),
    (("resume", "no-such-run"), "There is no run"),
    (("why", "TC0.r1"), "There is no run"),
    (("lab", "up", "001-svload", "--for", "ever"), "--for ever"),
    (("frobnicate",), "No such command"),
]


@pytest.mark.parametrize(
    ("command", "words"), SLIPS, ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else ""
)
def test_a_slip_is_one_clear_line_and_nothing_starts(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    words: str,
):
    """Typed in this process: they are many, and a start of Python is most of what each would take."""
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(world.root)
    monkeypatch.setattr(sys, "argv", ["svload", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    said, told = capfd.readouterr()
    assert (ended.value.code, said) == (2, "")
    assert told.count("\n") == 1, told
    assert words in told
    assert told.startswith("svload: ")
    assert "/passing/" not in told, "no file of svload's own is named"
    assert world.processes() == []
    assert not (world.root / "state").exists() or world.labs() == []
    assert not list(world.root.glob("runs/*")) + list(world.root.glob("x*"))


def test_nobody_at_the_address_is_told(world: World):
    ended = world.svload("load", NOBODY, "--duration", "1s")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "nothing answers at http://127.0.0.1:9" in ended.stderr.splitlines()[-1]
    assert world.silent() == []
    probed = world.svload("probe", NOBODY, "--json")
    assert probed.returncode == 3
    assert json.loads(probed.stdout)[0]["error"] == "connect_refused"


SIX = """\
name: six
lab:
  api: {run: "./server --port ${port}", ready: GET /health}
qestion: How fast?
factors: {users: [1, 8]}
requests:
  items:
    get: http://apy/items
    check: [statsu == 200]
traffic:
  shoppers: {executor: constant-vsu, vus: "${user}", request: items}
measure: {duration: 5 parsecs, replicates: 2}
"""


def test_six_mistakes_are_six_messages_and_nothing_starts(world: World):
    path = world.root / "study.yaml"
    path.write_text(SIX)
    ended = world.svload("run", str(path), "--trust", "--out", str(world.runs))
    lines = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(lines) == 6, ended.stderr
    for slip in ("qestion", "apy", "statsu", "constant-vsu", "user", "5 parsecs"):
        assert any(slip in line for line in lines), (slip, lines)
    assert all(f"{path}:" in line for line in lines), "each names file and line"
    assert list(world.runs.iterdir()) == []
    assert world.labs() == []
    assert world.silent() == []
    planned = subprocess.run(
        [sys.executable, "-m", "svload", "plan", str(path)],
        env=world.env, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert planned.stderr == ended.stderr


ELSEWHERE = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        away = self.path == "/"
        self.send_response(302 if away else 200)
        if away:
            self.send_header("Location", f"http://localhost:{self.server.server_port}/there")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_a_redirect_to_localhost_is_followed_as_one_to_its_address(world: World):
    server = subprocess.Popen([sys.executable, "-c", ELSEWHERE], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        ended = world.svload("load", url, "-c", "2", "-n", "10", "--follow-redirects", "3", "--json")
    finally:
        server.kill()
        server.wait(HANG_S)
    told = json.loads(ended.stdout)
    assert told["errors"] == {}
    assert (told["ok"], told["failed"]) == (10, 0)
