"""Tables of a study's own, such as a paper's beside ours. A script makes them of a run's findings, and each report of
the run shows them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from svload.model.base import Artefact, Frozen

Words = Annotated[str, Field(max_length=4_000)]
Row = Annotated[tuple[Words, ...], Field(min_length=1, max_length=60)]


class OwnTable(Frozen):
    """One table of text."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    """above the table"""
    note: Words = ""
    """what has to be known to read it"""
    head: Row
    """names of the columns"""
    rows: Annotated[tuple[Row, ...], Field(max_length=5_000)]
    """cells, as many a row as there are columns"""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.head):
                raise ValueError(
                    f"row {number} of “{self.title}” has {len(row)} cells, its head {len(self.head)}"
                )
        return self

    def markdown(self) -> str:
        """A section with the table, as Markdown."""
        lines = [self.head, ("---",) * len(self.head), *self.rows]
        told = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]
        return "\n\n".join(filter(None, [f"## {self.title}", self.note, "\n".join(told)])) + "\n"


class OwnTables(Artefact):
    """derived/tables.json: the study's own tables, of the trials that were sealed then."""

    FORMAT: ClassVar[int] = 1
    made_by: Annotated[str, Field(max_length=300)]
    """who made them: a script's or a file's name"""
    trials: int
    """how many trials were sealed when they were made; with another number they are told as old"""
    tables: Annotated[tuple[OwnTable, ...], Field(max_length=60)]
    """in the order in which they are shown"""
