"""The findings with the report's words in them, for those who read findings.json alone. Pure."""

from __future__ import annotations

from svload.model.results import Findings
from svload.report.told.claimed import claimed
from svload.report.told.doubts import doubts


def in_words(findings: Findings) -> Findings:
    """Each claim with its sentence, each case with what is doubted of its trials."""
    by_case: dict[str, list[str]] = {}
    for case in findings.cases:
        mine = [trial for trial in findings.trials if trial.case == case.case]
        by_case[case.case] = [one.text for one in doubts(findings, mine)]
    claims = tuple(one.claim.model_copy(update={"sentence": one.sentence}) for one in claimed(findings))
    cases = tuple(case.model_copy(update={"reasons": tuple(by_case[case.case])}) for case in findings.cases)
    return findings.model_copy(update={"claims": claims, "cases": cases})
