"""compare.html: two runs side by side, case by case. They were not interleaved, so nothing on it
is a claim (docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from svload.analysis.runs import NOT_INTERLEAVED, matched
from svload.model.results import Estimate
from svload.report.charts.ratios import Ratio, ratio_axis, ratio_row, ratio_scale
from svload.report.charts.tail import TailLine, curve_points, tail_chart
from svload.report.data.digest import Curve, merged_curve
from svload.report.data.gather import Gathered
from svload.report.page.data import Anchors, Table, packed
from svload.report.page.overall import OverallChart
from svload.report.page.ran import what_was_run
from svload.report.page.template import render_template
from svload.report.wording.numbers import Number
from svload.report.wording.spelling import (
    change_words,
    dimension_of,
    list_words,
    load_line,
    metric_label,
    metric_words,
    split_metric,
    unique,
)

SECTIONS = {"answer": "Answer", "runs": "The runs", "cases": "Case by case", "curves": "Curves"}
_OWN_IDS = ("top", "theme", "whole", "alone-bar", "table", "filters", "by-grade", "search", "shown")
_MOST_SENTENCES, _MOST_NAMED, _MOST_CURVES, _POINTS = 9, 3, 120, 60
_DRIFT = (
    "The runs were not interleaved: anything that changed between them, including the machine, is part of "
    "every difference, and two runs can't show how much. So no ratio has an interval, and nothing here is a "
    "claim."
)


@dataclass(frozen=True)
class PairRow:
    """One case and metric: both runs' estimates, their ratio (second over first) drawn and in words, or why
    there is none."""

    case: str
    metric: str
    label: str
    first: Number
    second: Number
    ratio: Estimate
    drawing: str
    brief: str
    note: str
    filters: str


def compare_page(first: Gathered, second: Gathered, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page; `rows` are the result of `analysis.compare_runs`."""
    pairs = _pairs(first, second, rows)
    scale = ratio_scale([Ratio(row.case, row.ratio, "") for row in pairs])
    anchors = Anchors([*SECTIONS, *(f"{name}-h" for name in SECTIONS), *_OWN_IDS])
    ids = {row.case: anchors(row.case) for row in pairs}
    curves = list(_curves(first, second, list(ids), anchors))
    same, differing = _facts(first, second)
    return render_template(
        "compare.html.j2",
        {
            "title": f"{first.run.name} and {second.run.name}",
            "first": first,
            "second": second,
            "loads": unique(load_line(one.findings) for one in (first, second)),
            "sections_nav": {
                key: name for key, name in SECTIONS.items() if pairs or key not in ("cases", "curves")
            },
            "sentences": _sentences(first.group, pairs),
            "nothing": "" if pairs else "the two runs have no case in common with the same name and levels",
            "drift": _DRIFT,
            "same": same,
            "differing": differing,
            "only": [
                (f"the {place} run", names)
                for place, names in zip(("first", "second"), _alone(first, second), strict=True)
                if names
            ],
            "factors": first.factors,
            "levels_by_case": {case.case: case.levels for case in first.findings.cases},
            "metrics": list(dict.fromkeys(row.label for row in pairs)),
            "chosen": _label(f"{first.group}.response.p50"),
            "pairs": pairs,
            "axis": ratio_axis(scale) if scale else "",
            "ids": ids,
            "curves": curves,
            "group": first.group,
            "data": packed({one.place: one.table for one in curves}),
        },
    )


def _label(metric: str) -> str:
    return metric_label(metric) if split_metric(metric)[1] else metric


def _pairs(first: Gathered, second: Gathered, rows: Sequence[Mapping[str, Any]]) -> list[PairRow]:
    same = {mine.case: (mine, other) for mine, other in matched(first.findings, second.findings)}
    ratios = [Estimate(value=row["ratio"]) for row in rows]
    named = [Ratio(str(row["case"]), ratio, "not shown") for row, ratio in zip(rows, ratios, strict=True)]  # fmt: skip
    scale = ratio_scale(named)
    found = []
    for row, ratio, one in zip(rows, ratios, named, strict=True):
        case, metric = str(row["case"]), str(row["metric"])
        mine, other = same[case]
        found.append(
            PairRow(
                case=case,
                metric=metric,
                label=_label(metric),
                first=first.numbers.of_case(mine, metric),
                second=second.numbers.of_case(other, metric),
                ratio=ratio,
                drawing=ratio_row(one, scale) if scale and ratio.value is not None else "",
                brief=change_words(ratio.value, dimension_of(metric)) if ratio.value is not None else "",
                note="" if row["note"] == NOT_INTERLEAVED else str(row["note"]),
                filters=first.filters(mine),
            )
        )
    return found


