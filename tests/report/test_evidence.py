"""Limits and refusals in words: of a trial, of a case and at N*; the page's chart of what limited each case."""

from __future__ import annotations

import re
from itertools import product
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.evolve import evolve
from tests.report.conftest import Reporter, Shown
from tests.results import case_result

from svload.model.evidence import CaseEvidence, CaseLimit, CaseRefusal, Evidence, LimitUse, RefusalCount
from svload.model.load_curve import LimitState as Bracket
from svload.model.load_curve import LoadCurve, LoadLimit, LoadPoint
from svload.report.charts.loads import COLOURS, GridCell, limit_grid
from svload.report.page.data import Anchors
from svload.report.page.overall import AtLimit, at_limit, evidence_of, grid_views, limiting
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


@pytest.mark.parametrize(
    ("monitor", "name", "limit", "shown"),
    [
        ("quota", "memory limit", 2**29, "512 MiB"),
        ("link", "link rate out", 1.25e6, "1.25 MB/s"),
        ("quota", "CPU quota", 0.5, "0.5"),
    ],
)
def test_a_limit_of_bytes_has_its_unit(monitor: str, name: str, limit: float, shown: str) -> None:
    found = evolve(USE, monitor=monitor, name=name, entity="", limit=limit)
    assert f"62 % of {shown} on average" in evidence_lines(Evidence(limits=(found,)))[0]


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
    first = (
        "reached first: cache: sessions dropped for a full queue.* then: the accept queue of cache .8080. was"
    )
    assert re.search(first if evidence.limits else "none of its monitors declares a limit", found)


def limit(name: str, share: float, resource: str = "cpu", own: bool = True, **fields: Any) -> CaseLimit:
    """Return a limit of which this share is used; with `first_s` it is reached, in all trials."""
    full = "first_s" in fields
    used = {"limit": 1.0, "trials": 3, "reached": 3 * full, "state": "reached" if full else "clear"}
    used |= dict.fromkeys(("used", "share", "peak_share"), share)
    plain = {"service": "web" if own else "", "monitor": "m", "entity": "", "first_s": None, "verdict": own}
    return CaseLimit(name=name, resource=resource, **used, **plain | fields)


def refusal(first_s: float, **fields: Any) -> CaseRefusal:
    plain = {"counter": "dropped_total", "means": "dropped", "count": 9.0}
    of_web = {"service": "web", "monitor": "m", "resource": "accept queue", "entity": "", "kind": "lost"}
    return CaseRefusal(**of_web | plain | fields, moved=3, trials=3, first_s=first_s)


def point(at: float) -> LoadPoint:
    bounds = ("throughput_low", "throughput_high", "response_low", "response_high", "most_rps", "least_s")
    known = {"users": at, "think_s": 0, "throughput_rps": 1, "response_s": 1, "runs": (), "flat": False}
    return LoadPoint(
        case=f"c{at:g}", level=f"{at:g}", at=at, accounted=None, **known, **dict.fromkeys(bounds)
    )


def curve(n_star: float | None, *at: float, state: Bracket = "bracketed") -> LoadCurve:
    limits = (LoadLimit(name="N*", value=n_star, state=state),)
    unknown = dict.fromkeys(("top_rps", "alone_s", "agree", "law_off", "scalability"))
    of_users = {"factor": "users", "kind": "users", "group": "g", "when": {}, "law_allowed": 0.03}
    return LoadCurve(points=tuple(map(point, at)), demands=(), limits=limits, **of_users, **unknown)


def evidence(*at: float) -> dict[str, CaseEvidence]:
    """CPU grows with the load and is full from 8 on; memory does not grow."""
    memory, files = limit("memory", 0.3, "memory"), limit("files", 0.01, "descriptors")
    cores = {one: limit("cores", min(one / 8, 1.0), **{"first_s": None} if one >= 8 else {}) for one in at}
    return {f"c{one:g}": CaseEvidence(limits=(memory, cores[one], files)) for one in at}


def test_the_first_level_at_n_star_stands_against_the_one_near_half_of_it() -> None:
    found = at_limit(curve(7.0, 1, 2, 4, 8, 16), evidence(1, 2, 4, 8, 16))
    assert isinstance(found, AtLimit)
    assert (found.at.at, found.half.at) == (8, 4)
    uses = [(use.what, use.half, use.at, use.state) for use in found.uses]
    assert uses == [("cores of web", 0.5, 1.0, "reached"), ("memory of web", 0.3, 0.3, "clear")]


