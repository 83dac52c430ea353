"""Runs by turns, from their tables to the gate: planted effects are found, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, log
from pathlib import Path

import numpy as np
import pytest
from tests.evolve import evolve
from tests.support import SyntheticRun, TurnModel, make_run

from svload import api
from svload.analysis.claims.turned import Turned, _defer, _effect, _requests, _within_and_between
from svload.analysis.claims.turns import Turns, by_turn
from svload.analysis.judge import judge_trial
from svload.analysis.readings import Series
from svload.api.runs import FinalVerdicts
from svload.model.errors import ExitCode
from svload.model.executors import ConstantVus
from svload.model.results import TurnRecord
from svload.run.configs import case_configs
from svload.store import read_trial
from svload.store.load_time import monitors_in_load_time, samples_in_load_time

NONE = dict.fromkeys(("TC1", "TC2", "TC4", "TC5"), "not asked")


def made(folder: Path, turns: TurnModel, https: float = 1.0, more: tuple[str, ...] = ()) -> SyntheticRun:
    return make_run(
        folder, turns=turns, excluded=NONE | dict.fromkeys(more, "not asked"), replicates=8, vus=2,
        effects={"protocol": {"https": https}}, between_runs_sigma=0.01,
    )  # fmt: skip


SLOW_NOW_AND_THEN = TurnModel(slow={"https": (1.6, 1.0, 1.0, 1.0, 1.0) * 2})
WARMING = TurnModel(slow={"https": tuple(1.06 - 0.012 * turn for turn in range(10))})
IN_FLIGHT = TurnModel(pause_ns=3_000_000)


@pytest.mark.parametrize(
    ("turns", "https", "outcome", "says", "code"),
    [
        (TurnModel(), 1.0, "pass", "within the margin", ExitCode.DONE),
        (TurnModel(), 1.15, "fail", "rises by", ExitCode.THRESHOLD_FAILED),
        (SLOW_NOW_AND_THEN, 1.0, "open", "over all requests together it is 1.0", ExitCode.REFUSED),
        (WARMING, 1.0, "open", "not warm", ExitCode.REFUSED),
        (WARMING, 0.1, "pass", "within the margin", ExitCode.DONE),
        (IN_FLIGHT, 1.0, "open", "windows too short", ExitCode.REFUSED),
        (IN_FLIGHT, 1.15, "open", "windows too short", ExitCode.REFUSED),
        (TurnModel(rounds=4), 1.0, "open", "5 are needed", ExitCode.REFUSED),
    ],
    ids=[
        "equal",
        "slower",
        "now and then",
        "not warm",
        "not warm, far",
        "in flight",
        "slower, in flight",
        "few rounds",
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


def test_one_block_has_no_ratio_over_all_requests_and_no_failures_are_blamed(tmp_path: Path) -> None:
    turns = TurnModel()
    findings = api.analyse(make_run(tmp_path, turns=turns, excluded=NONE, replicates=1, vus=2))
    (claim,) = findings.claims
    assert claim.turns is not None
    two_sides_s = findings.sealed_trials // 2 * turns.duration_ns / 1e9
    assert findings.phases_s["load"] == pytest.approx(two_sides_s), "both sides are under one load"
    assert claim.turns.pooled.value is None
    assert claim.turns.pooled.reason == "no case has the 2 blocks that it needs"


@pytest.mark.parametrize(
    ("again", "https", "outcome", "says"),
    [
        (1.0, 1.0, "pass", "within the margin"),
        (1.0, 1.15, "fail", "rises by"),
        (1.08, 1.0, "open", "the setup prefers a side (http against itself: "),
        (1.08, 1.15, "open", "the setup prefers a side (http against itself: "),
    ],
)
def test_control_shows_a_bias(tmp_path: Path, again: float, https: float, outcome: str, says: str) -> None:
    turns = TurnModel(control=True, slow={"http-again": (again,) * 10})
    run = made(tmp_path, turns, https, more=("TC7", "TC8"))
    (claim,) = api.analyse(run).claims
    assert bool(FinalVerdicts()(run).decided) == (outcome != "open"), "no gate ends early and stays open"
    assert claim.turns.control.value == pytest.approx(again, rel=0.02)
    assert (claim.gate.outcome, claim.treatment) == (outcome, "https"), claim.gate.why
    assert says in claim.gate.why


def test_weather_that_both_sides_share_is_not_in_the_ratio(tmp_path: Path) -> None:
    weather = tuple(float(one) for one in np.random.default_rng(3).choice([1.0, 1.8], 10))
    shared = TurnModel(slow={"http": weather, "https": weather})
    (claim,) = api.analyse(made(tmp_path, shared, 1.15)).claims
    assert claim.ratio.value == pytest.approx(1.15, rel=0.03)
    assert claim.gate.outcome == "fail"


def test_a_trial_is_judged_in_load_time(tmp_path: Path) -> None:
    run = made(tmp_path, TurnModel())
    findings = api.analyse(run)
    assert {trial.verdict.instrument for trial in findings.trials} == {"VALID"}
    name = findings.trials[0].trial
    real, load = (read_trial(run.trial(name), clock=clock) for clock in ("real", "load"))
    record = load.summary.turns
    assert record is not None
    assert load.samples["due_ns"].max() < 5_000_000_000 < real.samples["due_ns"].max()
    assert np.array_equal(
        load.samples["done_ns"] - load.samples["ready_ns"], real.samples["done_ns"] - real.samples["ready_ns"]
    )
    turn = Turns.of_record(record).of(real.samples["due_ns"])
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


def delayed(late_ns: int, stamped: float = 1.0) -> Turned:
    """Return ten turns of 40 responses of 10 ms each, begun and read late by half of `late_ns` each."""
    due = np.arange(400) * 1_000
    turns = Turns(np.arange(10) * 40_000, np.arange(1, 11) * 40_000, np.arange(1, 11) * 40_000)
    half = np.full(400, late_ns // 2)
    rows = {
        "due_ns": due, "ready_ns": due, "done_ns": due + 10_000_000 + late_ns, "error": np.zeros(400, dtype=int),
        "connection": np.zeros(400, dtype=int), "ok": np.ones(400, dtype=bool), "lag_ns": half,
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
    assert found is not None
    assert "is 8 % of that within" in found.why
    assert list(_defer([[of_side(0.5, 0.0)] * 2, treatment[:0]])) == [None]


EACH_20 = range(0, 501, 20)


@pytest.mark.parametrize(
    ("grown", "idle", "used"),
    [
        (lambda at: at / 100, 0.0, (2.0, 2.0)),
        (lambda at: min(at, 200) / 100 + max(at - 400, 0) / 100, 0.0, (2.0, 0.0)),
        (lambda at: min(max(at - 220, 0), 100) / 100, 0.0, (0.0, 10 / 9)),
        (lambda at: at / 100, 1e9, (2.0, 0.0)),
    ],
    ids=["all the time", "in its turns", "after them", "idles"],
)
def test_use_between_turns(grown: Callable[[int], float], idle: float, used: tuple[float, float]) -> None:
    series = Series(np.array(EACH_20, dtype=float), np.array([grown(at) for at in EACH_20]))
    assert _within_and_between(series, TURNS, idle) == pytest.approx(used)
    sparse = Series(np.array([0.0, 500.0]), np.array([0.0, 9.0]))
    assert _within_and_between(sparse, TURNS, idle) is None, "no look lies wholly on one side"


@pytest.mark.parametrize(
    "changes",
    [{"turns_ns": ((100, 200), (210, 300))}, {"next_ns": (220,)}, {"turns_ns": ((200, 200), (400, 500))}],
)
def test_turns_that_overlap_are_no_record(changes: dict[str, object]) -> None:
    sound = {
        "turns_ns": ((100, 200), (400, 500)), "next_ns": (220, 520), "p99_ns": 1, "pause_ns": 20,
        "sides": ("a", "b"), "warm_ns": 0, "settled": True,
    }  # fmt: skip
    TurnRecord.model_validate(sound)
    with pytest.raises(ValueError, match=r"turns_ns|next_ns"):
        TurnRecord.model_validate(sound | changes)


@pytest.mark.parametrize(("in_turns", "grade"), [(True, "VALID"), (False, "REFUSED")])
def test_sides_were_ramped_up_before_their_turns(tmp_path: Path, in_turns: bool, grade: str) -> None:
    """The users of a ramp are missing in a load that begins with the ramp, but not in turns."""
    run = made(tmp_path, TurnModel())
    trial = read_trial(run.trial(run.sealed_trials()[0]))
    config = case_configs(run.lock())[trial.case]
    groups = tuple(
        evolve(group, executor__ramp_up_ns=2_000_000_000)
        if isinstance(group.executor, ConstantVus)
        else group
        for group in config.groups
    )
    if not in_turns:
        trial = evolve(trial, summary__turns=None)
    result = judge_trial(trial, evolve(config, groups=groups))
    (accounting,) = [check for check in result.verdict.checks if check.check == "accounting"]
    assert accounting.grade == grade, accounting.sentence
