"""Load curves of factors that are a load, always computed: by the whole judge, and on hand-made trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, bench_of, with_config, with_service, with_table
from tests.evolve import evolve
from tests.results import case_result, trial_result
from tests.support import make_run
from tests.support.runs import BEARS_USERS, SERVER_CORES

from svload.analysis.curves.curve import axes_of, curve_findings, load_curves, ramp_findings
from svload.analysis.curves.trial_loads import resources_used
from svload.analysis.judge import judge_run, judge_trial
from svload.analysis.sentences import _saturated
from svload.analysis.series import CaseCut
from svload.analysis.view import kept_window
from svload.model.evidence import CaseEvidence, CaseLimit, Evidence, LimitUse
from svload.model.executors import ConstantVus, ThinkTime
from svload.model.facts import CPUS, Setting
from svload.model.load_curve import GroupLoad, LoadCurve, RampBreak, ResourceUse
from svload.model.results import Belief, Estimate, Findings, TrialResult
from svload.model.study import CaseConfig, Factor, Level
from svload.store import TrialData

USERS = (2, 3, 5, 8, 16, 32)
CASES = [f"TC{6 * place}" for place in range(len(USERS))]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    others = {f"TC{6 * place + other}": "one server" for place in range(len(USERS)) for other in range(1, 6)}
    folder = tmp_path_factory.mktemp("users")
    bench = bench_of(make_run(folder, users=USERS, replicates=3, duration_s=0.6, excluded=others))
    return judge_run(bench.lock, bench.configs, bench.trials(), server_cores=SERVER_CORES)


def test_a_factor_of_users_has_its_curve_and_limits(findings: Findings) -> None:
    (curve,) = findings.curves
    assert (curve.factor, curve.kind, curve.group, curve.when) == ("users", "users", "background", {})
    assert [point.users for point in curve.points] == list(map(float, USERS))
    star, knee, peak = curve.limits
    assert (star.name, star.state) == ("N*", "bracketed")
    assert star.low <= BEARS_USERS <= star.high
    assert star.value == pytest.approx(BEARS_USERS, rel=0.1)
    assert knee.value == pytest.approx(BEARS_USERS, rel=0.15)
    assert peak.value is None
    assert curve.agree is True
    assert (curve.demands[0].resource, curve.demands[0].bottleneck) == ("CPU of all services", True)
    assert curve.law_off == pytest.approx(0, abs=0.05)
    for point in curve.points:
        assert point.least_s is not None
        assert point.throughput_rps <= 1.05 * point.most_rps
        assert len(point.runs) == 3


def test_levels_that_bring_only_waiting_are_saturated(findings: Findings) -> None:
    states = {case.levels["users"]: case.server for case in findings.cases if case.excluded is None}
    assert states == dict.fromkeys("235", "STEADY") | dict.fromkeys(("8", "16", "32"), "SATURATED")
    (trial,) = [one for one in findings.trials if one.trial == f"{CASES[-1]}.r1"]
    assert trial.verdict.server == "SATURATED"
    assert "throughput stays at" in " ".join(trial.verdict.reasons)


def test_what_was_found_is_reported_with_its_sign(findings: Findings) -> None:
    (server,) = [one for one in findings.findings if one.kind == "server"]
    assert server.sentence.startswith("SATURATED in TC18, TC24, TC30: throughput of background stays at ")
    assert "/s over users 8 to 32 while response time rises (N* = " in server.sentence
    assert "slot" not in server.sentence
    (law,) = [one for one in findings.findings if one.kind == "law"]
    assert "From N* = " in law.sentence
    assert "they agree within 25 %" in law.sentence
    assert "N = X·(R + Z) holds within" in law.sentence
    assert law.evidence == tuple(f"cases/{name}" for name in CASES)


def test_limits_and_waiting_are_signs_of_their_own() -> None:
    plain = case_result("A", server="SATURATED", load_model={"g": "open loop"})
    limit = CaseLimit(service="web", monitor="truth", name="worker threads", resource="workers", entity="", used=8, limit=8,
                      share=1, peak_share=1, state="reached", reached=3, trials=3, first_s=1.0)  # fmt: skip
    waiting = {"g.slot_wait.p50": Estimate(value=0.6), "g.response.p50": Estimate(value=1.0)}
    full = evolve(plain, evidence=CaseEvidence(limits=(limit,)))
    waits = evolve(plain, metrics=waiting)
    slots = "g: more than half of the median response time is waiting for a free slot"
    workers = "the worker threads of web were full"
    for case, sentences in (
        (full, [f"SATURATED in A: {workers}."]),
        (waits, [f"SATURATED in A: {slots}."]),
        (evolve(full, metrics=waiting), [f"SATURATED in A: {workers}; {slots}."]),
        (case_result("A"), []),
    ):
        assert [found.sentence for found in _saturated([case], (), ())] == sentences


def test_what_no_finding_covers_is_reported_from_trials_with_the_range_of_percentages() -> None:
    text = "the server works at its limit: core {}, which the servers run on, was busy for {} % of the time."
    cases, trials = [], []
    for name, core, percent in (("A", 1, "97"), ("B", 1, "100"), ("C", 1, "98.5"), ("D", 2, "97")):
        reasons = (text.format(core, percent),)
        cases.append(case_result(name, server="SATURATED"))
        trials.append(
            evolve(trial(name, 1, 100.0, 0.1), verdict__server="SATURATED", verdict__reasons=reasons)
        )
    assert [found.sentence for found in _saturated(cases, trials, ())] == [
        f"SATURATED in A, B, C: {text.format(1, '97 to 100')}",
        f"SATURATED in D: {text.format(2, '97')}",
    ]


# Hand-made trials


def trial(
    name: str, block: int, throughput: float, response_s: float, grade: Any = None, **load: Any
) -> TrialResult:
    belief = Belief(grade=grade) if grade else None
    metrics = {"background.throughput": throughput, "background.response.mean": response_s}
    found = {key: Estimate(value=value, belief=belief) for key, value in metrics.items()}
    own = {"users": None, "rate_rps": None, "think_s": 0.0, "window_s": 60.0, "longest_cycle_s": 0.3}
    return trial_result(name, block, found, loads={"background": GroupLoad(**own | load)})


def used(cores: float) -> ResourceUse:
    return ResourceUse(name="CPU", service="", kind="cpu", used=cores, capacity=1.0, limited_by="its quota")


def configs_of(bench: Bench, executors: Mapping[str, Any]) -> dict[str, CaseConfig]:
    base = next(iter(bench.configs.values()))
    return {name: with_config(base, "background", executor=executor) for name, executor in executors.items()}


def curve_of(
    bench: Bench, executors: Mapping[str, Any], trials: Sequence[TrialResult]
) -> tuple[LoadCurve, ...]:
    factor = Factor(name="f", levels=tuple(Level(name=f"l{name}") for name in executors))
    lock = evolve(bench.lock, factors=(factor,))
    cases = [case_result(name, levels={"f": f"l{name}"}) for name in executors]
    return load_curves(lock, configs_of(bench, executors), cases, trials)


def thinking(think_s: float, vus: int = 50) -> ConstantVus:
    return ConstantVus(vus=vus, think_time=ThinkTime(constant_ns=round(think_s * 1e9)))


def loop_curve(
    bench: Bench,
    *levels: tuple[int, float, float],
    scatter: float = 0.002,
    off: float = 0.0,
    uses: Callable[[float], tuple[ResourceUse, ...]] = lambda _: (),
) -> LoadCurve:
    """Return the curve of a closed loop over levels A, B, … of users, think time in s and throughput, with
    three trials each, whose throughput differs by `scatter`; N = X·(R + Z) is off by `off`."""
    named = dict(zip("ABCDE", levels, strict=False))
    trials = []
    for name, (users, think_s, throughput) in named.items():
        for block in (1, 2, 3):
            x = throughput * (1 + scatter * block)
            response_s = users * (1 + off) / x - think_s
            one = trial(name, block, x, response_s, users=float(users), think_s=think_s)
            trials.append(evolve(one, uses=uses(x)))
    executors = {name: thinking(think_s, users) for name, (users, think_s, _) in named.items()}
    (curve,) = curve_of(bench, executors, trials)
    return curve


def test_a_delay_did_not_make_the_server_faster(closed: Bench) -> None:
    """A paper's table was read as "a longer delay makes the server faster"."""
    curve = loop_curve(closed, (50, 0.0, 223.8), (50, 0.2, 223.65), scatter=0.001)
    assert curve.kind == "think"
    first = curve.sentences[0]
    assert first.startswith(
        "The 200 ms think time did not make the server faster: response time fell from 223 ms to 23.1 ms"
    )
    assert "throughput stayed at" in first
    assert "N = X·(R + Z) holds within 1 %" in first
    assert {point.flat for point in curve.points} == {True}
    (finding,) = curve_findings([curve])
    assert finding.evidence == ("cases/A", "cases/B")


