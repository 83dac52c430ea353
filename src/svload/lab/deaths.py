"""Services that came to their end: the lab's failure, or what the trial of a limited
service found (`on_death`). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from svload.model.errors import Problem
from svload.model.facts import Death, ServiceFacts, Setting
from svload.model.units import show_size


def out_of_memory(facts: ServiceFacts, kills: int, log: object) -> list[Problem]:
    """service-out-of-memory, if the kernel killed any of its processes at its limit."""
    if not kills:
        return []
    limit = next(
        (show_size(value) for name, value in limits_of(facts).items() if name.endswith("memory_bytes")),
        "unknown",
    )
    return [
        Problem(
            "service-out-of-memory",
            {"service": facts.service, "count": kills, "limit": limit, "log": log},
            facts.service,
        )
    ]


def death_of(facts: ServiceFacts, problems: Sequence[Problem], kills: int) -> Death | None:
    """What happened to a service, of its problems; None if it lives. A kill for want of memory is
    the cause of what ended with it."""
    died = next((problem for problem in problems if problem.code == "service-died"), None)
    if died is None and not kills:
        return None
    told = died.details if died else {}
    code = told.get("exit")
    return Death(
        service=facts.service,
        cause="oom_kill" if kills else "exit",
        process=str(told.get("service", "")).removeprefix(f"{facts.service}."),
        exit=code if isinstance(code, int) else None,
        kills=kills,
        limits=limits_of(facts),
        tail=str(told.get("tail", "")),
    )


def limits_of(facts: ServiceFacts) -> dict[str, float]:
    """`group.limit` → what the kernel holds."""
    return {
        f"{group.name}.{limit.name}": value
        for group in facts.groups
        for limit in group.settings
        if (value := _number(limit)) is not None
    }


def _number(limit: Setting) -> float | None:
    return None if limit.found is None else float(limit.found)
