"""Tables of finished results, such as those in papers: their cells, and what is known about them. Plain data,
each table readable without the others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from svload.model.base import Frozen

Number = str | int | float


class Given(Frozen):
    """What a table's text states and its columns do not. Quantities with their unit."""

    users: Number | None = None
    """users of the closed loop, where no column has them"""
    load: Literal["closed", "open"] | None = None
    """closed: users wait for answers; open: arrivals do not; left out: not known"""
    run_time: Number | None = None
    """how long each row was measured, where no column says so: 60s"""
    think_time: Number | None = None
    """pause between a user's requests, where no column says so: 0s"""
    spawn_rate: Number | None = None
    """users started per second, within the time that was measured: 1/s"""
    payload: Number | None = None
    """size of an answer: 5 MB"""
    time_unit: Literal["ns", "us", "ms", "s"] | None = None
    """unit of times in columns that name none"""
    stated_unit: Literal["ns", "us", "ms", "s"] | None = None
    """unit that the text states for them, where it differs"""
    same_host: bool = False
    """generator and servers shared one machine"""
    generator_shares: str = ""
    """what else uses the generator's machine, where the servers are elsewhere: its own disk writes"""


class Quote(Frozen):
    """A number that the text gives for one cell."""

    text: str
    """the quote, shortened"""
    where: dict[str, Number]
    """column → value: the row that it refers to"""
    column: str
    """the column that it refers to"""
    value: float
    """the number that it gives"""


class Headline(Frozen):
    """A text's claim of "up to" about a column."""

    text: str
    """the claim, shortened"""
    column: str
    """the column that it is about; if no table has it, the claim follows from none"""
    value: float
    """the number that it gives, in the column's unit"""


class Model(Frozen):
    """What a column depends on according to the text."""

    text: str
    """the statement, shortened"""
    target: str
    """the column that is explained"""
    of: tuple[str, ...]
    """the columns that it is said to depend on; `name^2` is the square"""
    rival: tuple[str, ...] = ()
    """columns of another form to compare it with; empty: none"""
    group: str
    """the column whose values are left out in turn"""


class About(Frozen):
    """`<table>.about.yaml`: what is known about a table of results beside its cells."""

    given: Given = Given()
    """what the text states and no column does"""
    columns: dict[str, str] = {}
    """column → its meaning (users, throughput, response, think, requests, in_flight, run_time), where its
    name does not show it"""
    derive: dict[str, str] = {}
    """new column → `column.place` (the number at that place, from 0, of a value such as 1/2/4), `a * b`,
    `a / b`, or `users in all`: `users` of `users_unit`"""
    quotes: tuple[Quote, ...] = ()
    """numbers that the text repeats from the table"""
    headlines: tuple[Headline, ...] = ()
    """what the text claims "up to" about the table"""
    models: tuple[Model, ...] = ()
    """what columns depend on according to the text"""


_UNIT_SUFFIX = {
    "_ns": 1e-9, "_us": 1e-6, "_ms": 1e-3, "_s": 1.0, "_pct": 0.01, "_per_s": 1.0, "_mbps": 125_000.0, "_bytes": 1.0,
}  # fmt: skip
_ROLES: Mapping[str, re.Pattern[str]] = {
    "users": re.compile(r"(users|vus|threads|concurrency|n|user_count)(_total)?"),
    "throughput": re.compile(
        r"(max_|mean_)?(ok_)?(throughput(_per_s|_rps)?|(requests|rate)_per_s|rps)|requests/s"
    ),
    "response": re.compile(
        r"(mean|average|avg)_(elapsed|response|response_time|latency)(_(ms|us|s))?.*|average response time"
    ),
    "think": re.compile(r"(delay|think_time|think|pause)_(ms|us|s)"),
    "requests": re.compile(r"requests|samples|count|request count|# requests"),
    "in_flight": re.compile(r"(littles_law_)?l|in_flight|concurrent"),
    "run_time": re.compile(r"(run_time|duration|elapsed_time)_(ms|s)"),
}
_LOCUST_MEAN = "Average Response Time"
"""Locust's own column, which is in ms."""
_MEASURED = re.compile(
    r"(mean|median|avg|average|max|min|std|p\d|l$|littles|in_flight|throughput|requests?|rps|rate|success|miss|improvement|"
    r"n_star|bottleneck|errors?|failed|latency|elapsed|cpu_|memory_|out_|found)",
    re.IGNORECASE,
)
"""Names of results: the columns before the first of them are what was varied."""
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


