"""Checks for numbers that are impossible, or that support less than the text claims: units, few requests,
bottlenecks without evidence (docs/method.md §3, §5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite

from svload.analysis import limits
from svload.model.units import parse_quantity, three_figures
from svload.tables.checks.base import Tables, finding, given, known, listed, run_time_of, table_check
from svload.tables.table import Table, TableFinding

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@table_check("unit-impossible", 1, "payload and stated_unit (given in .about.yaml) and a mean response")
def unit_impossible(tables: Tables) -> Iterator[TableFinding | None]:
    """A stated unit by which an answer would have arrived faster than any link can carry it."""
    for table in tables:
        payload, unit = given(table.about.given.payload, "size_bytes"), table.about.given.stated_unit
        column = table.column_of("response")
        if not payload or unit is None or column is None:
            continue
        yield None
        means = table.numbers(column)
        rows = [
            row
            for row, mean in enumerate(means)
            if known(mean) and payload / mean / _SECONDS[unit] > limits.TABLE_CARRIED_BYTES_PER_S
        ]
        if rows:
            row = min(rows, key=lambda one: means[one])
            rate = payload / means[row] / _SECONDS[unit]
            able = [
                name
                for name in ("us", "ms", "s")
                if payload / means[row] / _SECONDS[name] <= limits.TABLE_CARRIED_BYTES_PER_S
            ]
            sentence = (
                f"{table.row(row, table.factors[:1])}: {three_figures(payload / 1e6)} MB in {means[row]:g} "
                f"{unit} would be {three_figures(rate / 1e9)} GB/s, more than a link of "
                f"100 Gbit/s carries: the times are not in {unit}"
                + (f", most likely in {able[0]}." if able else ".")
            )
            yield finding(
                table,
                rows,
                sentence,
                "Every name includes its unit; bytes a second are compared with what a link carries.",
            )


@table_check("too-few-requests", 50, "a number of requests, or throughput and run time")
def too_few_requests(tables: Tables) -> Iterator[TableFinding | None]:
    """Rows with so few requests that no steady state can be seen."""
    for table in tables:
        counts = table.quantity("requests") or _counted(table)
        if counts is None:
            continue
        yield None
        rows = sorted(
            (row for row, n in enumerate(counts) if known(n) and n < limits.TABLE_FEW_REQUESTS),
            key=lambda row: counts[row],
        )
        if rows:
            text = listed([f"{table.row(row, table.factors)}: about {counts[row]:.0f}" for row in rows])
            sentence = (
                f"Too few requests for a steady state ({text}; {limits.TABLE_FEW_REQUESTS} are the "
                f"least for batch means)."
            )
            yield finding(
                table,
                rows,
                sentence,
                "A number needs enough effective requests; otherwise it is null, with that reason.",
            )


def _counted(table: Table) -> list[float] | None:
    rates, lasts = table.quantity("throughput"), run_time_of(table)
    if rates is None or lasts is None:
        return None
    return [rate * time for rate, time in zip(rates, lasts, strict=True)]


@table_check("not-bracketed", 51, "a column of N*")
def not_bracketed(tables: Tables) -> Iterator[TableFinding | None]:
    """A saturation point at the lowest level: it may lie anywhere below."""
    for table in tables:
        column = next((name for name in table.columns if re.fullmatch(r"n_?(star|\*)", name.lower())), None)
        if column is None:
            continue
        yield None
        stars = table.numbers(column)
        rows = [row for row, star in enumerate(stars) if isfinite(star) and star <= 1]
        if rows:
            text = listed(
                [table.row(row, [name for name in table.factors if name != column]) for row in rows]
            )
            sentence = (
                f"N* = 1 is the lowest level of users in the table ({text}): not bracketed, nothing "
                f"below was measured."
            )
            yield finding(table, rows, sentence, "“Not bracketed” where the limit lies outside the levels.")


@table_check("bottleneck-without-evidence", 52, "a column of bottlenecks")
def bottleneck_without_evidence(tables: Tables) -> Iterator[TableFinding | None]:
    """A resource named as the bottleneck without a column that shows its use."""
    for table in tables:
        column = next((name for name in table.columns if "bottleneck" in name.lower()), None)
        if column is None:
            continue
        yield None
        if any(_USED.search(name) for name in table.columns):
            continue
        rows = [row for row, named in enumerate(table.columns[column]) if named]
        named = dict.fromkeys(table.columns[column][row] for row in rows)
        slowest = _slowest(table, rows)
        beside = (
            f"; at {table.row(slowest[0], [name for name in table.factors if name != column])} it moved "
            f"{three_figures(slowest[1] / 1e6)} MB/s in all"
            if slowest
            else ""
        )
        if rows:
            sentence = (
                f"{' and '.join(named)} named in {len(rows)} rows, and no column shows a resource "
                f"used{beside}: Unidentified."
            )
            instead = "Evidence per resource, per core and per process; Confirmed only by perturbation."
            yield finding(table, rows, sentence, instead)


_USED = re.compile(r"(cpu|disk|network|link|memory|util|usage|busy|iowait)", re.IGNORECASE)


def _slowest(table: Table, rows: list[int]) -> tuple[int, float] | None:
    """Return the row that moved least, and its bytes a second, where the table has sizes."""
    rates = table.quantity("throughput")
    sizes = next((table.columns[name] for name in table.columns if "size" in name), None)
    if rates is None or sizes is None:
        return None
    moved = {row: rates[row] * size for row in rows if (size := _bytes(sizes[row])) and known(rates[row])}
    return min(moved.items(), key=lambda one: one[1]) if moved else None


def _bytes(text: str) -> float | None:
    try:
        return parse_quantity(re.sub(r"KB$", "kB", text.strip()), "size_bytes")
    except ValueError:
        return None


@table_check("mean-far-from-median", 53, "the mean and the median of the same")
def mean_far_from_median(tables: Tables) -> Iterator[TableFinding | None]:
    """A mean far from the median of the same values: a single number does not describe the distribution."""
    for table in tables:
        for column in table.columns:
            other = column.replace("mean", "median", 1)
            if other == column or other not in table.columns:
                continue
            yield None
            means, medians = table.numbers(column), table.numbers(other)
            ratios = {
                row: max(mean / middle, middle / mean)
                for row, (mean, middle) in enumerate(zip(means, medians, strict=True))
                if known(mean, middle)
            }
            rows = sorted(
                (row for row, ratio in ratios.items() if ratio > limits.TABLE_MEAN_OVER_MEDIAN),
                key=lambda row: -ratios[row],
            )
            if rows:
                what = column.replace("mean_", "", 1)
                sentence = (
                    f"{table.row(rows[0], list(table.columns)[:2])}: mean and median of {what} differ "
                    f"{three_figures(ratios[rows[0]])}-fold "
                    f"({table.columns[column][rows[0]]} against {table.columns[other][rows[0]]}); by more "
                    f"than {limits.TABLE_MEAN_OVER_MEDIAN:g} in {len(rows)} of {len(ratios)} rows."
                )
                yield finding(table, rows, sentence, "Distributions, with their upper percentiles.")


@table_check("same-host", 90, "same_host: true, given in .about.yaml")
def same_host(tables: Tables) -> Iterator[TableFinding | None]:
    """Generator and servers on one machine: no absolute capacity can be claimed."""
    text = (
        "Generator and servers share one machine: both are measured together, and no absolute capacity can "
        "be claimed."
    )
    for table in tables:
        if table.about.given.same_host:
            yield finding(table, [], text, "Labelled SAME HOST; the instrument's own verdict.")


@table_check(
    "generator-shared", 91, "generator_shares, given in .about.yaml: what else the generator's machine does"
)
def generator_shared(tables: Tables) -> Iterator[TableFinding | None]:
    """A generator on a machine with other work: its own limit cannot be separated from the servers'."""
    instead = "The generator's own delays and limits are judged in each trial; it writes no answer to disk."
    for table in tables:
        if shared := table.about.given.generator_shares:
            text = f"The generator shares its machine with {shared[:200]}: "
            text += "what is measured may be the limit of that machine, not the servers'."
            yield finding(table, [], text, instead)
