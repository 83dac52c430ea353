"""Which of two URLs is faster, in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.evolve import evolve
from tests.report.told_facts import outcomes

from svload.model.results import Claim, Estimate, Findings
from svload.report.told.answer import answer, nothing_line
from svload.report.told.faster import faster_sentence

Reporter = Callable[[str], Any]
Said = tuple[str, float, float, float]
"""(outcome, ratio, low, high) of a claim."""
SLOWER, FASTER = ("decided", 1.12, 1.09, 1.15), ("decided", 0.8, 0.75, 0.85)
SAME, OPEN = ("no difference", 1.01, 0.98, 1.04), ("open", 1.03, 0.98, 1.08)


@pytest.fixture(scope="module")
def findings(reported: Reporter) -> Findings:
    return outcomes(reported("plain").findings)


def said(findings: Findings, p50: Said, p95: Said, **fields: Any) -> str:
    def claim(metric: str, of: Said) -> Claim:
        ratio = Estimate(value=of[1], low=of[2], high=of[3], n=6)
        base = {"baseline": "/v1", "treatment": "/v2", "metric": f"probe.response.{metric}", "within": 0.04}
        return findings.claims[1].model_copy(update=base | {"outcome": of[0], "ratio": ratio} | fields)

    return faster_sentence(evolve(findings, claims=(claim("p50", p50), claim("p95", p95))))


@pytest.mark.parametrize(
    ("p50", "p95", "sentence"),
    [
        (SLOWER, FASTER, "/v2 is faster than /v1 in one respect and slower in another: the median response is 12 % longer (9 to 15 %) and p95 is 20 % shorter (15 to 25 %)"),
        (SLOWER, OPEN, "/v2 is slower than /v1: the median response is 12 % longer (9 to 15 %) and p95 was 3 % longer (−2 to +8 %), which decides nothing"),
        (FASTER, SAME, "/v2 is faster than /v1: the median response is 20 % shorter (15 to 25 %) and p95 differs by less than 4 %"),
        (SAME, SAME, "/v2 and /v1 are equally fast: the median response differs by less than 4 % and p95 differs by less than 4 %"),
        (SAME, OPEN, "Whether /v2 or /v1 is faster is not decided: the median response differs by less than 4 % and p95 was 3 % longer (−2 to +8 %), which decides nothing"),
        (OPEN, OPEN, "Whether /v2 or /v1 is faster is not decided: the median response was 3 % longer (−2 to +8 %) and p95 was 3 % longer (−2 to +8 %)"),
    ],
)  # fmt: skip
def test_the_claims_are_one_sentence(findings: Findings, p50: Said, p95: Said, sentence: str) -> None:
    assert said(findings, p50, p95) == f"{sentence}, as these servers ran today."


def test_failures_stand_beside_it(findings: Findings) -> None:
    told = said(findings, SLOWER, SLOWER, success=(1.0, 0.968))
    assert told.endswith(
        "as these servers ran today. Of the requests 3.2 % of /v2's and 0 % of /v1's failed."
    )


def test_nothing_measured_is_no_answer(findings: Findings) -> None:
    nothing = evolve(findings, claims=(), cases=(), trials=(), thresholds=())
    assert faster_sentence(nothing) == nothing_line(answer(nothing)) != ""
