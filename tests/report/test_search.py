"""A search in every output: the answer first, levels with verdicts, trials in their order, the gate."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from rich.cells import cell_len
from tests.evolve import evolve
from tests.report.conftest import Reporter, Shown

from svload.model.capacity import CapacityResult, GainStep
from svload.model.results import Findings
from svload.report.charts.loads import search_chart
from svload.report.files.junit import junit_xml
from svload.report.files.markdown import summary_markdown
from svload.report.terminal.tables import show_findings
from svload.report.wording.answer import answer, headline
from svload.report.wording.search_rows import level_rows, limit_words, search_title, step_rows


@pytest.fixture
def found(reported: Reporter) -> CapacityResult:
    capacity = reported("search").findings.capacity
    assert capacity is not None
    return capacity


KNEE = CapacityResult(
    over="users",
    gain=0.1,
    state="found",
    limit=18.0,
    low=17,
    high=19,
    steps=(
        GainStep(low_load=8, high_load=16, gain=0.98, low_rps=80.0, high_rps=158.0),
        GainStep(low_load=16, high_load=20, gain=0.02, low_rps=158.0, high_rps=159.0),
    ),
    sentence="Above about 18 users more users gain less than 10 %.",
)


def test_the_answer_says_it_first(reported: Reporter, found: CapacityResult) -> None:
    findings = reported("search").findings
    first = answer(findings).first
    assert first[0].text == found.sentence and first[0].mark == "●"
    assert first[0].evidence, "the two ends"
    assert first[1].text == found.gate.sentence
    assert headline(findings).startswith(found.sentence)
    assert sum(found.sentence in one.text for one in (*first, *answer(findings).sentences)) == 1, "once"


def test_the_page_draws_it_and_lists_every_level(reported: Reporter, found: CapacityResult) -> None:
    page = reported("search").page
    assert '<a href="#search-for">Search</a>' in page
    assert limit_words(found) in page
    section = page.partition('id="search-for"')[2].partition("</section>")[0]
    assert section.count("<svg") == 1
    for row in level_rows(reported("search").findings):
        assert f"{row.level.load:,}" in section and f"{row.mark} {row.level.outcome}" in section
    assert "too few requests" in section
    assert 'id="search-for"' not in reported("users").page


def test_every_trial_is_a_mark_and_the_answer_two_lines(found: CapacityResult) -> None:
    drawing = search_chart(found, "t")
    tree = ElementTree.fromstring(drawing)
    tips = [node.text or "" for node in tree.iter() if node.tag.endswith("title")]
    assert len(tips) == len(found.trials)
    assert sum("a first look" in tip for tip in tips) == sum(one.look for one in found.trials)
    assert f"{found.low} at least" in drawing and f"{found.high} at most" in drawing
    assert drawing.count('class="band"') == sum(one.low is not None for one in found.trials)
    assert search_chart(evolve(found, trials=()), "t") == ""


def test_two_ends_that_lie_together_are_labelled_apart(found: CapacityResult) -> None:
    near = evolve(found, low=20, high=21)
    tree = ElementTree.fromstring(search_chart(near, "t"))
    labels = [node for node in tree.iter() if "".join(node.itertext()) in ("20 at least", "21 at most")]
    assert len(labels) == 2
    assert abs(float(labels[0].attrib["y"]) - float(labels[1].attrib["y"])) >= 12


@pytest.mark.parametrize("width", [120, 80, 50])
def test_levels_replace_cases(reported: Reporter, found: CapacityResult, width: int, shown: Shown) -> None:
    lines = shown(show_findings, reported("search").findings, {}, width=width).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    result = " ".join(" ".join(lines).split())
    assert found.sentence in result or width < 80
    if width == 120:
        for word in ("✓ holds", "✗ breaks", "? no number", "Gate passed"):
            assert word in result


def test_the_summary_and_junit_have_it(reported: Reporter, found: CapacityResult) -> None:
    findings = reported("search").findings
    text = summary_markdown(findings)
    assert text.startswith("## ✓")
    assert "| users | verdict |" in text

    def in_junit(findings: Findings) -> ElementTree.Element:
        suite = ElementTree.fromstring(junit_xml(findings)).find("testsuite")
        return next(one for one in suite if one.attrib["classname"] == "capacity")

    assert in_junit(findings).find("failure") is None
    failed = ("found", "fail", "failure", "✗")
    for state, gate, tag, mark in (("above", None, "error", "?"), failed, ("found", "open", "error", "?")):
        judged = None if gate is None else evolve(found.gate, outcome=gate)
        changed = evolve(findings, capacity=evolve(found, state=state, gate=judged))
        assert in_junit(changed).find(tag) is not None
        assert summary_markdown(changed).startswith(f"## {mark}")


def test_a_knee_has_its_steps_everywhere(reported: Reporter, shown: Shown) -> None:
    findings = evolve(reported("search").findings, capacity=KNEE)
    assert search_title(KNEE) == "the number of users above which more of them gain less than 10 %"
    assert [row.gain for row in step_rows(KNEE)] == ["98 %", "2 %"]
    falls = tuple(evolve(step, gain=-0.05) for step in KNEE.steps)
    assert step_rows(evolve(KNEE, steps=falls))[0].gain == "−5 %"
    assert "98 %" in shown(show_findings, findings, {}, width=120)
    assert "158/s → 159/s" in summary_markdown(findings)
