"""The only place where a share becomes JSON. It imports the standard library alone, since generators import it too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any


class Pattern(str):
    """A regular expression of a share: what is slow to be made, and checked once a study."""

    __slots__ = ()


def plain(value: Any, pattern: Callable[[Pattern], str] = str) -> Any:
    """A dataclass of this room as JSON has it; what is None is left out, since the engine has the same default.

    `pattern` may put another text in place of a regular expression.
    """
    if isinstance(value, str):
        return pattern(value) if isinstance(value, Pattern) else value
    if isinstance(value, tuple | list):
        return [plain(item, pattern) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item, pattern) for key, item in value.items()}
    if not is_dataclass(value):
        return value
    kind: Any = type(value)
    said = ((name, getattr(value, name)) for name in _names(kind))
    return {name: plain(item, pattern) for name, item in said if item is not None}


def text_of(share: Any, pattern: Callable[[Pattern], str] = str) -> str:
    """A share as the engine takes it."""
    return json.dumps(plain(share, pattern))


def begun(share: Mapping[str, Any], start_at_ns: int, stop_fd: int) -> str:
    """The share that a generator was sent, with what that process alone knows: its
    start, and where it hears of a stop."""
    return json.dumps({**share, "start_at_ns": start_at_ns, "stop_fd": stop_fd})


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))