@pytest.mark.parametrize(("off", "words"), [(0.028, "holds within 3 %"), (0.032, "is off by +3.2 %")])
def test_the_law_holds_within_3_percent(closed: Bench, off: float, words: str) -> None:
    curve = loop_curve(closed, (50, 0.0, 200.0), (50, 0.2, 200.0), scatter=0.0, off=off)
    assert f"N = X·(R + Z) {words}" in curve.sentences[0]


def test_a_delay_that_raises_throughput_is_reported(closed: Bench) -> None:
    curve = loop_curve(closed, (50, 0.0, 180.0), (50, 0.1, 240.0))
    assert "throughput rose from 180" in curve.sentences[0]
    assert "did not make" not in " ".join(curve.sentences)


def test_refused_numbers_make_no_point(closed: Bench) -> None:
    trials = [
        trial("A", 1, 100.0, 0.1, users=10.0),
        trial("B", 1, 110.0, 0.2, users=20.0),
        trial("C", 1, 110.0, 0.4, "REFUSED", users=40.0),
    ]
    executors = {name: thinking(0, vus) for name, vus in (("A", 10), ("B", 20), ("C", 40))}
    (curve,) = curve_of(closed, executors, trials)
    assert [point.case for point in curve.points] == ["A", "B"]
    assert curve_of(closed, executors, trials[:1]) == ()


