"""A case over time: load, responses, errors, CPU and memory, then every monitored resource, all on one axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.model.results import CaseResult
from svload.report.charts.timeline import LOW, Line, Mark, Panel, median_series, timeline
from svload.report.data.digest import TrialDigest
from svload.report.data.resources import CPU, MACHINE, MACHINE_CPU, MEMORY, Resource, Series
from svload.report.page.data import Detail, Table
from svload.report.wording.spelling import count_words, show_value

_LEAST_CHANGE = 1e-3


@dataclass(frozen=True)
class ResourceChart:
    """Every monitored resource of one owner: a panel for each that changed, a word for each that did not."""

    owner: str
    drawing: str
    moved: int
    still: tuple[tuple[str, str], ...]


def time_chart(
    case: CaseResult,
    names: Sequence[str],
    services: Sequence[str],
    digests: Sequence[TrialDigest],
    detail: Detail,
    colours: Mapping[str, int],
) -> tuple[dict[str, Any], Table] | None:
    """Return the main panels of a case's counted trials with their numbers; None if the page cannot afford
    them or there is nothing to draw. `no_failures` replaces the panel of failures."""
    if not detail.points or not digests:
        return None
    colour = {name: f"c{colours.get(name, 0)}" for name in (*names, *services, MACHINE)}

    def of_groups(series: str, label: str, thin: bool = False) -> list[Line]:
        return [
            Line(
                f"{name} {label}".strip(),
                colour[name],
                [one.groups[name].series[series] for one in digests if name in one.groups],
                thin,
                [one.name for one in digests if name in one.groups],
            )
            for name in names
        ]

    def of_services(metric: tuple[str, str]) -> list[Line]:
        return [_line(name, colour[name], digests, Resource(name, *metric)) for name in services]

    failures = of_groups("failures", "failed")
    failed = any(
        np.nansum(series.values) > 0 for line in failures for series in line.replicates if len(series.values)
    )
    panels = [
        Panel(
            "throughput", "rate_rps",
            [*of_groups("due", "due", True), *of_groups("throughput", "completed")],
            "completed (line) and due (dashed)",
        ),
        Panel(
            "response", "time_s",
            [*of_groups("p99", "p99", True), *of_groups("p50", "p50")],
            "p50 (line) and p99 (dashed), by the time they were due",
        ),
        Panel("under way", "count", of_groups("under way", "under way"), "requests due and not yet answered"),
        *([Panel("failed requests", "rate_rps", failures)] if failed else []),
        Panel(
            "CPU", "count",
            [*of_services(CPU), _line(MACHINE, colour[MACHINE], digests, MACHINE_CPU)],
            "cores busy",
        ),
        Panel("memory", "size_bytes", of_services(MEMORY), "resident"),
    ]  # fmt: skip
    drawing = timeline(
        panels, _end_s(digests), digests[0].window_s, digests[0].kept_s,
        f"{case.case} over time: throughput, response, requests under way, failures, CPU and memory of {count_words(len(digests), 'trial')}",
        marks=_marks(digests),
        points=detail.points, replicates=detail.replicates,
    )  # fmt: skip
    if not drawing:
        return None
    table = Table(("trial", "of", "metric", "offset_s", "value"), tuple(_every_point(digests, services)))
    return {"drawing": drawing, "names": (*names, *services, MACHINE), "no_failures": not failed}, table


def resource_owners(services: Sequence[str], digests: Sequence[TrialDigest], detail: Detail) -> list[str]:
    """Return the services, then the machine, if `resource_charts` draws something of them."""
    if not detail.resource_points:
        return []
    watched = {resource.owner for one in digests for resource in one.resources}
    return [owner for owner in (*services, MACHINE) if owner in watched]


def resource_charts(
    case: CaseResult,
    services: Sequence[str],
    digests: Sequence[TrialDigest],
    detail: Detail,
    colours: Mapping[str, int],
) -> Iterator[tuple[ResourceChart, Table]]:
    """Yield a chart with its numbers for each service and the machine, of every resource."""
    owners = resource_owners(services, digests, detail)
    every = sorted({resource for one in digests for resource in one.resources}) if owners else []
    for owner in owners:
        mine = {
            one: [digest.resources[one] for digest in digests if one in digest.resources]
            for one in every
            if one.owner == owner
        }
        still = {one: value for one, lines in mine.items() if (value := _still(lines)) is not None}
        moved = {one: lines for one, lines in mine.items() if one not in still}
        panels = [
            Panel(
                one.label,
                one.dimension,
                [Line(one.label, f"c{colours.get(owner, 0)}", lines)],
                one.meaning,
                _from_zero(lines),
            )
            for one, lines in moved.items()
        ]
        drawing = timeline(
            panels, _end_s(digests), digests[0].window_s, digests[0].kept_s,
            f"{case.case}: every monitored resource of {owner} that moved, {count_words(len(digests), 'trial')}",
            marks=_marks(digests),
        points=detail.resource_points, replicates=0, panel_px=LOW,
        )  # fmt: skip
        chart = ResourceChart(
            owner=owner,
            drawing=drawing,
            moved=len(moved),
            still=tuple((one.label, show_value(value, one.dimension)) for one, value in still.items()),
        )
        yield chart, Table(("metric", "offset_s", "median", "low", "high"), tuple(_spread_points(moved)))


def _marks(digests: Sequence[TrialDigest]) -> list[Mark]:
    faults = digests[0].lab.faults if digests else ()
    return [Mark(one.begun_s, one.what) for one in faults if one.begun_s is not None]


def _line(name: str, css: str, digests: Sequence[TrialDigest], resource: Resource) -> Line:
    mine = [one for one in digests if resource in one.resources]
    return Line(name, css, [one.resources[resource] for one in mine], trials=[one.name for one in mine])


def _end_s(digests: Sequence[TrialDigest]) -> float:
    return max(one.end_s for one in digests)


def _values(lines: Sequence[Series]) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.concatenate([line.values for line in lines])
    return values[np.isfinite(values)]


def _still(lines: Sequence[Series]) -> float | None:
    """Return the value of a resource that kept it in every trial (within 0.1 %); None if it changed."""
    values = _values(lines)
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    return low if high - low <= _LEAST_CHANGE * max(abs(low), abs(high)) else None


def _from_zero(lines: Sequence[Series]) -> bool:
    values = _values(lines)
    return not len(values) or float(values.min()) < 0.5 * float(values.max())


def _every_point(digests: Sequence[TrialDigest], services: Sequence[str]) -> Iterator[tuple[object, ...]]:
    wanted = {MACHINE_CPU: "CPU, cores busy"}
    wanted |= {Resource(name, *CPU): "CPU, cores busy" for name in services}
    wanted |= {Resource(name, *MEMORY): "memory, bytes" for name in services}
    for trial in digests:
        yield from points_of(trial, wanted)


def points_of(trial: TrialDigest, named: Mapping[Resource, str]) -> Iterator[tuple[Any, ...]]:
    """Yield (trial, owner, metric, offset in s, value) of its groups' series and of these resources."""
    lines = [
        (name, metric, line) for name, one in trial.groups.items() for metric, line in one.series.items()
    ]
    lines += [
        (one.owner, name, trial.resources[one]) for one, name in named.items() if one in trial.resources
    ]
    for owner, metric, line in lines:
        for at, value in zip(line.at_s.tolist(), line.values.tolist(), strict=True):
            if value == value:
                yield trial.name, owner, metric, at, value


def _spread_points(moved: Mapping[Resource, Sequence[Series]]) -> Iterator[tuple[object, ...]]:
    """Yield the median over trials and their spread, at the moments of the longest trial."""
    for resource, lines in moved.items():
        known = [line for line in lines if len(line.at_s)]
        middle = median_series(known)
        table = np.array(
            [np.interp(middle.at_s, line.at_s, line.values, left=np.nan, right=np.nan) for line in known]
        )
        finite = np.isfinite(table).any(axis=0)
        low, high = np.fmin.reduce(table, axis=0), np.fmax.reduce(table, axis=0)  # ignoring NaN
        for row in zip(
            *(one[finite].tolist() for one in (middle.at_s, middle.values, low, high)), strict=True
        ):
            yield resource.label, *row
