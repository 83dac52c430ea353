"""Limits, counters and readings as evidence: the limit reached first, SATURATED, and criteria over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, with_readings, with_rows, with_service, with_table
from tests.evolve import evolve

from svload import analysis
from svload.analysis.evidence import case_evidence, declared_clauses, evidence, first_to_fail
from svload.analysis.judge import judge_run, judge_trial
from svload.analysis.monitored import monitored_measures, value_of
from svload.analysis.readings import Readings
from svload.analysis.view import Window
from svload.lab import all_kits
from svload.model.declared import Declared, Limit, Refusal
from svload.model.evidence import Evidence, LimitUse
from svload.model.facts import CPUS, Setting
from svload.model.metrics import parse_criterion
from svload.store import TrialData
from svload.watch import load_monitors

SECOND = 1_000_000_000
WINDOW = Window(2, 8, SECOND)
"""Seconds 2 to 8 of a load of ten."""
WORKERS = Limit("workers", "workers", "busy", "workers", waiting="queued")
QUEUE = Limit("accept queue", "accept queue", "queue", "queue_limit", beyond=True, brief=True)
FDS = Limit("descriptors", "descriptors", "fds", 100.0, brief=True)
CORES = Limit("cores", "cpu", "cpu_seconds_total", "cores", at=0.95)
DROPS = Refusal("drops_total", "connections dropped", "accept queue")
WAITS = Refusal("waits_total", "requests that waited", "workers", kind="waited", verdict=False)

Rows = Sequence[tuple[str, str, Any]]
"""(entity, metric, values at seconds -1 to 10; one number for all)."""


def table(*of: tuple[str, str, Rows]) -> dict[str, Any]:
    """Return readings of (service, monitor, rows) each second, from one second before the load to its end."""
    at = np.arange(-1, 11) * SECOND
    columns: dict[str, list[Any]] = {
        name: [] for name in ("offset_ns", "service", "monitor", "entity", "metric", "value")
    }
    for service, monitor, rows in of:
        for entity, metric, values in rows:
            for moment, value in zip(at, np.broadcast_to(values, len(at)), strict=True):
                for name, cell in zip(
                    columns, (moment, service, monitor, entity, metric, value), strict=True
                ):
                    columns[name].append(cell)
    numbers = {
        "offset_ns": np.array(columns["offset_ns"], dtype="<i8"),
        "value": np.array(columns["value"], dtype=float),
    }
    return {name: numbers.get(name, np.array(cells, dtype=object)) for name, cells in columns.items()}


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


@pytest.mark.parametrize(
    ("busy", "queued", "state"),
    [
        (8, 3, "reached"),
        (8, 0, "approached"),
        (7, 3, "approached"),
        (4, 3, "clear"),
        (8, steps((-1, 3), (4, 0)), "approached"),
    ],
)
def test_workers_are_full_where_something_waits_for_them(busy: float, queued: Any, state: str) -> None:
    found = shown([("", "busy", busy), ("", "workers", 8), ("", "queued", queued)], WORKERS)
    assert the(found).state == state
    assert any(declared_clauses(found)) == (state == "reached")


@pytest.mark.parametrize(("full", "state"), [(44, "approached"), (46, "reached")])
def test_workers_are_full_where_they_are_in_nine_of_ten_readings(full: int, state: str) -> None:
    """Fifty readings in the window; where a worker was free, it was one of eight."""
    at = np.arange(50) * SECOND
    columns = {
        "busy": np.where(np.arange(50) < full, 8.0, 7.0), "workers": np.full(50, 8.0), "queued": np.full(50, 3.0),
    }  # fmt: skip
    read: dict[str, Any] = {
        name: np.array([word] * 150, dtype=object) for name, word in (("service", "web"), ("monitor", "m"), ("entity", ""))
    }  # fmt: skip
    read["metric"] = np.repeat(np.array(list(columns), dtype=object), 50)
    read["offset_ns"], read["value"] = np.tile(at, 3), np.concatenate(list(columns.values()))
    found = evidence(Readings(read), [Declared("m", (WORKERS,), ())], Window(0, 50, SECOND), 50 * SECOND)
    assert the(found).state == state


def test_what_waits_and_nobody_read_is_no_full_limit() -> None:
    assert the(shown([("", "busy", 8), ("", "workers", 8)], WORKERS)).state == "approached"


def test_one_reading_above_a_queues_limit_suffices_and_at_it_is_not_above() -> None:
    full = shown([("80", "queue", steps((-1, 0), (5, 11), (6, 0))), ("80", "queue_limit", 10)], QUEUE)
    assert (the(full).state, the(full).first_s, the(full).entity) == ("reached", 5.0, "80")
    assert "accept queue of web (80)" in next(declared_clauses(full))
    at_it = shown([("80", "queue", 10), ("80", "queue_limit", 10)], QUEUE)
    assert (the(at_it).state, the(at_it).first_s, tuple(declared_clauses(at_it))) == ("approached", None, ())


def test_a_counter_is_held_against_its_limit_by_its_growth() -> None:
    """Two cores: a mean of 1.96 is 0.98 of the limit, 1.2 is 0.6; a pause does not change the mean."""
    seconds = np.arange(-1, 11)
    for rate, state in ((1.96, "reached"), (1.7, "approached"), (1.2, "clear")):
        one = the(shown([("", "cpu_seconds_total", 50 + rate * seconds), ("", "cores", 2)], CORES))
        assert one.state == state
        assert one.used == pytest.approx(rate)
        assert one.limit == 2


@pytest.mark.parametrize(("own", "state"), [(0.9, "reached"), (0.5, "reached"), (0.03, "clear")])
def test_a_core_that_others_fill_is_no_limit_of_the_service(own: float, state: str) -> None:
    """The busiest core is full in both cases; if a stranger's loop fills it, the server is not SATURATED."""
    hot = Limit("busiest core", "cpu", "hot", 1.0, at=0.95, own="cpu_seconds_total")
    rows: Rows = [("", "hot", 1.0), ("", "cpu_seconds_total", own * np.arange(12))]
    found = shown(rows, hot)
    assert the(found).state == state
    assert bool(list(declared_clauses(found))) == (state == "reached")
    assert (the(found).first_s is None) == (state == "clear")
    assert the(shown([("", "hot", 1.0)], hot)).state == "reached", "where nobody read its own use"


