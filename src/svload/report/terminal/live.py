"""The live view of a run on stderr: a screen that redraws on a terminal, plain lines elsewhere.

It uses only events (model.events); it measures nothing itself.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from svload.model.events import Event
from svload.model.units import show_duration
from svload.model.visible import visible
from svload.report.terminal.console import live_console
from svload.report.terminal.load_live import View, sparkline
from svload.report.wording.search_rows import MARKS
from svload.report.wording.spelling import count_words, list_words

GRADE_STYLE = {"VALID": "green", "WEAK": "yellow", "REFUSED": "bold red"}
_SHOWN_STATES = ("SATURATED", "OVERLOADED")
"""States reported for a single trial: flat throughput over several loads is known at the end."""
_PHASES = {
    "waiting": "waiting for another load on this machine",
    "install": "installing what the kits need",
    "look": "checking what else runs on this machine",
    "up": "preparing the lab",
    "fill": "filling the stores and listing every URL",
    "analyse": "judging every trial",
    "report": "writing the report",
    "reset": "resetting the servers",
    "warm": "warming",
    "restart": "restarting servers",
    "populate": "populating",
    "drop-cache": "dropping files from the page cache",
    "count": "reading the servers' counters",
    "load": "under load",
    "settle": "waiting for the counters",
    "write": "writing the trial",
    "heal": "ending planned faults",
    "drain": "waiting for the servers to become idle",
    "seal": "sealing",
}


@contextmanager
def live_view() -> Iterator[View]:
    """Yield the view that fits stderr. `NO_COLOR` is honoured; nothing is written to stdout."""
    console = live_console()
    if not console.is_terminal or os.environ.get("TERM") == "dumb":
        yield PlainView()
        return
    view = ScreenView(console)
    # Only events change the display: redrawing at each disturbs the load less than a timer.
    with Live(get_renderable=view.render, console=console, auto_refresh=False, transient=True) as display:
        view.display = display
        yield view


def trial_line(data: dict[str, Any], done: int, total: int) -> str:
    """Return one line on a sealed trial: its number, name and headline, and its server's state if that is
    notable. Its checks' findings are only counted."""
    server = f", server {data['server']}" if data["server"] in _SHOWN_STATES else ""
    return visible(f"[{done}/{total}] {data['trial']}  {data.get('headline', '')}{server}")


class _Counting:
    """State of both views: how many trials are sealed, how long one takes, what was shown."""

    def __init__(self) -> None:
        self.total = self.done = self.before = self.most = 0
        self.begun_ns = self.now_ns = 0
        self.within_s = self.ends_ns = inf
        self.study = ""
        self.shown_before: set[str] = set()
        self.search: Text | None = None
        self.grades: Counter[str] = Counter()

    def message(self, event: Event) -> str:
        """Return what an event tells people: planted faults, a failure, a notice, a setting; else ""."""
        data: dict[str, Any] = event.data
        if event.kind == "run-started" and data.get("plants"):
            return (
                f"planted faults: {', '.join(f'{fault} in {case}' for case, fault in data['plants'].items())}"
            )
        if event.kind in ("trial-failed", "notice", "fault"):
            return f"{data.get('trial', '')} {data.get('sentence') or data.get('text', '')}".strip()
        return self._setting(data) if event.kind == "setting" else ""

    def _setting(self, data: Mapping[str, Any]) -> str:
        """Return a message on a setting that differs from the requested one; "" if it was shown before."""
        found = "nothing" if data.get("found") is None else data["found"]
        why = f" ({data['why']})" if data.get("why") else ""
        line = f"{data['what']}: asked {data['asked']}, in force {found}{why}"
        fresh = line not in self.shown_before
        self.shown_before.add(line)
        return line if fresh else ""

    def count(self, event: Event) -> None:
        data: dict[str, Any] = event.data
        self.now_ns = event.monotonic_ns
        if event.kind == "run-started":
            self.total, self.done = int(data["trials"]), int(data["sealed"])
            self.most = int(data.get("most_trials") or 0)
            self.within_s = float(data.get("within_s") or inf)
            self.before = self.done
            self.study = " ".join(str(part) for part in (data.get("study"), data.get("profile")) if part)
        elif event.kind == "placement":  # the run has the machine to itself: its time begins
            self.ends_ns = event.monotonic_ns + 1e9 * self.within_s
        elif event.kind == "batch":
            self.total += int(data["trials"])
            self.search = search_line(data)
        elif event.kind == "trial-started" and self.done == self.before:
            self.begun_ns = event.monotonic_ns
        elif event.kind == "trial-sealed":
            self.done += 1
            self.grades[str(data["instrument"])] += 1

    @property
    def so_far(self) -> str:
        """`12 rough, 1 broken so far`: the trials by grade; "" if all are valid."""
        words = (("WEAK", "rough"), ("REFUSED", "broken"))
        texts = [f"{count} {word}" for grade, word in words if (count := self.grades[grade])]
        return f"{', '.join(texts)} so far" if texts else ""

    @property
    def left_words(self) -> str:
        """`about 2 min left`, and how long with all the blocks that may be added; "" if unknown."""
        left = self.left_s
        if not left:
            return ""
        text = f"about {show_duration(left)} left"
        if self.most <= self.total or self.total <= self.done:
            return text
        most = min(left * (self.most - self.done) / (self.total - self.done), self._until_end_s)
        return f"{text}, at most {show_duration(most)} with added blocks" if most > left else text

    @property
    def _until_end_s(self) -> float:
        """Seconds left of the time that the run was given; inf without."""
        return max((self.ends_ns - self.now_ns) / 1e9, 0.0)

    @property
    def left_s(self) -> float | None:
        """Seconds left at the pace so far; None before a trial is sealed, and in a search."""
        fresh = self.done - self.before
        if fresh <= 0 or self.search is not None:
            return None
        each_s = (self.now_ns - self.begun_ns) / 1e9 / fresh
        return min(each_s * max(self.total - self.done, 0), self._until_end_s)


