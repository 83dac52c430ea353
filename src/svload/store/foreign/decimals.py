"""Decide what marks the decimals of a table's numbers, a comma or a point, from all of its cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from svload.store.foreign.bounds import shortened, unreadable

Mark = Literal["comma", "point"]


def _number(decimal: str, grouping: str) -> re.Pattern[str]:
    whole = rf"(?:\d+|[1-9]\d{{0,2}}(?:{grouping}\d{{3}})+)"
    return re.compile(rf"[+-]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d{{1,3}})?")


_NUMBERS: dict[Mark, re.Pattern[str]] = {"comma": _number(",", r"\."), "point": _number(r"\.", ",")}
"""How a number may be written: three digits between two separators of thousands."""
_HINT = "Say which: --decimal comma or --decimal point."


def plain_numbers(
    path: Path, rows: Sequence[Sequence[str]], lines: Sequence[int], delimiter: str, asked: Mark | None
) -> list[list[str]]:
    """The rows with every number written as 1234.5; any other cell as it stands.

    `asked` is the user's word. Without it the cells decide: a leading 0, other than three digits after a mark,
    or two different marks fit one reading alone. Raises SvloadError import-unreadable where cells contradict
    each other, or where all of them fit both readings.
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
        raise unreadable(path, max(first, second), reason, _HINT)
    if proofs:
        return next(iter(proofs))
    if open_cell is not None:
        line, cell = open_cell
        readings = " or ".join(dict.fromkeys(_plain(cell, mark) for mark in ("comma", "point")))
        reason = f"“{shortened(cell, 40)}” is {readings}, and no other cell shows which"
        raise unreadable(path, line, reason, _HINT)
    return "point"


def _plain(cell: str, mark: Mark) -> str:
    if not _NUMBERS[mark].fullmatch(cell):
        return cell
    decimal, grouping = (",", ".") if mark == "comma" else (".", ",")
    return cell.replace(grouping, "").replace(decimal, ".")
