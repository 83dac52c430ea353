"""junit.xml: a test case for each threshold on each case, each comparison that gates, and each trial's verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from svload.model.results import Claim, Findings, ThresholdResult, TrialResult

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(findings: Findings) -> str:
    """The findings as JUnit: a failed threshold or gate is a failure; what was REFUSED or has no number is an error, never a pass."""
    root = Element("testsuites", name=_clean(findings.study))
    thresholds = SubElement(root, "testsuite", name="thresholds")
    for threshold in findings.thresholds:
        _threshold(thresholds, threshold)
    for claim in findings.claims:
        if claim.failed or claim.state != "undecidable":
            _claim(thresholds, claim)
    trials = SubElement(root, "testsuite", name="trials")
    for trial in findings.trials:
        _trial(trials, trial)
    if not findings.complete:
        missing = SubElement(trials, "testcase", classname="run", name="all planned trials are sealed")
        text = f"{findings.sealed_trials} of {findings.planned_trials} planned trials are sealed"
        SubElement(missing, "error", message=text, type="incomplete")
    for suite in (thresholds, trials):
        _totals(suite)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold."""
    return _FORBIDDEN.sub("�", text)


def _case(suite: Element, classname: str, name: str) -> Element:
    return SubElement(suite, "testcase", classname=_clean(classname), name=_clean(name))


def _threshold(suite: Element, one: ThresholdResult) -> None:
    case = _case(suite, one.case, one.that)
    if one.outcome == "failed":
        SubElement(case, "failure", message=_clean(one.sentence), type="threshold")
    elif one.outcome != "passed":
        SubElement(case, "error", message=_clean(one.sentence), type=one.outcome.replace(" ", "-"))


def _claim(suite: Element, claim: Claim) -> None:
    case = _case(suite, "comparisons", claim.name)
    if claim.failed:
        SubElement(case, "failure", message=_clean(claim.sentence), type="comparison")
    elif claim.state == "refused":
        SubElement(case, "error", message=_clean(claim.sentence), type="refused")
    else:
        SubElement(case, "system-out").text = _clean(claim.sentence)


def _trial(suite: Element, trial: TrialResult) -> None:
    case = _case(suite, trial.case, trial.trial)
    reasons = _told(trial.verdict.reasons, trial.verdict.remedy)
    if trial.verdict.instrument == "REFUSED":
        message = trial.verdict.reasons[0] if trial.verdict.reasons else "the instrument is REFUSED"
        SubElement(case, "error", message=_clean(message), type="refused").text = _clean(reasons)
    elif trial.verdict.instrument == "WEAK" or trial.verdict.reasons:
        SubElement(case, "system-out").text = _clean(
            f"{trial.verdict.instrument}, server {trial.verdict.server}\n{reasons}"
        )


def _told(reasons: Sequence[str], remedy: str) -> str:
    return "\n".join([*reasons, *([f"What would mend it: {remedy}"] if remedy else [])])


def _totals(suite: Element) -> None:
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
