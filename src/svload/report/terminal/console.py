"""Consoles for commands: text of runs, servers and studies cannot control the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import IO, Any, cast

from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod, RenderableType
from rich.segment import Segment
from rich.table import Table

from svload.model.visible import PlainStream, visible

WIDTH = 100
"""Width without a terminal."""
MOST_LINES = 24
"""Maximum number of lines that a command prints at its end, apart from a table of cases."""


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


def plain_table(
    headings: Iterable[str], numbers: JustifyMethod = "left", overflow: OverflowMethod = "fold"
) -> Table:
    """Return a table without lines; columns after the first are justified as `numbers`."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, heading in enumerate(headings):
        table.add_column(heading, justify=numbers if at else "left", overflow=overflow)
    return table
