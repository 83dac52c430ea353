"""The live view of one load on stderr: a few lines that redraw on a terminal, one line per second elsewhere.

It uses only events (model.events); it measures nothing itself. rich is loaded only for a terminal.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from svload.model.events import Event
from svload.model.units import show_duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

KEPT = 60
"""Seconds shown in the sparklines."""
_SPARKS = "▁▂▃▄▅▆▇█"
SAME_S = 0.5
"""Reports closer together than this belong to the same second."""


class View(Protocol):
    """The receiver of the command's events."""

    def on_event(self, event: Event) -> None: ...


def sparkline(values: Sequence[float | None]) -> str:
    """Return the last 16 values as bars from zero; a value that was not measured is a gap."""
    shown = values[-16:]
    top = max((value for value in shown if value is not None), default=0) or 1
    return "".join(" " if value is None else _SPARKS[min(7, int(value / top * 7.999))] for value in shown)


@contextmanager
def load_view(lasts_s: float) -> Iterator[View]:
    """Yield the view of a load of `lasts_s` seconds that fits stderr. Nothing is written to stdout, or
    remains on a terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield PlainLoad(lasts_s)
        return
    view = ScreenLoad(lasts_s)
    try:
        yield view
    finally:
        view.close()


class _Seconds:
    """The last progress of the one group, in words."""

    def __init__(self, lasts_s: float) -> None:
        self.lasts_s = lasts_s
        self.offset_s = 0.0
        self.group: dict[str, Any] = {}
        self.last_second = 0

    def take(self, data: dict[str, Any]) -> bool:
        """Store a progress event; False for another of the same second, by another generator."""
        before_s, self.offset_s = self.offset_s, float(data["offset_s"])
        self.group = data["groups"][0]
        last = self.group["last"]
        self.last_second = last.get("ok", 0) + last.get("failed", 0)
        return self.offset_s - before_s > SAME_S

    @property
    def quantiles(self) -> str:
        last = self.group["last"]
        if not last.get("ok", 0) and last.get("failed", 0):
            return "none ok"
        if not last.get("ok", 0):
            return "no response yet" if not self.group["ok"] else "no response this second"
        p50, p99 = (
            show_duration((last.get(key) or 0) / 1e9) for key in ("response_p50_ns", "response_p99_ns")
        )
        return f"p50 {p50}  p99 {p99}"

    @property
    def errors(self) -> str:
        found = Counter(self.group["errors"]).most_common(2)
        return ", ".join(f"{count:,} {name}" for name, count in found)

    @property
    def under_way(self) -> str:
        return f"{self.group.get('in_flight', 0):,} in flight"


def _not_counted(data: dict[str, Any]) -> str:
    return f"this load does not count: {data.get('sentence', '')}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class PlainLoad(_Seconds):
    """One line per second, for logs and pipes."""

    def on_event(self, event: Event) -> None:
        data: dict[str, Any] = event.data
        if event.kind == "progress" and self.take(data):
            line = (
                f"{self.offset_s:4.0f} s  {self.last_second:9,}/s  {self.quantiles:26}  {self.under_way:>15}"
            )
            _say(line + (f"  failed: {self.errors}" if self.errors else ""))
        elif event.kind == "notice":
            _say(str(data.get("text", "")))
        elif event.kind == "trial-failed":
            _say(_not_counted(data))


class ScreenLoad(_Seconds):
    """Three lines that redraw: the progress, the last second, and the course of rate and latency."""

    def __init__(self, lasts_s: float) -> None:
        super().__init__(lasts_s)
        self.display: Live | None = None
        self.rates: deque[float] = deque(maxlen=KEPT)
        self.latencies: deque[float | None] = deque(maxlen=KEPT)
        self.note = ""

    def on_event(self, event: Event) -> None:
        data: dict[str, Any] = event.data
        if event.kind == "run-started":
            self._open()
        elif event.kind == "progress" and self.take(data):
            self.note = ""
            self.rates.append(self.last_second)
            self.latencies.append(self.group["last"].get("response_p99_ns") or None)
        elif event.kind == "notice":
            self.note = str(data.get("text", ""))
        elif event.kind == "trial-started" and self.display is None:
            self._open()
        elif event.kind in ("trial-sealed", "trial-stopped", "trial-failed"):
            self.close()
            if event.kind == "trial-failed":
                _say(_not_counted(data))
        if self.display is not None:
            self.display.refresh()

    def close(self) -> None:
        """Remove the lines."""
        if self.display is not None:
            self.display.stop()
            self.display = None

    def _open(self) -> None:
        from rich.live import Live

        from svload.report.terminal.console import live_console

        self.display = Live(
            get_renderable=self.render, console=live_console(), auto_refresh=False, transient=True
        )
        self.display.start(refresh=True)

    def render(self) -> RenderableType:
        """Return the lines, with all text within 80 columns."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        if not self.group:
            return Text(self.note or "starting …", style="dim")
        lines: list[RenderableType] = [
            ProgressBar(total=max(self.lasts_s, 1e-3), completed=min(self.offset_s, self.lasts_s), width=60),
            Text(f"{self.offset_s:.0f} s of {show_duration(self.lasts_s)}  {self.last_second:,}/s  {self.quantiles}  {self.under_way}"),
            Text(f"rate {sparkline(list(self.rates))}  p99 {sparkline(list(self.latencies))}", style="cyan"),
        ]  # fmt: skip
        if self.errors:
            lines.append(Text(f"failed: {self.errors}", style="red"))
        return Group(*lines)
