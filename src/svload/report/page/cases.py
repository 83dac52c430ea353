"""A case's own section: charts, counts, what the servers counted, verdicts. Plain values for the template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from svload.model.results import CaseResult, CheckResult, Estimate, GroupSummary, TrialResult
from svload.model.traffic import Group
from svload.model.units import Dimension, show_duration
from svload.report.charts.anatomy import anatomy_chart
from svload.report.charts.strip import Replicate, order_chart
from svload.report.charts.tail import TailLine, TailMark, tail_chart
from svload.report.charts.timeline import Line, Panel, timeline
from svload.report.digest import TrialDigest, merged_curve
from svload.report.gather import Gathered
from svload.report.load import describe_load
from svload.report.page.detail import Detail
from svload.report.words import GRADE_MARK, count_words, outcome, show_value

TAIL = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
_COLOURS = 6


@dataclass(frozen=True)
class GroupLine:
    """One traffic group's line of numbers: both clocks, the load model and the longest silence (METHOD §1)."""

    name: str
    model: str
    load: str
    silence: str
    response: dict[str, Estimate | None]
    service: dict[str, Estimate | None]
    throughput: Estimate | None
    success: Estimate | None
    due: int


@dataclass(frozen=True)
class Counted:
    """A row of what the client saw beside what each service counted, summed over the case's trials."""

    name: str
    client: str
    services: tuple[str, ...]


@dataclass(frozen=True)
class CheckRow:
    """One check over the case's trials: a mark a trial, and its sentences with the trials that they are about."""

    check: str
    worst: str
    marks: tuple[tuple[str, str, str], ...]
    shown: tuple[tuple[str, str], ...]
    more: tuple[tuple[str, str], ...]
    remedy: str


@dataclass(frozen=True)
class CaseSection:
    """Everything that a case's section shows."""

    case: CaseResult
    groups: tuple[GroupLine, ...]
    tails: tuple[tuple[str, str], ...]
    order: str
    anatomy: str
    time: str
    outcomes: tuple[tuple[str, ...], ...]
    errors: tuple[tuple[str, str, int, str], ...]
    services: tuple[str, ...]
    counted: tuple[Counted, ...]
    checks: tuple[CheckRow, ...]
    trials: tuple[TrialResult, ...]
    n: int


def case_section(gathered: Gathered, case: CaseResult, detail: Detail) -> CaseSection:
    """The section of one case, drawn in the detail that the page can afford."""
    trials = tuple(gathered.trials_of(case.case))
    digests = gathered.of_case(case.case)
    config = gathered.configs.get(case.case)
    names = [group.name for group in config.groups] if config else list(digests[0].groups) if digests else []
    specs = {group.name: group for group in config.groups} if config else {}
    counted, head = gathered.counted(case), gathered.group
    chief = head if head in names else next(iter(names), "")
    services = tuple(dict.fromkeys(facts.service for one in digests for facts in one.lab.services))
    key = f"{chief}.response.p50"
    return CaseSection(
        case=case,
        groups=tuple(_group_line(case, name, specs.get(name), counted) for name in names),
        tails=tuple((name, _tail(case, name, counted, detail)) for name in names if name == chief or not detail.small),
        order="" if detail.small else order_chart(
            [
                Replicate(one.trial, gathered.place.get(one.trial, one.replicate), _value(one, key), one.verdict.instrument)
                for one in trials[: detail.dots]
            ],
            case.metrics.get(key), "time_s", f"median response of {chief}",
        ),
        anatomy="" if detail.small else _anatomy(names, counted, case.case),
        time=_time(names, services, counted, case.case, detail),
        outcomes=tuple(_outcomes(name, digests) for name in names),
        errors=tuple(_errors(names, digests)),
        services=services,
        counted=tuple(_counted(services, names, digests)),
        checks=tuple(_checks(trials, detail)),
        trials=trials,
        n=len(counted),
    )  # fmt: skip


def _value(trial: TrialResult, key: str) -> float | None:
    estimate = trial.metrics.get(key)
    return estimate.value if estimate else None


