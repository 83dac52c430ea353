"""The speed bench's arithmetic against cases with a known answer."""

from __future__ import annotations

from math import inf

import pytest

from benches.figures import Slope, best_of, gap_error_ms, paired_ratio, slope
from benches.measure import Cost
from benches.peers import PEERS, Job, Tool, share_of
from benches.run import LIMIT, compared
from benches.works import WORKS, Cell, Outcome

pytestmark = pytest.mark.pure
JOB = Job(port=20180, seconds=5, pad="xx")
SHORT = Cost(1.2, 0.5, requests=20_000)


def test_a_slope_leaves_start_up_out() -> None:
    found = slope(SHORT, Cost(2.2, 0.9, requests=100_000))  # 0.4 s of start-up, 5 µs a request
    assert (found.process_us, found.rate_rps) == pytest.approx((5.0, 80_000))


@pytest.mark.parametrize(
    ("wall_s", "process_s", "requests"), [(2, 0.9, 20_000), (2, 0.4, 90_000), (1.1, 0.9, 90_000)]
)
def test_a_slope_that_says_nothing_is_refused(wall_s: float, process_s: float, requests: int) -> None:
    with pytest.raises(ValueError, match="the long run made"):
        slope(SHORT, Cost(wall_s, process_s, requests=requests))


def test_a_ratio_is_paired_by_round() -> None:
    """A machine that is slower in some rounds slows both sides: the ratio stays exact, without unpaired
    rounds."""
    peer = {number: 5.0 * (1 + number % 3) for number in range(10)}
    found = paired_ratio({number: 0.8 * peer[number] for number in range(9)}, peer)
    assert found.rounds == 9
    assert (found.value, found.low, found.high) == pytest.approx((0.8, 0.8, 0.8))
    known = paired_ratio({0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.0, 1: 1.0, 2: 1.0})
    assert (known.value, known.low, known.high) == pytest.approx((2.0, 0.3574, 11.19), rel=1e-3)
    assert paired_ratio({0: 1.0}, {0: 2.0}).high == inf
    assert paired_ratio({0: 1.0}, {1: 2.0}).rounds == 0


def test_the_best_peer_is_the_cheapest() -> None:
    assert best_of({"wrk": {0: 5.0, 1: 5.2}, "ab": {0: 4.9, 1: 5.0}, "none": {}}) == "ab"
    assert best_of({"none": {}}) is None


def test_pacing_sees_a_burst() -> None:
    even = [number * 2_000_000 for number in range(1000)]
    assert gap_error_ms(even, 500.0) == pytest.approx(0.0)
    pairs = [stamp if number % 2 else stamp + 1_000_000 for number, stamp in enumerate(even)]
    assert gap_error_ms(pairs, 500.0) == pytest.approx(1.0)
    for few in (even[:300], []):
        with pytest.raises(ValueError, match="gaps"):
            gap_error_ms(few, 500.0)


@pytest.mark.parametrize("tool", PEERS, ids=lambda tool: tool.name)
def test_a_peer_asks_for_the_job(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(tool), "program", lambda self: self.name)
    words = tool.command(JOB)
    assert words[-1] == JOB.url
    assert "X-Pad: xx" in words
    assert any(word in ("64", "-c64") for word in words)


def test_svload_asks_for_the_job() -> None:
    (group,) = share_of(JOB)["groups"]
    assert group["executor"]["vus"] == 64
    assert group["stop_offset_ns"] == 5_000_000_000
    assert group["request"]["checks"] == [{"name": "size", "size_bytes": 1024}]
    assert group["record"] == "histogram"


def _outcome(work: int, factors: list[float], failures: tuple[str, ...] = ()) -> Outcome:
    """Return a work whose rounds cost `factors` times the other engine's 6 to 9 µs."""
    theirs = {number: Slope(6.0 + number, 1e5) for number in range(len(factors))}
    ours = {number: Slope((6.0 + number) * factor, 1e5) for number, factor in enumerate(factors)}
    cells = [Cell("svload", True, False, ours, list(failures)), Cell("svload 1234", False, False, theirs)]
    return Outcome(WORKS[work], None, cells)


@pytest.mark.parametrize(
    ("outcomes", "word"),
    [
        ([_outcome(0, [0.97, 1.04, 0.98, 1.02]), _outcome(1, [1.02, 0.98, 1.04, 0.97])], ""),
        ([_outcome(0, [1.03, 1.04, 1.02, 1.03]), _outcome(1, [1.02, 1.03, 1.02, 1.02])], "MISSED"),
        ([_outcome(0, [1.06, 1.05, 1.06, 1.05]), _outcome(1, [0.93, 0.94, 0.93, 0.94])], "surely slower"),
        ([_outcome(0, [1.0, 1.0, 1.0, 1.0], ("round 1: it ended with 1",))], "it ended with 1"),
        ([], "MISSED"),
    ],
)
def test_a_slower_engine_misses_the_limit(outcomes: list[Outcome], word: str) -> None:
    text, kept = compared(outcomes)
    assert kept is (not word)
    assert word in text
    assert text.endswith(f"{'MISSED' if word else 'kept'}: at most {LIMIT:.2f} over all")
