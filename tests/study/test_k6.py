"""Criteria of a study: in k6's syntax, and over what monitors read; errors for wrong ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.model.metrics import parse_criterion
from svload.model.study import CaseConfig, Lock
from svload.study.k6 import NoCriterion, from_k6, study_criterion
from svload.watch import monitored_names

from .conftest import line_of, problems_of


@pytest.mark.parametrize(
    ("typed", "metric", "op", "value"),
    [
        ("p(99)<200ms", "response.p99", "<", 0.2),
        ("med<3", "response.p50", "<", 0.003),
        ("avg < 50 ms", "response.mean", "<", 0.05),
        ("min>0.1", "response.min", ">", 0.0001),
        ("rate>500", "throughput", ">", 500),
        ("errors<1%", "error_rate", "<", 0.01),
        ("errors===0", "error_rate", "==", 0),
        ("http_req_failed:rate<0.01", "error_rate", "<", 0.01),
        ("service: avg<5", "service.mean", "<", 0.005),
        ("service.p99 < 20 ms", "service.p99", "<", 0.02),
        ("ok_throughput > 5/s", "ok_throughput", ">", 5),
        ("goodput(200ms)>500", "goodput(200 ms)", ">", 500),
        ("p(95)<200 at 50 users", "response.p95", "<", 0.2),
    ],
)
def test_a_threshold_is_a_criterion(typed: str, metric: str, op: str, value: float) -> None:
    criterion = parse_criterion(study_criterion(typed), {})
    assert (str(criterion.ref), criterion.op) == (metric, op)
    assert criterion.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("p(99)", "no metric, comparison and value"),
        ("p(98)<1s", "not among the percentiles"),
        ("p(99)<200 parsecs", "parsecs"),
        ("rate<200ms", "ms"),
        ("latency<2ms", "latency"),
        ("http_req_blocked: avg<1", "http_req_blocked"),
        ("http_req_failed: p(99)<1", "has a rate"),
        ("http_req_durations: p(95)<1", "did you mean “http_req_duration”"),
        ("http_req_duration{name:login}: p(95)<1", "groups and steps instead of tags"),
        ("http_req_sending: avg<1", "no metric of this part of a request"),
        ("p(95)<200 at noon", "“noon” is not a level"),
        ("http_reqs: count>5 at 50 users", "covers the whole trial"),
    ],
)
def test_a_wrong_one_says_what_was_expected(typed: str, words: str) -> None:
    with pytest.raises(SvloadError) as caught:
        study_criterion(typed)
    (problem,) = caught.value.problems
    assert typed in str(problem)
    assert words in problem.sentence.partition(f"{typed}: ")[2]
    assert "'p(99)<200ms'" in problem.remedy


def test_a_value_may_be_a_levels() -> None:
    assert from_k6("p(95)<${page.within}") == "response.p95 < ${page.within}"


Load, Case = Callable[..., Lock], Callable[..., CaseConfig]
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
def test_they_are_criteria(load: Load, written: str, meant: list[str]) -> None:
    lock = load(STUDY % written)
    assert [one.that for one in lock.thresholds] == meant
    assert lock.source["thresholds"] == meant


def test_a_case_may_be_named_beside_them_and_a_profile_may_hold_them(load: Load) -> None:
    written = "[{when: {users: 8}, http_req_duration: p(95)<200}, {when: {users: 1}, that: errors<1%}]"
    meant = [("response.p95 < 200 ms", {"users": ["8"]}), ("error_rate < 1%", {"users": ["1"]})]
    profile = "profiles: {fast: {thresholds: {http_req_duration: [p(95)<200]}}}\n"
    text = STUDY % written + profile
    assert [(one.that, one.when) for one in load(text).thresholds] == meant
    assert [one.that for one in load(text, profile="fast").thresholds] == ["response.p95 < 200 ms"]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("\n- iteration_duration: p(95)<500", "“iteration_duration: p(95)<500” is not a criterion: iteration_duration has no exact equivalent: svload records times of requests, not of whole iterations. Write response.p95 < 500 ms, which is the closest."),
        ("\n- http_req_failed: rate<5", "as a share 5 is 500 %, which always holds"),
        ("\n- http_req_duration: [{threshold: p(95)<500, abortOnFail: true}]", "Unknown key “abortOnFail” in thresholds[0]. A threshold is judged after its trial; to end a run during the load, use abort_if"),
        ("\n- {when: {users: 8}, that: 'http_req_duration{name:a}: p(95)<9'}", "Write GROUP.response.p95 < 9 ms for a group under traffic"),
        ("\n- respons.p95 < 5 ms", "“respons” is not a metric of traffic; did you mean “response”"),
        ("\n- http_req_duration: p(95)<${users.slow}", "${users.slow}"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_reported_with_its_line(folder: Path, written: str, says: str) -> None:
    (problem,) = problems_of(folder, STUDY % written)
    assert line_of(problem) == 8
    assert says in str(problem)


def rows_of(heading: str) -> list[tuple[str, str]]:
    """Return the first two cells of the page's table below a heading row."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = lines.index(heading) + 2
    found = []
    for line in lines[begin:]:
        cells = re.findall(r"`([^`]*)`", line)
        if not line.startswith("|"):
            break
        found.append((cells[0], cells[1]))
    return found


