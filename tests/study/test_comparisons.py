"""What `compare` and `measure.bring_ups` may say, and what is refused with file and line before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.evolve import evolve
from tests.study.test_order import lock_of

from svload.model.errors import Problem, SvloadError
from svload.model.study import Lock
from svload.study import first_batch, load_study

from .conftest import SMALL

COMPARE = "{name: the front, factor: way, baseline: direct, metric: guest.response.p50}"


def problems(folder: Path, old: str, new: str) -> tuple[Problem, ...]:
    assert SMALL.count(old) == 1
    (folder / "study.yaml").write_text(SMALL.replace(old, new), encoding="utf-8")
    with pytest.raises(SvloadError) as caught:
        load_study(folder)
    return caught.value.problems


def test_an_interaction_is_read(load: Callable[..., Lock]) -> None:
    lock = load(SMALL.replace("metric: guest.response.p50}", "metric: guest.response.p50, by: scheme}"))
    assert lock.comparisons[0].by == "scheme"
    assert load().comparisons[0].by is None


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ("schem", "“scheme”"),
        ("way", "another factor than the compared one"),
        ("users, when: {users: 1}", "one level of users only"),
    ],
)
def test_a_by_that_can_be_none_is_told_at_its_line(folder: Path, by: str, says: str) -> None:
    (found,) = problems(folder, COMPARE, COMPARE.replace("}", f", by: {by}}}"))
    assert says in str(found)
    assert found.place.endswith(f":{SMALL[: SMALL.index(COMPARE)].count(chr(10)) + 1}")


@pytest.mark.parametrize(("bring_ups", "refused"), [(1, False), (3, False), (4, True)])
def test_there_are_at_most_as_many_bring_ups_as_blocks(
    folder: Path, load: Callable[..., Lock], bring_ups: int, refused: bool
) -> None:
    new = f"replicates: 3, bring_ups: {bring_ups}"
    if not refused:
        assert load(SMALL.replace("replicates: 3", new)).measure.bring_ups == bring_ups
        return
    (found,) = problems(folder, "replicates: 3", new)
    assert "at most one bring-up a block" in str(found)


def test_a_server_that_svload_does_not_start_has_no_bring_ups(
    folder: Path, load: Callable[..., Lock]
) -> None:
    text = """\
name: own
lab:
  web: {at: "http://127.0.0.1:9"}
traffic:
  load: {executor: constant-vus, vus: 1, request: GET http://web/}
measure: {duration: 1s, replicates: 6, bring_ups: 2}
"""
    with pytest.raises(SvloadError) as caught:
        load(text)
    (found,) = caught.value.problems
    assert "no service is started by svload" in str(found)
    assert found.place.endswith("study.yaml:6")
    assert load(text.replace(", bring_ups: 2", "")).measure.bring_ups == 1


MIXED = """\
name: mixed
lab:
  web: {kit: stone}
factors:
  side: [a, b]
  loop:
    closed: {}
    open: {}
traffic:
  users: {when: {loop: closed}, executor: constant-vus, vus: 1, request: GET http://web/}
  arrivals: {when: {loop: open}, executor: constant-arrival-rate, rate: 5/s, request: GET http://web/}
measure: {duration: 1s, replicates: 6}
compare:
  - {factor: FACTOR, baseline: BASELINE, metric: response.p50}
"""


@pytest.mark.parametrize(
    ("compare", "refused"),
    [("loop, baseline: closed", True), ("side, baseline: a", False), ("side, by: loop, baseline: a", True)],
)
def test_a_closed_loop_is_never_compared_with_an_open_one(
    load: Callable[..., Lock], compare: str, refused: bool
) -> None:
    text = MIXED.replace("FACTOR, baseline: BASELINE", compare)
    if not refused:
        assert load(text).comparisons
        return
    with pytest.raises(SvloadError) as caught:
        load(text)
    (found,) = caught.value.problems
    assert "closed and open loops are never compared" in str(found)
    assert found.place.endswith("study.yaml:14")


# the order


@pytest.mark.parametrize(
    ("replicates", "bring_ups", "sizes"),
    [(6, 1, [6]), (6, 2, [3, 3]), (7, 2, [4, 3]), (7, 3, [3, 2, 2]), (6, 6, [1] * 6)],
)
def test_blocks_are_spread_evenly_over_bring_ups(replicates: int, bring_ups: int, sizes: list[int]) -> None:
    lock = lock_of([2, 2], ["request", "request"], replicates, 3)
    lock = evolve(lock, measure__bring_ups=bring_ups)
    trials = first_batch(lock).trials
    blocks = [len({one.block for one in trials if one.whole_plot == plot}) for plot in range(bring_ups)]
    assert blocks == sizes
    restarts = [one for one in trials if one.restart]
    assert len(restarts) == bring_ups - 1
    for one in restarts:
        assert one == next(other for other in trials if other.whole_plot == one.whole_plot)
    assert [one.whole_plot for one in trials] == sorted(one.whole_plot for one in trials)
    plain = first_batch(lock_of([2, 2], ["request", "request"], replicates, 3)).trials
    assert [one.case for one in trials] == [one.case for one in plain], "bring-ups change no order"


def test_a_factor_that_restarts_has_bring_ups_of_its_own() -> None:
    lock = lock_of([2, 2], ["restart", "request"], 6, 3)
    spread = evolve(lock, measure__bring_ups=2)
    assert first_batch(spread).trials == first_batch(lock).trials
