"""A run of which no time and no rate can be used says so before what it may say, and ends with 0 only where the
study asks for something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.evolve import evolve
from tests.report.conftest import Shown
from tests.report.test_criteria import judged
from tests.report.told_facts import doubted

from svload import api
from svload.model.capacity import CapacityResult
from svload.model.errors import ExitCode
from svload.model.results import Estimate, Findings
from svload.report.data.gather import gather
from svload.report.files.markdown import summary_markdown
from svload.report.page.render import render_page
from svload.report.terminal.tables import show_findings
from svload.report.told.answer import answer, headline
from svload.report.told.ending import ending, exit_line
from svload.report.told.spelling import split_metric
from svload.report.told.usable import no_times_line

Reporter = Callable[[str], Any]
LINE = "No response time and no rate of this run can be used: the machine stalled."
SUCCESS = "probe.success_rate"


def without_times(findings: Findings, spare: str = "") -> Findings:
    """A study that asks for success alone, and whose every time and rate is REFUSED; `spare`: but this one."""
    times = {
        key: "REFUSED"
        for key in findings.trials[0].metrics
        if split_metric(key)[1] in ("response", "throughput") and key != spare
    }
    found = doubted(findings, {trial.trial: times for trial in findings.trials})
    cases = tuple(evolve(case, asked=(SUCCESS,), instrument="VALID", refused=()) for case in found.cases)
    return evolve(found, cases=cases, claims=(), findings=(), thresholds=())


@pytest.fixture
def plain(reported: Reporter) -> Findings:
    findings: Findings = reported("plain").findings
    return findings


def test_it_is_found_where_no_time_can_be_used_and_only_there(plain: Findings) -> None:
    refused = without_times(plain)
    assert no_times_line(refused) == LINE
    assert no_times_line(plain) == no_times_line(doubted(plain, {})) == ""
    for spare in ("probe.response.p50", "probe.throughput"):
        assert no_times_line(without_times(plain, spare)) == "", spare
    beyond = tuple(
        evolve(case, metrics=case.metrics | {"probe.response.p50": Estimate(value=None, why="time-out")})
        for case in refused.cases
    )
    assert no_times_line(evolve(refused, cases=beyond)) == "", "fails any limit"


def test_it_stands_before_a_threshold_on_success_that_holds(
    reported: Reporter, plain: Findings, shown: Shown
) -> None:
    findings = judged(without_times(plain), {case.case: "passed" for case in plain.cases})
    held = "1 threshold holds: probe.success_rate ≥ 99 %"
    assert headline(findings) == f"{LINE} {held}."
    assert answer(findings).first[0].text == LINE
    printed = " ".join(shown(show_findings, findings, {}, code=api.verdict_exit(findings)).split())
    page = render_page(gather(reported("plain").run, findings))[0]
    for text in (printed, page):
        assert text.index(LINE) < text.index(held)
        assert (
            "No response time and no rate can be used; the numbers that the study asks for (ok) are reliable"
            in text
        )
    assert "exit 0: 1 threshold holds" in printed, "success is judged whatever disturbed the times"
    assert LINE in summary_markdown(findings)
    clean = judged(doubted(plain, {}), {case.case: "passed" for case in plain.cases})
    assert "can be used" not in headline(clean)
    assert "can be used" not in render_page(gather(reported("plain").run, clean))[0]


def test_a_failed_threshold_on_success_still_leads(plain: Findings) -> None:
    findings = judged(without_times(plain), {"TC0": "failed"}, 0.668)
    assert headline(findings).startswith("probe.success_rate ≥ 99 %: failed in TC0 (66.8 %)")
    assert [one.text for one in answer(findings).first][1] == LINE
    assert api.verdict_exit(findings) == ExitCode.THRESHOLD_FAILED


def test_a_study_that_asks_for_its_numbers_alone_does_not_end_with_0(plain: Findings) -> None:
    refused, clean = (
        without_times(plain),
        evolve(doubted(plain, {}), claims=(), thresholds=()),
    )
    assert api.verdict_exit(refused) == ExitCode.REFUSED
    assert (
        exit_line(refused, ExitCode.REFUSED)
        == "exit 4: could not decide: no response time and no rate can be used"
    )
    assert summary_markdown(refused).startswith("## ? ")
    assert api.verdict_exit(clean) == ExitCode.DONE
    assert exit_line(clean, ExitCode.DONE) == "exit 0: the study has no threshold and no gate"


@pytest.mark.parametrize(
    ("outcomes", "code", "told"),
    [
        ({"TC0": "passed", "TC1": "passed"}, ExitCode.DONE, "exit 0: 1 threshold holds"),
        ({"TC0": "passed", "TC1": "failed"}, ExitCode.THRESHOLD_FAILED, "exit 1: 1 threshold failed"),
        (
            {"TC0": "refused", "TC1": "passed"},
            ExitCode.REFUSED,
            "exit 4: could not decide: 1 threshold is undecided",
        ),
        ({"TC0": "failed"}, ExitCode.DONE, "exit 0: the run is complete, but 1 threshold failed"),
        ({"TC0": "failed"}, ExitCode.LAB_FAILED, "exit 3: the lab or the machine failed"),
        ({"TC0": "failed"}, ExitCode.INTERRUPTED, "exit 130: interrupted"),
    ],
)
def test_an_exit_code_is_told_with_its_reason(
    plain: Findings, outcomes: dict[str, str], code: ExitCode, told: str
) -> None:
    findings = judged(evolve(plain, claims=()), outcomes)
    assert exit_line(findings, code) == told
    if code in (ExitCode.THRESHOLD_FAILED, ExitCode.REFUSED):
        assert ending(findings).code is code


def test_a_search_and_what_was_kept_beside_it_are_both_told(plain: Findings) -> None:
    search = CapacityResult(over="users", state="found", limit=12.0, low=8, high=16, sentence="12 users.")
    alone = evolve(plain, claims=(), thresholds=(), capacity=search)
    assert exit_line(alone, ExitCode.DONE) == "exit 0: the search found its answer"
    told = exit_line(judged(alone, {"TC0": "passed"}), ExitCode.DONE)
    assert told == "exit 0: the search found its answer and 1 threshold holds"


def test_where_only_what_is_not_asked_for_is_doubted_it_says_what_is(plain: Findings) -> None:
    found = doubted(plain, {trial.trial: {"probe.response.p99": "WEAK"} for trial in plain.trials})
    asked = (SUCCESS, "cache.hit_ratio")
    cases = tuple(evolve(one, asked=asked, instrument="VALID") for one in found.cases)
    told = [one.text for one in answer(evolve(found, cases=cases, claims=())).unsaid]
    assert (
        "The numbers that the study asks for (ok and cache hits) are reliable; other numbers are rough (~)."
        in told
    )
