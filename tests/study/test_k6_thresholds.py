"""A study's thresholds in k6's words: each is the criterion that it means, or the message says which to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.model.study import Lock
from svload.study import load_study
from svload.study.k6 import NoCriterion, from_k6

STUDY = """\
name: k6
lab: {api: {at: "http://127.0.0.1:8080"}}
factors: {users: [1, 8]}
traffic:
  users1: {executor: constant-vus, vus: "${users}", request: GET http://api/}
measure: {duration: 1s}
thresholds: %s
"""
PAGE = Path(__file__).parents[2] / "docs" / "study-file.md"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[http_req_duration: p(95)<200]", ["response.p95 < 200 ms"]),
        ('["http_req_duration: p(95)<200ms", errors < 1 %]', ["response.p95 < 200ms", "error_rate < 1 %"]),
        ("{http_req_duration: ['p(95)<200', 'avg<50'], http_req_failed: rate<0.01}", ["response.p95 < 200 ms", "response.mean < 50 ms", "error_rate < 0.01"]),
        ("[{http_req_failed: rate<0.01, http_reqs: rate>5}, response.p50 < 1 s]", ["error_rate < 0.01", "throughput > 5", "response.p50 < 1 s"]),
        ("[{http_req_duration: [{threshold: p(99)<1s, abortOnFail: false}]}]", ["response.p99 < 1s"]),
        ("[users1.errors < 1 %]", ["users1.errors < 1 %"]),
    ],
)  # fmt: skip
def test_they_are_criteria(load: Callable[..., Lock], written: str, meant: list[str]) -> None:
    lock = load(STUDY % written)
    assert [one.that for one in lock.thresholds] == meant
    assert lock.source["thresholds"] == meant


def test_a_case_may_be_named_beside_them(load: Callable[..., Lock]) -> None:
    lock = load(
        STUDY % "[{when: {users: 8}, http_req_duration: p(95)<200}, {when: {users: 1}, that: errors<1%}]"
    )
    assert [(one.that, one.when) for one in lock.thresholds] == [
        ("response.p95 < 200 ms", {"users": ["8"]}),
        ("error_rate < 1%", {"users": ["1"]}),
    ]


def test_a_profile_may_hold_them(load: Callable[..., Lock]) -> None:
    text = (
        STUDY % "[response.p50 < 1 s]" + "profiles: {fast: {thresholds: {http_req_duration: [p(95)<200]}}}\n"
    )
    assert [one.that for one in load(text, profile="fast").thresholds] == ["response.p95 < 200 ms"]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("\n- iteration_duration: p(95)<500", "“iteration_duration: p(95)<500” is not a criterion: iteration_duration has no exact equal: svload keeps the times of requests, and none of whole iterations. Write response.p95 < 500 ms, which is the closest."),
        ("\n- http_req_duration: p(98)<500", "“p(98)” is not among the percentiles that are kept"),
        ("\n- http_req_failed: rate<5", "as a share 5 is 500 %, which always holds"),
        ("\n- http_req_duration: [{threshold: p(95)<500, abortOnFail: true}]", "Unknown key “abortOnFail” in thresholds[0]. A threshold is judged when its trial is over; abort_if ends a run"),
        ("\n- {when: {users: 8}, that: 'http_req_duration{name:a}: p(95)<9'}", "Write GROUP.response.p95 < 9 ms for a group under traffic"),
        ("\n- respons.p95 < 5 ms", "“respons” is not a metric of traffic; did you mean “response”"),
        ("\n- http_req_duration: p(95)<${users.slow}", "${users.slow}"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_told_with_its_line(folder: Path, written: str, says: str) -> None:
    (folder / "study.yaml").write_text(STUDY % written)
    with pytest.raises(SvloadError) as told:
        load_study(folder)
    (problem,) = told.value.problems
    assert problem.place == f"{folder / 'study.yaml'}:8"
    assert says in str(problem)


def rows_of(heading: str) -> list[tuple[str, str]]:
    """The first two cells of the page's table below a heading row."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = lines.index(heading) + 2
    found = []
    for line in lines[begin:]:
        cells = re.findall(r"`([^`]*)`", line)
        if not line.startswith("|"):
            break
        found.append((cells[0], cells[1]))
    return found


def test_the_pages_table_is_what_svload_understands() -> None:
    rows = rows_of("| k6 | here |")
    assert len(rows) >= 8
    assert [(typed, from_k6(typed)) for typed, _ in rows] == rows


def test_the_pages_table_of_the_nearest_is_what_svload_says() -> None:
    rows = rows_of("| k6 | closest here | difference |")
    assert len(rows) >= 5
    for typed, nearest in rows:
        with pytest.raises(NoCriterion) as caught:
            from_k6(typed)
        assert caught.value.hint == f"Write {nearest}, which is the closest."
