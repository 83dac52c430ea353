"""Thresholds as k6's users write them mean what the metric grammar says, and a wrong one says what was expected."""

from __future__ import annotations

import pytest

from svload.model.errors import SvloadError
from svload.model.metrics import parse_criterion
from svload.study.k6 import from_k6, study_criterion


@pytest.mark.parametrize(
    ("typed", "metric", "op", "value"),
    [
        ("p(99)<200ms", "response.p99", "<", 0.2),
        ("p(99)<200", "response.p99", "<", 0.2),
        ("p99.9 <= 1.5s", "response.p99.9", "<=", 1.5),
        ("med<3", "response.p50", "<", 0.003),
        ("avg < 50 ms", "response.mean", "<", 0.05),
        ("max<1s", "response.max", "<", 1.0),
        ("min>0.1", "response.min", ">", 0.0001),
        ("rate>500", "throughput", ">", 500),
        ("rate>=500/s", "throughput", ">=", 500),
        ("errors<1%", "error_rate", "<", 0.01),
        ("errors===0", "error_rate", "==", 0),
        ("success>=99.9%", "success_rate", ">=", 0.999),
        ("http_req_duration: p(95)<500", "response.p95", "<", 0.5),
        ("http_req_failed:rate<0.01", "error_rate", "<", 0.01),
        ("http_reqs: rate>10", "throughput", ">", 10),
        ("http_reqs: count>1000", "requests", ">", 1000),
        ("dropped_iterations: count==0", "dropped", "==", 0),
        ("http_req_duration{expected_response:true}: p(95)<300", "ok_response.p95", "<", 0.3),
        ("http_req_duration{ expected_response: true }:max<1s", "ok_response.max", "<", 1.0),
        ("service: avg<5", "service.mean", "<", 0.005),
        ("service.p99 < 20 ms", "service.p99", "<", 0.02),
        ("ok_throughput > 5/s", "ok_throughput", ">", 5),
        ("goodput(200ms)>500", "goodput(200 ms)", ">", 500),
        ("goodput(0.2 s) >= 5/s", "goodput(200 ms)", ">=", 5),
        ("p(95)<200 at 50 users", "response.p95", "<", 0.2),
    ],
)
def test_a_threshold_is_a_criterion(typed: str, metric: str, op: str, value: float) -> None:
    criterion = parse_criterion(study_criterion(typed), {})
    assert (str(criterion.ref), criterion.op) == (metric, op)
    assert criterion.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("typed", "level"),
    [
        ("p(95)<200", ""),
        ("p(95)<200 at 50 users", "50 users"),
        ("errors < 1 % at 1 VU", "1 user"),
        ("http_req_duration: p(95)<200 at 0.5/s", "0.5/s"),
        ("goodput(200ms)>5 at 300 rps", "300/s"),
    ],
)
def test_a_threshold_may_name_a_level_of_a_load_in_stages(typed: str, level: str) -> None:
    criterion = study_criterion(typed)
    assert parse_criterion(criterion, {}).level == level
    if "http_req" in typed:
        assert from_k6(typed) == criterion


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("p(99)", "no metric, comparison and value"),
        ("p(99)<", "no metric, comparison and value"),
        ("p(98)<1s", "not among the percentiles"),
        ("p(99)<200 parsecs", "parsecs"),
        ("rate<200ms", "ms"),
        ("latency<2ms", "latency"),
        ("http_req_blocked: avg<1", "http_req_blocked"),
        ("http_req_failed: p(99)<1", "has a rate"),
        ("http_req_failed: count<5", "has a rate, and no “count”"),
        ("http_req_durations: p(95)<1", "did you mean “http_req_duration”"),
        ("http_req_duration{name:login}: p(95)<1", "groups and steps in place of tags"),
        ("http_req_sending: avg<1", "no metric of this part of a request"),
        ("vus: value>1", "what the study asks for"),
        ("service: rate>1", "rate"),
        ("errors<lots", "lots"),
        ("goodput>5", "needs a limit"),
        ("p(95)<200 at noon", "“noon” is not a level"),
        ("http_reqs: count>5 at 50 users", "of the whole trial"),
    ],
)
def test_a_wrong_one_says_what_was_expected(typed: str, words: str) -> None:
    with pytest.raises(SvloadError) as caught:
        study_criterion(typed)
    (problem,) = caught.value.problems
    assert typed in str(problem)
    assert words in problem.sentence.partition(f"{typed}: ")[2]
    assert "'p(99)<200ms'" in problem.remedy


@pytest.mark.parametrize(
    "text",
    [
        "response.p95 < 200 ms", "users.success_rate >= 99 %", "cache.requests == 0", "goodput(200 ms) > 5/s", "errors.response.p50 < 1 s",
        "no criterion at all", "users: response.p95 < 1 s",
    ],
)  # fmt: skip
def test_other_words_are_not_k6s(text: str) -> None:
    assert from_k6(text) is None


def test_a_value_may_be_a_levels() -> None:
    assert from_k6("p(95)<${page.within}") == "response.p95 < ${page.within}"
