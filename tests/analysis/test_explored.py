"""Effects of the load itself, described without being asked for, from matched cases, as exploratory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.analysis.conftest import Bench, with_config
from tests.analysis.test_compare import (
    HTTPS,
    PROTOCOL,
    SERVER,
    blocks,
    broken,
    lock_with,
    names,
    with_metrics,
)
from tests.evolve import evolve
from tests.results import case_result

from svload.analysis.explored import load_effects
from svload.model.executors import ConstantVus
from svload.model.results import Estimate, Finding, TrialResult, Why
from svload.model.study import CaseConfig, Comparison

HTTP = ("TC0", "TC1", "TC2")


def loaded(bench: Bench, without: tuple[str, ...] = HTTP, **probe: Any) -> dict[str, CaseConfig]:
    """Return the bench's cases; those in `without` lack the background load, which protocol thus adds."""
    found = {}
    for name, config in bench.configs.items():
        if name in without:
            found[name] = evolve(config, groups=tuple(one for one in config.groups if one.name == "probe"))
        else:
            found[name] = with_config(config, "probe", **probe)
    return found


def effects(
    bench: Bench,
    trials: list[TrialResult],
    *comparisons: Comparison,
    configs: Mapping[str, CaseConfig] | None = None,
) -> tuple[Finding, ...]:
    replicates = max(one.block for one in trials)
    values = {one.case: one.metrics for one in trials}
    cases = [case_result(name, metrics=values[name]) for name in bench.configs]
    lock = lock_with(bench.lock, replicates, *comparisons)
    return load_effects(lock, configs or loaded(bench), cases, trials, {})


def test_it_is_described_with_its_ratio_and_no_p(closed: Bench) -> None:
    (found,) = effects(closed, blocks([50.0] * 4), SERVER)
    assert (found.kind, found.certainty) == ("exploratory", "exploratory")
    assert (
        "The load itself (protocol: https against http): the median response of probe is 50 × as long, over "
        "3 matched cases and 12 pairs in 4 blocks, from 50 × (" in found.sentence
    )
    assert found.sentence.endswith("Exploratory: not a planned comparison, so it has no p.")
    assert "p =" not in found.sentence
    assert set(found.evidence) == {f"cases/{name}" for name in (*HTTP, *HTTPS)}


def test_nothing_else_is_described(closed: Bench) -> None:
    trials = blocks([50.0] * 4)
    assert effects(closed, trials, PROTOCOL) == (), "a planned comparison of that factor is enough"
    for configs in (closed.configs, loaded(closed, without=("TC0",))):
        assert effects(closed, trials, configs=configs) == (), "a factor that adds no traffic"
    (probe,) = (group for group in closed.configs["TC0"].groups if group.name == "probe")
    assert isinstance(probe.executor, ConstantVus)
    more = evolve(probe.executor, vus=probe.executor.vus + 1)
    assert effects(closed, trials, configs=loaded(closed, executor=more)) == (), "a probe that asks otherwise"


@pytest.mark.parametrize(("usable", "expected"), [(2, False), (3, True)])
def test_three_blocks_are_needed_to_describe(closed: Bench, usable: int, expected: bool) -> None:
    every = names((*HTTP, *HTTPS), range(usable + 1, 6))
    found = effects(closed, broken(blocks([50.0] * 5), *every))
    assert bool(found) is expected
    assert not expected or f"in {usable} blocks" in found[0].sentence


@pytest.mark.parametrize(("why", "described"), [("too few", True), ("time-out", False)])
def test_a_pair_without_a_number_is_left_out(closed: Bench, why: Why, described: bool) -> None:
    trials = [
        with_metrics(one, response__p50=Estimate(value=None, why=why)) if one.trial == "TC4.r2" else one
        for one in blocks([50.0] * 4)
    ]
    found = effects(closed, trials)
    assert bool(found) is described
    assert not described or "and 11 pairs in 4 blocks" in found[0].sentence
