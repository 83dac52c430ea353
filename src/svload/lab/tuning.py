"""Parameters of a running server, set in one transaction: what stands is noted, values are written, the
server is asked whether it is well.

A value that this version refuses stays as it was, and its setting says why. A server that is not well
afterwards gets all its old values back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from svload.model.errors import SvloadError, fail
from svload.model.parameters import Parameter


class Tunable(Protocol):
    """What a kit offers whose server takes parameters while it runs."""

    def parameters(self) -> Mapping[str, Parameter]:
        """Its parameters with the values in force."""

    def set_parameter(self, name: str, value: str) -> None:
        """Set one. Raises SvloadError with the server's words where it refuses."""


def retune(server: Tunable, wanted: Mapping[str, Any], is_well: Callable[[], bool]) -> dict[str, str]:
    """Set `wanted`; what was refused, with the server's words. Raises SvloadError lab-failed, all old values put back.

    One that is refused is tried again after the others: a lowest value may have to wait for its highest.
    """
    before = server.parameters()
    refused: dict[str, str] = {}
    done: list[str] = []
    try:
        left = {name: spelled(value) for name, value in wanted.items()}
        while left:
            refused = {
                name: why for name, value in left.items() if (why := _refusal(server, name, value, done))
            }
            if len(refused) == len(left):
                break
            left = {name: left[name] for name in refused}
        if is_well():
            return refused
        reason = f"it was not well with {', '.join(f'{name} = {spelled(wanted[name])}' for name in done)}"
    except BaseException:
        _restore(server, before, done)
        raise
    _restore(server, before, done)
    raise fail(
        "lab-failed", reason=reason, hint="Its old values were put back; leave out what it cannot bear."
    )


def spelled(value: Any) -> str:
    """A value as servers write it."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _refusal(server: Tunable, name: str, value: str, done: list[str]) -> str:
    try:
        server.set_parameter(name, value)
    except SvloadError as why:
        return "; ".join(str(problem.details.get("reason", problem.sentence)) for problem in why.problems)
    done.append(name)
    return ""


def _restore(server: Tunable, before: Mapping[str, Parameter], done: list[str]) -> None:
    """Newest first; a server that is gone has nothing to put back."""
    for name in reversed(done):
        value = before[name].value if name in before else None
        if value is not None:
            _refusal(server, name, value, [])
