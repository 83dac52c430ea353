"""`svload report --figures`: both column widths, three formats, units, n and interval; curves of load."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pypdfium2 import PdfDocument
from tests.evolve import evolve
from tests.report.conftest import Reporter

from svload.model.load_curve import LoadCurve, LoadLimit
from svload.model.results import Estimate
from svload.report.charts.loads import levels_chart
from svload.report.data.digest import SEGMENTS
from svload.report.data.gather import PALETTE, gather
from svload.report.figures import write
from svload.report.figures.kinds import WIDTHS_PT, Figure, _responses_s, comparisons
from svload.report.figures.write import found_figures, write_figures
from svload.report.wording.curve_rows import limit_rows, lines_of

pytestmark = pytest.mark.look

STYLE = Path(__file__).parents[2] / "src" / "svload" / "report" / "page" / "style.css"
PX_AT_300 = 300 / 72


@pytest.fixture(scope="module")
def drawn(reported: Reporter, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def get(name: str) -> Path:
        folder = tmp_path_factory.mktemp(f"figures-{name}")
        write_figures(reported(name).run, reported(name).findings, folder)
        return folder

    return get


def texts(svg: Path) -> str:
    return " ".join("".join(node.itertext()) for node in ElementTree.parse(svg).iter() if node.tag.endswith("}text"))  # fmt: skip


@pytest.mark.parametrize("width", list(WIDTHS_PT))
def test_each_file_is_as_wide_as_the_column(drawn: Callable[[str], Path], width: str) -> None:
    points = WIDTHS_PT[width]
    drawings = sorted(drawn("mixed").glob(f"*-{width}.svg"))
    assert {path.name.removesuffix(f"-{width}.svg") for path in drawings} == {"anatomy", "boxes", "comparisons", "course", "cpu", "memory", "response", "tail"}  # fmt: skip
    for path in drawings:
        assert float(ElementTree.parse(path).getroot().attrib["width"]) == pytest.approx(points, abs=1)
        page = path.with_suffix(".pdf").read_bytes()
        (wide,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) [\d.]+ \]", page)
        assert float(wide) == pytest.approx(points, abs=1)
        assert b"/FontFile2" in page, "a journal takes no PDF without its fonts"
        wide, _ = struct.unpack(">II", path.with_suffix(".png").read_bytes()[16:24])
        assert wide == pytest.approx(points * PX_AT_300, abs=4)


def test_axes_and_captions(drawn: Callable[[str], Path], reported: Reporter) -> None:
    folder = drawn("mixed")
    for name, unit in {"response": " ms", "tail": " ms", "course": " s", "anatomy": " ms", "boxes": " ms", "cpu": "Busy cores", "memory": " MiB", "comparisons": "×1"}.items():  # fmt: skip
        assert unit in texts(folder / f"{name}-double.svg")
    figures = found_figures(gather(reported("mixed").run, reported("mixed").findings))
    for figure in figures:
        assert "n = " in figure.caption and "interval" in figure.caption
        assert figure.caption in (folder / "captions.md").read_text(encoding="utf-8")
    described = ElementTree.parse(folder / "response-single.svg").findtext("{http://www.w3.org/2000/svg}desc")
    assert described == next(figure.caption for figure in figures if figure.name == "response")


def test_every_shape_bears_its_own_look(drawn: Callable[[str], Path]) -> None:
    """A class that the page's style sheet does not define would leave a shape black."""
    for path in drawn("mixed").glob("*.svg"):
        for node in ElementTree.parse(path).iter():
            shape = node.tag.rpartition("}")[2]
            assert "class" not in node.attrib
            if shape in ("path", "circle", "rect", "text"):
                assert {"fill", "stroke"} & set(node.attrib), (path.name, node.attrib)
                assert "var(" not in "".join(node.attrib.values()), (path.name, node.attrib)


@pytest.mark.parametrize("name", ["refused", "one", "hostile", "overloaded", "unmeasured", "search"])
def test_odd_runs_are_drawn_or_left_out(drawn: Callable[[str], Path], name: str) -> None:
    folder = drawn(name)
    assert (folder / "captions.md").exists()
    for path in folder.glob("*.svg"):
        tree = ElementTree.parse(path)
        assert not [node for node in tree.iter() if node.tag.rpartition("}")[2] in ("script", "b", "image", "foreignObject")]  # fmt: skip
        assert "\u202e" not in path.read_text(encoding="utf-8")


