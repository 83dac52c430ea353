"""Charts as numbers: scales, ticks, curves that end with the sample, gaps where values are unknown, marks."""

from __future__ import annotations

import re
from itertools import pairwise
from math import nan
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.conftest import Reporter
from tests.report.wording_facts import doubted

from svload.analysis.stacks import call_tree
from svload.model.results import Estimate
from svload.model.stacks import Stacks
from svload.report.charts.bars import anatomy_chart, usage_chart
from svload.report.charts.drawing import (
    LETTER,
    Drawing,
    Scale,
    apart,
    broken,
    linear_ticks,
    log_ticks,
    own_unit_texts,
    tail_position,
    tick_texts,
)
from svload.report.charts.rows import box_of, strip_axis, strip_scale
from svload.report.charts.tail import TailLine, TailMark, tail_chart
from svload.report.charts.timeline import Line, Panel, median_series, timeline
from svload.report.data.digest import Curve, Series, _wide_enough, merged_curve
from svload.report.data.gather import gather
from svload.report.page.flames import WIDTH, boxes, flame_graph, named, sampled_how
from svload.report.page.overall import usage_charts
from svload.report.page.view import render_page
from svload.report.wording.numbers import number_of


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.03, 0.9), (-5, 17), (1e-6, 2e-6), (0, 95e6)])
def test_linear_ticks_are_round_and_inside(low: float, high: float) -> None:
    ticks = linear_ticks(low, high)
    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[0])


def test_a_logarithmic_scale_keeps_order_clips_and_has_few_ticks() -> None:
    scale = Scale(0.001, 1.0, 0, 100, log=True)
    values = (0.0, 0.001, 0.01, 0.1, 1.0, 5.0)
    assert list(map(scale, values)) == pytest.approx([0, 0, 100 / 3, 200 / 3, 100, 100])
    assert all(1 <= len(log_ticks(1.0, high, 6)) <= 8 for high in (1.5, 3, 20, 1e3, 1e7))
    assert np.allclose(np.diff([tail_position(p) for p in (0.9, 0.99, 0.999)]), 1.0)


@given(st.lists(st.floats(0, 10), max_size=20))
def test_names_stand_apart_in_their_order_within_the_picture(places: list[float]) -> None:
    moved = apart(places, 0.5, 0.0, 10.0)
    order = sorted(range(len(places)), key=lambda at: places[at])
    stood = [moved[at] for at in order]
    assert all(later - earlier >= 0.5 - 1e-9 for earlier, later in pairwise(stood))
    assert all(-1e-9 <= place <= 10 + 1e-9 for place in moved)


@pytest.mark.parametrize(
    ("places", "moved"),
    [([3.0, 1.0, 2.0], [3.0, 1.0, 2.0]), ([5.0, 5.0], [4.5, 5.5]), ([10.0, 10.0], [9.0, 10.0]), ([], [])],
)
def test_names_that_have_room_stay_where_they_are(places: list[float], moved: list[float]) -> None:
    assert apart(places, 1.0, 0.0, 10.0) == moved


@pytest.mark.parametrize(
    ("texts", "ticks", "dimension", "expected"),
    [
        (tick_texts, [0.0, 0.001, 0.002], "time_s", ["0", "1 ms", "2 ms"]),
        (tick_texts, [0.0, 0.25, 0.5], "rate_rps", ["0", "0.25/s", "0.50/s"]),
        (tick_texts, [0.051, 0.05105, 0.0511], "time_s", ["51.00 ms", "51.05 ms", "51.10 ms"]),
        (tick_texts, [0.0, 5000.0, 10000.0], "rate_rps", ["0", "5,000/s", "10,000/s"]),
        (tick_texts, Scale(0.0, 96 * 1024**2, 0, 1).ticks(4, "size_bytes"), "size_bytes", ["0", "50 MiB"]),
        (own_unit_texts, [0.0005, 0.001, 2.0], "time_s", ["500 µs", "1 ms", "2 s"]),
    ],
)
def test_ticks_are_reported_with_units(texts: Any, ticks: list[float], dimension: str, expected: list[str]):
    assert texts(ticks, dimension) == expected


def _curve(values: list[float], failed: int = 0) -> Curve:
    return Curve(np.array(sorted(values)), np.arange(1, len(values) + 1), len(values) + failed)


