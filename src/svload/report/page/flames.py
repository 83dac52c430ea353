"""Sampled profiles on the page: a case's flame graph, functions by their share of the sampled CPU with
callers below their callees, its busiest functions, and the run's busiest profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from svload.analysis.stacks import Frame, FunctionShare, call_tree, function_shares, most_inclusive
from svload.model.results import CaseResult
from svload.model.stacks import KERNEL, Stacks
from svload.model.units import show_duration
from svload.report.charts.drawing import Drawing, fitting
from svload.report.data.digest import TrialDigest
from svload.report.data.gather import Gathered
from svload.report.page.data import Table
from svload.report.wording.spelling import count_words


@dataclass(frozen=True)
class FlameView:
    """One trial's profile: its drawing and its words; `missing` is the reason if it was not measured."""

    service: str
    case: str
    drawing: str
    named: str
    how: str
    missing: str
    functions: tuple[tuple[str, str, str], ...]
    table: Table


def sampled_trial(digests: Sequence[TrialDigest]) -> TrialDigest | None:
    """Return the trial whose stacks a case shows: the first with samples, else the first asked."""
    asked = [one for one in digests if one.stacks is not None]
    return next((one for one in asked if one.stacks and one.stacks.samples), asked[0] if asked else None)


def flame_view(case: str, digests: Sequence[TrialDigest], least: float) -> FlameView | None:
    """Return a case's profile, drawn without functions of less than `least` of all samples; None if the study
    asked for none."""
    trial = sampled_trial(digests)
    if trial is None or trial.stacks is None:
        return None
    stacks = trial.stacks
    if not stacks.samples:
        return FlameView(stacks.service, case, "", "", "", not_measured(stacks), (), Table((), ()))
    rows = [one for one in function_shares(stacks.folded) if one.own][:MOST_LISTED]
    title = f"{stacks.service} in {case}: which functions used CPU"
    return FlameView(
        service=stacks.service,
        case=case,
        drawing=flame_graph(call_tree(stacks.folded), title, least),
        named=named(stacks),
        how=sampled_how(stacks, trial.name),
        missing="",
        functions=tuple(_row(one, stacks.samples) for one in rows),
        table=Table(("stack", "samples"), tuple(stacks.folded.items())),
    )


def _row(one: FunctionShare, samples: int) -> tuple[str, str, str]:
    own, inclusive = (f"{100 * count / samples:.1f} %" for count in (one.own, one.inclusive))
    return function_name(one.name), own, inclusive


def busiest(gathered: Gathered) -> CaseResult | None:
    """Return the case whose sampled service used most CPU per second; if none could be sampled, the first
    that was to be."""
    found = [
        (_cores(trial.stacks), case)
        for case in gathered.findings.cases
        if (trial := sampled_trial(gathered.of_case(case.case))) is not None
    ]
    return max(found, key=lambda one: one[0])[1] if found else None


def _cores(stacks: Stacks | None) -> float:
    return stacks.cpu_s / stacks.window_s if stacks is not None and stacks.window_s > 0 else 0.0


def overall_flame(gathered: Gathered) -> FlameView | None:
    """Return the run's busiest profile in full detail."""
    case = busiest(gathered)
    return None if case is None else flame_view(case.case, gathered.of_case(case.case), LEAST_WIDTH / WIDTH)


MOST_NAMED = 5
MOST_LISTED = 10


def function_name(name: str) -> str:
    """Return a function's name for sentences and tables."""
    return f"{name.removesuffix(KERNEL)} (kernel)" if name.endswith(KERNEL) else name


def named(stacks: Stacks) -> str:
    """Return the functions that took most, by themselves and with what they called."""
    shares = function_shares(stacks.folded)
    own = [one for one in shares if one.own][:MOST_NAMED]
    under_way = most_inclusive(shares, MOST_NAMED)
    text = f"Most CPU by itself: {_listed([(one.name, one.own) for one in own], stacks.samples)}."
    if under_way:
        text += f" With what it called: {_listed([(one.name, one.inclusive) for one in under_way], stacks.samples)}."
    return text


