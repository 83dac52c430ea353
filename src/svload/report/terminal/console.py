"""Consoles for commands: text of runs, servers and studies cannot control the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import IO, Any, cast

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from svload.model.visible import PlainStream, visible

WIDTH = 100
"""Width without a terminal."""
MOST_LINES = 24
"""Maximum number of lines that a command prints at its end, apart from a table of cases."""
_GAP, _LEAST_NAME = 2, 9
"""Space between two columns, and the width to which names of rows fold before numbers are left out."""


class PlainConsole(Console):
    """A console whose text cannot control the terminal; only its own controls and colours can."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else visible(segment.text)
            yield segment if shown == segment.text else Segment(shown, segment.style)


def console() -> Console:
    """Return the console of stdout; without a terminal 100 columns and no colour. A study's text is no
    mark-up: `[/b]` is a level like any other."""
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", WIDTH))
    return PlainConsole(
        file=_drawn(sys.stdout), highlight=False, markup=False, emoji=False, width=width, soft_wrap=False
    )


def height(out: Console, line: RenderableType, width: int) -> int:
    """Return the number of lines that a text takes at this width."""
    return len(out.render_lines(line, out.options.update(width=width), pad=False))


def live_console() -> Console:
    return PlainConsole(file=_drawn(sys.stderr), stderr=True, highlight=False, markup=False, emoji=False)


def _drawn(stream: Any) -> IO[str]:
    return cast("IO[str]", stream.obeyed if isinstance(stream, PlainStream) else stream)


def plain_table(headings: Iterable[str]) -> Table:
    """Return a table without lines."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def number_table(
    columns: Mapping[str, Sequence[str]], kept: Iterable[str], width: int, styles: Sequence[str] = ()
) -> Iterator[Table | Text]:
    """Yield a table of numbers, which are never cut, and a line that names the columns left out for lack of
    room: the last ones of `kept`. The first column has the rows' names, which fold before."""
    names, *numbers = columns
    widths = {heading: max(map(cell_len, (heading, *cells))) for heading, cells in columns.items()}
    room = width - min(widths[names], _LEAST_NAME)
    shown = {names}
    for heading in kept:
        room -= _GAP + widths[heading]
        if room < 0:
            break
        shown.add(heading)
    table = plain_table(heading for heading in columns if heading in shown)
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    rows = zip(*(cells for heading, cells in columns.items() if heading in shown), strict=True)
    for cells, style in zip(rows, styles or repeat(""), strict=False):
        table.add_row(*cells, style=style)
    yield table
    if unseen := ", ".join(heading for heading in numbers if heading not in shown):
        yield Text(f"no room for {unseen}: a wider terminal or --json shows more", style="dim")
