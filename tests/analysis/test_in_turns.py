"""Runs by turns, from their plan and tables to the gate: planted effects are found, and nothing else."""

from __future__ import annotations

import itertools
from collections import Counter
from math import isnan, log
from pathlib import Path

import numpy as np
import pytest
from benches.turns import ENDS, drawn_blocks, ended
from tests.analysis.conftest import bench_of
from tests.evolve import evolve
from tests.support import SyntheticRun, TurnModel, make_run

from svload import api
from svload.analysis import limits
from svload.analysis.claims.decide import judge_claims, metrics_of_claims
from svload.analysis.claims.turned import Turned, _defer, _effect, _requests, made_of, waits
from svload.analysis.claims.turns import Turns, by_turn, in_flight
from svload.analysis.judge import judge_run, judge_trial
from svload.analysis.turn_plan import (
    TurnPlan,
    least_load_ns,
    least_rounds,
    seconds_apart,
    turn_plan,
    turns_of,
)
from svload.api.runs import FinalVerdicts
from svload.model.errors import ExitCode
from svload.model.executors import ConstantVus
from svload.model.results import Estimate
from svload.run.configs import case_configs
from svload.store import read_trial
from svload.store.load_time import monitors_in_load_time, samples_in_load_time
from svload.study import load_study, resolve
from svload.study.compared_urls import ComparedUrls, compare_study
from svload.study.quick_load import QuickLoad, study_text

NONE = dict.fromkeys(("TC1", "TC2", "TC4", "TC5"), "not asked")


def made(folder: Path, turns: TurnModel, https: float = 1.0, more: tuple[str, ...] = ()) -> SyntheticRun:
    return make_run(
        folder, turns=turns, excluded=NONE | dict.fromkeys(more, "not asked"), replicates=8, vus=2,
        effects={"protocol": {"https": https}}, between_runs_sigma=0.01,
    )  # fmt: skip


