"""Hand-made configurations, trials, cases and findings: a test sets what it is about, the rest is as in a
clean run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svload.model.results import CaseResult, CheckResult, Estimate, Findings, TrialResult, Verdict
from svload.model.study import Case, CaseConfig
from svload.model.traffic import Group


def case_of(*groups: Group, name: str = "c", **fields: Any) -> CaseConfig:
    """Return the configuration of a case with these groups; without services, unless they are given."""
    return CaseConfig(**{"case": Case(name=name, levels={}), "services": ()} | fields, groups=groups)


def trial_result(
    case: str,
    block: int = 1,
    metrics: Mapping[str, Estimate] | None = None,
    checks: tuple[CheckResult, ...] = (),
    instrument: str = "VALID",
    server: str = "STEADY",
    **fields: Any,
) -> TrialResult:
    name = f"{case}.r{block}"
    verdict = Verdict(trial=name, instrument=instrument, server=server, reasons=(), checks=checks)
    own = {"trial": name, "replicate": block, "verdict": verdict, "metrics": metrics or {}}
    return TrialResult(**own | {"case": case, "block": block} | fields)


def case_result(name: str, **fields: Any) -> CaseResult:
    own = {"levels": {}, "excluded": None, "trials": (), "refused": (), "metrics": {}}
    return CaseResult(**own | {"case": name, "instrument": "VALID", "server": "STEADY"} | fields)


def findings_of(**fields: Any) -> Findings:
    """Return findings of a complete run, empty except for what is given."""
    made = len(fields.get("trials", ()))
    own = {"analysis_version": 0, "study": "s", "question": "", "profile": None, "complete": True}
    own |= {"cases": (), "trials": (), "planned_trials": made, "sealed_trials": made}
    return Findings(**own | fields)
