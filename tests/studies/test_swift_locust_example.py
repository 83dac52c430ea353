"""The committed run of the fourth paper's study: it is whole, and its README states its results."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.studies.scripts import packed, rows_of, words_of

from svload import api
from svload.api import OwnTable
from svload.model.results import Findings
from svload.store import RunDir, verify_run

STUDY = Path(__file__).parents[2] / "studies/004-swift-locust"


run = packed(STUDY / "example/swift-locust-short.svload.zip")


@pytest.fixture(scope="module")
def findings(run: RunDir) -> Findings:
    return api.runs.analyse(run)


@pytest.fixture(scope="module")
def tables(run: RunDir) -> dict[str, OwnTable]:
    """Return the tables of tables.py from the pack: they are made from rows, which a thin pack lacks."""
    return {one.title: one for one in api.read_tables(run.tables_path)}


def readme() -> str:
    return words_of(STUDY / "README.md")


def test_it_is_whole(run: RunDir, findings: Findings) -> None:
    assert verify_run(run) == []
    assert findings.complete
    assert findings.sealed_trials == 12
    assert {trial.verdict.instrument for trial in findings.trials} <= {"VALID", "WEAK"}
    assert "12 trials in 8 min 9 s, none of them refused" in readme()


def test_the_readme_shows_what_its_tables_say(tables: dict[str, OwnTable]) -> None:
    shown = (STUDY / "README.md").read_text(encoding="utf-8")
    assert len(tables) == 7
    for title in (
        "The paper's summary, ours beside it",
        "More users: which way it goes",
        "What the ramp does to the statistics",
    ):
        assert rows_of(tables[title]) in shown, f"{title}: make the README's table anew by tables.py"
