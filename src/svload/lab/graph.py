"""Dependencies of services: the order of bring-up, and the services that a change affects. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from svload.lab.catalogue import all_kits
from svload.lab.groups import MACHINE
from svload.lab.names import named_in
from svload.model.costs import Costs
from svload.model.study import ServiceSpec
from svload.study.mistakes import Mistake, bad_value, unknown_name

Needs = Mapping[str, tuple[str, ...]]


def needs_of(specs: Sequence[ServiceSpec]) -> dict[str, tuple[str, ...]]:
    """Return each service → the services it needs: those of its kit, the machine that it is within, its
    `needs`, and those that its options refer to (`${db.port}`)."""
    kits, known = all_kits(), {spec.name: spec for spec in specs}
    machines = {spec.name for spec in specs if spec.kit == MACHINE}
    found = {}
    for spec in specs:
        own = kits[spec.kit].needs(spec.options) if spec.kit in kits else ()
        within = {str(spec.options.get("within"))} & machines if spec.kit in kits else set()
        needs = [other for other in written_needs(spec) if other in known]
        named = [other for other, _ in named_in(spec.options, known) if other != spec.name]
        found[spec.name] = tuple(dict.fromkeys((*own, *within, *needs, *named)))
    return found


def written_needs(spec: ServiceSpec) -> list[str]:
    """Return the services under `needs`, as written."""
    needs = spec.options.get("needs")
    named = [needs] if isinstance(needs, str) else needs
    return [one for one in named if isinstance(one, str)] if isinstance(named, list) else []


def check_needs(needs: Needs) -> list[Mistake]:
    """Return a mistake for each unknown service, and for a cycle."""
    found = [
        unknown_name(("lab", name, "of"), other, "service", needs)
        for name, others in needs.items()
        for other in others
        if other not in needs
    ]
    if not found and (circle := set(needs) - {name for wave in waves(needs) for name in wave}):
        reason = f"the services {', '.join(sorted(circle))} depend on each other in a cycle"
        found.append(bad_value(("lab",), reason, "no order to start them in", "Break the circle."))
    return found


def waves(needs: Needs) -> list[list[str]]:
    """Return the services in waves that need only earlier ones and may start in parallel."""
    done: set[str] = set()
    order: list[list[str]] = []
    while wave := [name for name in needs if name not in done and set(needs[name]) <= done]:
        order.append(wave)
        done |= set(wave)
    return order


def reached(changed: set[str], needs: Needs) -> set[str]:
    """Return `changed` and every service that needs one of them, directly or indirectly."""
    found = set(changed)
    while more := {name for name, others in needs.items() if name not in found and found & set(others)}:
        found |= more
    return found


def costs_of(specs: Sequence[ServiceSpec]) -> dict[str, Costs]:
    """Return each service → the times that it takes besides load. A service that forwards requests answers no
    faster than those it needs.

    A service with unknown kit or needs gets the default costs; `find_mistakes` reports it.
    """
    kits = all_kits()
    own = {spec.name: kits[spec.kit].costs if spec.kit in kits else Costs() for spec in specs}
    needs = needs_of(specs)
    costs: dict[str, Costs] = {}
    for wave in waves(needs):
        for name in wave:
            rates = [own[name].answers_per_s, *(costs[other].answers_per_s for other in needs[name])]
            if min(rates) < own[name].answers_per_s:
                changed = {"answers_per_s": min(rates), "hits_per_s": own[name].answers_per_s}
                costs[name] = own[name].model_copy(update=changed)
            else:
                costs[name] = own[name]
    return own | costs


def needed(names: Collection[str], needs: Needs) -> set[str]:
    """Return these services and all that they need, directly or indirectly."""
    found = set(names)
    while more := {other for name in found for other in needs[name] if other not in found}:
        found |= more
    return found
