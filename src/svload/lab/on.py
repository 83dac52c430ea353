"""Restrictions of services on other machines (`on:`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from svload.model.study import CaseConfig, ServiceSpec
from svload.study.mistakes import Mistake, bad_value

ON_HINT = (
    "“svload run” and “svload resume” take an --inventory whose group “servers” has that machine; "
    "or leave “on” out."
)
_NOT_THERE: Mapping[str, str] = {
    "link": "a link is made between networks of one machine",
    "secrets": "secrets stay on the machine that controls the run",
    "within": "a group can't span machines",
}
"""Options that a server on another machine can't have → why."""


def elsewhere_mistakes(specs: Sequence[ServiceSpec]) -> Iterator[Mistake]:
    """Yield a mistake for each option that has no meaning on another machine."""
    on = {spec.name: spec.options.get("on") for spec in specs}
    for spec in specs:
        for name, why in _NOT_THERE.items():
            value = spec.options.get(name)
            if (
                on[spec.name] is None
                or not value
                or (name == "within" and on.get(str(value)) == on[spec.name])
            ):
                continue
            hint = (
                f"Leave it out, or let {spec.name} run here."
                if name != "within"
                else "Give both the same “on”."
            )
            yield bad_value(
                ("lab", spec.name, name), f"{spec.name} is on {on[spec.name]}, and {why}", value, hint
            )


def is_elsewhere(spec: ServiceSpec) -> bool:
    """Return whether the service shall run on another machine."""
    return spec.options.get("on") is not None


def machines_of(configs: Iterable[CaseConfig]) -> dict[str, str]:
    """Return the names of machines in these cases (`on`) → the first service with that name."""
    found: dict[str, str] = {}
    for config in configs:
        for spec in config.services:
            if is_elsewhere(spec):
                found.setdefault(str(spec.options["on"]), spec.name)
    return found


def cannot_be_elsewhere(config: CaseConfig) -> str | None:
    """Return, in words, what a case requires and servers on other machines can't have; None if nothing."""
    away = {spec.name for spec in config.services if is_elsewhere(spec)}
    if not away:
        return None
    if config.profile in away:
        return f"A profile of {config.profile}"
    return "Settings of the kernel (sysctl)" if config.sysctl else None
