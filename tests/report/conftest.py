"""Synthetic runs, judged and reported once a session: what people would look at, in the states that reports break on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from svload import api
from svload.model.results import Findings
from svload.report import write_all
from svload.testing import SyntheticRun, make_run

RUNS: dict[str, dict[str, Any]] = {
    "plain": {"cases": 6, "replicates": 3},
    "mixed": {
        "cases": 7,
        "replicates": 4,
        "factors": {"load": ["without", "with"]},
        "faults": {
            "TC1": "no-hits",
            "TC2": "errors",
            "TC3": "too-short",
            "TC4.r2": "generator-limited",
            "TC5.r1": "unsealed",
        },
    },
    "refused": {"cases": 2, "replicates": 2, "faults": {"*": "no-hits"}},
    "one": {"cases": 1, "replicates": 1},
    "hostile": {
        "cases": 8,
        "replicates": 1,
        "factors": {"fac<b>\u202etor": ["=1+1", "<img src=x onerror=alert(2)>"]},
        "faults": {"*": "hostile-names"},
    },
    "overloaded": {"cases": 2, "replicates": 2, "load": "open", "faults": {"TC1": "overloaded"}},
    "unmeasured": {"cases": 2, "replicates": 1, "faults": {"*": "unsealed"}},
}


@dataclass(frozen=True)
class Reported:
    """A run with its findings and the files made from it."""

    run: SyntheticRun
    findings: Findings
    files: dict[str, Path]

    @property
    def page(self) -> str:
        return self.files["report.html"].read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Reported]:
    """`reported("mixed")`: made when first asked for."""
    made: dict[str, Reported] = {}

    def get(name: str) -> Reported:
        if name not in made:
            run = make_run(tmp_path_factory.mktemp(name), duration_s=0.6, **RUNS[name])
            findings = api.analyse(run)
            made[name] = Reported(run, findings, write_all(run, findings))
        return made[name]

    return get


@pytest.fixture(params=list(RUNS))
def any_run(request: pytest.FixtureRequest, reported: Callable[[str], Reported]) -> Reported:
    """Each of the runs in turn."""
    return reported(request.param)
