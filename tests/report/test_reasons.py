"""What is doubted is told by number: which, how far off, whose doing, the most frequent
first, with what would mend it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.report.told_facts import HOG, MEDIAN, TAIL, doubted

from svload.report.told.answer import answer
from svload.report.told.causes import cause
from svload.report.told.doubts import doubts, summary

Reporter = Callable[[str], Any]
GRADES: dict[str, Any] = {
    "TC0.r1": {TAIL: "REFUSED"},
    "TC1.r2": {TAIL: "REFUSED", MEDIAN: "WEAK"},
    "TC1.r3": {TAIL: "REFUSED"},
}


def test_a_doubt_names_numbers_bound_and_whose_doing(reported: Reporter) -> None:
    first, second = doubts(doubted(reported("plain").findings, GRADES))
    assert (
        first.text == "✗ the machine stalled, in 3 of 18 trials: probe p99, off by up to 12 %; by "
        f"{HOG} (3 ×). → Keep the machine quiet."
    )
    assert second.text.startswith("~ the machine stalled, in 1 of 18 trials: probe p50")
    assert first.trials == ("TC0.r1", "TC1.r2", "TC1.r3")


@pytest.mark.parametrize(("off", "told"), [(1.0, "100 %"), (1.4, "140 %"), (620.0, "a factor of 620")])
def test_a_doubt_beyond_what_percent_can_say_is_a_factor(reported: Reporter, off: float, told: str) -> None:
    first, *_ = doubts(doubted(reported("plain").findings, GRADES, bound=off))
    assert f"probe p99, off by up to {told}; by" in first.text


def test_all_doubts_are_one_line_refused_first(reported: Reporter) -> None:
    told = summary(doubted(reported("plain").findings, GRADES))
    why = "the machine stalled, most of all stress-ng"
    assert told == f"Not usable: p99 in 3 of 18 trials ({why}). Rough: p50 in 1 of 18 trials ({why})"
    assert summary(doubted(reported("plain").findings, {})) == ""


def test_the_most_frequent_reason_stands_first(reported: Reporter) -> None:
    found = reported("mixed").findings
    numbers = [len(one.trials) for one in doubts(found) if one.grade == "REFUSED"]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers


def test_doubts_stand_after_the_answer(reported: Reporter) -> None:
    found = answer(doubted(reported("plain").findings, GRADES))
    assert found.claims
    assert found.unsaid[0].text.startswith("Not usable: p99 in 3 of 18 trials")
    assert any(reason.startswith("✗ the machine stalled") for reason in found.unsaid[0].reasons)


def test_the_load_that_was_made_stands_under_the_question(reported: Reporter) -> None:
    for name in ("plain", "one"):
        found = reported(name)
        assert found.findings.load["probe"].startswith("closed loop: 10 VUs")
        assert '<p class="load-line">This run' in found.page
        assert "10 VUs" in found.page.partition('id="matrix"')[0]


@pytest.mark.parametrize("name", ["plain", "mixed", "refused"])
def test_a_run_s_own_doubts_are_told_on_its_page(reported: Reporter, name: str) -> None:
    found = reported(name)
    for one in doubts(found.findings)[:3]:
        assert cause(one.check) in found.page
