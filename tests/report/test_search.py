"""A search, and sides that took turns, in every output: the answer first, levels or rounds, the gate."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import openpyxl
import pytest
from rich.cells import cell_len
from tests.evolve import evolve
from tests.report.conftest import Reporter, Shown
from tests.support import TurnModel, make_run

from svload import api
from svload.model.capacity import CapacityResult, GainStep
from svload.model.pairs import PairRatio, RoundOfTurns
from svload.model.results import Findings
from svload.report.charts.loads import search_chart
from svload.report.charts.ratios import rounds_chart
from svload.report.data.gather import gather
from svload.report.files.junit import junit_xml
from svload.report.files.markdown import summary_markdown
from svload.report.page.ran import card
from svload.report.terminal.tables import show_findings
from svload.report.terminal.why import show_why
from svload.report.wording.answer import answer, headline
from svload.report.wording.search_rows import level_rows, limit_words, search_title, step_rows
from svload.store import RunDir


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
    assert (first[0].text, first[0].mark, first[1].text) == (found.sentence, "●", found.gate.sentence)
    assert first[0].evidence, "the two ends"
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


def test_every_trial_is_a_mark_and_the_answer_two_lines_with_labels_apart(found: CapacityResult) -> None:
    drawing = search_chart(found, "t")
    tips = re.findall("<title>([^<]*)", drawing)
    assert len(tips) == len(found.trials)
    assert sum("a first look" in tip for tip in tips) == sum(one.look for one in found.trials)
    assert f"{found.low} at least" in drawing and f"{found.high} at most" in drawing
    assert drawing.count('class="band"') == sum(one.low is not None for one in found.trials)
    assert search_chart(evolve(found, trials=()), "t") == ""
    near = ElementTree.fromstring(search_chart(evolve(found, low=20, high=21), "t"))
    labels = [node for node in near.iter() if "".join(node.itertext()) in ("20 at least", "21 at most")]
    low, high = (float(label.attrib["y"]) for label in labels)
    assert abs(low - high) >= 12


@pytest.mark.parametrize("width", [120, 80, 50])
def test_levels_replace_cases(reported: Reporter, found: CapacityResult, width: int, shown: Shown) -> None:
    lines = shown(show_findings, reported("search").findings, {}, width=width).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    result = " ".join(" ".join(lines).split())
    assert found.sentence in result or width < 80
    words = ("✓ holds", "✗ breaks", "? no number", "Gate passed")
    assert width < 120 or [word for word in words if word not in result] == []


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


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Findings, dict[str, Path]]:
    run = make_run(
        tmp_path_factory.mktemp("rounds"), replicates=4, vus=2, turns=TurnModel(rounds=6),
        excluded=dict.fromkeys(("TC1", "TC2", "TC4", "TC5"), "not asked"),
    )  # fmt: skip
    return api.report(run)


def test_the_workbook_holds_every_round(turned: tuple[Findings, dict[str, Path]]) -> None:
    findings, files = turned
    (claim,) = findings.claims
    rows = list(openpyxl.load_workbook(files["report.xlsx"], data_only=True)["Rounds"].values)[1:]
    assert [row[3:7] for row in rows] == [
        (pair.block, number, pytest.approx(one.baseline), pytest.approx(one.treatment))
        for pair in claim.evidence
        for number, one in enumerate(pair.rounds, 1)
    ]
    assert all(row[7] == pytest.approx(row[6] / row[5]) for row in rows)
    assert len(rows) == 24


def test_a_trial_is_as_long_as_its_turns(turned: tuple[Findings, dict[str, Path]]) -> None:
    """The study asks for a tenth of a second, but each turn takes half a second."""
    findings, files = turned
    gathered = gather(RunDir(files["report.html"].parent.parent), findings)
    asked = {name: evolve(one, measure__duration_ns=10**8) for name, one in gathered.configs.items()}
    assert "trials of 3 s;" in card(replace(gathered, configs=asked))


def test_the_page_draws_every_round_of_every_block(turned: tuple[Findings, dict[str, Path]]) -> None:
    findings, files = turned
    page = files["report.html"].read_text(encoding="utf-8")
    (claim,) = findings.claims
    assert [len(pair.rounds) for pair in claim.evidence] == [6] * 4
    tips = re.findall(r"block (\d+), round (\d+), (https?): [\d.]+ ms", page)
    assert len(tips) == len(set(tips)) == 4 * 6 * 2
    assert page.count("<title>other programs: ") == 4 * 6 and "over all requests together" in page


def test_the_terminal_names_the_ratio_over_all_requests(turned: tuple[Findings, Any], shown: Shown) -> None:
    findings, _ = turned
    assert "by turns; over all requests together" in shown(show_findings, findings, {}, width=140)
    out = shown(show_why, findings.claims[0], findings, width=140)
    assert "24 rounds, both sides up at once" in out and "both sides met them alike" in out


def pair(block: int, *rounds: tuple[float | None, float | None]) -> PairRatio:
    return PairRatio(
        block=block, unit=block, baseline=f"a.r{block}", treatment=f"b.r{block}", log_ratio=0.0, treatment_first=False,
        rounds=tuple(RoundOfTurns(baseline=one, treatment=other) for one, other in rounds),
    )  # fmt: skip


def test_a_turn_without_a_number_leaves_a_gap_and_an_unread_machine_no_bar() -> None:
    drawn = rounds_chart([pair(1, (0.01, 0.02), (None, 0.02), (0.01, 0.02))], "time_s", "a", "b", "p50")
    assert drawn.count("<circle") == 5 and "<rect" not in drawn
    assert drawn.count('class="main c0"') == 0, "two points with a gap between them are no line"
    assert drawn.count('class="main c1"') == 1
