"""Finished tables of results as CSV, and what is known beside each in `<table>.about.yaml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from svload.model.errors import SvloadError
from svload.model.tables import About, Given, Table, number
from svload.model.units import Dimension, parse_quantity
from svload.store.foreign.bounds import TABLE_COLUMNS, TABLE_ROWS, unreadable
from svload.store.foreign.decimals import Mark, plain_numbers
from svload.store.foreign.lines import csv_rows, delimiter_of
from svload.study.tree import plain, read_tree

_NAME = re.compile(r"[A-Za-z0-9_*^% ()/.+-]{1,80}")
_PLACE = re.compile(r"(?P<column>\w+)\.(?P<place>\d)")
_PRODUCT = re.compile(r"(?P<one>\w+)\s*(?P<sign>[*/])\s*(?P<other>\w+)")
_QUANTITIES: Mapping[str, Dimension] = {
    "users": "count", "run_time": "time_s", "think_time": "time_s", "spawn_rate": "rate_rps", "payload": "size_bytes",
}  # fmt: skip
_HINT = "A table is a CSV file: one line of names, then a line a row with as many values."


def read_table_file(path: Path, given: Mapping[str, str] | None = None, decimal: Mark | None = None) -> Table:
    """The table at `path`; `given` stands over what its .about.yaml gives, `decimal` over what its cells say.

    Raises SvloadError import-unreadable.
    """
    delimiter = delimiter_of(path)
    rows = csv_rows(path, delimiter)
    line, names = next(rows, (1, []))
    names = [name.strip() for name in names]
    if not names or any(not _NAME.fullmatch(name) for name in names):
        odd = next((name for name in names if not _NAME.fullmatch(name)), "")
        raise unreadable(
            path, line, f"“{odd}” is not a valid column name" if names else "it has no line of names", _HINT
        )
    if len(set(names)) < len(names) or len(names) > TABLE_COLUMNS:
        raise unreadable(
            path,
            line,
            "two columns have one name"
            if len(names) <= TABLE_COLUMNS
            else f"it has more than {TABLE_COLUMNS} columns",
            _HINT,
        )
    cells: list[list[str]] = []
    lines: list[int] = []
    for line, row in rows:
        if len(row) != len(names):
            raise unreadable(path, line, f"{len(row)} values stand under {len(names)} names", _HINT)
        if len(cells) >= TABLE_ROWS:
            raise unreadable(
                path,
                line,
                f"it has more than {TABLE_ROWS:,} rows",
                "A table of single requests is imported with --as jtl or --as k6.",
            )
        cells.append([cell.strip() for cell in row])
        lines.append(line)
    if not cells:
        raise unreadable(path, line, "it has no row", _HINT)
    cells = plain_numbers(path, cells, lines, delimiter, decimal)
    columns = {name: tuple(row[place] for row in cells) for place, name in enumerate(names)}
    about = _about(path, given or {})
    return Table(path.stem, str(path), {**columns, **_derived(path, columns, about)}, tuple(lines), about)


def _about(path: Path, over: Mapping[str, str]) -> About:
    file = path.with_suffix(".about.yaml")
    raw: dict[str, Any] = {}
    if file.is_file():
        try:
            tree, faults = read_tree(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as why:
            raise unreadable(file, None, str(why), "It is YAML in UTF-8.") from why
        if faults:
            raise SvloadError(*faults)
        value = plain(tree)
        if not isinstance(value, dict):
            raise unreadable(
                file,
                1,
                "it is not a mapping",
                "Write given:, columns:, derive:, quotes:, headlines: or models:.",
            )
        raw = value
    if over:
        said = raw.get("given")
        raw = {**raw, "given": {**(said if isinstance(said, dict) else {}), **over}}
    try:
        about = About.model_validate(raw)
    except ValidationError as why:
        first = why.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        known = ", ".join(Given.model_fields) if where.startswith("given") else ", ".join(About.model_fields)
        raise unreadable(
            file if file.is_file() else path, None, f"{where}: {first['msg']}", f"Known are {known}."
        ) from why
    for name, dimension in _QUANTITIES.items():
        value = getattr(about.given, name)
        if value is None:
            continue
        try:
            parse_quantity(value, dimension)
        except ValueError as why:
            raise unreadable(
                file if file.is_file() else path,
                None,
                f"given {name}: {why}",
                "Write it like run_time: 60s, payload: 5 MB, spawn_rate: 1/s.",
            ) from why
    return about


def _derived(path: Path, columns: Mapping[str, tuple[str, ...]], about: About) -> dict[str, tuple[str, ...]]:
    """The columns that `derive` makes; `users_total` by itself where `users_unit` says per what `users` are counted."""
    found: dict[str, tuple[str, ...]] = {}
    size = len(next(iter(columns.values())))
    for name, how in about.derive.items():
        known = {**columns, **found}
        if how == "users in all":
            found[name] = _in_all(path, known, size)
            continue
        place, product = _PLACE.fullmatch(how.strip()), _PRODUCT.fullmatch(how.strip())
        used = [place["column"]] if place else [product["one"], product["other"]] if product else []
        if not used or any(one not in known for one in used):
            raise unreadable(
                path.with_suffix(".about.yaml"),
                None,
                f"derive {name}: “{how}” is no column.place, a * b or a / b of its columns",
                "Write servers: test.0.",
            )
        if place:
            found[name] = tuple(_part(cell, int(place["place"])) for cell in known[place["column"]])
        elif product:
            pairs = zip(known[product["one"]], known[product["other"]], strict=True)
            found[name] = tuple(_product(one, other, product["sign"]) for one, other in pairs)
    return found


def _part(cell: str, place: int) -> str:
    parts = re.split(r"[/x:]", cell)
    return parts[place] if place < len(parts) else ""


def _product(one: str, other: str, sign: str) -> str:
    first, second = number(one), number(other)
    value = first * second if sign == "*" else first / second if second else float("nan")
    return f"{value:g}"


def _in_all(path: Path, columns: Mapping[str, tuple[str, ...]], size: int) -> tuple[str, ...]:
    """`users` of `users_unit` (users per session per server) times the columns sessions and servers."""
    if "users" not in columns or "users_unit" not in columns:
        raise unreadable(
            path.with_suffix(".about.yaml"),
            None,
            "“users in all” needs the columns users and users_unit",
            "Leave it out.",
        )
    found = []
    for row in range(size):
        value = number(columns["users"][row])
        for per in re.findall(r"per (\w+)", columns["users_unit"][row]):
            value *= number(columns.get(f"{per}s", ("",) * size)[row])
        found.append(f"{value:g}")
    return tuple(found)
