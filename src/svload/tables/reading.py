"""Reading of finished tables of results from CSV, with what is known about each from `<table>.about.yaml`,
and the decimal mark of their numbers from all of their cells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from svload.model.errors import SvloadError
from svload.model.units import Dimension, parse_quantity
from svload.store.foreign.bounds import TABLE_COLUMNS, TABLE_ROWS, shortened, unreadable
from svload.store.foreign.lines import csv_rows, delimiter_of
from svload.study.tree import plain, read_tree
from svload.tables.table import About, Given, Table, number

Mark = Literal["comma", "point"]
_NAME = re.compile(r"[\w*^%# ()/.+-]{1,80}")
_PLACE = re.compile(r"(?P<column>\w+)\.(?P<place>\d)")
_PRODUCT = re.compile(r"(?P<one>\w+)\s*(?P<sign>[*/])\s*(?P<other>\w+)")
_QUANTITIES: Mapping[str, Dimension] = {
    "users": "count", "run_time": "time_s", "think_time": "time_s", "spawn_rate": "rate_rps", "payload": "size_bytes",
}  # fmt: skip
_HEADERS: Mapping[str, str] = {
    "label": "Label|Etiqueta|Libellé|라벨|Etykieta|Rótulo|Etiket",
    "samples": "# Samples|Anz. der Proben|# Muestras|# Echantillons|표본 수|"
    "# Liczba próbek|# Amostras|# Örnek|# 样本|取樣數",
    "average_response_ms": "Average|Durchschnitt|Media|Moyenne|평균|Średnia|Média|Ortalama|平均值",
    "median_response_ms": "Median|Mittel|Mediana|Médiane|중간값|中位数|中間值",
    "min_ms": "Min|Mín|최소값|Minimum|Mín.|En Az|最小值",
    "max_ms": "Max|Máx|최대값|Maksimum|Máx.|En Çok|最大值",
    "std_dev_ms": "Std. Dev.|Desv. Estándar|Ecart type|표준편차|Odch. std.|Desvio Padrão|标准偏差",
    "error_share": "Error %|% Fehler|% Error|% Erreur|오류 %|% błędów|% de Erro|Hata %|异常 %|錯誤率",
    "throughput_per_s": "Throughput|Durchsatz|Rendimiento|Débit|처리량|"
    "Przepustowość|Vazão|Transfer Oranı|吞吐量|處理量",
}
"""Column → its names in saved reports of JMeter 5.6: in English, German, Spanish, French, Korean, Polish,
Portuguese, Turkish and Chinese. JMeter's Japanese and Norwegian texts leave them in English."""
_COLUMN = {header: column for column, headers in _HEADERS.items() for header in headers.split("|")}
_ALSO_MEDIAN = "Ortalama"
"""What JMeter calls both mean and median in Turkish; the mean is the column before."""
_PERCENTILE = re.compile(r"(\d+(?:[.,]\d+)?) ?% ?(?:Line|centile|선|linii|百分位)")
_HINT = "A table is a CSV file: one line of names, then one line per row with as many values."


def read_table_file(path: Path, given: Mapping[str, str] | None = None, decimal: Mark | None = None) -> Table:
    """Return the table at `path`; `given` takes precedence over its .about.yaml, `decimal` over what its
    cells show.

    Raises SvloadError import-unreadable.
    """
    delimiter = delimiter_of(path)
    rows = csv_rows(path, delimiter)
    line, names = next(rows, (1, []))
    names = _plain_headers(path, line, [name.strip() for name in names])
    if not names or any(not _NAME.fullmatch(name) for name in names):
        odd = next((name for name in names if not _NAME.fullmatch(name)), "")
        raise unreadable(
            path, line, f"“{odd}” is not a valid column name" if names else "it has no line of names", _HINT
        )
    if len(set(names)) < len(names) or len(names) > TABLE_COLUMNS:
        raise unreadable(
            path,
            line,
            "two columns have the same name"
            if len(names) <= TABLE_COLUMNS
            else f"it has more than {TABLE_COLUMNS} columns",
            _HINT,
        )
    cells: list[list[str]] = []
    lines: list[int] = []
    for line, row in rows:
        if len(row) != len(names):
            raise unreadable(path, line, f"{len(row)} values, but {len(names)} names", _HINT)
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
    cells = _plain_numbers(path, cells, lines, delimiter, decimal)
    columns = {name: tuple(row[place] for row in cells) for place, name in enumerate(names)}
    about = _about(path, given or {})
    return Table(path.stem, str(path), {**columns, **_derived(path, columns, about)}, tuple(lines), about)


