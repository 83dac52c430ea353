"""Two values of each option of a traffic group, as written in a study, so that tests of options need not
list them."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from svload.model.options import Described

BESIDE: dict[str, dict[str, Any]] = {"streams": {"http2": True}}
"""Other options that an option requires."""


def written(one: Described) -> tuple[Any, Any]:
    """Return two values that differ; the second is never the default."""
    if get_origin(one.kind) is Literal:
        return one.default, next(word for word in get_args(one.kind) if word != one.default)
    if one.kind is bool:
        return one.default, not one.default
    if one.is_time:
        return ("0s", one.option.example) if one.option.example else ("1s", "2s")
    return 1, 2
