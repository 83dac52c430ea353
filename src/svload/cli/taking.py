"""Commands that take one value, whose fields are the command's parameters.

typer reads a function's parameters. A command with many of them is a class, whose fields have typer's options
as defaults, and a function that takes a value of that class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import update_wrapper
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def taking(
    words: type[T], more: Mapping[str, tuple[Any, Any]] | None = None
) -> Callable[[Callable[[T, dict[str, Any]], None]], Callable[..., None]]:
    """Turn a function that takes `words` into one with the parameters that typer expects.

    `more` are further parameters, name → (type, typer's option); their values are the function's second
    argument.
    """
    hints: dict[str, Any] = get_type_hints(words)
    own = {one.name: (hints[one.name], one.default) for one in fields(words)}  # type: ignore[arg-type]
    known = own | dict(more or {})

    def as_typer_wants(command: Callable[[T, dict[str, Any]], None]) -> Callable[..., None]:
        def called(**typed: Any) -> None:
            rest = {name: value for name, value in typed.items() if name not in own}
            command(words(**{name: typed[name] for name in own}), rest)

        update_wrapper(called, command, updated=())
        del called.__wrapped__  # type: ignore[attr-defined]  # inspect would use its signature
        called.__annotations__ = {name: kind for name, (kind, _) in known.items()}
        called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
                for name, (kind, default) in known.items()
            ]
        )
        return called

    return as_typer_wants
