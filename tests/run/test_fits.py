"""Plans that this machine cannot run are refused at once, in one line that states what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.evolve import evolve

from svload import study
from svload.model.conditions import Machine
from svload.model.study import CaseConfig
from svload.run import misfits, too_long

OFFERS = {"memory_bytes": 1 << 30, "open_files": 20_000, "local_ports": 28_232, "port_reuse_s": 60.0}
MACHINE = Machine(kernel="6.1", cores=8, load_cores=2, **OFFERS)


def config(folder: Path, **group: Any) -> CaseConfig:
    """Return the one case of a study with one group."""
    text = {
        "name": "fit",
        "lab": {"api": {"kit": "truth", "role": "store"}},
        "traffic": {"load": {"request": "GET http://api/", **group}},
        "measure": {"duration": "1s", "replicates": 1},
    }
    (folder / "study.yaml").write_text(json.dumps(text))
    lock = study.load_study(folder)
    return study.resolve(lock, lock.valid_cases[0])


def lasting(config: CaseConfig, duration_ns: int) -> CaseConfig:
    """Return the case with another measured time."""
    return evolve(config, measure__duration_ns=duration_ns)


FITS: list[dict[str, Any]] = [
    {"executor": "constant-vus", "vus": 19_000},
    {"executor": "constant-vus", "vus": 28_000, "generators": 2},
    {"executor": "constant-arrival-rate", "rate": "470/s", "connection": "new"},
    {"executor": "constant-arrival-rate", "rate": "5000/s"},
    {"executor": "constant-arrival-rate", "rate": "500000/s"},
    {"executor": "constant-arrival-rate", "rate": "5000000/s", "http2": True, "streams": 16},
]
MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"executor": "constant-vus", "vus": 19_990}, "20,000 files"),
    ({"executor": "constant-vus", "vus": 29_000, "generators": 2}, "28,232 local ports"),
    ({"executor": "constant-vus", "vus": 28_000}, "28,000 connections at once"),
    ({"executor": "constant-arrival-rate", "rate": "480/s", "connection": "new"}, "470.533"),
    ({"executor": "constant-arrival-rate", "rate": "1100000/s", "generators": 5}, "2 cores of load"),
]


@pytest.mark.parametrize("group", FITS)
def test_what_fits_is_let_through(tmp_path: Path, group: dict[str, Any]) -> None:
    assert misfits([config(tmp_path, **group)], MACHINE) == ()


@pytest.mark.parametrize(("group", "words"), MISFITS)
def test_what_does_not_fit_is_one_clear_line(tmp_path: Path, group: dict[str, Any], words: str) -> None:
    [problem] = misfits([config(tmp_path, **group)] * 3, MACHINE)
    assert problem.code == "plan-too-large"
    assert words in problem.sentence
    assert problem.remedy.endswith(".")
    assert "\n" not in str(problem)


def test_generators_beyond_the_cores_hold_nothing_more(tmp_path: Path) -> None:
    """They run as one generator per core, so each has more users."""
    asked = config(tmp_path, executor="constant-vus", vus=25_000, generators=10)
    assert misfits([asked], MACHINE) == ()
    assert misfits([asked], evolve(MACHINE, load_cores=1))


def test_a_short_measurement_behind_a_long_ramp_has_more_intervals_than_a_series_holds(tmp_path: Path):
    long = config(tmp_path, executor="constant-vus", vus=2, ramp_up="5h")
    (problem,) = too_long([lasting(long, 1_000_000_000)])
    assert "5 h 1 min, in intervals of 1.67 ms more than 1,000,000" in str(problem)
    assert too_long([lasting(long, 600_000_000_000)]) == ()


@pytest.mark.parametrize("days", [13, 90])
def test_a_measurement_of_weeks_is_not_asked_to_be_longer(tmp_path: Path, days: int) -> None:
    users = config(tmp_path, executor="constant-vus", vus=2)
    (problem,) = too_long([lasting(users, days * 86_400 * 1_000_000_000)])
    assert "shorter together" in problem.remedy
    assert "longer" not in problem.remedy
