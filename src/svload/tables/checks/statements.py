"""Checks of a text's statements about its tables: quoted cells, and what a column is said to depend on
(docs/method.md §4)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import isfinite, log

import numpy as np
from numpy.typing import NDArray

from svload.model.units import three_figures
from svload.tables.checks.base import Tables, finding, known, table_check
from svload.tables.table import Model, Quote, Table, TableFinding, number

Floats = NDArray[np.float64]


@table_check("quote-differs", 60, "quotes in the table's .about.yaml")
def quote_differs(tables: Tables) -> Iterator[TableFinding | None]:
    """A number in the text that differs from its cell; where it is another column's, that column is named."""
    for table in tables:
        quotes = table.about.quotes
        yield from [None] * bool(quotes)
        cells = [_cell(quote, tables) for quote in quotes]
        for quote, place in zip(quotes, cells, strict=True):
            if place is None:
                sentence = f"“{quote.text}” ({quote.value:g}) refers to a row that no table has."
                yield finding(table, [], sentence, _NAMED)
                continue
            home, row = place
            true = number(home.columns[quote.column][row])
            if not isfinite(true) or abs(true - quote.value) <= 1e-9 + 0.005 * abs(true):
                continue
            other = next(
                (
                    n
                    for n in home.columns
                    if n != quote.column and number(home.columns[n][row]) == quote.value
                ),
                None,
            )
            whose = f", which is its {other}" if other else ""
            sentence = (
                f"“{quote.text}”: the text says {quote.value:g}{whose}; the table's {quote.column} "
                f"is {true:g}.{_order(quotes, quote, cells)}"
            )
            yield finding(home, [row], sentence, _NAMED)


_NAMED = "Every number of a report is generated from the data and says what it is."


def _cell(quote: Quote, tables: Tables) -> tuple[Table, int] | None:
    """Return the table and row that a quote refers to."""
    for table in tables:
        if not table.has(quote.column, *quote.where):
            continue
        for row in range(len(table)):
            if all(_same(table.columns[name][row], value) for name, value in quote.where.items()):
                return table, row
    return None


def _same(cell: str, value: object) -> bool:
    return cell == str(value) or (isinstance(value, int | float) and number(cell) == float(value))


def _order(quotes: Sequence[Quote], wrong: Quote, cells: Sequence[tuple[Table, int] | None]) -> str:
    """Describe how the order that the quotes of one column state changes, in the order in which they are
    listed."""
    row: list[tuple[float, float]] = []
    for quote, place in zip(quotes, cells, strict=True):
        if quote.column == wrong.column and place is not None:
            row.append((quote.value, number(place[0].columns[quote.column][place[1]])))
    given, true = [one for one, _ in row], [one for _, one in row]
    rises = len(given) > 2 and all(a < b for a, b in itertools.pairwise(given))
    if rises and any(a >= b for a, b in itertools.pairwise(true)):
        return (
            f" The stated rise ({', '.join(map(three_figures, given))}) is not in the table "
            f"({', '.join(f'{one:g}' for one in true)})."
        )
    return ""


@table_check("held-out-prediction", 61, "models in the table's .about.yaml, and their columns")
def held_out(tables: Tables) -> Iterator[TableFinding | None]:
    """A stated dependence that predicts sweeps it was not fitted to worse than their mean does."""
    for table in tables:
        for model in table.about.models:
            score = _score(table, model, model.of)
            if score is None:
                continue
            yield None
            if score > 0:
                continue
            rival = _score(table, model, model.rival) if model.rival else None
            better = (
                f"; {' and '.join(model.rival)} do with R² = {rival:.2f}"
                if rival is not None and rival > 0
                else ""
            )
            sentence = (
                f"“{model.text}”: {' and '.join(model.of)} predict {model.target} of the left-out "
                f"{model.group} worse than its mean "
                f"(R² = {score:.2f}){better}."
            )
            yield finding(
                table, [], sentence, "Models are scored on held-out sweeps, and several forms are compared."
            )


def _score(table: Table, model: Model, of: Sequence[str]) -> float | None:
    """Return R² of held-out groups on the logarithm of the target; None where a column is missing or there
    are too few groups."""
    columns = [_column(table, name) for name in of]
    if not table.has(model.target, model.group) or any(one is None for one in columns):
        return None
    target = table.numbers(model.target)
    rows = [
        row
        for row in range(len(table))
        if known(target[row]) and all(isfinite(one[row]) for one in columns if one is not None)
    ]
    groups = np.array([table.columns[model.group][row] for row in rows])
    if len(set(groups.tolist())) < 3:
        return None
    y: Floats = np.array([log(target[row]) for row in rows])
    x: Floats = np.column_stack(
        [np.ones(len(rows)), *(np.array([one[row] for row in rows]) for one in columns if one is not None)]
    )
    x[:, 1:] = (x[:, 1:] - x[:, 1:].mean(0)) / (x[:, 1:].std(0) + (x[:, 1:].std(0) == 0))
    squares, products, predicted = x.T @ x, x.T @ y, np.zeros(len(rows))
    for group in np.unique(groups):  # the normal equations without a group cost no pass over all rows
        out = groups == group
        of_rest = squares - x[out].T @ x[out], products - x[out].T @ y[out]
        predicted[out] = x[out] @ np.linalg.lstsq(*of_rest, rcond=None)[0]
    spread = float(((y - y.mean()) ** 2).sum())
    return 1 - float(((y - predicted) ** 2).sum()) / spread if spread > 0 else None


def _column(table: Table, name: str) -> list[float] | None:
    base, _, power = name.partition("^")
    if not table.has(base) or power not in ("", "2"):
        return None
    return [value * value if power else value for value in table.numbers(base)]