@pytest.mark.parametrize(
    ("n_star", "levels", "kind", "why"),
    [
        (None, (1, 2), "users", "no N*"),
        (9.0, (1, 2, 4), "users", "no level that counts lies at or above N*"),
        (0.4, (1, 2), "users", "near half of 1"),
        (12.0, (1, 2, 16), "users", "near half of 16"),
        (7.0, (4, 8), "think", "no N*"),
    ],
)
def test_where_there_are_not_both_levels_it_says_why(n_star: Any, levels: Any, kind: Any, why: str) -> None:
    assert why in str(at_limit(evolve(curve(n_star, *levels), kind=kind), evidence(*levels)))


def test_what_gave_way_first_limits_a_case_and_the_machines_own_is_passed_over() -> None:
    core = limit("core", 1.0, own=False, first_s=0.1)
    disk = limit("disk_rate", 1.0, "disk", first_s=2.0)
    both = CaseEvidence(limits=(core, disk), refusals=(refusal(3.0),))
    found = limiting(both)
    assert (found.resource, found.state, found.others) == ("disk", "gave way", ("web: dropped",))
    assert limiting(evolve(both, refusals=(refusal(1.0),))).resource == "accept queue"


def test_where_nothing_gave_way_the_nearest_limit_is_named_as_such() -> None:
    limits = (limit("cores", 0.7), limit("memory", 0.9, "memory"), limit("core", 0.99, own=False))
    found = limiting(CaseEvidence(limits=limits))
    assert (found.resource, found.state, found.what) == ("memory", "nearest", "the memory of web 90 % in use")
    assert limiting(CaseEvidence(limits=(limit("core", 0.99, own=False),))) is None


def test_what_was_turned_away_stands_at_both_loads() -> None:
    """At half of N* nothing was refused; refusals by others come last."""
    evidences = evidence(4, 8)
    other = refusal(1.0, counter="aborted_total", means="broken off", verdict=False, count=50.0)
    evidences["c8"] = evolve(evidences["c8"], refusals=(other, refusal(2.0)))
    found = at_limit(curve(7.0, 4, 8), evidences)
    assert isinstance(found, AtLimit)
    turned = [(one.what, one.half, one.at, one.own) for one in found.turned]
    assert turned == [("web: dropped", 0.0, 9.0, True), ("web: broken off", 0.0, 50.0, False)]


def test_a_machines_disk_is_one_limit_whoever_reads_it() -> None:
    of_vm = {"first_s": 1.0, "monitor": "quota", "entity": "vm"}
    disks = (limit("disk read rate", 1.0, "disk", service=name, **of_vm) for name in ("auth", "db", "server"))
    full = CaseEvidence(limits=tuple(disks))
    found = at_limit(curve(7.0, 4, 8), {"c4": full, "c8": full})
    assert isinstance(found, AtLimit)
    assert [use.what for use in found.uses] == ["disk read rate of vm"]
    result = limiting(full)
    assert (result.what, result.others) == ("the disk read rate of vm was full", ())


CELLS = [
    ("1KB", [GridCell("cpu", True, "c0: the cores were full"), GridCell("cpu", True, "c1", refused=True)]),
    ("1MB", [None, GridCell("disk", False, "c3: <near>", marked=True)]),
]


def test_a_cell_is_coloured_by_what_gave_way_and_only_then() -> None:
    root = ElementTree.fromstring(limit_grid(CELLS, ["1", "2"], "users", "t"))
    cells = [one for one in root if one.tag.endswith("rect")]
    assert [one.get("class") for one in cells] == [f"g{COLOURS['cpu']}", f"g{COLOURS['cpu']}", "gn"]
    texts = [one.text for one in root if one.tag.endswith("text")]
    assert texts == ["users", "1", "2", "1KB", "cpu", "✗ cpu", "1MB", "disk ◂"]
    assert [one.get("class") for one in root if one.tag.endswith("path")] == ["hatched"]


def test_a_run_with_a_load_alone_has_a_table_and_no_chart(reported: Reporter) -> None:
    findings = reported("users").findings
    (curve,) = findings.curves
    assert grid_views(findings, Anchors([])) == []
    found = at_limit(curve, evidence_of(findings))
    result = found if isinstance(found, str) else found.caption
    assert result.replace("'", "&#39;") in reported("users").page


def test_two_factors_with_a_load_are_charted(reported: Reporter) -> None:
    findings = reported("users").findings
    (curve,) = findings.curves
    cases = tuple(
        evolve(case, case=f"{case.case}-{size}", levels={**case.levels, "size": size})
        for case, size in product(findings.cases, ("small", "large"))
    )
    both = evolve(findings, cases=cases, curves=(evolve(curve, when={"size": "small"}),))
    (view,) = grid_views(both, Anchors([]))
    ran = [case for case in cases if case.excluded is None]
    assert "size" in view.title and curve.factor in view.title
    assert len(view.table.rows) == len(ran)
    assert ElementTree.fromstring(view.drawing).attrib["class"] == "chart wide"
