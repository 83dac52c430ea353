"""The committed run of the fourth paper's study: it is whole, and its README states its results."""

from __future__ import annotations

from pathlib import Path

from tests.studies.scripts import check_readme, check_whole, packed, words_of

from svload import api
from svload.store import RunDir

STUDY = Path(__file__).parents[2] / "studies/004-swift-locust"


run = packed(STUDY / "example/swift-locust-short.svload.zip")


SHOWN = (
    "The paper's summary, ours beside it",
    "More users: which way it goes",
    "What the ramp does to the statistics",
)


def test_it_is_whole(run: RunDir) -> None:
    findings = api.runs.analyse(run)
    check_whole(run, findings, 12)
    assert {trial.verdict.instrument for trial in findings.trials} <= {"VALID", "WEAK"}
    assert "12 trials in 8 min 9 s, none of them refused" in words_of(STUDY / "README.md")


def test_the_readme_shows_what_its_tables_say(run: RunDir) -> None:
    """The tables are those of the pack: tables.py makes them from rows, which a thin pack lacks."""
    tables = {one.title: one for one in api.read_tables(run.tables_path)}
    assert len(tables) == 7
    check_readme(STUDY, *(tables[title] for title in SHOWN))
