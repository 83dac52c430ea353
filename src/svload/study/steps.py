"""The steps of a group's iterations as the study file writes them: the place of each and its name in results.

Reads plain data that may be broken anywhere; values that are not a mapping, list or text are skipped here,
since the schema reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from svload.study.tree import Path, dicts_of, mappings_of, section_of

INLINE = "request"
"""The name of a request that has none."""


@dataclass(frozen=True)
class RawStep:
    """A step as written, its place, and its name in results."""

    name: str
    path: Path
    raw: Any

    @property
    def request(self) -> tuple[Any, Path]:
        """Return its request as written, and the place of it."""
        if isinstance(self.raw, Mapping) and "request" in self.raw:
            return self.raw["request"], (*self.path, "request")
        return self.raw, self.path


@dataclass(frozen=True)
class RawScenario:
    """A scenario of a group as written; `known` is False for a name that does not exist."""

    name: str
    weight: Any
    steps: tuple[RawStep, ...]
    known: bool = True


def raw_scenarios(group: Mapping[str, Any], path: Path, data: Mapping[str, Any]) -> tuple[RawScenario, ...]:
    """Return the scenarios of a group's `scenario` or `mix`; none if it has only a request."""
    names = _Names()
    mix = group.get("mix")
    if isinstance(mix, Mapping):
        return tuple(_named(str(name), weight, data, names) for name, weight in mix.items())
    scenario = group.get("scenario")
    if isinstance(scenario, str):
        return (_named(scenario, 1, data, names),)
    if isinstance(scenario, list):
        return (RawScenario("scenario", 1, tuple(_steps(scenario, (*path, "scenario"), names))),)
    return ()


def _named(name: str, weight: Any, data: Mapping[str, Any], names: _Names) -> RawScenario:
    """Return a scenario by its name, or a request by its name as one step."""
    scenarios = section_of(data, "scenarios")
    if isinstance(scenarios.get(name), list):
        return RawScenario(name, weight, tuple(_steps(scenarios[name], ("scenarios", name), names)))
    if name in section_of(data, "requests"):
        return RawScenario(name, weight, (RawStep(names.take(name), ("requests", name), name),))
    return RawScenario(name, weight, (), known=False)


def _steps(raw: Iterable[Any], path: Path, names: _Names) -> Iterable[RawStep]:
    for index, step in enumerate(raw):
        request = step.get("request", step) if isinstance(step, Mapping) else step
        named = isinstance(request, str) and " " not in request.strip() and "${" not in request
        yield RawStep(names.take(request if named else f"step{index + 1}"), (*path, index), step)


class _Names:
    """Gives each step a unique name: the request's, with a number from the second on."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def take(self, name: str) -> str:
        number, free = 1, name
        while free in self._known:
            number += 1
            free = f"{name}-{number}"
        self._known.add(free)
        return free


def step_owners(data: Mapping[str, Any]) -> list[str]:
    """Return `group.step` for groups with several steps: owners in the metric grammar besides the group."""
    return [
        f"{name}.{step.name}"
        for name, group in dicts_of(section_of(data, "traffic"))
        for scenario in raw_scenarios(group, ("traffic", name), data)
        for step in scenario.steps
    ]


def populations(data: Mapping[str, Any]) -> set[str]:
    """Return traffic groups that populate before a trial: none of them is load, in any case."""
    named = (step.get("populate") for _, step in mappings_of(data, "before_trial"))
    return {name for name in named if isinstance(name, str)}


def hosts_of(lab: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a URL may name in a lab: services, and further ports of a service as `app.admin`."""
    hosts = list(lab)
    hosts += [f"{name}.{port}" for name in lab for port in section_of(lab[name], "ports")]
    return tuple(hosts)


def secrets(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the name in requests of each of the study's secrets → the environment variable that holds it."""
    return {f"secret.{name}": str(variable) for name, variable in section_of(data, "secrets").items()}


def variables(data: Mapping[str, Any]) -> set[str]:
    """Return every variable that some request of the study takes, and its secrets."""
    found: set[str] = set(secrets(data))

    def look(value: Any) -> None:
        if isinstance(value, Mapping):
            take = value.get("take")
            if isinstance(take, Mapping):
                found.update(str(name) for name in take)
            elif isinstance(take, str) and "match" in value:
                found.add(take)
            for child in value.values():
                look(child)
        elif isinstance(value, list):
            for child in value:
                look(child)

    for section in ("requests", "scenarios", "setup", "traffic"):
        look(data.get(section))
    return found
