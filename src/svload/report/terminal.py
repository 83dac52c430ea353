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

from svload.analysis.phases import LOAD, TOTAL, Outside, outside_load
from svload.model.certificates import AaCertificate
from svload.model.results import Findings, TrialResult
from svload.model.units import show_duration, show_size
from svload.report.answer import answer, headline
from svload.report.casetable import CaseTable, case_table
from svload.report.certificates import instrument_line, instrument_words, percent_of_log
from svload.report.live import GRADE_STYLE
from svload.report.words import GRADE_MARK, list_words, load_line, outcome, show_metric, visible

_STYLE = {**GRADE_STYLE, "no trial": "dim", "SATURATED": "yellow", "OVERLOADED": "red"}
_WIDTH = 100


def console() -> Console:
    """stdout; without a terminal 100 columns and no colour."""
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", _WIDTH))
    return Console(highlight=False, width=width, soft_wrap=False)


def show_findings(findings: Findings, files: Mapping[str, Path], out: Console | None = None) -> None:
    """The case table, what was found, the files; last one sentence with its interval, then the report's path. On stdout, or on `out`."""
    out = out or console()
    if findings.question:
        _say(out, findings.question, "italic")
    if load := load_line(findings):
        _say(out, load, "dim")
    _show_cases(out, case_table(findings, min(out.width, _WIDTH)))
    found, last = answer(findings), headline(findings)
    for planted in found.planted:
        _say(out, "! " + planted, "magenta")
    failed = {one.sentence for one in findings.thresholds if one.outcome == "failed"}
    for sentence in found.sentences:
        bad = sentence.text in failed
        _say(out, ("✗ " if bad else "• ") + sentence.text, "red" if bad else "")
    for sentence in found.unsaid:
        _say(out, "? " + sentence.text, "" if sentence.certainty == "usable" else "yellow")
        for reason in sentence.reasons:
            _say(out, "  – " + reason, "dim")
    if found.left_out:
        _say(out, f"{found.left_out} more sentences stand in findings.json", "dim")
    if (outside := outside_load(findings.phases_s)) is not None:
        _say(out, _outside_line(findings.phases_s, outside), "dim")
    _say(out, f"instrument certificate: {instrument_line(findings.instrument)}", "dim")
    for name, path in files.items():
        if name != "report.html":
            out.print(Text(f"{name:14} {_short(path)}", style="dim"), soft_wrap=True)
    _say(out, last, "bold")
    if "report.html" in files:
        out.print(Text(_short(files["report.html"])), soft_wrap=True)


def _outside_line(phases_s: Mapping[str, float], outside: Outside) -> str:
    """What was no load, and for what: the longest first."""
    parts = sorted(
        ((seconds, name) for name, seconds in phases_s.items() if name not in (LOAD, TOTAL)), reverse=True
    )
    told = ", ".join(f"{name} {show_duration(seconds)}" for seconds, name in parts if seconds >= 0.1)
    share = (
        f"{show_duration(outside.seconds)} of {show_duration(phases_s[TOTAL])} ({100 * outside.share:.0f} %)"
    )
    return f"Outside load: {share}" + (f": {told}." if told else ".")


def _say(out: Console, line: str, style: str = "") -> None:
    out.print(Text(visible(line), style=style), width=min(out.width, _WIDTH))


def _show_cases(out: Console, cases: CaseTable) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in cases.columns:
        table.add_column(Text(column.heading), justify="right" if column.right else "left", no_wrap=True)
    for cells in zip(*(column.cells for column in cases.columns), strict=True):
        table.add_row(*(Text(cell.text, style=_STYLE.get(cell.kind, "")) for cell in cells))
    out.print(table)
    for note in cases.notes:
        _say(out, note, "dim")


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
    outside = 1 - planned["estimated_load_s"] / planned["estimated_s"]
    out.print(
        f"{planned['trials']} trials, about {show_duration(planned['estimated_s'])}, {100 * outside:.0f} % of it outside load "
        f"({planned['estimated_from']}), about {show_size(planned['estimated_bytes'])} on disk, {planned['restarts']} restarts, seed {planned['seed']}"
    )
    if planned["replace_refused"]:
        _say(out, _again_line(planned))
    for group in planned["open_groups"]:
        _say(out, _places_line(group, planned["cases"]))
    for entry in planned["comparisons"]:
        out.print(
            Text("• " + str(entry["sentence"]), style="yellow" if entry["state"] == "undecidable" else "")
        )
    for need in planned["trusted_needed"]:
        out.print(Text(f"needs --trust: {need}", style="magenta"))


