"""studies/005-file-server: files of the expected length, and what the README says about its runs."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.studies.scripts import check_readme, check_whole, packed, script, words_of

from svload import api
from svload.lab import find_mistakes, kit_options
from svload.model.load_curve import LimitState, LoadLimit
from svload.model.results import Findings
from svload.model.stacks import Stacks
from svload.model.traffic import FeederPart, Template
from svload.store import RunDir, open_pack
from svload.study import load_study, resolve

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "studies/005-file-server"
PROFILES = [
    *(("study.yaml", profile) for profile in (None, "short", "demo", "counted", "tuned")),
    *(("new.yaml", profile) for profile in (None, "short", "demo")),
    *(("different.yaml", profile) for profile in (None, "short", "demo", "as-printed")),
    *(("mended.yaml", profile) for profile in (None, "short", "demo")),
    *(("limits.yaml", profile) for profile in (None, "demo")),
]


def own_script(name: str) -> ModuleType:
    return script(STUDY / f"{name}.py")


def written(template: Template, row: int) -> str:
    """Return a turn's text; a feeder's column is its row, every other part its name."""
    return "".join(
        str(row) if isinstance(part, FeederPart) else getattr(part, "text", getattr(part, "var", ""))
        for part in template
    )


@pytest.mark.parametrize(("file", "profile"), PROFILES)
def test_what_is_asked_for_is_there_and_as_long_as_expected(file: str, profile: str | None) -> None:
    lock = load_study(STUDY / file, profile=profile, kits=kit_options(), check_lab=find_mistakes)
    for case in lock.valid_cases:
        config = resolve(lock, case)
        [server] = [service for service in config.services if service.name == "server"]
        asked = server.options["build"].get("args", "").partition("FILES=")[2].split()
        made = server.options.get("files", {})
        assert made or file == "new.yaml", "who makes accounts reads no file"
        there = own_script("target/make_files").wanted(asked) if made == "${build}/files" else made
        [group] = config.groups
        turns = group.request.dialogue
        assert turns[-1].until_close
        if file == "new.yaml":
            continue
        rows = [row for table in config.tables if table.numbers for row in table.numbers] or [0]
        for row in rows:
            name = written(turns[2].send or (), row).strip()
            assert turns[3].expect == f"file {there[name]}\n"


def test_files_are_as_long_as_it_says(tmp_path: Path) -> None:
    own_script("target/make_files").main(tmp_path / "files", ["a=10", "b=3000000*2"])
    made = {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    assert {name: len(text) for name, text in made.items()} == {"a": 10, "b-0": 3_000_000, "b-1": 3_000_000}
    assert made["b-0"] != made["b-1"]


run = packed(STUDY / "example/file-server-short.svload.zip")


@pytest.fixture(scope="module")
def findings(run: RunDir) -> Findings:
    return api.runs.analyse(run)


def readme() -> str:
    return words_of(STUDY / "README.md")


def test_it_is_whole(run: RunDir, findings: Findings) -> None:
    check_whole(run, findings, 147)
    assert "147 trials in 29 minutes" in readme()


def test_sending_the_file_leads_from_500_kb_on(run: RunDir) -> None:
    """Over all users of a size; at 500 KB single cases have some 200 samples, and one of seven differs."""
    callgraph = own_script("callgraph")
    at = list(callgraph.HEAD).index("paper: upload_file")
    agree = dict.fromkeys(("1KB", "10KB", "50KB", "500KB", "1MB", "50MB", "500MB"), 0)
    for line in callgraph.rows(run):
        agree[line[1].split()[0]] += line[at] == "agrees"
    assert agree == {"1KB": 0, "10KB": 0, "50KB": 0, "500KB": 6, "1MB": 7, "50MB": 7, "500MB": 7}


def test_both_scripts_tables_stand_side_by_side(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    tables, callgraph = own_script("tables"), own_script("callgraph")
    first = callgraph.table([run])
    assert first is not None
    made = tables.table([api.read_findings(run)], [run.lock()])
    assert len(made.rows) == 7
    monkeypatch.setattr(api, "report", lambda run: None)  # takes half a minute; tests/report checks it
    callgraph.put_beside(run, [first], "callgraph.py")
    callgraph.put_beside(run, [made], "tables.py")
    callgraph.put_beside(run, [first], "callgraph.py")
    assert [one.title for one in api.read_tables(run.tables_path)] == [made.title, first.title]


PACKS = {"new-short": 27, "different-demo": 54, "mended-short": 36}


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[RunDir, Findings]]:
    """Return the three runs of the studies beside it."""
    files = {name: STUDY / f"example/file-server-{name}.svload.zip" for name in PACKS}
    opened = {name: open_pack(file, tmp_path_factory.mktemp(name)) for name, file in files.items()}
    return {name: (run, api.read_findings(run)) for name, run in opened.items()}


def test_the_three_others_are_whole(others: dict[str, tuple[RunDir, Findings]]) -> None:
    for name, (run, findings) in others.items():
        check_whole(run, findings, PACKS[name])
        assert f"({PACKS[name]} trials, " in readme()


def test_the_readme_shows_what_their_tables_say(others: dict[str, tuple[RunDir, Findings]]) -> None:
    tables = own_script("tables")
    made = {name: tables.table([findings], [run.lock()]) for name, (run, findings) in others.items()}
    forks, gains = tables.forks_table(*others["new-short"]), tables.gains_table(others["mended-short"][1])
    kept = [made["new-short"], forks, made["different-demo"], gains]
    assert [len(one.rows) for one in kept] == [1, 2, 6, 5]
    check_readme(STUDY, *kept)


@pytest.mark.parametrize(
    ("value", "state", "theirs", "expected"),
    [
        (5.0, "bracketed", "4", "agrees"),
        (4.0, "below", "4", "ours not bracketed"),
        (4.0, "bracketed", "", "not in the paper"),
    ],
)
def test_bracketed_only(value: float, state: LimitState, theirs: str, expected: str) -> None:
    tables, found = own_script("tables"), LoadLimit(name="N*", value=value, state=state)
    assert tables.near(found, theirs) == expected
    assert ("not bracketed" in tables.limit(found)) == (state == "below")


SENDS = "fileserver;clone3;start_thread;serve;answer;answer_get;send_file;sendfile;tcp_sendmsg_[k]"
ASKS = "fileserver;clone3;start_thread;serve;answer;Authority::ask;LineReader::next;__poll"


def test_only_where_sending_takes_most_it_is_the_papers_function() -> None:
    """A sample belongs to its outermost step."""
    callgraph = own_script("callgraph")

    def stacks(folded: dict[str, int], why: str = "") -> Stacks:
        samples = sum(folded.values())
        return Stacks(service="server", rate_hz=99, window_s=1.0, samples=samples, folded=folded, why=why)

    shares = callgraph.steps({SENDS: 6, ASKS: 3, "fileserver;main;accept4@@GLIBC_2.10": 1})
    steps = ("sends the file", "asks the authentication server", "reads what is asked", "takes connections")
    assert [shares[step] for step in steps] == pytest.approx([0.6, 0.3, 0, 0.1])
    *_, step, agrees = callgraph.row("r", "1MB 32", stacks({SENDS: 6, ASKS: 3}))
    assert (step, agrees) == ("sends the file (by itself: tcp_sendmsg in the kernel)", "agrees")
    assert callgraph.row("r", "1KB 32", stacks({SENDS: 3, ASKS: 6}))[-1] == "differs"
    unmeasured = callgraph.row("r", "1KB 1", stacks({}, "perf is missing."))
    assert unmeasured[-2:] == ("perf is missing.", "not measured")


def test_the_functions_that_it_looks_for_are_in_the_source() -> None:
    source = "".join(path.read_text() for path in (STUDY / "target").glob("*.[ch]pp"))
    of_libraries = {"__send", "pthread_create", "accept4"}
    steps = own_script("callgraph").STEPS
    for name in {name for names in steps.values() for name in names} - of_libraries:
        assert name.rpartition("::")[2] + "(" in source, name