def test_each_entity_has_its_own_limit_else_that_of_the_whole() -> None:
    rows = [("a", "queue", 9), ("b", "queue", 2), ("a", "queue_limit", 10), ("", "queue_limit", 4)]
    found = {one.entity: one.limit for one in shown(rows, QUEUE).limits}
    assert found == {"a": 10, "b": 4}


def test_without_a_limit_there_is_none() -> None:
    """A limit of 0 means none; a metric that nobody read gives nothing; one read later counts from then."""
    assert shown([("80", "queue", 9), ("80", "queue_limit", 0)], QUEUE).limits == ()
    assert shown([("80", "queue", 9)], QUEUE).limits == ()
    assert shown([("", "other", 1)], FDS).limits == ()
    late = the(shown([("80", "queue", 20), ("80", "queue_limit", steps((-1, 0), (7, 10)))], QUEUE))
    assert (late.first_s, late.limit) == (7.0, 10)


def test_outside_the_window_a_full_limit_is_evidence_and_no_verdict() -> None:
    """What was full only in the ramp is reported with its time, and does not make the server saturated."""
    one = the(shown([("", "fds", steps((0, 100), (1, 50)))], FDS))
    assert (one.state, one.first_s, one.peak_share) == ("clear", 0.0, 0.5)


@pytest.mark.parametrize("share", [0.79, 0.81])
def test_approached_is_above_80_percent(share: float) -> None:
    assert the(shown([("", "fds", 100 * share)], FDS)).state == ("approached" if share > 0.8 else "clear")


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
    moments = np.array([-3, -2, -1, 5, 10]) * SECOND
    early = table(("web", "m", [("", "drops_total", 0)]))
    early = {name: column[:5] for name, column in early.items()} | {
        "offset_ns": moments,
        "value": np.array([0.0, 4.0, 9.0, 9.0, 9.0]),
    }
    assert evidence(Readings(early), [Declared("m", (), (DROPS,))], WINDOW, 10 * SECOND).refusals == ()


