"""Options of a traffic group, each described once: field, type, default, bound and words.

The study's schema and its reference, `Group`, the share, flags of `svload load` and a load's words are made
of this. Only the standard library: a command's flags are known before anything that validates is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from svload.model.bounds import GENERATORS, QUANTUM_NS, SPIN_NS, VUS, Bound
from svload.model.units import show_duration


@dataclass(frozen=True)
class Option:
    """What its type and default do not say."""

    doc: str
    """in the study's schema and reference"""
    most: Bound | None = None
    """the largest value; None: any time that a study takes"""
    least: int = 0
    """the smallest, where there is a largest"""
    example: str = ""
    """of a time: as one writes it"""
    flag: str = ""
    """in the help of `svload load`, which then has a flag of that name; empty: it has none"""
    told: str = ""
    """in a load's words where it is not the default, `{}` being the value; empty: they are silent"""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """A `Group` out of bounds can't be made."""
        bounds = {} if self.most is None else {"ge": self.least, "le": self.most.most}
        return {**handler(source), **bounds}


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What the engine takes as the study has it: `GroupSpec` in
    engine/engine/src/share.rs has a field of the same name."""

    client: Annotated[Literal["engine", "curl"], Option("curl: asks as curl does, every request a row")] = (
        "engine"
    )
    tls_resumption: Annotated[bool, Option("whether a new connection may resume an earlier TLS session")] = (
        True
    )
    connect_timeout_ns: Annotated[
        int | None,
        Option(
            "how long a new connection may take to stand, its TLS handshake included; left out: until the "
            "request's timeout",
            flag="Fail a request whose new connection does not stand within this, such as 1s.",
            told="connections stand within {}",
        ),
    ] = None
    pacing_quantum_ns: Annotated[
        int,
        Option(
            "begin what is due only so often, all at once: far less CPU at high rates, for lag that the result shows",
            most=QUANTUM_NS,
            example="1 ms",
            flag="Begin what is due only so often, such as 1ms: less CPU, more lag.",
            told="starts only every {}",
        ),
    ] = 0


@dataclass(frozen=True, kw_only=True)
class GroupOptions(EngineOptions):
    """And what svload itself acts on, or tells the engine in another form (`drive/share/cut.py`)."""

    connection: Annotated[
        Literal["keep-alive", "new", "shared"],
        Option("new: one for each request; shared: users take any that is free"),
    ] = "keep-alive"
    generators: Annotated[
        int,
        Option(
            "how many generators share the load, each with its own results; those beyond the cores of the "
            "load share processes",
            most=GENERATORS,
            least=1,
        ),
    ] = 1
    graceful_stop_ns: Annotated[
        int | None,
        Option("how long what is due by the end is still followed; left out: to its time-out"),
    ] = None
    record: Annotated[
        Literal["auto", "rows", "histogram"],
        Option("rows: each request; auto: rows up to 1,000/s"),
    ] = "auto"
    spin_ns: Annotated[
        int,
        Option(
            "so long before each start, and for awaited answers before sleeping, ask again and again: "
            "on time and heard at once, at the price of CPU",
            most=SPIN_NS,
            example="60 us",
            flag="Before each start and for awaited answers, ask again and again for so long, such as 60us: "
            "less lag, more CPU.",
        ),
    ] = 0
    close: Annotated[
        Literal["fin", "reset"],
        Option("reset: connections end with RST, so that no local port rests in TIME_WAIT"),
    ] = "fin"
    streams: Annotated[
        int, Option("how many users, or requests at once, share an HTTP/2 connection", most=VUS, least=1)
    ] = 1


@dataclass(frozen=True)
class Described:
    """An option with its field's name, type and default."""

    name: str
    kind: Any
    default: Any
    option: Option

    @property
    def key(self) -> str:
        """In the study file; with dashes the flag."""
        return self.name.removesuffix("_ns")

    @property
    def is_time(self) -> bool:
        """Whether it is written with its unit."""
        return self.name.endswith("_ns")

    def words(self, value: Any) -> str:
        """What a load's words say of `value`; empty where nothing is to be said."""
        if not self.option.told or value == self.default:
            return ""
        return self.option.told.format(show_duration(value / 1e9) if self.is_time else value)


@cache
def group_options() -> tuple[Described, ...]:
    """All options, in the order in which they are described."""
    return tuple(_described())


def flagged() -> tuple[Described, ...]:
    """Those that `svload load` has a flag for."""
    return tuple(one for one in group_options() if one.option.flag)


def _described() -> Iterator[Described]:
    hints = get_type_hints(GroupOptions, include_extras=True)
    for one in fields(GroupOptions):
        kind, option = get_args(hints[one.name])
        yield Described(one.name, kind, one.default, option)
