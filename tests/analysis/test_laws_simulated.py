"""A tenth of benches/laws.py with its seed: N*, its interval, and the bounds, on servers whose limit is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benches.laws import COVERAGE_MIN, MODELS_A_CELL, Judged, coverage, judge, models, rows_of
from scipy import stats

from svload.analysis import limits
from svload.analysis.laws import n_star


@pytest.fixture(scope="module")
def tenth() -> list[Judged]:
    return judge(list(models())[::10])


def test_every_cell_keeps_its_limits(tenth: list[Judged]) -> None:
    rows = rows_of(tenth)
    assert [f"{row.cell.name}: {told}" for row in rows for told in row.missed] == []
    held = sum(len(row.inside) for row in rows if row.cell.held)
    assert held >= 15
    assert coverage(rows) >= stats.binom.ppf(0.001, held, COVERAGE_MIN) / held


def test_levels_that_do_not_hold_n_star_say_so(tenth: list[Judged]) -> None:
    outside = [one for one in tenth if not one.model.inside]
    assert {one.state for one in outside} >= {"above"}
    assert all(one.state != "bracketed" for one in outside)


def test_an_n_star_that_forgets_think_time_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted case: D/max(Dᵢ/mᵢ) without Z."""
    chosen = [model for model in models() if model.think_s > 0 and model.inside][::40]
    alone_of = n_star.alone_of

    def forgetful(level, ground, most_rps):
        found = alone_of(level, ground, most_rps)
        return replace(found, response_s=found.response_s - level.think_s / 2)

    monkeypatch.setattr(n_star, "alone_of", forgetful)
    assert any(row.missed for row in rows_of(judge(chosen, 3, 300)))


def test_the_table_that_is_committed_is_of_these_models() -> None:
    text = (Path(__file__).resolve().parents[2] / "benches" / "laws.md").read_text(encoding="utf-8")
    assert "MISSED" not in text
    count = len(list(models()))
    assert count >= 200
    assert f"{count} models" in text
    assert count % MODELS_A_CELL == 0
    assert limits.WAITING_UNSURE == 0.5  # the table was made with it
