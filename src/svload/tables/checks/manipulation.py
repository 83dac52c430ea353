"""Checks whether a table shows that its factors did what they say, one at a time, with the means to recognise
noise (docs/method.md §2, §3)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from statistics import median

from svload.analysis import limits
from svload.model.units import show_duration, three_figures
from svload.tables.checks.base import Tables, finding, known, listed, table_check
from svload.tables.checks.before_after import States, key_of, times_of
from svload.tables.table import Table, TableFinding, number

MOST_LEVELS = 100
"""A column with more values is a measured one rather than a factor; their pairs would take hours."""
_COUNTER = re.compile(r"(cache_)?(hits?|misses|hit_ratio|hit_rate)(_pct|_ratio|_count)?")


@table_check("hits-unverified", 40, "times, and a factor with levels called hit and miss")
def hits_unverified(tables: Tables) -> Iterator[TableFinding | None]:
    """Cases called hit that are slower than those called miss, without a counter that confirms the hits."""
    counted = any(_COUNTER.fullmatch(name) for table in tables for name in table.columns)
    for times in times_of(tables):
        for cases in tables:
            if cases is times.table or key_of(cases) != key_of(times.table):
                continue
            pairs = list(_hits_and_misses(cases))
            yield from [None] * bool(pairs)
            one = None if counted else _hits_unverified_of(times, pairs)
            yield one


def _hits_unverified_of(times: States, pairs: list[tuple[str, str]]) -> TableFinding | None:
    at = times.row_of
    odd = [
        (at[hit], at[miss], hit, miss)
        for hit, miss in pairs
        if hit in at
        and miss in at
        and known(times.after[at[hit]], times.after[at[miss]])
        and times.after[at[miss]] * limits.TABLE_REVERSED < times.after[at[hit]]
    ]
    if not odd:
        return None
    texts = [
        f"{miss} {show_duration(times.after[low] * times.scale)} < {hit} "
        f"{show_duration(times.after[high] * times.scale)}"
        for high, low, hit, miss in odd
    ]
    sentence = f"Misses beat hits ({listed(texts)}), and no counter shows that the hits were hits."
    instead = "Manipulation checks by the server's counters: hits ≥ 99 % or ≤ 1 %, or the trial is REFUSED."
    return finding(times.table, [row for high, low, _, _ in odd for row in (low, high)], sentence, instead)


def _hits_and_misses(cases: Table) -> Iterator[tuple[str, str]]:
    """Return (case of the hit, case of the miss) that differ in that factor alone."""
    key = key_of(cases)
    valid = [cell != "no" for cell in cases.columns.get("valid", ("yes",) * len(cases))]
    for factor, levels in list(cases.columns.items())[1:]:
        others = [cases.columns[name] for name in cases.columns if name not in (key, factor, "valid")]
        rests = [tuple(cells[row] for cells in others) for row in range(len(cases))]
        misses: dict[tuple[str, ...], list[int]] = {}
        for row, level in enumerate(levels):
            if valid[row] and re.search(r"\bmiss\b", level):
                misses.setdefault(rests[row], []).append(row)
        for row, level in enumerate(levels):
            if valid[row] and re.search(r"\bhit\b", level):
                for miss in misses.get(rests[row], ()):
                    yield cases.columns[key][row], cases.columns[key][miss]


@table_check("layers-at-once", 41, "a table of settings by layer, with their values in two states or more")
def layers_at_once(tables: Tables) -> Iterator[TableFinding | None]:
    """Settings of several layers that change between the same two states: no effect can be attributed to one
    of them."""
    for table in tables:
        states = [
            name for name in table.columns if name in ("default", "intermediate", "final", "before", "after")
        ]
        if "layer" not in table.columns or len(states) < 2:
            continue
        yield None
        first, last = table.columns[states[0]], table.columns[states[-1]]
        changed = [row for row in range(len(table)) if first[row] != last[row]]
        layers = list(dict.fromkeys(table.columns["layer"][row] for row in changed))
        if len(layers) > 1:
            sentence = (
                f"{len(changed)} settings of {len(layers)} layers ({', '.join(layers)}) change at once "
                f"from {states[0]} to {states[-1]}: "
                "no effect can be attributed to one layer alone."
            )
            yield finding(table, changed, sentence, "Ablation: one layer at a time, in randomised blocks.")


@table_check("no-replicates", 42, "a column of results")
def no_replicates(tables: Tables) -> Iterator[TableFinding | None]:
    """Results without an interval, a scatter or a number of replicates."""
    results = [
        table
        for table in tables
        if any(re.search(r"mean|median|throughput|improvement|success", name) for name in table.columns)
    ]
    if not results:
        return
    yield None
    bare = [table for table in results if not any(_SCATTER.search(name) for name in table.columns)]
    if not bare:
        return
    sentence = (
        f"There is no interval and no replicate in {listed([table.name for table in bare])}: one run per "
        "row can't distinguish a difference from noise."
    )
    instead = "Replicates in randomised order, intervals between runs, the minimum detectable effect before the run."
    yield finding(bare[0], [], sentence, instead)


_SCATTER = re.compile(
    r"(^|_)(std|sd|stderr|se|ci|low|high|lower|upper|replicates?|trials|runs|interval|variance)(_|$)"
)


@table_check(
    "unmentioned-shift", 43, "rows that differ in one derived factor (derive in .about.yaml), and medians"
)
def unmentioned_shift(tables: Tables) -> Iterator[TableFinding | None]:
    """A level of a factor that shifts a result everywhere while the text discusses another factor."""
    for table in tables:
        if not table.about.derive:
            continue
        yield None
        shifts = sorted(_shifts(table), key=lambda one: -one[0])
        if shifts:
            ratio, column, text, rows = shifts[0]
            cells = table.columns[column]
            sentence = (
                f"{text}: {column} is {three_figures(ratio)}-fold in the median of matched rows "
                f"({cells[rows[0]]} against {cells[rows[1]]}), which the text does not mention."
            )
            yield finding(
                table,
                rows,
                sentence,
                "Every factor's effect on every result is shown, whether mentioned or not.",
            )


def _shifts(table: Table) -> Iterator[tuple[float, str, str, list[int]]]:
    """Return (median ratio, column, which levels, rows) of pairs of groups that differ in one derived factor,
    matched by outgoing load."""
    factors = [name for name, how in table.about.derive.items() if "." in how and table.has(name)]
    matched = next((name for name in table.columns if name.startswith("out_")), None)
    if matched is None:
        return
    columns = {name: table.numbers(name) for name in table.columns if name.startswith("median_")}
    for factor in factors:
        others = [name for name in factors if name != factor]
        groups: dict[tuple[str, ...], dict[str, dict[str, int]]] = {}
        for row, level in enumerate(table.columns[factor]):
            levels = groups.setdefault(tuple(table.columns[name][row] for name in others), {})
            levels.setdefault(level, {})[table.columns[matched][row]] = row
        for levels in groups.values():
            for one, other in itertools.permutations(levels if len(levels) <= MOST_LEVELS else (), 2):
                # Levels that are words are compared both ways.
                if number(one) >= number(other):
                    continue
                mine, theirs = levels[one], levels[other]
                pairs = [(mine[value], theirs[value]) for value in mine if value in theirs]
                for column, values in columns.items():
                    ratios = [
                        values[after] / values[before]
                        for before, after in pairs
                        if known(values[after], values[before])
                    ]
                    if (
                        len(ratios) >= limits.TABLE_LEVELS
                        and (shift := median(ratios)) > limits.TABLE_SHIFTED
                    ):
                        text = f"{factor} from {one} to {other}"
                        yield shift, column, text, [row for pair in pairs for row in pair]