def _again_line(planned: Mapping[str, Any]) -> str:
    """What refused trials that are made once more add to the estimate."""
    each_s = planned["estimated_s"] / planned["trials"]
    often = "once" if planned["replace_refused"] == 1 else f"up to {planned['replace_refused']} times"
    return f"Not in it: each refused trial is made again {often} (replace_refused), about {show_duration(each_s)} each."


def _places_line(group: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> str:
    """`shoppers: at most 15,000 requests under way at once (rate × timeout)`, and in which cases where others differ."""
    everywhere = len(group["cases"]) == sum(case["excluded"] is None for case in cases)
    where = "" if everywhere else f" in {list_words(group['cases'])}"
    return f"{group['group']}: at most {group['max_vus']:,} requests under way at once{where} ({group['because']})"


_MEANS = {
    "VALID": "its numbers may be believed",
    "WEAK": "its numbers are usable, with the reasons marked ~",
    "REFUSED": "its numbers say more about the instrument than about the server; it enters no comparison",
}


def show_why(result: TrialResult) -> None:
    """A trial's verdicts and what they mean, every check in sentences, then its numbers, each null with its reason."""
    out = console()
    grade = result.verdict.instrument
    out.print(Text.assemble(visible(f"{result.trial} (case {result.case}): instrument "), (grade, GRADE_STYLE[grade]), f", server {result.verdict.server}: {_MEANS[grade]}"))  # fmt: skip
    for check in result.verdict.checks:
        style = "" if check.grade == "VALID" else GRADE_STYLE[check.grade]
        mark = GRADE_MARK[outcome(check)]
        out.print(Text(visible(f"{mark} {check.check}: {check.sentence}"), style=style))
        if check.remedy and check.grade != "VALID":
            out.print(Text(f"  what would mend it: {check.remedy}", style="dim"))
    _show_metrics(out, result)


_SHOWN = ("success_rate", "throughput", "response.p50", "response.p95", "response.p99", "response.p99.9")


def _show_metrics(out: Console, result: TrialResult) -> None:
    """Each traffic group's headline numbers, after the case's warm-up cut."""
    groups = [key.removesuffix(".success_rate") for key in result.metrics if key.endswith(".success_rate")]
    if not groups:
        return
    cut = f", its first {show_duration(result.cut_ns / 1e9)} left out as warm-up" if result.cut_ns else ""
    out.print(Text(f"measured{cut}; in brackets the 95 % interval within the trial:"))
    for group in groups:
        for name in _SHOWN:
            key = f"{group}.{name}"
            if key in result.metrics:
                text = f"  {visible(key)}: {show_metric(key, result.metrics[key])}"
                out.print(Text(text, style="" if result.metrics[key].value is not None else "dim"))


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


def show_comparison(rows: Sequence[Mapping[str, Any]], page: Path) -> None:
    """Two runs, case by case; last the page that shows them."""
    out = console()
    if not rows:
        out.print("the two runs have no case in common")
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
    if rows:
        out.print(table)
    out.print(Text(_short(page)), soft_wrap=True)


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


def show_doctor(found: Mapping[str, Any]) -> None:
    """The machine's facts, then what is missing."""
    out = console()
    for name, value in found["machine"].items():
        out.print(f"{name:24} {value}")
    for line in instrument_words(found["instrument"]):
        out.print(line)
    for problem in found["problems"]:
        out.print(Text(problem, style="red"))
    if not found["problems"]:
        out.print(Text("nothing is missing", style="green"))


def show_aa(certificate: AaCertificate | None, run: Path) -> None:
    """The floors of an A/A run, by load and metric, or that none were made."""
    out = console()
    if certificate is None:
        out.print(f"No certificate: too few pairs are left, or the run did not end. Its trials: {run}")
        return
    out.print(
        f"{certificate.pairs} pairs of {', '.join(certificate.cases)}"
        + (", restarted before each trial" if certificate.restarts else "")
        + "; the floor is the effect that 95 % of the pairs do not reach"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("metric", "floor", "sd of a pair"):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for floor in certificate.floors:
        if floor.metric.endswith((".p50", ".p95", ".p99", ".mean", ".throughput")):
            table.add_row(floor.metric, percent_of_log(floor.floor), percent_of_log(floor.sd))
    out.print(table)
    out.print(f"It holds for these settings on {certificate.place}. Its trials: {run}")


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
