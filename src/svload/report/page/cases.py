"""A case's section: charts, counts, what the servers counted, verdicts. Plain values for the template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from svload.analysis.measures import counter_deltas
from svload.model.results import CaseResult, CheckResult, GeneratorResult, GroupSummary, TrialResult, marks
from svload.model.traffic import Group
from svload.model.units import Dimension, rounded, show_duration
from svload.report.charts.bars import anatomy_chart
from svload.report.charts.rows import Replicate, order_chart
from svload.report.charts.tail import TailLine, TailMark, curve_points, tail_chart
from svload.report.data.digest import SlowRequest, TrialDigest, merged_curve
from svload.report.data.gather import Gathered, mean_anatomy
from svload.report.data.outliers import Outlier, outliers
from svload.report.page.data import Anchors, Detail, Table, packed
from svload.report.page.flames import flame_view
from svload.report.page.overtime import resource_charts, resource_owners, time_chart
from svload.report.wording.criteria import stage_rows
from svload.report.wording.doubts import doubts
from svload.report.wording.evidence import fault_table, gave_way, limit_lines, refusal_lines
from svload.report.wording.numbers import Numbers
from svload.report.wording.spelling import GRADE_MARK, cause, count_words, list_words, outcome, show_value
from svload.report.wording.traffic import describe_load, describe_request

TAIL = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


GROUP_METRICS = (
    *(f"response.{stat}" for stat in (*TAIL, "mean")),
    "service.p50",
    "service.p99",
    "throughput",
    "success_rate",
)
STEP_METRICS = ("response.p50", "response.p95", "response.p99", "service.p50", "throughput", "success_rate")


@dataclass(frozen=True)
class CheckRow:
    """One check over the case's trials: a mark per trial, and its sentences with their trials."""

    wrong: str
    """what it looks for, in plain words"""
    key: str
    """its name in `svload query`"""
    worst: str
    marks: tuple[tuple[str, str, str], ...]
    shown: tuple[tuple[str, str], ...]
    more: tuple[tuple[str, str], ...]
    remedy: str


def section_places(gathered: Gathered, case: CaseResult, detail: Detail, anchor: Anchors) -> dict[str, str]:
    """Return the permanent ids of a case's parts. `anchor` is called in the order of the page."""
    owners = resource_owners(_services(gathered, case), gathered.counted(case), detail)
    parts = (
        "numbers",
        "stages",
        "steps",
        "order",
        "anatomy",
        "time",
        "faults",
        "flame",
        "outliers",
        "counts",
        "limits",
        "generators",
        "checks",
        "trials",
    )
    tails = (f"tail.{name}" for name in _groups(gathered, case))
    return {
        name: anchor(case.case, name)
        for name in (*parts, *tails, *(f"resources.{owner}" for owner in owners))
    }


def _groups(gathered: Gathered, case: CaseResult) -> list[str]:
    config, digests = gathered.configs.get(case.case), gathered.of_case(case.case)
    return [group.name for group in config.groups] if config else list(digests[0].groups) if digests else []


def _services(gathered: Gathered, case: CaseResult) -> tuple[str, ...]:
    digests = gathered.of_case(case.case)
    return tuple(dict.fromkeys(facts.service for one in digests for facts in one.lab.services))


