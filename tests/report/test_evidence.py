"""Limits and refusals in words: of a trial, of a case, and at N*."""

from __future__ import annotations

import pytest
from tests.evolve import evolve
from tests.report.conftest import Shown
from tests.results import case_result

from svload.model.declared import Resource
from svload.model.evidence import (
    CaseEvidence,
    CaseLimit,
    CaseRefusal,
    Evidence,
    LimitState,
    LimitUse,
    RefusalCount,
)
from svload.model.load_curve import LimitState as Bracket
from svload.model.load_curve import LoadCurve, LoadLimit, LoadPoint
from svload.report.page.overall import AtLimit, at_limit, limiting
from svload.report.terminal.why import show_why
from svload.report.wording.evidence import evidence_lines, gave_way, limit_lines

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
    near = evolve(USE, share=0.9996, peak_share=12.344, first_s=None)
    assert evidence_lines(Evidence(limits=(near,)))[0].endswith("99.96 % of 128 on average, 1,230 % at most")
    assert evidence_lines(Evidence()) == []


def test_a_cases_lines_and_what_gave_way_first() -> None:
    assert evidence_lines(CASE) == [
        "● accept queue of cache (8080): 62 % of 128 on average, 101 % at most, first full 2.1 s into the "
        "load, reached in 3 of 4 trials",
        "cache: 618 sessions dropped for a full queue per trial (refused), first 1.4 s into the load, in 4 "
        "of 4 trials",
    ]
    full = "the accept queue of cache (8080) was full"
    assert gave_way(CASE) == ["cache: sessions dropped for a full queue", full]
    workers = evolve(CASE_LIMIT, name="workers", entity="")
    assert gave_way(CaseEvidence(limits=(workers,))) == ["the workers of cache were full"]
    assert gave_way(CaseEvidence(limits=(evolve(CASE_LIMIT, verdict=False),))) == []


@pytest.mark.parametrize("evidence", [CASE, CaseEvidence()])
def test_why_of_a_case(evidence: CaseEvidence, shown: Shown) -> None:
    case = case_result("TC7", server="SATURATED", trials=("TC7.r1",), evidence=evidence)
    found = " ".join(shown(show_why, case).split())
    assert "TC7: 1 trial, server SATURATED" in found and "more: svload why TC7.r1" in found
    if evidence.limits:
        assert "reached first: cache: sessions dropped for a full queue" in found
        assert "then: the accept queue of cache (8080) was full" in found
    else:
        assert "none of its monitors knows a limit" in found


def limit(
    name: str, share: float, state: LimitState = "clear", resource: Resource = "cpu", *, own: bool = True, first_s: float | None = None
) -> CaseLimit:  # fmt: skip
    return CaseLimit(service="web" if own else "", monitor="m", name=name, resource=resource, entity="", used=share, limit=1.0,
                     share=share, peak_share=share, state=state, reached=3 if state == "reached" else 0, trials=3,
                     first_s=first_s, verdict=own)  # fmt: skip


def refusal(first_s: float, moved: int = 3) -> CaseRefusal:
    return CaseRefusal(service="web", monitor="m", counter="dropped_total", resource="accept queue", entity="", means="dropped",
                       kind="lost", count=9.0, moved=moved, trials=3, first_s=first_s)  # fmt: skip


def point(at: float) -> LoadPoint:
    return LoadPoint(case=f"c{at:g}", level=f"{at:g}", at=at, users=at, think_s=0, throughput_rps=1, throughput_low=None,
                     throughput_high=None, response_s=1, response_low=None, response_high=None, runs=(), most_rps=None,
                     least_s=None, accounted=None, flat=False)  # fmt: skip


def curve(n_star: float | None, *at: float, state: Bracket = "bracketed") -> LoadCurve:
    limits = (LoadLimit(name="N*", value=n_star, state=state),)
    return LoadCurve(factor="users", kind="users", group="g", when={}, points=tuple(map(point, at)), demands=(), limits=limits,
                     top_rps=None, alone_s=None, agree=None, law_off=None, law_allowed=0.03, scalability=None)  # fmt: skip