def _listed(parts: Sequence[tuple[str, int]], samples: int) -> str:
    return ", ".join(f"{function_name(name)} {100 * count / samples:.0f} %" for name, count in parts)


def sampled_how(stacks: Stacks, trial: str) -> str:
    """Return where, how often and over how much CPU time samples were taken, and the cost of sampling."""
    text = (
        f"{count_words(stacks.samples, 'sample')} of {stacks.service} in {trial} alone, {stacks.rate_hz} a second of "
        f"CPU: {show_duration(stacks.cpu_s)} of CPU in {show_duration(stacks.window_s)}. Waiting takes no "
        "CPU and is not included."
    )
    if stacks.sampler_cpu_s is not None:
        text += (
            f" perf itself took {show_duration(stacks.sampler_cpu_s)} of CPU beside the load; the time of "
            "its interrupts is included in the service's."
        )
    if stacks.lost:
        text += f" Of the whole machine's samples {stacks.lost} were lost."
    return text


def not_measured(stacks: Stacks) -> str:
    """Return why there is no flame graph."""
    return stacks.why or f"The profile of {stacks.service} is not measured."


WIDTH = 960
ROW = 16
LEAST_WIDTH = 0.8
"""Points; narrower functions are left out, with all that they called."""
MOST_ROWS = 60
_LEAST_NAMED = 25.0
"""Narrower boxes have no name."""


class Box(NamedTuple):
    """One function in one place: left end and width as shares of all samples, and its depth."""

    name: str
    left: float
    width: float
    depth: int
    samples: int
    own: int


def boxes(root: Frame, least: float = LEAST_WIDTH / WIDTH) -> Iterator[Box]:
    """Yield all functions that are wide enough, the root first; those called by one function are in order of
    their names."""
    waiting: list[tuple[Frame, int, int]] = [(root, 0, 0)]
    while waiting:
        frame, left, depth = waiting.pop()
        if frame.samples < least * root.samples or depth >= MOST_ROWS:
            continue
        yield Box(
            frame.name, left / root.samples, frame.samples / root.samples, depth, frame.samples, frame.own
        )
        for name in sorted(frame.called):
            waiting.append((frame.called[name], left, depth + 1))
            left += frame.called[name].samples


def flame_graph(root: Frame, title: str, least: float = LEAST_WIDTH / WIDTH) -> str:
    """Draw the graph from below: callers under their callees, so that the running function is on top.
    Functions of less than `least` of all samples are left out. "" without samples."""
    if not root.samples:
        return ""
    found = list(boxes(root, least))
    height = (max(box.depth for box in found) + 1) * ROW + 2
    drawing = Drawing(WIDTH, height, title)
    for box in found:
        x, y = box.left * WIDTH, height - (box.depth + 1) * ROW - 1
        width = box.width * WIDTH
        drawing.rect(x, y, max(width - 0.5, 0.4), ROW - 1, _colour(box), box_words(box))
        if width >= _LEAST_NAMED:
            drawing.text(x + 3, y + ROW - 5, fitting(box.name.removesuffix(KERNEL), width - 6), "frame")
    return drawing.render("chart wide flame")


def box_words(box: Box) -> str:
    """Return the text shown on hovering."""
    own = f"; itself {100 * box.own / box.samples * box.width:.1f} %" if box.own else ""
    kind = ", kernel" if box.name.endswith(KERNEL) else ""
    return f"{box.name.removesuffix(KERNEL)}{kind}: {100 * box.width:.1f} % of the samples ({box.samples:,}){own}"


def _colour(box: Box) -> str:
    """Return the colour class of the service's own code, the kernel's, or the root."""
    if box.depth < 2:
        return "k-all"
    return "k-kernel" if box.name.endswith(KERNEL) else "k-user"
