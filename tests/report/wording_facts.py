"""Hand-made findings: numbers with grades and bounds, claims of every outcome, doubts, and a search's."""

from __future__ import annotations

from typing import Any

from tests.evolve import evolve

from svload.analysis.capacity.asked import capacity_finding, gate_of
from svload.model.capacity import CapacityLevel, CapacityResult, CapacityTrial
from svload.model.results import (
    Belief,
    CarryOver,
    CaseResult,
    CheckResult,
    Claim,
    Estimate,
    Findings,
    Gate,
    Grade,
    Harm,
    LostPair,
    PairRatio,
    Strangers,
)

MEDIAN, TAIL = "probe.response.p50", "probe.response.p99"
HOG = "stress-ng (joe, ./hog.sh)"


def believed(estimate: Estimate, grade: Grade, above: float | None) -> Estimate:
    """Return the estimate with the belief that follows from checks."""
    doubts = ("hiccups",) if grade != "VALID" else ()
    return evolve(estimate, belief=Belief(grade=grade, below=0.0, above=above, doubts=doubts))


def hiccups(grade: Grade, *numbers: str, above: float | None = 0.12, who: str = HOG) -> CheckResult:
    """Return a check that doubts these numbers."""
    harms = tuple(Harm(number=name, grade=grade, below=0.0, above=above) for name in numbers)
    words = {"sentence": "A gap of 250 ms at 3.1 s touched 34 requests.", "remedy": "Keep the machine quiet."}
    return CheckResult(check="hiccups", grade=grade, harms=harms, who=who, **words)


def doubted(findings: Findings, grades: dict[str, dict[str, Grade]], bound: float | None = 0.12) -> Findings:
    """Return the findings with these numbers doubted by hiccups (`{"TC0.r1": {MEDIAN: "WEAK"}}`)."""
    trials = []
    for trial in findings.trials:
        mine = grades.get(trial.trial, {})
        metrics = {
            key: believed(one, mine[key], above=bound) if key in mine else evolve(one, belief=None)
            for key, one in trial.metrics.items()
        }
        found = [hiccups(grade, *(key for key in mine if mine[key] == grade), above=bound) for grade in dict.fromkeys(mine.values())]  # fmt: skip
        clean = [one for one in trial.verdict.checks if one.grade == "VALID" and one.check != "hiccups"]
        worst: Grade = "REFUSED" if "REFUSED" in mine.values() else "WEAK" if mine else "VALID"
        reasons = tuple(one.sentence for one in found)
        verdict = evolve(trial.verdict, instrument=worst, checks=(*found, *clean), reasons=reasons)
        trials.append(evolve(trial, metrics=metrics, verdict=verdict))
    return _cases_follow(evolve(findings, trials=tuple(trials)))


def _cases_follow(findings: Findings) -> Findings:
    """Give each case's numbers the worst grade of the trials that count; REFUSED if none does."""
    cases = []
    for case in findings.cases:
        mine = [trial for trial in findings.trials if trial.case == case.case]
        metrics = {}
        for key, one in case.metrics.items():
            found = [trial.metrics[key].grade for trial in mine if key in trial.metrics]
            kept = [grade for grade in found if grade != "REFUSED"]
            if found and not kept:
                belief = Belief(grade="REFUSED", doubts=("hiccups",), as_measured=one.value)
                metrics[key] = Estimate(value=None, why="refused", belief=belief)
            elif "WEAK" in kept:
                metrics[key] = believed(one, "WEAK", above=0.12)
            else:
                metrics[key] = evolve(one, belief=None)
        grades = {trial.verdict.instrument for trial in mine}
        worst = "REFUSED" if grades == {"REFUSED"} else "WEAK" if "WEAK" in grades else "VALID"
        refused = tuple(trial.trial for trial in mine if trial.verdict.instrument == "REFUSED")
        graded: dict[str, Any] = {"refused": refused, "asked": (MEDIAN, TAIL)}
        graded["instrument"] = worst if mine else None
        cases.append(evolve(case, metrics=metrics, **graded))
    return evolve(findings, cases=tuple(cases))


def outcomes(findings: Findings) -> Findings:
    """Return the findings with one claim of each outcome, and every kind of reason behind one."""
    first = findings.claims[0]
    pairs = tuple(
        PairRatio(block=n, unit=n, baseline=f"TC0.r{n}", treatment=f"TC1.r{n}", log_ratio=0.7 + 0.01 * n, treatment_first=n % 2 == 0, strangers=0.1 * n)
        for n in (1, 2, 3)
    )  # fmt: skip
    pair = {"baseline": "TC0", "treatment": "TC1"}
    broken = pair | {"side": "treatment", "why": "broken", "checks": ("manipulation",)}
    missing = LostPair(block=6, side="baseline", why="missing", **pair)
    lost = (*(LostPair(block=block, **broken) for block in (4, 5)), missing)

    def claim(name: str, outcome: str, **fields: Any) -> Claim:
        base = {"name": name, "outcome": outcome, "baseline": "http", "treatment": "https", "factor": "protocol", "metric": MEDIAN, "pairs": (("TC0", "TC3"),)}  # fmt: skip
        return first.model_copy(update=base | fields)

    claims = (
        claim(
            "HTTPS against HTTP", "decided", ratio=Estimate(value=2.04, low=1.93, high=2.16, n=6), single=(1.95, 2.13),
            p=0.0004, p_adjusted=0.0012, p_sign_flip=0.03, unit="bring-up", blocks=6, bring_ups=2, evidence=pairs, lost=lost,
            believed_of=(3, 6), without_lag=2.03, carry_over=CarryOver(ratio=2.05, low=1.9, high=2.2, differs=False),
            strangers=Strangers(readable=True, mean=0.12, most=0.4, sides=(0.11, 0.13), lean_p=0.5, calm_pairs=2.2, dilution=0.1),
            gate=Gate(text="worse by more than 5 %", outcome="fail"),
        ),
        claim("new against old", "no difference", ratio=Estimate(value=1.01, low=0.98, high=1.04, n=6), within=0.04, believed_of=(6, 6)),
        claim(
            "miss against direct", "open", ratio=Estimate(value=1.08, low=0.97, high=1.2, n=6), more_blocks=4, more_s=720.0,
            believed_of=(5, 6), gate=Gate(text="worse by more than 5 %", outcome="open", why="the interval holds the margin"),
        ),
        claim("hit against direct", "refused", ratio=Estimate(value=None, why="no ratio"), believed_of=(0, 6), lost=lost),
    )  # fmt: skip
    return evolve(findings, claims=claims)


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
    return evolve(findings, capacity=found, findings=(*capacity_finding(found), *findings.findings))


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
    around = {"value": value, "low": 0.95 * value, "high": 1.05 * value}
    made = {"throughput_rps": case.metrics["background.throughput"].value, "trials": len(case.trials)}
    outcome = "holds" if value <= LIMIT_S else "breaks"
    return CapacityLevel(
        load=_users(case), case=case.case, outcome=outcome, by=THAT, without=0, **around, **made
    )
