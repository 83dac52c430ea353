"""What a study whose sides take turns (`order: turns`) may not ask for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from svload.model.metrics import Source
from svload.model.study import Case, CaseConfig, Factor
from svload.model.traffic import Group
from svload.study.factors import is_open, level_name
from svload.study.mistakes import Mistake, bad_value
from svload.study.monitored import metric_in
from svload.study.order import control_level, sets_of_cases
from svload.study.tree import Path, dicts_of, mappings_of, section_of, sequence_of

AT = ("measure", "order")
_OR = "or leave order: turns out"
_SAMPLED = (("service", "cpu"), ("service", "memory"))


def turn_mistakes(data: Mapping[str, Any], owners: dict[str, Source]) -> Iterable[Mistake]:
    """Report what needs the machine alone, and comparisons that turns can't answer."""
    measure = section_of(data, "measure")
    if measure.get("order") != "turns":
        if measure.get("control") is True:
            reason = "a control is one more side of those that take turns"
            yield bad_value(("measure", "control"), reason, True, "Add order: turns, or leave it out.")
        return
    yield from _comparisons(data, owners)
    for name, service in dicts_of(section_of(data, "lab")):
        if "on" in service:
            reason = "sides take turns on one machine, which makes their load and has all their servers"
            yield bad_value(("lab", name, "on"), reason, service["on"], f"Leave it out, {_OR}.")
    for name, levels in section_of(data, "factors").items():
        if is_open(levels):
            reason = "a capacity search needs the machine to itself, but sides that take turns share it"
            yield bad_value(("factors", name), reason, name, f"Fix its value, {_OR}.")
    if sequence_of(data, "faults"):
        reason = "a fault would hit each side at a different point of its turns"
        yield bad_value(("faults",), reason, "faults", f"Leave them out, {_OR}.")
    if data.get("profile"):
        reason = "stacks are sampled on one server at a time, which would slow only its side"
        yield bad_value(("profile",), reason, data["profile"], f"Leave it out, {_OR}.")
    for index, step in mappings_of(data, "before_trial"):
        if "drop_cache" in step:
            reason = "the other sides' files are in the same page cache"
            yield bad_value(
                ("before_trial", index, "drop_cache"),
                reason,
                step["drop_cache"],
                f"Leave the step out, {_OR}.",
            )
    if isinstance(measure.get("bring_ups"), int) and measure["bring_ups"] > 1:
        reason = "each block of turns brings the servers up anyway"
        yield bad_value(("measure", "bring_ups"), reason, measure["bring_ups"], "Leave it out.")
    for name, group in dicts_of(section_of(data, "traffic")):
        path = ("traffic", name)
        if "start_when" in group:
            reason = "background load runs all the time, and a side's load only in its turns"
            yield bad_value(
                (*path, "start_when"), reason, group["start_when"], f"Let all groups begin at once, {_OR}."
            )
        if group.get("record") == "histogram":
            reason = "requests are assigned to turns one by one, and a histogram keeps no single requests"
            yield bad_value((*path, "record"), reason, "histogram", "Leave it out: turns record rows.")


def with_control(data: Mapping[str, Any], factors: Sequence[Factor]) -> list[Factor]:
    """Return the factors; with `control: true` the turned one has its baseline again, under another name."""
    measure = section_of(data, "measure")
    compared = next((item for _, item in mappings_of(data, "compare")), {})
    if measure.get("order") != "turns" or measure.get("control") is not True:
        return list(factors)
    name, baseline = compared.get("factor"), level_name(compared.get("baseline"))

    def controlled(factor: Factor) -> Factor:
        found = next((level for level in factor.levels if level.name == baseline), None)
        if factor.name != name or found is None:
            return factor
        again = found.model_copy(update={"name": control_level(baseline)})
        return factor.model_copy(update={"levels": (*factor.levels, again)})

    return [controlled(factor) for factor in factors]