def test_a_full_link_is_reported_as_the_limit_by_its_rate(closed: Bench) -> None:
    """Each request takes the whole link for 20 ms, and 80 ms elsewhere: five users fill it."""
    name = "link rate out of store"

    def uses(x: float) -> tuple[ResourceUse, ...]:
        link = evolve(used(0.02 * x), name=name, service="store", kind="rate", limited_by="5 MB/s")
        return link, used(0.001 * x)

    levels = [(users, 0.0, min(users / 0.1, 50.0)) for users in (1, 2, 4, 10, 20)]
    curve = loop_curve(closed, *levels, uses=uses)
    assert curve.limits[0].name == "N*"
    assert curve.limits[0].value == pytest.approx(5, rel=0.1)
    assert f"({name}: 20 ms per request at 5 MB/s)" in " ".join(curve.sentences)
    demands = [(one.resource, one.kind, one.bottleneck) for one in curve.demands]
    assert demands == [(name, "rate", True), ("CPU", "cpu", False)]


def axes(bench: Bench, configs: Mapping[str, CaseConfig]) -> list[tuple[str, str]]:
    factor = Factor(name="f", levels=tuple(Level(name=f"l{name}") for name in configs))
    ran = {name: case_result(name, levels={"f": f"l{name}"}) for name in configs}
    return [(axis.group, axis.kind) for axis in axes_of(factor, ran, configs)]


