"""report.html in the most detail that fits, and series.csv if the lines over time do not: every section as
plain values, charts as SVG. The template does only the layout."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from math import exp
from typing import Any

from svload.host.process.forks import spread
from svload.model.results import CaseResult, Findings
from svload.model.units import rounded
from svload.model.visible import plain_cell
from svload.report.charts.drawing import Scale
from svload.report.charts.ratios import Plot, claim_plot, plot_scale, rounds_chart
from svload.report.charts.rows import strip, strip_axis, strip_scale
from svload.report.data.digest import SEGMENTS
from svload.report.data.gather import Gathered
from svload.report.data.resources import meanings
from svload.report.page.cases import OUTCOMES, case_section, replicates_of, section_places
from svload.report.page.data import LARGEST_BYTES, LEVELS, Anchors, Detail, first_level, packed
from svload.report.page.flames import overall_flame
from svload.report.page.matrix import matrix, shadings
from svload.report.page.overall import anatomy_overall, curve_views, grid_views, search_view, usage_charts
from svload.report.page.overtime import points_of
from svload.report.page.ran import card, what_was_run
from svload.report.page.template import render_template
from svload.report.wording.answer import LIMITS_TITLE, Sentence, answer
from svload.report.wording.claimed import Claimed, details, lost_words, pair_strangers, ran_first
from svload.report.wording.criteria import OUTCOME_MARKS, kept, kept_lines, measured_words, open_or_failed
from svload.report.wording.numbers import too_few_rule
from svload.report.wording.spelling import GRADE_MARK, load_line, metric_label, services_of, show_time

SECTIONS = {
    "answer": "Answer",
    "search-for": "Search",
    "matrix": "Matrix",
    "comparisons": "Comparisons",
    "load": "Load",
    "overview": "Cases",
    "own": "The study’s tables",
    "anatomy": "Anatomy",
    "usage": "CPU and memory",
    "profile": "Flame graph",
    "cases": "Each case",
    "run": "What was run",
    "reading": "How to read",
}


_OWN_IDS = (
    "top", "theme", "whole", "alone-bar", "shade", "shade-low", "shade-name", "shade-high", "shade-note",
    "shades", "table", "thresholds", "floor", "filters", "by-grade", "search", "shown", "anatomy-chart",
    "cpu-chart", "memory-chart", "flame-graph",
)  # fmt: skip
"""Ids of the page itself, which cases must not use."""


def page_context(gathered: Gathered, detail: Detail) -> dict[str, Any]:
    """Return all values that report.html.j2 reads."""
    findings = gathered.findings
    anchors = Anchors([*SECTIONS, *(f"{name}-h" for name in SECTIONS), *_OWN_IDS])
    ids = {case.case: anchors(case.case) for case in findings.cases}
    trial_ids = {trial.trial: anchors(trial.trial) for trial in findings.trials}
    claim_ids = {claim.name: anchors(f"claim {claim.name}") for claim in findings.claims}
    found = answer(findings)
    shades = shadings(gathered.numbers)
    group = gathered.group
    ran_cases = [case for case in findings.cases if case.excluded is None]
    places = {case.case: section_places(gathered, case, detail, anchors) for case in ran_cases}

    def section(case: CaseResult) -> dict[str, Any]:
        return case_section(gathered, case, detail, places[case.case])

    meanings()  # loads every monitor, here for all workers
    sections = spread(section, ran_cases)
    silences = {
        one["case"].case: next((line["silence"] for line in one["groups"] if line["name"] == group), "–")
        for one in sections
    }
    scale = _strip_scale(findings, group)
    overall = [anatomy_overall(gathered, group), *usage_charts(gathered)]
    curves = curve_views(gathered, anchors)
    limited = grid_views(findings, anchors)
    search = search_view(gathered, anchors)
    flame = overall_flame(gathered)
    absent = [
        name
        for name, there in (
            ("search-for", search),
            ("comparisons", found.claims),
            ("load", curves),
            ("anatomy", overall[0]),
            ("usage", overall[1:]),
            ("profile", flame),
            ("own", gathered.own),
        )
        if not there
    ]
    everything = {**claim_ids, **trial_ids, **ids}
    return {
        "findings": findings,
        "run": gathered.run.name,
        "title": findings.study + (f" ({findings.profile})" if findings.profile else ""),
        "when": _when(gathered),
        "sections_nav": {key: name for key, name in SECTIONS.items() if key not in absent},
        "answer": found,
        "first_lines": _answer_lines(found.first, everything, findings),
        "answer_lines": _answer_lines(found.sentences, everything, findings),
        "caveat_lines": _answer_lines(found.caveats, everything, findings),
        "limits_title": LIMITS_TITLE,
        "load": load_line(findings),
        "counts": _counts(findings),
        "notes": [*gathered.notes, *([detail.note] if detail.note else [])],
        "plants": list(gathered.lock.plants.items()),
        "ids": ids,
        "trial_ids": trial_ids,
        "claim_ids": claim_ids,
        "matrix": matrix(findings),
        "shades": shades,
        "shade_json": _shade_json(shades, ids),
        "factors": gathered.factors,
        "filters": {case.case: gathered.filters(case) for case in findings.cases},
        "claims": _claims(findings, found.claims, everything),
        "group": group,
        "overview": [
            _overview_row(gathered, case, group, scale, silences, detail) for case in findings.cases
        ],
        "overview_axis": strip_axis(scale) if scale else "",
        "too_few": too_few_rule(
            gathered.numbers.of_case(case, f"{group}.{metric}") for case in ran_cases for metric in _OVERVIEW
        ),
        "replicates": gathered.lock.measure.replicates,
        "kept": kept(findings),
        "kept_text": next((line for line in kept_lines(findings) if len(line) <= _LONGEST_KEPT), ""),
        "open_thresholds": [
            (one, OUTCOME_MARKS[one.outcome], measured_words(gathered.numbers, one))
            for one in open_or_failed(findings)
        ],
        "floor_known": any(claim.floor is not None for claim in findings.claims),
        "colours": gathered.colours,
        "trial_number": gathered.numbers.of_trial,
        "anatomy_all": overall[0],
        "segments": SEGMENTS,
        "usage": overall[1:],
        "flame": flame,
        "curves": curves,
        "limited": limited,
        "search": search,
        "own": gathered.own,
        "data": packed(
            {one.place: one.table for one in (*overall, *curves, *limited, search) if one}
            | ({"flame-graph": flame.table} if flame else {})
        ),
        "card": card(gathered),
        "services": services_of(findings),
        "cases": sections,
        "trials_of": gathered.trials_of,
        "outcome_names": list(OUTCOMES.values()),
        "ran": what_was_run(gathered),
    }


def _when(gathered: Gathered) -> str:
    walls = [one.started_wall for one in gathered.digests.values()]
    return show_time(min(walls)) if walls else ""


def _answer_lines(
    sentences: Sequence[Sentence], ids: Mapping[str, str], findings: Findings
) -> list[dict[str, Any]]:
    """Return each sentence of the answer with its links (words, place on the page)."""
    pairs = {claim.name: [name for pair in claim.pairs for name in pair] for claim in findings.claims}
    lines = []
    for sentence in sentences:
        names: list[str] = []
        for evidence in sentence.evidence:
            kind, _, rest = evidence.partition("/")
            name = rest if kind in ("cases", "trials", "claims") and rest else evidence
            names += [name, *pairs.get(name, [])]
        links = [
            ("the comparison" if name in pairs else name, f"#{ids[name]}")
            for name in dict.fromkeys(names)
            if name in ids
        ]
        lines.append({"sentence": sentence, "links": links[:8], "more": max(0, len(links) - 8)})
    return lines


def _counts(findings: Findings) -> list[tuple[str, str, str]]:
    """Return (css, number, words) for the strip of key figures."""
    grades = [trial.verdict.instrument for trial in findings.trials]
    ran = sum(case.excluded is None for case in findings.cases)
    found = [("", f"{findings.sealed_trials} / {findings.planned_trials}", "trials sealed")]
    found += [
        (grade.lower(), f"{GRADE_MARK[grade]} {grades.count(grade)}", grade)
        for grade in ("VALID", "WEAK", "REFUSED")
        if grade in grades
    ]
    found.append(("", str(ran), "cases run" if ran != 1 else "case run"))
    if ran < len(findings.cases):
        found.append(("", str(len(findings.cases) - ran), "excluded"))
    if findings.thresholds:
        passed = sum(one.outcome == "passed" for one in findings.thresholds)
        found.append(("", f"{passed} / {len(findings.thresholds)}", "thresholds passed"))
    return found


def _shade_json(shades: Sequence[Any], ids: Mapping[str, str]) -> str:
    """Return data for the script: [label, low, high, {id: [text, shade, refused, counted, believed]}, note]
    per metric; safe inside a script element."""
    plain = [
        [
            one.label,
            one.low,
            one.high,
            {
                ids[name]: [cell.text, cell.shade, int(cell.refused), cell.counted, cell.believed]
                for name, cell in one.cells.items()
                if name in ids
            },
            one.note,
        ]
        for one in shades
    ]
    return (
        json.dumps(plain, ensure_ascii=True, separators=(",", ":"))
        .replace("<", "\\u003c")
        .replace("&", "\\u0026")
    )


_OVERVIEW = ("response.p50", "response.p95", "response.p99", "throughput", "success_rate")


def _strip_scale(findings: Findings, group: str) -> Scale | None:
    key = f"{group}.response.p50"
    metrics = (*(trial.metrics for trial in findings.trials), *(case.metrics for case in findings.cases))
    return strip_scale([value for one in metrics if key in one and (value := one[key].value) is not None])


def _overview_row(
    gathered: Gathered,
    case: CaseResult,
    group: str,
    scale: Scale | None,
    silences: Mapping[str, str],
    detail: Detail,
) -> dict[str, Any]:
    key = f"{group}.response.p50"
    replicates = replicates_of(gathered, case, key)
    return {
        "case": case,
        "grade": "excluded" if case.excluded is not None else case.instrument or "no trial",
        "strip": strip(replicates[: detail.dots], case.metrics.get(key), scale)
        if scale and replicates
        else "",
        "numbers": tuple(gathered.numbers.of_case(case, f"{group}.{metric}") for metric in _OVERVIEW),
        "model": case.load_model.get(group, ""),
        "silence": silences.get(case.case, ""),
        "counted": gathered.numbers.of_case(case, key).counted,
        "filters": gathered.filters(case),
    }


_MOST_PAIRS, _LONGEST_KEPT = 200, 300


def _claims(findings: Findings, claims: Sequence[Claimed], ids: Mapping[str, str]) -> list[dict[str, Any]]:
    plots = [
        Plot(
            one.claim.name,
            one.claim.ratio,
            one.outcome,
            one.effect or "no ratio",
            one.claim.within,
            one.failed,
        )
        for one in claims
    ]
    scale = plot_scale(plots)
    return [
        {
            "row": one,
            "plot": claim_plot(plot, scale) if scale and plot.ratio.value is not None else "",
            "label": metric_label(one.key),
            "behind": details(findings, one),
            "pairs": [
                (pair, rounded(exp(pair.log_ratio), 3), ran_first(one.claim, pair), pair_strangers(pair))
                for pair in one.claim.evidence[:_MOST_PAIRS]
            ],
            "lost": [
                (lost.block, lost.baseline, lost.treatment, lost_words(lost))
                for lost in one.claim.lost[:_MOST_PAIRS]
            ],
            "links": tuple(
                (name, f"#{ids[name]}")
                for name in dict.fromkeys(name for pair in one.claim.pairs for name in pair)
                if name in ids
            )[:8],
            "rounds": rounds_chart(
                one.claim.evidence,
                one.dimension,
                one.claim.baseline,
                one.claim.treatment,
                metric_label(one.key),
            ),
        }
        for one, plot in zip(claims, plots, strict=True)
    ]


def render_page(gathered: Gathered) -> tuple[str, str | None]:
    """Return (the page, the CSV of series over time if the page had to leave them out)."""
    begin = first_level(sum(case.excluded is None for case in gathered.findings.cases))
    page = ""
    level = LEVELS[begin]
    for level in LEVELS[begin:]:
        page = render_template("report.html.j2", page_context(gathered, level))
        if len(page.encode("utf-8", "replace")) <= LARGEST_BYTES:
            break
    return page, None if level.carried else series_csv(gathered)


def series_csv(gathered: Gathered) -> str:
    """Return every series over time: trial, of (group or service), metric, offset_s, value."""
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(("trial", "of", "metric", "offset_s", "value"))
    writer.writerows(_points(gathered))
    return out.getvalue()


def _points(gathered: Gathered) -> Iterator[tuple[str, ...]]:
    for trial in gathered.digests.values():
        for *names, at, value in points_of(trial, {one: one.label for one in trial.resources}):
            yield *map(plain_cell, names), f"{at:.6g}", f"{value:.6g}"
