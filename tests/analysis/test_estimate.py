"""What a run is said to take: by what its kits state, and by what the last run took."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.analysis.conftest import Bench
from tests.evolve import evolve

from svload.analysis import estimate_run, measured, size_of_run
from svload.analysis.estimate import RunEstimate
from svload.model.costs import Costs
from svload.model.events import Event
from svload.model.study import CaseConfig, ObjectSet, Preparation
from svload.model.traffic import Feeder

FREE = Costs(up_s=0, fill_per_s=1e9, answers_per_s=1e9)
LOAD_S = 12 * 1.3
"""The synthetic run: 6 cases, 2 replicates, 0.1 s of ramps and 1.2 s of load."""


def costs_of(bench: Bench, **changed: float) -> Mapping[str, Mapping[str, Costs]]:
    cost = FREE.model_copy(update=changed)
    return {name: dict.fromkeys(("backend", "cache"), cost) for name in bench.configs}


def with_store(config: CaseConfig, count: int, take: str = "walk") -> CaseConfig:
    """The case with a store of objects that are warmed through the cache before each trial."""
    objects = ObjectSet(name="objects", service="backend", count=count, size={"constant": 1024})
    feeder = Feeder.model_validate({"name": "object", "table": "objects", "take": take})
    steps = (Preparation(reset=("cache", "backend")), Preparation(warm="object", through="cache"))
    return evolve(config, objects=(objects,), feeders=(feeder,), before_trial=steps)


def of_kits(bench: Bench, configs: Mapping[str, CaseConfig] | None = None, restarts: int = 0, **changed: float) -> RunEstimate:  # fmt: skip
    return estimate_run(bench.lock, configs or bench.configs, costs_of(bench, **changed), restarts=restarts)


def test_load_is_exact_and_the_rest_is_stated(closed: Bench) -> None:
    found = of_kits(closed)
    assert found.trials == 12
    assert found.load_s == pytest.approx(LOAD_S)
    assert found.seconds > found.load_s
    assert "kits" in found.basis


def test_each_cost_of_a_kit_counts_as_often_as_it_comes(closed: Bench) -> None:
    configs = {name: with_store(config, 1_000) for name, config in closed.configs.items()}
    bare = of_kits(closed, configs).seconds
    for changed, added_s in (
        ({"up_s": 3.0}, 2 * 3.0),
        ({"reset_s": 0.5}, 12 * 2 * 0.5),
        ({"settle_s": 1.0}, 12 * 2 * 1.0),
        ({"fill_per_s": 100.0}, 10.0),
    ):
        assert of_kits(closed, configs, **changed).seconds - bare == pytest.approx(added_s, rel=1e-3), changed


def test_warming_takes_its_rows_over_what_is_answered(closed: Bench) -> None:
    """Beside the wait for the last answers of a closed loop's users, which the same rate decides."""
    few, many = (
        of_kits(closed, {name: with_store(config, count) for name, config in closed.configs.items()}, answers_per_s=100.0)
        for count in (1_000, 3_000)
    )  # fmt: skip
    assert many.seconds - few.seconds == pytest.approx(12 * 20.0, rel=1e-3)
    first = {name: with_store(config, 3_000, "first") for name, config in closed.configs.items()}
    assert few.seconds - of_kits(closed, first, answers_per_s=100.0).seconds == pytest.approx(12 * 9.99)


def test_a_warmed_cache_answers_its_last_users_by_itself(closed: Bench) -> None:
    warmed = {name: with_store(config, 1) for name, config in closed.configs.items()}
    for configs, is_warmed in ((warmed, True), (closed.configs, False)):
        slow = of_kits(closed, configs, answers_per_s=1.0).seconds
        assert (of_kits(closed, configs, answers_per_s=1.0, hits_per_s=1e9).seconds < slow) == is_warmed


def test_a_restart_brings_everything_up_and_finds_the_objects_again(closed: Bench) -> None:
    configs = {name: with_store(config, 1_000) for name, config in closed.configs.items()}
    once = of_kits(closed, configs, up_s=2.0, fill_per_s=100.0).seconds
    put_anew = of_kits(closed, configs, restarts=3, up_s=2.0, fill_per_s=100.0).seconds
    kept = of_kits(closed, configs, restarts=3, up_s=2.0, fill_per_s=100.0, refill_per_s=1_000.0).seconds
    assert put_anew - once == pytest.approx(3 * (2 * 2.0 + 10.0))
    assert kept - once == pytest.approx(3 * (2 * 2.0 + 1.0))


def journal(beside_s: Mapping[str, float], once_s: float = 3.0, report_s: float = 1.2) -> list[Event]:
    """The events of a run that took so long beside load, a trial of each case."""
    sealed = [
        Event("trial-sealed", {"case": case, "seconds": seconds + 1.3, "beside_s": seconds})
        for case, seconds in beside_s.items()
        for _ in range(2)
    ]
    return [
        Event("phase", {"name": "up", "state": "begin"}),
        Event("phase", {"name": "up", "state": "end", "seconds": once_s}),
        *sealed,
        Event("phase", {"name": "analyse", "state": "end", "seconds": report_s}),
    ]


def test_the_last_run_is_believed_more_than_its_kits(closed: Bench) -> None:
    last = measured(journal({"TC0": 0.5, "TC1": 2.5}))
    found = estimate_run(closed.lock, closed.configs, costs_of(closed, up_s=100.0), last=last)
    # TC2 … TC5 were left out of it: 1.5 s each, as an average case took; its analysis took 0.3 s a trial.
    beside_s = 2 * (0.5 + 2.5 + 4 * 1.5) + 12 * 0.3
    assert found.seconds == pytest.approx(LOAD_S + 3.0 + beside_s, abs=0.6)
    assert found.basis == "measured in the last run"


def test_a_run_without_a_sealed_trial_measured_nothing() -> None:
    assert measured(journal({})) is None
    assert measured([]) is None


def test_bytes_are_of_the_right_size(closed: Bench) -> None:
    written = sum(path.stat().st_size for path in closed.run.trials.rglob("*") if path.is_file())
    assert 0.5 < size_of_run(closed.lock, closed.configs) / written < 4


def test_what_a_resume_did_again_is_not_counted_twice() -> None:
    once, resumed = measured(journal({"TC0": 0.5})), measured([*journal({"TC0": 0.5})] * 2)
    assert resumed.once_s == once.once_s
    assert resumed.report_trial_s == once.report_trial_s / 2, "the journal holds twice the trials"