def test_a_counter_with_other_causes_counts_beside_the_machines() -> None:
    beside = Refusal("drops_total", "connections dropped", "accept queue", beside="host.overflows_total")
    moved = [("80", "drops_total", steps((-1, 0), (4, 6)))]
    assert len(shown(moved, beside).refusals) == 1, "nobody read the machine's: it does not speak against it"
    assert len(shown(moved, beside, beside=[("", "overflows_total", steps((-1, 1), (4, 9)))]).refusals) == 1
    assert shown(moved, beside, beside=[("", "overflows_total", 7)]).refusals == ()


def test_what_no_monitor_declares_is_not_guessed() -> None:
    rows = [
        ("", "threads_limited_total", steps((-1, 0), (4, 6))),
        ("", "in_service", 8),
        ("", "workers", 8),
        ("", "queued", 4),
    ]
    assert shown(rows) == Evidence()


def trials(*found: Evidence) -> Iterable[Evidence]:
    return found


def test_a_case_counts_trials_and_puts_what_failed_first_in_front() -> None:
    full = [
        ("", "fds", steps((-1, 10), (4, 100))),
        ("80", "drops_total", steps((-1, 0), (3, 6))),
        ("", "waits_total", steps((-1, 0), (1, 6))),
    ]
    calm = [("", "fds", 10), ("80", "drops_total", 0), ("", "waits_total", 0)]
    declared = (FDS, DROPS, WAITS)
    case = case_evidence([shown(full, *declared), shown(full, *declared), shown(calm, *declared)])
    (fds,) = case.limits
    assert (fds.state, fds.reached, fds.trials, fds.first_s) == ("reached", 2, 3, 4.0)
    assert [(one.counter, one.moved, one.trials, one.count) for one in case.refusals] == [
        ("waits_total", 2, 3, 4.0),
        ("drops_total", 2, 3, 4.0),
    ]
    assert [getattr(one, "counter", "fds") for one in first_to_fail(case)] == ["drops_total", "fds"]
    assert first_to_fail(case_evidence([shown(calm, *declared), shown(calm, *declared)])) == ()
    assert (
        first_to_fail(case_evidence([shown(full, *declared), shown(calm, *declared), shown(calm, *declared)]))
        == ()
    )


def test_analysis_names_no_server() -> None:
    """Saturation and evidence come from declarations: judging code names neither kits nor their metrics."""
    own = [kind for kind in load_monitors() if kind.name in all_kits()]
    general = {metric for kind in load_monitors() if kind not in own for metric in kind.metrics}
    metrics = {metric for kind in own for metric in kind.metrics if "_" in metric} - general
    # The limit of a link is a setting of the lab, whichever kit applies it.
    metrics -= {"link_held_seconds_total", "body_out_bytes_total"}
    names = {kit for kit in all_kits() if kit not in ("command", "external", "machine", "truth")} | metrics
    words = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, sorted(names)))})(?!\w)")
    folder = Path(analysis.__file__).parent
    found = {
        f"{file.relative_to(folder)}: {match[0]}"
        for file in folder.rglob("*.py")
        for match in words.finditer(file.read_text(encoding="utf-8"))
    }
    assert found == set()


GAUGES = ("in_service", "workers", "queued")


