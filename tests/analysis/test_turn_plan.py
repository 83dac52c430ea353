"""The plan of a block's turns: their length, and which side has which turn."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from tests.evolve import evolve

from svload.analysis import limits
from svload.analysis.turn_plan import TurnPlan, least_rounds, seconds_apart, turn_plan, turns_of
from svload.study import load_study, resolve
from svload.study.compared_urls import ComparedUrls, compare_study
from svload.study.quick_load import QuickLoad, study_text

MS = 1_000_000


@pytest.mark.parametrize(
    ("p99_ms", "per_s", "connections", "length_ms"),
    [
        (1, 1000, 0, 500),  # the minimum
        (1, 0, 0, 500),  # no rate is known
        (80, 1000, 0, 800),  # ten times the p99
        (1, 40, 0, 800),  # 30 requests take 750 ms, with head and tail 31
        (1, 40, 10, 1050),  # 40 of them
        (200, 1000, 0, 2000),
        (52, 1000, 0, 550),  # 520, rounded up to whole intervals
    ],
)
def test_turn_fits_the_slower_side(p99_ms: float, per_s: float, connections: int, length_ms: int) -> None:
    plan = turn_plan(p99_ms * MS, per_s, connections)
    assert (plan.length_ns, plan.rounds) == (length_ms * MS, 10)
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
    assert turn_plan(MS, 1000, rounds=20).rounds == 20
    assert turn_plan(MS, 1000, rounds=20, duration_ns=30_000 * MS).rounds == 60


def test_the_time_between_stretches_is_drawn_between_its_ends() -> None:
    found = [seconds_apart(seed, block) for seed in range(20) for block in range(2, 12)]
    assert 1 <= min(found) < 1.2
    assert 4.8 < max(found) <= 5
    assert seconds_apart(3, 4) == seconds_apart(3, 4)


def test_a_slow_server_asks_for_no_more_than_leaves_half_of_a_turn_measured() -> None:
    at_cap, beyond = (turn_plan(p99_s * 1e9, 1000) for p99_s in (0.6, 2.0))
    assert at_cap.length_ns == 5_000 * MS, "6 s without the bound"
    assert beyond.length_ns == 16_000 * MS, "four times the p99 are not measured"
    assert turn_plan(0.4e9, 1000).length_ns == 4_000 * MS, "below it nothing changes"


def test_a_longer_duration_makes_more_rounds() -> None:
    assert turn_plan(1e6, 1000, duration_ns=12_300 * MS).rounds == 25
    assert turn_plan(1e6, 1000, duration_ns=2_000 * MS).rounds == 10


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
    assert gaps == {20 * MS}
    assert all(end - begin == 500 * MS for (begin, end), _ in in_order)
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
