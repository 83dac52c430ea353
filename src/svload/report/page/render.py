"""Renders report.html in the most detail that fits, and series.csv if the lines over time do not."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from svload.model.visible import plain_cell
from svload.report.data.gather import Gathered
from svload.report.page.detail import LARGEST_BYTES, LEVELS, first_level
from svload.report.page.template import render_template
from svload.report.page.view import page_context


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
    """Return every series over time: trial, of (group or service), metric, offset_s, value; one row per
    point."""
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(("trial", "of", "metric", "offset_s", "value"))
    writer.writerows(_points(gathered))
    return out.getvalue()


def _points(gathered: Gathered) -> Iterator[tuple[str, str, str, str, str]]:
    for trial in gathered.digests.values():
        lines = [
            (name, metric, line) for name, one in trial.groups.items() for metric, line in one.series.items()
        ]
        lines += [(resource.owner, resource.label, line) for resource, line in trial.resources.items()]
        for owner, metric, line in lines:
            for at, value in zip(line.at_s.tolist(), line.values.tolist(), strict=True):
                if value == value:
                    yield (
                        plain_cell(trial.name),
                        plain_cell(owner),
                        plain_cell(metric),
                        f"{at:.6g}",
                        f"{value:.6g}",
                    )
