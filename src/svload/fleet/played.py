"""The results of a play, from Ansible's events: for each machine the output of its steps, how much was
changed, and what failed. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from svload.model.errors import CATALOGUE, Problem

NO_PYTHON = 41
"""Exit code of the step that finds Python (plays/tasks/reach.yaml)."""
_SSH = re.compile(r"^.*?via ssh:\s*", re.DOTALL)
_UNREACHABLE = (
    (
        "Permission denied",
        "Authorise this machine's SSH key there (ssh-copy-id), or name user and key in the inventory.",
    ),
    (
        "Host key verification failed",
        "Check that it is that machine, then connect once by hand (ssh) to accept its key.",
    ),
    ("Could not resolve", "Set its address as ansible_host in the inventory."),
)
_ELSE = "Check that it is up, that its SSH port is open to this machine, and that “ssh” reaches it by hand."


@dataclass
class Played:
    """One machine: each step's last JSON object by its name, how many steps changed something, failures."""

    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    changed: int = 0
    problems: list[Problem] = field(default_factory=list)


def understand(events: Iterable[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Played]:
    """Return machine → what happened on it; every machine in `names` is included."""
    machines = {name: Played() for name in names}
    for event in events:
        kind, data = event.get("event"), event.get("event_data") or {}
        machine = machines.get(str(data.get("host")))
        if machine is None:
            continue
        result: Mapping[str, Any] = data.get("res") or {}
        if kind == "runner_on_ok":
            machine.changed += bool(result.get("changed"))
            if (answer := _object(result.get("stdout"))) is not None:
                machine.answers[str(data.get("task"))] = answer
        elif kind == "runner_on_unreachable":
            machine.problems.append(_unreachable(str(data["host"]), str(result.get("msg", ""))))
        elif kind == "runner_on_failed" and not data.get("ignore_errors"):
            machine.problems.append(_failed(str(data["host"]), str(data.get("task")), result))
    return machines


def _object(text: object) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _unreachable(host: str, message: str) -> Problem:
    if "temporary directory" in message:  # Ansible reports that as unreachable, too
        reason = "Ansible can't make its temporary folder there: no permission, or no space"
        return Problem("fleet-step", {"host": host, "step": "begin", "reason": reason})
    reason = _one_line(_SSH.sub("", message))
    hint = next((advice for sign, advice in _UNREACHABLE if sign in message), _ELSE)
    return Problem("fleet-unreachable", {"host": host, "reason": reason, "hint": hint})


def _failed(host: str, step: str, result: Mapping[str, Any]) -> Problem:
    # Of a loop, Ansible's own message is only that an item failed.
    result = next((one for one in result.get("results") or () if one.get("failed")), result)
    answer = _object(result.get("stdout")) or {}
    if answer.get("problem") in CATALOGUE:
        details = {key: value for key, value in answer.items() if key != "problem"}
        return Problem(str(answer["problem"]), {"step": step, **details, "host": host})
    if result.get("rc") == NO_PYTHON:
        return Problem("fleet-no-python", {"host": host, "found": _one_line(str(result.get("stdout", "")))})
    words = " ".join(str(result.get(name, "")) for name in ("msg", "module_stderr", "stderr"))
    if "No space left on device" in words:
        return Problem("fleet-disk-full", {"host": host, "path": str(result.get("dest") or "its folder")})
    last = str(
        result.get("stderr") or result.get("module_stderr") or result.get("msg") or result.get("stdout") or ""
    )
    return Problem("fleet-step", {"host": host, "step": step, "reason": _one_line(last)})


def _one_line(text: str) -> str:
    """Return the last line that is not empty, without a full stop."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".")[:400] if lines else "no reason was given"
