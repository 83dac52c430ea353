"""`svload verify` names whatever is removed from a run, added or changed, once."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.servers import completed
from tests.support import make_run

from svload import api
from svload.model.errors import SvloadError
from svload.model.events import Event
from svload.store import Journal, RunDir, changed_since_sealed, verify_run
from svload.store.seal import altered_reports, journal_mark, sha256_file


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """Make a synthetic run whose journal records its seals, like that of a real one."""
    run = make_run(tmp_path_factory.mktemp("made"), cases=2, replicates=2)
    with Journal(run.events) as journal:
        journal.write(Event("placement", {"sha256": sha256_file(run.placement_path)}))
        for name in run.sealed_trials():
            digest = sha256_file(run.trial(name).seal)
            journal.write(Event("trial-sealed", {"trial": name, "seal_sha256": digest}))
        journal.write(Event("run-ended", {"journal": journal_mark(run)}))
    return run


@pytest.fixture
def run(made: RunDir, tmp_path: Path) -> RunDir:
    return RunDir(Path(shutil.copytree(made.path, tmp_path / made.name)))


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def wrong(run: RunDir) -> None:
    """Make findings that contradict a trial."""
    rewrite(run.findings_path, '"instrument": "VALID"', '"instrument": "REFUSED"')


def spoiled(old: str, new: str) -> Callable[[Path], None]:
    return lambda path: rewrite(path, old, new)


def reseal(seal: Path) -> None:
    """Change a file of a trial, and its digest in the seal with it."""
    lab = seal.parent / "lab.json"
    rewrite(lab, '"services"', ' "services"')
    sealed = json.loads(seal.read_text())
    sealed["files"]["lab.json"] = sha256_file(lab)
    seal.write_text(json.dumps(sealed))


TAMPERED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the lock": ("study.lock.json", spoiled('"seed"', ' "seed"')),
    "the plan": ("plan/000.json", spoiled('"because"', ' "because"')),
    "no plan": ("plan/000.json", Path.unlink),
    "a table": ("trials/TC1.r2/summary.json", spoiled("TC1.r2", "TC1.r3")),
    "a file more": ("trials/TC1.r2/x", Path.touch),
    "no seal": ("trials/TC0.r2/seal.json", Path.unlink),
    "no trial": ("trials/TC0.r2/seal.json", lambda seal: shutil.rmtree(seal.parent)),
    "another seal": ("trials/TC0.r1/seal.json", reseal),
    "the certificates": ("certificates.json", spoiled("{", "{ ")),
    "the placement": ("placement.json", spoiled("{", "{ ")),
    "no placement": ("placement.json", Path.unlink),
    "what the journal held first": ("events.jsonl", spoiled("wall", "Wall")),
    "what a seal says of the plan": (
        "trials/TC0.r1/seal.json",
        spoiled('"plan_sha256": {', '"plan_sha256": [0], "x": {'),
    ),
    "what the journal told of a seal": ("events.jsonl", spoiled("trial-sealed", "trial-seales")),
    "no journal": ("events.jsonl", Path.unlink),
    "a trial of another name": ("trials/TC0.r9", lambda new: shutil.copytree(new.parent / "TC0.r1", new)),
}


def tamper(run: RunDir, what: str) -> str:
    """Damage the run in this way; return the path that `verify` must name."""
    path, change = TAMPERED[what]
    change(run.path / path)
    return path


def damaged(run: RunDir) -> list[str]:
    return [str(Path(str(problem.details["path"])).relative_to(run.path)) for problem in verify_run(run)]


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_tampered_with_is_named(run: RunDir, what: str) -> None:
    path = tamper(run, what)
    named = damaged(run)
    assert path in named
    others = {one for one in named if not one.startswith(path)}
    assert others == set() or what == "no plan", "trials that no batch planned"


TORN = ('{"kind":"notice","data":{"te', "\0\0\0\0", '{"kind":7}')
STARTED, NOTICE = (Event(kind, {"text": "x"}).to_json() for kind in ("run-started", "notice"))


@pytest.mark.parametrize("torn", TORN)
@pytest.mark.parametrize(
    ("after", "is_damage"),
    [
        (f"\n{NOTICE}\n", True),
        ("\n", True),
        (f"\n{{\n{STARTED}\n", True),
        ("", False),
        (f"\n{STARTED}\n", False),
        (f"\n{STARTED}\n{{", False),
    ],
    ids=["event", "end", "torn", "last", "next", "twice"],
)
def test_a_line_that_no_crash_tore_is_damage(run: RunDir, torn: str, after: str, is_damage: bool) -> None:
    line = run.events.read_bytes().count(b"\n") + 1
    with run.events.open("a") as file:
        file.write(torn + after)
    found = verify_run(run)
    assert [(one.code, one.details["path"]) for one in found] == [("run-damaged", run.events)] * is_damage
    assert all(f"line {line} " in str(one) for one in found)
    assert bool(changed_since_sealed(run)) == is_damage


BESIDE = ["a table", "a file more", "another seal", "no journal", "the certificates"]


@pytest.mark.parametrize("unreadable", ["placement.json", "study.lock.json", "plan/000.json"])
@pytest.mark.parametrize(
    ("how", "others"), [("{", BESIDE), ('{"format": 1, "x', BESIDE), ("{", ["no trial", "another seal"])]
)
def test_one_damage_hides_no_other(run: RunDir, unreadable: str, how: str, others: list[str]) -> None:
    (run.path / unreadable).write_text(how)
    expected = {unreadable, *(tamper(run, what) for what in others)}
    if "no journal" in others:  # nothing else shows that a seal is not the original
        expected.remove("trials/TC0.r1/seal.json")
    named = damaged(run)
    assert expected <= set(named)
    assert named.count(unreadable) == 1


@pytest.mark.parametrize(
    "what", ["no trial", "no seal", "no journal", "another seal", "what the journal held first"]
)
def test_a_sealed_trial_that_is_gone_is_not_measured_again(run: RunDir, what: str) -> None:
    tamper(run, what)
    assert {problem.code for problem in changed_since_sealed(run)} == {"run-damaged"}
    with pytest.raises(SvloadError) as caught:
        api.resume(str(run.path), api.Choices(), lambda event: None)
    assert {problem.code for problem in caught.value.problems} == {"run-damaged"}


def test_the_inputs_are_held_by_the_seals(run: RunDir) -> None:
    """A table is changed, with its digest beside it or without: the seals were made under the other one."""
    (table,) = run.inputs.glob("*.csv")
    table.write_bytes(table.read_bytes() + b"\n")
    (problem,) = verify_run(run)
    assert problem.details["path"] == table
    table.unlink()
    (problem,) = verify_run(run)
    assert "missing" in str(problem)


def test_edited_findings_are_regenerated_and_reported(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    api.analyse(run)
    assert api.verify(str(run.path))["made_again"] == []
    wrong(run)
    checked = api.verify(str(run.path))
    assert checked["damage"] == []
    (words,) = checked["made_again"]
    assert "findings.json did not match the sealed trials" in words
    assert api.verify(str(run.path))["made_again"] == []
    monkeypatch.setattr("svload.api.runs.analyse", lambda *_: pytest.fail("made again"))
    assert api.read_findings(run).sealed_trials
    assert api.query(str(run.path), "select 1")[1] == [(1,)]


def test_a_report_that_is_not_as_it_was_written_is_named(run: RunDir) -> None:
    """Any change of it is reported, by one byte or to nothing; a deleted file misleads nobody."""
    _, files = api.report(run)
    assert api.verify(str(run.path))["altered"] == []
    files.pop("findings.json")  # regenerated from the rest
    wanted = {"report.html", "report.xlsx", "junit.xml", "summary.md", "probe.parquet", "checks.parquet"}
    assert wanted <= set(files)
    for number, path in enumerate(files.values()):
        whole = path.read_bytes()
        path.write_bytes(b"" if number % 2 else whole[:-1] + bytes([whole[-1] ^ 1]))
        assert altered_reports(run) == [path]
        path.write_bytes(whole)
        assert altered_reports(run) == []
    path.write_bytes(b"")
    (words,) = api.verify(str(run.path))["altered"]
    assert words == f"{path} is not as svload wrote it; “svload report {run.path}” writes it again"
    path.unlink()
    assert api.verify(str(run.path))["altered"] == []


@pytest.mark.parametrize(
    "command", [("why", "TC0.r1", "--run"), ("report",), ("query",), ("export", "--format", "openmetrics")]
)
def test_what_rests_on_a_damaged_trial_says_so(run: RunDir, command: tuple[str, ...]) -> None:
    api.analyse(run)
    asked = [sys.executable, "-m", "svload", *command, str(run.path)]
    asked += ["select 1"] if command == ("query",) else []
    assert "damaged" not in completed(asked).stderr
    lab = run.trial("TC0.r1").lab
    lab.write_text(lab.read_text() + " ")
    assert f"{lab} is damaged: it changed after the trial was sealed" in completed(asked).stderr


@pytest.mark.parametrize(
    "spoil",
    [
        wrong,
        lambda run: run.findings_path.unlink(),
        lambda run: run.findings_digest_path.unlink(),
        lambda run: (wrong(run), run.findings_digest_path.unlink()),
        lambda run: run.findings_path.write_text("{"),
    ],
    ids=["verdict", "gone", "no digest", "both", "cut"],
)
def test_findings_are_never_believed_unseen(
    run: RunDir, tmp_path: Path, spoil: Callable[[RunDir], object]
) -> None:
    api.analyse(run)
    right = run.findings_path.read_text()
    ask = "select trial, instrument from verdicts order by trial"
    rows = api.query(str(run.path), ask)
    found = api.summary(str(run.path))
    assert len(rows[1]) == 4
    for read in (
        lambda: api.query(str(run.path), ask) == rows,
        lambda: api.read_findings(run).to_json() == right,
        lambda: api.summary(str(run.path)) == found,
    ):
        spoil(run)
        assert read()
        assert run.findings_path.read_text() == right
    spoil(run)
    packed = api.pack(str(run.path), tmp_path / "whole.zip")
    assert api.query(str(packed), ask)[1] == rows[1]