def test_the_colours_are_the_page_s() -> None:
    css = STYLE.read_text(encoding="utf-8").lower()
    light = dict(re.findall(r"(--[a-z0-9]+):light-dark\((#[0-9a-f]+),", css))
    assert [light[f"--c{number}"] for number in range(len(PALETTE))] == list(PALETTE)
    assert len(re.findall(r"\.a\d\{--s:light-dark\(", css)) == len(SEGMENTS)


@pytest.mark.parametrize("installed", [True, False], ids=["fontconfig", "no fontconfig"])
def test_letters_that_the_embedded_font_lacks(
    installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: Callable[..., None]
) -> None:
    """A private-use character is in no font, and Hebrew would need right-to-left lines."""
    if installed:
        needs("fc-match")
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(write, "letter_of", cache(write.letter_of.__wrapped__))
    lines = (("start", "normal", "год éł ✗"), ("end", "600", "год"), ("middle", "normal", "\ue000\u05d0"))
    drawing = "".join(
        f'<text x="90" y="{20 * line}" text-anchor="{anchor}" font-weight="{weight}">{text}</text>'
        for line, (anchor, weight, text) in enumerate(lines, 1)
    )
    svg = ElementTree.fromstring(f'<svg viewBox="0 0 200 90">{drawing}</svg>')
    page = PdfDocument(write.as_pdf(svg, "letters"))[0].get_textpage()
    cyrillic = "год" if installed else "???"
    assert page.get_text_range().split() == [cyrillic, "éł", "×", cyrillic, "??"]


def test_letters_without_a_font_are_named_below_the_captions(
    reported: Reporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = '<svg viewBox="0 0 200 20"><text x="9" y="9">a ? \u05d0</text></svg>'
    monkeypatch.setattr(write, "KINDS", [lambda gathered: [Figure("one", "Words.", lambda width: drawing)]])
    write_figures(reported("one").run, reported("one").findings, tmp_path)
    *_, last = (tmp_path / "captions.md").read_text(encoding="utf-8").splitlines()
    assert last.startswith("PDF and PNG have ? for \u05d0: ")


def test_boxes_leave_the_warm_up_out(reported: Reporter) -> None:
    run, findings = reported("plain").run, reported("plain").findings
    trials = tuple(evolve(one, cut_ns=one.cut_ns + 200_000_000) for one in findings.trials)
    shorter = evolve(findings, trials=trials)
    whole, kept = (sum(map(len, _responses_s(gather(run, one)).values())) for one in (findings, shorter))
    assert 0 < kept < whole


@pytest.mark.parametrize("unit", ["block", "bring-up"])
def test_the_comparisons_say_what_their_intervals_rest_on(reported: Reporter, unit: str) -> None:
    findings = reported("plain").findings
    ratio = Estimate(value=1.2, low=1.1, high=1.3)
    claim = evolve(findings.claims[0], unit=unit, blocks=6, ratio=ratio)
    (figure,) = comparisons(gather(reported("plain").run, evolve(findings, claims=(claim,))))
    assert f"n = 6 {unit}s." in figure.caption
    assert f"(t, one {unit} left out at a time). Filled: " in figure.caption, "nothing widens it (§2)"


@pytest.fixture(scope="module")
def curve(reported: Reporter) -> LoadCurve:
    (found,) = reported("users").findings.curves
    return found


def test_the_page_draws_it_with_its_limits(reported: Reporter, curve: LoadCurve) -> None:
    page = reported("users").page
    assert 'id="load"' in page and '<a href="#load">Load</a>' in page
    drawing = levels_chart(curve, "t")
    assert ElementTree.fromstring(drawing).attrib["class"] == "chart wide"
    assert [word for word in ("throughput", "mean response", "N* ", "N_break") if word not in drawing] == []
    words = [curve.demands[0].resource, "no peak in range", *(row.meaning for row in limit_rows(curve))]
    words += [sentence.split(" [")[0] for sentence in curve.sentences]
    assert [one for one in words if one not in page] == []


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


def test_figures_bear_units_bounds_and_limits(reported: Reporter, tmp_path: Path) -> None:
    found = reported("users")
    twice = evolve(found.findings, curves=found.findings.curves * 2)
    captions = {one.name: one.caption for one in found_figures(gather(found.run, twice))}
    assert " The report has 1 more curve. " in captions["load-throughput"]
    write_figures(found.run, found.findings, tmp_path)
    for side, unit in (("throughput", "/s"), ("response", " ms")):
        for width, points in WIDTHS_PT.items():
            path = tmp_path / f"load-{side}-{width}.svg"
            assert float(ElementTree.parse(path).getroot().attrib["width"]) == pytest.approx(points, abs=1)
            assert unit in texts(path) and "N*" in texts(path)
