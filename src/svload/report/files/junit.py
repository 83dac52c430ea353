"""junit.xml: a test case for each threshold on each case, each comparison that gates, and each trial's verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from svload.model.capacity import CapacityResult
from svload.model.results import Findings, ThresholdResult, TrialResult
from svload.report.wording.claimed import Claimed, claimed, details
from svload.report.wording.doubts import asked_keys
from svload.report.wording.ending import NOTHING_OK, nothing_ok
from svload.report.wording.numbers import Numbers
from svload.report.wording.search_rows import search_outcome, search_title
from svload.report.wording.spelling import grade_words, graded_again

_WORTH = {"VALID": "VALID", "REFUSED": "REFUSED", "WEAK": "WEAK: rough, its numbers have wider ranges"}
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(findings: Findings) -> str:
    """Return the findings as JUnit: a failed threshold or gate is a failure; what is open, REFUSED or has no
    number is an error, never a pass. A trial that was merely disturbed passes, with the disturbance as its
    output."""
    numbers = Numbers(findings)
    root = Element("testsuites", name=_clean(findings.study))
    thresholds = SubElement(root, "testsuite", name="thresholds")
    for threshold in findings.thresholds:
        _threshold(thresholds, threshold)
    for one in claimed(findings):
        if one.claim.gate is not None or one.outcome != "open":
            _claim(thresholds, findings, one)
    if findings.capacity is not None:
        _search(thresholds, findings.capacity)
    trials = SubElement(root, "testsuite", name="trials")
    none_ok = nothing_ok(findings)
    for trial in findings.trials:
        _trial(trials, numbers, trial, none_ok)
    if not findings.complete:
        missing = SubElement(trials, "testcase", classname="run", name="all planned trials are sealed")
        text = f"{findings.sealed_trials} of {findings.planned_trials} planned trials are sealed"
        SubElement(missing, "error", message=text, type="incomplete")
    for suite in (thresholds, trials):
        _totals(suite)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)


def _case(suite: Element, classname: str, name: str) -> Element:
    return SubElement(suite, "testcase", classname=_clean(classname), name=_clean(name))


def _threshold(suite: Element, one: ThresholdResult) -> None:
    case = _case(suite, one.case, one.that)
    message = one.sentence
    if one.outcome == "failed":
        SubElement(case, "failure", message=_clean(message), type="threshold")
    elif one.outcome != "passed":
        SubElement(case, "error", message=_clean(message), type=one.outcome.replace(" ", "-"))


def _claim(suite: Element, findings: Findings, one: Claimed) -> None:
    """Add a comparison: its gate decides; without one, it is an error if no pair of it is valid."""
    case = _case(suite, "comparisons", one.claim.name)
    behind = "\n".join(f"{name}: {text}" for name, text in details(findings, one).items())
    gate = one.claim.gate
    message = f"{one.sentence} {one.gate}".strip()
    if one.failed:
        SubElement(case, "failure", message=_clean(message), type="comparison").text = _clean(behind)
    elif (gate is not None and gate.outcome == "open") or one.outcome == "refused":
        kind = "open" if gate is not None and one.outcome != "refused" else "refused"
        SubElement(case, "error", message=_clean(message), type=kind).text = _clean(behind)
    else:
        SubElement(case, "system-out").text = _clean(f"{message}\n{behind}")


def _search(suite: Element, found: CapacityResult) -> None:
    """Add a search: a failure if the required load breaks, an error if search or gate is open."""
    case = _case(suite, "capacity", search_title(found))
    message = " ".join([found.sentence, *([found.gate.sentence] if found.gate else [])])
    outcome = search_outcome(found)
    if outcome == "fail":
        SubElement(case, "failure", message=_clean(message), type="capacity")
    elif outcome == "open":
        SubElement(case, "error", message=_clean(message), type="open")
    else:
        SubElement(case, "system-out").text = _clean(message)


def _trial(suite: Element, numbers: Numbers, trial: TrialResult, none_ok: bool) -> None:
    """Add a trial: a failure if a server disappeared or no request of the run succeeded (`none_ok`), else an
    error if a number that the study asks for is REFUSED; its numbers, checks and remedies as text."""
    case = _case(suite, trial.case, trial.trial)
    verdict = trial.verdict
    gone = bool(trial.outages) and numbers.findings.capacity is None  # a search may break the server
    if gone:
        message = " ".join(one.sentence for one in trial.outages)
        SubElement(case, "failure", message=_clean(message), type="gone")
    elif none_ok:
        SubElement(case, "failure", message=NOTHING_OK, type="nothing-ok")
    reasons = _reasons(verdict.reasons, verdict.remedy)
    if verdict.instrument == "REFUSED" and not (gone or none_ok):
        message = f"REFUSED: {verdict.reasons[0]}" if verdict.reasons else "REFUSED"
        SubElement(case, "error", message=_clean(message), type="refused").text = _clean(reasons)
    elif verdict.instrument != "VALID" or verdict.reasons:
        SubElement(case, "system-out").text = _clean(
            f"{_WORTH[verdict.instrument]}; server {verdict.server}\n{reasons}"
        )
    properties = SubElement(case, "properties")
    if graded_again(numbers.findings, trial):
        SubElement(properties, "property", name="instrument", value=grade_words(numbers.findings, trial))
    result = next((one for one in numbers.findings.cases if one.case == trial.case), None)
    for key in asked_keys(numbers, result) if result is not None else ():
        one = numbers.of_trial(trial, key)
        value = " ".join(part for part in (one.whole, one.mark, one.bound) if part)
        SubElement(properties, "property", name=_clean(key), value=_clean(value))


def _reasons(reasons: Sequence[str], remedy: str) -> str:
    return "\n".join([*reasons, *([f"What would help: {remedy}"] if remedy else [])])


def _totals(suite: Element) -> None:
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
