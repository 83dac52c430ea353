"""Commands that parse simple values themselves.

typer validates every option with its own pydantic type, even options that nobody typed: with that `svload
load` needs 0.26 s of CPU before it starts instead of 0.17 (medians of 8 pairs, typer 0.29). So texts, numbers
within their bounds and paths are accepted directly; all else goes to typer, which also writes the error
message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from svload.model.visible import is_decoded

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")


MAY_BE_EMPTY = ("data", "sql")
"""Parameters whose empty text has a meaning or a message of its own. In all others it is a script's variable
that was never set."""


class _Plain:
    """A command or group whose parameters use typer only for values that are not plain."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return typer's parameters, including the one for help."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in found:
            if hasattr(param, "get_runtime_param") and "get_runtime_param" not in vars(param):
                vars(param)["get_runtime_param"] = _PlainFirst(param).itself
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run the command as typer does, which ends silently on Ctrl-C."""
        try:
            return super().invoke(ctx)  # type: ignore[misc]
        except KeyboardInterrupt:
            raise typer.Abort from None


class PlainCommand(_Plain, TyperCommand):
    """One command."""


class PlainGroup(_Plain, TyperGroup):
    """A group of commands, svload itself among them."""


class App(typer.Typer):
    """A typer application of these commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=PlainGroup, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=PlainCommand, **options)


class _PlainFirst:
    """Replaces what typer would build to read a parameter's value."""

    def __init__(self, param: Any) -> None:
        self._typers = param.get_runtime_param

    def itself(self) -> _PlainFirst:
        """Return itself, as the parameter's reader."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as the command takes it. Raises typer's BadParameter."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        is_option, wanted = param.param_type_name == "option", param.type_descriptor.annotation
        if _is_empty(value) and value != param.default and param.name not in MAY_BE_EMPTY:
            hint = "; leave the option out to use its default" if is_option else ""
            raise typer.BadParameter(f"the value is empty{hint}", ctx, param)
        if is_option and str in (wanted, *get_args(wanted)) and not all(map(is_decoded, _texts(value))):
            raise typer.BadParameter("the value is not UTF-8 text", ctx, param)
        try:
            return plain(value, wanted, param.type_descriptor.parameter_info)
        except NotPlain:
            return self._typers().coerce(value, param=param, ctx=ctx)


def _is_empty(value: Any) -> bool:
    return "" in _texts(value)


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple) else (value,)
    return [one for one in values if isinstance(one, str)]


class NotPlain(Exception):
    """Only typer can parse this value."""


def plain(value: Any, wanted: Any, bounds: Any) -> Any:
    """Return `value` as a `wanted` (str, int, float, Path or a list of them) within typer's `bounds`. Raises
    NotPlain."""
    if get_origin(wanted) is list and isinstance(value, list | tuple):
        return [plain(one, get_args(wanted)[0], bounds) for one in value]
    if wanted in (int, float) and type(value) is wanted:
        return _within(value, bounds)
    if not isinstance(value, str) or bounds.parser is not None:
        raise NotPlain
    if wanted is str and bounds.path_type is None:
        return value
    if wanted is int and _WHOLE.fullmatch(value):
        return _within(int(value), bounds)
    if wanted is float and _NUMBER.fullmatch(value):
        return _within(float(value), bounds)
    if wanted in (int, float):
        _refuse_marks(value)
    readable = os.access(value, os.R_OK) or not os.path.lexists(value)
    if wanted is Path and readable and not (bounds.exists or bounds.resolve_path or bounds.allow_dash):
        return Path(value)
    raise NotPlain


def _refuse_marks(value: str) -> None:
    """Raise typer's BadParameter for 1_000, which typer takes for 1000, and for 0,5."""
    from svload.model.units import refuse_marks

    try:
        refuse_marks(value)
    except ValueError as why:
        raise typer.BadParameter(str(why)) from why


def _within(number: float, bounds: Any) -> float:
    below = bounds.min is not None and number < bounds.min
    above = bounds.max is not None and number > bounds.max
    if below or above:
        raise NotPlain
    return number