def _plain_headers(path: Path, line: int, names: Sequence[str]) -> list[str]:
    """Return the columns of JMeter's saved Aggregate or Summary Report under plain names with their units;
    those of any other table unchanged. Raises SvloadError import-unreadable for one that may be either of
    two."""
    if not {"samples", "average_response_ms"} <= {_COLUMN.get(name) for name in names}:
        return list(names)
    if names.count(_ALSO_MEDIAN) == 1 and any(map(_PERCENTILE.fullmatch, names)):
        reason = f"“{_ALSO_MEDIAN}” may be the mean or the median: JMeter saves both, the mean first"
        hint = "Save the report again with both columns."
        raise unreadable(path, line, reason, hint)
    found: list[str] = []
    for name in names:
        percentile = _PERCENTILE.fullmatch(name)
        plain = f"p{percentile[1].replace(',', '.')}_ms" if percentile else _COLUMN.get(name, name)
        if plain in found:
            plain = "median_response_ms" if name == _ALSO_MEDIAN else name
        found.append(plain)
    return found


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
        given = raw.get("given")
        raw = {**raw, "given": {**(given if isinstance(given, dict) else {}), **over}}
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
            if parse_quantity(value, dimension) < 0:
                raise ValueError(f"{value} is negative")
        except ValueError as why:
            raise unreadable(
                file if file.is_file() else path,
                None,
                f"given {name}: {why}",
                "Write it like run_time: 60s, payload: 5 MB, spawn_rate: 1/s.",
            ) from why
    return about


def _derived(path: Path, columns: Mapping[str, tuple[str, ...]], about: About) -> dict[str, tuple[str, ...]]:
    """Return the columns that `derive` makes, plus `users_total` where `users_unit` says per what `users` are
    counted."""
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
    """Return `users` of `users_unit` (users per session per server) times the columns sessions and
    servers."""
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


def _pattern(decimal: str, grouping: str) -> re.Pattern[str]:
    whole = rf"(?:\d+|[1-9]\d{{0,2}}(?:{grouping}\d{{3}})+)"
    return re.compile(rf"[+-]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d{{1,3}})?")


_NUMBERS: dict[Mark, re.Pattern[str]] = {"comma": _pattern(",", r"\."), "point": _pattern(r"\.", ",")}
"""How a number may be written: three digits between two separators of thousands."""
_MARK_HINT = "Say which: --decimal comma or --decimal point."


def _plain_numbers(
    path: Path, rows: Sequence[Sequence[str]], lines: Sequence[int], delimiter: str, asked: Mark | None
) -> list[list[str]]:
    """Return the rows with every number written as 1234.5; all other cells unchanged.

    `asked` is the user's choice. Without it the cells decide: a leading 0, other than three digits after a
    mark, or two different marks allow only one reading. Raises SvloadError import-unreadable where cells
    contradict each other, or where all of them allow both readings.
    """
    mark = asked or _decided(path, rows, lines, delimiter)
    return [[_plain(cell, mark) for cell in row] for row in rows]


def _decided(path: Path, rows: Sequence[Sequence[str]], lines: Sequence[int], delimiter: str) -> Mark:
    proofs: dict[Mark, tuple[int, str]] = {}
    open_cell: tuple[int, str] | None = None
    for line, row in zip(lines, rows, strict=True):
        for cell in row:
            if "," not in cell and "." not in cell:
                continue
            fits: list[Mark] = [mark for mark, number in _NUMBERS.items() if number.fullmatch(cell)]
            if len(fits) == 1:
                proofs.setdefault(fits[0], (line, cell))
            elif fits and open_cell is None and ("," in cell or delimiter != ","):
                # Where commas separate the cells, a program that writes “1.234” means a decimal point.
                open_cell = line, cell
    if len(proofs) == 2:
        (first, comma), (second, point) = proofs["comma"], proofs["point"]
        reason = (
            f"“{shortened(comma, 40)}” (line {first}) has a decimal comma and “{shortened(point, 40)}” "
            f"(line {second}) a decimal point"
        )
        raise unreadable(path, max(first, second), reason, _MARK_HINT)
    if proofs:
        return next(iter(proofs))
    if open_cell is not None:
        line, cell = open_cell
        readings = " or ".join(dict.fromkeys(_plain(cell, mark) for mark in ("comma", "point")))
        reason = f"“{shortened(cell, 40)}” is {readings}, and no other cell shows which"
        raise unreadable(path, line, reason, _MARK_HINT)
    return "point"


def _plain(cell: str, mark: Mark) -> str:
    if not _NUMBERS[mark].fullmatch(cell):
        return cell
    decimal, grouping = (",", ".") if mark == "comma" else (".", ",")
    return cell.replace(grouping, "").replace(decimal, ".")
