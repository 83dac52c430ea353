"""The options of `svload.model.options`, and the protocols of `svload.model.protocols`,
as fields of the study's schema."""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BeforeValidator, Field, create_model

from svload.model.options import Described, group_options
from svload.model.protocols import PROTOCOLS
from svload.study.mistakes import wrong
from svload.study.values import (
    AtMost,
    Count,
    Flag,
    OrReference,
    Part,
    ScalarText,
    TimeNs,
    as_written,
    time_up_to,
)

P = TypeVar("P", bound=Part)


def with_options(part: type[P]) -> type[P]:
    """Return the part with a field for each option of a traffic group."""
    found = {one.key: (_type(one), Field(one.default, description=one.option.doc)) for one in group_options()}
    return _made(part, found)


def _type(one: Described) -> Any:
    """Return the type of its value; a `${…}` is allowed for any."""
    kind, option = one.kind, one.option
    if kind is bool:
        return Flag
    if get_origin(kind) is Literal:
        return Annotated[kind, OrReference()]
    if one.is_time:
        plain = TimeNs if option.most is None else time_up_to(option.most, option.example)
        return plain | None if NoneType in get_args(kind) else plain
    if kind is int and option.most is not None:
        return Annotated[Count, AtMost(option.most)]
    raise TypeError(f"{one.name}: {kind} has no form in a study yet: give it one here")


def with_protocols(part: type[P]) -> type[P]:
    """Return the part with a field for the commands of each protocol."""
    commands: Any = list[Annotated[str | list[ScalarText], BeforeValidator(_command)]]
    return _made(part, {one.name: (commands, Field([], description=one.doc)) for one in PROTOCOLS})


def _command(value: object) -> object:
    """Return the value; raise one error, where a union reports one for each of its types."""
    words = value if isinstance(value, list) else [None]
    if isinstance(value, str) or all(isinstance(word, str | int | float) for word in map(as_written, words)):
        return value
    raise wrong("expected a command: a text, or a list of its words")


def _made(part: type[P], found: dict[str, Any]) -> type[P]:
    """Return the part with these fields, under the same name."""
    made: Any = create_model
    whole: type[P] = made(
        part.__name__, __base__=part, __module__=part.__module__, __doc__=part.__doc__, **found
    )
    return whole