def _group_line(case: CaseResult, name: str, spec: Group | None, digests: Sequence[TrialDigest]) -> GroupLine:
    silence = max(
        (one.groups[name].summary.longest_silence_ns for one in digests if name in one.groups), default=None
    )
    return GroupLine(
        name=name,
        model=case.load_model.get(name, "load model unknown"),
        load=describe_load(spec) if spec else "",
        silence="–" if silence is None else show_duration(silence / 1e9),
        response={stat: case.metrics.get(f"{name}.response.{stat}") for stat in (*TAIL, "mean")},
        service={stat: case.metrics.get(f"{name}.service.{stat}") for stat in ("p50", "p99")},
        throughput=case.metrics.get(f"{name}.throughput"),
        success=case.metrics.get(f"{name}.success_rate"),
        due=sum(one.groups[name].response.total for one in digests if name in one.groups),
    )


def _tail(case: CaseResult, name: str, digests: Sequence[TrialDigest], detail: Detail) -> str:
    curves = [one.groups[name].response for one in digests if name in one.groups]
    service = [one.groups[name].service for one in digests if name in one.groups]
    lines = [TailLine(curve, "rep c0") for curve in curves[: detail.replicates]] if len(curves) > 1 else []
    lines += [TailLine(merged_curve(service), "fine c1"), TailLine(merged_curve(curves), "main c0")]
    marks = [
        TailMark(p, estimate)
        for stat, p in TAIL.items()
        if (estimate := case.metrics.get(f"{name}.response.{stat}"))
    ]
    return tail_chart(
        lines,
        marks,
        f"{case.case}, {name}: response and service time by percentile, {count_words(len(curves), 'trial')}",
        detail.curve_points,
    )


def _anatomy(names: Sequence[str], digests: Sequence[TrialDigest], case: str) -> str:
    bars = []
    for name in names:
        found = [
            one.groups[name].anatomy_s for one in digests if name in one.groups and one.groups[name].anatomy_s
        ]
        if found:
            parts = {
                part: sum(one.get(part, 0.0) for one in found) / len(found) for one in found for part in one
            }
            bars.append((name, parts))
    return (
        anatomy_chart(
            bars, f"{case}: where a request's time goes, mean over {count_words(len(digests), 'trial')}"
        )
        if bars
        else ""
    )


def _time(
    names: Sequence[str], services: Sequence[str], digests: Sequence[TrialDigest], case: str, detail: Detail
) -> str:
    if not detail.points or not digests:
        return ""
    colour = {name: f"c{number % _COLOURS}" for number, name in enumerate((*names, *services, ""))}

    def of_groups(series: str, label: str, thin: bool = False) -> list[Line]:
        found = [[one.groups[name].series[series] for one in digests if name in one.groups] for name in names]
        return [
            Line(f"{name} {label}".strip(), colour[name], lines, thin)
            for name, lines in zip(names, found, strict=True)
        ]

    def of_services(metric: str) -> list[Line]:
        found = {
            name: [one.services[name][metric] for one in digests if metric in one.services.get(name, {})]
            for name in services
        }
        return [Line(name, colour[name], lines) for name, lines in found.items() if lines]

    machine = [one.machine["cpu"] for one in digests if "cpu" in one.machine]
    panels = [
        Panel("throughput", "rate_rps", of_groups("throughput", "")),
        Panel(
            "response p50 (thick) and p99 (thin)",
            "time_s",
            [*of_groups("p99", "p99", True), *of_groups("p50", "p50")],
        ),
        Panel("failed requests", "rate_rps", of_groups("failures", "")),
        Panel(
            "CPU, cores busy",
            "count",
            [*of_services("cpu"), *([Line("machine", colour[""], machine)] if machine else [])],
        ),
        Panel("memory, resident", "size_bytes", of_services("memory")),
    ]
    first = digests[0]
    return timeline(
        panels, max(one.end_s for one in digests), first.window_s, first.kept_s,
        f"{case} over time: throughput, response, failures, CPU and memory of {count_words(len(digests), 'trial')}",
        points=detail.points, replicates=detail.replicates,
    )  # fmt: skip


_OUTCOMES = (
    "due",
    "begun",
    "ok",
    "failed",
    "waiting",
    "dropped",
    "in_flight",
    "connections_opened",
    "tls_full",
    "tls_resumed",
    "early_repeats",
)
OUTCOME_NAMES = ("due", "begun", "ok", "failed", "still waiting", "dropped", "in flight at the end", "connections", "full TLS handshakes", "resumed TLS", "early repeats")  # fmt: skip


