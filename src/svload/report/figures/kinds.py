"""The figures of a run for a paper: the page's charts at the width of a journal's column, each with its
caption. To add a kind, write its generator and list it in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.analysis.view import kept_window
from svload.model.results import CaseResult
from svload.model.units import Dimension
from svload.model.visible import visible
from svload.report.charts.bars import anatomy_chart, usage_chart
from svload.report.charts.drawing import NARROW, Key, rows_span
from svload.report.charts.loads import SIDES, levels_chart, search_chart
from svload.report.charts.ratios import Ratio, ratios_chart
from svload.report.charts.rows import FENCE, MOST_OUTSIDE, Replicate, box_of, boxes_chart, strips_chart
from svload.report.charts.tail import TailLine, tail_chart
from svload.report.charts.timeline import Line, Panel, timeline
from svload.report.data.digest import SEGMENTS, merged_curve
from svload.report.data.gather import PALETTE, Gathered, anatomy_by_case, usage_by_service
from svload.report.data.resources import Series
from svload.report.wording.curve_rows import curve_caption, drawable_curves, title_of
from svload.report.wording.search_rows import limit_words, search_caption, search_title
from svload.report.wording.spelling import GRADE_MARK, count_words, list_words, unique
from svload.store.load_time import responses_ns

WIDTHS_PT = {"single": 252.0, "double": 516.0}
"""Column widths in points (1/72 inch): 3.5 and 7.16 inches, as IEEE and ACM set them."""
_LONGEST_LABEL = 48


@dataclass(frozen=True)
class Figure:
    """`name` is the stem of its files; `draw` takes the whole width in the page's pixels and returns SVG;
    `caption` states what is shown, n and the interval."""

    name: str
    caption: str
    draw: Callable[[float], str]


def case_label(case: CaseResult, factors: Sequence[str], width: float) -> str:
    """Return a case's name, with its levels of `factors` if the drawing is wide enough."""
    levels = " · ".join(case.levels[factor] for factor in factors if factor in case.levels)
    text = visible(f"{case.case}  {levels}" if levels and width > NARROW else case.case)
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


def varying(gathered: Gathered) -> list[str]:
    """Return the factors with more than one level."""
    return [factor for factor, levels in gathered.factors.items() if len(levels) > 1]


def counted_words(gathered: Gathered, cases: Sequence[CaseResult]) -> str:
    """Return `n = 4 trials a case`, or the number of each case."""
    key = f"{gathered.group}.response.p50"
    counts = {case.case: gathered.numbers.of_case(case, key).believed for case in cases}
    if not counts:
        return "n = 0"
    usual = max(set(counts.values()), key=list(counts.values()).count)
    odd = [f"{visible(name)}: {count}" for name, count in counts.items() if count != usual]
    text = f"n = {count_words(usual, 'trial')} a case"
    return f"{text} ({list_words(odd, 8)})" if odd else text


def sure_words(gathered: Gathered) -> str:
    """Return the certainty of the figure's numbers, worded as on the page."""
    return f"{gathered.findings.floor[:1].upper()}{gathered.findings.floor[1:]}."


@dataclass(frozen=True)
class Colouring:
    """Case → the meaning of its colour; `factor` if that is a level, "" if it is the case or nothing."""

    by: dict[str, str]
    factor: str

    def css(self, case: str) -> str:
        """Return the class of a case's line."""
        return f"c{list(dict.fromkeys(self.by.values())).index(self.by[case])} main"

    @property
    def key(self) -> Key:
        """The colours and their meanings, if there are several."""
        names = dict.fromkeys(self.by.values())
        return [(f"c{number} main", name) for number, name in enumerate(names)] if len(names) > 1 else ()

    @property
    def words(self) -> str:
        return "Lines: cases" + (f", coloured by {visible(self.factor)}" if self.factor else "")


