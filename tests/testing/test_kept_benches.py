"""Benches that take long: their arithmetic, what they call missed, and that a call goes
on with what another one kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benches import busy, capacity, disturbances, nstar
from benches.command import Clock, Kept
from tests.bounds import HANG_S

from svload.model.results import Claim, Estimate


def found(value: float, state: str = "bracketed", most: float = 200.0) -> dict[str, Any]:
    return {
        "limit": {"value": value, "low": None, "high": None, "state": state, "reason": ""},
        "most_rps": most,
    }


def test_n_star_is_held_to_arithmetic() -> None:
    closed, opened = nstar.Model(2, closed=True), nstar.Model(8, closed=False)
    assert (closed.limit, closed.top_rps, opened.limit) == (10.0, 200.0, 800.0)
    assert nstar.missed(closed, found(10.9)) == []
    assert len(nstar.missed(closed, found(11.2))) == 1
    assert len(nstar.missed(closed, found(10.0, state="above"))) == 1
    assert len(nstar.missed(closed, found(10.0, most=150.0))) == 1
    assert nstar.missed(opened, found(820.0, most=700.0)) == []
    assert "users: [2, 4, 8, 12, 20, 30]" in closed.study(3, 3)


def test_searches_of_equal_servers_must_overlap_and_follow_the_quota() -> None:
    known = list(capacity.searches(full=False))
    assert len({one.name for one in known}) == len(known) == 13

    def result(kept: int, broken: int, state: str = "bracketed") -> dict[str, Any]:
        return {"kept": kept, "broken": broken, "state": state, "sentence": "it is so"}

    good = {"closed-2": result(HANG_S, 10), "nginx-1": result(HANG_S, 8800), "nginx-2": result(HANG_S, 9400), "nginx-half-1": result(HANG_S, 4400)}  # fmt: skip
    assert capacity.verdicts(known, good) == []
    assert len(capacity.verdicts(known, {**good, "nginx-2": result(HANG_S, 9900)})) == 1
    assert len(capacity.verdicts(known, {**good, "nginx-half-1": result(HANG_S, 7700)})) == 1
    assert len(capacity.verdicts(known, {**good, "closed-2": result(HANG_S, 12)})) == 1
    assert len(capacity.verdicts(known, {**good, "closed-2": result(HANG_S, 10, "undecided")})) == 1


def test_what_is_kept_holds_for_the_same_options_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "some.json"
    Kept.at(path, {"seconds": 3}).keep("one", {"a": 1})
    assert Kept.at(path, {"seconds": 3}).results == {"one": {"a": 1}}
    assert Kept.at(path, {"seconds": 4}).results == {}
    assert Kept.at(path, {"seconds": 3}, anew=True).results == {}
    assert Clock(None).left_s == float("inf")
    assert Clock(-1.0).left_s < 0 < Clock(1.0).left_s <= 60


def test_a_number_that_is_off_is_missed_beyond_what_twins_differ_by() -> None:
    planted = disturbances.Planted("stopped generator", 1.0, 0.2)

    def row(grade: str, off: float, noise: float = 0.01) -> disturbances.Row:
        return disturbances.Row(planted, "b20", "load.response.p50", grade, off, off * 0.015, noise)

    kept, lasting = (9, 10), (3, 3)
    good = [row("VALID", 0.05), row("WEAK", 0.2), row("REFUSED", 3.0)]
    text, missed = disturbances.table(good, kept, lasting)
    assert not missed
    assert "| load.response.p50 | 1.0 % | 1 | 0 | 1 | 0 | 1 |" in text
    for bad in ([*good, row("VALID", 0.07)], [*good, row("WEAK", 0.22)]):
        assert disturbances.table(bad, kept, lasting)[1]
    assert disturbances.table(good, (7, 10), lasting)[1]
    assert disturbances.table(good, kept, (2, 3))[1]


@pytest.mark.parametrize(
    ("outcome", "ratio", "is_wrong"),
    [
        ("decided", (1.1, 1.3), False),
        ("decided", (0.7, 0.9), True),
        ("no difference", (0.97, 1.03), True),
        ("open", (0.7, 0.9), False),
    ],
)
def test_a_claim_is_wrong_where_it_is_decided_against_the_quiet_one(
    outcome: Any, ratio: tuple[float, float], is_wrong: bool
) -> None:
    def claim(outcome: Any, low: float, high: float) -> Claim:
        return Claim(
            name="c", factor="f", baseline="a", treatment="b", metric="m", pairs=(), blocks=6, p=0.01, p_adjusted=0.01,
            mde=None, sentence="", outcome=outcome, within=0.03, ratio=Estimate(value=(low + high) / 2, low=low, high=high),
        )  # fmt: skip

    assert busy.wrong(claim(outcome, *ratio), claim("decided", 1.15, 1.25)) is is_wrong
