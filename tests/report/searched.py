"""Findings of a search, made from the synthetic run whose factor is its users, without searching."""

from __future__ import annotations

from tests.evolve import evolve

from svload.analysis.capacity.asked import capacity_finding, gate_of
from svload.model.capacity import CapacityLevel, CapacityResult, CapacityTrial
from svload.model.results import CaseResult, Findings

LIMIT_S = 0.016
THAT = f"background.response.p95 <= {1000 * LIMIT_S:g} ms"


def searched(findings: Findings) -> Findings:
    """Return the same findings as if the users' levels were a search's; one more load has no number."""
    cases = sorted((case for case in findings.cases if case.trials), key=_users)
    held = [case for case in cases if _value(case) <= LIMIT_S]
    low, high = _users(held[-1]), _users(cases[len(held)])
    trials = [(trial, case) for case in cases for trial in case.trials]
    looks = len(cases)
    found = CapacityResult(
        over="users",
        that=(THAT,),
        least=1,
        most=64,
        state="found",
        limit=(low * high) ** 0.5,
        low=low,
        high=high,
        width=high / low - 1,
        levels=(*(_level(case) for case in cases), WITHOUT),
        trials=tuple(
            CapacityTrial(
                trial=trial,
                load=_users(case),
                look=number < looks,
                outcome="no number" if number == looks else "holds" if _value(case) <= LIMIT_S else "breaks",
                low=low if number > looks else None,
                high=high if number > looks else None,
            )
            for number, (trial, case) in enumerate(trials)
        ),
        sentence=f"{THAT} holds up to about {round((low * high) ** 0.5)} users ({low} to {high}).",
    )
    found = evolve(found, gate=gate_of(low, found))
    result = (*capacity_finding(found), *findings.findings)
    return evolve(findings, capacity=found, findings=result)


WITHOUT = CapacityLevel(
    load=64, case="users-64", outcome="no number", by="", value=None, low=None, high=None, throughput_rps=None, trials=0, without=2, why="too few requests"
)  # fmt: skip


def _users(case: CaseResult) -> int:
    return int(case.levels["users"])


def _value(case: CaseResult) -> float:
    value = case.metrics["background.response.p95"].value
    assert value is not None
    return value


def _level(case: CaseResult) -> CapacityLevel:
    value = _value(case)
    return CapacityLevel(
        load=_users(case),
        case=case.case,
        outcome="holds" if value <= LIMIT_S else "breaks",
        by=THAT,
        value=value,
        low=0.95 * value,
        high=1.05 * value,
        throughput_rps=case.metrics["background.throughput"].value,
        trials=len(case.trials),
        without=0,
    )
