"""Criteria over what monitors read: one number over the kept window, in the unit that the metric's name says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import Bench, with_rows
from tests.analysis.test_evidence import WINDOW, steps, table
from tests.evolve import evolve

from svload.analysis.judge import judge_run
from svload.analysis.monitored import monitored_measures, value_of
from svload.analysis.readings import Readings
from svload.model.metrics import parse_criterion
from svload.store import TrialData

OWNERS: Any = {"web": "service", "users": "traffic"}
READ = table(
    (
        "web",
        "process",
        [
            ("", "threads", 40),
            ("", "fds", steps((-1, 10), (4, 90), (6, 20))),
            ("", "rss_bytes", 2048),
            ("one", "fds", 500),
        ],
    ),
    (
        "web",
        "server",
        [
            ("", "threads", 8),
            ("a", "drops_total", steps((-1, 0), (4, 6))),
            ("b", "drops_total", steps((-1, 0), (1, 6), (7, 8))),
            ("", "held_seconds_total", np.arange(-1, 11) * 0.25),
        ],
    ),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("web.drops == 0", 8),
        ("web.drops_total == 0", 8),
        ("web.held < 1 %", 0.25),
        ("web.fds < 100", 90),
        ("web.fds.min < 100", 10),
        ("web.fds.mean < 100", (10 + 10 + 90 + 90 + 20 + 20 + 20) / 7),
        ("web.fds.p50 < 100", 20),
        ("web.rss < 4 KiB", 2048),
        ("web.threads == 8", 8),
        ("web.process.threads == 40", 40),
        ("web.server.drops == 0", 8),
        ("web.process.drops == 0", None),
        ("web.nothing == 0", None),
    ],
)
def test_the_number_over_the_window(text: str, value: float | None) -> None:
    ref = parse_criterion(text, OWNERS).ref
    found = value_of(Readings(READ), ref, WINDOW)
    assert found == (value if value is None else pytest.approx(value))
    assert set(monitored_measures(READ, [ref], WINDOW)) == ({str(ref)} if value is not None else set())


def with_drops(trial: TrialData, growth: float) -> TrialData:
    """The trial whose cache dropped so many sessions."""
    at = np.unique(trial.monitors["offset_ns"])
    counted = zip(at, np.linspace(0.0, growth, len(at)), strict=True)
    return with_rows(
        trial, ((ns, "cache", "varnish", "", "sess_dropped_total", value) for ns, value in counted)
    )


@pytest.mark.parametrize(("growth", "outcome"), [(0.0, "passed"), (9.0, "failed"), (None, "no value")])
def test_a_threshold_rests_on_it(closed: Bench, growth: float | None, outcome: str) -> None:
    """What was not read is never a pass."""
    that = "cache.sess_dropped == 0"
    configs = {name: evolve(one, thresholds=(that,)) for name, one in closed.configs.items()}
    trials = [
        one if growth is None else with_drops(one, growth) for one in closed.trials() if one.case == "TC4"
    ]
    found = judge_run(closed.lock, configs, trials)
    (one,) = found.thresholds
    assert (one.that, one.outcome) == (that, outcome)
    (case,) = [case for case in found.cases if case.case == "TC4"]
    assert "cache.sess_dropped" in case.asked
    if growth:
        assert case.metrics["cache.sess_dropped"].value == pytest.approx(growth, rel=0.5)
        assert case.server == "SATURATED"
        assert any(
            one.kind == "limit" and "sessions dropped for a full queue" in one.sentence
            for one in found.findings
        )
    else:
        assert not [one for one in found.findings if one.kind == "limit"]
