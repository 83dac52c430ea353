"""The checks of docs/method.md §3 about the machine: planted, just within the limit, and not measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import (
    Bench,
    Plant,
    Planted,
    check,
    planting,
    with_conditions,
    with_config,
    with_readings,
    with_rows,
    with_service,
    with_table,
    without_readings,
)
from tests.evolve import evolve

from svload.analysis import limits
from svload.analysis.judge import judge_run, judge_trial
from svload.analysis.view import kept_window
from svload.model.executors import ConstantArrivalRate
from svload.model.facts import (
    CPUS,
    FILES,
    LINK_LATENCY,
    LINK_RATE,
    LINK_SPEED,
    RESIDENT_FILES,
    GroupFact,
    LinkFact,
    ProcessFact,
    ServiceFacts,
    Setting,
)
from svload.model.faults import FaultEvent
from svload.model.results import CheckResult
from svload.model.study import CaseConfig, Preparation
from svload.store import TrialData

SECOND_NS = 1_000_000_000


def read(monitor: str, metric: str, change: Callable[[Any, Any], Any], entity: str | None = None) -> Plant:
    return lambda trial, config: (with_readings(trial, monitor, metric, change, entity), config)


def rate(per_second: float) -> Callable[[Any, Any], Any]:
    return lambda at, _: per_second * at


def jump(by: float, at_s: float = 0.6) -> Callable[[Any, Any], Any]:
    return lambda at, old: old + by * (at >= at_s)


def under(**changes: dict[str, Any]) -> Plant:
    return lambda trial, config: (with_conditions(trial, **changes), config)


@planting
def later(trial: TrialData, config: CaseConfig, **clocks: int) -> Planted:
    """Set the clocks after the load ahead of where they should be."""
    after = trial.lab.conditions.after
    ahead = {name: getattr(after, name) + by for name, by in clocks.items()}
    return with_conditions(trial, after=ahead), config


@planting
def looked_up(trial: TrialData, config: CaseConfig, client: str, spent_ns: int = 40_000) -> Planted:
    found = with_table(trial, "samples", lookup_ns=lambda table: np.full_like(table["lookup_ns"], spent_ns))
    return found, with_config(config, "probe", client=client)


@planting
def fast_load(
    trial: TrialData, config: CaseConfig, limit_share: float | None, open_loop: bool = False
) -> Planted:
    """The load uses 93 % of its core and this share of the server's only limit (None: no limit was read)."""
    trial, config = read("generator", "cpu_seconds_total", rate(0.31))(trial, config)
    trial = without_readings(trial, trial.monitors["service"] != "")
    if limit_share is not None:
        trial = with_rates(trial, "", "process", cpu_seconds_total=limit_share, cores_allowed=0.0)
        allowed = trial.monitors["metric"] == "cores_allowed"
        trial = with_table(trial, "monitors", value=np.where(allowed, 1.0, trial.monitors["value"]))
    if open_loop:
        arrivals = ConstantArrivalRate(rate_rps=100)
        config = evolve(config, groups=tuple(evolve(one, executor=arrivals) for one in config.groups))
    return trial, config


@planting
def few_ports(trial: TrialData, config: CaseConfig, **changes: object) -> Planted:
    """Leave too few ports for the connections made, and change every group."""
    few = {"local_ports": 100, "port_reuse_s": 60.0}
    trial, config = under(machine=few, before={"time_wait": 0})(trial, config)
    for group in config.groups:
        config = with_config(config, group.name, **changes)
    return trial, config


@planting
def paused(trial: TrialData, config: CaseConfig, seconds: float) -> Planted:
    """Let a monitor of the cache read a pause of its garbage collector."""
    return with_rows(trial, [(600_000_000, "cache", "jvm", "", "gc_pause_seconds", seconds)]), config


@planting
def workers(trial: TrialData, config: CaseConfig, *connections: int) -> Planted:
    """Let a monitor count the connections of each of the cache's workers at 0.6 s."""
    rows = [("", "listeners", float(len(connections)))]
    rows += [(str(pid), "connections", float(count)) for pid, count in enumerate(connections, 900)]
    return with_rows(trial, ((600_000_000, "cache", "workers", *row) for row in rows)), config


