"""The paper's summary table beside ours, line by line, of one run or of several.

    python studies/005-file-server/tables.py RUN... [--report]

With --report the last run's report and workbook show it, too, and the call graph's table (callgraph.py) where the run has stacks.

N* stands as the run found it, three ways, with "not bracketed" where the levels that were run do not hold it. The paper's bottleneck
stands beside what was full first here, with the most of it that was in use; a direction is told only where both are known.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from svload import api
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import kept_window
from svload.api import OwnTable
from svload.model.load_curve import LoadCurve, LoadLimit, LoadPoint
from svload.model.results import CaseResult, Claim, Findings
from svload.model.study import Lock
from svload.model.units import show_duration, show_size
from svload.report.page.overall import at_limit
from svload.store import RunDir, read_trial

REFERENCE = Path(__file__).parent / "reference"
HEAD = (
    "load|size|N* (laws)|N_break|N_peak|paper's N*|N*|most /s|paper's|response at N*|paper's|full first|paper's|"
    "limit|distinct files|a file comes again after"
)
"""The names of the columns, separated by `|`."""
KINDS = {"file-server-new": "new", "file-server-different": "get-different", "file-server": "get-same"}
TITLE = "The paper's summary, ours beside it"
NOTE = (
    "N* stands as the run found it; our response is that of the first level at or above it, the paper's that at its most throughput. The "
    "paper's bottleneck stands beside what was full first here, with the most of it that was in use; a direction is told only where both "
    "are known. Distinct files are those that the most users asked for; a file comes again after as many bytes as all files that are "
    "asked for have: users who walk meet each other's files by then, and who draws draws it again by then on average."
)
FORKS = "Processes started and connections refused, at N* and at half of it"
FORKS_NOTE = (
    "The paper's authentication server starts a process for each connection, its file server a thread, and its errors of database connections "
    "grew with the users. What was started is the whole machine's; what was refused is what the servers' monitors count."
)
GAINS = "What each change gained"
GAINS_NOTE = (
    "Throughput of each level over that of the first of its factor, by pairs of trials of one block. The interval holds for all rows together; "
    "what is open may go either way within it."
)
NEAR = 2.0
"""Two saturation numbers agree within this factor: the levels that were run lie that far apart."""


def rows(run: Findings, lock: Lock | None = None) -> list[tuple[str, ...]]:
    """A line for each curve over users. `lock`: what its levels stand for."""
    paper = {(row["load_type"], row["file_size"]): row for row in read("summary.csv")}
    lines = []
    for curve in run.curves:
        if curve.kind != "users":
            continue
        kind, size = KINDS.get(run.study, run.study), curve.when.get("size", "")
        theirs = paper.get((kind, size), {})
        limits = {limit.name: limit for limit in curve.limits}
        load = " ".join([kind, *(level for factor, level in curve.when.items() if factor != "size")])
        n_star = theirs.get("n_star", "")
        fields = {} if lock is None else fields_of(lock, curve.when)
        lines.append((
            load, size or "–", *(limit(limits.get(name)) for name in ("N*", "N_break", "N_peak")), n_star or "–",
            near(limits.get("N*"), n_star), most(curve), rate(theirs.get("max_throughput_per_s", "")),
            response(curve, limits.get("N*")), time(theirs.get("mean_response_s_at_n_star", "")),
            first_full(curve), theirs.get("bottleneck", "–"), same_limit(curve, theirs.get("bottleneck", "")),
            distinct(run, curve, fields), again(curve, fields),
        ))  # fmt: skip
    return lines


def limit(found: LoadLimit | None) -> str:
    """A saturation number, or why it is none."""
    if found is None or found.value is None:
        return "none"
    return f"{found.value:.3g}" + ("" if found.state == "bracketed" else " (not bracketed)")


def near(found: LoadLimit | None, theirs: str) -> str:
    """Do both name the same load? A number that is not bracketed on either side says nothing."""
    if not theirs:
        return "not in the paper"
    if theirs == "1":
        return "paper's not bracketed"
    if found is None or found.value is None or found.state != "bracketed":
        return "ours not bracketed"
    ratio = found.value / float(theirs)
    return "agrees" if 1 / NEAR <= ratio <= NEAR else "differs"


def most(curve: LoadCurve) -> str:
    """The largest throughput of a level."""
    return count(max(point.throughput_rps for point in curve.points)) if curve.points else "–"


def rate(text: str) -> str:
    """The paper's throughput."""
    return count(float(text)) if text else "–"