def test_what_else_differs_is_no_load(closed: Bench) -> None:
    more = thinking(0, 20)
    configs = configs_of(closed, {"A": thinking(0, 10), "B": more})
    assert axes(closed, configs) == [("background", "users")]
    other = with_config(list(closed.configs.values())[1], "background", executor=more)
    assert axes(closed, {"A": configs["A"], "B": other}) == []
    for second in (thinking(0.1, 20), thinking(0, 10)):
        assert axes(closed, configs_of(closed, {"A": thinking(0, 10), "B": second})) == []


# Resources


def test_a_capacity_is_the_least_of_quota_cores_and_threads(closed: Bench) -> None:
    one = closed.trial("TC1.r1")
    window = kept_window(one.summary)

    def capacity(data: TrialData) -> tuple[float, str]:
        found = next(use for use in resources_used(data, window, (1, 2)) if use.name == "CPU of cache")
        return found.capacity, found.limited_by

    assert capacity(one) == (2, "the servers' cores")
    half = with_service(one, "cache", settings=(Setting(name=CPUS, asked="0.5", found="0.5"),))
    assert capacity(half) == (0.5, "its quota")
    threads = np.where(one.monitors["metric"] == "threads", 1.0, one.monitors["value"])
    assert capacity(with_table(one, "monitors", value=threads)) == (1, "its threads")
    names = [use.name for use in resources_used(one, window, (1,))]
    assert names == ["CPU of backend", "CPU of cache", "CPU of all services"]


LINK = LimitUse(
    service="cache", monitor="link", name="link rate out", resource="network", entity="cache",
    used=9e6, limit=1e7, share=0.9, peak_share=1.0, full=0.5, state="approached",
)  # fmt: skip


def test_a_limited_link_and_disk_are_resources_and_the_machines_disk_is_none(closed: Bench) -> None:
    """A machine's disk is one resource, though each service within it reads it."""
    one = closed.trial("TC1.r1")

    def rates(*limits: LimitUse) -> dict[str, tuple[float, float, str]]:
        found = resources_used(one, kept_window(one.summary), (1,), Evidence(limits=limits))
        return {use.name: (use.used, use.capacity, use.limited_by) for use in found if use.kind == "rate"}

    disk = evolve(LINK, name="disk read rate", resource="disk", entity="machine")
    other = evolve(disk, service="", name="disk", entity="vda", verdict=False)
    full = (0.9, 1.0, "10 MB/s")
    assert rates(LINK, disk, other) == {
        "link rate out of cache": full,
        "disk read rate of cache (machine)": full,
    }
    shared = evolve(disk, monitor="quota", entity="vm")
    assert rates(shared, evolve(shared, service="backend")) == {"disk read rate of vm": full}


# Ramps


def broken(at: float | None, what: Any = "response", block: int = 1) -> TrialResult:
    found = RampBreak(group="users", kind="users", what=what, at=at, reason="" if at else "no")
    if at:
        found = evolve(found, low=at - 2, high=at + 2)
    return evolve(trial("A", block, 1.0, 1.0), breaks=(found,))


def test_ramps_are_reported_where_most_trials_broke() -> None:
    (found,) = ramp_findings(
        [broken(at, block=block) for block, at in enumerate((40.0, 42.0, 44.0, None), 1)]
    )
    assert "A: as the load of users rises, response time starts to rise faster at 42 [" in found.sentence
    assert list(ramp_findings([broken(40.0), broken(None), broken(None)])) == []
    (single,) = ramp_findings([broken(40.0, "errors")])
    assert "errors start at 40 [38, 42] users" in single.sentence


def test_the_law_uses_the_window_that_its_numbers_cover(closed: Bench) -> None:
    """A cut of half the load would otherwise allow windows of ten cycles, and half of their bias."""
    trial = closed.trial("TC1.r1")
    low_ns, high_ns = trial.summary.window_ns
    cut = CaseCut((high_ns - low_ns) // 2, "VALID", "")
    found = judge_trial(trial, closed.config(trial), cut=cut)
    assert found.loads
    assert {one.window_s for one in found.loads.values()} == {kept_window(trial.summary, cut.cut_ns).seconds}
