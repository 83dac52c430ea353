"""What commands print at their end: tables that fit 80 columns and sentences that can be read aloud."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from svload.model.results import CaseResult, Estimate, Findings, TrialResult
from svload.model.units import show_duration, show_size
from svload.report.live import GRADE_STYLE

_SERVER_STYLE = {"STEADY": "green", "SATURATED": "yellow", "OVERLOADED": "red"}
_WIDTH = 100


def console() -> Console:
    """stdout; without a terminal 100 columns and no colour."""
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", _WIDTH))
    return Console(highlight=False, width=width, soft_wrap=False)


def show_findings(findings: Findings, files: Mapping[str, Path]) -> None:
    """The case table, the claims, the findings' sentences and the paths."""
    out = console()
    if findings.question:
        out.print(Text(findings.question, style="italic"))
    out.print(case_table(findings))
    for claim in findings.claims:
        out.print(Text("• " + claim.sentence))
    claimed = {claim.sentence for claim in findings.claims}
    for finding in findings.findings:
        if finding.sentence not in claimed:
            out.print(Text("• " + finding.sentence))
    for threshold in findings.thresholds:
        if threshold.outcome != "passed":
            out.print(Text("✗ " + threshold.sentence, style="red"))
    if not findings.complete:
        out.print(
            Text(
                f"incomplete: {findings.sealed_trials} of {findings.planned_trials} trials are sealed",
                style="yellow",
            )
        )
    for name, path in files.items():
        out.print(f"{name:14} {_short(path)}", soft_wrap=True)


def case_table(findings: Findings) -> Table:
    """One row a case: levels, verdicts, the main group's median response with its interval, throughput and success."""
    group = main_group(findings)
    factors = list(dict.fromkeys(name for case in findings.cases for name in case.levels))
    table = Table(box=None, pad_edge=False, title=None, header_style="bold")
    for heading in ("case", *factors, "verdict", "server"):
        table.add_column(heading, overflow="fold")
    for heading in (f"{group} p50", "rate", "ok", "n"):
        table.add_column(heading, justify="right")
    for case in findings.cases:
        table.add_row(*_case_row(case, factors, group))
    return table


def _case_row(case: CaseResult, factors: Sequence[str], group: str) -> list[Text | str]:
    levels: list[Text | str] = [case.levels.get(factor, "") for factor in factors]
    if case.excluded is not None:
        return [case.case, *levels, Text("excluded", style="dim"), "", "", "", "", ""]
    grade = case.instrument or "no trial"
    throughput = case.metrics.get(f"{group}.throughput")
    success = case.metrics.get(f"{group}.success_rate")
    return [
        case.case,
        *levels,
        Text(grade, style=GRADE_STYLE.get(grade, "dim")),
        Text(case.server or "", style=_SERVER_STYLE.get(case.server or "", "dim")),
        show_estimate(case.metrics.get(f"{group}.response.p50")),
        f"{throughput.value:.4g}/s" if throughput and throughput.value is not None else "–",
        f"{success.value:.1%}" if success and success.value is not None else "–",
        f"{len(case.trials) - len(case.refused)}/{len(case.trials)}",
    ]


def main_group(findings: Findings) -> str:
    """The group that every case has and that claims are about: the first claim's, else one named in every case."""
    for claim in findings.claims:
        head = claim.metric.split(".", 1)[0]
        if any(name.startswith(f"{head}.response") for case in findings.cases for name in case.metrics):
            return head
    counts: dict[str, int] = {}
    for case in findings.cases:
        for name in case.metrics:
            if name.endswith(".response.p50"):
                counts[name.split(".", 1)[0]] = counts.get(name.split(".", 1)[0], 0) + 1
    return max(counts, key=lambda name: counts[name], default="load")


def show_estimate(estimate: Estimate | None) -> str:
    """A time with its interval: `2.1 ms [2.0, 2.3]`; a dash where there is no number."""
    if estimate is None or estimate.value is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return show_duration(estimate.value)
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if estimate.value >= factor:
            low, high = estimate.low / factor, estimate.high / factor
            return f"{estimate.value / factor:.3g} {unit} [{low:.3g}, {high:.3g}]"
    return show_duration(estimate.value)