def count(per_second: float) -> str:
    """Three digits below a thousand, all of them above."""
    return f"{per_second:,.0f}" if per_second >= 1000 else f"{per_second:.3g}"


def response(curve: LoadCurve, n_star: LoadLimit | None) -> str:
    """Mean response at the first level at or above N*."""
    if n_star is None or n_star.value is None:
        return "no N*"
    above = [point for point in curve.points if point.at >= n_star.value]
    if not above:
        return "no level at N*"
    first = min(above, key=lambda point: point.at)
    return f"{show_duration(first.response_s)} at {first.level}"


def time(text: str) -> str:
    """The paper's response."""
    return show_duration(float(text)) if text else "–"


def first_full(curve: LoadCurve) -> str:
    """What the laws find full first, and how full it was at most."""
    for found in curve.demands:
        if found.bottleneck:
            return f"{found.resource}, {found.most_used / found.capacity:.0%}"
    return "unidentified"


def same_limit(curve: LoadCurve, theirs: str) -> str:
    """Does the resource that is full first bear the paper's name?"""
    if not theirs:
        return "not in the paper"
    full = [found for found in curve.demands if found.bottleneck]
    if not full:
        return "ours unidentified"
    return "agrees" if theirs.split()[0].lower() in full[0].resource.lower() else "differs"


def fields_of(lock: Lock, when: Mapping[str, str]) -> dict[str, Any]:
    """What the levels beside the users stand for: a file's `bytes`, the `last` file's number, how one is taken (`take`)."""
    levels = (
        level for factor in lock.factors for level in factor.levels if when.get(factor.name) == level.name
    )
    return {name: value for level in levels for name, value in level.fields.items()}


def files_of(fields: Mapping[str, Any]) -> int:
    """How many files there are; those of one name for all are one."""
    return int(fields.get("last", 0)) + 1


def distinct(run: Findings, curve: LoadCurve, fields: Mapping[str, Any]) -> str:
    """How many files the most users asked for, of how many."""
    if "bytes" not in fields:
        return "–"
    if "last" not in fields:
        return "1 of 1"
    point = max(curve.points, key=lambda one: one.at, default=None)
    metrics = next((case.metrics for case in run.cases if point is not None and case.case == point.case), {})
    found = metrics.get("number.distinct")
    asked = "not told" if found is None or found.value is None else f"{found.value:,.0f}"
    return f"{asked} of {files_of(fields):,}"


def again(curve: LoadCurve, fields: Mapping[str, Any]) -> str:
    """Bytes of all files that are asked for: users who get one file each ask for as many as they are."""
    if "bytes" not in fields:
        return "–"
    files = files_of(fields)
    if fields.get("take") == "vu":
        files = min(files, round(max((point.at for point in curve.points), default=1)))
    return show_size(files * int(fields["bytes"]))


def gains_table(findings: Findings) -> OwnTable | None:
    """Throughput of each level over that of its factor's first; None where the run compares none."""
    cases = {case.case: case for case in findings.cases}
    lines = [
        (f"{claim.treatment} against {claim.baseline}", held_equal(claim, cases), times(claim.ratio.value),
         f"{times(claim.ratio.low)} to {times(claim.ratio.high)}", claim.outcome, str(claim.blocks))
        for claim in findings.claims
        if claim.metric == "clients.throughput"
    ]  # fmt: skip
    head = ("what", "cases", "ratio of throughput", "95 % interval", "outcome", "blocks")
    return OwnTable(title=GAINS, note=GAINS_NOTE, head=head, rows=tuple(lines)) if lines else None


