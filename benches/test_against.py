"""The comparison of two engines against costs with a known answer."""

from __future__ import annotations

import pytest

from benches.against import LIMIT, Comparison
from benches.figures import Slope, paired_ratio
from benches.works import WORKS, Cell, Outcome

pytestmark = pytest.mark.pure


def _outcome(work: int, factors: list[float], failures: tuple[str, ...] = ()) -> Outcome:
    """Return a work whose rounds cost `factors` times the other engine's 6 to 9 µs."""
    theirs = {number: 6.0 + number for number in range(len(factors))}
    ours = {number: theirs[number] * factor for number, factor in enumerate(factors)}
    cells = [
        Cell("svload", True, False, {number: Slope(cost, cost, 1e5) for number, cost in ours.items()}, list(failures)),
        Cell("svload 1234", False, False, {number: Slope(cost, cost, 1e5) for number, cost in theirs.items()}),
    ]  # fmt: skip
    return Outcome(WORKS[work], None, cells, "svload 1234", paired_ratio(ours, theirs), None)


def test_equal_engines_are_within_the_limit() -> None:
    even = [0.97, 1.04, 0.98, 1.02]
    found = Comparison("1234", [_outcome(0, even), _outcome(1, even[::-1])])
    assert found.passed
    assert found.overall.rounds == 8
    assert found.overall.value == pytest.approx(1.002, abs=0.002)
    assert found.table().splitlines()[-1] == f"kept: at most {LIMIT:.2f} over all"


@pytest.mark.parametrize(
    ("outcomes", "word"),
    [
        ([_outcome(0, [1.03, 1.04, 1.02, 1.03]), _outcome(1, [1.02, 1.03, 1.02, 1.02])], "MISSED"),
        ([_outcome(0, [1.06, 1.05, 1.06, 1.05]), _outcome(1, [0.93, 0.94, 0.93, 0.94])], "surely slower"),
        ([_outcome(0, [1.0, 1.0, 1.0, 1.0], ("round 1, 1 s: it ended with 1",))], "it ended with 1"),
        ([], "MISSED"),
    ],
)
def test_a_slower_engine_misses_it(outcomes: list[Outcome], word: str) -> None:
    found = Comparison("1234", outcomes)
    assert not found.passed
    assert word in found.table()
