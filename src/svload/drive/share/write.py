"""The only place that converts a share to JSON. Imports only the standard library: generators import it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any


class Pattern(str):
    """A regular expression of a share: slow to compile, and therefore checked once per study."""

    __slots__ = ()


def plain(value: Any, pattern: Callable[[Pattern], str] = str) -> Any:
    """Return a dataclass of this package as JSON data, without None, the engine's default.

    `pattern` may replace a regular expression by another text.
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
    pairs = ((name, getattr(value, name)) for name in _names(kind))
    return {name: plain(item, pattern) for name, item in pairs if item is not None}


def text_of(share: Any, pattern: Callable[[Pattern], str] = str) -> str:
    """Return a share as the engine's input."""
    return json.dumps(plain(share, pattern))


def begun(share: Mapping[str, Any], start_at_ns: int, stop_fd: int) -> str:
    """Return the share with what only its process knows: its start, and where it receives a stop."""
    return json.dumps({**share, "start_at_ns": start_at_ns, "stop_fd": stop_fd})


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))