def held_equal(claim: Claim, cases: Mapping[str, CaseResult]) -> str:
    """The levels that its cases have beside the compared factor."""
    held = {
        " ".join(level for factor, level in cases[base].levels.items() if factor != claim.factor)
        for base, _ in claim.pairs
        if base in cases
    }
    return ", ".join(sorted(held - {""})) or "–"


def times(ratio: float | None) -> str:
    """A ratio as a factor."""
    return "–" if ratio is None else f"{ratio:.2f}"


def forks_table(run: RunDir, findings: Findings) -> OwnTable | None:
    """Processes and threads started, and what was turned away, at N* and at half of it; None where no curve is over users."""
    evidence = {case.case: case.evidence for case in findings.cases if case.excluded is None}
    lines: list[tuple[str, ...]] = []
    for curve in findings.curves:
        if curve.kind != "users":
            continue
        name = " ".join(curve.when.values()) or "–"
        found = at_limit(curve, evidence)
        if isinstance(found, str):
            lines.append((name, f"not told: {found}", "–", "–"))
            continue
        both = (found.half, found.at)
        lines.append((name, "users", *(point.level for point in both)))
        lines.append(
            (
                name,
                "started a request",
                *(a_request(fork_rate(run, findings, point.case), point) for point in both),
            )
        )
        lines += [
            (name, f"{one.what}, a trial", f"{one.half:,.3g}", f"{one.at:,.3g}")
            for one in found.turned
            if one.own
        ]
    return (
        OwnTable(title=FORKS, note=FORKS_NOTE, head=("curve", "what", "half of N*", "N*"), rows=tuple(lines))
        if lines
        else None
    )


def fork_rate(run: RunDir, findings: Findings, case: str) -> float | None:
    """Processes and threads that the machine started a second, mean over a case's trials; None where nobody read it."""
    rates = []
    for result in findings.trials:
        if result.case == case:
            trial = read_trial(run.trial(result.trial))
            series = of_monitor(trial.monitors, "host", "forks_total").get("")
            found = None if series is None else mean_rate(series, kept_window(trial.summary, result.cut_ns))
            rates += [] if found is None else [found]
    return sum(rates) / len(rates) if rates else None


def a_request(per_second: float | None, point: LoadPoint) -> str:
    """So many a request."""
    return "not read" if per_second is None else f"{per_second / point.throughput_rps:.3g}"


def read(file: str) -> list[dict[str, str]]:
    """A table of the paper."""
    with (REFERENCE / file).open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def table(runs: Sequence[Findings], locks: Sequence[Lock | None] = ()) -> OwnTable:
    """All lines of these runs."""
    known = locks or [None] * len(runs)
    found = (line for run, lock in zip(runs, known, strict=True) for line in rows(run, lock))
    return OwnTable(title=TITLE, note=NOTE, head=tuple(HEAD.split("|")), rows=tuple(found))


def callgraph() -> ModuleType:
    """callgraph.py beside this file."""
    found = importlib.util.spec_from_file_location(
        "file_server_callgraph", Path(__file__).with_name("callgraph.py")
    )
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def main(words: Sequence[str]) -> int:
    """Print one table of these runs; with --report put it into the last one's report, and the call graph's beside it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args(words)
    runs = [api.find_run(name) for name in asked.runs]
    found = table([api.read_findings(run) for run in runs], [run.lock() for run in runs])
    if found.rows:
        print(found.markdown())
    forks = forks_table(runs[-1], api.read_findings(runs[-1]))
    if forks is not None:
        print(forks.markdown())
    gains = gains_table(api.read_findings(runs[-1]))
    if gains is not None:
        print(gains.markdown())
    if asked.report:
        graph = callgraph()
        sampled = graph.table(runs)
        made = [one for one in (found if found.rows else None, gains, forks, sampled) if one is not None]
        graph.put_beside(runs[-1], made, "studies/005-file-server/tables.py")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