def evidence(*at: float) -> dict[str, CaseEvidence]:
    """CPU grows with the load and is full from 8 on; memory does not grow."""
    memory, files = limit("memory", 0.3, resource="memory"), limit("files", 0.01, resource="descriptors")
    cores = {one: limit("cores", min(one / 8, 1.0), "reached" if one >= 8 else "clear") for one in at}
    return {f"c{one:g}": CaseEvidence(limits=(memory, cores[one], files)) for one in at}


def test_the_first_level_at_n_star_stands_against_the_one_near_half_of_it() -> None:
    found = at_limit(curve(7.0, 1, 2, 4, 8, 16), evidence(1, 2, 4, 8, 16))
    assert isinstance(found, AtLimit)
    assert (found.at.at, found.half.at) == (8, 4)
    uses = [(use.what, use.half, use.at, use.state) for use in found.uses]
    assert uses == [("cores of web", 0.5, 1.0, "reached"), ("memory of web", 0.3, 0.3, "clear")]


def test_where_there_are_not_both_levels_it_says_why() -> None:
    assert "no N*" in str(at_limit(curve(None, 1, 2), evidence(1, 2)))
    assert "no level that counts lies at or above N*" in str(at_limit(curve(9.0, 1, 2, 4), evidence(1, 2, 4)))
    assert "near half of 1" in str(at_limit(curve(0.4, 1, 2), evidence(1, 2)))
    assert "near half of 16" in str(at_limit(curve(12.0, 1, 2, 16), evidence(1, 2, 16)))
    think = evolve(curve(7.0, 4, 8), kind="think")
    assert "no N*" in str(at_limit(think, evidence(4, 8)))


def test_what_gave_way_first_limits_a_case_and_the_machines_own_is_passed_over() -> None:
    core = limit("core", 1.0, "reached", own=False, first_s=0.1)
    disk = limit("disk_rate", 1.0, "reached", "disk", first_s=2.0)
    both = CaseEvidence(limits=(core, disk), refusals=(refusal(3.0),))
    found = limiting(both)
    assert (found.resource, found.state, found.others) == ("disk", "gave way", ("web: dropped",))
    queue = limiting(evolve(both, refusals=(refusal(1.0),)))
    assert queue.resource == "accept queue"


def test_where_nothing_gave_way_the_nearest_limit_is_named_as_such() -> None:
    limits = (limit("cores", 0.7), limit("memory", 0.9, resource="memory"), limit("core", 0.99, own=False))
    found = limiting(CaseEvidence(limits=limits))
    assert (found.resource, found.state, found.what) == ("memory", "nearest", "the memory of web 90 % in use")
    assert limiting(CaseEvidence(limits=(limit("core", 0.99, own=False),))) is None


def test_what_was_turned_away_stands_at_both_loads() -> None:
    """At half of N* nothing was refused; refusals by others come last."""
    evidences = evidence(4, 8)
    other = evolve(refusal(1.0), counter="aborted_total", means="broken off", verdict=False, count=50.0)
    evidences["c8"] = evolve(evidences["c8"], refusals=(other, refusal(2.0)))
    found = at_limit(curve(7.0, 4, 8), evidences)
    assert isinstance(found, AtLimit)
    turned = [(one.what, one.half, one.at, one.own) for one in found.turned]
    assert turned == [("web: dropped", 0.0, 9.0, True), ("web: broken off", 0.0, 50.0, False)]


def test_a_machines_disk_is_one_limit_whoever_reads_it() -> None:
    def disk(service: str) -> CaseLimit:
        one = limit("disk read rate", 1.0, "reached", "disk", first_s=1.0)
        return evolve(one, service=service, monitor="quota", entity="vm")

    full = CaseEvidence(limits=(disk("auth"), disk("db"), disk("server")))
    found = at_limit(curve(7.0, 4, 8), {"c4": full, "c8": full})
    assert isinstance(found, AtLimit)
    assert [use.what for use in found.uses] == ["disk read rate of vm"]
    result = limiting(full)
    assert (result.what, result.others) == ("the disk read rate of vm was full", ())
