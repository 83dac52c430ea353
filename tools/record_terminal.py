"""A recording of a real run as one small animated SVG, for README and docs: `record_terminal.py RUN OUT.svg`.

The run's journals are played through the view that `svload run` shows, 80 columns wide, then the final table;
pages without animation show the table. Only the command line at its top is typed by hand.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from rich.console import Console
from rich.segment import Segment
from rich.terminal_theme import MONOKAI, TerminalTheme
from rich.text import Text

from svload import api
from svload.model.events import Event
from svload.report.terminal.live import ScreenView
from svload.report.terminal.tables import show_findings
from svload.store import RunDir, find_run, read_events

COLUMNS, ROWS = 80, 26
CELL_PX, LINE_PX, PAD_PX, BAR_PX = 8.4, 18, 14, 30
FRAMES, PLAY_S, HOLD_S = 60, 14.0, 7.0
THEME: TerminalTheme = MONOKAI
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"

Line = tuple[Segment, ...]


@dataclass
class Film:
    """Frames as tuples of line numbers; each distinct line is kept once. `still` is the picture for pages
    without animation: the table."""

    lines: dict[str, int] = field(default_factory=dict)
    frames: list[tuple[int, ...]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    still: int = 0

    def add(self, picture: Iterable[Line], seconds: float) -> None:
        """Add a frame of at most `ROWS` lines, the last ones."""
        drawn = [drawn_line(line) for line in picture][-ROWS:]
        self.frames.append(tuple(self.lines.setdefault(text, len(self.lines)) for text in drawn))
        self.seconds.append(seconds)


def drawn_line(line: Line) -> str:
    """Return one line's text elements; the same text gives the same string."""
    at, parts = 0, []
    for text, style, _ in line:
        width = len(text)
        if text.strip():
            fill = colour_of(style)
            weight = ' font-weight="700"' if style and style.bold else ""
            lead = width - len(text.lstrip())
            x = f"{(at + lead) * CELL_PX:.1f}"
            length = f"{len(text.strip()) * CELL_PX:.1f}"
            parts.append(f'<text x="{x}" textLength="{length}" fill="{fill}"{weight}>{escape(text.strip())}</text>')  # fmt: skip
        at += width
    return "".join(parts)


def colour_of(style: object) -> str:
    """Return a segment's colour in the theme; a dim one is mixed with the background."""
    colour = getattr(style, "color", None)
    red, green, blue = colour.get_truecolor(THEME) if colour else THEME.foreground_color
    if getattr(style, "dim", False):
        mixed = zip((red, green, blue), THEME.background_color, strict=True)
        red, green, blue = ((a * 3 + b * 2) // 5 for a, b in mixed)
    return f"#{red:02x}{green:02x}{blue:02x}"


def events_of(run: RunDir) -> list[Event]:
    """Return all events of the run: those in the run's journal, and those that only the trials' have."""
    found = list(read_events(run.events).events)
    for trial in run.sealed_trials():
        result = read_events(run.trial(trial).events).events
        found += [event for event in result if event.kind in ("progress", "trial-phase")]
    return sorted(found, key=lambda event: event.monotonic_ns)


def console() -> Console:
    """Return a colour terminal of `COLUMNS` whose output is discarded."""
    return Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=COLUMNS, height=ROWS, highlight=False, legacy_windows=False)  # fmt: skip


class Screen(ScreenView):
    """The live view, with what scrolls above it."""

    def __init__(self) -> None:
        super().__init__(console())
        self.above: list[Line] = []

    def _above(self, line: object) -> None:
        self.above += lines_of(self.console, line)

    def picture(self, prompt: Line) -> list[Line]:
        return [prompt, *self.above, *lines_of(self.console, self.render())]


def lines_of(out: Console, what: object) -> list[Line]:
    """Return what is printed, by line."""
    return [tuple(line) for line in out.render_lines(what, pad=False)]  # type: ignore[arg-type]


