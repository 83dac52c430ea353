"""Parameters of a running server, set in one transaction: the current values are noted, new ones are written,
and the server's health is checked.

A parameter whose new value the server refuses keeps the old one, and its setting has the reason. If the
server is unhealthy afterwards, all old values are restored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from svload.lab.kit import Kit
from svload.model.errors import SvloadError, fail
from svload.model.parameters import Parameter


def retune(server: Kit, wanted: Mapping[str, Any], is_well: Callable[[], bool]) -> dict[str, str]:
    """Set `wanted`; return the refused ones with the server's messages. Restores all old values before it
    raises SvloadError lab-failed.

    A refused one is tried again after the others: a minimum may have to wait for its maximum.
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
        reason = f"it failed with {', '.join(f'{name} = {spelled(wanted[name])}' for name in done)}"
    except BaseException:
        _restore(server, before, done)
        raise
    _restore(server, before, done)
    raise fail("lab-failed", reason=reason, hint="Its old values were restored; leave out what it can't use.")


def spelled(value: Any) -> str:
    """Return a value as servers write it."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _refusal(server: Kit, name: str, value: str, done: list[str]) -> str:
    try:
        server.set_parameter(name, value)
    except SvloadError as why:
        return "; ".join(str(problem.details.get("reason", problem.sentence)) for problem in why.problems)
    done.append(name)
    return ""


def _restore(server: Kit, before: Mapping[str, Parameter], done: list[str]) -> None:
    """Restore old values, newest first; a server that is gone needs none."""
    for name in reversed(done):
        value = before[name].value if name in before else None
        if value is not None:
            _refusal(server, name, value, [])
