"""A run whose files aren't regular files, or aren't artefacts, is damaged; reading it never blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.model.study import Lock
from svload.store import find_run, unfinished_runs


def refusal(lock: Path) -> str:
    with pytest.raises(SvloadError) as found:
        Lock.read(lock)
    (problem,) = found.value.problems
    assert problem.code == "run-damaged"
    assert len(problem.sentence) < 600
    return str(problem)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format": 1, "source": ' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "}",
        '{"format": 1e999}',
        '{"format": ' + "9" * 5_000 + "}",
        '{"format": 1, "name": {"' + "x" * 9_000 + '": 1}}',
        "[]",
        "",
        '{"format": 1, "' + "x" * 9_000 + '": 1}',
    ],
    ids=["deep list", "deep source", "infinite", "digits", "long", "list", "empty", "long key"],
)
def test_an_invalid_lock(text: str, tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text(text)
    refusal(tmp_path / "lock.json")


def test_a_pipe_as_lock_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "study.lock.json")
    assert "not a regular file" in refusal(tmp_path / "study.lock.json")
    with pytest.raises(SvloadError):
        find_run(str(tmp_path), tmp_path.parent)


def test_a_pipe_in_a_run_is_not_waited_for(tmp_path: Path) -> None:
    run = tmp_path / "x-1"
    (run / "plan").mkdir(parents=True)
    (run / "study.lock.json").write_text("{}")
    os.mkfifo(run / "plan" / "000.json")
    with pytest.raises(SvloadError, match="not a regular file"):
        find_run("x-1", tmp_path)
    assert unfinished_runs(tmp_path) == []