def with_workers(trial: TrialData, in_service: float, queued: Any, service: str = "cache") -> TrialData:
    """Let the monitor `truth` read the workers of a service, of which there are eight."""
    rows = (
        (at, service, "truth", "", metric, value)
        for metric, value in zip(GAUGES, (in_service, 8.0, queued), strict=True)
        for at in np.unique(trial.monitors["offset_ns"])
    )
    return with_rows(trial, rows)


@pytest.mark.parametrize(("in_service", "queued", "state"), [(8, 3.0, "SATURATED"), (7, 3.0, "STEADY")])
def test_workers(closed: Bench, in_service: float, queued: Any, state: str) -> None:
    trial = closed.trial("TC4.r1")
    clean = judge_trial(trial, closed.config(trial)).verdict
    verdict = judge_trial(with_workers(trial, in_service, queued), closed.config(trial)).verdict
    assert verdict.server == (state if state == "SATURATED" else clean.server)
    assert verdict.instrument == clean.instrument
    assert ("workers of cache: 8 of 8 in use" in " ".join(verdict.reasons)) == (state == "SATURATED")


def with_queue(trial: TrialData, metric: str, values: Any, service: str = "cache") -> TrialData:
    """Add a reading of an accept queue at each moment of the monitors; `values`: by moment or one for all."""
    at = np.unique(trial.monitors["offset_ns"])
    monitor, entity = ("listeners", "8080") if service else ("host", "")
    values = np.broadcast_to(values, len(at))
    return with_rows(
        trial, ((ns, service, monitor, entity, metric, value) for ns, value in zip(at, values, strict=True))
    )


def queues(trial: TrialData, queue: Any, drops: Any, overflows: Any) -> TrialData:
    """Return an accept queue of ten places of the cache, its drops, and the machine's counter."""
    found = with_queue(with_queue(trial, "accept_queue", queue), "accept_queue_limit", 10)
    return with_queue(
        with_queue(found, "accept_drops_total", drops), "listen_overflows_total", overflows, service=""
    )


def test_an_accept_queue_of_its_own(closed: Bench) -> None:
    """The queue is full in a reading, or drops while the machine counts overflows."""
    trial = closed.trial("TC4.r1")
    moments = len(np.unique(trial.monitors["offset_ns"]))
    growing = np.arange(moments) * 4.0
    for queue, drops, overflows, state in (
        (3, growing, 0, "STEADY"),
        (3, growing, growing, "SATURATED"),
        (11, 0, 0, "SATURATED"),
    ):
        verdict = judge_trial(queues(trial, queue, drops, overflows), closed.config(trial)).verdict
        assert verdict.server == state, (queue, state)
        reasons = " ".join(verdict.reasons)
        found = "accept queue of cache (8080)" in reasons or "cache (8080): " in reasons
        assert found is (state == "SATURATED")


def with_host_core(trial: TrialData, core: int, busy: float) -> TrialData:
    """Keep a core busy for this share of the time."""
    return with_readings(trial, "host", "busy_seconds_total", lambda at, _: busy * at, f"cpu{core}")


def with_cpu(trial: TrialData, service: str, cores: float) -> TrialData:
    """Let a service use this many cores."""
    mine = (trial.monitors["service"] == service) & (trial.monitors["metric"] == "cpu_seconds_total")
    value = np.where(mine, cores * trial.monitors["offset_ns"] / 1e9, trial.monitors["value"])
    return with_table(trial, "monitors", value=value)


@pytest.mark.parametrize(
    ("busy", "cores", "state"), [(0.96, 0.7, "SATURATED"), (0.94, 0.7, "STEADY"), (0.97, 0.0, "STEADY")]
)
def test_a_core_of_the_servers_that_is_full(closed: Bench, busy: float, cores: float, state: str) -> None:
    trial = with_cpu(with_host_core(closed.trial("TC4.r1"), 1, busy), "cache", cores)
    verdict = judge_trial(trial, closed.config(trial), server_cores=(1,)).verdict
    assert (verdict.server == "SATURATED") == (state == "SATURATED")
    assert ("core 1, which the servers run on" in " ".join(verdict.reasons)) == (state == "SATURATED")
    elsewhere = judge_trial(trial, closed.config(trial), server_cores=(0,)).verdict
    assert elsewhere.server != "SATURATED"