def test_curves_are_merged_as_histograms() -> None:
    merged = merged_curve([_curve([1, 2], failed=1), _curve([2, 3])])
    assert merged.values_s.tolist() == [1, 2, 3] and merged.at_or_below.tolist() == [1, 3, 4]
    assert merged.total == 5


def test_a_curve_ends_where_failures_begin_and_the_field_says_why() -> None:
    half_failed = TailLine(_curve([0.001 * n for n in range(1, 51)], failed=50), "main c0")
    known = number_of("probe.response.p20", Estimate(value=0.02, low=0.01, high=0.03))
    beyond = number_of("probe.response.p90", Estimate(value=None, why="time-out", reason="50 % failed"))
    drawn = tail_chart([half_failed], [TailMark(0.2, known), TailMark(0.9, beyond)], "half of them")
    ElementTree.fromstring(drawn)
    assert ">failed</text>" in drawn and "too few" not in drawn
    assert re.search(r'class="main c0" d="M[\d.]+ [\d.]+l([^"]*)"', drawn)
    rare = TailMark(0.99, number_of("probe.response.p99", Estimate(value=None, why="too few")))
    assert "too few" in tail_chart([half_failed], [rare], "few")
    assert tail_chart([TailLine(_curve([], failed=4), "main")], [], "nothing") == ""


def test_lines_are_broken_where_nothing_is_known_and_relative_steps_do_not_drift() -> None:
    assert broken([(0, 1), (1, nan), (2, 3), (3, 4)]) == [[(0, 1)], [(2, 3), (3, 4)]]
    assert broken([(0, nan)]) == []
    drawing = Drawing(10, 10, "t")
    points = [(n / 7, n * n / 97) for n in range(200)]
    drawing.path([points], "line")
    (path,) = re.findall(r'd="M([\d.-]+ [\d.-]+l[^"]*)"', drawing.render())
    numbers = [float(part) for part in re.findall(r"-?\d+(?:\.\d+)?", path)]
    assert (sum(numbers[::2]), sum(numbers[1::2])) == pytest.approx(points[-1], abs=0.051)


@pytest.mark.parametrize("low_s", [0.00005, 0.00008, 0.00009, 0.0005])
def test_no_label_of_a_column_s_axis_stands_on_another(low_s: float) -> None:
    scale = strip_scale([low_s, 1.2])
    assert scale is not None
    drawn = ElementTree.fromstring(strip_axis(scale)).iter()
    labels = [one for one in drawn if one.tag.endswith("text")]
    assert len(labels) >= 3
    end = 0.0
    for one in labels:
        width, anchor = 6 * len(one.text or ""), one.attrib.get("text-anchor", "start")
        begin = float(one.attrib["x"]) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        assert begin >= end, one.text
        end = begin + width


def test_the_median_over_replicates_is_numpys_own() -> None:
    rng = np.random.default_rng(7)
    for replicates in range(2, 8):
        table = rng.lognormal(size=(replicates, 40))
        for missing in (0.0, 0.3, 0.9):
            table[rng.random(table.shape) < missing] = nan
            lines = [Series(np.arange(40.0), values) for values in table]
            known = np.isfinite(table).any(axis=0)
            found = median_series(lines).values
            assert found[known].tolist() == np.nanmedian(table[:, known], axis=0).tolist()
            assert np.isnan(found[~known]).all()


def panel(title: str, dimension: str, values: list[float], note: str = "") -> Panel:
    return Panel(title, dimension, [Line("a", "c0", [Series(np.array([0.0, 1.0]), np.array(values))])], note)


def over_time(*panels: Panel) -> str:
    return timeline(list(panels), 1.0, (0.1, 1.0), (0.2, 1.0), "over time")


def test_panels_without_numbers_are_left_out() -> None:
    empty = panel("memory", "size_bytes", [nan, nan])
    drawn = over_time(panel("throughput", "rate_rps", [1.0, 2.0]), empty)
    assert "throughput" in drawn and "memory" not in drawn
    assert 'class="ramp"' in drawn and 'class="cut"' in drawn
    assert over_time(empty) == ""


def test_long_values_of_an_axis_and_long_titles_and_notes_lie_within_the_picture() -> None:
    (note,) = re.findall("n{9,}…", over_time(panel("CPU", "count", [1.0, 2.0], "n" * 500)))
    assert len(note) < 140
    drawn = over_time(panel("t" * 500, "count", [1e9, 3e9]))
    values = re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="end">([^<]*)<', drawn)
    assert max(len(text) for _, text in values) > 12
    assert all(LETTER * len(text) <= float(x) + 0.1 for x, text in values)
    (title,) = re.findall("t+…t+", drawn)
    assert len(title) < 120


