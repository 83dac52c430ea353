"""Checks of tables with a state before and one after a change: survivors' means, odd improvements, effects
that reverse, headlines (docs/method.md §2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple

from svload.analysis import limits
from svload.model.units import show_duration, three_figures
from svload.tables.checks.base import Tables, finding, known, listed, table_check
from svload.tables.table import Table, TableFinding

STATES = ("before", "after")
_STATE = re.compile(r"(?P<what>\w+?)_(?P<state>before|after)(_(?P<unit>\w+))?")
_TIME = [
    "mean",
    "median",
    "response",
    "response_time",
    "elapsed",
    "latency",
    "avg",
    "average",
    "mean_response",
]


class States(NamedTuple):
    """One quantity of a table before and after, by row, as the table gives it."""

    table: Table
    what: str
    before: list[float]
    after: list[float]
    scale: float

    @property
    def row_of(self) -> dict[str, int]:
        """The row of each name in the table's first column."""
        return {name: row for row, name in enumerate(self.table.columns[key_of(self.table)])}

    def both(self) -> Iterator[tuple[int, float, float]]:
        """Return (row, before, after) where both are numbers."""
        for row, (before, after) in enumerate(zip(self.before, self.after, strict=True)):
            if isfinite(before) and isfinite(after):
                yield row, before, after


def states_of(tables: Tables) -> list[States]:
    """Return every quantity that a table has both before and after."""
    found = []
    for table in tables:
        for name in table.columns:
            match = _STATE.fullmatch(name)
            if not match or match["state"] != "before":
                continue
            other = name.replace("_before", "_after", 1)
            if other in table.columns:
                numbers = table.numbers(name), table.numbers(other)
                found.append(States(table, match["what"], *numbers, table.scale(name)))
    return found


def times_of(tables: Tables) -> list[States]:
    """Return the quantities that are times: smaller is better."""
    return [one for one in states_of(tables) if one.what in _TIME]


def key_of(table: Table) -> str:
    """Return the column that names a table's rows: its first."""
    return next(iter(table.columns))


@table_check(
    "means-of-survivors", 30, "a mean time and a success rate, each before and after, of the same rows"
)
def means_of_survivors(tables: Tables) -> Iterator[TableFinding | None]:
    """Times read without regard to success: where success differs, a mean of the answered requests cannot
    rank cases."""
    rates = [one for one in states_of(tables) if one.what in ("success", "success_rate", "ok")]
    for times in times_of(tables):
        for success in rates:
            if key_of(times.table) != key_of(success.table):
                continue
            yield None
            one = _means_of_survivors_of(times, success)
            yield one


def _means_of_survivors_of(times: States, success: States) -> TableFinding | None:
    key = key_of(times.table)
    at = times.row_of
    opposite: list[tuple[float, int, str]] = []
    differing: list[str] = []
    for row, before, after in success.both():
        name = success.table.columns[key][row]
        mine = at.get(name)
        if mine is None or not known(times.before[mine], times.after[mine]):
            continue
        gained = after - before
        if abs(gained) < limits.TABLE_SUCCESS_POINTS:
            continue
        differing.append(name)
        ratio = times.after[mine] / times.before[mine]
        if (ratio > 1) == (gained > 0):
            text = (
                f"{name}: the mean goes from {show_duration(times.before[mine] * times.scale)} to "
                f"{show_duration(times.after[mine] * times.scale)} while success goes from {before:g} % "
                f"to {after:g} %"
            )
            opposite.append((abs(gained), mine, text))
    if not opposite:
        return None
    opposite.sort(reverse=True)
    sentence = (
        f"{opposite[0][2]}: time and success point in opposite directions, and a mean of the answered "
        "requests ranks nothing where success differs "
        f"({listed(differing, 6)})."
    )
    instead = (
        "Failed requests rank above every limit; goodput is shown; where success differs, nothing is ranked "
        "by the mean."
    )
    return finding(times.table, [row for _, row, _ in opposite], sentence, instead)


