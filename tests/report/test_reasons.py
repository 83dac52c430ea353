"""Why trials are WEAK or REFUSED is told once for all of them, a line a check with what would mend it, and never as a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svload.model.results import CheckResult, Verdict
from svload.report.answer import answer
from svload.report.reasons import reasons_of, refused_trials, weak_cases

Reporter = Callable[[str], Any]


def _graded(found: Any, grades: dict[str, str]) -> Any:
    """The findings with these trials' instrument grades, each by one check."""
    trials = []
    for trial in found.trials:
        grade = grades.get(trial.trial, "VALID")
        check = CheckResult(
            check="steadiness", grade=grade, sentence=f"{trial.trial} drifts.", remedy="Measure longer."
        )
        verdict = Verdict(trial=trial.trial, instrument=grade, server="STEADY", reasons=(), checks=(check,))
        trials.append(trial.model_copy(update={"verdict": verdict}))
    named = {trial.case for trial in trials if trial.verdict.instrument == "WEAK"}
    cases = [
        case.model_copy(update={"instrument": "WEAK" if case.case in named else "VALID"})
        for case in found.cases
    ]
    return found.model_copy(update={"trials": tuple(trials), "cases": tuple(cases)})


def test_weak_cases_are_told_together_with_the_reason_and_what_mends_it(reported: Reporter) -> None:
    found = _graded(reported("plain").findings, {"TC0.r1": "WEAK", "TC1.r2": "WEAK", "TC1.r3": "WEAK"})
    told = weak_cases(found)
    assert told is not None
    assert told.text.startswith("TC0 and TC1 are WEAK (3 trials): not failed")
    assert [reason.text for reason in told.reasons] == [
        "steadiness, 3 trials: TC0.r1 drifts (TC0.r1, for one). → Measure longer."
    ]
    (line,) = [line for line in answer(found).unsaid if line.certainty == "usable"]
    assert line.text == told.text
    assert not any("WEAK:" in line.text for line in answer(found).sentences)


def test_refused_trials_are_told_together_with_what_that_does(reported: Reporter) -> None:
    found = _graded(reported("plain").findings, {"TC0.r1": "REFUSED", "TC3.r2": "REFUSED"})
    told = refused_trials(found)
    assert told is not None
    assert told.text == "2 of 18 trials are REFUSED: 2 take their block out of comparisons."
    assert told.evidence == ("trials/TC0.r1", "trials/TC3.r2")


def test_one_refused_trial_keeps_its_own_sentence(reported: Reporter) -> None:
    found = reported("mixed").findings
    assert refused_trials(_graded(found, {"TC0.r1": "REFUSED"})) is None


def test_the_most_frequent_reason_stands_first(reported: Reporter) -> None:
    found = reported("mixed").findings
    numbers = [len(reason.trials) for reason in reasons_of(found.trials, "REFUSED")]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers


def test_the_load_that_was_made_stands_under_the_question(reported: Reporter) -> None:
    for name in ("plain", "one"):
        found = reported(name)
        assert found.findings.load["probe"].startswith("closed loop: 10 VUs")
        assert '<p class="load-line">This run' in found.page
        assert "10 VUs" in found.page.partition('class="answer"')[0]