def film_of(events: Sequence[Event], command: str, end: Sequence[Line]) -> tuple[Film, float]:
    """Return the film of events and of what is printed after them, and its speed compared to real time."""
    screen, film = Screen(), Film()
    (prompt,) = lines_of(screen.console, Text.assemble(("$ ", "bold green"), command))
    begin_ns, end_ns = events[0].monotonic_ns, events[-1].monotonic_ns
    step_ns = max((end_ns - begin_ns) // FRAMES, 1)
    due_ns = begin_ns + step_ns
    for event, after in zip(events, [*events[1:], None], strict=True):
        screen.on_event(event)
        while after is not None and after.monotonic_ns >= due_ns:
            film.add(screen.picture(prompt), PLAY_S / FRAMES)
            due_ns += step_ns
    if len(end) > ROWS:
        film.add([prompt, *end[: ROWS - 1]], HOLD_S)
        film.still = len(film.frames) - 1
    film.add([prompt, *screen.above, *end], HOLD_S)
    film.still = film.still or len(film.frames) - 1
    return film, (end_ns - begin_ns) / 1e9 / PLAY_S


def final(run: RunDir) -> list[Line]:
    """Return what the command prints at its end, on a terminal of the same width; paths as a user would
    see them."""
    out = console()
    files = {name: Path("runs") / run.name / "derived" / name for name in ("findings.json", "report.html")}
    with out.capture() as reply:
        show_findings(api.analyse(run), files, out)
    return [
        line for row in reply.get().splitlines() for line in lines_of(out, Text.from_ansi(row, no_wrap=True))
    ]


def svg(film: Film, title: str) -> str:
    """Return the film as one SVG: frames side by side, moved in steps; without animation one is shown."""
    width, height = COLUMNS * CELL_PX + 2 * PAD_PX, ROWS * LINE_PX + BAR_PX + 2 * PAD_PX
    total = sum(film.seconds)
    steps, at = [], 0.0
    for number, seconds in enumerate(film.seconds):
        steps.append(f"{100 * at / total:.2f}%{{transform:translateX({-number * width:.0f}px)}}")
        at += seconds
    still, last = (f"translateX({-at * width:.0f}px)" for at in (film.still, len(film.frames) - 1))
    red, green, blue = THEME.background_color
    frames = [
        f'<g transform="translate({number * width:.0f} '
        f'0)">{"".join(f"""<use href="#l{line}" y="{row * LINE_PX}"/>""" for row, line in enumerate(frame))}</g>'
        for number, frame in enumerate(film.frames)
    ]
    lines = "".join(f'<g id="l{number}">{text}</g>' for text, number in film.lines.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img">'
        f"<title>{escape(title)}</title><style>text{{font:14px "
        f"{FONT};white-space:pre}}.film{{transform:{still};animation:film {total:.1f}s steps(1) infinite}}"
        f"@keyframes film{{{''.join(steps)}100%{{transform:{last}}}}}@media(prefers-reduced-motion:reduce){{.film{{animation:none}}}}</style>"
        f'<defs>{lines}<clipPath id="screen"><rect width="{COLUMNS * CELL_PX:.0f}" '
        f'height="{ROWS * LINE_PX + 6}"/></clipPath></defs>'
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#{red:02x}{green:02x}{blue:02x}"/>'
        f'<g fill="#5b5b52"><circle cx="18" cy="16" r="5"/><circle cx="36" cy="16" r="5"/><circle cx="54" '
        f'cy="16" r="5"/></g>'
        f'<text x="{width - PAD_PX:.0f}" y="20" text-anchor="end" style="font-size:12px" '
        f'fill="#9b9b8f">{escape(title)}</text>'
        f'<g transform="translate({PAD_PX} {BAR_PX + PAD_PX})" clip-path="url(#screen)"><g '
        f'transform="translate(0 13)"><g class="film">{"".join(frames)}</g></g></g></svg>\n'
    )


def write_recording(run: RunDir, command: str, to: Path) -> None:
    """Write the film of `run` as an SVG; numbers without useless decimals."""
    film, faster = film_of(events_of(run), command, final(run))
    pace = f", {faster:.0f} times as fast" if faster > 1.5 else ""
    text = svg(film, f"{command}: a real run{pace}")
    to.write_text(re.sub(r"(?<=\d)\.0(?=\D)", "", text), encoding="utf-8")


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", help="a finished run's folder")
    parser.add_argument("out", type=Path, help="the SVG")
    parser.add_argument("--command", default="svload demo", help="the command that made the run")
    asked = parser.parse_args(words)
    write_recording(find_run(asked.run, Path("runs")), asked.command, asked.out)
    print(f"{asked.out}: {asked.out.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
