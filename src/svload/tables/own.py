"""Tables of a study's own, such as a paper's results beside ours. A script makes them from a run's findings,
and each report of the run shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from svload.model.base import Artefact, Frozen
from svload.model.errors import SvloadError, fail
from svload.model.parsed import parsed

if TYPE_CHECKING:
    from svload.model.results import Estimate

MOST_BYTES = 16 << 20
STAYS = 0.05
"""A ratio this close to 1 is no change: a paper prints a number without an interval, so chance or rounding
may have decided on which side it lies."""
Words = Annotated[str, Field(max_length=4_000)]
Row = Annotated[tuple[Words, ...], Field(min_length=1, max_length=60)]


class OwnTable(Frozen):
    """One table of text."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    """above the table"""
    note: Words = ""
    """what a reader must know to understand it"""
    head: Row
    """names of the columns"""
    rows: Annotated[tuple[Row, ...], Field(max_length=5_000)]
    """cells, as many in each row as there are columns"""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.head):
                raise ValueError(
                    f"row {number} of “{self.title}” has {len(row)} cells, its head {len(self.head)}"
                )
        return self

    def markdown(self) -> str:
        """Return a section with the table, as Markdown."""
        lines = [self.head, ("---",) * len(self.head), *self.rows]
        texts = [f"| {' | '.join(map(_cell, line))} |" for line in lines]
        return "\n\n".join(filter(None, [f"## {_line(self.title)}", self.note, "\n".join(texts)])) + "\n"


def _line(text: str) -> str:
    """Return a text without line breaks, which would end a heading or a table's row."""
    return " ".join(text.splitlines())


def _cell(text: str) -> str:
    """Return a text as a cell of a Markdown table. A backslash of its own must not escape the one that
    protects a `|`."""
    return re.sub(r"\\*\|", lambda found: 2 * found[0][:-1] + r"\|", _line(text))


class OwnTables(Artefact):
    """derived/tables.json: the study's own tables, made from the trials sealed at that time."""

    FORMAT: ClassVar[int] = 1
    made_by: Annotated[str, Field(max_length=300)]
    """who made them: the name of a script or a file"""
    trials: int
    """how many trials were sealed when they were made; with another number they are reported as old"""
    tables: Annotated[tuple[OwnTable, ...], Field(max_length=60)]
    """in the order in which they are shown"""

    def plain(self, sealed: int) -> dict[str, Any]:
        """Return them as plain data for a report of `sealed` trials, with a note of who made them and from
        which trials."""
        note = f"Made by {self.made_by} from this run's findings, not by svload: no verdict depends on them."
        if self.trials != sealed:
            note += (
                f" They are out of date: they cover {self.trials} trials, and {sealed} are sealed now; "
                "make them again."
            )
        return {"note": note, "tables": [one.model_dump() for one in self.tables]}


def shown_tables(path: Path, sealed: int) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the tables at `path` for a report of `sealed` trials, and notes on what could not be read of
    them."""
    try:
        return OwnTables.read(path).plain(sealed), ()
    except (SvloadError, OSError, ValueError, KeyError) as why:
        return None, (f"the study's own tables cannot be read: {why}",)


def read_tables(path: Path) -> list[OwnTable]:
    """Read tables from a file: {"tables": [{"title": …, "note": …, "head": […], "rows": [[…], …]}, …]}, or
    the list alone.

    Raises SvloadError usage.
    """

    def wrong(reason: str) -> Exception:
        hint = 'It holds {"tables": [{"title": "…", "note": "…", "head": ["…"], "rows": [["…"]]}]}.'
        return fail("usage", reason=f"--tables {path}: {reason}", hint=hint)

    try:
        if path.stat().st_size > MOST_BYTES:
            raise wrong(f"it is larger than {MOST_BYTES >> 20} MiB")
        raw = parsed(path.read_bytes())
        return TypeAdapter(list[OwnTable]).validate_python(
            raw["tables"] if isinstance(raw, dict) and "tables" in raw else raw
        )
    except ValidationError as why:
        first = why.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise wrong(f"{where}: {first['msg']}" if where else first["msg"]) from why
    except ValueError as why:
        raise wrong(f"it is not JSON ({' '.join(str(why).split())[:120]})") from why
    except OSError as why:
        raise wrong(why.strerror or str(why)) from why


def direction(first: Estimate | None, second: Estimate | None, theirs: float) -> str:
    """Compare the change from `first` to `second` with a paper's, in which the second number is `theirs`
    times the first.

    If the paper's number changes: agrees, opposite, or not distinguishable (our intervals overlap). If it
    stays (`STAYS`): agrees, both stay (the whole interval does), ours alone moves, or not distinguishable.
    If ours is missing: no interval, not measured.
    """
    if first is None or second is None or first.value is None or second.value is None:
        return "not measured"
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return "no interval"
    stays = abs(theirs - 1) <= STAYS
    ours_stays = (
        first.low > 0 and second.low >= (1 - STAYS) * first.high and second.high <= (1 + STAYS) * first.low
    )
    if stays and ours_stays:
        return "agrees: both stay"
    if first.high >= second.low and second.high >= first.low:
        return "not distinguishable"
    if stays:
        return "ours alone moves"
    return "agrees" if (second.value > first.value) == (theirs > 1) else "opposite"