class PlainView(_Counting):
    """One line per important event, for logs and pipes."""

    def on_event(self, event: Event) -> None:
        self.count(event)
        data: dict[str, Any] = event.data
        if event.kind == "run-started":
            self._say(
                f"{self.study}: {count_words(self.total, 'trial')}"
                + (f", {self.done} of them made before" if self.done else "")
                + f", seed {data.get('seed')}"
            )
        elif event.kind == "phase" and data.get("state") == "begin":
            self._say(f"{_PHASES.get(data['name'], data['name'])} …")
        elif event.kind == "trial-sealed":
            texts = [part for part in (self.so_far, self.left_words) if part]
            self._say(trial_line(data, self.done, self.total) + (f"  ({'; '.join(texts)})" if texts else ""))
        elif event.kind == "batch" and self.search is not None:
            self._say(f"{self.search.plain}; next, {data['because']}")
        elif event.kind == "trial-stopped":
            self._say(f"{data['trial']} was stopped; it is kept under attempts and does not count")
        if message := self.message(event):
            self._say(message)

    @staticmethod
    def _say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class ScreenView(_Counting):
    """A few lines at the bottom of the terminal; sealed trials scroll above them."""

    display: Live | None = None

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self.phase = ""
        self.under_way: dict[str, list[dict[str, Any]]] = {}
        """trial → its groups in the last report; several trials may take turns"""
        self.waiting = ""
        self.groups: list[dict[str, Any]] = []
        self.rates: deque[float] = deque(maxlen=40)
        self.latencies: deque[float | None] = deque(maxlen=40)
        self.offset_s = 0.0
        self.generator_cpu_s: dict[str, tuple[float, float]] = {}
        self.of_trial: dict[str, dict[str, float]] = {}
        """trial → busy cores in the last report"""
        self.cores: dict[str, float] = {}

    def on_event(self, event: Event) -> None:
        self.count(event)
        data: dict[str, Any] = event.data
        self.waiting = str(data.get("waiting", "")) if event.kind == "notice" else ""
        if event.kind in ("trial-sealed", "trial-failed", "trial-stopped"):
            self.under_way.pop(str(data["trial"]), None)
        if event.kind in ("phase", "trial-phase"):
            self.phase = (
                "" if data.get("state") == "end" else _PHASES.get(str(data["name"]), str(data["name"]))
            )
        elif event.kind == "trial-started":
            self.under_way[str(data["trial"])], self.groups, self.offset_s = [], [], 0.0
            self.generator_cpu_s, self.of_trial, self.cores = {}, {}, {}
            self.rates.clear()
            self.latencies.clear()
        elif event.kind == "progress":
            self._progress(data)
        elif event.kind == "trial-sealed":
            line = trial_line(data, self.done, self.total)
            self._above(Text(line, style=GRADE_STYLE[str(data["instrument"])]))
        if message := self.message(event):
            self._above(Text(message, style="magenta"))
        if self.display is not None:
            self.display.refresh()

    def _progress(self, data: dict[str, Any]) -> None:
        self.phase, self.offset_s = _PHASES["load"], float(data["offset_s"])
        trial = str(data["trial"])
        self.under_way[trial] = data["groups"]
        self.groups = _together(list(self.under_way.values()))
        cores = {str(service): float(cores) for service, cores in data.get("service_cores", {}).items()}
        if (used_s := data.get("generator_cpu_s")) is not None:
            before = self.generator_cpu_s.get(trial)
            self.generator_cpu_s[trial] = self.offset_s, float(used_s)
            if before is not None and self.offset_s > before[0]:
                busy = (float(used_s) - before[1]) / (self.offset_s - before[0])
                cores = {"generators": busy, **cores}
        self.of_trial[trial] = cores
        names = dict.fromkeys(name for one in self.of_trial.values() for name in one)
        self.cores = {name: sum(one.get(name, 0.0) for one in self.of_trial.values()) for name in names}
        self.rates.append(sum(_ended(group["last"]) for group in self.groups))
        self.latencies.append(
            max((group["last"].get("response_p50_ns") or 0 for group in self.groups), default=0) or None
        )

    def _above(self, line: Text) -> None:
        self.console.print(line)

    def render(self) -> RenderableType:
        """Return the bottom lines, with all text within 80 columns."""
        head = Text.assemble((self.study or "svload", "bold"), f"  {self.done}/{self.total} trials")
        if self.so_far:
            head.append(f"  {self.so_far}", style="yellow")
        if left := self.left_words:
            head.append(f"  {left}", style="dim")
        bar = Table.grid()  # a single bar ends without a new line
        bar.add_row(ProgressBar(total=max(self.total, 1), completed=self.done, width=60))
        lines: list[RenderableType] = [head, bar]
        if self.search is not None:
            lines.append(self.search)
        if self.under_way or self.phase:
            at = f" {self.offset_s:.0f} s" if self.groups else ""
            lines.append(Text(visible(f"{list_words(list(self.under_way))} {self.phase}{at}".strip())))
        if self.waiting:
            lines.append(Text(visible(f"waiting for this machine: {self.waiting}"), style="yellow"))
        if self.groups:
            lines.append(self._load())
        return Group(*lines)

    def _load(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for _ in range(5):
            table.add_column(overflow="fold")
        for group in self.groups:
            last = group["last"]
            ended = _ended(last)
            median = show_duration(last.get("response_p50_ns", 0) / 1e9) if ended else "–"
            errors = ", ".join(f"{count} {name}" for name, count in Counter(group["errors"]).most_common(2))
            table.add_row(
                Text(visible(str(group["name"]))),
                count_words(group.get("active_vus", 0), "VU"),
                f"{ended}/s",
                f"p50 {median}",
                Text(errors or "no errors", style="red" if errors else "dim"),
            )
        sparks = Table.grid(padding=(0, 2))
        sparks.add_row("rate", sparkline(list(self.rates)), "latency", sparkline(list(self.latencies)))
        lines: list[RenderableType] = [table, sparks]
        if self.cores:
            shown = " · ".join(f"{visible(name)} {cores:.1f}" for name, cores in self.cores.items())
            lines.append(Text(f"busy cores: {shown}", style="dim", overflow="fold"))
        return Group(*lines)


def _together(sides: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Merge groups of trials that take turns: the sum of their answers, the busiest one's median."""
    found: dict[str, dict[str, Any]] = {}
    for group in (one for side in sides for one in side):
        name, last = str(group["name"]), group["last"]
        if name not in found:
            found[name] = {**group, "last": dict(last), "errors": dict(group["errors"])}
            continue
        one, so_far = found[name], found[name]["last"]
        if _ended(last) > _ended(so_far):
            so_far["response_p50_ns"] = last.get("response_p50_ns", 0)
        for key in ("ok", "failed"):
            so_far[key] = so_far.get(key, 0) + last.get(key, 0)
        one["active_vus"] = max(one.get("active_vus", 0), group.get("active_vus", 0))
        one["errors"] = dict(Counter(one["errors"]) + Counter(group["errors"]))
    return list(found.values())


def _ended(last: Mapping[str, Any]) -> int:
    return int(last.get("ok", 0) + last.get("failed", 0))


SEARCH_STYLES = {"holds": "green", "breaks": "red", "mixed": "yellow", "no number": "dim"}
_MOST = 10


def search_line(data: dict[str, Any]) -> Text | None:
    """Return `users: 8 ✓  16 ✓  23 ✗   about 19 (17 to 22)`, the loads nearest to the limit. None if the
    batch is not a search's."""
    if "over" not in data:
        return None
    line = Text(f"{data['over']}:", style="bold")
    for load, outcome in _nearest(data):
        line.append(f"  {load:,} {MARKS[outcome]}", style=SEARCH_STYLES[outcome])
    limit, low, high = (data.get(name) for name in ("limit", "low", "high"))
    if limit is not None and low is not None and high is not None:
        line.append(f"   about {limit:,.0f} ({low:,.0f} to {high:,.0f})", style="bold")
    elif low is not None and high is not None:
        line.append(f"   between {low:,} and {high:,}", style="bold")
    elif low is not None or high is not None:
        line.append(f"   {'above' if low is not None else 'below'} {low or high:,}", style="bold")
    return line


def _nearest(data: dict[str, Any]) -> list[tuple[int, str]]:
    levels = [(int(load), str(outcome)) for load, outcome in data.get("levels", ())]
    middle = data.get("limit") or data.get("high") or data.get("low")
    if len(levels) <= _MOST or middle is None:
        return levels[-_MOST:]
    return sorted(sorted(levels, key=lambda one: abs(one[0] - middle))[:_MOST])