def with_rates(trial: TrialData, entity: str = "", monitor: str = "truth", **rates: float) -> TrialData:
    """Let monitors of the cache read these counters of an entity, by metric: growth per second."""
    at = range(0, 1_600_000_000, 100_000_000)
    rows = (
        (ns, "cache", monitor, entity, metric, rate * ns / 1e9) for metric, rate in rates.items() for ns in at
    )
    return with_rows(trial, rows)


def setting(name: str, value: float) -> Setting:
    return Setting(name=name, asked=f"{value:g}", found=f"{value:g}")


@planting
def limited(trial: TrialData, config: CaseConfig, limit: Setting, **rates: float) -> Planted:
    """Give the cache this limit, and counters that grow by this much per second."""
    trial = with_service(trial, "cache", settings=lambda old: (limit, *old))
    return with_rates(trial, **rates) if rates else trial, config


def link(used: float, held_s: float | None) -> Plant:
    """Give the cache's link 1 MB/s and this use; it held bodies back this long per second (None: not read)."""
    held = {} if held_s is None else {"link_held_seconds_total": held_s}
    return limited(setting(LINK_RATE, 1e6), body_out_bytes_total=used * 1e6, **held)


def quota(cores: float, throttled_s: float | None) -> Plant:
    """Give the cache a CPU quota that held it back for this long per second (None: not read)."""
    held = {} if throttled_s is None else {"throttled_seconds_total": throttled_s}
    return limited(setting(CPUS, cores), **held)


@planting
def files(
    trial: TrialData, config: CaseConfig, resident: float, reads: float = 0.0, size: float = 2.0**20
) -> Planted:
    """Let the cache report 1 MiB of files with this share in the page cache, and read this share of what
    it sends from a disk."""
    before = trial.lab.before["cache"]
    values = {**before.values, FILES: size, RESIDENT_FILES: resident * size}
    trial = evolve(trial, lab__before={**trial.lab.before, "cache": evolve(before, values=values)})
    low, high = trial.summary.window_ns
    received = sum(one.bytes_received for one in trial.summary.groups)
    return with_rates(trial, read_bytes_total=reads * received / ((high - low) / 1e9)), config


@planting
def dropped(
    trial: TrialData,
    config: CaseConfig,
    resident: float,
    reads: float | None = 1.0,
    repeats: float | None = 1.0,
) -> Planted:
    """The same files, many and large, which a step before the trial dropped from the page cache. Each row
    was requested this often (None: no row stands for a file), and a disk read this share of what was sent
    (None: not counted)."""
    trial, config = files(resident, size=2.0**40)(trial, config)
    if reads is None:
        trial = without_readings(trial, trial.monitors["metric"] == "read_bytes_total")
    else:
        received = reads * sum(one.bytes_received for one in trial.summary.groups)
        end_s = trial.summary.window_ns[1] / 1e9
        trial = with_readings(
            trial, "truth", "read_bytes_total", lambda at, _: received * np.minimum(at / end_s, 1.0)
        )
    if repeats is None:
        bare = {"request__path": (), "request__headers": (), "request__checks": ()}
        config = evolve(config, groups=tuple(evolve(group, **bare) for group in config.groups))
    else:
        count = len(trial.rows["row"])
        rows = np.arange(count, dtype=np.uint32)
        trial = with_table(trial, "rows", row=rows, asked=np.full(count, repeats, dtype=np.uint64))
    return trial, evolve(config, before_trial=(Preparation(drop_cache=("cache",)),))


@planting
def shared_quota(
    trial: TrialData, config: CaseConfig, cores: float, used: float, held_s: float, group: str = "cache"
) -> Planted:
    """Use a quota of the cache's own group, or of a machine's, to this share; its processes are read too."""
    fact = GroupFact(name=group, paths={}, settings=(setting(CPUS, cores),))
    own = tuple(ProcessFact(name=f"p{pid}", pid=pid, start_ticks=1) for pid in range(1, 5))
    trial = with_service(trial, "cache", groups=(fact,), processes=own)
    if group != "cache":
        machine = ServiceFacts(service=group, kit="machine", version="", groups=(fact,))
        trial = evolve(trial, lab__services=(machine, *trial.lab.services))
    found = {"group_cpu_seconds_total": used * cores, "throttled_seconds_total": held_s}
    return with_rates(trial, group, **found), config


