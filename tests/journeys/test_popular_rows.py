"""Rows as `take: zipf` asks for them, beside the same law drawn by numpy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from .world import World, only_run

pytestmark = pytest.mark.truth
ROWS, REQUESTS, SKEW = 40, 6_000, 1.2
STUDY = f"""\
name: popular
lab: {{store: {{at: "http://127.0.0.1:PORT"}}}}
feeders: {{object: {{range: [1, {ROWS}], take: zipf, skew: {SKEW}}}}}
requests: {{ask: {{get: "http://store/v1/a/c/o${{object.value}}", expect_status: 404}}}}
traffic: {{users: {{executor: shared-iterations, vus: 8, iterations: {REQUESTS}, request: ask}}}}
measure: {{duration: 120s, replicates: 1}}
"""


def law(skew: float) -> np.ndarray[Any, Any]:
    weights = np.arange(1, ROWS + 1, dtype=float) ** -skew
    return np.asarray(weights / weights.sum())


def distance(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any]) -> float:
    """Chi-square of two samples, in standard deviations from what samples of one law give."""
    ratio = np.sqrt(two.sum() / one.sum())
    chi = float((((ratio * one - two / ratio) ** 2) / (one + two)).sum())
    free = len(one) - 1
    return float((chi - free) / np.sqrt(2 * free))


def test_zipf_is_numpys(world: World, truth: dict[str, Any]) -> None:
    (world.root / "study.yaml").write_text(STUDY.replace("PORT", str(truth["http_port"])))
    world.run("study.yaml")
    asked = world.succeed("query", str(only_run(world)), "select row, asked from asked", "--json")
    counts = np.zeros(ROWS)
    for row in json.loads(asked.stdout):
        counts[row["row"]] += row["asked"]
    assert counts.sum() == REQUESTS
    draws = np.random.default_rng(11)
    numpys = np.bincount(draws.choice(ROWS, size=20 * REQUESTS, p=law(SKEW)), minlength=ROWS)
    assert distance(counts, numpys) < 4
    for wrong in (1.0, 1.4, 0.0):
        others = np.bincount(draws.choice(ROWS, size=20 * REQUESTS, p=law(wrong)), minlength=ROWS)
        assert distance(counts, others) > 4, f"it is not Zipf's law of {wrong}"
