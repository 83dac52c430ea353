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

    client: Annotated[
        Literal["engine", "curl"], Option("curl: requests as curl makes them, one row each")
    ] = "engine"
    tls_resumption: Annotated[bool, Option("whether a new connection may resume an earlier TLS session")] = (
        True
    )
    connect_timeout_ns: Annotated[
        int | None,
        Option(
            "how long a new connection may take, including its TLS handshake; default: the request's timeout",
            flag="Timeout of a new connection, such as 1s; the request then fails.",
            told="connect timeout {}",
        ),
    ] = None
    pacing_quantum_ns: Annotated[
        int,
        Option(
            "start due requests only this often, in batches: far less CPU at high rates, but more lag, which the "
            "result shows",
            most=QUANTUM_NS,
            example="1 ms",
            flag="Start due requests only this often, such as 1ms: less CPU, more lag.",
            told="starts only every {}",
        ),
    ] = 0


@dataclass(frozen=True, kw_only=True)
class GroupOptions(EngineOptions):
    """And what svload itself acts on, or tells the engine in another form (`drive/share/cut.py`)."""

    connection: Annotated[
        Literal["keep-alive", "new", "shared"],
        Option("new: one per request; shared: users take any that is free"),
    ] = "keep-alive"
    generators: Annotated[
        int,
        Option(
            "how many generators share the load, each with its own results; if there are more than cores for "
            "load, they share processes",
            most=GENERATORS,
            least=1,
        ),
    ] = 1
    graceful_stop_ns: Annotated[
        int | None,
        Option("how long to wait at the end for requests in progress; default: their timeout"),
    ] = None
    record: Annotated[
        Literal["auto", "rows", "histogram"],
        Option("rows: one row per request; auto: rows up to 1,000/s"),
    ] = "auto"
    spin_ns: Annotated[
        int,
        Option(
            "poll this long before each start, and for awaited responses before sleeping: more precise timing "
            "for more CPU",
            most=SPIN_NS,
            example="60 us",
            flag="Poll this long before each start and for awaited responses, such as 60us: less lag, more CPU.",
        ),
    ] = 0
    close: Annotated[
        Literal["fin", "reset"],
        Option("reset: close connections with RST, so that no local port stays in TIME_WAIT"),
    ] = "fin"
    streams: Annotated[
        int, Option("how many users, or concurrent requests, share an HTTP/2 connection", most=VUS, least=1)
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
