"""Limits and refusals as people read them: in `svload why`, of a trial and of a case, and on the page."""

from __future__ import annotations

import pytest
from tests.evolve import evolve
from tests.report.conftest import Shown
from tests.results import case_result

from svload.model.evidence import CaseEvidence, CaseLimit, CaseRefusal, Evidence, LimitUse, RefusalCount
from svload.report.terminal.why import show_why
from svload.report.told.evidence import evidence_lines, gave_way, limit_lines

USE = LimitUse(service="cache", monitor="listeners", name="accept queue", resource="accept queue", entity="8080", used=79.4, limit=128, share=0.62, peak_share=1.01, full=0.2, state="reached", first_s=2.1)  # fmt: skip
CLEAR = evolve(USE, name="descriptors", entity="", state="clear", first_s=None, share=0.1, peak_share=0.2)
COUNT = RefusalCount(service="cache", monitor="varnish", counter="sess_dropped_total", resource="workers", entity="", means="sessions dropped for a full queue", kind="refused", count=618, in_window=600, first_s=2.4)  # fmt: skip
CASE_LIMIT = CaseLimit(service="cache", monitor="listeners", name="accept queue", resource="accept queue", entity="8080", used=79.4, limit=128, share=0.62, peak_share=1.01, state="reached", reached=3, trials=4, first_s=2.1)  # fmt: skip
CASE_COUNT = CaseRefusal(service="cache", monitor="varnish", counter="sess_dropped_total", resource="workers", entity="", means="sessions dropped for a full queue", kind="refused", count=618, moved=4, trials=4, first_s=1.4)  # fmt: skip
CASE = CaseEvidence(limits=(CASE_LIMIT,), refusals=(CASE_COUNT,))


def test_a_trials_lines() -> None:
    assert evidence_lines(Evidence(limits=(CLEAR, USE), refusals=(COUNT,))) == [
        "● accept queue of cache (8080): 62 % of 128 on average, 101 % at most, first full 2.1 s into the load",
        "cache: 618 sessions dropped for a full queue (refused), first 2.4 s into the load",
    ]
    assert [one.state for one in limit_lines((CLEAR, USE))] == ["reached", "clear"], "the nearest first"
    assert evidence_lines(Evidence()) == []


def test_a_cases_lines_and_what_gave_way_first() -> None:
    assert evidence_lines(CASE) == [
        "● accept queue of cache (8080): 62 % of 128 on average, 101 % at most, first full 2.1 s into the "
        "load, reached in 3 of 4 trials",
        "cache: 618 sessions dropped for a full queue per trial (refused), first 1.4 s into the load, in 4 "
        "of 4 trials",
    ]
    assert gave_way(CASE) == [
        "cache: sessions dropped for a full queue",
        "the accept queue of cache (8080) was full",
    ]
    workers = evolve(CASE_LIMIT, name="workers", entity="")
    assert gave_way(CaseEvidence(limits=(workers,))) == ["the workers of cache were full"]
    assert gave_way(CaseEvidence(limits=(evolve(CASE_LIMIT, verdict=False),))) == []


@pytest.mark.parametrize("evidence", [CASE, CaseEvidence()])
def test_why_of_a_case(evidence: CaseEvidence, shown: Shown) -> None:
    case = case_result("TC7", server="SATURATED", trials=("TC7.r1",), evidence=evidence)
    told = " ".join(shown(show_why, case).split())
    assert "TC7: 1 trial, server SATURATED" in told
    assert "more: svload why TC7.r1" in told
    if evidence.limits:
        assert "reached first: cache: sessions dropped for a full queue" in told
        assert "then: the accept queue of cache (8080) was full" in told
    else:
        assert "none of its monitors knows a limit" in told
