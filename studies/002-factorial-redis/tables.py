"""The paper's two tables with ours beside them, cell by cell, and all cells predicted from two measured demands.

python studies/002-factorial-redis/tables.py RUN [--report]

With --report the run's report and workbook show them, too.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from svload import api
from svload.analysis.laws.mva import Station, mean_values
from svload.api import OwnTable
from svload.model.results import CaseResult, Estimate

REFERENCE = Path(__file__).parent / "reference"
USERS = 50
LETTERS = {"factorial": "F", "calculationsStored": "S"}
THROUGHPUT, RESPONSE = "users.throughput", "users.response.mean"
WEB, STORE = "web.cpu.mean", "store.cpu.mean"
Cases = Mapping[str, CaseResult]


@dataclass(frozen=True)
class Cell:
    """A cell of the paper's tables, and its name in the study."""

    name: str
    scenario: str
    cpus: str
    delay_ms: int
    throughput_rps: float
    response_s: float

    def at(self, cpus: str | None = None, delay_ms: int | None = None) -> str:
        """The name of the cell with another limit or delay."""
        delay = self.delay_ms if delay_ms is None else delay_ms
        return f"{LETTERS[self.scenario]}-{cpus or self.cpus}-{delay}"


def cells() -> list[Cell]:
    """As the paper prints them."""
    with (REFERENCE / "factorial.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Cell(
            f"{LETTERS[row['scenario']]}-{row['cpus']}-{row['delay_ms']}",
            row["scenario"],
            row["cpus"],
            int(row["delay_ms"]),
            float(row["throughput_per_s"]),
            float(row["mean_elapsed_ms"]) / 1000,
        )
        for row in rows
    ]


def tables(ours: Cases) -> Iterator[OwnTable]:
    """All of them."""
    yield beside(ours)
    yield directions(ours, "cpus", THROUGHPUT)
    yield directions(ours, "think", RESPONSE)
    yield predictions(ours)


def beside(ours: Cases) -> OwnTable:
    """Throughput and mean response of each cell, and N = X·(R + Z) of both."""
    rows = []
    for cell in cells():
        x, r = (found(ours, cell.name, key) for key in (THROUGHPUT, RESPONSE))
        law = "–" if x is None or r is None else f"{x.value * (r.value + cell.delay_ms / 1000):.1f}"
        theirs = cell.throughput_rps * (cell.response_s + cell.delay_ms / 1000)
        rows.append((
            cell.name, rate(x), f"{cell.throughput_rps:g}/s", seconds(r), f"{cell.response_s:.3g} s", law, f"{theirs:.1f}",
        ))  # fmt: skip
    head = ("cell", "throughput", "paper's", "mean response", "paper's", "X·(R + Z)", "paper's")
    return table("Cell by cell", f"{USERS} users: X·(R + Z) can be no more.", head, rows)


def directions(ours: Cases, factor: str, key: str) -> OwnTable:
    """Each cell over the one without limit or without delay: does ours go where the paper's goes?"""
    by_name = {cell.name: cell for cell in cells()}
    rows = []
    for cell in by_name.values():
        base = by_name[cell.at(cpus="1.0") if factor == "cpus" else cell.at(delay_ms=0)]
        if base == cell:
            continue
        theirs = (
            cell.throughput_rps / base.throughput_rps
            if key == THROUGHPUT
            else cell.response_s / base.response_s
        )
        first, second = found(ours, base.name, key), found(ours, cell.name, key)
        mine = "–" if first is None or second is None else f"{second.value / first.value:.3g}"
        rows.append(
            (f"{cell.name} over {base.name}", mine, f"{theirs:.3g}", api.direction(first, second, theirs))
        )
    what = "throughput" if key == THROUGHPUT else "mean response"
    note = "“Not told apart”: the intervals of our two cells overlap, so ours goes nowhere."
    title = f"What {'the limit' if factor == 'cpus' else 'think time'} does to {what}"
    return table(title, note, ("cells", "ours", "paper's", "direction"), rows)


def predictions(ours: Cases) -> OwnTable:
    """Every cell's throughput from what one request of each page asks of web server and Redis, by exact mean value analysis.

    The demands are measured in the cells without limit and without think time alone.
    """
    rows = []
    for scenario, letter in LETTERS.items():
        measured = f"{letter}-1.0-0"
        x, web, store = (found(ours, measured, key) for key in (THROUGHPUT, WEB, STORE))
        if x is None or web is None or store is None:
            continue
        web_s, store_s = web.value / x.value, store.value / x.value
        for cell in (one for one in cells() if one.scenario == scenario):
            stations = [Station(web_s / float(cell.cpus)), Station(store_s)]
            told = float(mean_values(stations, cell.delay_ms / 1000, USERS).throughput_rps[-1])
            seen = found(ours, cell.name, THROUGHPUT)
            error = "–" if seen is None else f"{told / seen.value - 1:+.1%}"
            rows.append((cell.name, f"{told:.4g}/s", rate(seen), error))
    note = "From two demands, each measured in one cell (F-1.0-0, S-1.0-0): CPU time of web server and of Redis per request."
    return table(
        "All cells from two demands", note, ("cell", "predicted", "measured", "prediction off by"), rows
    )


def found(ours: Cases, case: str, key: str) -> Estimate | None:
    """A case's number; None: none that may be believed."""
    one = ours[case].metrics.get(key) if case in ours else None
    return None if one is None or one.value is None else one


def rate(one: Estimate | None) -> str:
    return shown(one, "{:.4g}", "/s")


def seconds(one: Estimate | None) -> str:
    return shown(one, "{:.3g}", " s")


def shown(one: Estimate | None, form: str, unit: str) -> str:
    """With its interval in brackets, where it has one."""
    if one is None:
        return "–"
    ends = (
        "" if one.low is None or one.high is None else f" ({form.format(one.low)} to {form.format(one.high)})"
    )
    return form.format(one.value) + unit + ends


def table(title: str, note: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> OwnTable:
    """A table as the report shows it."""
    return OwnTable(title=title, note=note, head=tuple(head), rows=tuple(map(tuple, rows)))


def main(words: Sequence[str]) -> int:
    """Print the tables of a run; with --report put them into its report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args(words)
    run = api.find_run(asked.run)
    found = list(tables({case.case: case for case in api.read_findings(run).cases}))
    print("\n".join(table.markdown() for table in found))
    if asked.report:
        api.put_tables(run, found, "studies/002-factorial-redis/tables.py")
        api.report(run)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
