"""Outliers in words: which trial, when, what was observed, what the servers did at that moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from svload.report.data.digest import SlowRequest, TrialDigest
from svload.report.data.outliers import Outlier, outliers
from svload.report.told.spelling import count_words, list_words, show_value


@dataclass(frozen=True)
class OutlierRow:
    """A row of the table: the trial, the moment, the outlying value, what the servers did, and one request of
    that moment."""

    trial: str
    when: str
    what: str
    servers: str
    request: str


def outlier_rows(
    digests: Sequence[TrialDigest], medians_s: Mapping[str, float], group: str
) -> Iterator[OutlierRow]:
    """Yield the rows of one case, whole trials first."""
    for one in outliers(digests, dict(medians_s), group):
        yield OutlierRow(one.trial, _when(one), _what(one), _servers(one), _request(one.slow))


def _when(one: Outlier) -> str:
    if one.at_s is None:
        return "whole trial"
    return f"{one.at_s[0]:.3g}–{one.at_s[1]:.3g} s"


def _what(one: Outlier) -> str:
    if one.failures:
        return (
            f"{one.group}: {count_words(max(round(one.failures), 1), 'request')} failed; elsewhere in this "
            f"case next to none do"
        )
    kind = "median response" if one.at_s is None else "slowest response"
    usual = "the case's is" if one.at_s is None else "usually"
    return f"{one.group}: {kind} {show_value(one.value_s, 'time_s')}, {usual} {show_value(one.usual_s, 'time_s')}"


def _servers(one: Outlier) -> str:
    if not one.watched:
        return "nothing was monitored"
    if not one.unusual:
        return f"none of the {count_words(one.watched, 'monitored series', 'monitored series')} left its usual range"
    told = [
        f"{each.resource.owner} {each.resource.label} {show_value(each.value, each.resource.dimension)} "
        f"(usually {show_value(each.usual, each.resource.dimension)})"
        for each in one.unusual
    ]
    return "; ".join(told)


def _request(slow: SlowRequest | None) -> str:
    """Return the moment's slowest request that has a row, and where its time went."""
    if slow is None:
        return ""
    longest = sorted(((spent, part) for part, spent in slow.parts_s.items() if spent > 0), reverse=True)[:2]
    parts = list_words([f"{part} {show_value(spent, 'time_s')}" for spent, part in longest])
    told = f"due at {slow.due_s:.4g} s, {show_value(slow.response_s, 'time_s')}, {slow.outcome}"
    return f"{told}: {parts}" if parts else told