def case_section(
    gathered: Gathered, case: CaseResult, detail: Detail, places: dict[str, str]
) -> dict[str, Any]:
    """Return all values that case.html.j2 reads, drawn in the detail that the page can afford; `places` come
    from `section_places`."""
    trials = gathered.trials_of(case.case)
    digests = gathered.of_case(case.case)
    config = gathered.configs.get(case.case)
    names, services = _groups(gathered, case), _services(gathered, case)
    specs = {group.name: group for group in config.groups} if config else {}
    counted, head = gathered.counted(case), gathered.group
    chief = head if head in names else next(iter(names), "")
    key = f"{chief}.response.p50"
    replicates = replicates_of(gathered, case, key)
    anatomy = (
        {} if detail.small else {name: parts for name in names if (parts := mean_anatomy(counted, name))}
    )
    time = time_chart(case, names, services, counted, detail, gathered.colours)
    resources = tuple(resource_charts(case, services, counted, detail, gathered.colours))
    tables = {
        "order": Table(
            ("trial", "place", "median_s", "verdict"),
            tuple((one.trial, one.place + 1, one.value, one.grade) for one in replicates),
        ),
        "anatomy": Table(
            ("group", "part", "mean_s"),
            tuple((group, part, spent) for group, parts in anatomy.items() for part, spent in parts.items()),
        ),
        **{f"tail.{name}": _tail_table(case, name, counted) for name in names},
        **({"time": time[1]} if time and detail.carried else {}),
        **{f"resources.{one.owner}": table for one, table in resources},
    }
    medians_s = {one.trial: one.value for one in replicates if one.value is not None}
    return {
        "case": case,
        "chief": chief,
        "places": places,
        "data": "" if detail.small else packed({places[name]: table for name, table in tables.items()}),
        "groups": tuple(_group_line(gathered.numbers, case, name, specs.get(name), counted) for name in names),
        "steps": tuple(line for name in names if name in specs for line in _steps(gathered.numbers, case, specs[name])),
        "doubts": tuple(doubts(gathered.findings, trials)[: detail.sentences]),
        "tails": tuple((name, _tail(gathered.numbers, case, name, counted, detail)) for name in names if name == chief or not detail.small),
        "order": "" if detail.small else order_chart(replicates[: detail.dots], case.metrics.get(key), f"median response of {chief}"),
        "anatomy": _anatomy_chart(anatomy, counted, case.case),
        "time": time[0] if time else None,
        "carried": detail.carried,
        "resources": tuple(chart for chart, _ in resources),
        "outliers": tuple(outlier_rows(counted, medians_s, chief)),
        "outcomes": tuple(_outcomes(name, digests) for name in names),
        "generators": () if detail.small else tuple(map(_generator_row, case.generators)),
        "stages": tuple(row.cells[1:] for row in stage_rows(gathered.findings, case.case)),
        "errors": tuple(_errors(names, digests)),
        "services": services,
        "counted": tuple(_counted(services, names, digests)),
        "limits": tuple(limit_lines(case.evidence.limits, clear=detail.passed)),
        "refusals": tuple(refusal_lines(case.evidence.refusals)),
        "gave_way": tuple(gave_way(case.evidence)),
        "flame": flame_view(case.case, digests, detail.flame) if detail.flame else None,
        "faults": tuple(fault_table(trials)),
        "checks": tuple(_checks(trials, detail)),
        "n": len(counted),
}  # fmt: skip


def replicates_of(gathered: Gathered, case: CaseResult, key: str) -> list[Replicate]:
    """Return a case's trials with their numbers of the metric `key`, at their places in the run's order."""
    found = []
    for trial in gathered.trials_of(case.case):
        number = gathered.numbers.of_trial(trial, key)
        place = gathered.place.get(trial.trial, trial.replicate)
        found.append(Replicate(trial.trial, place, number.value, number.grade))
    return found


def _generator_row(one: GeneratorResult) -> tuple[str, ...]:
    counts = (one.trials, one.due, one.ok, one.failed)
    times_s = (one.response_mean_s, one.response_p50_s, one.response_p99_s)
    return (
        _generator_name(one),
        *(show_value(count, "count") for count in counts),
        show_value(one.success_rate, "ratio"),
        *(show_value(time, "time_s") for time in times_s),
    )


def _generator_name(one: GeneratorResult) -> str:
    if one.generator is None:
        return f"{one.group}: all of {one.place}"
    return f"{one.group} {one.generator}" + (f" on {one.place}" if one.place else "")


def _group_line(
    numbers: Numbers, case: CaseResult, name: str, spec: Group | None, digests: Sequence[TrialDigest]
) -> dict[str, Any]:
    """Return one group's numbers by both clocks, its load and its longest silence (docs/method.md §1)."""
    mine = [one.groups[name] for one in digests if name in one.groups]
    silence_ns = max((one.summary.longest_silence_ns for one in mine), default=None)
    return {
        "name": name,
        "model": case.load_model.get(name, "load model unknown"),
        "load": describe_load(spec) if spec else "",
        "silence": "–" if silence_ns is None else show_duration(silence_ns / 1e9),
        "numbers": [numbers.of_case(case, f"{name}.{metric}") for metric in GROUP_METRICS],
        "due": sum(one.response.total for one in mine),
    }


def _steps(table: Numbers, case: CaseResult, spec: Group) -> Iterator[dict[str, Any]]:
    """Yield the steps of all the scenarios of a group, in order; a name that scenarios share is one step."""
    seen: dict[str, str] = {
        step.name: describe_request(step.request) for one in spec.scenarios for step in one.steps
    }
    for step, request in seen.items():
        keys = [f"{spec.name}.{step}.{name}" for name in STEP_METRICS]
        if any(key in case.metrics for key in keys):
            numbers = [table.of_case(case, key) for key in keys]
            yield {"group": spec.name, "name": step, "request": request, "numbers": numbers}


