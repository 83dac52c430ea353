"""What a run is said to take."""

from __future__ import annotations

import pytest
from tests.analysis.conftest import Bench

from svload.analysis import estimate_run
from svload.analysis.judge import judge_run


def test_load_is_exact_and_the_rest_is_stated(closed: Bench) -> None:
    found = estimate_run(closed.lock, closed.configs)
    assert found.trials == 12
    assert found.load_s == pytest.approx(12 * 1.3)
    assert found.seconds > found.load_s
    assert "constants" in found.basis


def test_the_last_run_is_believed_more_than_constants(closed: Bench) -> None:
    phases = {"total": 12 * 1.3 + 3.0 + 12 * 0.5, "load": 12 * 1.3, "up": 2.0, "fill": 1.0}
    last = judge_run(closed.lock, closed.configs, closed.trials(), phases_s=phases)
    found = estimate_run(closed.lock, closed.configs, last)
    assert found.seconds == pytest.approx(phases["total"] + 4.0 + 12 * 0.06)
    assert found.basis == "measured in the last run"
    other = last.model_copy(update={"profile": "another"})
    assert "constants" in estimate_run(closed.lock, closed.configs, other).basis


def test_bytes_are_of_the_right_size(closed: Bench) -> None:
    written = sum(path.stat().st_size for path in closed.run.trials.rglob("*") if path.is_file())
    assert 0.5 < estimate_run(closed.lock, closed.configs).size_bytes / written < 4
