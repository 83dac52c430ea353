"""Sides that took turns on page and terminal: rounds, strangers' shares, the ratio over all requests."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest
from tests.evolve import evolve
from tests.report.conftest import Shown
from tests.support import TurnModel, make_run

from svload import api
from svload.model.pairs import PairRatio, RoundOfTurns
from svload.model.results import Findings
from svload.report.charts.ratios import rounds_chart
from svload.report.data.gather import gather
from svload.report.page.ran import card
from svload.report.terminal.tables import show_findings
from svload.report.terminal.why import show_why
from svload.store import RunDir


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Findings, dict[str, Path]]:
    run = make_run(
        tmp_path_factory.mktemp("rounds"), replicates=4, vus=2, turns=TurnModel(rounds=6),
        excluded=dict.fromkeys(("TC1", "TC2", "TC4", "TC5"), "not asked"),
    )  # fmt: skip
    return api.report(run)


@pytest.fixture(scope="module")
def told(reported: tuple[Findings, dict[str, Path]]) -> tuple[Findings, str]:
    return reported[0], reported[1]["report.html"].read_text(encoding="utf-8")


def test_the_workbook_holds_every_round(reported: tuple[Findings, dict[str, Path]]) -> None:
    findings, files = reported
    (claim,) = findings.claims
    rows = list(openpyxl.load_workbook(files["report.xlsx"], data_only=True)["Rounds"].values)[1:]
    assert [row[3:7] for row in rows] == [
        (pair.block, number, pytest.approx(one.baseline), pytest.approx(one.treatment))
        for pair in claim.evidence
        for number, one in enumerate(pair.rounds, 1)
    ]
    assert all(row[7] == pytest.approx(row[6] / row[5]) for row in rows)
    assert len(rows) == 24


def test_a_trial_is_as_long_as_its_turns(reported: tuple[Findings, dict[str, Path]]) -> None:
    """The study asks for a tenth of a second, but each turn takes half a second."""
    findings, files = reported
    gathered = gather(RunDir(files["report.html"].parent.parent), findings)
    asked = {name: evolve(one, measure__duration_ns=10**8) for name, one in gathered.configs.items()}
    assert "trials of 3 s;" in card(replace(gathered, configs=asked))


def test_the_page_draws_every_round_of_every_block(told: tuple[Findings, str]) -> None:
    findings, page = told
    (claim,) = findings.claims
    assert [len(pair.rounds) for pair in claim.evidence] == [6] * 4
    tips = re.findall(r"block (\d+), round (\d+), (https?): [\d.]+ ms", page)
    assert len(tips) == len(set(tips)) == 4 * 6 * 2
    assert page.count("<title>other programs: ") == 4 * 6 and "over all requests together" in page


def test_the_terminal_names_the_ratio_over_all_requests(told: tuple[Findings, str], shown: Shown) -> None:
    assert "by turns; over all requests together" in shown(show_findings, told[0], {}, width=140)
    out = shown(show_why, told[0].claims[0], told[0], width=140)
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
