"""A server that went away while it was loaded: found by what clients saw, its healthy part kept apart, exit 1."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from tests.analysis.conftest import Bench, with_group, with_table

from svload.analysis.judge import judge_run, judge_trial, trial_cut
from svload.analysis.outages import outages_of
from svload.model.errors import ExitCode
from svload.model.request_errors import ERRORS
from svload.report.files.junit import junit_xml
from svload.report.told.answer import answer, headline
from svload.report.told.ending import criteria_ending
from svload.store import TrialData

GROUP = "probe"


def gone(
    trial: TrialData, since_s: float, until_s: float | None, error: str = "connect_refused"
) -> TrialData:
    """The trial of which every request of a group that was due in this time failed so."""
    high_s = until_s or float("inf")
    group, interval_s = trial.group_index(GROUP), trial.summary.interval_ns / 1e9
    due_s = trial.samples["due_ns"] / 1e9
    hit = (trial.samples["group"] == group) & (due_s >= since_s) & (due_s < high_s)
    errors = np.where(hit, ERRORS.index(error), trial.samples["error"]).astype("u2")
    table = trial.intervals
    at_s = table["interval"] * interval_s
    mine = (table["group"] == group) & (at_s >= since_s) & (at_s < high_s)
    ok = np.where(mine, 0, table["ok"])
    failed = table["failed"] + table["ok"] - ok
    count = int((table["ok"] - ok).sum())
    trial = with_table(with_table(trial, "samples", error=errors), "intervals", ok=ok, failed=failed)
    return with_group(
        trial,
        GROUP,
        errors={error: count},
        ok=lambda old: old - count,
        failed=lambda old: old + count,
    )


def ends_s(trial: TrialData) -> tuple[float, float]:
    low, high = trial.summary.window_ns
    return low / 1e9, high / 1e9


def test_a_server_that_is_gone_to_the_end_is_told_with_its_healthy_part(closed: Bench) -> None:
    trial = closed.trial("TC1.r1")
    low, high = ends_s(trial)
    config, since = closed.config(trial), low + 0.4 * (high - low)
    whole, found = judge_trial(trial, config), judge_trial(gone(trial, since, None), config)
    (one,) = found.outages
    assert one.since_s == pytest.approx(since, abs=0.2)
    assert one.until_s is None
    assert one.sentence.startswith(
        f"server gone since {one.since_s:.1f} s (connection refused until the end)"
    )
    p50, before = (result.metrics[f"{GROUP}.response.p50"] for result in (found, whole))
    assert p50.value == pytest.approx(before.value, rel=0.1), "of the part before: no percentile is “failed”"
    assert p50.n < before.n
    success = found.metrics[f"{GROUP}.success_rate"].value
    assert success < 0.9, "success is of all requests"
    assert whole.outages == ()


def test_healthy_seconds_are_no_warm_up(closed: Bench) -> None:
    trial = closed.trial("TC1.r1")
    low, high = ends_s(trial)
    config = closed.config(trial)
    plain = trial_cut(trial, config).cut_ns
    for until in (None, low + 0.7 * (high - low)):
        assert trial_cut(gone(trial, low + 0.5 * (high - low), until), config).cut_ns <= plain + 1e9


def test_one_that_came_back_is_told_from_when_to_when(closed: Bench) -> None:
    trial = closed.trial("TC1.r1")
    low, high = ends_s(trial)
    since, until = low + 0.2 * (high - low), low + 0.8 * (high - low)
    found = judge_trial(gone(trial, since, until), closed.config(trial))
    (one,) = found.outages
    assert one.until_s == pytest.approx(until, abs=0.3)
    assert "then back: it was started again" in one.sentence


def test_other_failures_are_no_outage(closed: Bench) -> None:
    trial = closed.trial("TC1.r1")
    low, high = ends_s(trial)
    config = closed.config(trial)
    assert outages_of(trial, config) == ()
    assert outages_of(gone(trial, (low + high) / 2, None, "timeout_first_byte"), config) == ()
    assert outages_of(gone(trial, (low + high) / 2, (low + high) / 2 + 0.2), config) == (), "too short"


@pytest.mark.parametrize(("error", "is_gone"), [("connect_refused", True), ("timeout_first_byte", False)])
def test_a_server_that_went_before_the_load(closed: Bench, error: str, is_gone: bool) -> None:
    trial = closed.trial("TC1.r1")
    lost = gone(trial, 0.0, None, error)
    lost = with_group(lost, GROUP, errors={error: 1})
    found = judge_trial(lost, closed.config(trial))
    assert [one.until_s for one in found.outages] == [None] * is_gone
    assert found.metrics[f"{GROUP}.success_rate"].value == 0


def test_it_leads_the_answer_fails_in_junit_and_ends_with_1(closed: Bench) -> None:
    trials = [
        gone(one, 0.5 * sum(ends_s(one)), None) if one.trial == "TC1.r1" else one for one in closed.trials()
    ]
    findings = judge_run(closed.lock, closed.configs, trials)
    told = next(one for one in findings.findings if one.kind == "gone")
    assert "In 1 of 2 trials of TC1: server gone since" in told.sentence
    assert answer(findings).first[0].text == told.sentence
    assert headline(findings) == told.sentence
    assert criteria_ending(findings).code is ExitCode.THRESHOLD_FAILED
    case = next(
        one
        for one in ElementTree.fromstring(junit_xml(findings)).iter("testcase")
        if one.attrib["name"] == "TC1.r1"
    )
    failure = case.find("failure")
    assert failure.attrib["type"] == "gone"