@pytest.fixture(scope="module")
def equal(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    return made(tmp_path_factory.mktemp("equal"), TurnModel())


SLOW_NOW_AND_THEN = TurnModel(slow={"https": (1.6, 1.0, 1.0, 1.0, 1.0) * 2})
WARMING = TurnModel(slow={"https": tuple(1.06 - 0.012 * turn for turn in range(10))})
MS = 1_000_000
IN_HEAD = TurnModel(pause_ns=3 * MS)
"""Most turns end with a request in flight, which the next turn's head of 60 ms outlasts."""
IN_FLIGHT = TurnModel(pause_ns=3 * MS, p99_ns=MS, slow={"http": (10.0,) * 10, "https": (10.0,) * 10})
BIASED = TurnModel(control=True, slow={"http-again": (1.3,) * 10})


@pytest.mark.parametrize(
    ("turns", "https", "outcome", "says", "code"),
    [
        (TurnModel(), 1.0, "pass", "within the margin", ExitCode.DONE),
        (TurnModel(), 1.15, "fail", "rises by", ExitCode.THRESHOLD_FAILED),
        (SLOW_NOW_AND_THEN, 1.0, "open", "over all requests together it is 1.0", ExitCode.REFUSED),
        (WARMING, 1.0, "open", "not warm", ExitCode.REFUSED),
        (WARMING, 0.1, "pass", "within the margin", ExitCode.DONE),
        (IN_HEAD, 1.0, "pass", "within the margin", ExitCode.DONE),
        (IN_HEAD, 1.15, "fail", "rises by", ExitCode.THRESHOLD_FAILED),
        (IN_FLIGHT, 1.0, "open", "windows too short", ExitCode.REFUSED),
        (TurnModel(rounds=4), 1.0, "open", "5 are needed", ExitCode.REFUSED),
    ],
)
def test_a_gate_by_turns_says_what_was_planted(
    tmp_path: Path, turns: TurnModel, https: float, outcome: str, says: str, code: ExitCode
) -> None:
    findings = api.analyse(made(tmp_path, turns, https))
    (claim,) = findings.claims
    assert (claim.gate.outcome, api.verdict_exit(findings)) == (outcome, code), claim.gate.why
    assert says in claim.gate.why
    assert claim.turns.rounds == 8 * turns.rounds


@pytest.mark.parametrize(
    ("again", "https", "outcome", "says"),
    [
        (1.0, 1.0, "pass", "within the margin"),
        (1.0, 1.15, "fail", "rises by"),
        (1.08, 1.0, "open", "the setup favours a side (http against itself: "),
        (1.08, 1.15, "open", "the setup favours a side (http against itself: "),
    ],
)
def test_control_shows_a_bias(tmp_path: Path, again: float, https: float, outcome: str, says: str) -> None:
    turns = evolve(BIASED, slow={"http-again": (again,) * 10})
    run = made(tmp_path, turns, https, more=("TC7", "TC8"))
    (claim,) = api.analyse(run).claims
    assert bool(FinalVerdicts()(run).decided) == (outcome != "open"), "no gate ends early and stays open"
    assert claim.turns.control.value == pytest.approx(again, rel=0.02)
    assert (claim.gate.outcome, claim.treatment) == (outcome, "https"), claim.gate.why
    assert says in claim.gate.why


@pytest.mark.parametrize(
    ("late", "outcome", "says"),
    [
        (0, "pass", "within the margin"),
        (1, "open", "http against itself: 1 of 8 pairs have one side beyond the timeout"),
        (8, "open", "the setup favours a side (http against itself: 8 of 8 pairs"),
    ],
)
def test_a_control_beyond_the_time_out_is_no_missing_control(
    tmp_path: Path, late: int, outcome: str, says: str
) -> None:
    """The candidate equals the baseline, whose second server answers too few requests in `late` blocks."""
    bench = bench_of(made(tmp_path, evolve(BIASED, slow={}), more=("TC7", "TC8")))
    again = next(case.name for case in bench.lock.valid_cases if "http-again" in case.levels.values())
    lost = Estimate(value=None, reason="> timeout (70 % failed)", why="time-out")
    trials = list(judge_run(bench.lock, bench.configs, bench.trials()).trials)
    for place, one in enumerate(trials):
        if one.case == again and one.block < late:
            trials[place] = evolve(one, metrics={**one.metrics, "probe.response.p50": lost})
    wanted = metrics_of_claims(bench.lock, bench.configs)
    (claim,) = judge_claims(bench.lock, bench.configs, trials, made_of(bench.trials(), bench.configs, wanted))
    assert claim.gate.outcome == outcome, claim.gate.why
    assert says in claim.gate.why


def test_a_trial_is_judged_in_load_time(equal: SyntheticRun) -> None:
    findings = api.analyse(equal)
    assert {trial.verdict.instrument for trial in findings.trials} == {"VALID"}
    name = findings.trials[0].trial
    real, load = (read_trial(equal.trial(name), clock=clock) for clock in ("real", "load"))
    assert load.samples["due_ns"].max() < 5_000_000_000 < real.samples["due_ns"].max()
    took = [one.samples["done_ns"] - one.samples["ready_ns"] for one in (load, real)]
    assert np.array_equal(*took)
    turn = Turns.of_record(load.summary.turns).of(real.samples["due_ns"])
    assert np.array_equal(turn, load.samples["due_ns"] // 500_000_000)


TURNS = Turns(*(np.array(one) for one in ([100, 400], [200, 500], [220, 520])))


def stamps(due: int, ready: int, done: int) -> dict[str, int]:
    both = {"due_ns": due, "ready_ns": ready, "done_ns": done}
    rows = both | {"begun_ns": ready, "written_ns": -1, "first_byte_ns": done}
    found = samples_in_load_time({name: np.array([at]) for name, at in rows.items()}, TURNS)
    return {name: int(found[name][0]) for name in rows}


def test_a_request_is_due_in_load_time_and_takes_real_time() -> None:
    assert stamps(150, 150, 260) == {
        "due_ns": 50, "ready_ns": 50, "begun_ns": 50, "written_ns": -1, "first_byte_ns": 160, "done_ns": 160,
    }  # fmt: skip
    waited = stamps(190, 410, 430)
    assert waited["done_ns"] - waited["due_ns"] == 10 + 10 + 20, "the off time that it waited is left out"
    assert stamps(450, -1, -1) == dict.fromkeys(waited, -1) | {"due_ns": 150}


NUMBERS = ("connection", "vu", "share")


def delayed(late_ns: int, stamped: float = 1.0) -> Turned:
    """Return ten turns of 40 responses of 10 ms each, begun and read late by half of `late_ns` each."""
    due = np.arange(400) * 1_000
    turns = Turns(np.arange(10) * 40_000, np.arange(1, 11) * 40_000, np.arange(1, 11) * 40_000)
    half = np.full(400, late_ns // 2)
    rows = {
        "due_ns": due, "ready_ns": due, "done_ns": due + 10_000_000 + late_ns, "error": np.zeros(400, dtype=int),
        "ok": np.ones(400, dtype=bool), "lag_ns": half, **dict.fromkeys(NUMBERS, np.zeros(400, dtype=int)),
        "read_lag_ns": np.where(np.arange(400) < 400 * stamped, half, -1),
    }  # fmt: skip
    found = _requests(rows, turns, "response")
    responses = [None if one is None else by_turn(one, turns, np.ones(400, dtype=bool)) for one in found]
    none = np.zeros(10, dtype=bool)
    return Turned(responses[0] or (), responses[1], none, none, 0.0, {}, (None,) * 10)


def test_a_round_has_an_effect_without_the_generator_s_own_delays() -> None:
    """The delays are known for each request, so the same rounds give both effects; else for whole trials."""
    effect = _effect((delayed(0), delayed(1_000_000)), 0.95)
    assert (effect.effect, effect.clean) == (pytest.approx(log(1.1)), pytest.approx(0.0, abs=1e-9))
    assert isnan(_effect((delayed(0), delayed(1_000_000, stamped=0.5)), 0.95).clean)


def readings(metric: str, *read: tuple[int, float]) -> list[tuple[int, float]]:
    at, values = zip(*read, strict=True)
    names = {"service": "web", "monitor": "process", "entity": "", "metric": metric}
    table = {name: np.array([word] * len(at), dtype=object) for name, word in names.items()}
    table |= {"offset_ns": np.array(at), "value": np.array(values, dtype=float)}
    found = monitors_in_load_time(table, TURNS)
    return list(zip(found["offset_ns"].tolist(), found["value"].tolist(), strict=True))


def test_a_counter_grows_by_what_it_grew_within_the_turns() -> None:
    found = readings("cpu_seconds_total", (100, 1.0), (200, 2.0), (400, 7.0), (450, 7.5), (500, 8.0))
    assert found == [(0, 1.0), (100, 2.0), (150, 2.5), (200, 3.0)]
    between = readings("cpu_seconds_total", (0, 0.0), (600, 6.0))
    assert between == [(0, 1.0), (100, 2.0), (200, 3.0)], "in a straight line between two readings"


def test_other_readings_are_those_within_the_turns_and_right_after() -> None:
    found = readings("rss_bytes", (50, 1.0), (150, 2.0), (210, 3.0), (300, 4.0), (450, 5.0), (700, 6.0))
    assert found == [(-50, 1.0), (50, 2.0), (100, 3.0), (150, 5.0), (400, 6.0)]


def of_side(within: float, between: float) -> Turned:
    none = np.zeros(1, dtype=bool)
    return Turned((), None, none, none, 0.0, {"CPU": (within, between)}, ())


def test_the_side_that_defers_work_is_not_hidden_by_the_other() -> None:
    """The treatment defers 8 % of its CPU, on average over its blocks; both sides together 4 %."""
    treatment = [of_side(0.5, 0.03), of_side(0.5, 0.05)]
    (found,) = _defer([[of_side(0.5, 0.0)] * 2, treatment])
    assert "is 8 % of that within" in found.why
    assert list(_defer([[of_side(0.5, 0.0)] * 2, treatment[:0]])) == [None]


@pytest.mark.parametrize("metric", ["response", "ok_response", "service"])
def test_a_failed_request_in_flight_is_seen_whatever_is_compared(metric: str) -> None:
    """The third one times out in the next turn, 50 ms after its head, and waited for a slot before."""
    turns = Turns(*(one * MS for one in (TURNS.begin_ns, TURNS.end_ns, TURNS.next_ns)))
    begun_ns = [110, 120, 140, 410]
    columns = {"due_ns": [110, 120, 130, 410], "ready_ns": begun_ns, "begun_ns": begun_ns}
    columns |= {"done_ns": [115, 126, 300, 417], "error": [0, 0, 1, 0]}
    columns |= dict.fromkeys(NUMBERS, [1] * 4)
    columns |= {"read_lag_ns": [-1] * 4, "lag_ns": [0] * 4, "ok": [True, True, False, True]}
    scaled = {name: np.array(one) * (MS if name.endswith("_ns") else 1) for name, one in columns.items()}
    requests, _ = _requests(scaled, turns, metric)
    assert list(in_flight(requests, turns, MS)) == [True, False]
    assert list(waits(requests, turns)) == [True, False]
    assert list(requests.response_ns[~np.isnan(requests.response_ns)] / MS) == [5, 6, 7]


@pytest.mark.parametrize(("in_turns", "grade"), [(True, "VALID"), (False, "REFUSED")])
def test_sides_were_ramped_up_before_their_turns(equal: SyntheticRun, in_turns: bool, grade: str) -> None:
    """The users of a ramp are missing in a load that begins with the ramp, but not in turns."""
    trial = read_trial(equal.trial(equal.sealed_trials()[0]))
    config = case_configs(equal.lock())[trial.case]
    groups = tuple(
        evolve(one, executor__ramp_up_ns=2_000_000_000) if isinstance(one.executor, ConstantVus) else one
        for one in config.groups
    )
    if not in_turns:
        trial = evolve(trial, summary__turns=None)
    result = judge_trial(trial, evolve(config, groups=groups))
    (accounting,) = [check for check in result.verdict.checks if check.check == "accounting"]
    assert accounting.grade == grade, accounting.sentence


# The plan of a block's turns


@pytest.mark.parametrize(
    ("p99_ms", "per_s", "connections", "length_ms", "rounds"),
    [
        (1, 1000, 0, 200, 25),  # the minimum, for 5 s
        (1, 0, 0, 200, 25),  # no rate is known
        (80, 1000, 0, 800, 10),  # ten times the p99
        (1, 40, 0, 300, 28),  # 10 requests take 250 ms, with head and tail 31; 300 of them
        (1, 40, 10, 550, 28),  # 20 of them, half of which are first of their connections
        (1, 40, 50, 2050, 10),  # no more than 30 that count are asked for
        (200, 1000, 0, 2000, 10),
        (52, 1000, 0, 550, 10),  # 520, rounded up to whole intervals
        (400, 1000, 0, 4_000, 10),
        # a slow server asks for no more than leaves half of a turn measured: four times the p99 are not
        (600, 1000, 0, 5_000, 10),
        (2000, 1000, 0, 16_000, 10),
    ],
)
def test_turn_fits_the_slower_side(
    p99_ms: float, per_s: float, connections: int, length_ms: int, rounds: int
) -> None:
    plan = turn_plan(p99_ms * MS, per_s, connections, least_load_ns(0, 10))
    assert (plan.length_ns, plan.rounds) == (length_ms * MS, rounds)
    assert plan.length_ns % (limits.TURN_INTERVALS * MS) == 0, "intervals are whole milliseconds"


def test_more_rounds_are_one_block_where_no_server_is_started(tmp_path: Path) -> None:
    """Servers that svload starts are new in each block; with running servers a block is twice as long."""
    study = compare_study(ComparedUrls(QuickLoad("http://127.0.0.1:1/"), "http://127.0.0.1:2/"))
    path = tmp_path / "study.json"
    path.write_text(study_text(study))
    lock = load_study(path)
    config = resolve(lock, lock.cases[0])
    assert (least_rounds(config), config.starts_servers) == (20, False)
    started = evolve(config.services[0], kit="command")
    assert least_rounds(evolve(config, services=(started,))) == 10
    for duration_ms, rounds in ((0, 50), (30_000, 150)):
        load_ns = least_load_ns(duration_ms * MS, 20)
        assert turn_plan(MS, 1000, rounds=20, duration_ns=load_ns).rounds == rounds


def test_the_time_between_stretches_is_drawn_between_its_ends() -> None:
    found = [seconds_apart(seed, block) for seed in range(20) for block in range(2, 12)]
    assert 1 <= min(found) < 1.2
    assert 4.8 < max(found) <= 5
    assert seconds_apart(3, 4) == seconds_apart(3, 4)


@pytest.mark.parametrize(("p99_ms", "pause_ms"), [(0, 50), (1, 50), (40, 80), (125, 250), (900, 1000)])
def test_the_pause_is_twice_the_p99_within_bounds(p99_ms: float, pause_ms: int) -> None:
    assert turn_plan(p99_ms * MS, 100).pause_ns == pause_ms * MS


def test_turns_never_overlap_and_each_round_has_every_side_once() -> None:
    plan = TurnPlan(500 * MS, 20 * MS, 10)
    sides = turns_of(plan, 3, seed=7, block=2)
    assert [len(one) for one in sides] == [10, 10, 10]
    in_order = sorted((window, side) for side, windows in enumerate(sides) for window in windows)
    assert in_order[0][0][0] == 0
    gaps = {after[0][0] - before[0][1] for before, after in itertools.pairwise(in_order)}
    assert (gaps, {end - begin for (begin, end), _ in in_order}) == ({20 * MS}, {500 * MS})
    for turn in range(10):
        assert sorted(side for _, side in in_order[3 * turn : 3 * turn + 3]) == [0, 1, 2]
    assert in_order[-1][0][1] + 20 * MS == plan.seconds(3) * 1e9
    assert plan.load_ns == 10 * 500 * MS


def test_the_order_within_a_round_is_drawn_from_the_seed() -> None:
    plan = TurnPlan(500 * MS, 20 * MS, 10)

    def first(seed: int, block: int) -> list[int]:
        sides = turns_of(plan, 2, seed, block)
        return [int(b < a) for a, b in zip(*sides, strict=True)]

    assert first(1, 1) == first(1, 1)
    assert len({tuple(first(seed, block)) for seed in range(4) for block in range(4)}) > 12
    counted = Counter(one for seed in range(20) for block in range(20) for one in first(seed, block))
    assert counted[1] / counted.total() == pytest.approx(0.5, abs=0.04)


def test_a_gate_that_ends_where_it_is_decided_is_seldom_wrong_and_ends_soon() -> None:
    """The planted case is the interval's own level, looked at after each block."""
    faster, calm, at_margin, slower = (
        ended(drawn_blocks(ratio, 0.04, 0.06, 1000), *ENDS) for ratio in (0.5, 1, 1.05, 1.15)
    )
    assert calm.fails <= 0.005
    assert at_margin.fails <= 0.065
    assert at_margin.passes <= 0.05
    assert slower.fails > 0.99
    assert slower.blocks < 12
    assert faster.passes > 0.99
    assert faster.blocks < 7
    careless = ended(drawn_blocks(1.05, 0.04, 0.06, 1000), 0.05, 0.05)
    assert careless.fails > 0.065
    assert careless.passes > 0.05


@pytest.mark.parametrize("metric", ["probe.response.mean", "probe.throughput"])
@pytest.mark.parametrize(
    ("turns", "outcome", "says"),
    [
        (TurnModel(), "pass", "within the margin"),
        (IN_FLIGHT, "open", "windows too short"),
        (WARMING, "open", "not warm"),
        (BIASED, "open", "the setup favours a side (http against itself: "),
    ],
)
def test_a_gate_on_a_mean_or_a_rate_has_the_same_guards(
    tmp_path: Path, metric: str, turns: TurnModel, outcome: str, says: str
) -> None:
    bench = bench_of(made(tmp_path, turns, more=("TC7", "TC8") if turns.control else ()))
    (planned,) = bench.lock.comparisons
    lock = evolve(bench.lock, comparisons=(evolve(planned, metric=metric),))
    (claim,) = judge_run(lock, bench.configs, bench.trials()).claims
    assert claim.gate.outcome == outcome, claim.gate.why
    assert says in claim.gate.why