def _sentences(group: str, pairs: Sequence[PairRow]) -> list[tuple[str, tuple[str, ...]]]:
    """Return (sentence, cases that it is about), the main group's metrics first."""
    metrics = list(dict.fromkeys(row.metric for row in pairs if row.ratio.value is not None))
    metrics.sort(key=lambda metric: split_metric(metric)[0] != group)
    return [_sentence(metric, [row for row in pairs if row.metric == metric and row.ratio.value is not None]) for metric in metrics[:_MOST_SENTENCES]]  # fmt: skip


def _sentence(metric: str, pairs: Sequence[PairRow]) -> tuple[str, tuple[str, ...]]:
    words = metric_words(metric)
    head = f"{words[:1].upper()}{words[1:]}"
    largest = sorted(pairs, key=lambda row: -_size(row.ratio))[:_MOST_NAMED]
    most = list_words([f"{row.case} {row.brief}" for row in largest])
    rest = f", and {len(pairs) - len(largest)} more that differ less" if len(pairs) > len(largest) else ""
    return f"{head} in the second run: {most}{rest}.", tuple(row.case for row in largest)


def _size(ratio: Estimate) -> float:
    value = ratio.value or 1.0
    return max(value, 1 / value)


def _facts(first: Gathered, second: Gathered) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Return (names of what is the same, what differs): facts, servers, settings as found."""
    mine, theirs = _every_fact(first), _every_fact(second)
    names = list(dict.fromkeys([*mine, *theirs]))
    same = [name for name in names if mine.get(name) == theirs.get(name)]
    differing = [(name, mine.get(name, "–"), theirs.get(name, "–")) for name in names if name not in same]
    return same, differing


_OF_ONE_RUN = ("run", "when", "trials", "cost of the monitors")


def _every_fact(run: Gathered) -> dict[str, str]:
    ran = what_was_run(run)
    found = {name: value for name, value in ran.facts if name not in _OF_ONE_RUN}
    found |= {f"{service}: version": f"{kit} {version}".strip() for service, kit, version, _ in ran.services}
    for row in ran.settings:
        name = f"{row.service}: {row.name}"
        found[name] = "; ".join(filter(None, (found.get(name, ""), row.found)))
    return found


def _alone(first: Gathered, second: Gathered) -> Iterator[list[str]]:
    """Yield, for the first run, then the second, the cases that it alone has, or with other levels."""
    pairs = matched(first.findings, second.findings)
    for place, run in enumerate((first, second)):
        known = [pair[place].case for pair in pairs]
        yield [one.case for one in run.findings.cases if not one.excluded and one.case not in known]


def _curves(
    first: Gathered, second: Gathered, cases: Sequence[str], anchors: Anchors
) -> Iterator[OverallChart]:
    """Yield the main group's response in both runs, one picture per case."""
    group = first.group
    same = {mine.case: (mine, other) for mine, other in matched(first.findings, second.findings)}
    for case in cases[:_MOST_CURVES]:
        pooled: list[Curve] = []
        for run, result in zip((first, second), same[case], strict=True):
            mine = [one.groups[group].response for one in run.counted(result) if group in one.groups]
            pooled.append(merged_curve(mine))
        named = zip(("first", "second"), pooled, strict=True)
        lines = [TailLine(curve, f"main c{number}", name) for number, (name, curve) in enumerate(named)]
        drawing = tail_chart(lines, [], f"{case}, {group}: response time by percentile in both runs", _POINTS)
        if drawing:
            rows = tuple(
                (place, run.run.name, p, value)
                for place, run, curve in zip(("first", "second"), (first, second), pooled, strict=True)
                for p, value in zip(*curve_points(curve, _POINTS), strict=True)
            )
            table = Table(("run", "name", "p", "seconds"), rows)
            yield OverallChart(anchors(case, "curves"), case, drawing, "", table)