def show_plan(planned: Mapping[str, Any]) -> None:
    """What would be run, how long it takes and what each comparison could decide."""
    out = console()
    if planned["question"]:
        out.print(Text(str(planned["question"]), style="italic"))
    factors = list(dict.fromkeys(name for case in planned["cases"] for name in case["levels"]))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("case", *factors, "is run"):
        table.add_column(heading, overflow="fold")
    for case in planned["cases"]:
        note = "yes" if case["excluded"] is None else Text(f"no: {case['excluded']}", style="dim")
        table.add_row(case["name"], *(case["levels"].get(factor, "") for factor in factors), note)
    out.print(table)
    out.print(
        f"{planned['trials']} trials, about {show_duration(planned['estimated_s'])}, "
        f"about {show_size(planned['estimated_bytes'])} on disk, {planned['restarts']} restarts, seed {planned['seed']}"
    )
    for entry in planned["comparisons"]:
        out.print(
            Text("• " + str(entry["sentence"]), style="yellow" if entry["state"] == "undecidable" else "")
        )
    for need in planned["trusted_needed"]:
        out.print(Text(f"needs --trust: {need}", style="magenta"))


def show_why(result: TrialResult) -> None:
    """A trial's verdicts and every check, in sentences."""
    out = console()
    out.print(Text.assemble(f"{result.trial} (case {result.case}): instrument ", (result.verdict.instrument, GRADE_STYLE[result.verdict.instrument]), f", server {result.verdict.server}"))  # fmt: skip
    for check in result.verdict.checks:
        mark = {"VALID": "✓", "WEAK": "~", "REFUSED": "✗"}[check.grade]
        out.print(
            Text(
                f"{mark} {check.check}: {check.sentence}",
                style="" if check.grade == "VALID" else GRADE_STYLE[check.grade],
            )
        )
        if check.remedy and check.grade != "VALID":
            out.print(Text(f"  what would mend it: {check.remedy}", style="dim"))


def show_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A query's answer as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(
            *("" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row)
        )
    console().print(table)


def show_comparison(rows: Sequence[Mapping[str, Any]]) -> None:
    """Two runs, case by case."""
    out = console()
    if not rows:
        out.print("the two runs have no case in common")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("case", "metric", "ratio", "95 % interval", ""):
        table.add_column(heading, overflow="fold")
    for row in rows:
        ratio, low, high = row.get("ratio"), row.get("low"), row.get("high")
        interval = f"{low:.3g} … {high:.3g}" if low is not None and high is not None else "–"
        table.add_row(
            str(row["case"]),
            str(row["metric"]),
            f"{ratio:.3g}" if ratio is not None else "–",
            interval,
            str(row.get("note", "")),
        )
    out.print(table)


def show_probe(rows: Sequence[Mapping[str, Any]]) -> None:
    """curl's variables: of one transfer as a list, of several as medians."""
    out = console()
    if len(rows) == 1:
        for name, value in rows[0].items():
            out.print(f"{name:20} {value:.6f}" if isinstance(value, float) else f"{name:20} {value}")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("variable", "min", "median", "max"):
        table.add_column(heading, justify="left" if heading == "variable" else "right")
    for name in rows[0]:
        values = sorted(row[name] for row in rows)
        if isinstance(values[0], (int, float)):
            table.add_row(
                name, *(f"{value:.6g}" for value in (values[0], values[(len(values) - 1) // 2], values[-1]))
            )
    out.print(table)
    failed = sum(1 for row in rows if row["error"])
    out.print(f"{len(rows)} transfers, {failed} failed")


def show_load(summary: Mapping[str, Any]) -> None:
    """The quick command's summary."""
    out = console()
    grade = summary["instrument"]["grade"]
    out.print(
        Text.assemble(
            f"{summary['requests']} requests in {show_duration(summary['duration_s'])}: {summary['throughput_rps'] or 0:.6g}/s, ",
            (f"{summary['failed']} failed", "red" if summary["failed"] else "green"),
            f", {summary['in_flight']} in flight at the end, {summary['dropped']} dropped",
        )
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("ms", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"):
        table.add_column(heading, justify="left" if heading == "ms" else "right")
    for name, label in (
        ("response_ms", "response (from the intended start)"),
        ("service_ms", "service (from the first byte sent)"),
    ):
        table.add_row(label, *("–" if value is None else f"{value:.3f}" for value in summary[name].values()))
    out.print(table)
    for kind, count in summary["errors"].items():
        out.print(Text(f"{count} × {kind}", style="red"))
    reasons = "; ".join(summary["instrument"]["reasons"])
    out.print(
        Text.assemble(
            "instrument ",
            (grade, GRADE_STYLE.get(grade, "")),
            f", server {summary['server']['state']}" + (f": {reasons}" if reasons else ""),
        )
    )
    out.print(f"longest silence {summary['longest_silence_ms']:.1f} ms")


def show_doctor(found: Mapping[str, Any]) -> None:
    """The machine's facts, then what is missing."""
    out = console()
    for name, value in found["machine"].items():
        out.print(f"{name:24} {value}")
    for problem in found["problems"]:
        out.print(Text(problem, style="red"))
    if not found["problems"]:
        out.print(Text("nothing is missing", style="green"))


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
