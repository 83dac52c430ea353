"""The study behind an imported run: the load in its files as a study, so that code that reads runs can read
this one. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from svload.model.units import show_duration

NOWHERE = "http://imported.invalid"
"""The server's address in an imported study: by RFC 2606 nothing answers there, and nothing is sent to it."""
_TOTALS = (("response.mean", "mean response"), ("throughput", "throughput"))
_SINGLE = (
    ("response.p50", "median response"),
    ("response.p95", "p95 of response"),
    ("throughput", "throughput"),
)


@dataclass(frozen=True)
class ImportedCase:
    """One imported level: users by traffic group (or the most that were active concurrently), steps by group,
    and how long it was measured."""

    level: str
    users: Mapping[str, int]
    steps: Mapping[str, Sequence[str]]
    window_s: float
    longest_s: float


def imported_study(
    name: str,
    factor: str,
    cases: Sequence[ImportedCase],
    replicates: int,
    *,
    percentiles: bool,
    case_names: str,
) -> str:
    """Return the study's text: each level is compared with the first by response and throughput of the last
    group.

    `percentiles`: the files hold single requests. `case_names` is the table that names the cases.
    """
    groups: dict[str, dict[str, None]] = {}
    for case in cases:
        for group, steps in case.steps.items():
            groups.setdefault(group, {}).update(dict.fromkeys(steps))
    levels: dict[str, Any] = {
        case.level: {f"vus_{group}": case.users.get(group, 1) for group in groups} for case in cases
    }
    by_users = _levels_are_users(factor, cases, list(groups))
    timeout = f"{max(ceil(max(case.longest_s for case in cases)), 1)}s"
    requests = {
        step: {"get": "http://server/", "timeout": timeout} for steps in groups.values() for step in steps
    }
    main = list(groups)[-1]
    baseline = int(cases[0].level) if by_users else cases[0].level
    several = len(cases) > 1
    study: dict[str, Any] = {
        "name": name,
        "question": f"What do the imported results say ({show_duration(max(case.window_s for case in cases))} "
        f"measured{' each, at most' if several else ''})?",
        "lab": {"server": {"at": NOWHERE}},
        "factors": {factor: [int(case.level) for case in cases] if by_users else levels},
        "case_names": case_names,
        "requests": requests,
        "traffic": {group: _group(group, list(steps), factor, by_users) for group, steps in groups.items()},
        "measure": {
            "duration": f"{max(case.window_s for case in cases)!r}s",
            "replicates": replicates,
            "order": "as-listed",
        },
    }
    if several:
        study["compare"] = [
            {
                "factor": factor,
                "baseline": baseline,
                "metric": f"{main}.{metric}",
                "name": f"{factor}: {what}",
            }
            for metric, what in (_SINGLE if percentiles else _TOTALS)
        ]
    return json.dumps(study, ensure_ascii=False, indent=1) + "\n"


def _levels_are_users(factor: str, cases: Sequence[ImportedCase], groups: Sequence[str]) -> bool:
    """Return whether the levels are the numbers of users in the files: the factor is the load itself."""
    if len(groups) != 1 or not re.fullmatch(r"users|vus|threads|n", factor, re.IGNORECASE):
        return False
    return all(
        re.fullmatch(r"[1-9]\d{0,6}", case.level)
        and case.users.get(groups[0], int(case.level)) == int(case.level)
        for case in cases
    )


def _group(group: str, steps: Sequence[str], factor: str, by_users: bool) -> dict[str, Any]:
    users = f"${{{factor}}}" if by_users else f"${{{factor}.vus_{group}}}"
    asked = {"request": steps[0]} if len(steps) == 1 else {"mix": dict.fromkeys(steps, 1)}
    return {"executor": "constant-vus", "vus": users, **asked}