def _comparisons(data: Mapping[str, Any], owners: dict[str, Source]) -> Iterable[Mistake]:
    compared = mappings_of(data, "compare")
    factors = [item.get("factor") for _, item in compared]
    if not compared:
        reason = "sides take turns to be compared, and the study compares nothing"
        yield bad_value(AT, reason, "turns", f"Add a comparison, {_OR}.")
    for index, item in compared:
        path = ("compare", index)
        if item.get("factor") != factors[0]:
            reason = f"the levels of one factor take turns, and {factors[0]} is compared already"
            yield bad_value(
                (*path, "factor"), reason, item.get("factor"), f"Compare one factor a study, {_OR}."
            )
        elif item.get("baseline") != compared[0][1].get("baseline"):
            reason = f"sides that take turns have one baseline, and that is {compared[0][1].get('baseline')}"
            yield bad_value((*path, "baseline"), reason, item.get("baseline"), f"Compare with it, {_OR}.")
        if item.get("by") is not None and section_of(data, "measure").get("control") is True:
            reason = "a control belongs to one effect, but an interaction has two"
            yield bad_value((*path, "by"), reason, item["by"], "Leave control out.")
        if _is_sampled(item.get("metric"), owners):
            reason = "it is sampled at its own interval, so short turns fall between two readings"
            yield bad_value((*path, "metric"), reason, item["metric"], f"Compare a response, {_OR}.")


def _is_sampled(text: object, owners: dict[str, Source]) -> bool:
    """Return whether a metric comes from a monitor, not from requests or from counters around the load."""
    ref = metric_in(str(text), owners)
    return ref is not None and (ref.metric.monitored or (ref.metric.source, ref.metric.name) in _SAMPLED)


def side_mistakes(
    data: Mapping[str, Any], cases: Sequence[Case], configs: Mapping[str, CaseConfig]
) -> Iterable[Mistake]:
    """Report sides that can't be up together, or whose loads differ."""
    factors = [item.get("factor") for _, item in mappings_of(data, "compare")]
    if section_of(data, "measure").get("order") != "turns" or not factors:
        return
    for group in {group.name: group for config in configs.values() for group in config.groups}.values():
        if group.executor.shape != "constant":
            reason = "turns need a load that stays the same"
            yield bad_value(
                ("traffic", group.name), reason, group.executor.kind, f"Use another executor, {_OR}."
            )
    present = [case for case in cases if case.excluded is None and case.name in configs]
    for one in sets_of_cases(present, str(factors[0])):
        levels = [case.levels[str(factors[0])] for case in one]
        if levels[-1] in levels[:-1]:
            reason = f"the control is named {levels[-1]}, and so is a level"
            yield bad_value(("measure", "control"), reason, True, "Rename the level, or leave control out.")
        first, *others = [configs[case.name] for case in one]
        if not others:
            reason = f"{one[0].name} has no other side"
            yield bad_value(AT, reason, "turns", f"Leave more cases in, {_OR}.")
        for other in others:
            yield from _between(first, other, str(factors[0]))


def _between(first: CaseConfig, other: CaseConfig, factor: str) -> Iterable[Mistake]:
    """Report what two sides share and must not, and differences that they may not have."""
    sides = f"{first.case.name} and {other.case.name}"
    if _load(first) != _load(other):
        reason = f"{sides} differ in the load itself, so that a ratio would not be the servers'"
        yield bad_value(("compare", 0, "factor"), reason, factor, f"Give both the same load, {_OR}.")
    for name in first.sysctl.keys() | other.sysctl.keys():
        if first.sysctl.get(name) != other.sysctl.get(name):
            reason = f"{sides} would be up at the same time, but the machine has only one such setting"
            yield bad_value(("sysctl", name), reason, other.sysctl.get(name), f"Give both the same, {_OR}.")
    theirs = {port: path for path, port in _ports(other)}
    for path, port in _ports(first):
        if port in theirs:
            reason = f"{sides} would be up at the same time, but only one of them can have this port"
            yield bad_value(path, reason, port, f"Leave it out: svload finds a free one, {_OR}.")


def _load(config: CaseConfig) -> tuple[object, ...]:
    """Return when and how many requests are made, regardless of what they request and from whom."""

    def of(group: Group) -> tuple[object, ...]:
        scenarios = [
            (one.name, one.weight, [step.think_time for step in one.steps]) for one in group.scenarios
        ]
        return group.name, group.executor, scenarios, group.generators

    return (config.measure, *map(of, config.groups))


def _ports(config: CaseConfig) -> Iterable[tuple[Path, int]]:
    """Return the fixed ports of services that svload starts."""
    for service in config.services:
        port = service.options.get("port")
        if "at" not in service.options and isinstance(port, int):
            yield ("lab", service.name, "port"), port
