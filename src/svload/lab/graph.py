"""Who needs whom: the order of bring-up, and what a change reaches. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from svload.lab.catalogue import all_kits, nearest
from svload.model.costs import Costs
from svload.model.errors import Problem
from svload.model.study import ServiceSpec

Needs = Mapping[str, tuple[str, ...]]


def needs_of(specs: Sequence[ServiceSpec]) -> dict[str, tuple[str, ...]]:
    """Service → the services it needs, by its kit."""
    return {spec.name: all_kits()[spec.kit].needs(spec.options) for spec in specs}


def check_needs(needs: Needs) -> list[Problem]:
    """A problem for each name that is no service, and for a circle."""
    problems = [
        Problem(
            "study-unknown-name",
            {
                "where": f"lab.{name}",
                "name": other,
                "kind": "service",
                "hint": nearest(other, needs),
                "path": (name, "of"),
            },
        )
        for name, others in needs.items()
        for other in others
        if other not in needs
    ]
    if not problems and (circle := _left_over(needs)):
        reason = f"the services {', '.join(sorted(circle))} need each other in a circle"
        problems.append(
            Problem(
                "study-bad-value",
                {
                    "where": "lab",
                    "reason": reason,
                    "found": "no order to start them in",
                    "hint": "Break the circle.",
                },
            )
        )
    return problems


def waves(needs: Needs) -> list[list[str]]:
    """Services in the order of bring-up: each wave needs only earlier ones and may start in parallel."""
    done: set[str] = set()
    order: list[list[str]] = []
    while wave := [name for name in needs if name not in done and set(needs[name]) <= done]:
        order.append(wave)
        done |= set(wave)
    return order


def _left_over(needs: Needs) -> set[str]:
    return set(needs) - {name for wave in waves(needs) for name in wave}


def reached(changed: set[str], needs: Needs) -> set[str]:
    """`changed` and everything that needs one of them, directly or not."""
    found = set(changed)
    while more := {name for name, others in needs.items() if name not in found and found & set(others)}:
        found |= more
    return found


def costs_of(specs: Sequence[ServiceSpec]) -> dict[str, Costs]:
    """Service → what it takes beside load. One that passes requests on answers no faster than what it needs.

    A service whose kit or needs are unknown costs what any kit does: `lab.check_specs` tells such mistakes.
    """
    kits = all_kits()
    known = {spec.name: kits[spec.kit] for spec in specs if spec.kit in kits}
    needs = {spec.name: known[spec.name].needs(spec.options) for spec in specs if spec.name in known}
    costs: dict[str, Costs] = {}
    for wave in waves(needs):
        for name in wave:
            own = known[name].costs
            rates = [own.answers_per_s, *(costs[other].answers_per_s for other in needs[name])]
            costs[name] = own.model_copy(update={"answers_per_s": min(rates)})
    return {spec.name: costs.get(spec.name, Costs()) for spec in specs}
