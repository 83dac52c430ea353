"""What is doubted is told by number: which, how far off, whose doing, the most frequent
first, with what would mend it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.report.told_facts import HOG, MEDIAN, TAIL, doubted, hiccups

from svload.model.results import Belief, Grade, TrialResult
from svload.report.told.answer import answer
from svload.report.told.doubts import doubts, event_words, summary, trial_doubts
from svload.report.told.numbers import Told

Reporter = Callable[[str], Any]
GRADES: dict[str, Any] = {
    "TC0.r1": {TAIL: "REFUSED"},
    "TC1.r2": {TAIL: "REFUSED", MEDIAN: "WEAK"},
    "TC1.r3": {TAIL: "REFUSED"},
}


def test_a_doubt_names_numbers_bound_and_whose_doing(reported: Reporter) -> None:
    first, second = doubts(doubted(reported("plain").findings, GRADES))
    assert (
        first.text
        == f"✗ hiccups, 3 of 18 trials: probe p99, off by up to 12 %; by {HOG} (3 ×). → Keep the machine quiet."
    )
    assert second.text.startswith("~ hiccups, 1 of 18 trials: probe p50")
    assert first.trials == ("TC0.r1", "TC1.r2", "TC1.r3")


@pytest.mark.parametrize(("off", "told"), [(1.0, "100 %"), (1.4, "140 %"), (620.0, "a factor of 620")])
def test_a_doubt_beyond_what_percent_can_say_is_a_factor(reported: Reporter, off: float, told: str) -> None:
    first, *_ = doubts(doubted(reported("plain").findings, GRADES, bound=off))
    assert f"probe p99, off by up to {told}; by" in first.text


def test_all_doubts_are_one_line_refused_first(reported: Reporter) -> None:
    told = summary(doubted(reported("plain").findings, GRADES))
    assert told == f"✗ p99 in 3 of 18 trials (hiccups); ~ p50 in 1 of 18 trials (hiccups); most by {HOG}"
    assert summary(doubted(reported("plain").findings, {})) == ""


def test_the_most_frequent_reason_stands_first(reported: Reporter) -> None:
    found = reported("mixed").findings
    numbers = [len(one.trials) for one in doubts(found) if one.grade == "REFUSED"]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers


def test_doubts_stand_after_the_answer(reported: Reporter) -> None:
    found = answer(doubted(reported("plain").findings, GRADES))
    assert found.claims
    assert found.unsaid[0].text.startswith("Doubts: ✗ p99 in 3 of 18 trials")
    assert any(reason.startswith("✗ hiccups") for reason in found.unsaid[0].reasons)


def test_an_event_carries_them_as_data(reported: Reporter) -> None:
    (trial,) = (one for one in doubted(reported("plain").findings, GRADES).trials if one.trial == "TC1.r2")
    told = trial_doubts(trial)
    assert [one["grade"] for one in told] == ["REFUSED", "WEAK"]
    assert event_words(told) == f"✗ probe p99 by hiccups ({HOG}), and 1 more"
    assert event_words([]) == ""


def rescued(trial: TrialResult, grade: Grade) -> TrialResult:
    """Its median is refused by hiccups; `grade` is what is left of it: WEAK, where it was computed again."""
    left_out = 0.02 if grade == "WEAK" else 0.0
    belief = Belief(grade=grade, below=0.01, above=0.04, doubts=("hiccups",), left_out=left_out)
    median = trial.metrics[MEDIAN].model_copy(update={"belief": belief})
    verdict = trial.verdict.model_copy(update={"checks": (hiccups("REFUSED", MEDIAN),)})
    return trial.model_copy(update={"metrics": {**trial.metrics, MEDIAN: median}, "verdict": verdict})


@pytest.mark.parametrize(("grade", "mark"), [("WEAK", "~"), ("REFUSED", "✗")])
def test_text_and_table_tell_the_one_grade_of_a_number(reported: Reporter, grade: Grade, mark: str) -> None:
    """A check refuses the median, and it was computed again without what the check doubts."""
    findings = reported("plain").findings
    trial = rescued(findings.trials[0], grade)
    told = Told(findings.model_copy(update={"trials": (trial, *findings.trials[1:])}))
    assert told.of_trial(trial, MEDIAN).mark == mark
    assert event_words(trial_doubts(trial)) == f"{mark} probe p50 by hiccups ({HOG})"
    (one,) = doubts(told.findings, [trial])
    assert (one.grade, one.mark) == (grade, mark)
    assert one.off == (0.04 if grade == "WEAK" else 0.12)


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
        assert one.check in found.page
