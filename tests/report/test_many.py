"""A thousand trials: the page keeps its size limit, contains every case, and states what it omits."""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.evolve import evolve
from tests.report.conftest import Reporter

from svload.report.data.gather import Gathered, gather
from svload.report.page import view
from svload.report.page.data import LARGEST_BYTES

pytestmark = pytest.mark.look


def multiplied(found: Gathered, copies: int) -> Gathered:
    """Return the same run `copies` times over, as levels of one more factor."""
    findings, cases, trials, digests, configs = found.findings, [], [], {}, {}
    for copy in range(copies):
        for case in findings.cases:
            if case.excluded is not None:
                continue
            name = f"{case.case}-{copy}"
            names = tuple(f"{trial}-{copy}" for trial in case.trials)
            cases.append(evolve(case, case=name, levels={"copy": f"v{copy}", **case.levels}, trials=names))
            configs[name] = found.configs[case.case]
        for trial in findings.trials:
            renamed = {"trial": f"{trial.trial}-{copy}", "case": f"{trial.case}-{copy}"}
            trials.append(trial.model_copy(update=renamed))
            digest = found.digests[trial.trial]
            digests[renamed["trial"]] = replace(digest, name=renamed["trial"], case=renamed["case"])
    counts = dict.fromkeys(("sealed_trials", "planned_trials"), len(trials))
    many = evolve(findings, cases=tuple(cases), trials=tuple(trials), **counts)
    return replace(found, findings=many, digests=digests, configs=configs)


@pytest.fixture(scope="module")
def thousand(reported: Reporter) -> Gathered:
    found = reported("plain")
    gathered = multiplied(gather(found.run, found.findings), 56)
    assert len(gathered.findings.trials) >= 1000
    return gathered


@pytest.fixture(scope="module")
def rendered(thousand: Gathered) -> tuple[str, Any]:
    return view.render_page(thousand)


def test_a_thousand_trials_fit_the_page(thousand: Gathered, rendered: tuple[str, Any]) -> None:
    page, series = rendered
    assert len(page.encode()) <= LARGEST_BYTES
    for case in thousand.findings.cases:
        assert f'<article class="case" id="{case.case}"' in page
    assert re.search("There (are|is) (too |very )?(many cases|much to draw)", page)
    assert (series is not None) is ("series.csv next to this page" in page)


USE = """() => {
  const field = document.getElementById("search");
  field.value = "tc1"; field.dispatchEvent(new Event("input", { bubbles: true }));
  document.body.getBoundingClientRect();
  return performance.now() / 1000;
}"""
"""Seconds from the navigation's start until the script has answered a search and the page is laid out."""


@pytest.mark.timing
def test_a_thousand_trials_can_be_used_at_once(
    needs: Callable[..., None], request: pytest.FixtureRequest, rendered: tuple[str, Any], tmp_path: Path
) -> None:
    needs("chromium")
    browser = request.getfixturevalue("browser")
    file, took_s = tmp_path / "report.html", []
    file.write_text(rendered[0], encoding="utf-8")
    for _ in range(5):
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.goto(f"file://{file}", wait_until="domcontentloaded")
        took_s.append(tab.evaluate(USE))
        tab.close()
    assert statistics.median(took_s) <= 2.0, took_s


def test_large_series_move_beside_the_page(reported: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    found = reported("plain")
    assert "series.csv" not in found.files
    monkeypatch.setattr(view, "LARGEST_BYTES", 1000)
    page, series = view.render_page(gather(found.run, found.findings))
    assert series is not None
    assert len(page) < len(found.page) and "series.csv next to this page" in page
    rows = list(csv.DictReader(StringIO(series)))
    assert {row["trial"] for row in rows} == {trial.trial for trial in found.findings.trials}
    assert {"probe", "background", "backend", "cache", "machine"} == {row["of"] for row in rows}
    rate = [float(row["value"]) for row in rows if (row["of"], row["metric"]) == ("probe", "throughput")]
    assert max(rate) > 0
