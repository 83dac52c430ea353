"""Options of a traffic group, each described once: field, type, default, bound and text.

The study's schema and reference, `Group`, the share, the flags of `svload load` and the description of a load
are made from this. Only imports the standard library: a command's flags are known before anything that
validates is loaded.
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
    """What an option's type and default do not contain."""

    doc: str
    """text in the study's schema and reference"""
    most: Bound | None = None
    """the largest value; None: any time that a study accepts"""
    least: int = 0
    """the smallest value, if there is a largest one"""
    example: str = ""
    """for a time: an example of its spelling"""
    flag: str = ""
    """text in the help of `svload load`, which then has a flag of that name; empty: there is no flag"""
    phrase: str = ""
    """text in a load's description if it is not the default, `{}` being the value; empty: it is not
    mentioned"""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Reject values out of bounds when a `Group` is made."""
        bounds = {} if self.most is None else {"ge": self.least, "le": self.most.most}
        return {**handler(source), **bounds}


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options that the engine takes unchanged from the study: `GroupSpec` in engine/engine/src/share.rs has
    fields of the same names."""

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
            phrase="connect timeout {}",
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
            phrase="starts only every {}",
        ),
    ] = 0


@dataclass(frozen=True, kw_only=True)
class GroupOptions(EngineOptions):
    """Options that svload itself acts on, or passes to the engine in another form (`drive/share/cut.py`)."""

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
        int | None, Option("how long to wait at the end for requests in progress; default: their timeout")
    ] = None
    record: Annotated[
        Literal["auto", "rows", "histogram"], Option("rows: one row per request; auto: rows up to 1,000/s")
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
        """Return the key in the study file; with dashes it is the flag."""
        return self.name.removesuffix("_ns")

    @property
    def is_time(self) -> bool:
        """Return whether it is written with a unit."""
        return self.name.endswith("_ns")

    def words(self, value: Any) -> str:
        """Return the text for `value` in a load's description; empty if it is not mentioned."""
        if not self.option.phrase or value == self.default:
            return ""
        return self.option.phrase.format(show_duration(value / 1e9) if self.is_time else value)


@cache
def group_options() -> tuple[Described, ...]:
    """Return all options, in the order in which they are described."""
    return tuple(_described())


def flagged() -> tuple[Described, ...]:
    """Return the options for which `svload load` has a flag."""
    return tuple(one for one in group_options() if one.option.flag)


def _described() -> Iterator[Described]:
    hints = get_type_hints(GroupOptions, include_extras=True)
    for one in fields(GroupOptions):
        kind, option = get_args(hints[one.name])
        yield Described(one.name, kind, one.default, option)
