"""The output of an import: what was read and what is missing, the findings; for tables, every mistake by its
name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from svload.model.errors import ExitCode
from svload.model.results import Estimate, Findings, Imported, TrialResult
from svload.model.units import show_duration
from svload.report.terminal.console import console
from svload.report.terminal.tables import show_findings
from svload.report.told.spelling import GRADE_MARK, count_words

_SHOWN = ("p50", "p95", "p99", "mean")


def show_import(
    findings: Findings,
    imported: Mapping[str, Imported],
    files: Mapping[str, Path],
    interleaved: bool,
    code: ExitCode,
) -> None:
    """Print a few lines per trial, then the findings as for any run."""
    out = console()
    for result in findings.trials:
        told = imported.get(result.trial)
        if told is not None:
            _trial(out, result, told)
    if len(findings.trials) > 1 and not interleaved:
        out.print(
            "The levels were not interleaved: drift is inside every difference between them.", style="yellow"
        )
    show_findings(findings, files, code=code)


def _trial(out: Any, result: TrialResult, told: Imported) -> None:
    users = ", ".join(
        f"{count} users of {told.groups.get(group, group)}" for group, count in told.users.items()
    )
    out.print(
        f"{result.trial}: {told.requests:,} requests from {told.tool} ({told.file}){': ' + users if users else ''}"
    )
    for group in told.groups or {"load": ""}:
        numbers = _times(result, f"{group}.response")
        rate, success = _value(result, f"{group}.throughput"), _value(result, f"{group}.success_rate")
        head = [f"{rate:.4g}/s"] if rate is not None else []
        head += [f"{100 * success:.4g} % ok"] if success is not None else []
        out.print(f"  {group}: {', '.join([*head, *numbers])}")
        if success not in (None, 1.0) and (times := _times(result, f"{group}.ok_response")):
            out.print(f"  {group}, ok only: {', '.join(times)}")
    for check in result.verdict.checks:
        if check.measured and check.check in ("imported-little", "imported-instrument", "warm-up"):
            out.print(
                Text(
                    f"  {GRADE_MARK[check.grade]} {check.sentence}",
                    style="dim" if check.grade == "VALID" else "",
                )
            )


def _times(result: TrialResult, metric: str) -> list[str]:
    """Return the shown statistics of a time, those that have a value."""
    values = {stat: _value(result, f"{metric}.{stat}") for stat in _SHOWN}
    return [f"{stat} {show_duration(value)}" for stat, value in values.items() if value is not None]


def _value(result: TrialResult, name: str) -> float | None:
    estimate: Estimate | None = result.metrics.get(name)
    return estimate.value if estimate is not None else None


def show_tables(results: Sequence[Mapping[str, Any]]) -> None:
    """Print every finding with its place, by its check's name; then the checks without findings, and what was
    not measured."""
    out = console()
    for result in results:
        for finding in result["findings"]:
            out.print(Text(result["check"], style="bold"), Text(f"({finding['place']})", style="dim"))
            out.print(f"  {finding['sentence']}")
            out.print(Text(f"  svload: {finding['instead']}", style="dim"))
    quiet = [result["check"] for result in results if result["measured"] and not result["findings"]]
    if quiet:
        out.print(f"{count_words(len(quiet), 'check')} found nothing: {', '.join(quiet)}.")
    if lacking := sum(not result["measured"] for result in results):
        out.print(
            Text(
                f"{count_words(lacking, 'more check')} had no column to read (--json names them).",
                style="dim",
            )
        )