@pytest.mark.parametrize("cases", [4, 18, 30, 100])
def test_no_name_of_a_case_stands_on_another(cases: int) -> None:
    names = [f"case-{number}-of-{cases}" for number in range(cases)]
    number = number_of("web.cpu.mean", Estimate(value=1.0))
    drawn = usage_chart(names, [("web", 0, [number] * cases)], "count", "CPU")
    rows: dict[float, list[tuple[float, int]]] = {}
    for x, y, name in re.findall(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="middle">([^<]*)<', drawn):
        rows.setdefault(float(y), []).append((float(x), len(name)))
    for row in rows.values():
        for (x, width), (after, other) in pairwise(row):
            assert x + LETTER * width / 2 < after - LETTER * other / 2 + 3


def test_what_lies_beyond_the_fences_is_outside() -> None:
    box = box_of(np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 100]))
    assert (box.p25, box.p50, box.p75) == pytest.approx((3.25, 5.5, 7.75))
    assert (box.low, box.high, box.outside) == (1.0, 9.0, (100.0,))
    assert box_of(np.full(9, 2.0)) == (2.0, 2.0, 2.0, 2.0, 2.0, ())


def test_bins_widen_until_they_hold_enough_requests() -> None:
    due = np.array([4.0, 1, 1, 0, 9, 2, 2])
    for enough, begins in ((6, [0, 3]), (1, [0, 1, 2, 3, 5, 6]), (100, [0])):
        assert _wide_enough(due, enough).tolist() == begins


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


FOLDED = {"server;main;answer;send_file;sendfile_[k]": 60, "server;main;answer": 20, "server;main;<script>": 19, "server;rare": 1}  # fmt: skip


def stacks(**more: object) -> Stacks:
    found = {"service": "files", "rate_hz": 50, "window_s": 10.0, "samples": 100, "folded": FOLDED, **more}
    return Stacks.model_validate(found)


def test_boxes_lie_on_their_callers_as_wide_as_their_share() -> None:
    found = {box.name: box for box in boxes(call_tree(FOLDED), 0.0)}
    assert (found["main"].left, found["main"].width, found["main"].depth) == (0.0, 0.99, 2)
    assert (found["answer"].width, found["answer"].own, found["answer"].depth) == (0.8, 20, 3)
    for box in found.values():
        below = [other for other in found.values() if other.depth == box.depth - 1]
        end = box.left + box.width - 1e-9
        inside = [one for one in below if one.left - 1e-9 <= box.left and end <= one.left + one.width]
        assert box.depth == 0 or len(inside) == 1
    assert "rare" in {box.name for box in boxes(call_tree(FOLDED), 0.005)}
    assert "rare" not in {box.name for box in boxes(call_tree(FOLDED), 0.02)}


def test_the_drawing_is_well_formed_names_function_and_share_and_nothing_in_a_name_is_markup() -> None:
    drawn = flame_graph(call_tree(FOLDED), "files")
    root = ElementTree.fromstring(drawn)
    assert {
        "send_file: 60.0 % of the samples (60)",
        "sendfile, kernel: 60.0 % of the samples (60); itself 60.0 %",
        "answer: 80.0 % of the samples (80); itself 20.0 %",
    } <= {one.text for one in root.iter() if one.tag.endswith("title")}
    assert "<script>" not in drawn
    bars = [one for one in root.iter() if one.tag.endswith("rect")]
    right = [float(one.get("x", 0)) + float(one.get("width", 0)) for one in bars]
    assert max(right) <= WIDTH
    assert {one.get("class") for one in bars} == {"k-all", "k-user", "k-kernel"}


def test_its_words_name_what_ran_and_how_it_was_sampled() -> None:
    words = named(stacks())
    assert words.startswith(
        "Most CPU by itself: sendfile (kernel) 60 %, answer 20 %, <script> 19 %, rare 1 %."
    )
    assert "With what it called: answer 80 %, send_file 60 %" in words
    found = sampled_how(stacks(sampler_cpu_s=0.05, lost=3), "TC1.r1")
    assert "100 samples of files in TC1.r1 alone, 50 a second of CPU: 2 s of CPU in 10 s" in found
    assert "perf itself took 50 ms of CPU" in found
    assert "Of the whole machine's samples 3 were lost" in found
    assert "perf itself" not in sampled_how(stacks(), "TC1.r1")