def _tail(
    numbers: Numbers, case: CaseResult, name: str, digests: Sequence[TrialDigest], detail: Detail
) -> str:
    curves = {one.name: one.groups[name].response for one in digests if name in one.groups}
    service = [one.groups[name].service for one in digests if name in one.groups]
    alone = list(curves.items())[: detail.replicates] if len(curves) > 1 else ()
    lines = [TailLine(curve, "rep c0", f"{trial}, response") for trial, curve in alone]
    lines += [
        TailLine(merged_curve(service), "fine c1", "service, pooled"),
        TailLine(merged_curve(list(curves.values())), "main c0", "response, pooled"),
    ]
    keys = {p: f"{name}.response.{stat}" for stat, p in TAIL.items()}
    marks = [TailMark(p, numbers.of_case(case, key)) for p, key in keys.items() if key in case.metrics]
    return tail_chart(
        lines,
        marks,
        f"{case.case}, {name}: response and service time by percentile, {count_words(len(curves), 'trial')}",
        detail.curve_points,
    )


_TABLE_POINTS = 60


def _tail_table(case: CaseResult, name: str, digests: Sequence[TrialDigest]) -> Table:
    """Return the pooled curves, each trial's, and the headline percentiles with their intervals."""
    mine = [one for one in digests if name in one.groups]
    curves = {
        ("response", "pooled"): merged_curve([one.groups[name].response for one in mine]),
        ("service", "pooled"): merged_curve([one.groups[name].service for one in mine]),
        **{("response", one.name): one.groups[name].response for one in mine},
    }
    rows: list[tuple[object, ...]] = [
        (metric, trial, p, value, None, None)
        for (metric, trial), curve in curves.items()
        for p, value in zip(*curve_points(curve, _TABLE_POINTS), strict=True)
    ]
    for stat, p in TAIL.items():
        estimate = case.metrics.get(f"{name}.response.{stat}")
        if estimate is not None and estimate.value is not None:
            rows.append(("response", "headline", p, estimate.value, estimate.low, estimate.high))
    return Table(("metric", "trial", "p", "seconds", "low", "high"), tuple(rows))


def _anatomy_chart(
    anatomy: Mapping[str, Mapping[str, float]], digests: Sequence[TrialDigest], case: str
) -> str:
    if not anatomy:
        return ""
    text = f"{case}: where a request's time goes, mean over {count_words(len(digests), 'trial')}"
    return anatomy_chart(list(anatomy.items()), text)


OUTCOMES = {
    "due": "due", "begun": "begun", "ok": "ok", "failed": "failed", "waiting": "still waiting",
    "dropped": "dropped", "in_flight": "in flight at the end", "connections_opened": "connections",
    "tls_full": "full TLS handshakes", "tls_resumed": "resumed TLS", "early_repeats": "early repeats",
}  # fmt: skip
"""Counts of a group, with their headings."""


def _summaries(name: str, digests: Sequence[TrialDigest]) -> list[GroupSummary]:
    return [one.groups[name].summary for one in digests if name in one.groups]


def _outcomes(name: str, digests: Sequence[TrialDigest]) -> tuple[str, ...]:
    found = _summaries(name, digests)
    return (name, *(show_value(sum(getattr(one, field) for one in found), "count") for field in OUTCOMES))


def _errors(names: Sequence[str], digests: Sequence[TrialDigest]) -> list[tuple[str, str, int, str]]:
    """Return (group, kind, count, share of begun) of statuses, errors and failed checks, most first."""
    rows = []
    for name in names:
        found = _summaries(name, digests)
        begun = sum(one.begun for one in found)
        counts: Counter[str] = Counter()
        for one in found:
            counts.update({f"status {code}": number for code, number in one.status.items()})
            counts.update({f"error {kind.replace('_', ' ')}": number for kind, number in one.errors.items()})
            counts.update({f"check failed: {check}": number for check, number in one.checks_failed.items()})
        rows += [
            (name, kind, number, show_value(number / begun if begun else None, "ratio"))
            for kind, number in counts.most_common()
            if number
        ]
    return rows


_COUNTERS = (
    ("requests written", "written", "requests"),
    ("answers", "ok", "answers"),
    ("connections", "connections_opened", "connections"),
    ("full TLS handshakes", "tls_full", "tls_handshakes"),
    ("resumed TLS sessions", "tls_resumed", "tls_resumed"),
    ("body bytes", "body_bytes", "body_bytes_out"),
    ("cache hits", None, "hits"),
    ("cache misses", None, "misses"),
)


