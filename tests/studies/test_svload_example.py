"""The committed runs of the first paper's study: whole, and what its README says came out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.studies.scripts import packed, words_of

from svload import api
from svload.api import OwnTable
from svload.model.results import Findings
from svload.store import RunDir, verify_run

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "studies/001-svload"
README = words_of(STUDY / "README.md")


campaign = packed(STUDY / "packs/campaign.svload.zip")


@pytest.fixture(scope="module")
def findings(campaign: RunDir) -> Findings:
    return api.runs.read_findings(campaign)


first = packed(STUDY / "packs/first.svload.zip")


def table(run: RunDir, title: str) -> OwnTable:
    return next(one for one in api.read_tables(run.tables_path) if one.title.startswith(title))


def rows(run: RunDir, title: str) -> dict[tuple[str, ...], dict[str, str]]:
    """By its first two cells: each row as column → text."""
    found = table(run, title)
    return {row[:2]: dict(zip(found.head, row, strict=True)) for row in found.rows}


def test_the_campaign_is_whole(campaign: RunDir, findings: Findings) -> None:
    assert verify_run(campaign) == []
    assert findings.complete
    assert findings.sealed_trials == 320
    cases = {case.case for case in findings.cases if case.excluded is None}
    assert len(cases) == 40
    assert all(case.endswith((".default", ".final")) for case in cases)


def test_it_says_what_tuning_did_with_interval_and_counter(campaign: RunDir, findings: Findings) -> None:
    claims = {claim.name: claim for claim in findings.claims}
    assert claims["success"].outcome == "no difference"
    assert {claim.outcome for name, claim in claims.items() if name.startswith("tuning (")} == {"open"}
    times = {key[0]: row for key, row in rows(campaign, "Table VIII").items()}
    assert len(times) == 20
    assert {row["direction"] for row in times.values()} == {"ours not told apart"}
    for case in ("TC7", "TC19", "TC0"):
        assert times[case]["after / before"].replace(" (", ", ").rstrip(")") in README
    same = rows(campaign, "Fig. 5: is it")
    for service, of in (("cache", "CPU"), ("cache", "memory")):
        low, high = same[service, of]["after / before"].split("(")[1].rstrip(")").split(" to ")
        assert f"{100 * float(low) - 100:.0f} to {100 * float(high) - 100:.0f} %" in README
    assert same["backend", "memory"]["almost the same"] == "yes: any difference is below 2.8%"
    way = rows(campaign, "What gives way first")
    assert {row["before: queue, limit or counter"] for row in way.values()} == {"nothing"}
    refused = sum(trial.verdict.instrument == "REFUSED" for trial in findings.trials)
    assert f"{refused} trials are REFUSED" in README


def test_what_fails_first_is_in_the_readme_as_its_table_has_it(first: RunDir) -> None:
    assert verify_run(first) == []
    found = table(first, "What fails first")
    text = (STUDY / "README.md").read_text(encoding="utf-8")
    for line in found.markdown().splitlines():
        if line.startswith("|"):
            assert line in text, "make the README's table anew by tables.py"


def test_a_success_that_leaves_out_who_waited_is_refused(first: RunDir) -> None:
    """145 of 145 requests of the window were answered, and 3,772 of 4,145 of the load failed."""
    found = next(trial for trial in api.runs.read_findings(first).trials if trial.trial == "TC9.lab-final.r1")
    success = found.metrics["background.success_rate"]
    assert success.value == 1.0
    assert success.belief.grade == "REFUSED"
    check = next(one for one in found.verdict.checks if one.check == "carried-over")
    assert check.grade == "REFUSED"
    assert "3,772 of them failed" in check.sentence
