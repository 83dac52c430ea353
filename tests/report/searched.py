"""A search laid over the synthetic run whose factor is its users: the report of one, without a search."""

from __future__ import annotations

from math import log

from svload.analysis.capacity.gate import gate_of
from svload.analysis.capacity.told import capacity_finding
from svload.model.capacity import CapacityLevel, CapacityResult, CapacityTrial, CapacityWay
from svload.model.results import CaseResult, Findings

LIMIT_S = 0.016
THAT = f"background.response.p95 <= {1000 * LIMIT_S:g} ms"


def searched(findings: Findings) -> Findings:
    """The same findings, as if the users' levels were those of a search; one more level can't be told."""
    cases = sorted((case for case in findings.cases if case.trials), key=_users)
    held = [case for case in cases if _value(case) <= LIMIT_S]
    kept, broken = _users(held[-1]), _users(cases[len(held)])
    trials = [(trial, case) for case in cases for trial in case.trials]
    looks = len(cases)
    found = CapacityResult(
        over="users",
        that=(THAT,),
        least=1,
        most=64,
        state="bracketed",
        kept=kept,
        broken=broken,
        levels=(*(_level(case) for case in cases), REFUSED),
        trials=tuple(
            CapacityTrial(
                trial=trial,
                load=_users(case),
                scout=number < looks,
                outcome="no number" if number == looks else "holds" if _value(case) <= LIMIT_S else "breaks",
                kept=kept if number > looks else None,
                broken=broken if number > looks else None,
            )
            for number, (trial, case) in enumerate(trials)
        ),
        confirmed=(CapacityWay(way="from above", outcome="kept", replicates=3),),
        why_wide="27: background.response.p95 has no number in 6 of 6 trials (REFUSED (steal))",
        sentence=f"{THAT} holds up to {kept} users, and not at {broken}.",
    )
    found = found.model_copy(update={"gate": gate_of(kept, found)})
    told = (*capacity_finding(found), *findings.findings)
    return findings.model_copy(update={"capacity": found, "findings": told})


REFUSED = CapacityLevel(
    load=64, outcome="open", by=THAT, margin=None, low=None, high=None, replicates=0, refused=6, case="users-64", why="REFUSED (steal)"
)  # fmt: skip


def _users(case: CaseResult) -> int:
    return int(case.levels["users"])


def _value(case: CaseResult) -> float:
    value = case.metrics["background.response.p95"].value
    assert value is not None
    return value


def _level(case: CaseResult) -> CapacityLevel:
    value = _value(case)
    margin = log(LIMIT_S / value)
    return CapacityLevel(
        load=_users(case),
        outcome="kept" if margin > 0 else "broken",
        by=THAT,
        margin=margin,
        low=margin - 0.05,
        high=margin + 0.05,
        replicates=len(case.trials),
        refused=0,
        case=case.case,
        value=value,
        value_low=0.95 * value,
        value_high=1.05 * value,
        throughput_rps=case.metrics["background.throughput"].value,
    )
