"""Findings as sentences with their evidence. They say what was seen, how surely, and nothing that the data does not carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from svload.analysis.claims.say import FLOOR_UNKNOWN
from svload.model.certificates import AaCertificate
from svload.model.results import CaseResult, Claim, Finding, ThresholdResult, TrialResult
from svload.model.study import Lock
from svload.model.units import show_duration

ABOVE_FLOOR = "above the lab's own noise"


def floor_told(certificate: AaCertificate | None) -> str:
    """Whether the lab's own noise is known, for every page."""
    if certificate is None:
        return FLOOR_UNKNOWN
    made = datetime.fromtimestamp(certificate.made_wall, UTC).strftime("%Y-%m-%d")
    again = ", restarting each time" if certificate.restarts else ""
    return f"floor known: {certificate.pairs} A/A pairs of {', '.join(certificate.cases)}{again} ({made})"


def findings_of(
    lock: Lock,
    cases: Sequence[CaseResult],
    trials: Sequence[TrialResult],
    claims: Sequence[Claim],
    thresholds: Sequence[ThresholdResult],
    explored: Sequence[Finding] = (),
) -> tuple[Finding, ...]:
    """All findings, the most important first; `explored` are those that the study did not plan."""
    return (
        *_planted(lock),
        *_refused(cases, trials),
        *_overloaded(cases),
        *(_claim(claim) for claim in claims),
        *explored,
        *_thresholds(thresholds),
        *_weak(cases),
        *_order(lock),
    )


def headline(result: TrialResult) -> str:
    """One line on a judged trial: `probe p50 2.1 ms, 812/s, 100 % ok`, of the curl-like probe where there is one, else the last group."""
    heads = [name.removesuffix(".response.p50") for name in result.metrics if name.endswith(".response.p50")]
    heads = [head for head in heads if "." not in head]
    if not heads:
        return "no request"
    name = next((head for head in heads if f"{head}.connect.p50" in result.metrics), heads[-1])
    median, rate, success = (
        result.metrics[f"{name}.{metric}"] for metric in ("response.p50", "throughput", "success_rate")
    )
    shown = show_duration(median.value) if median.value is not None else median.reason
    parts = [f"{name} p50 {shown}"]
    parts += [f"{rate.value:.4g}/s"] if rate.value is not None else []
    parts += [f"{100 * success.value:.4g} % ok"] if success.value is not None else []
    return ", ".join(parts)


def _planted(lock: Lock) -> Iterator[Finding]:
    for case, fault in lock.plants.items():
        yield Finding(
            kind="planted",
            sentence=f"A fault was planted in {case}: {fault}. This run demonstrates the verdicts.",
            evidence=(f"cases/{case}",),
            certainty="certain",
        )


def _refused(cases: Sequence[CaseResult], trials: Sequence[TrialResult]) -> Iterator[Finding]:
    refused = [case for case in cases if case.instrument == "REFUSED"]
    for case in refused:
        yield Finding(
            kind="refused",
            sentence=f"{case.case} is REFUSED. {' '.join(case.reasons)}",
            evidence=tuple(f"trials/{name}" for name in case.refused),
            certainty="certain",
        )
    whole = {case.case for case in refused}
    believed = {(one.case, one.block): one.trial for one in trials if one.verdict.instrument != "REFUSED"}
    for trial in trials:
        if trial.verdict.instrument == "REFUSED" and trial.case not in whole:
            instead = believed.get((trial.case, trial.block))
            effect = f"was made once more ({instead})" if instead else "takes its pairs out of comparisons"
            sentence = f"{trial.trial} is REFUSED and {effect}: {trial.verdict.reasons[0]} {trial.verdict.remedy}".strip()
            yield Finding(
                kind="refused", sentence=sentence, evidence=(f"trials/{trial.trial}",), certainty="certain"
            )


def _overloaded(cases: Sequence[CaseResult]) -> Iterator[Finding]:
    for state in ("OVERLOADED", "SATURATED"):
        named = [case.case for case in cases if case.server == state and case.instrument != "REFUSED"]
        if named:
            told = (
                "the backlog grows, percentiles grow with the run's length"
                if state == "OVERLOADED"
                else "the server works at a limit, or arrivals wait for slots; they are served"
            )
            yield Finding(
                kind="server",
                sentence=f"{state} in {', '.join(named)}: {told}.",
                evidence=tuple(f"cases/{name}" for name in named),
                certainty=FLOOR_UNKNOWN,
            )


def _claim(claim: Claim) -> Finding:
    evidence = tuple(f"cases/{name}" for pair in claim.pairs for name in pair)
    certainty: str = claim.outcome
    if claim.outcome == "decided":
        certainty = FLOOR_UNKNOWN if claim.floor is None else ABOVE_FLOOR
    return Finding(
        kind="comparison",
        sentence=claim.sentence,
        evidence=tuple(dict.fromkeys(evidence)),
        certainty=certainty,
    )


def _thresholds(thresholds: Sequence[ThresholdResult]) -> Iterator[Finding]:
    for one in thresholds:
        if one.outcome != "passed":
            yield Finding(
                kind="threshold", sentence=one.sentence, evidence=(f"cases/{one.case}",), certainty="measured"
            )


_MOST_NAMED = 8
"""Cases that a sentence lists by name."""


def _weak(cases: Sequence[CaseResult]) -> Iterator[Finding]:
    named = [case.case for case in cases if case.instrument == "WEAK"]
    if named:
        run = [case.case for case in cases if case.excluded is None]
        others = [name for name in run if name not in named]
        verb = "is" if len(named) == 1 else "are"
        who = ", ".join(named)
        if len(named) > _MOST_NAMED:
            rest = f" (all but {', '.join(others)})" if 0 < len(others) <= _MOST_NAMED else ""
            who = f"{len(named)} of {len(run)} cases{rest}"
        yield Finding(
            kind="weak",
            sentence=f"{who} {verb} WEAK: usable, with the reasons told at each.",
            evidence=tuple(f"cases/{name}" for name in named),
            certainty="certain",
        )


def _order(lock: Lock) -> Iterator[Finding]:
    if lock.measure.order == "as-listed":
        yield Finding(
            kind="design",
            sentence="Trials ran as listed, not in random order: drift of the machine is inside every comparison.",
            evidence=(),
            certainty="certain",
        )
