"""The flame graph: positions of its boxes, narrow boxes left out, names escaped; and its captions."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from svload.analysis.stacks import call_tree
from svload.model.stacks import Stacks
from svload.report.page.flames import WIDTH, boxes, flame_graph, named, sampled_how

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
    tips = [one.text or "" for one in root.iter() if one.tag.endswith("title")]
    assert "send_file: 60.0 % of the samples (60)" in tips
    assert "sendfile, kernel: 60.0 % of the samples (60); itself 60.0 %" in tips
    assert "answer: 80.0 % of the samples (80); itself 20.0 %" in tips
    assert "<script>" not in drawn
    bars = [one for one in root.iter() if one.tag.endswith("rect")]
    right = [float(one.get("x", 0)) + float(one.get("width", 0)) for one in bars]
    assert max(right) <= WIDTH
    assert {one.get("class") for one in bars} == {"k-all", "k-user", "k-kernel"}


def test_its_words_name_what_ran_and_what_was_under_way() -> None:
    found = named(stacks())
    most = "Most CPU by itself: sendfile (kernel) 60 %, answer 20 %, <script> 19 %, rare 1 %."
    assert found.startswith(most)
    assert re.search(r"With what it called: answer 80 %, send_file 60 %", found)


def test_how_it_was_sampled_and_what_that_cost_are_reported() -> None:
    found = sampled_how(stacks(sampler_cpu_s=0.05, lost=3), "TC1.r1")
    assert "100 samples of files in TC1.r1 alone, 50 a second of CPU: 2 s of CPU in 10 s" in found
    assert "perf itself took 50 ms of CPU" in found
    assert "Of the whole machine's samples 3 got lost" in found
    assert "perf itself" not in sampled_how(stacks(), "TC1.r1")
