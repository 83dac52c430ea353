"""Findings as sentences with their evidence. They state what was seen and how certain it is, and nothing that
the data does not support."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median

from svload.analysis import limits
from svload.analysis.capacity.asked import capacity_finding
from svload.analysis.curves.curve import curve_findings, ramp_findings, shown_limit
from svload.analysis.evidence import first_to_fail, quota_clauses, what_failed
from svload.analysis.server import WAITS, waits_for_slots
from svload.analysis.stages import stage_findings
from svload.model.capacity import CapacityResult
from svload.model.certificates import AaCertificate
from svload.model.load_curve import LoadCurve
from svload.model.results import CaseResult, Claim, Estimate, Finding, TrialResult, TrialSummary
from svload.model.study import CaseConfig, Lock
from svload.model.traffic import Group
from svload.model.units import show_duration, show_number, show_percent

FLOOR_UNKNOWN = "the lab's own noise is not measured: exploratory"


def floor_words(certificate: AaCertificate | None) -> str:
    """State whether the lab's own noise is known, for every page."""
    if certificate is None:
        return FLOOR_UNKNOWN
    made = datetime.fromtimestamp(certificate.made_wall, UTC).strftime("%Y-%m-%d")
    again = ", restarting each time" if certificate.restarts else ""
    return f"floor known: {certificate.pairs} A/A pairs of {', '.join(certificate.cases)}{again} ({made})"


def findings_of(
    lock: Lock,
    cases: Sequence[CaseResult],
    trials: Sequence[TrialResult],
    explored: Sequence[Finding] = (),
    curves: Sequence[LoadCurve] = (),
    capacity: CapacityResult | None = None,
) -> tuple[Finding, ...]:
    """Return what no other part of the findings holds, the most important first; `explored` are those that
    the study did not plan, `curves` what its loads show, `capacity` what a search found."""
    return (
        *_planted(lock),
        *_gone(cases, trials),
        *capacity_finding(capacity),
        *_died(cases, trials),
        *stage_findings(cases, trials),
        *_faults(cases, trials),
        *_overloaded(cases, trials),
        *_saturated(cases, trials, curves),
        *_gave_way(cases),
        *curve_findings(curves),
        *ramp_findings(trials),
        *explored,
        *_order(lock),
    )


def headline(result: TrialResult) -> str:
    """Return one line on a judged trial: `probe p50 2.1 ms, 812/s, 100 % ok`, for the curl-like probe where
    there is one, else for the last group."""
    heads = [name.removesuffix(".response.p50") for name in result.metrics if name.endswith(".response.p50")]
    heads = [head for head in heads if "." not in head]
    if not heads:
        return "no request"
    name = next((head for head in heads if f"{head}.connect.p50" in result.metrics), heads[-1])
    median, rate, success = (
        result.metrics[f"{name}.{metric}"] for metric in ("response.p50", "throughput", "success_rate")
    )
    shown = "failed" if median.why == "time-out" else median.reason
    shown = show_duration(median.value) if median.value is not None else shown
    parts = [f"{name} none ok" if success.value == 0 else f"{name} p50 {shown}"]
    parts += [f"{show_number(rate.value, 4)}/s"] if rate.value is not None else []
    parts += [f"{show_percent(success.value, 4)} ok"] if success.value is not None else []
    return ", ".join(parts)


def _planted(lock: Lock) -> Iterator[Finding]:
    for case, fault in lock.plants.items():
        yield Finding(
            kind="planted",
            sentence=f"A fault was planted in {case}: {fault}. This run demonstrates the verdicts.",
            evidence=(f"cases/{case}",),
            certainty="certain",
        )


