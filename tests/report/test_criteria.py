"""Thresholds in words: like ones that were kept are one line, what failed or was not judged keeps its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.evolve import evolve

from svload.model.results import Findings, ThresholdResult
from svload.report.files.markdown import summary_markdown
from svload.report.told.criteria import (
    criterion_words,
    failed,
    kept,
    kept_lines,
    measured_words,
    open_or_failed,
)
from svload.report.told.numbers import Told
from svload.report.told.spelling import dimension_of, full_metric, metric_label, metric_words, split_metric

Reporter = Callable[[str], Any]
THAT = "probe.success_rate >= 99 %"


def judged(findings: Findings, outcomes: Mapping[str, str], measured: float | None = 1.0) -> Findings:
    thresholds = tuple(
        ThresholdResult(case=name, that=THAT, outcome=outcome, measured=measured, sentence=f"{name}: told.")
        for name, outcome in outcomes.items()
    )
    return evolve(findings, thresholds=thresholds)


def at(findings: Findings, **levels: str) -> list[str]:
    return [case.case for case in findings.cases if levels.items() <= case.levels.items()]


def test_like_thresholds_that_are_kept_are_one_line(reported: Reporter) -> None:
    findings = reported("plain").findings
    (line,) = kept(judged(findings, dict.fromkeys(at(findings), "passed")))
    assert line.text == f"probe.success_rate ≥ 99 %: holds in all {len(findings.cases)} cases (100 % in each)"
    assert len(line.cases) == len(findings.cases)


def test_cases_that_share_levels_are_named_by_them(reported: Reporter) -> None:
    findings = reported("plain").findings
    named = at(findings, protocol="https")
    (line,) = kept(judged(findings, dict.fromkeys(named, "passed")))
    assert line.where == f"all {len(named)} cases with protocol: https"
    (line,) = kept(judged(findings, dict.fromkeys(named[:-1], "passed")))
    assert line.where == f"{len(named) - 1} cases: {' and '.join(named[:-1])}", "not all of them: by name"
    (line,) = kept(judged(findings, {named[0]: "passed"}))
    assert line.where == named[0]


def test_those_that_hold_everywhere_are_one_line_the_longest_wording_first(reported: Reporter) -> None:
    findings = judged(reported("plain").findings, {"TC0": "passed", "TC1": "passed"})
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


def test_what_was_measured_is_told_as_a_range(reported: Reporter) -> None:
    findings = judged(reported("plain").findings, {"TC0": "passed", "TC1": "passed"})
    low = evolve(findings.thresholds[0], measured=0.994)
    (line,) = kept(evolve(findings, thresholds=(low, findings.thresholds[1])))
    assert line.measured == "99.4 % to 100 %"


def test_what_the_server_s_state_fails_says_so_beside_a_value_within_the_limit(reported: Reporter) -> None:
    findings = judged(reported("plain").findings, {"TC0": "failed", "TC1": "failed"})
    by_value = findings.thresholds[0]
    by_state = evolve(by_value, overloaded=True)
    for one, told in ((by_value, "100 %"), (by_state, "100 %, OVERLOADED")):
        (line,) = failed(evolve(findings, thresholds=(one,)))
        assert line.text == f"probe.success_rate ≥ 99 %: failed in TC0 ({told})"
        assert measured_words(Told(findings), one) == told
    both = (by_state, evolve(by_state, case="TC1", measured=0.995))
    (line,) = failed(evolve(findings, thresholds=both))
    assert line.measured == "99.5 % to 100 %, OVERLOADED"


@pytest.mark.parametrize("outcome", ["failed", "refused", "no value"])
def test_what_was_not_kept_stands_alone(reported: Reporter, outcome: str) -> None:
    findings = reported("plain").findings
    names = at(findings)
    found = judged(findings, {**dict.fromkeys(names, "passed"), names[1]: outcome, names[2]: "failed"})
    assert open_or_failed(found)[0].outcome == "failed"
    assert {one.case for one in open_or_failed(found)} == {names[1], names[2]}
    text = summary_markdown(found)
    assert f"| {names[1]} | {criterion_words(THAT)} | 100 % |" in text
    assert f"- ✓ probe.success_rate ≥ 99 %: holds in {len(names) - 2} cases: {names[0]}" in text


def test_the_summary_has_no_row_for_each_kept_threshold(reported: Reporter) -> None:
    findings = reported("plain").findings
    text = summary_markdown(judged(findings, dict.fromkeys(at(findings), "passed")))
    assert text.count("probe.success_rate ≥ 99 %") == 1
    assert "told." not in text


def test_a_metric_with_a_limit_reads_in_words(reported: Reporter) -> None:
    findings = reported("plain").findings
    limited = "probe.goodput(200 ms)"
    assert split_metric(limited) == ("probe", "goodput(200 ms)", "")
    assert dimension_of(limited) == "rate_rps"
    assert (metric_label(limited), metric_words(limited)) == (
        "probe: goodput within 200 ms",
        "the goodput within 200 ms of probe",
    )
    assert full_metric(findings, "goodput(0.2 s)") == limited
    passed = [
        evolve(one, that="goodput(0.2 s) >= 5/s")
        for one in judged(findings, {"TC0": "passed"}, 9.0).thresholds
    ]
    (line,) = kept(evolve(findings, thresholds=tuple(passed)))
    assert line.measured == "9/s"