@table_check("improvement-over-the-larger", 31, "times before and after, and their improvement in percent")
def improvement_over_the_larger(tables: Tables) -> Iterator[TableFinding | None]:
    """A percentage of the larger of both values: it never falls below −100 %, however much slower the case
    became."""
    for times in times_of(tables):
        column = improvement_of(times.table)
        if column is None:
            continue
        yield None
        fits, misses = limits.TABLE_IMPROVEMENT
        stated = times.table.numbers(column)
        odd = [
            (row, before, after)
            for row, before, after in times.both()
            if known(before, after)
            and after > before
            and abs(100 * (before - after) / after - stated[row]) <= fits
            and abs(100 * (before - after) / before - stated[row]) > misses
        ]
        if odd:
            row, before, after = max(odd, key=lambda one: one[2] / one[1])
            name = times.table.row(row)
            sentence = (
                f"{name}: {stated[row]:.0f} % stands for a {after / before:.1f}-fold slowdown: the "
                f"improvement is (before − after)/max(before, after)."
            )
            instead = "Ratios have intervals; that formula is only a labelled extra column."
            yield finding(times.table, [row, *(one[0] for one in odd if one[0] != row)], sentence, instead)


@table_check(
    "means-not-named", 32, "times before and after, and two tables of pairs of these rows with an improvement"
)
def means_not_named(tables: Tables) -> Iterator[TableFinding | None]:
    """Tables of pairs that use different means from each other, before or after a change, and do not say
    which."""
    pairs = [table for table in tables if pair_columns(table) and improvement_of(table)]
    times = times_of(tables)
    if not times or len(pairs) < 2:
        return
    yield None
    fitted = {table.name: state for table in pairs if (state := _state_of(table, times[0]))}
    if len(set(fitted.values())) < 2:
        return
    text = ", ".join(f"{name} uses the means {state} the change" for name, state in fitted.items())
    sentence = f"By recomputing, {text}; the tables do not say so."
    first = next(table for table in pairs if table.name in fitted)
    instead = "Every number names its cases and the state it was measured in."
    yield finding(first, range(len(first)), sentence, instead)


def pair_columns(table: Table) -> tuple[str, str] | None:
    """Return the two columns that name a pair of cases."""
    named = [name for name in table.columns if name.endswith("_case")]
    return (named[0], named[1]) if len(named) == 2 else None


def improvement_of(table: Table) -> str | None:
    """Return the column of improvements."""
    return next((name for name in table.columns if name.startswith("improvement")), None)


def _state_of(table: Table, times: States) -> str | None:
    """Return the state with means that give the table's improvements in most rows, by the formula over the
    larger value."""
    columns, improvement = pair_columns(table), improvement_of(table)
    assert columns is not None
    assert improvement is not None
    at = times.row_of
    fitting = dict.fromkeys(STATES, 0)
    rows = 0
    for first, second, stated in zip(
        *(table.columns[name] for name in columns), table.numbers(improvement), strict=True
    ):
        if first not in at or second not in at or not isfinite(stated):
            continue
        rows += 1
        for state, values in zip(STATES, (times.before, times.after), strict=True):
            one, other = values[at[first]], values[at[second]]
            if (
                known(one, other)
                and abs(abs(100 * (one - other) / max(one, other)) - abs(stated))
                <= limits.TABLE_IMPROVEMENT[0]
            ):
                fitting[state] += 1
    best = max(STATES, key=lambda state: fitting[state])
    return best if rows and fitting[best] > max(rows / 2, min(fitting.values())) else None


@table_check("effect-reverses", 33, "times before and after, and a table of pairs of these rows")
def effect_reverses(tables: Tables) -> Iterator[TableFinding | None]:
    """A comparison that reverses between two states: an interaction that a comparison in one state hides."""
    for times in times_of(tables):
        at = times.row_of
        for table in tables:
            columns = pair_columns(table)
            if columns is None:
                continue
            yield None
            turned = []
            for first, second in zip(*(table.columns[name] for name in columns), strict=True):
                if first in at and second in at:
                    values = [v[at[name]] for v in (times.before, times.after) for name in (first, second)]
                    if known(*values):
                        ratios = values[1] / values[0], values[3] / values[2]
                        if (
                            known(*ratios)
                            and min(ratios) < 1 / limits.TABLE_REVERSED
                            and max(ratios) > limits.TABLE_REVERSED
                        ):
                            turned.append((first, second, ratios))
            if turned:
                first, second, ratios = max(turned, key=lambda one: max(one[2]) / min(one[2]))
                names = listed([f"{one}→{other}" for one, other, _ in turned])
                sentence = (
                    f"{first}→{second}: the ratio of times goes from {three_figures(ratios[0])} before to "
                    f"{three_figures(ratios[1])} after, so the effect "
                    f"reverses with the change ({names})."
                )
                rows = [at[name] for one, other, _ in turned for name in (one, other)]
                yield finding(
                    times.table,
                    rows,
                    sentence,
                    "Interactions of the change and the factor are tested and reported.",
                )


