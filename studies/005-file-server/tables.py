"""The paper's summary table beside ours, line by line, of one run or of several.

    python studies/005-file-server/tables.py RUN... [--report]

With --report the last run's report and workbook show it, too.

N* stands as the run found it, three ways, with "not bracketed" where the levels that were run do not hold it. The paper's bottleneck
stands beside what was full first here, with the most of it that was in use; a direction is told only where both are known.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from svload import api
from svload.api import OwnTable
from svload.model.load_curve import LoadCurve, LoadLimit
from svload.model.results import Findings

REFERENCE = Path(__file__).parent / "reference"
HEAD = (
    "load",
    "size",
    "N* (laws)",
    "N_break",
    "N_peak",
    "paper's N*",
    "N*",
    "most /s",
    "paper's",
    "full first",
    "paper's",
    "limit",
)
KINDS = {"file-server-new": "new", "file-server-different": "get-different", "file-server": "get-same"}
TITLE = "The paper's summary, ours beside it"
NOTE = (
    "N* stands as the run found it. The paper's bottleneck stands beside what was full first here, with the most of it that was in use; "
    "a direction is told only where both are known."
)
NEAR = 2.0
"""Two saturation numbers agree within this factor: the levels that were run lie that far apart."""


def rows(run: Findings) -> list[tuple[str, ...]]:
    """A line for each curve over users."""
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
        lines.append((
            load, size or "–", *(limit(limits.get(name)) for name in ("N*", "N_break", "N_peak")), n_star or "–",
            near(limits.get("N*"), n_star), most(curve), rate(theirs.get("max_throughput_per_s", "")),
            first_full(curve), theirs.get("bottleneck", "–"), same_limit(curve, theirs.get("bottleneck", "")),
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
    return f"{max(point.throughput_rps for point in curve.points):.3g}" if curve.points else "–"


def rate(text: str) -> str:
    """The paper's throughput."""
    return f"{float(text):.3g}" if text else "–"


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


def read(file: str) -> list[dict[str, str]]:
    """A table of the paper."""
    with (REFERENCE / file).open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def table(runs: Sequence[Findings]) -> OwnTable:
    """All lines of these runs."""
    return OwnTable(title=TITLE, note=NOTE, head=HEAD, rows=tuple(line for run in runs for line in rows(run)))


def main(words: Sequence[str]) -> int:
    """Print one table of these runs; with --report put it into the last one's report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args(words)
    runs = [api.find_run(name) for name in asked.runs]
    found = table([api.read_findings(run) for run in runs])
    print(found.markdown())
    if asked.report:
        api.put_tables(runs[-1], [found], "studies/005-file-server/tables.py")
        api.report(runs[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