def test_the_pages_tables_are_what_svload_understands_and_says() -> None:
    rows = rows_of("| k6 | here |")
    assert len(rows) >= 8
    assert [(typed, from_k6(typed)) for typed, _ in rows] == rows
    closest = rows_of("| k6 | closest here | difference |")
    assert len(closest) >= 5
    for typed, nearest in closest:
        with pytest.raises(NoCriterion) as caught:
            from_k6(typed)
        assert caught.value.hint == f"Write {nearest}, which is the closest."


MONITORED = """
name: s
lab: {{app: {{{kit}}}}}
traffic: {{users: {{executor: constant-vus, vus: 2, request: "GET http://app/"}}}}
measure: {{duration: 1s}}
thresholds: [{threshold}]
abort_if: [{abort}]
"""


def monitored(threshold: str = "app.cpu < 1", abort: str = "", kit: str = "kit: truth") -> str:
    return MONITORED.format(kit=kit, threshold=f'"{threshold}"', abort=f'"{abort}"' if abort else "")


READ = ["app.throttled < 1 %", "app.throttled < 0.01", "app.rss < 2 GiB", "app.gc_pause < 100 ms"]
READ += ["app.threads_limited == 0", "app.fds < 1000", "app.fds.mean < 1000", "app.accept_drops_total == 0"]
READ += ["app.process.threads < 100"]
SEEN = ["users.response.p95 > 1 s", "response.p99 > 1 s", "error_rate > 10 %", "throughput < 9/s"]


@pytest.mark.parametrize("that", [*READ, *SEEN])
def test_what_monitors_read_and_clients_see_may_be_asked_for(case: Case, that: str) -> None:
    assert case(monitored(that), monitored=monitored_names).thresholds == (that,)
    assert case(monitored(abort=that), monitored=monitored_names).abort_ifs == (that,)


@pytest.mark.parametrize(
    ("that", "expected"),
    [
        ("app.treads_limited == 0", "nor does a monitor read it (Did you mean “threads_limited"),
        ("app.throttled < 1 s", "throttled is a share of the time: write it in %"),
        ("app.fds < 10 MiB", "fds is read so: write it as a number without a unit"),
        ("app.rss < 10", "rss is read so: write it in B, kB"),
        ("app.threads_limited.max == 0", "threads_limited is one number and has no “.max”"),
        ("users.fds < 10", "“fds” is not a metric of traffic"),
        ("users.response.mean > 1 s", "abort_if is checked during the load"),
    ],
)
def test_an_invalid_value_is_refused_at_its_line(folder: Path, that: str, expected: str) -> None:
    ways = [(6, monitored(that)), (7, monitored(abort=that))]
    for line, text in ways[expected.startswith("abort_if") :]:
        (problem,) = problems_of(folder, text, monitored=monitored_names)
        assert (problem.code, line_of(problem)) == ("study-bad-criterion", line)
        assert expected in problem.sentence


def test_a_page_of_its_own_may_hold_any_name(case: Case) -> None:
    text = monitored("app.my_own_queue < 10", kit="kit: truth, metrics: /metrics")
    assert case(text, monitored=monitored_names).thresholds == ("app.my_own_queue < 10",)
