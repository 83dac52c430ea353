"""Comparison of two runs: ratios without an interval, never a claim. Differences from day to day are part of
them, and two runs cannot tell how large these are (docs/method.md §2)."""

from __future__ import annotations

from math import exp, log
from statistics import mean
from typing import Any

from svload.analysis.claims.pairs import grade_of, why_none
from svload.model.metrics import without_limit
from svload.model.results import CaseResult, Estimate, Findings

NOT_INTERLEAVED = "not interleaved: drift is inside this difference"
_METRICS = ("response.p50", "response.p95", "response.p99", "response.mean", "throughput", "success_rate")


def compare_runs(first: Findings, second: Findings) -> list[dict[str, Any]]:
    """Compare each case that both runs have (same levels and name; or each run's only case), for each metric
    of each group: second over first.

    Keys: case, metric, ratio, n ([first, second]), note, sentence. A closed loop is never compared with an
    open one, nor a REFUSED number with anything: such rows have no ratio and say why.
    """
    return [row for mine, other in matched(first, second) for row in _case_rows(first, second, mine, other)]


def matched(first: Findings, second: Findings) -> list[tuple[CaseResult, CaseResult]]:
    """Return each case of the first run with the same case of the second."""
    ours, theirs = ([case for case in run.cases if not case.excluded] for run in (first, second))
    named = {case.case: case for case in theirs}
    only = theirs[0] if len(ours) == len(theirs) == 1 else None
    pairs = [(mine, named.get(mine.case, only)) for mine in ours]
    return [(mine, other) for mine, other in pairs if other is not None and mine.levels == other.levels]


def _case_rows(
    first: Findings, second: Findings, mine: CaseResult, other: CaseResult
) -> list[dict[str, Any]]:
    rows = []
    for group, model in mine.load_model.items():
        if group not in other.load_model:
            continue
        if other.load_model[group] != model:
            rows.append(
                _row(mine.case, group, note=f"{model} is never compared with {other.load_model[group]}")
            )
            continue
        limited = [
            name for name in mine.metrics if name.startswith(f"{group}.") and without_limit(name) != name
        ]
        for name in (*(f"{group}.{metric}" for metric in _METRICS), *limited):
            if name in mine.metrics and name in other.metrics:
                rows.append(
                    _metric_row(
                        mine.case, name, _values(first, mine.case, name), _values(second, other.case, name)
                    )
                )
    return rows


def _values(findings: Findings, case: str, name: str) -> list[Estimate | None]:
    trials = [trial for trial in findings.trials if trial.case == case and grade_of(trial, name) != "REFUSED"]
    return [trial.metrics.get(name) for trial in trials]


def _metric_row(
    case: str, name: str, first: list[Estimate | None], second: list[Estimate | None]
) -> dict[str, Any]:
    n = [len(first), len(second)]
    if not first or not second:
        return _row(case, name, note="REFUSED: it enters no comparison", n=n)
    logs: list[float] = []
    for side, estimates in (("first", first), ("second", second)):
        values = [one.value for one in estimates if one is not None and one.value]
        if len(values) < len(estimates):
            lacking = next(one for one in estimates if one is None or not one.value)
            return _row(case, name, note=f"{side} run: {why_none(lacking)}", n=n)
        logs.append(mean(map(log, values)))
    return _row(case, name, exp(logs[1] - logs[0]), n)


def _row(
    case: str,
    metric: str,
    ratio: float | None = None,
    n: list[int] | None = None,
    note: str = NOT_INTERLEAVED,
) -> dict[str, Any]:
    shown = f" is {ratio:.3g} × the first run's" if ratio is not None else " has no ratio"
    sentence = f"{case}: {metric}{shown}, {note}."
    return {"case": case, "metric": metric, "ratio": ratio, "n": n or [], "note": note, "sentence": sentence}
