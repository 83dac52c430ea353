"""The answer's sentences: an effect as people say it, with its interval and how sure it is; nothing
that the claim does not carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.evolve import evolve

from svload.model.results import Estimate
from svload.report.told.answer import MOST_SENTENCES, answer
from svload.report.told.claimed import claimed, details
from svload.report.told.spelling import change_interval, change_words, metric_words

Reporter = Callable[[str], Any]


@pytest.mark.parametrize(
    ("value", "low", "high", "told"),
    [
        (0.307, 0.296, 0.317, "69.3 % shorter (95 % interval 68.3 to 70.4 %)"),
        (1.18, 1.16, 1.21, "18 % longer (95 % interval 16 to 21 %)"),
        (3.2, 3.1, 3.4, "3.2 times as long (95 % interval 3.1 to 3.4)"),
        (1.01, 0.98, 1.04, "1 % longer (95 % interval −2 to +4 %)"),
        (1.9, 1.7, 2.1, "90 % longer (95 % interval 70 to 110 %)"),
        (2.08, 1.96, 2.21, "2.08 times as long (95 % interval 1.96 to 2.21)"),
        (0.5, None, None, "50 % shorter (no interval)"),
        (1.9, 0.9, 9.5, "90 % longer (95 % interval −10 to +850 %)"),
        (1.9, 0.005, 621.0, "90 % longer (95 % interval 0.005 to 621 times)"),
        (250.0, 1.2, 62_000.0, "250 times as long (95 % interval 1.2 to 62,000)"),
    ],
)
def test_a_ratio_is_said_as_people_say_it(
    value: float, low: float | None, high: float | None, told: str
) -> None:
    interval = change_interval(Estimate(value=value, low=low, high=high), "time_s")
    words = f"95 % interval {interval}" if interval else "no interval"
    assert f"{change_words(value, 'time_s')} ({words})" == told


def test_other_quantities_are_higher_or_lower() -> None:
    assert change_words(0.9, "rate_rps") == "10 % lower"
    assert change_interval(Estimate(value=0.9, low=0.8, high=0.95), "rate_rps") == "5 to 20 %"
    assert change_words(2.0, "count") == "2 times as high"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("probe.response.p50", "the median response of probe"),
        ("probe.response.p99.9", "the p99.9 response of probe"),
        ("cache.hit_ratio", "the hit ratio of cache"),
        ("throughput", "the throughput"),
        ("nobody knows", "nobody knows"),
    ],
)
def test_a_metric_is_named_in_words(key: str, words: str) -> None:
    assert metric_words(key) == words


def test_every_comparison_is_told_and_findings_in_words_are_not_repeated(reported: Reporter) -> None:
    findings = reported("plain").findings
    found = answer(findings)
    assert [one.claim for one in found.claims] == list(findings.claims)
    assert len(found.first) + len(found.sentences) <= MOST_SENTENCES
    said = {one.text for one in (*found.first, *found.sentences)}
    assert not said & {claim.sentence for claim in findings.claims}


@pytest.mark.parametrize(("factor", "told"), [(4.0, True), (1.2, False)])
def test_matched_cases_that_differ_are_told_behind_their_pooled_effect(
    reported: Reporter, factor: float, told: bool
) -> None:
    findings = reported("plain").findings
    key = "probe.response.p50"
    (first, second, third, fourth), rest = findings.cases[:4], findings.cases[4:]
    values = zip((first, second, third, fourth), (0.01, 0.02, 0.01, 0.02 * factor), strict=True)
    cases = [evolve(case, metrics={key: Estimate(value=value)}) for case, value in values]
    pairs = ((first.case, second.case), (third.case, fourth.case))
    claims = tuple(evolve(claim, pairs=pairs, metric=key) for claim in findings.claims)
    changed = evolve(findings, cases=(*cases, *rest), claims=claims)
    behind = {line.name: line.text for line in details(changed, claimed(changed)[0])}
    words = (
        f"they differ: from 2 times as long ({second.case} against {first.case}) to 8 times as long "
        f"({fourth.case} against {third.case})"
    )
    assert (behind.get("matched cases") == words) is told


def test_what_failed_stands_before_the_comparisons(reported: Reporter) -> None:
    found = answer(reported("mixed").findings)
    texts = [one.text for one in found.first]
    criterion = next(
        at for at, text in enumerate(texts) if text.startswith("probe.success_rate ≥ 99 %: failed in TC2")
    )
    assert criterion > 0, "the requests that failed stand before it"
    assert all("requests failed in TC2" in text for text in texts[:criterion])
    assert {one.mark for one in found.first[: criterion + 1]} == {"✗"}


def test_without_valid_evidence_there_is_no_sentence(reported: Reporter) -> None:
    found = answer(reported("refused").findings)
    assert found.sentences == found.claims == ()
    assert found.nothing is not None
