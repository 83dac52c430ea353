"""Charts as numbers: scales, ticks, curves that end with the sample, gaps where values are unknown."""

from __future__ import annotations

import re
from itertools import pairwise
from math import isclose, nan
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svload.model.results import Estimate
from svload.report.charts.bars import usage_chart
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
from svload.report.data.digest import Curve, Series, merged_curve
from svload.report.wording.numbers import number_of


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.03, 0.9), (-5, 17), (1e-6, 2e-6), (0, 95e6)])
def test_linear_ticks_are_round_and_inside(low: float, high: float) -> None:
    ticks = linear_ticks(low, high)
    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[0])


def test_log_ticks_are_never_too_many() -> None:
    for high in (1.5, 3, 20, 1e3, 1e7):
        assert 1 <= len(log_ticks(1.0, high, 6)) <= 8


def test_a_scale_keeps_order_and_clips() -> None:
    scale = Scale(0.001, 1.0, 0, 100, log=True)
    assert [scale(v) for v in (0.001, 0.01, 0.1, 1.0)] == pytest.approx([0, 100 / 3, 200 / 3, 100])
    assert scale(5.0) == 100
    assert scale(0.0) == 0


@given(st.lists(st.floats(0, 10), max_size=20))
def test_names_stand_apart_in_their_order_within_the_picture(places: list[float]) -> None:
    moved = apart(places, 0.5, 0.0, 10.0)
    order = sorted(range(len(places)), key=lambda at: places[at])
    stood = [moved[at] for at in order]
    assert all(later - earlier >= 0.5 - 1e-9 for earlier, later in pairwise(stood))
    assert all(-1e-9 <= place <= 10 + 1e-9 for place in moved)


def test_names_that_have_room_stay_where_they_are() -> None:
    assert apart([3.0, 1.0, 2.0], 1.0, 0.0, 10.0) == [3.0, 1.0, 2.0]
    assert apart([5.0, 5.0], 1.0, 0.0, 10.0) == [4.5, 5.5]
    assert apart([10.0, 10.0], 1.0, 0.0, 10.0) == [9.0, 10.0]
    assert apart([], 1.0, 0.0, 10.0) == []


def test_ticks_are_reported_with_units() -> None:
    assert tick_texts([0.0, 0.001, 0.002], "time_s") == ["0", "1 ms", "2 ms"]
    assert tick_texts([0.0, 0.25, 0.5], "rate_rps") == ["0", "0.25/s", "0.50/s"]
    assert tick_texts([0.051, 0.05105, 0.0511], "time_s") == ["51.00 ms", "51.05 ms", "51.10 ms"]
    assert tick_texts([0.0, 5000.0, 10000.0], "rate_rps") == ["0", "5,000/s", "10,000/s"]
    assert own_unit_texts([0.0005, 0.001, 2.0], "time_s") == ["500 µs", "1 ms", "2 s"]
    scale = Scale(0.0, 96 * 1024**2, 0, 1)
    assert tick_texts(scale.ticks(4, "size_bytes"), "size_bytes") == ["0", "50 MiB"]


def test_the_tail_is_logarithmic() -> None:
    assert np.allclose(np.diff([tail_position(p) for p in (0.9, 0.99, 0.999)]), 1.0)


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


def test_lines_are_broken_where_nothing_is_known() -> None:
    assert broken([(0, 1), (1, nan), (2, 3), (3, 4)]) == [[(0, 1)], [(2, 3), (3, 4)]]
    assert broken([(0, nan)]) == []


def test_relative_steps_do_not_drift() -> None:
    drawing = Drawing(10, 10, "t")
    points = [(n / 7, n * n / 97) for n in range(200)]
    drawing.path([points], "line")
    found = re.search(r'd="M([\d.-]+) ([\d.-]+)l([^"]*)"', drawing.render())
    assert found
    x, y = float(found[1]), float(found[2])
    numbers = [float(part) for part in re.findall(r"-?\d+(?:\.\d+)?", found[3])]
    for dx, dy in zip(numbers[::2], numbers[1::2], strict=True):
        x, y = x + dx, y + dy
    assert isclose(x, points[-1][0], abs_tol=0.051)
    assert isclose(y, points[-1][1], abs_tol=0.051)


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


def test_texts_in_drawings_are_escaped() -> None:
    drawing = Drawing(10, 10, '"><script>')
    drawing.text(0, 0, "<b>&\u202e")
    drawing.dot(1, 1, "dot", tip="</title><script>")
    text = drawing.render()
    ElementTree.fromstring(text)
    assert "<script>" not in text and "\u202e" not in text


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


def test_panels_without_numbers_are_left_out() -> None:
    at = np.array([0.0, 1.0])
    full = Panel("throughput", "rate_rps", [Line("a", "c0", [Series(at, np.array([1.0, 2.0]))])])
    empty = Panel("memory", "size_bytes", [Line("a", "c0", [Series(at, np.array([nan, nan]))])])
    drawn = timeline([full, empty], 1.0, (0.1, 1.0), (0.2, 1.0), "over time")
    assert "throughput" in drawn and "memory" not in drawn
    assert 'class="ramp"' in drawn and 'class="cut"' in drawn
    assert timeline([empty], 1.0, (0.1, 1.0), (0.2, 1.0), "nothing") == ""


def test_a_long_note_of_a_panel_ends_within_the_picture() -> None:
    line = Line("a", "c0", [Series(np.array([0.0, 1.0]), np.array([1.0, 2.0]))])
    drawn = timeline([Panel("CPU", "count", [line], "n" * 500)], 1.0, (0.1, 1.0), (0.2, 1.0), "over time")
    (note,) = re.findall("n{9,}…", drawn)
    assert len(note) < 140


def test_long_values_of_an_axis_and_long_titles_lie_within_the_picture() -> None:
    line = Line("a", "c0", [Series(np.array([0.0, 1.0]), np.array([1e9, 3e9]))])
    drawn = timeline([Panel("t" * 500, "count", [line])], 1.0, (0.1, 1.0), (0.2, 1.0), "over time")
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