@pytest.mark.parametrize(("used", "full"), [(0.48, True), (0.47, False)])
def test_a_cpu_quota_that_is_used_up(closed: Bench, used: float, full: bool) -> None:
    trial = with_cpu(closed.trial("TC4.r1"), "cache", used)
    quota = (Setting(name=CPUS, asked="0.5", found="0.5"),)
    limited = with_service(trial, "cache", settings=quota)
    verdict = judge_trial(limited, closed.config(trial)).verdict
    assert (verdict.server == "SATURATED") is full
    assert ("of the 0.5 cores that it can have (its quota)" in " ".join(verdict.reasons)) is full


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
READ = table(
    (
        "web",
        "process",
        [
            ("", "threads", 40),
            ("", "fds", steps((-1, 10), (4, 90), (6, 20))),
            ("", "rss_bytes", 2048),
            ("one", "fds", 500),
        ],
    ),
    (
        "web",
        "server",
        [
            ("", "threads", 8),
            ("a", "drops_total", steps((-1, 0), (4, 6))),
            ("b", "drops_total", steps((-1, 0), (1, 6), (7, 8))),
            ("", "held_seconds_total", np.arange(-1, 11) * 0.25),
        ],
    ),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("web.drops == 0", 8),
        ("web.drops_total == 0", 8),
        ("web.held < 1 %", 0.25),
        ("web.fds < 100", 90),
        ("web.fds.min < 100", 10),
        ("web.fds.mean < 100", (10 + 10 + 90 + 90 + 20 + 20 + 20) / 7),
        ("web.fds.p50 < 100", 20),
        ("web.rss < 4 KiB", 2048),
        ("web.threads == 8", 8),
        ("web.process.threads == 40", 40),
        ("web.server.drops == 0", 8),
        ("web.process.drops == 0", None),
        ("web.nothing == 0", None),
    ],
)
def test_the_number_over_the_window(text: str, value: float | None) -> None:
    ref = parse_criterion(text, OWNERS).ref
    found = value_of(Readings(READ), ref, WINDOW)
    assert found == (value if value is None else pytest.approx(value))
    assert set(monitored_measures(READ, [ref], WINDOW)) == ({str(ref)} if value is not None else set())


def with_drops(trial: TrialData, growth: float) -> TrialData:
    """Let the cache drop this many sessions."""
    at = np.unique(trial.monitors["offset_ns"])
    counted = zip(at, np.linspace(0.0, growth, len(at)), strict=True)
    return with_rows(
        trial, ((ns, "cache", "varnish", "", "sess_dropped_total", value) for ns, value in counted)
    )


@pytest.mark.parametrize(("growth", "outcome"), [(0.0, "passed"), (9.0, "failed"), (None, "no value")])
def test_a_threshold_rests_on_it(closed: Bench, growth: float | None, outcome: str) -> None:
    """A reading that is missing never makes it pass."""
    that = "cache.sess_dropped == 0"
    configs = {name: evolve(one, thresholds=(that,)) for name, one in closed.configs.items()}
    trials = [
        one if growth is None else with_drops(one, growth) for one in closed.trials() if one.case == "TC4"
    ]
    found = judge_run(closed.lock, configs, trials)
    (one,) = found.thresholds
    assert (one.that, one.outcome) == (that, outcome)
    (case,) = [case for case in found.cases if case.case == "TC4"]
    assert "cache.sess_dropped" in case.asked
    if growth:
        assert case.metrics["cache.sess_dropped"].value == pytest.approx(growth, rel=0.5)
        assert case.server == "SATURATED"
        assert any(
            one.kind == "limit" and "sessions dropped for a full queue" in one.sentence
            for one in found.findings
        )
    else:
        assert not [one for one in found.findings if one.kind == "limit"]
