"""Thresholds in words, and the exit codes of runs whose thresholds fail or whose numbers can't be used."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.evolve import evolve
from tests.report.conftest import Reporter, Shown
from tests.report.wording_facts import doubted

from svload import api
from svload.model.capacity import CapacityResult
from svload.model.errors import ExitCode
from svload.model.results import Estimate, Findings, ThresholdResult
from svload.report.data.gather import gather
from svload.report.files.markdown import summary_markdown
from svload.report.page.view import render_page
from svload.report.terminal.tables import show_findings
from svload.report.wording.answer import answer, headline
from svload.report.wording.criteria import (
    Judged,
    criterion_words,
    failed,
    kept,
    kept_lines,
    measured_words,
    open_or_failed,
)
from svload.report.wording.doubts import no_times_line
from svload.report.wording.ending import ending, exit_line
from svload.report.wording.numbers import Numbers
from svload.report.wording.spelling import dimension_of, full_metric, metric_label, metric_words, split_metric

THAT = "probe.success_rate >= 99 %"


@pytest.fixture
def plain(reported: Reporter) -> Findings:
    return reported("plain").findings


def judged(findings: Findings, outcomes: Mapping[str, str], measured: float | None = 1.0) -> Findings:
    fields = {"that": THAT, "measured": measured, "sentence": "told."}
    thresholds = tuple(ThresholdResult(case=name, outcome=one, **fields) for name, one in outcomes.items())
    return evolve(findings, thresholds=thresholds)


def at(findings: Findings, **levels: str) -> list[str]:
    return [case.case for case in findings.cases if levels.items() <= case.levels.items()]


def test_like_thresholds_that_are_kept_are_one_line_with_the_cases_by_their_levels(plain: Findings) -> None:
    def line(*names: str) -> Judged:
        (found,) = kept(judged(plain, dict.fromkeys(names, "passed")))
        return found

    every, named = at(plain), at(plain, protocol="https")
    assert line(*every).text == f"probe.success_rate ≥ 99 %: holds in all {len(every)} cases (100 % in each)"
    assert len(line(*every).cases) == len(every)
    assert line(*named).where == f"all {len(named)} cases with protocol: https"
    assert line(*named[:-1]).where == f"{len(named) - 1} cases: {' and '.join(named[:-1])}", (
        "not all: by name"
    )
    assert line(named[0]).where == named[0]


def test_those_that_hold_everywhere_are_one_line_the_longest_wording_first(plain: Findings) -> None:
    findings = judged(plain, {"TC0": "passed", "TC1": "passed"})
    more = tuple(evolve(one, that="probe.success_rate >= 95 %") for one in findings.thresholds)
    both = evolve(findings, thresholds=(*findings.thresholds, *more))
    assert kept_lines(both) == (
        "2 thresholds hold: probe.success_rate ≥ 99 % (100 % in each), probe.success_rate ≥ 95 % (100 % in each)",
        "2 thresholds hold: probe.success_rate ≥ 99 %, probe.success_rate ≥ 95 %",
        "2 thresholds hold",
    )
    assert kept_lines(findings)[-1] == "1 threshold holds"
    for outcome in ("failed", "refused", "no value"):
        assert kept_lines(judged(findings, {"TC0": "passed", "TC1": outcome})) == (), "not in every case"


def test_a_failure_by_the_servers_state_is_explained_beside_a_kept_limit(plain: Findings) -> None:
    findings = judged(plain, {"TC0": "failed", "TC1": "failed"})
    by_value = findings.thresholds[0]
    by_state = evolve(by_value, overloaded=True)
    for one, expected in ((by_value, "100 %"), (by_state, "100 %, OVERLOADED")):
        (line,) = failed(evolve(findings, thresholds=(one,)))
        assert line.text == f"probe.success_rate ≥ 99 %: failed in TC0 ({expected})"
        assert measured_words(Numbers(findings), one) == expected
    both = (by_state, evolve(by_state, case="TC1", measured=0.995))
    (line,) = failed(evolve(findings, thresholds=both))
    assert line.measured == "99.5 % to 100 %, OVERLOADED"


@pytest.mark.parametrize("outcome", ["failed", "refused", "no value"])
def test_what_was_not_kept_stands_alone(plain: Findings, outcome: str) -> None:
    names = at(plain)
    found = judged(plain, {**dict.fromkeys(names, "passed"), names[1]: outcome, names[2]: "failed"})
    assert open_or_failed(found)[0].outcome == "failed"
    assert {one.case for one in open_or_failed(found)} == {names[1], names[2]}
    text = summary_markdown(found)
    assert f"| {names[1]} | {criterion_words(THAT)} | 100 % |" in text
    assert f"- ✓ probe.success_rate ≥ 99 %: holds in {len(names) - 2} cases: {names[0]}" in text


def test_a_metric_with_a_limit_reads_in_words(plain: Findings) -> None:
    limited = "probe.goodput(200 ms)"
    assert split_metric(limited) == ("probe", "goodput(200 ms)", "")
    assert dimension_of(limited) == "rate_rps"
    assert metric_label(limited) == "probe: goodput within 200 ms"
    assert metric_words(limited) == "the goodput within 200 ms of probe"
    assert metric_words("probe.response.p99.9") == "the p99.9 response of probe"
    assert (metric_words("throughput"), metric_words("nobody knows")) == ("the throughput", "nobody knows")
    assert full_metric(plain, "goodput(0.2 s)") == limited


LINE = "No response time and no rate of this run can be used: the machine stalled."
SUCCESS = "probe.success_rate"


def without_times(findings: Findings, spare: str = "") -> Findings:
    """Ask for success alone, and REFUSE every time and rate, except `spare`."""
    keys = [key for key in findings.trials[0].metrics if split_metric(key)[1] in ("response", "throughput")]
    times = {key: "REFUSED" for key in keys if key != spare}
    found = doubted(findings, {trial.trial: times for trial in findings.trials})
    cases = tuple(evolve(case, asked=(SUCCESS,), instrument="VALID", refused=()) for case in found.cases)
    return evolve(found, cases=cases, claims=(), findings=(), thresholds=())


def test_it_is_found_where_no_time_can_be_used_and_only_there(plain: Findings) -> None:
    refused = without_times(plain)
    assert no_times_line(refused) == LINE
    assert no_times_line(plain) == no_times_line(doubted(plain, {})) == ""
    for spare in ("probe.response.p50", "probe.throughput"):
        assert no_times_line(without_times(plain, spare)) == "", spare
    late = {"probe.response.p50": Estimate(value=None, why="time-out")}
    beyond = tuple(evolve(case, metrics=case.metrics | late) for case in refused.cases)
    assert no_times_line(evolve(refused, cases=beyond)) == "", "fails any limit"


def test_it_stands_before_a_passed_threshold(reported: Reporter, plain: Findings, shown: Shown) -> None:
    findings = judged(without_times(plain), {case.case: "passed" for case in plain.cases})
    held = "1 threshold holds: probe.success_rate ≥ 99 %"
    assert headline(findings) == f"{LINE} {held}." and answer(findings).first[0].text == LINE
    printed = " ".join(shown(show_findings, findings, {}, code=api.verdict_exit(findings)).split())
    page = render_page(gather(reported("plain").run, findings))[0]
    for text in (printed, page):
        assert text.index(LINE) < text.index(held)
        assert "no rate can be used; the numbers that the study asks for (ok) are reliable" in text
    assert "exit 0: 1 threshold holds" in printed, "success is judged whatever disturbed the times"
    assert LINE in summary_markdown(findings)
    clean = judged(doubted(plain, {}), {case.case: "passed" for case in plain.cases})
    page = render_page(gather(reported("plain").run, clean))[0]
    assert "can be used" not in headline(clean) + page


def test_a_failed_threshold_on_success_still_leads(plain: Findings) -> None:
    findings = judged(without_times(plain), {"TC0": "failed"}, 0.668)
    assert headline(findings).startswith("probe.success_rate ≥ 99 %: failed in TC0 (66.8 %)")
    assert [one.text for one in answer(findings).first][1] == LINE
    assert api.verdict_exit(findings) == ExitCode.THRESHOLD_FAILED


def test_a_study_that_asks_for_its_numbers_alone_does_not_end_with_0(plain: Findings) -> None:
    refused, clean = (without_times(plain), evolve(doubted(plain, {}), claims=(), thresholds=()))
    assert api.verdict_exit(refused) == ExitCode.REFUSED
    reason = "could not decide: no response time and no rate can be used"
    assert exit_line(refused, ExitCode.REFUSED) == f"exit 4: {reason}"
    assert summary_markdown(refused).startswith("## ? ")
    assert api.verdict_exit(clean) == ExitCode.DONE
    assert exit_line(clean, ExitCode.DONE) == "exit 0: the study has no threshold and no gate"


@pytest.mark.parametrize(
    ("outcomes", "code", "expected"),
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
def test_exit_code_reasons(plain: Findings, outcomes: dict[str, str], code: ExitCode, expected: str) -> None:
    findings = judged(evolve(plain, claims=()), outcomes)
    assert exit_line(findings, code) == expected
    if code in (ExitCode.THRESHOLD_FAILED, ExitCode.REFUSED):
        assert ending(findings).code is code


def test_a_search_and_what_was_kept_beside_it_are_both_reported(plain: Findings) -> None:
    search = CapacityResult(over="users", state="found", limit=12.0, low=8, high=16, sentence="12 users.")
    alone = evolve(plain, claims=(), thresholds=(), capacity=search)
    assert exit_line(alone, ExitCode.DONE) == "exit 0: the search found its answer"
    both = "exit 0: the search found its answer and 1 threshold holds"
    assert exit_line(judged(alone, {"TC0": "passed"}), ExitCode.DONE) == both