def _summaries(name: str, digests: Sequence[TrialDigest]) -> list[GroupSummary]:
    return [one.groups[name].summary for one in digests if name in one.groups]


def _outcomes(name: str, digests: Sequence[TrialDigest]) -> tuple[str, ...]:
    found = _summaries(name, digests)
    return (name, *(show_value(sum(getattr(one, field) for one in found), "count") for field in _OUTCOMES))


def _errors(names: Sequence[str], digests: Sequence[TrialDigest]) -> list[tuple[str, str, int, str]]:
    """(group, kind, count, share of begun) of statuses, errors and failed checks, the most frequent first."""
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


def _counted(services: Sequence[str], names: Sequence[str], digests: Sequence[TrialDigest]) -> list[Counted]:
    totals: dict[str, Counter[str]] = {service: Counter() for service in services}
    for one in digests:
        for service in services:
            before, after = one.lab.before.get(service), one.lab.after.get(service)
            if before is None or after is None:
                continue
            for key, value in after.values.items():
                totals[service][key] += value - before.values.get(key, 0.0)  # type: ignore[assignment]
    rows = []
    for label, field, key in _COUNTERS:
        client = (
            None
            if field is None
            else sum(getattr(one, field) for name in names for one in _summaries(name, digests))
        )
        cells = tuple(
            show_value(float(totals[service][key]), _of(key)) if key in totals[service] else "not offered"
            for service in services
        )
        if any(cell != "not offered" for cell in cells):
            rows.append(Counted(label, "–" if client is None else show_value(float(client), _of(key)), cells))
    ratios = tuple(_hit_ratio(totals[service]) for service in services)
    if any(ratio != "–" for ratio in ratios):
        rows.append(Counted("hit ratio", "–", ratios))
    return rows


def _of(key: str) -> Dimension:
    return "size_bytes" if "bytes" in key else "count"


def _hit_ratio(counts: Mapping[str, float]) -> str:
    looked_up = counts.get("hits", 0) + counts.get("misses", 0)
    return show_value(counts["hits"] / looked_up, "ratio") if looked_up and "hits" in counts else "–"


def _checks(trials: Sequence[TrialResult], detail: Detail) -> list[CheckRow]:
    by_check: dict[str, list[tuple[TrialResult, CheckResult]]] = {}
    for trial in trials:
        for check in trial.verdict.checks:
            by_check.setdefault(check.check, []).append((trial, check))
    return [_check_row(name, found, detail) for name, found in by_check.items()]


_WORSE = {"VALID": 0, "WEAK": 1, "REFUSED": 2}


def _check_row(name: str, found: Sequence[tuple[TrialResult, CheckResult]], detail: Detail) -> CheckRow:
    worst = max(found, key=lambda pair: _WORSE[pair[1].grade])[1]
    by_sentence: dict[tuple[int, str], list[str]] = {}
    for trial, check in found:
        by_sentence.setdefault((-_WORSE[check.grade], check.sentence), []).append(trial.trial)
    told = [
        (_whose(names, len(found)), sentence)
        for (grade, sentence), names in sorted(by_sentence.items())
        if detail.passed or grade
    ]
    shown = told[: max(1, sum(1 for grade, _ in by_sentence if grade))] if told else []
    return CheckRow(
        check=name,
        worst=worst.grade,
        marks=tuple(_marks(found, detail)),
        shown=tuple(shown[: detail.sentences]),
        more=tuple(told[len(shown[: detail.sentences]) : 200]),
        remedy=worst.remedy if worst.grade != "VALID" else "",
    )


def _marks(
    found: Sequence[tuple[TrialResult, CheckResult]], detail: Detail
) -> Iterator[tuple[str, str, str]]:
    """(grade, mark, trial) for each trial; where that is too much, one entry for a row of equal grades, without names."""
    if detail.passed:
        yield from ((outcome(check), GRADE_MARK[outcome(check)], trial.trial) for trial, check in found)
        return
    for grade, run in groupby(outcome(check) for _, check in found):
        yield grade, GRADE_MARK[grade] * len(list(run)), ""


def _whose(names: Sequence[str], of: int) -> str:
    if len(names) == of and of > 1:
        return "all trials"
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"
