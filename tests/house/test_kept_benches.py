"""Benches: the arithmetic of the speed bench, what counts as missed, and what a call takes from earlier ones.
They run on a quiet machine only, so nothing else would detect that a name of the model has changed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from benches import orders, packs, shared
from benches.figures import Slope, best_of, gap_error_ms, paired_ratio, slope
from benches.harness import strangers
from benches.measure import Cost
from benches.peers import Job, share_of
from benches.run import LIMIT, compared
from benches.works import WORKS, Cell, Outcome

from svload.api.runs import find_run, judged
from svload.model.results import Claim, ClaimTurns, Estimate, Findings


@pytest.mark.parametrize(
    ("what", "part", "right", "wrong", "changes", "missed"),
    [
        ("burn-slower", "p50", 9, 0, {}, False),
        ("burn-slower", "p50", 8, 0, {}, True),
        ("burn-slower", "p50", 9, 1, {}, True),
        ("sleep-equal", "p95", 7, 0, {}, True),
        ("sleep-equal", "p95", 7, 0, {"share": 50}, False),
        ("sleep-equal", "p95", 10, 0, {"took_s": 481.0}, True),
        ("burn-margin", "p50", 28, 2, {"answers": 30}, False),
        ("burn-margin", "p50", 27, 3, {"answers": 30}, True),
        ("demo", "", 7, 0, {}, True),
        ("demo", "", 4, 0, {"share": 50}, False),
    ],
)
def test_a_row_is_missed_by_right_and_wrong_answers_and_by_time(
    what: str, part: str, right: int, wrong: int, changes: dict[str, Any], missed: bool
) -> None:
    share, took_s, n = ({"share": 20, "took_s": 100.0, "answers": 10} | changes).values()
    asked = next(one for one in shared.QUESTIONS if one.name == what)
    run = shared.Run({part: shared.Answer(right, wrong, "", n, 1.1)}, 0, took_s, 0.2, "")
    row = shared.Row(asked, part, [share], 1, [run])
    assert row.missed is missed
    assert ("MISSED" in shared.table([row])) is missed


def test_strangers_end_with_who_started_them() -> None:
    def children() -> set[int]:
        return {child.pid for child in psutil.Process().children()}

    before = children()
    with strangers(0.99, 1):
        mine = children() - before
        assert mine
    assert not mine & children()


def test_the_table_of_the_packs_claims_is_as_they_are_judged_today() -> None:
    """The smallest pack with claims stands for all; each undecided claim has a row with its reason."""
    table = packs.TABLE.read_text(encoding="utf-8")
    path = next(one for one in packs.packs() if "confounded" in one.name)
    findings = judged(find_run(str(path)))
    assert packs.row(path, findings) in table
    rows = list(packs.open_rows(path, findings))
    assert len(rows) == 2 and all(row in table for row in rows)
    counts = [line.split("|") for line in table.splitlines() if line.startswith("| **all**")]
    claims, decided, same, left = map(int, counts[0][2:6])
    assert claims == decided + same + left
    reasons = table.partition("Reasons why comparisons stay undecided")[2]
    assert len(reasons.split("\n| ")) - 2 == left


def test_a_share_asks_for_the_job() -> None:
    (group,) = share_of(Job(port=20180, seconds=5))["groups"]
    assert (group["executor"]["vus"], group["stop_offset_ns"]) == (64, 5_000_000_000)
    assert group["request"]["checks"] == [{"name": "size", "size_bytes": 1024}]
    (group,) = share_of(Job(port=6379, depth=16))["groups"]
    assert len(group["request"]["redis"]["commands"]) == 16
    assert group["executor"]["iterations"] == 12_500


SHORT = Cost(1.2, 0.5, requests=20_000)


def test_a_slope_leaves_start_up_out() -> None:
    found = slope(SHORT, Cost(2.2, 0.9, requests=100_000))  # 0.4 s of start-up, 5 µs a request
    assert (found.process_us, found.rate_rps) == pytest.approx((5.0, 80_000))
    for wall_s, process_s, requests in [(2, 0.9, 20_000), (2, 0.4, 90_000), (1.1, 0.9, 90_000)]:
        with pytest.raises(ValueError, match="the long run made"):
            slope(SHORT, Cost(wall_s, process_s, requests=requests))


def test_a_ratio_is_paired_by_round() -> None:
    """A machine that is slower in some rounds slows both sides: the ratio stays exact, without unpaired
    rounds."""
    peer = {number: 5.0 * (1 + number % 3) for number in range(10)}
    found = paired_ratio({number: 0.8 * peer[number] for number in range(9)}, peer)
    assert (found.value, found.low, found.high, found.rounds) == pytest.approx((0.8, 0.8, 0.8, 9))
    known = paired_ratio({0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.0, 1: 1.0, 2: 1.0})
    assert (known.value, known.low, known.high) == pytest.approx((2.0, 0.3574, 11.19), rel=1e-3)
    assert paired_ratio({0: 1.0}, {0: 2.0}).high == math.inf
    assert paired_ratio({0: 1.0}, {1: 2.0}).rounds == 0
    assert best_of({"wrk": {0: 5.0, 1: 5.2}, "ab": {0: 4.9, 1: 5.0}, "none": {}}) == "ab"


def test_pacing_sees_a_burst() -> None:
    even = [number * 2_000_000 for number in range(1000)]
    assert gap_error_ms(even, 500.0) == pytest.approx(0.0)
    pairs = [stamp if number % 2 else stamp + 1_000_000 for number, stamp in enumerate(even)]
    assert gap_error_ms(pairs, 500.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="gaps"):
        gap_error_ms(even[:300], 500.0)


def outcome(work: int, *factors: float, failures: tuple[str, ...] = ()) -> Outcome:
    """Return a work whose rounds cost `factors` times the other engine's 6 to 9 µs."""
    theirs = {number: Slope(6.0 + number, 1e5) for number in range(len(factors))}
    ours = {number: Slope((6.0 + number) * factor, 1e5) for number, factor in enumerate(factors)}
    cells = [Cell("svload", True, False, ours, list(failures)), Cell("other svload", False, False, theirs)]
    return Outcome(WORKS[work], None, cells)


