"""Python's plan of a load compared with the engine's: the same executors, run in virtual time, send the
requests that closed formulas predict."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import ceil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.results import case_of, unpacked

from svload import _native
from svload.analysis.arrivals import ROUNDING, phase, poisson_until
from svload.drive.share.cut import build_shares
from svload.drive.share.timeline import timeline
from svload.drive.share.write import text_of
from svload.model.executors import (
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    PerVuIterations,
    RampingArrivalRate,
    RampingVus,
    SharedIterations,
    ThinkTime,
)
from svload.model.facts import Endpoint
from svload.model.stages import Stage, arrivals_until, due_ns, stages_ns
from svload.model.traffic import Group, Request, Text

pytestmark = pytest.mark.pure
MS, S = 1_000_000, 1_000_000_000
SERVICE_NS = 700_000
SEED = 9_223_372_036_854_775_111


def played(
    executor: Executor, generators: int = 1, duration_ns: int = 60 * S, service_ns: int = SERVICE_NS
) -> list[dict[str, int]]:
    """Return every request of the load in order of due time, all shares together; each takes `service_ns`."""
    request = Request(name="get", scheme="http", host="store", path=(Text(text="/"),))
    group = Group(name="load", executor=executor, request=request, generators=generators)
    config = case_of(group, name="case")
    endpoints = {"http://store": Endpoint(scheme="http", address="127.0.0.1", port=1)}
    rows: list[dict[str, int]] = []
    for share in build_shares(config, SEED, timeline(config, duration_ns), endpoints, []):
        columns = unpacked(_native.rehearse(text_of(share.spec), {}, service_ns)["load"])
        rows += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return sorted(rows, key=lambda row: (row["due_ns"], row["vu"], row["seq"]))


def stages(most: float, whole: bool = False) -> st.SearchStrategy[tuple[Stage, ...]]:
    target = st.integers(0, int(most)).map(float) if whole else st.one_of(st.just(0.0), st.floats(0.5, most))
    one = st.builds(Stage, duration_ns=st.integers(0, 3_000).map(lambda ms: ms * MS), target=target)
    return st.lists(one, min_size=1, max_size=5).map(tuple).filter(lambda found: stages_ns(found) > 0)


@settings(deadline=None, max_examples=60)
@given(start=st.floats(0, 300), ramp=stages(500), generators=st.integers(1, 4))
def test_a_rate_in_stages_is_due_where_its_integral_says(
    start: float, ramp: tuple[Stage, ...], generators: int
) -> None:
    executor = RampingArrivalRate(start_rate_rps=start, stages=ramp, max_vus=50)
    dues = [row["due_ns"] for row in played(executor, generators)]
    total = arrivals_until(start, ramp, stages_ns(ramp))
    assert abs(len(dues) - total) <= 1, "exact to one request"
    for moment in range(0, stages_ns(ramp), max(stages_ns(ramp) // 17, 1)):
        by_then = sum(due < moment for due in dues)
        assert abs(by_then - executor.arrivals_until(moment)) <= 1
    if dues:
        phase = arrivals_until(start, ramp, dues[0])
        for index, due in enumerate(dues):
            wanted = due_ns(start, ramp, index + phase)
            # Where the rate is near 0, rounding the phase moves a due time far: both ends are compared with
            # the integral.
            assert abs(arrivals_until(start, ramp, due) - index - phase) < 1e-3
            assert wanted is None or abs(arrivals_until(start, ramp, wanted) - index - phase) < 1e-3


@pytest.mark.parametrize("generators", [1, 3])
def test_a_constant_rate_is_due_by_its_closed_form(generators: int) -> None:
    executor = ConstantArrivalRate(rate_rps=123.0, max_vus=9)
    dues = [row["due_ns"] for row in played(executor, generators, 10 * S)]
    first = phase(SEED, "load")
    assert abs(len(dues) - ceil(executor.arrivals_until(10 * S) - first)) <= ROUNDING
    assert all(abs(due - (index + first) / 123 * S) <= 2 for index, due in enumerate(dues))


def test_poisson_arrivals_in_stages_keep_to_the_integral_on_average() -> None:
    ramp = (Stage(duration_ns=10 * S, target=1000), Stage(duration_ns=10 * S, target=0))
    executor = RampingArrivalRate(stages=ramp, arrivals="poisson", max_vus=50)
    dues = [row["due_ns"] for row in played(executor)]
    assert [row["due_ns"] for row in played(executor, 3)] == dues
    assert abs(len(dues) - poisson_until(SEED, "load", executor.arrivals_until(20 * S))) <= ROUNDING
    for moment in (5 * S, 10 * S, 15 * S, 20 * S):
        wanted = executor.arrivals_until(moment)
        assert abs(sum(due < moment for due in dues) - wanted) < 5 * wanted**0.5


def spans_ns(start_vus: int, stages: Sequence[Stage], vu: int) -> list[tuple[int, int]]:
    """Return when user number `vu` (from 0) is active: spans [on, off). On the way up there are n users as
    soon as the line reaches n, on the way down n as soon as it has come down to n."""
    spans: list[tuple[int, int]] = []
    on, at, low = 0 if start_vus > vu else None, 0, start_vus
    for stage in stages:
        begin, length, high = at, stage.duration_ns, round(stage.target)
        at = begin + length
        if on is None and high > vu:
            on = begin + length * (vu + 1 - low) // (high - low)
        elif on is not None and high <= vu:
            spans.append((on, begin + length * (low - vu) // (low - high)))
            on = None
        low = high
    if on is not None:
        spans.append((on, at))
    return [(begin, end) for begin, end in spans if end > begin]


@settings(deadline=None, max_examples=60)
@given(start=st.integers(0, 5), ramp=stages(9, whole=True), generators=st.integers(1, 3))
def test_users_in_stages_follow_the_line(start: int, ramp: tuple[Stage, ...], generators: int) -> None:
    executor = RampingVus(start_vus=start, stages=ramp)
    if executor.most_vus < generators:
        return
    service_ns = 10 * MS
    asked: dict[int, list[int]] = defaultdict(list)
    for row in played(executor, generators, service_ns=service_ns):
        asked[row["vu"]].append(row["due_ns"])
    planned = 0
    for vu in range(executor.most_vus):
        spans = spans_ns(start, ramp, vu)
        planned += sum(off - on for on, off in spans)
        assert all(any(on <= due < off for on, off in spans) for due in asked[vu])
        for on, off in spans:
            inside = [due for due in asked[vu] if on <= due < off]
            # A user who is still busy from its last span joins later; others begin with the span and never
            # pause.
            assert len(inside) in range((off - on) // service_ns - 1, -(-(off - on) // service_ns) + 1)
            assert not inside or inside[0] - on < service_ns
    # Spans are whole ns, the sum is not.
    assert planned == pytest.approx(executor.users_ns(0, 60 * S), abs=2 * 9 * len(ramp) + 1)


WINDOWS = st.tuples(st.integers(0, 16 * S), st.integers(0, 16 * S))


@given(vus=st.integers(1, 50), ramp_ns=st.integers(0, 5 * S), window=WINDOWS)
def test_users_that_come_one_after_another_and_stay(vus: int, ramp_ns: int, window: tuple[int, int]) -> None:
    low, high = sorted(window)
    executor = ConstantVus(vus=vus, ramp_up_ns=ramp_ns)
    starts = [executor.spread_ns * number / vus for number in range(vus)]
    planned = sum(max(high - max(low, start), 0.0) for start in starts)
    assert executor.users_ns(low, high) == pytest.approx(planned, rel=1e-12, abs=1.0)


@settings(deadline=None, max_examples=40)
@given(vus=st.integers(1, 12), more=st.integers(0, 90), generators=st.integers(1, 4))
def test_shared_iterations_are_dealt_and_all_made(vus: int, more: int, generators: int) -> None:
    generators = min(generators, vus)
    executor = SharedIterations(vus=vus, iterations=vus + more, think_time=ThinkTime(exponential_ns=2 * MS))
    rows = played(executor, generators)
    assert len(rows) == executor.work
    dealt = Counter(iteration % vus % generators for iteration in range(executor.work))
    assert Counter(row["vu"] % generators for row in rows) == dealt


@settings(deadline=None, max_examples=20)
@given(vus=st.integers(1, 9), iterations=st.integers(1, 20), generators=st.integers(1, 3))
def test_each_user_makes_its_own_iterations(vus: int, iterations: int, generators: int) -> None:
    executor = PerVuIterations(vus=vus, iterations=iterations)
    counts = Counter(row["vu"] for row in played(executor, min(generators, vus)))
    assert counts == dict.fromkeys(range(vus), iterations)


def _cycles(**options: Any) -> list[int]:
    """Return the times in ns from each start of a single user to the next."""
    dues = [row["due_ns"] for row in played(ConstantVus(vus=1, **options), duration_ns=2 * S)]
    return [after - before for before, after in itertools.pairwise(dues)]


def test_pacing_and_think_time_are_the_cycle() -> None:
    assert set(_cycles(pacing_ns=20 * MS)) == {20 * MS}
    thinking = _cycles(pacing_ns=20 * MS, think_time=ThinkTime(constant_ns=30 * MS))
    assert set(thinking) == {30 * MS + SERVICE_NS}
    law = ThinkTime(lognormal_ns=(2 * MS, 9 * MS))
    drawn = _cycles(think_time=law)
    assert sum(drawn) / len(drawn) - SERVICE_NS == pytest.approx(law.mean_ns, rel=0.2)
