"""Benches that take long: their arithmetic, what they call missed, and that a call goes
on with what another one kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from benches import packs, shared
from benches.harness import Clock, Kept, arguments, markdown, strangers
from benches.specials import redis_share

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


def test_an_option_is_known_by_its_default() -> None:
    options = {
        "bench": ("one", "two"),
        "minutes": float,
        "seed": 1,
        "only": ["a", "b"],
        "tenth": False,
        "keep": Path(),
    }
    asked = arguments("doc", ["one", "--minutes", "2.5", "--only", "b", "--tenth"], **options)
    assert vars(asked) == {
        "bench": "one",
        "minutes": 2.5,
        "seed": 1,
        "only": ["b"],
        "tenth": True,
        "keep": Path(),
    }
    assert arguments("doc", ["two"], **options).minutes is None


@pytest.mark.parametrize("given", [["three"], ["one", "--only", "c"], ["one", "--seed", "x"], []])
def test_an_option_that_a_bench_lacks_is_refused(given: list[str]) -> None:
    with pytest.raises(SystemExit):
        arguments("doc", given, bench=("one", "two"), only=["a", "b"], seed=1)


def test_a_table_has_a_line_for_each_row() -> None:
    assert markdown(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |\n"


def _findings(p50: str, p95: str) -> Any:
    return SimpleNamespace(
        claims=[
            SimpleNamespace(
                metric=f"response.{p}", gate=SimpleNamespace(outcome=word), ratio=Estimate(value=1.1)
            )
            for p, word in (("p50", p50), ("p95", p95))
        ]
    )


@pytest.mark.parametrize(
    ("what", "word", "right", "wrong"),
    [
        ("slower", "fail", 1, 0),
        ("slower", "open", 0, 0),
        ("slower", "pass", 0, 1),
        ("equal", "pass", 1, 0),
        ("equal", "fail", 0, 1),
        ("margin", "open", 1, 0),
        ("margin", "pass", 0, 1),
    ],
)
def test_a_gate_answers_for_each_percentile(what: str, word: str, right: int, wrong: int) -> None:
    asked = next(one for one in shared.QUESTIONS if one.name == f"burn-{what}")
    other = "open" if word == "fail" else "fail"
    answers = asked.answered(_findings(word, other))
    assert (answers["p50"].right, answers["p50"].wrong) == (right, wrong)
    assert answers["p95"].word == other


def _row(what: str, part: str, right: int, wrong: int, took_s: float = 100.0, share: int = 20) -> shared.Row:
    asked = next(one for one in shared.QUESTIONS if one.name == what)
    goal = asked.goals[part]
    answers = 30 if goal.together else 10
    goals = (goal.right[share], goal.wrong)
    return shared.Row(
        what,
        f"{share} %",
        answers,
        answers,
        answers,
        right,
        wrong,
        goals,
        0.2,
        1.1,
        (took_s,),
        asked.bound_s,
        (),
    )


@pytest.mark.parametrize(
    ("row", "missed"),
    [
        (_row("burn-slower", "p50", 9, 0), False),
        (_row("burn-slower", "p50", 8, 0), True),
        (_row("burn-slower", "p50", 9, 1), True),
        (_row("sleep-equal", "p95", 8, 0), False),
        (_row("sleep-equal", "p95", 7, 0), True),
        (_row("sleep-equal", "p95", 7, 0, share=50), False),
        (_row("sleep-equal", "p95", 10, 0, took_s=481.0), True),
        (_row("burn-margin", "p50", 28, 2), False),
        (_row("burn-margin", "p50", 27, 3), True),
        (_row("demo", "", 8, 0), False),
        (_row("demo", "", 7, 0), True),
        (_row("demo", "", 4, 0, share=50), False),
    ],
)
def test_a_row_is_missed_by_right_and_wrong_answers_and_by_time(row: shared.Row, missed: bool) -> None:
    assert row.missed is missed
    assert ("MISSED" in shared.table([row])) is missed


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
    answer = demo.answered(found)[""]  # type: ignore[arg-type]
    assert (answer.right, answer.wrong, answer.of) == (right, wrong, 3)


def test_strangers_end_with_who_started_them() -> None:
    def children() -> set[int]:
        return {child.pid for child in psutil.Process().children()}

    before = children()
    with strangers(0.99, 1):
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
    reasons = table.partition("Reasons why comparisons stay undecided")[2]
    assert len(reasons.split("\n| ")) - 2 == left


def test_the_share_for_redis_asks_for_its_commands_together() -> None:
    """The speed bench runs on a quiet machine alone, so nothing else would notice that a name of the model has changed."""
    (group,) = redis_share(6379, 16, 800)["groups"]
    assert len(group["request"]["redis"]["commands"]) == 16
    assert group["executor"]["iterations"] == 50


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
