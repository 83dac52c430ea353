"""Whether a study's planned comparisons are possible: factors, levels and metrics exist, one load model,
bring-ups available."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from svload.model.metrics import Metric, Source, parse_metric
from svload.model.study import Case, CaseConfig, Factor
from svload.study.factors import matches, unknown_level
from svload.study.mistakes import Mistake, bad_criterion, bad_value, unknown_name
from svload.study.tree import Path, mappings_of, section_of

_MARGIN = re.compile(r"(worse|better) by more than (\d+(?:\.\d+)?) ?%")
_FALLS_IF = {"worse": "higher", "better": "lower"}
"""What is better of a metric whose number falls where it gets worse, or better."""


def comparison_mistakes(
    data: Mapping[str, Any], factors: Mapping[str, Factor], unsure: Iterable[str], owners: dict[str, Source]
) -> Iterable[Mistake]:
    """Return factors, levels and metrics of `compare` that do not exist."""
    compared = mappings_of(data, "compare")
    names: list[object] = [name for _, item in compared if isinstance(name := item.get("name"), str)]
    for index, item in compared:
        path = ("compare", index)
        if names.count(name := item.get("name")) > 1:
            yield bad_value((*path, "name"), "another comparison has this name", name, "Take another name.")
        factor, baseline = item.get("factor"), item.get("baseline")
        if isinstance(factor, str) and factor not in unsure:
            if factor not in factors:
                yield unknown_name((*path, "factor"), factor, "factor", factors)
            elif baseline is not None:
                wrong = [*unknown_level((*path, "baseline"), baseline, factors[factor])]
                yield from wrong
                if not wrong and len(factors[factor].levels) < 2:
                    yield bad_value(
                        (*path, "factor"),
                        f"{factor} has only one level, so there is nothing to compare",
                        factor,
                    )
        if isinstance(factor, str) and factor in (when := section_of(item, "when")):
            reason = f"it keeps only one level of {factor}, so there is nothing to compare"
            yield bad_value((*path, "when", factor), reason, when[factor], "Leave it out of when.")
        yield from _by_mistakes(path, item, factors, unsure)
        metric = item.get("metric")
        if isinstance(metric, str):
            try:
                ref = parse_metric(metric, owners)
            except ValueError as why:
                hint = "Write [group.|service.]metric[.stat], for example response.p95."
                yield bad_criterion((*path, "metric"), metric, str(why), hint)
            else:
                yield from _never_fails((*path, "fail_if"), item.get("fail_if"), ref.metric)


def _never_fails(path: Path, gate: Any, metric: Metric) -> Iterable[Mistake]:
    """Report a gate that fails only where a number falls by 100 % or more, which it can't."""
    found = _MARGIN.match(gate) if isinstance(gate, str) else None
    if found and metric.better == _FALLS_IF[found[1]] and float(found[2]) >= 100:
        reason = f"{metric.name} never falls by 100 % or more, so this gate could not fail"
        yield bad_value(path, reason, gate, "Write a smaller number.")


def _by_mistakes(
    path: Path, item: Mapping[str, Any], factors: Mapping[str, Factor], unsure: Iterable[str]
) -> Iterable[Mistake]:
    by = item.get("by")
    if not isinstance(by, str) or by in unsure:
        return
    at = (*path, "by")
    if by not in factors:
        yield unknown_name(at, by, "factor", factors)
    elif by == item.get("factor"):
        yield bad_value(at, "expected another factor than the compared one", by)
    elif len(factors[by].levels) < 2:
        yield bad_value(at, f"{by} has only one level, so there is nothing to compare the effect with", by)
    elif by in section_of(item, "when"):
        yield bad_value(at, f"when keeps only one level of {by}", by, "Leave it out of when.")


def bring_up_mistakes(data: Mapping[str, Any]) -> Iterable[Mistake]:
    """Report more bring-ups than blocks, or bring-ups of servers that svload does not start."""
    measure = section_of(data, "measure")
    bring_ups = measure.get("bring_ups")
    if not isinstance(bring_ups, int) or bring_ups <= 1:
        return
    replicates = measure.get("replicates", 6)
    if isinstance(replicates, int) and bring_ups > replicates:
        reason = f"a block has at most one bring-up, and there are only {replicates} blocks"
        yield bad_value(("measure", "bring_ups"), reason, bring_ups, "Raise replicates, or lower it.")
    services = section_of(data, "lab").values()
    if services and all(isinstance(service, dict) and "at" in service for service in services):
        yield bad_value(
            ("measure", "bring_ups"),
            "svload starts no service, so none can be brought up again",
            bring_ups,
            "Leave it out: the claims hold for the servers as they run.",
        )


def mixed_loads(
    data: Mapping[str, Any], cases: Sequence[Case], configs: Mapping[str, CaseConfig]
) -> Iterable[Mistake]:
    """Report comparisons of a closed loop with an open one: their numbers describe different populations
    (docs/method.md §1)."""
    for index, item in mappings_of(data, "compare"):
        factor, metric, by = item.get("factor"), item.get("metric"), item.get("by")
        if not isinstance(factor, str) or not isinstance(metric, str):
            continue
        varied = {factor, by} if isinstance(by, str) else {factor}
        when = {name: level for name, level in section_of(item, "when").items() if name not in varied}
        models: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        for case in cases:
            if case.name not in configs or not matches(when, case.levels):
                continue
            rest = tuple(sorted((name, level) for name, level in case.levels.items() if name not in varied))
            models.setdefault(rest, {})[_model(configs[case.name], metric)] = case.name
        mixed = next((found for found in models.values() if len(found) > 1), None)
        if mixed is not None:
            (one, first), (other, second) = list(mixed.items())[:2]
            reason = f"{first} is a {one}, {second} an {other}" if other.startswith("o") else f"{first} is an {one}, {second} a {other}"  # fmt: skip
            yield bad_value(
                ("compare", index, "factor"),
                f"closed and open loops are never compared ({reason})",
                factor,
                "Give both sides the same executor, or use when to compare within each kind.",
            )


def _model(config: CaseConfig, metric: str) -> str:
    """Return the load model of the group that the metric names; without one, of the main group."""
    groups = {group.name: group for group in config.groups}
    owner = metric.partition(".")[0]
    return str(groups.get(owner, groups[config.main_group]).executor.model)
