"""The exit code of a run and its reasons, and what a quiet machine would improve. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from svload.model.errors import ExitCode
from svload.model.results import Claim, Findings, TrialResult
from svload.report.wording.criteria import OPEN, UNDECIDED
from svload.report.wording.doubts import doubting, no_times_line
from svload.report.wording.search_rows import search_outcome
from svload.report.wording.spelling import count_words, list_words

_OTHER_CODES = {
    ExitCode.USAGE: "the study, the command or a target was refused",
    ExitCode.LAB_FAILED: "the lab or the machine failed",
    ExitCode.INTERRUPTED: "interrupted",
}


NOTHING_OK = "no request succeeded"


@dataclass(frozen=True)
class Ending:
    """What failed and what is open, as clauses; neither is ever a pass (docs/method.md §2)."""

    failed: tuple[str, ...]
    open: tuple[str, ...]

    @property
    def code(self) -> ExitCode:
        """1 if anything failed, 4 if something is open, else 0."""
        if self.failed:
            return ExitCode.THRESHOLD_FAILED
        return ExitCode.REFUSED if self.open else ExitCode.DONE


def criteria_ending(findings: Findings) -> Ending:
    """Return the ending by thresholds, gates and the search, and by whether the servers stayed up and any
    request succeeded."""
    found, out = _outcomes(findings), findings.capacity
    search = "" if out is None else search_outcome(out)
    failed = [*_counted(found, "failed", "failed")]
    is_open = [*_counted(found, "open", "undecided", "is ", "are ")]
    failed += ["the required load breaks the criteria"] if search == "fail" else []
    if out is None and (gone := [trial for trial in findings.trials if trial.outages]):
        failed.insert(0, f"a server disappeared in {count_words(len(gone), 'trial')}")
    elif nothing_ok(findings):
        failed.insert(0, NOTHING_OK)
    is_open += ["the search is undecided"] if search == "open" else []
    return Ending(tuple(failed), tuple(is_open))


def nothing_ok(findings: Findings) -> bool:
    """Return whether every request of each case failed, without a reason for which the study expects it."""
    loaded = {(case.case, group) for case in findings.cases if case.trials for group in case.load_model}
    dead = {
        (row.case, row.group)
        for row in findings.failures
        if not row.step and row.failed == row.ended and not row.beside
    }
    return bool(loaded) and loaded <= dead


def ending(findings: Findings) -> Ending:
    """Return the ending by everything that the study asks: its criteria, whether its comparisons (else its
    numbers) allow a conclusion, and whether all of it ran."""
    of_criteria = criteria_ending(findings)
    nothing = _concludes_nothing(findings)
    return Ending(of_criteria.failed, (*of_criteria.open, *([nothing] if nothing else [])))


def exit_line(findings: Findings, code: ExitCode) -> str:
    """Return `exit 1: 1 threshold failed; 2 gates are undecided`."""
    found = ending(findings)
    if code in _OTHER_CODES:
        return f"exit {int(code)}: {_OTHER_CODES[code]}"
    texts = [list_words(list(clauses)) for clauses in (found.failed, found.open) if clauses]
    if code is ExitCode.REFUSED:
        return f"exit {int(code)}: could not decide: {'; '.join(texts) or 'no answer'}"
    if code is not ExitCode.DONE:
        return f"exit {int(code)}: {'; '.join(texts)}" if texts else f"exit {int(code)}"
    if texts:
        return f"exit 0: the run is complete, but {'; '.join(texts)}"
    kept = [
        count_words(count, what, what + "s") + (" holds" if count == 1 else " hold")
        for what, outcomes in _outcomes(findings).items()
        if (count := sum(one == "kept" for one in outcomes))
    ]
    if findings.capacity is not None:
        return f"exit 0: {list_words(['the search found its answer', *kept])}"
    undecided = sum(one.outcome in UNDECIDED for one in findings.claims)
    of = f"{undecided} of {count_words(len(findings.claims), 'comparison')} {'is' if undecided == 1 else 'are'} undecided"
    text = list_words(kept) or "the study has no threshold and no gate"
    return f"exit 0: {text}" + (f"; {of}" if undecided else "")


_KINDS = {"failed": "failed", "passed": "kept"} | dict.fromkeys(OPEN, "open")
_GATES = {"fail": "failed", "open": "open", "pass": "kept"}


def _outcomes(findings: Findings) -> dict[str, list[str]]:
    """Return the outcome (failed, open or kept) of each criterion and gate once, the worst over the cases."""
    by_text: dict[str, set[str]] = {}
    for one in findings.thresholds:
        by_text.setdefault(one.that, set()).add(_KINDS[one.outcome])
    return {
        "threshold": [_worst(found) for found in by_text.values()],
        "gate": [_GATES[claim.gate.outcome] for claim in findings.claims if claim.gate is not None],
    }


def _worst(outcomes: Iterable[str]) -> str:
    found = set(outcomes)
    return next(one for one in ("failed", "open", "kept") if one in found)


def _counted(
    found: dict[str, list[str]], outcome: str, word: str, one: str = "", many: str = ""
) -> Iterable[str]:
    for what, outcomes in found.items():
        if count := outcomes.count(outcome):
            yield f"{count_words(count, what)} {one if count == 1 else many}{word}"


def _says_something(claim: Claim) -> bool:
    """Return whether a pair is valid or the gate decides: success is judged despite disturbances."""
    return claim.outcome != "refused" or (claim.gate is not None and claim.gate.outcome != "open")


def _concludes_nothing(findings: Findings) -> str:
    """Return why the study's question has no answer, as a clause; "" if it has, or asks criteria only."""
    if findings.capacity is not None:
        return ""
    if findings.planned_trials and not findings.trials:
        return "no trial is sealed"
    if not findings.complete:
        planned = count_words(findings.planned_trials, "trial")
        return f"the run is incomplete ({findings.sealed_trials} of {planned} sealed)"
    made = [claim for claim in findings.claims if claim.believed_of[1]]
    if made and not any(_says_something(claim) for claim in made):
        return "every pair of every comparison is broken or missing"
    if not made and not findings.thresholds and no_times_line(findings):
        return "no response time and no rate can be used"
    return ""


MACHINES_DOING = frozenset(
    ("others-cpu", "steal", "run-queue", "hiccups", "generator-harm", "calibration", "combined")
)
"""Checks that fail because of other activity on the machine."""


def quieter_line(findings: Findings) -> str:
    """Return what is undecided in a run with disturbed trials, and what to do; "" if nothing is or no trial
    was disturbed."""
    disturbed = sum(map(_is_disturbed, findings.trials))
    open_claims = sum(claim.outcome in UNDECIDED for claim in findings.claims)
    criteria = len({one.that for one in findings.thresholds if one.outcome in OPEN})
    parts = [
        count_words(count, what)
        for count, what in ((open_claims, "comparison"), (criteria, "threshold"))
        if count
    ]
    if not disturbed or not parts:
        return ""
    verb = "is" if open_claims + criteria == 1 else "are"
    return (
        f"{list_words(parts)} {verb} undecided, and other work on this machine disturbed {disturbed} of "
        f"{count_words(len(findings.trials), 'trial')}. --wait-quiet 10m waits for a quiet machine first."
    )


def _is_disturbed(trial: TrialResult) -> bool:
    return trial.verdict.instrument != "VALID" and any(
        check.check in MACHINES_DOING for check in doubting(trial)
    )
