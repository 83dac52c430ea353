"""What pictures must show: a response line even for few requests, a part of 0.2 ms beside 1 s, one colour
per service, REFUSED hatched."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.report.conftest import Reporter
from tests.report.told_facts import doubted

from svload.model.results import Estimate
from svload.report.charts.bars import anatomy_chart
from svload.report.charts.ratios import Plot, claim_plot, plot_scale
from svload.report.data.digest import _wide_enough
from svload.report.data.gather import gather
from svload.report.page.overall import usage_charts
from svload.report.page.view import render_page


def test_bins_widen_until_they_hold_enough_requests() -> None:
    due = np.array([4.0, 1, 1, 0, 9, 2, 2])
    assert _wide_enough(due, 6).tolist() == [0, 3]
    assert _wide_enough(due, 1).tolist() == [0, 1, 2, 3, 5, 6]
    assert _wide_enough(due, 100).tolist() == [0]
    begins = _wide_enough(due, 6)
    assert (np.add.reduceat(due, begins) >= 6).all()


@pytest.mark.parametrize("name", ["plain", "one", "overloaded", "mixed"])
def test_response_over_time_is_never_blank(reported: Reporter, name: str) -> None:
    found = reported(name)
    seen = 0
    for digest in gather(found.run, found.findings).digests.values():
        for group in digest.groups.values():
            if group.summary.ok_in_window:
                series = group.series["p50"]
                assert np.isfinite(series.values).sum() >= 2, (digest.name, group.summary.name)
                assert (np.diff(series.at_s) > 0).all()
                seen += 1
    assert seen


def test_a_short_part_can_be_seen_beside_a_long_one() -> None:
    bars = [("slow", {"connect": 0.0002, "server": 1.0}), ("fast", {"connect": 0.00005, "server": 0.0002})]
    drawing = anatomy_chart(bars, "anatomy")
    circles = re.findall(r'<circle[^>]*cx="([\d.]+)"[^>]*><title>([^<]*)', drawing)
    dots = {tip: float(at) for at, tip in circles}
    assert dots["connect: 200 µs"] == pytest.approx(dots["server: 200 µs"], abs=0.2)
    assert dots["connect: 50 µs"] < dots["connect: 200 µs"] < dots["server: 1 s"]
    assert dots["server: 1 s"] - dots["connect: 200 µs"] > 100
    assert anatomy_chart([("none", {})], "anatomy") == ""


def test_a_service_has_one_colour_in_every_chart(reported: Reporter) -> None:
    found = reported("plain")
    page, colours = found.page, gather(found.run, found.findings).colours
    assert len(set(colours.values())) == len(colours) == 5
    for service in ("backend", "cache"):
        assert set(re.findall(rf'<i class="l c(\d)"></i>{service}<', page)) == {str(colours[service])}
        assert set(re.findall(rf'<i class="k f(\d)"></i>{service}<', page)) == {str(colours[service])}


def test_a_refused_number_is_hatched_with_its_mark(reported: Reporter) -> None:
    found = reported("plain")
    refused = dict.fromkeys(("cache.cpu.mean", "probe.response.p50"), "REFUSED")
    grades: dict[str, Any] = {f"TC2.r{n}": refused for n in (1, 2, 3)}
    gathered = gather(found.run, doubted(found.findings, grades))
    cpu = next(iter(usage_charts(gathered))).drawing
    assert cpu.count('class="hatched"') == 1 and "✗" in cpu
    page, _ = render_page(gathered)
    assert re.search(r'<td class="q. refused" data-c="TC2"', page)
    assert not re.search(r'<td class="q\w refused" data-c="TC1"', page)
    assert re.search(r'<td class="num refused"[^>]*>[^<]*<span class="mk"> ✗</span>', page)


@pytest.mark.parametrize(
    ("outcome", "mark"),
    [
        ("decided", "<circle"),
        ("no difference", 'class="margin"'),
        ("open", "point open"),
        ("refused", "lost lost"),
    ],
)
def test_an_outcome_has_its_own_mark(outcome: str, mark: str) -> None:
    plot = Plot("a", Estimate(value=1.02, low=0.99, high=1.05), outcome, "2 % longer", 0.05)
    scale = plot_scale([plot])
    assert scale is not None
    drawn = claim_plot(plot, scale)
    assert mark in drawn
    words = [float(at) for at in re.findall(r'<text x="([\d.]+)"[^>]*class="told"', drawn)]
    assert words
    assert all(0 < at < 560 for at in words)