@pytest.mark.parametrize(
    ("outcomes", "word"),
    [
        ([outcome(0, 0.97, 1.04, 0.98, 1.02), outcome(1, 1.02, 0.98, 1.04, 0.97)], ""),
        ([outcome(0, 1.03, 1.04, 1.02, 1.03), outcome(1, 1.02, 1.03, 1.02, 1.02)], "MISSED"),
        ([outcome(0, 1.06, 1.05, 1.06, 1.05), outcome(1, 0.93, 0.94, 0.93, 0.94)], "surely slower"),
        ([outcome(0, 1.0, 1.0, 1.0, 1.0, failures=("it ended with 1",))], "it ended with 1"),
        ([], "MISSED"),
    ],
)
def test_a_slower_engine_misses_the_limit(outcomes: list[Outcome], word: str) -> None:
    text, kept = compared({one.work.key: one for one in outcomes})
    assert kept is (not word)
    assert word in text
    assert text.endswith(f"{'MISSED' if word else 'kept'}: at most {LIMIT:.2f} over all")


def test_a_wait_for_other_loads_is_none_of_a_runs_own_time(tmp_path: Path) -> None:
    events = [
        {"kind": "phase", "data": {"name": "waiting", "state": "begin"}},
        {"kind": "phase", "data": {"name": "waiting", "state": "end", "seconds": 6.5}},
        {"kind": "phase", "data": {"name": "up", "state": "end", "seconds": 3.0}},
        {"kind": "notice", "data": {"text": "waiting"}},
    ]
    run = SimpleNamespace(events=tmp_path / "events.jsonl")
    run.events.write_text("".join(f"{json.dumps(one)}\n" for one in events))
    assert shared.waited_s(run) == 6.5  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("turns", "trials", "guards", "apart"),
    [
        ((1.15, 1.14, 1.16), (1.30, 1.25, 1.35), (), ["yes", "–"]),
        ((1.15, 1.14, 1.16), (1.30, 1.25, 1.35), ("rises",), ["yes", "rises"]),
        ((1.15, 1.14, 1.16), (1.17, 1.165, 1.18), (), ["no", "–"]),
        ((1.15, 1.10, 1.20), (1.30, 1.19, 1.42), (), ["no", "–"]),
    ],
    ids=["apart", "with a guard", "by less than 3 %", "intervals overlap"],
)
def test_orders_that_differ_without_a_guard_are_found(
    turns: tuple[float, float, float],
    trials: tuple[float, float, float],
    guards: tuple[str, ...],
    apart: list[str],
) -> None:
    def found(ratio: float, low: float, high: float, seen: tuple[str, ...] | None) -> Findings:
        claim = Claim.model_construct(
            metric="response.p50",
            ratio=Estimate(value=ratio),
            single=(low, high),
            evidence=(),
            turns=None if seen is None else ClaimTurns.model_construct(guards=seen),
        )
        return Findings.model_construct(claims=(claim,))

    (line,) = orders.orders_of("pool", found(*turns, guards), found(*trials, None))
    assert line[-2:] == apart