@table_check("gain-from-one-level", 34, "times before and after, and a table of the cases' factors")
def gain_from_one_level(tables: Tables) -> Iterator[TableFinding | None]:
    """All cases at one level improve and most at another get worse: neither the mean of both nor the best
    case shows this."""
    for times in times_of(tables):
        key = key_of(times.table)
        for cases in tables:
            # A design table lists what was varied and holds no results.
            design = len(cases.columns) > 2 and len(cases.factors) == len(cases.columns)
            if cases is times.table or key_of(cases) != key or not design:
                continue
            yield None
            yield from _gain_from_one_level_of(times, cases, key)


def _gain_from_one_level_of(times: States, cases: Table, key: str) -> Iterator[TableFinding]:
    place = {name: row for row, name in enumerate(cases.columns[key])}
    for factor in list(cases.columns)[1:]:
        levels: dict[str, list[tuple[int, float]]] = {}
        for row, before, after in times.both():
            name = times.table.columns[key][row]
            if name in place and known(before, after):
                levels.setdefault(cases.columns[factor][place[name]], []).append((row, before / after))
        if len(levels) < 2:
            continue
        better = {level: sum(gain > 1 for _, gain in rows) for level, rows in levels.items()}
        all_gain = [level for level, rows in levels.items() if better[level] == len(rows) and len(rows) > 2]
        losers = [level for level, rows in levels.items() if better[level] * 2 < len(rows)]
        if all_gain and losers:
            winner, loser = all_gain[0], losers[0]
            best = sorted(levels[winner], key=lambda one: -one[1])[:2]
            names = " and ".join(times.table.columns[key][row] for row, _ in best)
            sentence = (
                f"All {len(levels[winner])} cases with {factor} “{winner}” became faster, "
                f"{len(levels[loser]) - better[loser]} of {len(levels[loser])} "
                f"with {factor} “{loser}” slower: the largest gains ({names}) come from {factor} “{winner}”."
            )
            instead = (
                f"The interaction of the change and {factor} is tested and reported; claims name their cases."
            )
            yield finding(times.table, [row for row, _ in levels[winner]], sentence, instead)


@table_check("headline-rows", 35, "headlines in the table's .about.yaml")
def headline_rows(tables: Tables) -> Iterator[TableFinding | None]:
    """Compare a text's claims of "up to" with the rows: which row it is, or that no row matches."""
    for table in tables:
        for headline in table.about.headlines:
            yield None
            home = next((one for one in (table, *tables) if one.has(headline.column)), None)
            if home is None:
                sentence = f"“{headline.text}” follows from no table: none has a column {headline.column}."
                yield finding(table, [], sentence, _NAMES)
                continue
            values = home.numbers(headline.column)
            near = [row for row, value in enumerate(values) if abs(value - headline.value) <= 1.0]
            if not near:
                sentence = (
                    f"“{headline.text}” follows from no row of {headline.column}: the nearest is "
                    f"{_nearest(values, headline.value)}."
                )
                yield finding(home, [], sentence, _NAMES)
            elif len(near) * 2 < len(values):
                sentence = (
                    f"“{headline.text}” is {len(near)} of {len(values)} rows: "
                    f"{listed([home.row(row) for row in near])}."
                )
                yield finding(home, near, sentence, _NAMES)


_NAMES = "Claims name their cases."


def _nearest(values: list[float], wanted: float) -> str:
    known_ones = [value for value in values if isfinite(value)]
    return three_figures(min(known_ones, key=lambda value: abs(value - wanted))) if known_ones else "none"