def colouring(gathered: Gathered, names: list[str]) -> Colouring:
    """Return the colours of these cases. The factor is the first compared one, else the one with the most
    levels that fit the palette."""
    cases = {case.case: case for case in gathered.findings.cases}
    if len(names) <= len(PALETTE):
        return Colouring({name: case_label(cases[name], varying(gathered), inf) for name in names}, "")
    fitting = {
        factor: len(levels) for factor, levels in gathered.factors.items() if 1 < len(levels) <= len(PALETTE)
    }
    compared = [one.factor for one in gathered.lock.comparisons if one.factor in fitting]
    factor = next(iter(compared), max(fitting, key=fitting.__getitem__, default=""))
    return Colouring({name: visible(cases[name].levels.get(factor, "")) for name in names}, factor)


_MOST_NAMES = 0.35
"""The share of the width that the cases' names may take."""


def anatomy(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no request was ok."""
    bars = anatomy_by_case(gathered, gathered.group)
    cases = [case for case in gathered.findings.cases if case.case in bars]
    if not bars:
        return
    refused = {case.case for case in cases if case.instrument == "REFUSED"}
    key = [
        (f"a{number}", part)
        for number, part in enumerate(SEGMENTS)
        if any(parts.get(part, 0.0) > 0 for parts in bars.values())
    ]

    def draw(width: float) -> str:
        rows = [
            (case_label(case, varying(gathered), width) + (f" {GRADE_MARK['REFUSED']}" if case.case in refused else ""), bars[case.case])
            for case in cases
        ]  # fmt: skip
        left, _ = rows_span([name for name, _ in rows], width, _MOST_NAMES)
        return anatomy_chart(
            rows, f"where a request of {gathered.group} spends its time", left, width=width, key=key
        )

    caption = (
        f"Where a request of {gathered.group} spends its time by case: means over the ok requests of the kept "
        f"window, from the intended start "
        f"to the last byte; the parts add up to the mean response. Means over trials, no interval. "
        f"{'✗: REFUSED. ' if refused else ''}{counted_words(gathered, cases)}."
    )
    yield Figure("anatomy", caption, draw)


def boxes(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if the group kept no rows."""
    boxes = {name: box_of(values) for name, values in _responses_s(gathered).items() if len(values)}
    cases = [case for case in gathered.findings.cases if case.case in boxes]
    if not any(box.high > 0 for box in boxes.values()):
        return

    def draw(width: float) -> str:
        rows = [(case_label(case, varying(gathered), width), boxes[case.case]) for case in cases]
        return boxes_chart(rows, f"responses of {gathered.group} by case", width)

    outside = sum(len(box.outside) for box in boxes.values())
    caption = (
        f"Responses of the ok requests of {gathered.group} that were due in the kept window, trials pooled, "
        f"logarithmic. Boxes: quartiles; ticks: "
        f"medians; lines: to the last value inside Tukey's fences ({FENCE:g} interquartile ranges beyond the "
        f"box); dots: values outside "
        f"({outside:,} in all, of each case the {MOST_OUTSIDE} most extreme). Pictures: the interval of a "
        f"median is in the figure of medians. "
        f"{counted_words(gathered, cases)}. {sure_words(gathered)}"
    )
    yield Figure("boxes", caption, draw)


def _responses_s(gathered: Gathered) -> dict[str, NDArray[Any]]:
    """Return, by case, the responses of its counted trials."""
    counted = {one.name for case in gathered.findings.cases for one in gathered.counted(case)}
    found: dict[str, list[NDArray[Any]]] = {}
    for result, data in gathered.read():
        names = [group.name for group in data.summary.groups]
        if result.trial not in counted or gathered.group not in names:
            continue
        samples, kept = data.samples, kept_window(data.summary, result.cut_ns)
        due = samples["due_ns"]
        mine = (samples["group"] == names.index(gathered.group)) & (samples["error"] == 0)
        mine &= (due >= kept.low_ns) & (due < kept.high_ns)
        found.setdefault(result.case, []).append(responses_ns(samples)[mine] / 1e9)
    return {case: np.concatenate(parts) for case, parts in found.items()}


def comparisons(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no comparison has a ratio."""
    claims = [claim for claim in gathered.findings.claims if claim.ratio.value]
    if not claims:
        return

    def draw(width: float) -> str:
        rows = [Ratio(claim.name, claim.ratio, claim.outcome) for claim in claims]
        return ratios_chart(rows, width)

    units = " or ".join(unique(claim.unit for claim in claims))
    counts = " or ".join(unique(count_words(claim.blocks, claim.unit) for claim in claims))
    metrics = unique(claim.metric for claim in claims)
    caption = (
        f"Ratios of {' and '.join(metrics)} over matched cases, logarithmic; left of 1 the treatment is "
        f"smaller. Bars: 95 % interval for all comparisons together (t, one {units} left out at a time). "
        f"Filled: decided after Holm's correction; hollow: not "
        f"decided by this run. n = {counts}. "
        f"{sure_words(gathered)}"
    )
    yield Figure("comparisons", caption, draw)


_COURSE_HEIGHT = {True: 240.0, False: 180.0}
_POINTS = 600


def course(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no case has a response over time."""
    group = gathered.group
    found = {}
    for case in gathered.findings.cases:
        digests = [one.groups[group] for one in gathered.counted(case) if group in one.groups]
        series = [_known(one.series["p50"]) for one in digests]
        if case.instrument != "REFUSED" and any(len(one.at_s) for one in series):
            found[case.case] = series
    if not found:
        return
    cases = [case for case in gathered.findings.cases if case.case in found]
    colours = colouring(gathered, list(found))
    end_s = max(float(one.at_s[-1]) for series in found.values() for one in series if len(one.at_s))

    def draw(width: float) -> str:
        lines = [Line(name, colours.css(name).split()[0], series) for name, series in found.items()]
        panel = Panel(f"median response of {group}", "time_s", lines, zero=False, log=True)
        whole = (0.0, end_s)
        return timeline(
            [panel], end_s, whole, whole, f"{group} over time", points=_POINTS, replicates=0,
            panel_px=_COURSE_HEIGHT[width > NARROW], width=width, key=colours.key,
        )  # fmt: skip

    caption = (
        f"Median response of {group} over the time of a trial, of the requests due then; the middle one of "
        f"the trials. {colours.words}. Ramps and "
        f"warm-up are in it. No interval: single seconds of a trial depend on each other. "
        f"{counted_words(gathered, cases)}. "
        f"{sure_words(gathered)}"
    )
    yield Figure("course", caption, draw)


def _known(series: Series) -> Series:
    """Return the moments with a value above 0: a line joins them over those without."""
    known = series.values > 0
    return Series(series.at_s[known], series.values[known])


def load(gathered: Gathered) -> Iterator[Figure]:
    """Yield a figure for each side of the first curve of the report's main group, else of any group; nothing
    if no factor is a load."""
    curves = drawable_curves(gathered.findings.curves)
    curve = next((one for one in curves if one.group == gathered.group), next(iter(curves), None))
    if curve is None:
        return
    others = len(curves) - 1
    more = f" The report has {count_words(others, 'more curve')}." if others else ""
    for side, name in SIDES.items():
        title = f"{name[:1].upper()}{name[1:]} of {title_of(curve)}"
        caption = f"{visible(title)}. {curve_caption(curve)}{more} {sure_words(gathered)}"
        yield Figure(f"load-{side}", caption, partial(levels_chart, curve, title, (side,)))


def response(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no case has a median."""
    key, numbers = f"{gathered.group}.response.p50", gathered.numbers
    cases = [case for case in gathered.findings.cases if case.excluded is None and key in case.metrics]
    points = {
        case.case: [
            Replicate(trial.trial, trial.replicate, value, numbers.of_trial(trial, key).grade)
            for trial in gathered.trials_of(case.case)
            if key in trial.metrics and (value := trial.metrics[key].value) is not None and value > 0
        ]
        for case in cases
    }
    if not any(points.values()):
        return

    def draw(width: float) -> str:
        rows = [
            (case_label(case, varying(gathered), width), points[case.case], None if numbers.of_case(case, key).refused else case.metrics[key])
            for case in cases
        ]  # fmt: skip
        return strips_chart(rows, f"median response of {gathered.group}", width)

    models = " and ".join(
        dict.fromkeys(case.load_model[gathered.group] for case in cases if gathered.group in case.load_model)
    )
    caption = (
        f"Median response of {gathered.group} by case{f' ({models})' if models else ''}, from the intended "
        f"start, logarithmic. Lines: "
        f"geometric mean over trials; bars: its 95 % interval (t over the trials' logarithms); dots: single trials, hollow if WEAK"
        f"{'; crosses: REFUSED trials, which do not count' if any(case.refused for case in cases) else ''}. "
        f"{counted_words(gathered, cases)}. {_missing(gathered, key)}{sure_words(gathered)}"
    )
    yield Figure("response", caption, draw)


def _missing(gathered: Gathered, key: str) -> str:
    names = [
        visible(case.case)
        for case in gathered.findings.cases
        if case.excluded is None and not any(key in one.metrics and one.metrics[key].value for one in gathered.trials_of(case.case))
    ]  # fmt: skip
    return f"No median: {list_words(names, 8)}. " if names else ""


def search(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if the run is no search, or has no trial."""
    found = gathered.findings.capacity
    if found is None or not found.trials:
        return
    title = search_title(found)
    caption = (
        f"The search for {visible(title)}: {visible(limit_words(found))}. "
        f"{search_caption(found)} {sure_words(gathered)}"
    )
    yield Figure("search", caption, lambda width: search_chart(found, f"search for {title}", width))


_TAIL_HEIGHT = {True: 340.0, False: 280.0}


def tail(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure; nothing if no request was ok."""
    group = gathered.group
    curves = {}
    for case in gathered.findings.cases:
        digests = [one.groups[group] for one in gathered.counted(case) if group in one.groups]
        merged = merged_curve([one.response for one in digests])
        if case.instrument != "REFUSED" and (merged.values_s > 0).any():
            curves[case.case] = (case, merged)
    if not curves:
        return
    colours = colouring(gathered, list(curves))

    def draw(width: float) -> str:
        lines = [TailLine(curve, colours.css(name), name, name) for name, (_, curve) in curves.items()]
        return tail_chart(
            lines, [], f"{group}: response by percentile",
            width=width, height=_TAIL_HEIGHT[width > NARROW], key=colours.key, name=f"response of {group}",
        )  # fmt: skip

    caption = (
        f"Distribution of the response of {group}, trials pooled (histograms merged; nearest rank, failures "
        f"above every limit). {colours.words}. "
        f"Pooled curves are pictures: intervals are in the figure of medians. "
        f"{counted_words(gathered, [case for case, _ in curves.values()])}. "
        f"{sure_words(gathered)}"
    )
    yield Figure("tail", caption, draw)


def usage(gathered: Gathered) -> Iterator[Figure]:
    """Yield the figure of each resource that was measured in any service."""
    yield from _figure(gathered, "cpu", "cpu.mean", "count", "Busy cores")
    yield from _figure(gathered, "memory", "memory.max", "size_bytes", "Largest resident memory")


def _figure(gathered: Gathered, name: str, metric: str, dimension: Dimension, title: str) -> Iterator[Figure]:
    cases, bars = usage_by_service(gathered, metric)
    if not bars:
        return

    def draw(width: float) -> str:
        key = [(f"f{colour}", service) for service, colour, _ in bars]
        names = [case.case for case in cases]
        return usage_chart(names, bars, dimension, f"{title}, by case", width=width, key=key, axis=title)

    caption = (
        f"{title} of each service by case, under load; mean over trials with its 95 % interval; "
        f"hatched: REFUSED. {counted_words(gathered, cases)}."
    )
    yield Figure(name, caption, draw)


KINDS = (anatomy, boxes, comparisons, course, load, response, search, tail, usage)
