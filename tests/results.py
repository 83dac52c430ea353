"""Hand-made configurations, trials, cases and findings: a test sets the fields it is about, the others are
those of a clean run."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
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


FORMATS = {"u64": "Q", "i64": "q", "u32": "I", "u16": "H", "u8": "B", "f64": "d"}
READINGS = ("offset_ns", "service", "monitor", "entity", "metric", "value")
Columns = Mapping[str, tuple[str, Any]]


def unpacked(table: Columns) -> dict[str, list[Any]]:
    """Return the values of each column of a table as the engine and the sampler pass it on."""
    return {
        name: list(data)
        if kind == "utf8"
        else [one for (one,) in struct.iter_unpack("<" + FORMATS[kind], data)]
        for name, (kind, data) in table.items()
    }


def readings(*rows: tuple[int, str, str, str, str, float]) -> dict[str, tuple[str, Any]]:
    """Return a table of monitors' readings: offset, service, monitor, entity, metric and value of each."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(READINGS)
    packed = {"offset_ns": ("i64", "q"), "value": ("f64", "d")}
    return {
        name: (packed[name][0], array(packed[name][1], cells).tobytes())
        if name in packed
        else ("utf8", [*cells])
        for name, cells in zip(READINGS, columns, strict=True)
    }


def rows_of(table: Columns) -> list[tuple[Any, ...]]:
    """Return the rows of a table of readings."""
    columns = unpacked(table)
    return list(zip(*(columns[name] for name in READINGS), strict=True))
