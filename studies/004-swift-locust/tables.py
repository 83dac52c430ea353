"""The paper's summary with ours beside it, level by level, and what the paper does not print.

python studies/004-swift-locust/tables.py RUN [--report]

With --report the run's report and workbook show them, too. The paper's numbers stand in seconds, which is what its script measured; ours
leave the ramp out.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from svload import api
from svload.api import OwnTable
from svload.model.results import Estimate, Findings

HERE = Path(__file__).parent
STATISTICS = ("mean", "std", "min", "p25", "p50", "p75", "max")
"""What the paper prints of its times."""
TAIL = ("p90", "p95", "p99")
MEAN, MEDIAN, THROUGHPUT = "users.response.mean", "users.response.p50", "users.throughput"
MOST_OUTLIERS = 15


def tables(run: str, found: Findings) -> Iterator[OwnTable]:
    """All of them, of a run that kept its downloads as rows."""
    yield beside(run)
    yield directions(found)
    yield asked(
        run, "ramp", "What the ramp does to the statistics",
        "The whole run, as the paper takes it, beside what is left without the ramp.",
    )  # fmt: skip
    yield asked(
        run, "sent", "What was sent",
        "The paper's text says a random object and a pause of 1 to 2 s; its script asks for all objects in order (in_order 1) and does not pause.",
    )  # fmt: skip
    yield asked(
        run, "outliers", "Outliers, and what the servers did then",
        "Downloads beyond Tukey's upper fence of their level, the slowest first.", MOST_OUTLIERS,
    )  # fmt: skip
    yield threats(found)


def read(file: str) -> list[dict[str, str]]:
    """A table of `reference/`."""
    with (HERE / "reference" / file).open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def rows_of(run: str, query: str) -> list[dict[str, Any]]:
    """What a query of `queries/` answers."""
    names, rows = api.query(run, (HERE / "queries" / f"{query}.sql").read_text(encoding="utf-8"))
    return [dict(zip(names, row, strict=True)) for row in rows]


def beside(run: str) -> OwnTable:
    """Each level's statistics: the paper's, then ours."""
    ours = {row["users"].removeprefix("vus-"): row for row in rows_of(run, "summary")}
    rows = []
    for paper in read("summary.csv"):
        users = paper["users"]
        rows.append(
            (users, "paper", "–", *(paper[f"{name}_s"] for name in STATISTICS), *("–" for _ in TAIL), "–")
        )
        mine = ours.get(users)
        if mine is not None:
            times = (cell(mine[f"{name}_s"]) for name in (*STATISTICS, *TAIL))
            rows.append((users, "ours", cell(mine["n"]), *times, cell(mine["outliers"])))
    return OwnTable(
        title="The paper's summary, ours beside it",
        note="Seconds (the paper calls its own milliseconds). Ours are ok downloads that were due once all users were there; outliers lie "
        "beyond Tukey's upper fence.",
        head=("users", "whose", "n", *STATISTICS, *TAIL, "outliers"),
        rows=tuple(rows),
    )


def directions(found: Findings) -> OwnTable:
    """Each level over the one of ten users: does ours go where the paper's goes?"""
    cases = {case.levels.get("users", "").removeprefix("vus-"): case.metrics for case in found.cases}
    paper = read("summary.csv")
    first = paper[0]
    rows = []
    for line in paper[1:]:
        users = line["users"]
        for name, key, theirs in (
            ("mean", MEAN, float(line["mean_s"]) / float(first["mean_s"])),
            ("median", MEDIAN, float(line["p50_s"]) / float(first["p50_s"])),
            ("downloads/s", THROUGHPUT, served(line) / served(first)),
        ):
            few, many = (cases.get(at, {}).get(key) for at in (first["users"], users))
            told = api.direction(few, many, theirs)
            rows.append((f"{name}, {users} over {first['users']}", ratio(few, many), f"{theirs:.3g}", told))
    return OwnTable(
        title="More users: which way it goes",
        note="The paper's downloads a second follow from its mean: users on average, its ramp of one a second in it, over the mean. They are flat, "
        "since its users do not wait between downloads and fill the server at ten; ours wait as its text says. “Not told apart”: our "
        "intervals overlap.",
        head=("figure", "ours", "paper's", "direction"),
        rows=tuple(rows),
    )


def served(line: dict[str, str]) -> float:
    """Downloads a second that the paper's mean stands for."""
    users, time_s = float(line["users"]), float(line["run_time_s"])
    return users * (1 - users / 2 / time_s) / float(line["mean_s"])


def ratio(first: Estimate | None, second: Estimate | None) -> str:
    """Of two numbers that there are."""
    if first is None or second is None or not first.value or second.value is None:
        return "–"
    return f"{second.value / first.value:.3g}"


def asked(run: str, query: str, title: str, note: str, most: int | None = None) -> OwnTable:
    """A query's answer as it is."""
    found = rows_of(run, query)[:most]
    head = tuple(found[0]) if found else ("none",)
    return OwnTable(
        title=title, note=note, head=head, rows=tuple(tuple(map(cell, row.values())) for row in found)
    )


def threats(found: Findings) -> OwnTable:
    """The threats to validity that the paper names: what looks for each, and what it said of this run's trials."""
    grades: dict[str, Counter[str]] = {}
    for trial in found.trials:
        for check in trial.verdict.checks:
            grades.setdefault(check.check, Counter())[check.grade if check.measured else "not measured"] += 1
    rows = []
    for line in read("threats.csv"):
        said = []
        for name in line["checks"].split():
            counts = (
                ", ".join(f"{count} {grade}" for grade, count in sorted(grades[name].items()))
                if name in grades
                else "not in this run"
            )
            said.append(f"{name}: {counts}")
        rows.append(
            (line["threat"], line["checked_by"] or "–", "; ".join(said) or "–", line["not_checkable"] or "–")
        )
    return OwnTable(
        title="The paper's threats to validity",
        note="Trials by what each check said of them.",
        head=("threat", "checked by", "in this run", "not checkable here"),
        rows=tuple(rows),
    )


def cell(value: Any) -> str:
    """Numbers in three digits."""
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main(words: Sequence[str]) -> int:
    """Print the tables of a run; with --report put them into its report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--report", action="store_true")
    words_read = parser.parse_args(words)
    run = api.find_run(words_read.run)
    found = list(tables(words_read.run, api.read_findings(run)))
    print("\n".join(table.markdown() for table in found))
    if words_read.report:
        api.put_tables(run, found, "studies/004-swift-locust/tables.py")
        api.report(run)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