def _faults(cases: Sequence[CaseResult], trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """Describe a case's planned faults, and how soon each group was back at its level."""
    for case in cases:
        mine = [trial for trial in trials if trial.case == case.case and trial.faults]
        if not mine:
            continue
        first = [one for one in mine[0].faults if one.begun_s is not None]
        text = ", ".join(f"{one.what} at {show_duration(one.planned_s)}" for one in first)
        groups = dict.fromkeys(name for trial in mine for one in trial.faults for name in one.recovery)
        back = "; ".join(_back(name, mine) for name in groups)
        yield Finding(
            kind="fault",
            sentence=f"In {case.case}, planned by the study: {text or 'no fault was reached'}."
            + (f" {back}." if back else ""),
            evidence=tuple(f"trials/{trial.trial}" for trial in mine),
            certainty="measured",
        )


def _back(group: str, trials: Sequence[TrialResult]) -> str:
    """Return `users: back at their level after 1.2 s (1 s to 1.4 s) in 3 of 3 trials`."""
    found = [trial.metrics[name] for trial in trials if (name := f"{group}.recovery") in trial.metrics]
    known = sorted(one.value for one in found if one.value is not None)
    never = sum(one.why == "not recovered" for one in found)
    if not known:
        return (
            f"{group} was not back at its level in {never} of {len(trials)} trials"
            if never
            else f"{group}: {found[0].reason}"
        )
    spread = "" if len(known) < 2 else f" ({show_duration(known[0])} to {show_duration(known[-1])})"
    lost = f", and not before the next fault or the end in {never}" if never else ""
    middle = show_duration(median(known))
    return (
        f"{group} was back at its level after {middle}{spread} in {len(known)} of {len(trials)} trials{lost}"
    )


def _gone(cases: Sequence[CaseResult], trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """Describe a case with a server that went away, as its clients saw it, with the first such trial."""
    for case in cases:
        mine = [trial for trial in trials if trial.case == case.case]
        hit = [trial for trial in mine if trial.outages]
        if hit:
            where = f"In {len(hit)} of {len(mine)} trials of {case.case}: " if len(mine) > 1 else ""
            text = " ".join(one.sentence for one in hit[0].outages)
            yield Finding(
                kind="gone",
                sentence=f"{where}{text}" if where else f"{text[:1].upper()}{text[1:]}",
                evidence=tuple(f"trials/{trial.trial}" for trial in hit),
                certainty="counted",
            )


def late_bodies(configs: Mapping[str, CaseConfig], trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """Describe groups whose small responses end as long after their first byte as Linux delays an
    acknowledgement: most servers that do so write head and body apart, without TCP_NODELAY."""
    late: dict[str, list[tuple[float, str]]] = {}
    for trial in trials:
        for group in configs[trial.case].groups if trial.verdict.instrument != "REFUSED" else ():
            wait_s = _late_body_s(group, trial.metrics)
            if wait_s is not None and limits.LATE_BODY_S[0] <= wait_s < limits.LATE_BODY_S[1]:
                late.setdefault(group.name, []).append((wait_s, f"trials/{trial.trial}"))
    for name, found in late.items():
        yield Finding(
            kind="late-body",
            sentence=f"At least half of {name}'s responses, small on average, ended some "
            f"{show_duration(median(wait_s for wait_s, _ in found))} after their first byte. Usually such a "
            f"server writes head and body separately without TCP_NODELAY, so that the body waits for the "
            f"delayed acknowledgement of the head. To confirm, set TCP_NODELAY there, or write both at once, "
            f"and measure again.",
            evidence=tuple(place for _, place in found),
            certainty="measured",
        )


def _late_body_s(group: Group, metrics: Mapping[str, Estimate]) -> float | None:
    """Return the time from the first byte to the last one of a group's median response; None where that is
    not known, or includes connecting, an upload, another response or the transfer of much data."""
    names = ("service.p50", "server_time.p50", "bytes_received", "requests", "connections")
    known = [metrics.get(f"{group.name}.{name}") for name in names]
    service_s, first_s, received, requests, connections = (one.value if one else None for one in known)
    if service_s is None or first_s is None or received is None or connections is None or not requests:
        return None
    if received > limits.LATE_BODY_BYTES * requests or connections > limits.LATE_BODY_CONNECTS * requests:
        return None
    if any(one.is_raw or one.follow_redirects or one.body is not None for one in group.requests):
        return None
    return service_s - first_s


def unlike_answers(claims: Sequence[Claim], summaries: Sequence[TrialSummary]) -> Iterator[Finding]:
    """Describe compared sides of which one answers with a status, such as a redirect's, that the other never
    has: they do different work. Statuses of failures are described as failures."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for summary in summaries:
        for group in summary.groups:
            answers[summary.case] += Counter({code: n for code, n in group.status.items() if code < "400"})
    for names, pairs in dict.fromkeys(((one.baseline, one.treatment), one.pairs) for one in claims):
        cases = [dict.fromkeys(pair[side] for pair in pairs) for side in (0, 1)]
        mine, other = (sum((answers[case] for case in side), Counter[str]()) for side in cases)
        often = [
            sorted(code for code in one if one[code] >= limits.ANSWERED_OFTEN * one.total())
            for one in (mine, other)
        ]
        if all(often) and (set(often[0]) - set(other) or set(often[1]) - set(mine)):
            codes = "; ".join(f"{name}: {', '.join(side)}" for name, side in zip(names, often, strict=True))
            yield Finding(
                kind="status",
                sentence=f"The compared sides answer with different statuses ({codes}): check that both do "
                "the same work.",
                evidence=tuple(f"cases/{case}" for side in cases for case in side),
                certainty="counted",
            )


def _died(cases: Sequence[CaseResult], trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """Describe a case in which a limited server died, with the cause in the first such trial."""
    for case in cases:
        mine = [trial for trial in trials if trial.case == case.case]
        fallen = [trial for trial in mine if trial.deaths]
        if fallen:
            yield Finding(
                kind="death",
                sentence=f"In {len(fallen)} of {len(mine)} trials of {case.case} a limited server ended. "
                f"{fallen[0].trial}: {' '.join(fallen[0].deaths)}",
                evidence=tuple(f"trials/{trial.trial}" for trial in fallen),
                certainty="certain",
            )


def _overloaded(cases: Sequence[CaseResult], trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """Describe an OVERLOADED case; one that is OVERLOADED only because servers died is described by those
    deaths."""
    grows = {one.case for one in trials if one.verdict.server == "OVERLOADED" and not one.deaths}
    named = [case.case for case in cases if case.server == "OVERLOADED" and case.instrument != "REFUSED"]
    named = [name for name in named if name in grows]
    if named:
        yield Finding(
            kind="server",
            sentence=f"OVERLOADED in {', '.join(named)}: the backlog grows, so percentiles grow with the run's length.",
            evidence=tuple(f"cases/{name}" for name in named),
            certainty="measured",
        )


def _saturated(
    cases: Sequence[CaseResult], trials: Sequence[TrialResult], curves: Sequence[LoadCurve]
) -> Iterator[Finding]:
    """Describe the cases with servers that keep up at their limit, one sentence for all with the same signs
    of it, whatever their percentages."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for case in cases:
        if case.server == "SATURATED" and case.instrument != "REFUSED":
            mine = [one for one in trials if one.case == case.case and one.verdict.server == "SATURATED"]
            signs = "; ".join(dict.fromkeys(_signs(case, mine, curves)))
            alike.setdefault(_PERCENT.sub("%", signs), []).append((case.case, signs))
    for found in alike.values():
        named, signs_of = zip(*found, strict=True)
        yield Finding(
            kind="server",
            sentence=f"SATURATED in {', '.join(named)}: {_with_ranges(signs_of)}.",
            evidence=tuple(f"cases/{name}" for name in named),
            certainty="measured",
        )


_PERCENT = re.compile(r"[\d.]+ %")


def _with_ranges(alike: Sequence[str]) -> str:
    """Return one of these sentences, which differ at most in their percentages, with the range of each:
    `96 to 99 %`."""
    columns = zip(*map(_PERCENT.findall, alike), strict=True)
    ends = [sorted(set(one), key=lambda percent: float(percent[:-2])) for one in columns]
    ranges = iter(f"{one[0][:-2]} to {one[-1]}" if len(one) > 1 else one[0] for one in ends)
    return _PERCENT.sub(lambda _: next(ranges), alike[0])


def _signs(case: CaseResult, trials: Sequence[TrialResult], curves: Sequence[LoadCurve]) -> Sequence[str]:
    """Return the signs of saturation: limits and counters of the servers, waiting for slots, throughput that
    does not grow with load; else what a trial reports about its server."""
    found = [what_failed(one) for one in first_to_fail(case.evidence)][:_MOST_REPORTED]
    found += [clause for trial in trials[:1] if not found for clause in quota_clauses(trial.uses)]
    open_groups = [name for name, model in case.load_model.items() if model == "open loop"]
    found += [f"{name}: {WAITS}" for name in open_groups if waits_for_slots(name, case.metrics)]
    found += [
        _stays(curve) for curve in curves if any(one.flat and one.case == case.case for one in curve.points)
    ]
    if found or not trials:
        return found or ["the server works at its limit"]
    checks = {check.sentence for check in trials[0].verdict.checks}
    texts = [one.rstrip(".") for one in trials[0].verdict.reasons if one not in checks]
    return [f"{one[:1].lower()}{one[1:]}" for one in texts]


def _stays(curve: LoadCurve) -> str:
    """Return `throughput of load stays at 898/s over users 16 to 64 while response rises
    (N* = 10.1 [9.6, 10.5])`."""
    flat = [point for point in curve.points if point.flat]
    rate_rps = sum(point.throughput_rps for point in flat) / len(flat)
    limit = curve.limits[0] if curve.limits else None
    known = f" ({limit.name} = {shown_limit(limit)})" if limit and limit.value is not None else ""
    return (
        f"throughput of {curve.group} stays at {show_number(rate_rps, 4)}/s over {curve.factor} "
        f"{flat[0].level} to {flat[-1].level} while response time rises{known}"
    )


_MOST_REPORTED = 3
"""The number of limits and counters named in a sentence, of those that a case reached or moved."""


def _gave_way(cases: Sequence[CaseResult]) -> Iterator[Finding]:
    """Describe what failed first according to the servers' own limits and counters, one sentence for all
    cases with the same."""
    alike: dict[tuple[str, ...], list[CaseResult]] = {}
    for case in cases:
        found = first_to_fail(case.evidence) if case.instrument != "REFUSED" else ()
        if found:
            alike.setdefault(tuple(map(what_failed, found)), []).append(case)
    for signs, same in alike.items():
        first = first_to_fail(same[0].evidence)[0]
        at = f", {show_duration(first.first_s)} into its load" if len(same) == 1 and first.first_s else ""
        then = f"; then {'; '.join(signs[1:_MOST_REPORTED])}" if len(signs) > 1 else ""
        more = f"; {len(signs) - _MOST_REPORTED} more" if len(signs) > _MOST_REPORTED else ""
        yield Finding(
            kind="limit",
            sentence=f"First limit reached in {', '.join(case.case for case in same)}: {signs[0]}{at}{then}{more}.",
            evidence=tuple(f"cases/{case.case}" for case in same),
            certainty="measured",
        )


def _order(lock: Lock) -> Iterator[Finding]:
    if not lock.measure.blocked:
        yield Finding(
            kind="design",
            sentence="Trials ran as listed, not in random order: drift of the machine is part of every comparison.",
            evidence=(),
            certainty="certain",
        )
