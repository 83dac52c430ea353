"""What a run says, in at most ten sentences, and what it does not say. Pure: made from findings alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from svload.model.results import Claim, Findings
from svload.report.words import count_words, list_words, main_group, show_interval, unique

MOST_SENTENCES = 10


_CERTAINTY = {"claim": "claim", "no claim": "no claim", "undecidable": "seen, not a claim"}


@dataclass(frozen=True)
class Sentence:
    """A sentence of the answer, how sure it is, and the names of its evidence (cases, trials, claims)."""

    text: str
    certainty: str
    evidence: tuple[str, ...] = ()
    weak: bool = False


@dataclass(frozen=True)
class Answer:
    """`nothing` is set when there is no valid evidence at all: then there are no sentences."""

    sentences: tuple[Sentence, ...]
    unsaid: tuple[str, ...]
    nothing: str | None = None
    left_out: int = 0


def answer(findings: Findings) -> Answer:
    """The answer of a run: claims first, then the other findings, ten sentences at most."""
    because = why_nothing(findings)
    if because is not None:
        return Answer((), _unsaid(findings), because)
    found: dict[str, Sentence] = {}
    for claim in findings.claims:
        if claim.state != "refused":
            found.setdefault(claim.sentence, _of_claim(claim))
    about_claims = {claim.sentence for claim in findings.claims}
    for finding in findings.findings:
        if finding.sentence not in about_claims:
            sentence = Sentence(finding.sentence, finding.certainty, finding.evidence)
            found.setdefault(finding.sentence, sentence)
    sentences = tuple(found.values())
    shown = sentences[:MOST_SENTENCES]
    return Answer(shown, _unsaid(findings), None, len(sentences) - len(shown))


def why_nothing(findings: Findings) -> str | None:
    """Why nothing can be concluded, as the end of that sentence; None where some case was measured validly."""
    if any(case.instrument in ("VALID", "WEAK") for case in findings.cases):
        return None
    if not findings.trials:
        return "no trial is sealed: nothing was measured to its end"
    reasons = Counter(
        _short(reason) for trial in findings.trials for reason in unique(trial.verdict.reasons[:1])
    )
    most = [f"{reason} ({count_words(count, 'trial')})" for reason, count in reasons.most_common(3)]
    refused = sum(trial.verdict.instrument == "REFUSED" for trial in findings.trials)
    if refused == len(findings.trials):
        head = "every trial is REFUSED" if refused > 1 else "its only trial is REFUSED"
    else:
        head = f"too few trials are left: {refused} of {len(findings.trials)} are REFUSED"
    return head + (f": {'; '.join(most)}" if most else "")


def _short(reason: str) -> str:
    return reason.strip().rstrip(".")


def _of_claim(claim: Claim) -> Sentence:
    certainty = _CERTAINTY.get(claim.state, claim.state)
    if not claim.planned:
        certainty += ", exploratory"
    return Sentence(claim.sentence, certainty, (claim.name,), weak=claim.ratio.weak)


def _unsaid(findings: Findings) -> tuple[str, ...]:
    lines = [claim.sentence for claim in findings.claims if claim.state == "refused"]
    undecidable = [claim.name for claim in findings.claims if claim.state == "undecidable"]
    if undecidable and len(undecidable) == len(findings.claims):
        lines.append(
            "No comparison of this run is a claim: it has too few blocks for any outcome to decide one. The ratios are what was seen."
        )
    elif undecidable:
        lines.append(f"Too few blocks to decide: {list_words(undecidable)}.")
    refused = [case.case for case in findings.cases if case.instrument == "REFUSED"]
    if refused:
        lines.append(
            f"Nothing is said about {list_words(refused)}: {'it is' if len(refused) == 1 else 'they are'} REFUSED."
        )
    missing = [case.case for case in findings.cases if case.excluded is None and case.instrument is None]
    if missing:
        lines.append(f"{list_words(missing)} {'has' if len(missing) == 1 else 'have'} no sealed trial.")
    if not findings.complete:
        lines.append(
            f"The run is incomplete: {findings.sealed_trials} of {count_words(findings.planned_trials, 'planned trial')} "
            f"{'is' if findings.sealed_trials == 1 else 'are'} sealed."
        )
    return tuple(unique(lines))


def headline(findings: Findings) -> str:
    """One sentence with its interval for the end of a command's output."""
    because = why_nothing(findings)
    if because is not None:
        return f"Nothing can be concluded, because {because}."
    for claim in findings.claims:
        if claim.state != "refused" and claim.ratio.value is not None:
            return claim.sentence
    group = main_group(findings)
    measured = [
        (case, estimate)
        for case in findings.cases
        if case.instrument in ("VALID", "WEAK")
        and (estimate := case.metrics.get(f"{group}.response.p50"))
        and estimate.value is not None
    ]
    if measured:
        case, estimate = measured[0]
        kind = f"{group}'s median response in {case.case} is {show_interval(estimate, 'time_s')}"
        interval = "95 % interval" if estimate.low is not None else "no interval from so few runs"
        return f"{kind} ({interval}, {count_words(len(case.trials) - len(case.refused), 'trial')})."
    return f"{count_words(findings.sealed_trials, 'trial')} sealed; no response time is a number (see the reasons in the report)."
