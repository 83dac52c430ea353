"""Shared runs are made once for a state of the code that acts in a run, and again for another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.shared import CODE, _key, shared_run

from svload.store import RunDir

STUDY = """\
name: shared
lab: {store: {kit: truth, role: store}}
traffic: {users: {executor: constant-vus, vus: 1, request: GET http://store/info}}
measure: {duration: 0.2s}
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The code, to be changed."""
    shutil.copytree(
        CODE / "svload", tmp_path / "src" / "svload", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path / "src"


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


@pytest.mark.truth
def test_a_run_is_made_once_and_again_when_the_journal_is_written_otherwise(tmp_path: Path) -> None:
    """What another writer writes must not be hidden by a run that the usual one made."""
    kept = tmp_path / "kept"
    runs = [shared_run(tmp_path / name, STUDY, kept=kept) for name in ("one", "two")]
    seals = [(run / "trials" / RunDir(run).sealed_trials()[0] / "seal.json").read_bytes() for run in runs]
    assert seals[0] == seals[1]
    assert len([path for path in kept.iterdir() if path.is_dir()]) == 1
    assert not (runs[0] / "derived").exists()
    shutil.rmtree(runs[0] / "trials")
    assert shared_run(tmp_path / "three", STUDY, kept=kept).joinpath("trials").is_dir()

    changed = tmp_path / "changed"
    shutil.copytree(CODE / "svload", changed / "svload", ignore=shutil.ignore_patterns("__pycache__"))
    edit(changed / "svload/store/journal.py", '"backslashreplace") + b', '"backslashreplace") + b" " + b')
    spaced = shared_run(tmp_path / "four", STUDY, code=changed, kept=kept)
    assert b" \n" in (spaced / "events.jsonl").read_bytes()
    assert b" \n" not in (runs[1] / "events.jsonl").read_bytes()
    assert len([path for path in kept.iterdir() if path.is_dir()]) == 2


@pytest.mark.parametrize(
    ("file", "again"),
    [
        ("store/journal.py", True),
        ("drive/generator.py", True),
        ("_native.abi3.so", True),
        ("analysis/judge.py", False),
        ("report/page/view.py", False),
        ("cli/main.py", False),
    ],
)
def test_what_acts_in_a_run_makes_it_again(tmp_path: Path, file: str, again: bool) -> None:
    assert (CODE / "svload" / file).is_file()
    keys = []
    for name in ("one", "other"):
        path = tmp_path / name / "svload" / file
        path.parent.mkdir(parents=True)
        path.write_text(name)
        keys.append(_key(STUDY, (), tmp_path / name))
    assert (keys[0] != keys[1]) == again


def test_a_study_and_its_words_make_a_run_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study/study.yaml").write_text(STUDY)
    asked = [(STUDY, ()), (STUDY + "#", ()), (STUDY, ("--only", "a")), (tmp_path / "study", ())]
    keys = [_key(study, words, CODE) for study, words in asked]
    (tmp_path / "study/objects.csv").write_text("path\n")
    assert len({*keys, _key(tmp_path / "study", (), CODE)}) == 5
