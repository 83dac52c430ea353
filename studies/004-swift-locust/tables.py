"""The paper's summary with ours beside it, what its table says wrongly, and what it does not print.

python studies/004-swift-locust/tables.py RUN [--report]

With --report the run's report and workbook show them, too. The paper's numbers stand in seconds, which is
what its script measured; ours leave the ramp out. Of a run of mixed.yaml: each operation by size; of one of
consistency.yaml: stale reads, and how long a listing lags.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from svload import api
from svload.analysis.inference import t_interval
from svload.api import OwnTable
from svload.model.results import Estimate, Findings

HERE = Path(__file__).parent
STATISTICS = ("mean", "std", "min", "p25", "p50", "p75", "max")
"""What the paper prints of its times."""
TAIL = ("p90", "p95", "p99")
MEAN, MEDIAN, THROUGHPUT = "users.response.mean", "users.response.p50", "users.throughput"
MORE_OUTLIERS = ("100", "150")
"""Levels of which its text says that outliers grow; it prints no number of them."""
LEAST = 3
"""Replicates that an interval takes: of two it has one degree of freedom, and tells nothing apart."""


def tables(run: str, found: Findings) -> Iterator[OwnTable]:
    """All of them, of a run that kept its requests as rows."""
    match found.study:
        case "swift-mixed":
            yield operations(run, found)
        case "swift-consistency":
            yield consistency(run, found)
        case _:
            yield from of_downloads(run, found)


def of_downloads(run: str, found: Findings) -> Iterator[OwnTable]:
    """Of a run of the paper's study."""
    yield beside(run, found)
    yield directions(run, found)
    yield mistakes()
    yield asked(
        run,
        "ramp",
        "What the ramp does to the statistics",
        "The whole run, as the paper takes it, beside what is left without the ramp.",
    )
    yield asked(
        run,
        "sent",
        "What was sent",
        "The paper's text says a random object and a pause of 1 to 2 s; its script asks for all objects in "
        "order (in_order 1) and does not pause.",
    )
    yield asked(
        run,
        "outliers",
        "Outliers, and what the servers did then",
        "Of each level the five slowest downloads beyond its Tukey's upper fence.",
    )
    yield threats(found)


def read(file: str) -> list[dict[str, str]]:
    """A table of `reference/`."""
    with (HERE / "reference" / file).open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def rows_of(run: str, query: str) -> list[dict[str, Any]]:
    """What a query of `queries/` answers."""
    names, rows = api.query(run, (HERE / "queries" / f"{query}.sql").read_text(encoding="utf-8"))
    return [dict(zip(names, row, strict=True)) for row in rows]


def refused(found: Findings) -> str:
    """How many trials the instrument refused, as a sentence."""
    count = sum(trial.verdict.instrument == "REFUSED" for trial in found.trials)
    return f"{count} of {len(found.trials)} trials were refused."


def beside(run: str, found: Findings) -> OwnTable:
    """Each level's statistics: the paper's, then ours."""
    ours = {row["users"].removeprefix("vus-"): row for row in rows_of(run, "summary")}
    rows = []
    for paper in read("summary.csv"):
        users = paper["users"]
        theirs = (paper[f"{name}_s"] for name in STATISTICS)
        rows.append((users, "paper", "–", *theirs, *("–" for _ in TAIL), "–"))
        mine = ours.get(users)
        if mine is not None:
            times = (cell(mine[f"{name}_s"]) for name in (*STATISTICS, *TAIL))
            rows.append((users, "ours", cell(mine["n"]), *times, cell(mine["outliers"])))
    return OwnTable(
        title="The paper's summary, ours beside it",
        note="Seconds (the paper calls its own milliseconds). Ours are ok downloads that were due once all "
        f"users were there; outliers lie beyond Tukey's upper fence. {refused(found)} Their downloads are in "
        "this table; no direction rests on them.",
        head=("users", "whose", "n", *STATISTICS, *TAIL, "outliers"),
        rows=tuple(rows),
    )


def directions(run: str, found: Findings) -> OwnTable:
    """Each level over the one of ten users: does ours go where the paper's goes?"""
    cases = {case.levels.get("users", "").removeprefix("vus-"): case.metrics for case in found.cases}
    spreads = spread(rows_of(run, "spread"))
    paper = read("summary.csv")
    first = paper[0]
    rows = []
    for line in paper[1:]:
        users = line["users"]
        for name, theirs, at in (
            ("mean", over(line, first, "mean_s"), MEAN),
            ("median", over(line, first, "p50_s"), MEDIAN),
            ("downloads/s", served(line) / served(first), THROUGHPUT),
            ("std", over(line, first, "std_s"), "std_s"),
            ("interquartile range", quartiles(line) / quartiles(first), "iqr_s"),
            ("share of outliers", math.inf, "beyond"),
        ):
            few, many = (
                with_interval(cases.get(level, {}).get(at) or spreads.get((level, at)))
                for level in (first["users"], users)
            )
            if at == "beyond" and users not in MORE_OUTLIERS:
                continue
            result = api.direction(few, many, theirs)
            printed = "grows (its text)" if math.isinf(theirs) else f"{theirs:.3g}"
            rows.append((f"{name}, {users} over {first['users']}", ratio(few, many), printed, result))
    return OwnTable(
        title="More users: which way it goes",
        note="The paper's downloads a second follow from its mean: users on average, its ramp of one a "
        "second in it, over the mean. They are flat, since its users do not wait in between and fill the "
        "server at ten; ours wait as its text says. Spread and outliers are taken of each trial by itself. "
        f"“Not distinguishable”: our intervals overlap. An interval takes {LEAST} replicates that were not "
        f"refused: two give none. {refused(found)}",
        head=("figure", "ours", "paper's", "direction"),
        rows=tuple(rows),
    )


