"""The metric grammar: a metric with a limit has one spelling, however it was typed."""

from __future__ import annotations

import pytest

from svload.model.metrics import (
    Source,
    canonical_limit,
    canonical_metric,
    metric_name,
    parse_criterion,
    parse_metric,
)

OWNERS: dict[str, Source] = {"users": "traffic", "users.fast": "traffic", "cache": "service"}


@pytest.mark.parametrize(
    ("typed", "spelt"),
    [
        ("goodput(200 ms)", "goodput(200 ms)"),
        ("goodput(0.2 s)", "goodput(200 ms)"),
        ("users.goodput(200ms)", "users.goodput(200 ms)"),
        ("users.fast.goodput(2 s)", "users.fast.goodput(2 s)"),
        ("goodput(0.5 ms)", "goodput(500 us)"),
        ("goodput(250 µs)", "goodput(250 us)"),
        ("goodput(1 min)", "goodput(60 s)"),
    ],
)
def test_a_limit_has_one_spelling(typed: str, spelt: str) -> None:
    ref = parse_metric(typed, OWNERS)
    assert str(ref) == canonical_limit(typed).replace("( ", "(") == spelt
    assert str(parse_metric(spelt, OWNERS)) == spelt
    assert metric_name(spelt) == "goodput"
    criterion = parse_criterion(f"{typed} >= 500/s", OWNERS)
    assert (str(criterion.ref), criterion.op, criterion.value) == (spelt, ">=", 500)


@pytest.mark.parametrize(
    ("typed", "spelt"),
    [
        ("response", "response"),
        ("users.fast.response.p50", "users.fast.response.p50"),
        ("users.http_req_duration.p(99.9)", "users.response.p99.9"),
        ("errors", "error_rate"),
        ("cache.errors.max", "cache.errors.max"),
    ],
)
def test_a_compared_metric_is_written_in_the_catalogues_words(typed: str, spelt: str) -> None:
    assert canonical_metric(typed, OWNERS) == spelt


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("goodput", "needs a limit"),
        ("goodput(200)", "a unit is missing"),
        ("goodput(fast)", "not a number with a unit"),
        ("goodput(0 ms)", "above 0"),
        ("goodput(200 ms).p50", "one number"),
        ("cache.goodput(200 ms)", "not a metric of a service"),
        ("throughput(200 ms)", "not a metric of traffic"),
        ("goodput(200 ms", "not a metric of traffic"),
        ("users.slow.response", "slow"),
    ],
)
def test_an_invalid_limit_says_what_was_expected(typed: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_metric(typed, OWNERS)


def test_what_has_no_limit_is_left_as_it_is() -> None:
    for text in ("response.p(95)", "users.response.p95 < 200 ms", "goodput(soon)"):
        assert canonical_limit(text) == text
    assert str(parse_metric("response.p(95)", OWNERS)) == "response.p95"
