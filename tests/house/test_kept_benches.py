"""Benches that take long: their arithmetic, what they call missed, and that a call goes
on with what another one kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from benches import disturbances, packs, shared
from benches.command import Clock, Kept

from svload.api.runs import find_run, judged
from svload.model.results import Claim, Estimate


def test_what_is_kept_holds_for_the_same_options_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "some.json"
    Kept.at(path, {"seconds": 3}).keep("one", {"a": 1})
    assert Kept.at(path, {"seconds": 3}).results == {"one": {"a": 1}}
    assert Kept.at(path, {"seconds": 4}).results == {}
    assert Kept.at(path, {"seconds": 3}, anew=True).results == {}
    assert Clock(None).left_s == float("inf")
    assert Clock(-1.0).left_s < 0 < Clock(1.0).left_s <= 60


def test_ranges_are_missed_where_they_hold_too_rarely_or_are_too_wide() -> None:
    planted = disturbances.Planted("stopped generator", 1.0, 0.2)

    def row(off: float, below: float = 0.02, above: float = 0.1) -> disturbances.Row:
        return disturbances.Row(planted, "b20", "load.response.p50", off, below, above, 0.01)

    good = [row(0.01 * place) for place in range(11)]
    text, missed = disturbances.table(good)
    assert not missed and "| load.response.p50 | 11 | 100.0 % | 6 % |" in text
    assert disturbances.table([*good, *(row(0.4) for _ in range(5))])[1], "the truth lies beyond five of them"
    wide = disturbances.HALF_WIDTH * 2
    assert disturbances.table([row(0.01, wide, wide) for _ in range(5)])[1]


@pytest.mark.parametrize(
    ("question", "right", "wrong", "missed"),
    [
        ("slower", 9, 0, False),
        ("slower", 8, 0, True),
        ("slower", 9, 1, True),
        ("equal", 7, 0, False),
        ("equal", 6, 0, True),
    ],
)
def test_a_share_has_goals_and_no_wrong_answer_in_twenty(
    question: str, right: int, wrong: int, missed: bool
) -> None:
    asked = next(one for one in shared.QUESTIONS if one.name == question)

    def row(goal: float) -> shared.Row:
        return shared.Row(question, 20, 10, 10, right, wrong, goal, 0.2, (100.0,), ())

    assert row(asked.goal).missed is missed
    assert ("MISSED" in shared.table([row(asked.goal)])) is missed
    assert row(asked.goal * shared.ENOUGH).missed is (wrong > 0)


@pytest.mark.parametrize(
    ("outcomes", "ratios", "right", "wrong"),
    [
        (("decided", "decided", "decided"), (0.3, 1.1, 1.1), 3, 0),
        (("decided", "open", "decided"), (0.3, 1.1, 0.9), 1, 1),
        (("no difference", "open", "refused"), (1.0, 1.0, 1.0), 0, 1),
    ],
)
def test_the_demo_is_held_to_its_directions(
    outcomes: Sequence[Any], ratios: Sequence[float], right: int, wrong: int
) -> None:
    def claim(outcome: Any, ratio: float) -> Claim:
        return Claim(
            name="c", factor="f", baseline="a", treatment="b", metric="m", pairs=(), blocks=6, p=0.01, p_adjusted=0.01,
            mde=None, sentence="", outcome=outcome, within=0.03, ratio=Estimate(value=ratio, low=ratio, high=ratio),
        )  # fmt: skip

    demo = next(one for one in shared.QUESTIONS if one.name == "demo")
    found = SimpleNamespace(claims=[claim(*both) for both in zip(outcomes, ratios, strict=True)])
    answer = demo.answered(found)  # type: ignore[arg-type]
    assert (answer.right, answer.wrong, answer.of) == (right, wrong, 3)


def test_strangers_end_with_who_started_them() -> None:
    def children() -> set[int]:
        return {child.pid for child in psutil.Process().children()}

    before = children()
    with shared.strangers(0.99, 1):
        mine = children() - before
        assert mine
    assert not mine & children()


def test_the_table_of_the_packs_claims_is_as_they_are_judged_today() -> None:
    """The smallest pack with claims stands for all; each open claim has a row with its reason."""
    table = packs.TABLE.read_text(encoding="utf-8")
    path = next(one for one in packs.packs() if "confounded" in one.name)
    findings = judged(find_run(str(path)))
    assert packs.row(path, findings) in table
    rows = list(packs.open_rows(path, findings))
    assert len(rows) == 2 and all(row in table for row in rows)
    counts = [line.split("|") for line in table.splitlines() if line.startswith("| **all**")]
    claims, decided, same, left = map(int, counts[0][2:6])
    assert claims == decided + same + left
    assert table.count(" | ") and len(table.partition("What stays open")[2].split("\n| ")) - 2 == left