@planting
def disk_rate(
    trial: TrialData,
    config: CaseConfig,
    way: str,
    used: float,
    controller: str = "unified",
    bursts: bool = False,
) -> Planted:
    """The cache's group may move 10 MB a second from or to its disk, and moved this share of it; or all of
    it for half of the time."""
    limit = setting(f"disk_{way}_bytes_per_s", 1e7)
    fact = GroupFact(name="cache", paths={controller: ""}, settings=(limit,))
    own = (ProcessFact(name="p", pid=1, start_ticks=1),)
    trial = with_service(trial, "cache", groups=(fact,), processes=own)
    moved = f"group_disk_{way}_bytes_total"
    trial = with_rates(trial, "cache", **{moved: used * 1e7})
    if bursts:
        trial = with_readings(
            trial, "truth", moved, lambda at, _: 1e7 * np.minimum(at % 0.4, 0.2) + 2e6 * (at // 0.4)
        )
    return trial, config


@planting
def faulted_writes(trial: TrialData, config: CaseConfig, controller: str) -> Planted:
    """Let a planned fault limit the cache's writes, which had no such limit before."""
    fact = GroupFact(name="cache", paths={controller: ""}, settings=())
    trial = with_service(trial, "cache", groups=(fact,))
    limits = {"disk_write_bytes_per_s": 1e6}
    times = {"planned_s": 1.0, "begun_s": 1.0, "done_s": 1.0}
    event = FaultEvent(place=0, do="limit", target="cache", limits=limits, **times)
    return evolve(trial, lab__faults=(event,)), config


@planting
def own_link(
    trial: TrialData,
    config: CaseConfig,
    out: float = 0.0,
    into: float = 0.0,
    late_s: float | None = None,
    cores: float = 0.1,
) -> Planted:
    """Give the cache's own link 1 MB/s and 20 ms, this load each way, and packets that were this late, a
    thousand per second."""
    held, line = (setting(LINK_SPEED, 1e6),), None
    rates = {"link_out_bytes_total": out * 1e6, "link_in_bytes_total": into * 1e6}
    if late_s is not None:
        held, line = (*held, setting(LINK_LATENCY, 0.02)), "told"
        rates |= {"delayed_packets_total": 1000.0, "delay_late_seconds_total": late_s * 1000}
        rates |= {"delay_cpu_seconds_total": cores}
    fact = LinkFact(name="cache", outside="link1", network="", settings=held, delay_line=line)
    return with_rates(with_service(trial, "cache", links=(fact,)), "cache", **rates), config


@planting
def carried(trial: TrialData, config: CaseConfig, share: float, ended_before: bool = False) -> Planted:
    """Add failed requests of the background that began before the kept window and are this share of all:
    they end after the window's begin, or before it."""
    table, window = trial.intervals, kept_window(trial.summary)
    mine = table["group"] == [group.name for group in trial.summary.groups].index("background")
    earlier, kept = mine & (table["interval"] < window.first), mine & (table["interval"] >= window.first)
    ok = int(table["ok"][mine].sum() - table["completed_ok"][earlier].sum())
    assert ok >= int(table["ok"][kept].sum()) > 0
    assert not table["failed"].any()
    failed = np.zeros_like(table["failed"])
    failed[np.flatnonzero(earlier)[0]] = round(ok * share / (1 - share))
    columns = {"failed": failed} | ({"completed_failed": failed} if ended_before else {})
    return with_table(trial, "intervals", **columns), config


@planting
def elsewhere(trial: TrialData, config: CaseConfig) -> Planted:
    """Put its servers on another machine, which is not read."""

    def away(one: ServiceFacts) -> ServiceFacts:
        ends = tuple(evolve(end, address="192.0.2.7") for end in one.endpoints)
        return evolve(one, processes=(), machine="", endpoints=ends)

    return evolve(trial, lab__services=tuple(map(away, trial.lab.services))), config


def long_gap(seconds: float, metric: str = "hiccup_seconds") -> Plant:
    """Add a gap of the probe's thread, reported by the look at 0.6 s."""
    return read("generator", metric, lambda at, old: np.where(at == 0.6, seconds, old), "probe.0/0")


def without_passes(trial: TrialData, config: CaseConfig) -> Planted:
    """Remove what an old run has not recorded."""
    return without_readings(trial, trial.monitors["metric"] == "loop_pass_seconds"), config


HYPER_V = "hyperv_clocksource_tsc_page"
PLANTED: list[tuple[str, Plant, str, str]] = [
    # check, plant, grade, words of its sentence
    ("worker-spread", workers(25, 18, 17, 20), "VALID", "25, 20, 18, 17"),
    ("worker-spread", workers(26, 18, 16, 20), "WEAK", "26, 20, 18, 16"),
    ("worker-spread", workers(40), "VALID", "share a port"),
    ("limits-acted", quota(0.5, 0.0), "WEAK", "cache used"),
    ("limits-acted", quota(0.5, 0.1), "VALID", "held back"),
    ("limits-acted", quota(0.255, 0.0), "VALID", "Limits were reached"),
    ("limits-acted", shared_quota(0.6, 0.94, 0.0), "WEAK", "used 94 % of its 0.6 cores"),
    ("limits-acted", shared_quota(0.6, 0.96, 0.0), "VALID", "used 96 % of its 0.6 cores"),
    ("limits-acted", shared_quota(2.0, 0.5, 0.2, "vm"), "VALID", "vm used 50 % of its 2 cores"),
    ("limits-acted", shared_quota(2.0, 0.5, 0.0, "vm"), "WEAK", "vm used 50 % of its 2 cores"),
    ("limits-acted", disk_rate("read", 0.94), "WEAK", "used 94 % of its 10 MB/s of disk reads"),
    ("limits-acted", disk_rate("read", 0.96), "VALID", "used 96 % of its 10 MB/s of disk reads"),
    ("limits-acted", disk_rate("write", 0.3, bursts=True), "VALID", "of disk writes and was at it for"),
    ("limits-acted", disk_rate("write", 1.0, "blkio"), "WEAK", "escapes the limit"),
    ("limits-acted", disk_rate("write", 1.0, "unified"), "VALID", "including buffered ones"),
    ("limits-acted", disk_rate("read", 1.0, "blkio"), "VALID", "used 100 % of its 10 MB/s of disk reads"),
    ("limits-acted", faulted_writes("blkio"), "WEAK", "disk writes of cache may not have held"),
    ("limits-acted", faulted_writes("unified"), "VALID", "including buffered ones"),
    ("limits-acted", own_link(out=0.94), "WEAK", "cache used 94 % of its 1 MB/s of link"),
    ("limits-acted", own_link(out=0.96), "VALID", "cache used 96 % of its 1 MB/s of link"),
    ("limits-acted", own_link(out=0.1, into=0.96), "VALID", "cache used 96 % of its 1 MB/s of link"),
    ("limits-acted", own_link(out=1.0, late_s=0.0004), "VALID", "20 ms, was 800 µs longer"),
    ("limits-acted", own_link(out=1.0, late_s=0.0006), "WEAK", "20 ms, was 1.2 ms longer"),
    ("limits-acted", own_link(out=1.0, late_s=0.0, cores=0.89), "VALID", "89 % of a core"),
    ("limits-acted", own_link(out=1.0, late_s=0.0, cores=0.91), "WEAK", "91 % of a core"),
    ("limits-acted", link(0.94, 0.0), "WEAK", "94 % of its 977 KiB/s"),
    ("limits-acted", link(0.96, 0.0), "VALID", "Limits were reached"),
    ("limits-acted", link(0.2, 0.01), "VALID", "held back"),
    ("limits-acted", link(0.2, -0.3), "WEAK", "held back for 0 s"),
    ("limits-acted", link(0.2, None), "VALID", "It was not measured how long the link of cache"),
    ("limits-acted", quota(0.5, None), "VALID", "It was not measured how long the quota of cache"),
    ("limits-acted", lambda *made: link(0.2, 0.0)(*quota(0.5, None)(*made)), "WEAK", "20 % of its 977 KiB/s"),
    ("manipulation", files(0.991), "VALID", "99.1 %"),
    ("manipulation", files(0.989), "REFUSED", "98.9 %"),
    ("manipulation", files(1.0, 0.008), "VALID", "warm"),
    ("manipulation", files(1.0, 0.012), "REFUSED", "from a disk"),
    ("manipulation", dropped(0.0), "VALID", "files were dropped"),
    ("manipulation", dropped(0.009), "VALID", "0.9 % of the 1 TiB of cache"),
    ("manipulation", dropped(0.011), "WEAK", "1.1 %"),
    ("manipulation", dropped(0.0, 0.91), "VALID", "91 % of what it sent for the first time"),
    ("manipulation", dropped(0.0, 0.89), "WEAK", "89 % of what it sent for the first time"),
    ("manipulation", dropped(0.0, 0.46, repeats=2.0), "VALID", "92 % of what it sent for the first time"),
    ("manipulation", dropped(0.0, 0.44, repeats=2.0), "WEAK", "88 % of what it sent for the first time"),
    ("manipulation", dropped(0.0, 0.0, repeats=None), "VALID", "unknown how much of that it had sent before"),
    ("manipulation", dropped(0.0, None), "VALID", "it was not counted what came from a disk"),
    ("steal", read("host", "steal_seconds_total", jump(0.01), "cpu1"), "VALID", "1 %"),
    ("steal", read("host", "steal_seconds_total", jump(0.02), "cpu1"), "WEAK", "The hypervisor took at most"),
    ("others-cpu", read("others", "cpu_seconds_total", rate(0.09)), "VALID", "4.5 %"),
    ("others-cpu", read("others", "cpu_seconds_total", rate(0.12)), "VALID", "Other programs used 6 % of this machine"),
    ("others-cpu", read("others", "cpu_seconds_total", rate(0.42)), "WEAK", "sshd (0.02"),
    ("run-queue", read("generator", "run_queue_seconds_total", rate(0.009)), "VALID", "0.9 %"),
    ("run-queue", read("generator", "run_queue_seconds_total", rate(0.02), "probe.0/0"), "VALID", "probe.0/0"),
    ("run-queue", read("generator", "run_queue_seconds_total", rate(0.06)), "VALID", "6 %"),
    ("generator-cpu", read("generator", "cpu_seconds_total", rate(0.29)), "VALID", "0.87 of 1 cores"),
    ("generator-cpu", fast_load(0.5), "REFUSED", "what the load can generate, not what the server can serve"),
    ("generator-cpu", fast_load(0.96), "VALID", "a server reached a limit of its own: cores of cache"),
    ("generator-cpu", fast_load(0.5, open_loop=True), "VALID", "0.93 of 1 cores"),
    ("generator-cpu", fast_load(None), "REFUSED", "no limit of a server's own was read"),
    ("carried-over", carried(0.0), "VALID", "No request from before"),
    ("carried-over", carried(0.045), "VALID", "points lower"),
    ("carried-over", carried(0.055), "WEAK", "of background were in flight when the kept window began"),
    ("carried-over", carried(0.19), "WEAK", "points lower"),
    ("carried-over", carried(0.21), "REFUSED", "points lower"),
    ("carried-over", carried(0.9, ended_before=True), "VALID", "No request from before"),
    ("calibration", under(after={"calibration_ns": 41_800.0}), "VALID", "slower"),
    ("calibration", under(after={"calibration_ns": 42_200.0}), "WEAK", "slower"),
    ("calibration", under(after={"calibration_ns": 37_600.0}), "WEAK", "faster"),
    ("clocks", later(realtime_ns=900_000), "VALID", "tsc"),
    ("clocks", later(realtime_ns=1_500_000), "VALID", "1.5 ms off"),
    ("clocks", later(realtime_ns=-SECOND_NS // 5), "WEAK", "200 ms off"),
    ("clocks", later(boottime_ns=900_000), "VALID", "no suspension"),
    ("clocks", later(boottime_ns=1_100_000), "REFUSED", "suspended for 1.1 ms"),
    ("clocks", under(before={"clock_source": "hpet"}, after={"clock_source": "hpet"}), "VALID", "hpet"),
    ("clocks", under(after={"clock_source": "hpet"}), "REFUSED", "changed from tsc to hpet"),
    ("clocks", under(before={"clock_source": None}, after={"clock_source": "jiffies"}), "WEAK", "source jiffies"),
    ("clocks", under(before={"clock_source": HYPER_V}, after={"clock_source": HYPER_V}), "VALID", "tsc_page"),
    (
        "clocks",
        lambda trial, config: later(realtime_ns=4_000_000)(later(**dict.fromkeys(("monotonic_ns", "realtime_ns", "boottime_ns"), 300 * SECOND_NS))(trial, config)[0], config),
        "VALID",
        "4 ms",
    ),
    ("accounting", under(machine={"loopback_bytes_per_s": 1e9}), "VALID", "loopback carries"),
    ("accounting", under(machine={"loopback_bytes_per_s": 1e5}), "REFUSED", "loopback carries"),
    ("hiccups", read("generator", "hiccup_seconds", lambda at, _: np.full(len(at), 0.004)), "VALID", "The longest stall on a core"),
    ("hiccups", read("generator", "hiccup_seconds", lambda at, old: np.where(at < 0.05, 0.5, old)), "VALID", "No number is off"),
    ("hiccups", without_passes, "VALID", "The longest stall on a core"),
]  # fmt: skip
TIMES = ("response.p50", "response.mean")
BESIDE = ("probe.success_rate", "cache.hit_ratio")
GRADES: list[tuple[str, Plant, str, tuple[str, ...]]] = [
    # check, plant, grade of the following numbers; of the background if without an owner
    ("generator-cpu", fast_load(0.5), "REFUSED", ("throughput", "ok_throughput")),
    ("generator-cpu", fast_load(0.5), "VALID", (*TIMES, "success_rate", "cache.hit_ratio")),
    ("carried-over", carried(0.21), "REFUSED", (*TIMES, "success_rate", "error_rate")),
    ("carried-over", carried(0.21), "VALID", ("throughput", "ok_response.p50", *BESIDE)),
]
RANGED: list[tuple[str, Plant, bool]] = [
    # check, plant, whether it widens any number
    ("calibration", under(after={"calibration_ns": 41_100.0}), False),
    ("calibration", under(after={"calibration_ns": 41_300.0}), True),
    ("hiccups", long_gap(0.0049), False),
    ("hiccups", long_gap(0.0055), True),
    ("hiccups", long_gap(0.0099, "loop_pass_seconds"), False),
    ("hiccups", long_gap(0.011, "loop_pass_seconds"), True),
]
UNUSUAL: list[tuple[Plant, str]] = [
    # plant, words that the facts have for it; "": nothing is unusual
    (read("host", "drop_pagecache_total", jump(1.0)), "dropped the page cache 1 times"),
    (under(before={"time_wait": 1400}), ""),
    (under(before={"time_wait": 1450}), "1,450 of 28,232 local ports"),
    (under(machine={"local_ports": 60_000}), ""),
    (few_ports(), "allow 1.66667"),
    (elsewhere(), "is not monitored"),
    (few_ports(close="reset"), ""),
    (looked_up("curl"), ""),
    (looked_up("engine", 300), ""),
    (looked_up("engine"), "probe looked up names"),
    # a tenth of the least p99 is 0.47 ms
    (paused(0.0004), ""),
    (paused(0.0005), "was 500"),
]
NEEDS_FACTS = (
    "tcp-loss",
    "steal", "others-cpu", "run-queue", "generator-cpu", "calibration", "clocks", "hiccups", "worker-spread",
)  # fmt: skip


def found_in(bench: Bench, name: str, plant: Plant) -> CheckResult:
    return check(*plant(bench.trial("TC4.r1"), bench.configs["TC4"]), name)


@pytest.mark.parametrize(("name", "plant", "grade", "words"), PLANTED)
def test_planted(closed: Bench, name: str, plant: Plant, grade: str, words: str) -> None:
    found = found_in(closed, name, plant)
    assert (found.grade, words.lower() in found.sentence.lower()) == (grade, True), found.sentence
    assert bool(found.remedy) == (grade != "VALID")
    assert found.measured


@pytest.mark.parametrize(("plant", "words"), UNUSUAL)
def test_what_is_unusual_is_a_fact_without_a_grade(closed: Bench, plant: Plant, words: str) -> None:
    found = found_in(closed, "surroundings", plant)
    assert (found.grade, bool(found.value), words in found.sentence) == ("VALID", bool(words), True)


@pytest.mark.parametrize(("name", "plant", "grade", "numbers"), GRADES)
def test_a_check_grades_the_numbers_that_it_concerns(
    closed: Bench, name: str, plant: Plant, grade: str, numbers: tuple[str, ...]
) -> None:
    found = found_in(closed, name, plant)
    for number in numbers:
        owned = number.startswith(("probe.", "cache."))
        assert found.on(number if owned else f"background.{number}") == grade, number


@pytest.mark.parametrize(("name", "plant", "ranged"), RANGED)
def test_a_small_disturbance_widens_nothing(closed: Bench, name: str, plant: Plant, ranged: bool) -> None:
    assert bool(found_in(closed, name, plant).harms) == ranged


@pytest.mark.parametrize(
    ("share", "text", "outcome", "told"),
    [
        (0.045, "background.error_rate <= 1 %", "open", ", 0 % to 4.6"),
        (0.045, "background.error_rate < 4.4 %", "open", ", 0 % to 4.6"),
        (0.045, "background.error_rate < 5 %", "passed", ", 0 % to 4.6"),
        (0.0, "background.error_rate <= 0.1 %", "passed", "is 0 %"),
        (0.045, "background.success_rate >= 99 %", "open", "95.35 % to 100"),
        (0.045, "background.success_rate >= 90 %", "passed", "95.35 % to 100"),
    ],
)
def test_success_that_may_be_lower_meets_no_limit_above_what_it_may_be(
    closed: Bench, share: float, text: str, outcome: str, told: str
) -> None:
    """It may be 4.5 points lower, which says nothing about 0 errors."""
    trial, config = carried(share)(closed.trial("TC4.r1"), closed.configs["TC4"])
    config = evolve(config, thresholds=(text,))
    (found,) = judge_run(closed.lock, {"TC4": config}, [trial]).thresholds
    assert (found.outcome, found.measured) == (outcome, float("success" in text))
    assert told in found.sentence


def test_arrivals_of_an_open_loop_wait_for_nobody(open_loop: Bench) -> None:
    trial = open_loop.trial("TC0.r1")
    found = check(*carried(0.5)(trial, open_loop.config(trial)), "carried-over")
    assert "background" not in found.sentence
    assert found.grade == "VALID"


def test_a_long_gap_widens_times_where_no_calm_part_is_left(
    closed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found_in(closed, "hiccups", long_gap(0.1)).on("background.response.p99") == "VALID"
    monkeypatch.setattr(limits, "CALM_LEAST", 2.0)
    found = found_in(closed, "hiccups", long_gap(0.1))
    assert (found.grade, found.on("background.response.p99")) == ("WEAK", "WEAK")
    assert found.on("background.success_rate") == found.on("cache.hit_ratio") == "VALID"
    assert "was stalled for 100 ms (probe.0/0)" in found.sentence


def test_who_used_the_cpu_is_named(closed: Bench) -> None:
    trial = closed.trial("TC4.r1")
    busy = with_readings(trial, "others", "cpu_seconds_total", lambda at, _: 1.5 * at)
    busy = with_readings(busy, "others", "cpu_seconds", lambda at, _: np.full(len(at), 0.3))
    found = check(busy, closed.config(trial), "others-cpu")
    assert (found.grade, "sshd" in found.sentence, "process 812" in found.sentence) == ("WEAK", True, True)
    assert found.who.startswith("sshd (")
    assert "(sshd, process 812)" in found.remedy
    entity = np.where(busy.monitors["entity"] == "sshd 812", "svload 812", busy.monitors["entity"])
    found = check(with_table(busy, "monitors", entity=entity), closed.config(trial), "others-cpu")
    assert found.remedy.startswith("Stop or move other programs (another svload, process 812)")


def test_an_old_trial_without_the_facts_is_not_measured_and_not_broken(closed: Bench) -> None:
    """An svload that recorded none of them made the run: no check is VALID because a fact is missing."""
    trial = closed.trial("TC4.r1")
    bare = without_readings(trial, ~np.isin(trial.monitors["monitor"].astype(str), ("sampler", "process")))
    bare = evolve(bare, lab__conditions=None)
    verdict = judge_trial(bare, closed.config(trial)).verdict
    found = {one.check: one for one in verdict.checks}
    assert {name for name, one in found.items() if not one.measured} == set(NEEDS_FACTS)
    assert all(found[name].sentence.startswith("Not measured: ") for name in NEEDS_FACTS)
    assert verdict.instrument == judge_trial(trial, closed.config(trial)).verdict.instrument


def test_only_workers_that_users_keep_connections_to_are_judged(closed: Bench) -> None:
    planted, config = workers(8, 0)(closed.trial("TC4.r1"), closed.configs["TC4"])
    fleeting = with_config(config, "background", connection="new")
    assert "keep connections" in check(planted, fleeting, "worker-spread").sentence
    request = evolve(config.groups[0].request, host="another")
    for redirects, grade in ((0, "VALID"), (1, "WEAK")):
        away = with_config(config, "background", request=evolve(request, follow_redirects=redirects))
        assert check(planted, away, "worker-spread").grade == grade


def test_a_clock_that_can_not_be_read_is_not_measured(closed: Bench) -> None:
    """No change of the clock source; the readings it does have still count."""
    trial, config = closed.trial("TC4.r1"), closed.configs["TC4"]
    for unread in (under(after={"clock_source": None}), under(before={"clock_source": None})):
        found = check(unread(trial, config)[0], config, "clocks")
        assert found.grade == "VALID"
        slept = later(boottime_ns=2 * SECOND_NS)(*unread(trial, config))[0]
        assert check(slept, config, "clocks").grade == "REFUSED"
    both = under(before={"clock_source": None}, after={"clock_source": None})(trial, config)[0]
    found = check(both, config, "clocks")
    assert not found.measured
    assert "clock source could not be read" in found.sentence


def resent(trial: TrialData, count: int) -> TrialData:
    before = trial.lab.conditions.before.tcp_resent
    return with_conditions(trial, after={"tcp_resent": before + count})


def test_segments_that_the_path_lost_make_the_tail_rough(closed: Bench) -> None:
    """A hundredth of the requests waited for a retransmission: that affects the p99, but no median."""
    trial, config = elsewhere()(closed.trial("TC0.r1"), closed.configs["TC0"])
    asked = sum(group.begun for group in trial.summary.groups)
    found = check(resent(trial, asked // 100), config, "tcp-loss")
    assert found.grade == "WEAK"
    assert f"{asked // 100:,} of" in found.sentence
    assert found.on("background.response.p99") == "WEAK"
    assert found.on("background.response.p50") == "VALID"
    assert found.on("background.throughput") == "VALID"
    assert check(resent(trial, asked // 5000), config, "tcp-loss").on("background.response.p99") == "VALID"
    for share, grade in ((0.0045, "VALID"), (0.0055, "WEAK")):
        some = check(resent(trial, round(share * asked)), config, "tcp-loss")
        assert some.on("background.response.p95") == grade, "a tenth of the requests beyond it"
    assert check(trial, config, "tcp-loss").grade == "VALID"
    here = resent(closed.trial("TC0.r1"), asked // 100)
    assert check(here, config, "tcp-loss").grade == "VALID", "over loopback it is the server's doing"
    unknown = with_conditions(trial, before={"tcp_sent": None, "tcp_resent": None})
    assert not check(unknown, config, "tcp-loss").measured


@pytest.mark.parametrize(("source", "reading_s"), [("acpi_pm", 4e-6), ("jiffies", 0.01)])
def test_times_are_as_far_off_as_a_reading_of_the_clock(closed: Bench, source: str, reading_s: float) -> None:
    planted, config = under(before={"clock_source": source}, after={"clock_source": source})(
        closed.trial("TC4.r1"), closed.configs["TC4"]
    )
    found = judge_trial(planted, config)
    (clocks,) = (one for one in found.verdict.checks if one.check == "clocks")
    (p50,) = (one for one in clocks.harms if one.number == "background.response.p50")
    assert p50.above == pytest.approx(reading_s / (found.metrics["background.response.p50"].value or 0.0))
