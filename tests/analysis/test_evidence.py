"""Limits, counters and readings as evidence: the limit reached first, SATURATED, and criteria over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, table_of, with_each, with_readings, with_service, with_table
from tests.evolve import evolve

from svload.analysis.evidence import case_evidence, declared_clauses, evidence, first_to_fail
from svload.analysis.judge import judge_run, judge_trial
from svload.analysis.monitored import monitored_measures, value_of
from svload.analysis.readings import Readings
from svload.analysis.view import Window
from svload.model.declared import Declared, Limit, Refusal
from svload.model.evidence import Evidence, LimitUse
from svload.model.facts import CPUS, Setting
from svload.model.metrics import parse_criterion
from svload.store import TrialData

SECOND = 1_000_000_000
WINDOW = Window(2, 8, SECOND)
"""Seconds 2 to 8 of a load of ten."""
WORKERS = Limit("workers", "workers", "busy", "workers", waiting="queued")
QUEUE = Limit("accept queue", "accept queue", "queue", "queue_limit", beyond=True, brief=True)
FDS = Limit("descriptors", "descriptors", "fds", 100.0, brief=True)
CORES = Limit("cores", "cpu", "cpu_seconds_total", "cores", at=0.95)
HOT = Limit("busiest core", "cpu", "hot", 1.0, at=0.95, own="cpu_seconds_total")
DROPS = Refusal("drops_total", "connections dropped", "accept queue")
WAITS = Refusal("waits_total", "requests that waited", "workers", kind="waited", verdict=False)

Rows = Sequence[tuple[str, str, Any]]
"""(entity, metric, values at seconds -1 to 10; one number for all)."""


def table(*of: tuple[str, str, Rows]) -> dict[str, Any]:
    """Return readings of (service, monitor, rows) each second, from one second before the load to its end."""
    at = np.arange(-1, 11) * SECOND
    return table_of(
        (moment, service, monitor, entity, metric, value)
        for service, monitor, rows in of
        for entity, metric, values in rows
        for moment, value in zip(at, np.broadcast_to(values, len(at)), strict=True)
    )


def shown(rows: Rows, *declared: Limit | Refusal, service: str = "web", beside: Rows = ()) -> Evidence:
    limits = tuple(one for one in declared if isinstance(one, Limit))
    refusals = tuple(one for one in declared if isinstance(one, Refusal))
    readings = Readings(table((service, "m", rows), ("", "host", beside)))
    return evidence(readings, [Declared("m", limits, refusals)], WINDOW, 10 * SECOND)


def the(found: Evidence) -> LimitUse:
    (one,) = found.limits
    return one


def steps(*pairs: tuple[int, float]) -> list[float]:
    """Return values at seconds -1 to 10, each valid from its second on."""
    return [next((value for second, value in reversed(pairs) if at >= second), 0.0) for at in range(-1, 11)]


PER_S = np.arange(12)
"""A counter that grows by one per second."""


@pytest.mark.parametrize(
    ("limit", "rows", "state"),
    [
        # workers are full where something is known to wait for them
        (WORKERS, {"busy": 8, "workers": 8, "queued": 3}, "reached"),
        (WORKERS, {"busy": 8, "workers": 8, "queued": 0}, "approached"),
        (WORKERS, {"busy": 7, "workers": 8, "queued": 3}, "approached"),
        (WORKERS, {"busy": 8, "workers": 8, "queued": steps((-1, 3), (4, 0))}, "approached"),
        (WORKERS, {"busy": 8, "workers": 8}, "approached"),
        # one reading above a queue's limit suffices, and at it is not above
        (QUEUE, {"queue": steps((-1, 0), (5, 11), (6, 0)), "queue_limit": 10}, "reached"),
        (QUEUE, {"queue": 10, "queue_limit": 10}, "approached"),
        # a counter is held against its limit by its growth
        (CORES, {"cpu_seconds_total": 50 + 1.96 * PER_S, "cores": 2}, "reached"),
        (CORES, {"cpu_seconds_total": 50 + 1.7 * PER_S, "cores": 2}, "approached"),
        # a core that a stranger's loop fills is no limit of the service, unless nobody read its own use
        (HOT, {"hot": 1.0, "cpu_seconds_total": 0.9 * PER_S}, "reached"),
        (HOT, {"hot": 1.0, "cpu_seconds_total": 0.5 * PER_S}, "reached"),
        (HOT, {"hot": 1.0, "cpu_seconds_total": 0.03 * PER_S}, "clear"),
        (HOT, {"hot": 1.0}, "reached"),
        (FDS, {"fds": 79}, "clear"),
        (FDS, {"fds": 81}, "approached"),
    ],
)
def test_a_limit_is_reached_approached_or_clear(limit: Limit, rows: dict[str, Any], state: str) -> None:
    found = shown([("", metric, values) for metric, values in rows.items()], limit)
    assert the(found).state == state
    assert any(declared_clauses(found)) == (state == "reached")
    assert state != "clear" or the(found).first_s is None


def test_a_limit_has_its_use_and_the_time_when_it_was_full() -> None:
    """What was full only in the ramp is reported with its time, and does not make the server saturated."""
    full = shown([("80", "queue", steps((-1, 0), (5, 11), (6, 0))), ("80", "queue_limit", 10)], QUEUE)
    assert (the(full).first_s, the(full).entity) == (5.0, "80")
    assert "accept queue of web (80)" in next(declared_clauses(full))
    assert the(shown([("", "queue", 10), ("", "queue_limit", 10)], QUEUE)).first_s is None
    cores = the(shown([("", "cpu_seconds_total", 50 + 1.96 * PER_S), ("", "cores", 2)], CORES))
    assert (cores.used, cores.limit) == (pytest.approx(1.96), 2)
    early = the(shown([("", "fds", steps((0, 100), (1, 50)))], FDS))
    assert (early.state, early.first_s, early.peak_share) == ("clear", 0.0, 0.5)


@pytest.mark.parametrize(("full", "state"), [(44, "approached"), (46, "reached")])
def test_workers_are_full_where_they_are_in_nine_of_ten_readings(full: int, state: str) -> None:
    """Fifty readings in the window; where a worker was free, it was one of eight."""
    read = table_of(
        (second * SECOND, "web", "m", "", metric, value)
        for second in range(50)
        for metric, value in (("busy", 8 if second < full else 7), ("workers", 8), ("queued", 3))
    )
    found = evidence(Readings(read), [Declared("m", (WORKERS,), ())], Window(0, 50, SECOND), 50 * SECOND)
    assert the(found).state == state


def test_each_entity_has_its_own_limit_else_that_of_the_whole_or_none() -> None:
    """A limit of 0 means none; a metric that nobody read gives nothing; one read later counts from then."""
    rows = [("a", "queue", 9), ("b", "queue", 2), ("a", "queue_limit", 10), ("", "queue_limit", 4)]
    assert {one.entity: one.limit for one in shown(rows, QUEUE).limits} == {"a": 10, "b": 4}
    assert shown([("80", "queue", 9), ("80", "queue_limit", 0)], QUEUE).limits == ()
    assert shown([("80", "queue", 9)], QUEUE).limits == shown([("", "other", 1)], FDS).limits == ()
    late = the(shown([("80", "queue", 20), ("80", "queue_limit", steps((-1, 0), (7, 10)))], QUEUE))
    assert (late.first_s, late.limit) == (7.0, 10)


@pytest.mark.parametrize(
    ("declared", "values", "expected", "clauses"),
    [
        (DROPS, steps((-1, 5), (3, 9), (6, 12)), (7, 7, 3.0, "80"), ("web (80): 7 connections dropped",)),
        (DROPS, steps((-1, 0), (1, 4)), (4, 0, 1.0, "80"), ()),
        (DROPS, steps((-1, 10), (3, 14), (5, 0), (6, 3)), (7, 7, 3.0, "80"), ("web (80): 7 connections dropped",)),
        (WAITS, steps((-1, 0), (4, 6)), (6, 6, 4.0, "80"), ()),
    ],
    ids=["moved", "in the ramp: no verdict", "the server started again at 5 s", "waiting, declared without a verdict"],
)  # fmt: skip
def test_a_counter_that_moved_is_reported(
    declared: Refusal, values: Any, expected: Any, clauses: Any
) -> None:
    found = shown([("80", declared.counter, values)], declared)
    (one,) = found.refusals
    assert (one.count, one.in_window, one.first_s, one.entity) == expected
    assert one.kind == declared.kind
    assert tuple(declared_clauses(found)) == clauses


def test_a_counter_that_stood_still_or_moved_before_the_load_is_not() -> None:
    assert shown([("80", "drops_total", 5)], DROPS).refusals == ()
    early = table_of(
        (second * SECOND, "web", "m", "", "drops_total", value)
        for second, value in ((-3, 0), (-2, 4), (-1, 9), (5, 9), (10, 9))
    )
    assert evidence(Readings(early), [Declared("m", (), (DROPS,))], WINDOW, 10 * SECOND).refusals == ()


def test_a_counter_with_other_causes_counts_beside_the_machines() -> None:
    beside = Refusal("drops_total", "connections dropped", "accept queue", beside="host.overflows_total")
    moved = [("80", "drops_total", steps((-1, 0), (4, 6)))]
    assert len(shown(moved, beside).refusals) == 1, "nobody read the machine's: it does not speak against it"
    assert len(shown(moved, beside, beside=[("", "overflows_total", steps((-1, 1), (4, 9)))]).refusals) == 1
    assert shown(moved, beside, beside=[("", "overflows_total", 7)]).refusals == ()


def test_a_case_counts_trials_and_puts_what_failed_first_in_front() -> None:
    declared = (FDS, DROPS, WAITS)
    counters = (("80", "drops_total", steps((-1, 0), (3, 6))), ("", "waits_total", steps((-1, 0), (1, 6))))
    full = shown([("", "fds", steps((-1, 10), (4, 100))), *counters], *declared)
    calm = shown([("", "fds", 10), ("80", "drops_total", 0), ("", "waits_total", 0)], *declared)
    case = case_evidence([full, full, calm])
    (fds,) = case.limits
    assert (fds.state, fds.reached, fds.trials, fds.first_s) == ("reached", 2, 3, 4.0)
    assert [(one.counter, one.moved, one.trials, one.count) for one in case.refusals] == [
        ("waits_total", 2, 3, 4.0),
        ("drops_total", 2, 3, 4.0),
    ]
    assert [getattr(one, "counter", "fds") for one in first_to_fail(case)] == ["drops_total", "fds"]
    for few in ([calm, calm], [full, calm, calm]):
        assert first_to_fail(case_evidence(few)) == ()


Plant = Callable[[TrialData], TrialData]


def cpu(trial: TrialData, cores: float) -> TrialData:
    mine = (trial.monitors["service"] == "cache") & (trial.monitors["metric"] == "cpu_seconds_total")
    value = np.where(mine, cores * trial.monitors["offset_ns"] / 1e9, trial.monitors["value"])
    return with_table(trial, "monitors", value=value)


def core(number: int, busy: float, own: float = 0.7) -> Plant:
    """Keep a core busy for this share of the time; the cache uses `own` cores."""
    return lambda trial: cpu(
        with_readings(trial, "host", "busy_seconds_total", lambda at, _: busy * at, f"cpu{number}"), own
    )


def quota(used: float) -> Plant:
    """Give the cache half of a core, of which it uses this."""
    setting = Setting(name=CPUS, asked="0.5", found="0.5")
    return lambda trial: with_service(cpu(trial, used), "cache", settings=(setting,))


CORE_USED = "core 1, which the servers run on"
QUOTA_USED = "of the 0.5 cores that it can have (its quota)"


@pytest.mark.parametrize(
    ("plant", "words", "saturated"),
    [
        (core(1, 0.96), CORE_USED, True),
        (core(1, 0.94), CORE_USED, False),
        (core(1, 0.97, own=0.0), CORE_USED, False),
        (core(0, 0.96), "which the servers run on", False),
        (quota(0.48), QUOTA_USED, True),
        (quota(0.47), QUOTA_USED, False),
    ],
)
def test_a_limit_that_is_reached_saturates_the_server(
    closed: Bench, plant: Plant, words: str, saturated: bool
) -> None:
    trial = closed.trial("TC4.r1")
    config = closed.config(trial)
    clean, found = (judge_trial(one, config, server_cores=(1,)).verdict for one in (trial, plant(trial)))
    assert found.server == ("SATURATED" if saturated else clean.server)
    assert (words in " ".join(found.reasons)) is saturated
    assert found.instrument == clean.instrument


def test_visible_waves_are_not_steady(closed: Bench) -> None:
    """Response doubles and halves ten times in the window."""
    trial = closed.trial("TC4.r1")
    table = trial.intervals
    wave = 1 + 0.6 * np.sin(2 * np.pi * 10 * table["interval"] / max(table["interval"]))
    swinging = with_table(
        trial, "intervals", response_sum_ns=(table["response_sum_ns"] * wave).astype(np.uint64)
    )
    verdict = judge_trial(swinging, closed.config(trial)).verdict
    assert verdict.server == "UNKNOWN"
    assert "swings by ±" in " ".join(verdict.reasons)
    assert "swings" not in " ".join(judge_trial(trial, closed.config(trial)).verdict.reasons)


OWNERS: Any = {"web": "service", "users": "traffic"}
PROCESS: Rows = [
    ("", "threads", 40),
    ("", "fds", steps((-1, 10), (4, 90), (6, 20))),
    ("", "rss_bytes", 2048),
    ("one", "fds", 500),
]
SERVER: Rows = [
    ("", "threads", 8),
    ("a", "drops_total", steps((-1, 0), (4, 6))),
    ("b", "drops_total", steps((-1, 0), (1, 6), (7, 8))),
    ("", "held_seconds_total", np.arange(-1, 11) * 0.25),
]
READ = table(("web", "process", PROCESS), ("web", "server", SERVER))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("web.drops == 0", 8),
        ("web.held < 1 %", 0.25),
        ("web.fds < 100", 90),
        ("web.fds.mean < 100", (10 + 10 + 90 + 90 + 20 + 20 + 20) / 7),
        ("web.fds.p50 < 100", 20),
        ("web.rss < 4 KiB", 2048),
        ("web.threads == 8", 8),
        ("web.process.threads == 40", 40),
        ("web.server.drops == 0", 8),
        ("web.nothing == 0", None),
    ],
)
def test_the_number_over_the_window(text: str, value: float | None) -> None:
    ref = parse_criterion(text, OWNERS).ref
    found = value_of(Readings(READ), ref, WINDOW)
    assert found == (value if value is None else pytest.approx(value))
    assert set(monitored_measures(READ, [ref], WINDOW)) == ({str(ref)} if value is not None else set())


@pytest.mark.parametrize(("growth", "outcome"), [(0.0, "passed"), (9.0, "failed"), (None, "no value")])
def test_a_threshold_rests_on_it(closed: Bench, growth: float | None, outcome: str) -> None:
    """A reading that is missing never makes it pass."""
    that = "cache.sess_dropped == 0"
    configs = {name: evolve(one, thresholds=(that,)) for name, one in closed.configs.items()}
    trials = [one for one in closed.trials() if one.case == "TC4"]
    if growth is not None:
        dropped = np.linspace(0.0, growth, len(np.unique(trials[0].monitors["offset_ns"])))
        trials = [with_each(one, ("cache", "varnish", "", "sess_dropped_total", dropped)) for one in trials]
    found = judge_run(closed.lock, configs, trials)
    (one,) = found.thresholds
    assert (one.that, one.outcome) == (that, outcome)
    (case,) = [case for case in found.cases if case.case == "TC4"]
    assert "cache.sess_dropped" in case.asked
    limits = [one.sentence for one in found.findings if one.kind == "limit"]
    assert any("sessions dropped for a full queue" in one for one in limits) == bool(limits) == bool(growth)
    if growth:
        assert case.metrics["cache.sess_dropped"].value == pytest.approx(growth, rel=0.5)
        assert case.server == "SATURATED"