def _counted(
    services: Sequence[str], names: Sequence[str], digests: Sequence[TrialDigest]
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (what, the client's count, each service's), summed over the case's trials."""
    totals = {
        service: _counted_in_all([counter_deltas(one, service) for one in digests]) for service in services
    }
    summaries = [one for name in names for one in _summaries(name, digests)]
    for label, field, key in _COUNTERS:
        client = float(sum(getattr(one, field) for one in summaries)) if field else None
        cells = [
            show_value(totals[service][key], _of(key)) if key in totals[service] else "not offered"
            for service in services
        ]
        if any(cell != "not offered" for cell in cells):
            yield label, show_value(client, _of(key)), cells
    ratios = [_hit_ratio(totals[service]) for service in services]
    if any(ratio != "–" for ratio in ratios):
        yield "hit ratio", "–", ratios


def _counted_in_all(trials: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return sums of the counters that every trial has: others can't be compared with the client's."""
    known = set.intersection(*map(set, trials)) if trials else set()
    return {key: sum(one[key] for one in trials) for key in known}


def _of(key: str) -> Dimension:
    return "size_bytes" if "bytes" in key else "count"


def _hit_ratio(counts: Mapping[str, float]) -> str:
    looked_up = counts.get("hits", 0) + counts.get("misses", 0)
    return show_value(counts["hits"] / looked_up, "ratio") if looked_up and "hits" in counts else "–"


def _checks(trials: Sequence[TrialResult], detail: Detail) -> list[CheckRow]:
    rows = [_check_row(name, found, detail) for name, found in marks(trials).items()]
    return rows if detail.passed else _folded(rows)


def _folded(rows: Sequence[CheckRow]) -> list[CheckRow]:
    """Merge checks that show only the same marks into one row."""
    alike: dict[tuple[tuple[str, str, str], ...], list[CheckRow]] = {}
    for row in rows:
        if not row.shown:
            alike.setdefault(row.marks, []).append(row)
    first = {id(same[0]): same for same in alike.values()}
    return [
        replace(row, wrong="; ".join(one.wrong for one in same), key=", ".join(one.key for one in same))
        for row in rows
        if (same := [row] if row.shown else first.get(id(row), []))
    ]


_WORSE = {"VALID": 0, "WEAK": 1, "REFUSED": 2}


def _check_row(name: str, found: Sequence[tuple[TrialResult, CheckResult]], detail: Detail) -> CheckRow:
    worst = max(found, key=lambda pair: _WORSE[pair[1].grade])[1]
    by_sentence: dict[tuple[int, str], list[str]] = {}
    for trial, check in found:
        by_sentence.setdefault((-_WORSE[check.grade], check.sentence), []).append(trial.trial)
    cells = [
        (_whose(names, len(found)), sentence)
        for (grade, sentence), names in sorted(by_sentence.items())
        if detail.passed or grade
    ]
    shown = cells[: max(1, sum(1 for grade, _ in by_sentence if grade))] if cells else []
    return CheckRow(
        wrong=cause(name),
        key=name,
        worst=worst.grade,
        marks=tuple(_marks(found, detail)),
        shown=tuple(shown[: detail.sentences]),
        more=tuple(cells[len(shown[: detail.sentences]) : 200]),
        remedy=worst.remedy if worst.grade != "VALID" else "",
    )


def _marks(
    found: Sequence[tuple[TrialResult, CheckResult]], detail: Detail
) -> Iterator[tuple[str, str, str]]:
    """Yield (grade, mark, trial) for each trial; if that is too much, one entry for a sequence of equal
    grades, without names."""
    if detail.passed:
        yield from ((outcome(check), GRADE_MARK[outcome(check)], trial.trial) for trial, check in found)
        return
    for grade, run in groupby(outcome(check) for _, check in found):
        yield grade, GRADE_MARK[grade] * len(list(run)), ""


def _whose(names: Sequence[str], of: int) -> str:
    if len(names) == of and of > 1:
        return "all trials"
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


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
    return f"{rounded(one.at_s[0], 3)}–{rounded(one.at_s[1], 3)} s"


def _what(one: Outlier) -> str:
    if one.failures:
        return (
            f"{one.group}: {count_words(max(round(one.failures), 1), 'request')} failed; elsewhere in this "
            "case almost none do"
        )
    kind = "median response" if one.at_s is None else "slowest response"
    usual = "the case's is" if one.at_s is None else "usually"
    return f"{one.group}: {kind} {show_value(one.value_s, 'time_s')}, {usual} {show_value(one.usual_s, 'time_s')}"


def _servers(one: Outlier) -> str:
    if not one.watched:
        return "nothing was monitored"
    if not one.unusual:
        return f"none of the {count_words(one.watched, 'monitored series', 'monitored series')} left its usual range"
    rows = [
        f"{each.resource.owner} {each.resource.label} {show_value(each.value, each.resource.dimension)} "
        f"(usually {show_value(each.usual, each.resource.dimension)})"
        for each in one.unusual
    ]
    return "; ".join(rows)


def _request(slow: SlowRequest | None) -> str:
    """Return the moment's slowest request that has a row, and where its time went."""
    if slow is None:
        return ""
    longest = sorted(((spent, part) for part, spent in slow.parts_s.items() if spent > 0), reverse=True)[:2]
    parts = list_words([f"{part} {show_value(spent, 'time_s')}" for spent, part in longest])
    text = f"due at {rounded(slow.due_s, 4)} s, {show_value(slow.response_s, 'time_s')}, {slow.outcome}"
    return f"{text}: {parts}" if parts else text
