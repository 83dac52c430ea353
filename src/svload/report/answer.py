"""What a run says, in at most ten sentences, and what it does not say. Pure: made from findings alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from svload.model.results import Claim, Finding, Findings, TrialResult, marks
from svload.report.reasons import Graded, refused_cases, refused_trials, weak_cases
from svload.report.words import (
    change_words,
    count_words,
    dimension_of,
    full_metric,
    list_words,
    main_group,
    metric_words,
    show_change,
    show_interval,
    state_words,
    unique,
)

MOST_SENTENCES = 10
LIMITS_TITLE = "How far to trust it, and what could not be said"
_RATIO_IN_SENTENCE = " × that with "


@dataclass(frozen=True)
class Sentence:
    """A sentence of the answer, how sure it is, and the names of its evidence (cases/…, trials/…, or a claim's name)."""

    text: str
    certainty: str
    evidence: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why, a line each, where a sentence speaks of many."""

    @property
    def whole(self) -> str:
        """The sentence and its reasons as one text."""
        return " ".join([self.text, *self.reasons])


@dataclass(frozen=True)
class Answer:
    """`sentences` answer the question; `unsaid` are what limits them: what is WEAK, refused, undecided or was not run.

    `nothing` is set when there is no valid evidence at all: then there are no sentences. `left_out` counts what ten lines do not hold.
    """

    sentences: tuple[Sentence, ...]
    unsaid: tuple[Sentence, ...]
    planted: tuple[str, ...]
    nothing: str | None = None
    left_out: int = 0


def answer(findings: Findings) -> Answer:
    """The answer of a run: comparisons first, then what the servers did and which criteria failed, ten sentences at most."""
    planted = tuple(finding.sentence for finding in findings.findings if finding.kind == "planted")
    because = why_nothing(findings)
    said = [] if because is not None else _said(findings)
    unsaid = _unsaid(findings)
    over = max(0, len(said) - MOST_SENTENCES) + max(0, len(unsaid) - MOST_SENTENCES)
    return Answer(tuple(said[:MOST_SENTENCES]), tuple(unsaid[:MOST_SENTENCES]), planted, because, over)


def _said(findings: Findings) -> list[Sentence]:
    found = [_of_claim(findings, claim) for claim in findings.claims if claim.state != "refused"]
    about_claims = {claim.sentence for claim in findings.claims}
    judged = {one.sentence for one in findings.thresholds if one.outcome in ("refused", "no value")}
    for finding in findings.findings:
        if (
            finding.kind not in ("planted", "refused", "weak")
            and finding.sentence not in about_claims | judged
        ):
            found.append(_of_finding(finding))
    return list({sentence.text: sentence for sentence in found}.values())


def _of_finding(finding: Finding) -> Sentence:
    return Sentence(finding.sentence, finding.certainty, finding.evidence)


def _of_claim(findings: Findings, claim: Claim) -> Sentence:
    certainty = state_words(claim.state) + ("" if claim.planned else ", exploratory")
    return Sentence(_plainly(findings, claim), certainty, (claim.name,))


def _plainly(findings: Findings, claim: Claim) -> str:
    """The effect as people say it, then what the claim's own sentence says of how sure it is; all of that sentence without a ratio."""
    metric = full_metric(findings, claim.metric)
    _, told, rest = claim.sentence.partition(_RATIO_IN_SENTENCE)
    if claim.ratio.value is None or not told:
        return claim.sentence
    cases = count_words(len(claim.pairs), "matched case")
    effect = (
        f"{claim.treatment} against {claim.baseline}: {metric_words(metric)} is "
        f"{show_change(claim.ratio, dimension_of(metric))}, over {cases} in {count_words(claim.blocks, 'block')}."
    )
    said = _without_details(rest.partition("). ")[2])
    return " ".join(part for part in (effect, _apart(findings, claim, metric), said) if part)


_APART = 1.5
"""Matched cases whose ratios differ by more than this factor are told beside their pooled effect, which then describes none of them."""


def _apart(findings: Findings, claim: Claim, metric: str) -> str:
    """The least and the largest effect of single pairs, where they lie far apart; "" else."""
    known = {case.case: case.metrics.get(metric) for case in findings.cases}
    ratios = {}
    for pair in claim.pairs:
        before, after = (found.value if (found := known.get(case)) is not None else None for case in pair)
        if before and after:
            ratios[pair] = after / before
    ordered = sorted(ratios, key=ratios.__getitem__)
    if len(ordered) < 2 or ratios[ordered[-1]] <= _APART * ratios[ordered[0]]:
        return ""
    least, most = (
        f"{change_words(ratios[pair], dimension_of(metric))} ({pair[1]} against {pair[0]})"
        for pair in (ordered[0], ordered[-1])
    )
    return f"The matched cases differ: from {least} to {most}."


_BLOCK_OUT = re.compile(r" ?Block \d+ is out \([^()]*\)\.")
_OF_ITS_TRIALS = re.compile(r" ?\d+ of its trials (?:is|are) WEAK\.")


def _without_details(told: str) -> str:
    """What a claim says after its effect, without which trials are WEAK or out: those stand at the comparison, and once for the whole run."""
    out = len(_BLOCK_OUT.findall(told))
    short = _OF_ITS_TRIALS.sub("", _BLOCK_OUT.sub("", told))
    return f"{short} Out, for REFUSED trials: {count_words(out, 'block')}." if out else short


def _unsaid(findings: Findings) -> list[Sentence]:
    """Refused comparisons, cases and trials with their reasons, what too few blocks leave open, and what was not run."""
    lines = [
        Sentence(claim.sentence, "refused", (claim.name,))
        for claim in findings.claims
        if claim.state == "refused"
    ]
    lines += _refused(findings)
    lines += [_graded(found, "usable") for found in (weak_cases(findings),) if found]
    undecidable = [claim.name for claim in findings.claims if claim.state == "undecidable"]
    if undecidable and len(undecidable) == len(findings.claims):
        text = "Every comparison of this run is undecided: it has too few usable blocks for any outcome to decide one. The ratios are what was seen."
        lines.append(Sentence(text, state_words("undecidable")))
    elif undecidable:
        text = f"Undecided for want of usable blocks: {list_words(undecidable)}."
        lines.append(Sentence(text, state_words("undecidable"), tuple(undecidable)))
    open_criteria = [one.case for one in findings.thresholds if one.outcome in ("refused", "no value")]
    if open_criteria:
        verb = "was" if len(open_criteria) == 1 else "were"
        text = f"{count_words(len(open_criteria), 'threshold')} {verb} not judged, in {list_words(unique(open_criteria))}: that is never a pass."
        lines.append(Sentence(text, "refused", tuple(f"cases/{name}" for name in unique(open_criteria))))
    return lines + _not_run(findings)


def _refused(findings: Findings) -> list[Sentence]:
    """Cases and trials: where there are many, one sentence for all with a reason a check."""
    cases, trials = refused_cases(findings), refused_trials(findings)
    lines = [_graded(found, "refused") for found in (cases, trials) if found]
    told = {name for found in (cases, trials) if found for name in found.evidence}
    whole = {
        f"trials/{name}" for case in findings.cases if f"cases/{case.case}" in told for name in case.trials
    }
    return lines + [
        _of_finding(finding)
        for finding in findings.findings
        if finding.kind == "refused" and not set(finding.evidence) <= told | whole
    ]


def _graded(found: Graded, certainty: str) -> Sentence:
    return Sentence(found.text, certainty, found.evidence, tuple(reason.text for reason in found.reasons))


def _not_run(findings: Findings) -> list[Sentence]:
    lines = []
    missing = [case.case for case in findings.cases if case.excluded is None and case.instrument is None]
    if missing:
        verb = "has" if len(missing) == 1 else "have"
        lines.append(
            Sentence(
                f"{list_words(missing)} {verb} no sealed trial.",
                "missing",
                tuple(f"cases/{name}" for name in missing),
            )
        )
    if not findings.complete:
        of = count_words(findings.planned_trials, "planned trial")
        text = f"The run is incomplete: {findings.sealed_trials} of {of} {'is' if findings.sealed_trials == 1 else 'are'} sealed."
        lines.append(Sentence(text, "incomplete"))
    return lines


def why_nothing(findings: Findings) -> str | None:
    """Why nothing can be concluded, as the end of that sentence; None where some case was measured validly."""
    if any(case.instrument in ("VALID", "WEAK") for case in findings.cases):
        return None
    if not findings.trials:
        return "no trial is sealed: nothing was measured to its end"
    refused = [trial for trial in findings.trials if trial.verdict.instrument == "REFUSED"]
    if len(refused) < len(findings.trials):
        head = f"too few trials are left: {len(refused)} of {len(findings.trials)} are REFUSED"
    else:
        head = "every trial is REFUSED" if len(refused) > 1 else "its only trial is REFUSED"
    told = _refusals(refused)
    return f"{head}. {' '.join(told)}".rstrip(". ") if told else head


def _refusals(trials: Sequence[TrialResult]) -> list[str]:
    """A sentence a check that refused, the most frequent first, three at most, each with one trial's own words."""
    most = sorted(marks(trials, "REFUSED").items(), key=lambda pair: -len(pair[1]))[:3]
    return [
        f"{name[:1].upper()}{name[1:]} ({count_words(len(found), 'trial')}): {found[0][1].sentence}"
        for name, found in most
    ]


def headline(findings: Findings) -> str:
    """One short sentence with its interval for the end of a command's output."""
    because = why_nothing(findings)
    if because is not None:
        return f"Nothing can be concluded, because {because}."
    claims = [
        claim for claim in findings.claims if claim.state != "refused" and claim.ratio.value is not None
    ]
    if claims:
        return _short_claim(findings.floor, min(claims, key=lambda claim: claim.state != "claim"))
    group = main_group(findings)
    for case in findings.cases:
        estimate = case.metrics.get(f"{group}.response.p50")
        if case.instrument in ("VALID", "WEAK") and estimate and estimate.value is not None:
            interval = "95 % interval" if estimate.low is not None else "no interval from so few runs"
            n = count_words(len(case.trials) - len(case.refused), "trial")
            return f"{group}: the median response in {case.case} is {show_interval(estimate, 'time_s')} ({interval}, {n}, {findings.floor})."
    return f"{count_words(findings.sealed_trials, 'trial')} sealed; no response time is a number (the report says why)."


def _short_claim(floor: str, claim: Claim) -> str:
    ratio = claim.ratio
    assert ratio.value is not None
    known = ratio.low is not None and ratio.high is not None
    interval = f" (95 % interval {ratio.low:.3g} to {ratio.high:.3g})" if known else ""
    state = floor if claim.state == "claim" else state_words(claim.state)
    return f"{claim.name}: {claim.metric} with {claim.treatment} is {ratio.value:.3g} × that with {claim.baseline}{interval}; {state}."
