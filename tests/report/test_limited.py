"""The page's chart of what limited each case, and its table of what was in use at N*."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.evolve import evolve
from tests.report.conftest import Reporter

from svload.report.charts.loads import COLOURS, GridCell, limit_grid
from svload.report.page.data import Anchors
from svload.report.page.overall import at_limit, evidence_of, grid_views

CELLS = [
    ("1KB", [GridCell("cpu", True, "c0: the cores were full"), GridCell("cpu", True, "c1", refused=True)]),
    ("1MB", [None, GridCell("disk", False, "c3: <near>", marked=True)]),
]


def test_a_cell_is_coloured_by_what_gave_way_and_only_then() -> None:
    root = ElementTree.fromstring(limit_grid(CELLS, ["1", "2"], "users", "t"))
    cells = [one for one in root if one.tag.endswith("rect")]
    assert [one.get("class") for one in cells] == [f"g{COLOURS['cpu']}", f"g{COLOURS['cpu']}", "gn"]
    texts = [one.text for one in root if one.tag.endswith("text")]
    assert texts == ["users", "1", "2", "1KB", "cpu", "✗ cpu", "1MB", "disk ◂"]
    assert [one.get("class") for one in root if one.tag.endswith("path")] == ["hatched"]


def test_a_run_with_a_load_alone_has_a_table_and_no_chart(reported: Reporter) -> None:
    findings = reported("users").findings
    (curve,) = findings.curves
    assert grid_views(findings, Anchors([])) == []
    found = at_limit(curve, evidence_of(findings))
    result = found if isinstance(found, str) else found.caption
    assert result.replace("'", "&#39;") in reported("users").page


def test_two_factors_with_a_load_are_charted(reported: Reporter) -> None:
    findings = reported("users").findings
    (curve,) = findings.curves
    cases = tuple(
        evolve(case, case=f"{case.case}-{size}", levels={**case.levels, "size": size})
        for case in findings.cases
        for size in ("small", "large")
    )
    both = evolve(findings, cases=cases, curves=(evolve(curve, when={"size": "small"}),))
    (view,) = grid_views(both, Anchors([]))
    ran = [case for case in cases if case.excluded is None]
    assert "size" in view.title and curve.factor in view.title
    assert len(view.table.rows) == len(ran)
    assert ElementTree.fromstring(view.drawing).attrib["class"] == "chart wide"