def spread(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], Estimate]:
    """(users, what) → over the trials of `spread.sql`, on logarithms, with an interval if there is one."""
    found: dict[tuple[str, str], list[float | None]] = {}
    for row in rows:
        for what in ("std_s", "iqr_s", "beyond"):
            found.setdefault((row["users"].removeprefix("vus-"), what), []).append(row[what])
    return {key: geometric(values) for key, values in found.items()}


def geometric(values: Sequence[float | None]) -> Estimate:
    """The geometric mean with Student's t interval of the logarithms; none where one value is zero."""
    logs = [math.log(value) for value in values if value is not None and value > 0]
    if not logs or len(logs) < len(values):
        return Estimate(value=None, n=len(logs), reason="zero in a trial")
    interval = t_interval(logs) if len(logs) >= LEAST else None
    low, high = map(math.exp, interval) if interval else (None, None)
    return Estimate(value=math.exp(fmean(logs)), low=low, high=high, n=len(logs))


def with_interval(one: Estimate | None) -> Estimate | None:
    """The number, without an interval that rests on too few replicates."""
    few = one is not None and one.n < LEAST
    return one.model_copy(update={"low": None, "high": None}) if one is not None and few else one


def over(line: dict[str, str], first: dict[str, str], name: str) -> float:
    """How many times the paper's first number its other is."""
    return float(line[name]) / float(first[name])


def quartiles(line: dict[str, str]) -> float:
    """The paper's interquartile range (s)."""
    return float(line["p75_s"]) - float(line["p25_s"])


def served(line: dict[str, str]) -> float:
    """Downloads a second that the paper's mean stands for."""
    users, time_s = float(line["users"]), float(line["run_time_s"])
    return users * (1 - users / 2 / time_s) / float(line["mean_s"])


def ratio(first: Estimate | None, second: Estimate | None) -> str:
    """Of two numbers that there are."""
    if first is None or second is None or not first.value or second.value is None:
        return "–"
    return f"{second.value / first.value:.3g}"


def mistakes() -> OwnTable:
    """What the paper's table contradicts by itself, by the name of the check."""
    found = api.check_tables([str(HERE / "reference/results.csv")])
    return OwnTable(
        title="What the paper's table says wrongly",
        note="From the table and what its text says beside it, as `svload import` checks any table.",
        head=("check", "found", "here instead"),
        rows=tuple((one.check, reply.sentence, reply.instead) for one in found for reply in one.findings),
    )


def asked(run: str, query: str, title: str, note: str) -> OwnTable:
    """A query's answer as it is."""
    found = rows_of(run, query)
    head = tuple(found[0]) if found else ("none",)
    rows = tuple(tuple(map(cell, row.values())) for row in found)
    return OwnTable(title=title, note=note, head=head, rows=rows)


def threats(found: Findings) -> OwnTable:
    """The threats to validity that the paper names: what looks for each, and what it said of these trials."""
    grades: dict[str, Counter[str]] = {}
    for trial in found.trials:
        for check in trial.verdict.checks:
            grade = check.grade if check.measured else "not measured"
            grades.setdefault(check.check, Counter())[grade] += 1
    rows = []
    for line in read("threats.csv"):
        reply = [f"{name}: {_counts(grades.get(name))}" for name in line["checks"].split()]
        checked, cannot = line["checked_by"] or "–", line["not_checkable"] or "–"
        rows.append((line["threat"], checked.replace("`", ""), "; ".join(reply) or "–", cannot))
    return OwnTable(
        title="The paper's threats to validity",
        note="Trials by what each check said of them.",
        head=("threat", "checked by", "in this run", "not checkable here"),
        rows=tuple(rows),
    )


def _counts(grades: Counter[str] | None) -> str:
    if grades is None:
        return "not in this run"
    return ", ".join(f"{count} {grade}" for grade, count in sorted(grades.items()))


def operations(run: str, found: Findings) -> OwnTable:
    """Of mixed.yaml: each operation at each size."""
    return asked(
        run,
        "operations",
        "Each operation, by size of the objects",
        "Of the kept window. A listing's bytes are its text; nothing comes back from a HEAD or a DELETE. "
        f"{refused(found)} Their requests are in this table.",
    )


def consistency(run: str, found: Findings) -> OwnTable:
    """Of consistency.yaml: reads of objects that were put twice, and looks into the listing."""
    return asked(
        run,
        "consistency",
        "Stale reads and missed listing entries",
        "Of objects that were put twice at one name, the second time with twice the bytes. Stale: a read got "
        "the first. Missed: the listing did not name an object so long after its second put was answered. "
        f"{refused(found)} Their requests are in this table.",
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
