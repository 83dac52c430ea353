"""Long benches: what counts as missed, and what a call takes from earlier ones."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from benches import packs, shared
from benches.harness import strangers
from benches.specials import redis_share

from svload.api.runs import find_run, judged


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


def test_the_share_for_redis_asks_for_its_commands_together() -> None:
    """The speed bench runs on a quiet machine only, so nothing else would detect that a name of the model
    has changed."""
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
