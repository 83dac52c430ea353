"""The bench's arithmetic against cases with a known answer."""

from __future__ import annotations

import math
import random

import pytest

from benches.figures import Run, best_of, pacing, paired_ratio, slope
from benches.peers import PEERS, Job, Peer, share_of

pytestmark = pytest.mark.pure
JOB = Job("http", 20180, "/1k.bin", 1024, 64, 5, pad="xx")


def test_a_slope_leaves_start_up_out() -> None:
    # 0.4 s of start-up, 5 µs a request
    found = slope(Run(20_000, 0.5, 0.6, 1.2), Run(100_000, 0.9, 1.4, 2.2))
    assert found.process_us == pytest.approx(5.0)
    assert found.core_us == pytest.approx(10.0)
    assert found.rate_rps == pytest.approx(80_000)


@pytest.mark.parametrize("long", [Run(20_000, 0.9, 1, 2), Run(90_000, 0.4, 1, 2)])
def test_a_slope_that_says_nothing_is_refused(long: Run) -> None:
    with pytest.raises(ValueError, match="the long run made"):
        slope(Run(20_000, 0.5, 0.6, 1.2), long)


def test_a_ratio_is_paired_by_round() -> None:
    """A machine that is slower in some rounds slows both: the ratio stays exact, without unpaired rounds."""
    peer = {number: 5.0 * (1 + number % 3) for number in range(10)}
    ours = {number: 0.8 * peer[number] for number in range(9)}
    found = paired_ratio(ours, peer)
    assert found.rounds == 9
    assert (found.value, found.low, found.high) == pytest.approx((0.8, 0.8, 0.8))


def test_a_ratios_interval_covers() -> None:
    """95 % of intervals contain the true ratio (binomial, 4 standard errors)."""
    draw = random.Random(7)
    held = 0
    for _ in range(1000):
        peer = {number: draw.lognormvariate(0, 0.1) for number in range(6)}
        ours = {number: 0.9 * draw.lognormvariate(0, 0.1) for number in range(6)}
        found = paired_ratio(ours, peer)
        held += found.low <= 0.9 <= found.high
    assert abs(held - 950) < 4 * math.sqrt(1000 * 0.95 * 0.05)


def test_one_round_decides_nothing() -> None:
    assert paired_ratio({0: 1.0}, {0: 2.0}).high == math.inf
    assert paired_ratio({0: 1.0}, {1: 2.0}).rounds == 0


def test_the_best_peer_is_the_cheapest() -> None:
    assert best_of({"wrk": {0: 5.0, 1: 5.2}, "ab": {0: 4.9, 1: 5.0}, "none": {}}) == "ab"
    assert best_of({"none": {}}) is None


def test_pacing_sees_a_burst() -> None:
    even = [number * 2_000_000 for number in range(1000)]
    assert pacing(even, 500.0).p99_ms == pytest.approx(0.0)
    pairs = [stamp if number % 2 else stamp + 1_000_000 for number, stamp in enumerate(even)]
    assert pacing(pairs, 500.0).p99_ms == pytest.approx(1.0)
    with pytest.raises(ValueError, match="gaps"):
        pacing(even[:300], 500.0)


@pytest.mark.parametrize("tool", PEERS, ids=lambda tool: tool.name)
def test_a_peer_asks_for_the_job(tool: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(tool), "program", lambda self: self.name)
    words = tool.command(JOB)
    assert words[-1] == JOB.url
    assert "X-Pad: xx" in words
    assert any(word in ("64", "-c64") for word in words)


def test_svload_asks_for_the_job() -> None:
    spec = share_of(JOB)
    (group,) = spec["groups"]
    assert group["executor"]["vus"] == 64
    assert group["stop_offset_ns"] == 5_000_000_000
    assert group["request"]["checks"] == [{"name": "size", "size_bytes": 1024}]
    assert group["record"] == "histogram"
