"""A factor that is a load: its curve on page, figures and workbook, with bounds, limits and intervals."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.evolve import evolve
from tests.report.conftest import Reporter

from svload.model.load_curve import LoadCurve, LoadLimit
from svload.report.charts.loads import levels_chart
from svload.report.data.gather import gather
from svload.report.figures.kinds import WIDTHS_PT
from svload.report.figures.write import found_figures, write_figures
from svload.report.wording.curve_rows import limit_rows, lines_of

pytestmark = pytest.mark.look


@pytest.fixture(scope="module")
def curve(reported: Reporter) -> LoadCurve:
    (found,) = reported("users").findings.curves
    return found


def test_the_page_draws_it_with_its_limits(reported: Reporter, curve: LoadCurve) -> None:
    page = reported("users").page
    assert 'id="load"' in page
    assert '<a href="#load">Load</a>' in page
    drawing = levels_chart(curve, "t")
    assert ElementTree.fromstring(drawing).attrib["class"] == "chart wide"
    for word in ("throughput", "mean response", "N* ", "N_break"):
        assert word in drawing
    for row in limit_rows(curve):
        assert row.meaning in page
    assert curve.demands[0].resource in page and "no peak in range" in page
    assert all(sentence.split(" [")[0] in page for sentence in curve.sentences)


def test_what_is_not_bracketed_is_dashed_and_reported(curve: LoadCurve) -> None:
    star = evolve(curve.limits[0], state="edge")
    outside = evolve(curve, limits=(star,))
    assert 'class="c1 main"' in levels_chart(curve, "t")
    assert 'class="c1 main"' not in levels_chart(outside, "t")
    assert "not bracketed" in limit_rows(outside)[0].state
    none = LoadLimit(name="N*", value=None, state="none", reason="nobody knows")
    assert limit_rows(evolve(curve, limits=(none,)))[0].state == "nobody knows"


def test_bounds_are_drawn_as_they_are_and_left_out_where_none_is_known(curve: LoadCurve) -> None:
    lines = lines_of(curve)
    assert curve.top_rps is not None
    assert max(value for _, value in lines.most_rps) == pytest.approx(curve.top_rps)
    assert lines.least_s[0][1] == pytest.approx(curve.alone_s) and lines.scalability
    unknown = lines_of(evolve(curve, top_rps=None, scalability=None))
    assert (unknown.most_rps, unknown.least_s, unknown.scalability) == ((), (), ())


def test_a_caption_counts_the_other_curves(reported: Reporter) -> None:
    found = reported("users")
    twice = evolve(found.findings, curves=found.findings.curves * 2)
    captions = {one.name: one.caption for one in found_figures(gather(found.run, twice))}
    assert " The report has 1 more curve. " in captions["load-throughput"]


def test_figures_bear_units_bounds_and_limits(reported: Reporter, tmp_path: Path) -> None:
    found = reported("users")
    names = {figure.name for figure in found_figures(gather(found.run, found.findings))}
    assert {"load-throughput", "load-response"} <= names
    write_figures(found.run, found.findings, tmp_path)
    for side, unit in (("throughput", "/s"), ("response", " ms")):
        for width, points in WIDTHS_PT.items():
            tree = ElementTree.parse(tmp_path / f"load-{side}-{width}.svg")
            assert float(tree.getroot().attrib["width"]) == pytest.approx(points, abs=1)
            texts = " ".join("".join(node.itertext()) for node in tree.iter() if node.tag.endswith("}text"))
            assert unit in texts and "N*" in texts
