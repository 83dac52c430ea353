"""The summary of one load: each request is in one bar, verdicts are the judge's, nulls have reasons."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.analysis.conftest import Bench, with_table
from tests.analysis.queues import with_gaps
from tests.evolve import evolve

from svload.analysis.judge import judge_trial
from svload.analysis.load_summary import _of_failed, histogram_bars, summarise_load
from svload.analysis.measures import GroupMeasures
from svload.analysis.sentences import late_bodies
from svload.analysis.view import GroupView, kept_window, look
from svload.api.load import hopeless
from svload.model.columns import HISTOGRAM_METRICS, bucket
from svload.model.load_summary import LoadSummary
from svload.model.request_errors import ERRORS
from svload.model.request_hints import HINTS, no_answer, nothing_sent
from svload.model.results import Estimate, TrialResult
from svload.model.study import CaseConfig
from svload.store import TrialData


def test_every_value_is_in_one_bar_and_bars_meet() -> None:
    values = [1_000, 5_000, 5_000, 70_000, 900_000, 12_000_000, 3_000_000_000]
    bars = list(histogram_bars(np.bincount([bucket(one) for one in values], minlength=1 << 13)))
    assert sum(bar.count for bar in bars) == len(values)
    assert all(before.to_ms == after.from_ms for before, after in pairwise(bars))
    for value in values:
        assert sum(bar.from_ms * 0.99 <= value / 1e6 < bar.to_ms * 1.01 for bar in bars) >= 1
    assert bars[0].from_ms <= 0.001
    assert bars[-1].to_ms >= 3000


def summarised(trial: TrialData, config: CaseConfig, result: TrialResult) -> LoadSummary:
    return summarise_load("http://x/", "in words", trial, config, result)


Judged = tuple[TrialData, CaseConfig, TrialResult]


@pytest.fixture(scope="module")
def steady(open_loop: Bench) -> Judged:
    trial, config = open_loop.trial("TC0.r1"), open_loop.configs["TC0"]
    return trial, config, judge_trial(trial, config)


def test_a_summary_says_what_the_judge_says(steady: Judged) -> None:
    trial, _, result = steady
    found, group = summarised(*steady), trial.summary.groups[0]
    assert found.model == "open loop"
    assert (found.due, found.ok, found.failed) == (group.due, group.ok, group.failed)
    assert found.due == found.begun + found.waiting + found.dropped
    assert found.begun == found.requests + found.in_flight
    p50 = result.metrics[f"{group.name}.response.p50"].value
    assert found.response_ms.p50 == pytest.approx(p50 * 1e3)
    assert found.instrument.grade == result.verdict.instrument
    assert found.server.state == result.verdict.server
    assert not found.interrupted
    assert sum(bar.count for bar in found.histogram) > 0
    for path, reason in found.reasons.items():
        field, _, stat = path.partition(".")
        assert getattr(getattr(found, field), stat.replace(".", "_")) is None
        assert reason


def test_each_number_has_the_grade_that_the_judge_gave_it(steady: Judged) -> None:
    """With a gap of 0.3 s, so short a load has too little left to estimate the effect."""
    trial, config, result = steady
    assert summarised(*steady).grades == {}
    planted = with_gaps(trial, [(0.6, 0.9)])
    result = judge_trial(planted, config)
    found = summarised(planted, config, result)
    name = planted.summary.groups[0].name
    for path, grade in found.grades.items():
        if path.startswith("response_ms."):
            assert grade == result.metrics[f"{name}.response.{path.removeprefix('response_ms.')}"].grade
    assert found.grades.get("throughput_rps", "VALID") == result.metrics[f"{name}.throughput"].grade
    assert "ok" not in found.grades, "counts are judged whatever disturbed the times"
    assert found.grades["response_ms.p99"] == "WEAK"


def test_how_long_failures_took_is_reported_without_a_row_of_each(steady: Judged) -> None:
    view = view_of(steady)
    failed = {
        "interval": np.full(2, view.window.first),
        "metric": np.full(2, HISTOGRAM_METRICS.index("failed_response")),
        "bucket": np.array([bucket(200_000), bucket(5_000_000)]),
        "count": np.array([98, 2]),
    }
    found = _of_failed(replace(view, rows=None, _histograms=failed))
    assert (found.p50, found.p99, found.max) == pytest.approx((0.2, 5.0, 5.0), rel=0.005)
    of_ok = {**failed, "metric": np.full(2, HISTOGRAM_METRICS.index("response"))}
    assert _of_failed(replace(view, rows=None, _histograms=of_ok)) is None


def view_of(load: Judged) -> GroupView:
    trial, config, _ = load
    return look(trial, config, kept_window(trial.summary))[0]


def test_a_number_that_grows_says_so_by_its_code(open_loop: Bench, steady: Judged) -> None:
    trial, config = open_loop.trial("TC1.r1"), open_loop.configs["TC1"]
    overloaded = summarised(trial, config, judge_trial(trial, config))
    assert overloaded.response_ms.p50 is not None
    assert overloaded.whys["response_ms.p50"] == "grows"
    assert "response_ms.p50" not in overloaded.reasons, "reasons are of what is null"
    assert "grows" not in summarised(*steady).whys.values()


@pytest.mark.parametrize(("slots", "begun"), [(10, 110), (4, 104), (950, 1000), (None, 1000)])
def test_requests_sent_while_draining_count_nowhere(steady: Judged, slots: int | None, begun: int) -> None:
    trial, config, result = steady
    first, *others = config.groups
    config = evolve(config, groups=(evolve(first, executor__max_vus=slots), *others))
    group, *rest = trial.summary.groups
    held = evolve(group, begun=1000, completed_in_window=100)
    found = summarised(evolve(trial, summary__groups=(held, *rest)), config, result)
    assert found.begun_rps / found.throughput_rps == pytest.approx(begun / 100)


@pytest.mark.parametrize(
    ("in_flight", "unknown", "text"),
    [
        (0, (), "the numbers cover that time."),
        (1, ("max",), "1 request had no response yet, so max is unknown."),
        (0.02, ("p99", "p99.9", "max"), "so p99 and above are unknown."),
        (0.2, ("p90", "p95", "p99", "p99.9", "max"), "so p90 and above are unknown."),
    ],
)
def test_a_stopped_load(steady: Judged, in_flight: float, unknown: tuple[str, ...], text: str) -> None:
    trial, config, result = steady
    group, *others = trial.summary.groups
    waiting = in_flight if in_flight >= 1 else round(in_flight * group.begun)
    cut = evolve(group, in_flight=waiting, ok=group.ok - waiting)
    stopped = evolve(trial, summary__stopped="interrupted", summary__groups=(cut, *others))
    found = summarised(stopped, config, result)
    assert found.interrupted
    assert found.instrument.grade == "WEAK"
    assert text in found.instrument.reasons[0]
    refused = [path.partition(".") for path, grade in found.grades.items() if grade == "REFUSED"]
    assert tuple(stat for field, _, stat in refused if field == "response_ms") == unknown
    assert "ok" not in found.grades
    assert found.server.state == result.verdict.server


@pytest.mark.parametrize("under_way", [1, 40])
@pytest.mark.parametrize("with_rows", [True, False])
def test_requests_under_way_at_the_stop(steady: Judged, under_way: int, with_rows: bool) -> None:
    view = view_of(steady)
    first = np.arange(view.window.size) == 0
    due = view.intervals["due"] + under_way * first
    rows = view.rows if with_rows else None
    went_on = replace(view, rows=rows, intervals={**view.intervals, "due": due})
    stopped = replace(went_on, stopped=True)
    dropped = replace(stopped, intervals={**stopped.intervals, "dropped": under_way * first})

    def response(group: GroupView) -> list[float | None]:
        found = GroupMeasures(group).all()
        names = ("response.mean", "response.p50", "response.max", "success_rate", "error_rate")
        return [found[name].value for name in names]

    assert response(stopped) == response(replace(view, rows=rows))
    assert response(went_on)[2] is None
    assert response(dropped)[2] is None, "a full pool did not wait for the end"


@pytest.mark.parametrize("one_in", [2, 1])
def test_a_dialogue_that_only_sends_has_no_server_time(closed: Bench, one_in: int) -> None:
    trial = closed.trial("TC1.r1")
    first = trial.samples["first_byte_ns"]
    sent = with_table(
        trial, "samples", first_byte_ns=np.where(np.arange(first.size) % one_in == 0, -1, first)
    )
    (view,) = (one for one in look(sent, closed.config(trial), kept_window(trial.summary)) if one.rows)
    found = GroupMeasures(view).all()
    assert found["service.p50"].value
    for stat in ("p50", "mean"):
        value = found[f"server_time.{stat}"].value
        assert value is None if one_in == 1 else value is not None and value > 0


@pytest.mark.parametrize(("stopped", "failed"), [(False, 8), (True, 0)])
def test_what_still_waited_when_a_search_was_over_failed(closed: Bench, stopped: bool, failed: int) -> None:
    trial = closed.trial("TC1.r1")
    view = look(trial, closed.config(trial), kept_window(trial.summary))[0]
    summary = evolve(view.summary, in_flight=8)
    cut = replace(view, summary=summary, stopped=stopped)
    assert GroupMeasures(cut).all()["failed"].value == view.summary.failed + failed


def test_every_error_has_its_hint() -> None:
    assert {name for name in ERRORS if name} <= set(HINTS)
    wrong_scheme = ("tls_timeout", "tls_closed", "tls_malformed", "malformed", "empty_answer", "read_reset")
    assert all("HTTP" in HINTS[name] for name in wrong_scheme)


def test_a_complete_answer_or_a_time_out_is_of_a_server() -> None:
    answered = {"status", "check", "timeout_first_byte", "timeout_body", "read_reset", "short_body", "emfile"}
    assert {name for name in answered if nothing_sent(name)} == set()
    assert {name for name in answered if no_answer(name)} == {"timeout_first_byte", "read_reset"}
    assert no_answer("connect_refused")
    assert nothing_sent("connect_refused") and nothing_sent("tls_certificate")
    malformed = [name for name in HINTS if name.startswith("malformed")]
    assert len(malformed) > 2
    assert all(no_answer(name) and not nothing_sent(name) for name in malformed), "something did answer"


@pytest.mark.parametrize("name", [name for name in HINTS if no_answer(name)])
def test_a_server_failed_where_requests_could_be_sent_and_else_none_was_measured(name: str) -> None:
    for others, code in (({}, 3 if nothing_sent(name) else 1), ({"read_reset": 1}, 1)):
        error = hopeless("http://server", {"ok": 0, "errors": {name: 5, **others}})
        assert error.exit_code == code
    for answered in ({"ok": 0, "redirects": 5}, {"ok": 1}):
        assert hopeless("http://server", {"errors": {name: 5}, **answered}) is None


LATE = {"service.p50": 0.041, "server_time.p50": 0.001, "bytes_received": 9.9e5, "requests": 100.0}
LATE |= {"connections": 9.0}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({}, True),
        ({"service.p50": 0.0385}, False),
        ({"service.p50": 0.0565}, True),
        ({"service.p50": 0.0575}, False),
        ({"bytes_received": 1.01e6}, False),
        ({"connections": 11.0}, False),
        ({"server_time.p50": None}, False),
    ],
)
def test_small_responses_that_end_as_late_as_a_delayed_acknowledgement(
    closed: Bench, other: dict[str, float | None], expected: bool
) -> None:
    trial = closed.trial("TC0.r1")
    config = closed.config(trial)
    (group,) = (one for one in config.groups if one.name == config.main_group)
    values = {f"{group.name}.{name}": Estimate(value=value) for name, value in (LATE | other).items()}
    judged = judge_trial(trial, config)
    late = evolve(judged, metrics=dict(judged.metrics) | values, verdict__instrument="VALID")
    found = list(late_bodies(closed.configs, [late]))
    assert [one.evidence for one in found] == [("trials/TC0.r1",)] * expected
    for one in found:
        assert "TCP_NODELAY" in one.sentence and f"half of {group.name}'s responses" in one.sentence
    hops = evolve(group, request=evolve(group.request, follow_redirects=1))
    elsewhere = evolve(config, groups=tuple(hops if one is group else one for one in config.groups))
    assert not list(late_bodies({trial.case: elsewhere}, [late])), "the first byte is of the last hop"
    assert not list(late_bodies(closed.configs, [evolve(late, verdict__instrument="REFUSED")]))