@dataclass(frozen=True)
class Table:
    """One table: texts by column as in the file, the file's line of each row, and what is known about it."""

    name: str
    path: str
    columns: Mapping[str, tuple[str, ...]]
    lines: tuple[int, ...]
    about: About = field(default_factory=About)

    def __len__(self) -> int:
        return len(self.lines)

    def has(self, *names: str) -> bool:
        """Return whether it has all these columns."""
        return all(name in self.columns for name in names)

    @property
    def factors(self) -> tuple[str, ...]:
        """The columns of what was varied: those before the first result."""
        found: list[str] = []
        for name in self.columns:
            if _MEASURED.match(name) or self.about.columns.get(name) not in (
                None,
                "users",
                "think",
                "run_time",
            ):
                break
            found.append(name)
        return tuple(found)

    def numbers(self, column: str) -> list[float]:
        """Return a column's cells as plain numbers, without conversion of units; NaN for other cells."""
        return [number(cell) for cell in self.columns[column]]

    def column_of(self, role: str) -> str | None:
        """Return the column with this role (`About.columns`, else by its name); None where there is none."""
        column = next((name for name, what in self.about.columns.items() if what == role), None)
        if column is not None:
            return column if column in self.columns else None
        taken = set(self.about.columns)
        pattern = _ROLES[role]
        return next((n for n in self.columns if n not in taken and pattern.fullmatch(n.lower())), None)

    def quantity(self, role: str) -> list[float] | None:
        """Return the column of this role in base units (s, bytes, 1/s, count); None where there is none."""
        name = self.column_of(role)
        if name is None:
            return None
        scale = self.scale(name)
        return [value * scale for value in self.numbers(name)]

    def scale(self, column: str) -> float:
        """Return the factor from a column's numbers to base units: by the unit in its name, or for times
        without one by what the text states."""
        if column == _LOCUST_MEAN:
            return 1e-3
        unit = re.search(r"_(per_s|mbps|bytes|pct|ns|us|ms|s)(?=_at_|$)", column)
        if unit is not None:
            return _UNIT_SUFFIX[f"_{unit[1]}"]
        stated = self.about.given.time_unit
        if stated is not None and self.about.columns.get(column) == "response":
            return _UNIT_SUFFIX[f"_{stated}"]
        return 1.0

    def row(self, at: int, columns: Sequence[str] = ()) -> str:
        """Describe a row in words: `cpus 0.8, delay_ms 100`; without such columns by its first one."""
        shown = [name for name in columns if name in self.columns]
        if not shown:
            return next(iter(self.columns.values()))[at]
        return ", ".join(f"{name} {self.columns[name][at]}" for name in shown if self.columns[name][at])


@dataclass(frozen=True)
class TableFinding:
    """A check's finding in a table: the lines of its rows, a sentence, and what to do instead."""

    table: str
    place: str
    """`file:line` of the first row that it rests on"""
    lines: tuple[int, ...]
    sentence: str
    instead: str


@dataclass(frozen=True)
class TableCheckResult:
    """The result of one check over all tables: its findings; `measured` False where no table holds the facts
    for it, as `sentence` says."""

    check: str
    measured: bool
    sentence: str
    findings: tuple[TableFinding, ...] = ()


def number(cell: str) -> float:
    """Return a cell as a number; NaN where it is not a finite number."""
    text = cell.strip()
    if not _PLAIN_NUMBER.fullmatch(text):
        return math.nan
    value = float(text)
    return value if math.isfinite(value) else math.nan
