"""A case over its replicates: the headline interval is t over per-run log values; each number rests on the
trials in which it is believed (docs/method.md §2, §3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import exp, isinf, log
from statistics import median
from typing import Literal

from svload.analysis import limits
from svload.analysis.checks.base import worst
from svload.analysis.claims.pairs import percentile_of
from svload.analysis.criteria import (
    TIMED_OUT,
    criterion_of,
    ends,
    fails_by_overload,
    find,
    is_broken,
    mirror_of,
    number_of,
    outcome,
    range_of,
    show,
)
from svload.analysis.evidence import case_evidence
from svload.analysis.inference import replicates_for, t_interval
from svload.analysis.quantiles import reaches
from svload.analysis.server import most_severe
from svload.analysis.stages import level_outcomes, levels_of
from svload.model.metrics import CATALOGUE, Criterion, MetricRef, Source, metric_name
from svload.model.results import (
    Belief,
    CaseResult,
    Estimate,
    GeneratorPart,
    GeneratorResult,
    Grade,
    LevelOutcome,
    ServerState,
    ThresholdResult,
    TrialResult,
    TrialSummary,
)
from svload.model.study import Case, CaseConfig
from svload.model.summaries import PlacePart
from svload.model.units import rounded, show_percent

Outcome = Literal["passed", "failed", "open", "refused", "no value"]
_ARITHMETIC = {name for (_, name), metric in CATALOGUE.items() if metric.dimension in ("ratio", "count")}
_LOGARITHMIC = {name for _, name in CATALOGUE} - _ARITHMETIC
"""Metrics that are averaged over runs as logs; all others, such as monitors' readings, as plain numbers."""


def case_result(
    case: Case,
    config: CaseConfig | None,
    trials: Sequence[TrialResult],
    asked: Sequence[str] = (),
    summaries: Sequence[TrialSummary] = (),
) -> CaseResult:
    """Summarise one case of the study from its judged trials; each metric uses those in which it is not
    REFUSED. `asked`: the numbers that determine its grade."""
    if case.excluded is not None or config is None:
        return CaseResult(
            case=case.name,
            levels=case.levels,
            excluded=case.excluded,
            instrument=None,
            server=None,
            trials=(),
            refused=(),
            metrics={},
        )
    least = min(limits.DESCRIBE_BLOCKS, config.measure.replicates)
    refused = tuple(trial.trial for trial in trials if trial.verdict.instrument == "REFUSED")
    kept = [trial for trial in trials if trial.verdict.instrument != "REFUSED"]
    grades = {name: [_grade_of(trial, name) for trial in trials] for name in asked}
    metrics = over_runs([trial.metrics for trial in trials], least)
    return CaseResult(
        case=case.name,
        levels=case.levels,
        excluded=None,
        instrument=worst(*(_over_trials(one, least) for one in grades.values())) if trials else None,
        server=_server(kept or trials),
        trials=tuple(trial.trial for trial in trials),
        refused=refused,
        metrics=metrics,
        load_model={group.name: group.executor.model for group in config.groups},
        asked=tuple(asked),
        evidence=case_evidence([trial.evidence for trial in kept or trials]),
        generators=generator_results(summaries),
    )


def _grade_of(trial: TrialResult, number: str) -> Grade:
    """Return a number's grade in a trial; for a number that was not measured, that of what breaks the whole
    trial."""
    estimate = trial.metrics.get(number)
    return estimate.grade if estimate else worst(*(check.on(number) for check in trial.verdict.checks))


def _over_trials(grades: Sequence[Grade], least: int) -> Grade:
    """Return the grade of a case: REFUSED where too few trials are left, else the worst of the remaining
    ones."""
    kept = [grade for grade in grades if grade != "REFUSED"]
    return "REFUSED" if len(kept) < min(least, len(grades)) else worst(*kept)


def _server(trials: Sequence[TrialResult]) -> ServerState | None:
    """Return the state that most trials show; on a tie, the more severe one."""
    counts = Counter(trial.verdict.server for trial in trials)
    if not counts:
        return None
    most = max(counts.values())
    return most_severe(state for state, count in counts.items() if count == most)


def over_runs(metrics: Sequence[Mapping[str, Estimate]], least: int = 1) -> dict[str, Estimate]:
    """Combine each metric over the runs in which it is not REFUSED; null where there are fewer than `least`
    of these.

    Also null where the metric is null in one of these runs: leaving that run out would give a mean of the
    survivors.
    """
    names = list(dict.fromkeys(name for one in metrics for name in one))
    return {name: _believed(name, [one.get(name) for one in metrics], least) for name in names}


def _believed(name: str, found: Sequence[Estimate | None], least: int) -> Estimate:
    kept = [one for one in found if one is None or one.grade != "REFUSED"]
    if len(kept) >= min(least, len(found)):
        return _over_runs(name, kept)
    whole = _over_runs(name, found)
    doubts = Counter(check for one in found if one and one.grade == "REFUSED" for check in _doubts(one)[:1])
    return Estimate(
        value=None,
        low=whole.low,
        high=whole.high,
        n=len(kept),
        reason=f"REFUSED in {len(found) - len(kept)} of {len(found)} trials: "
        f"{', '.join(check for check, _ in doubts.most_common())}",
        why="refused",
        belief=(whole.belief or Belief(grade="REFUSED")).model_copy(
            update={"grade": "REFUSED", "as_measured": whole.value}
        ),
    )


def _doubts(estimate: Estimate) -> tuple[str, ...]:
    return estimate.belief.doubts if estimate.belief else ()


def _belief(found: Sequence[Estimate | None]) -> Belief | None:
    """Return the belief for a case's number: the worst grade of its runs, and their mean bounds; null where
    one of them is unknown."""
    beliefs = [one.belief for one in found if one and one.belief]
    if not beliefs:
        return None
    doubts = Counter(check for belief in beliefs for check in belief.doubts)
    return Belief(
        grade=worst(*(belief.grade for belief in beliefs)),
        below=_mean_bound([belief.below for belief in beliefs], len(found)),
        above=_mean_bound([belief.above for belief in beliefs], len(found)),
        doubts=tuple(check for check, _ in doubts.most_common()),
    )


def _mean_bound(bounds: Sequence[float | None], runs: int) -> float | None:
    known = [bound for bound in bounds if bound is not None]
    return sum(known) / runs if len(known) == len(bounds) else None


def _null(found: Sequence[Estimate | None], values: int) -> Estimate:
    """Return an estimate without a number, for a metric that some runs lack."""
    lacking = [one for one in found if one is None or one.value is None]
    reason, _ = Counter(one.reason if one else "not measured" for one in lacking).most_common(1)[0]
    codes = {one.why if one else "not measured" for one in lacking}
    beyond = [one for one in lacking if one and one.why == "time-out"]
    if 2 * len(beyond) > len(found):
        reason = Counter(one.reason for one in beyond).most_common(1)[0][0]
        text = f"{TIMED_OUT} in {len(beyond)} of {len(found)} runs: {reason}"
        return Estimate(value=None, n=values, reason=text, why="time-out")
    never = [one for one in lacking if one and one.why == "not recovered"]
    if 2 * len(never) > len(found):
        low = min((one.low for one in never if one.low is not None), default=None)
        text = f"not back in {len(never)} of {len(found)} runs: {never[0].reason}"
        return Estimate(value=None, low=low, n=values, reason=text, why="not recovered")
    alike = len(codes) == 1 and (codes == {"too few"} or not values)
    return Estimate(
        value=None,
        n=values,
        reason=f"null in {len(lacking)} of {len(found)} runs: {reason}",
        why=codes.pop() if alike else "null in a run",
        need=max((one.need for one in lacking if one and one.need), default=None) if alike else None,
    )


def _over_runs(name: str, found: Sequence[Estimate | None]) -> Estimate:
    values = [one.value for one in found if one is not None and one.value is not None]
    belief = _belief(found)
    if len(values) < len(found):
        return _null(found, len(values)).model_copy(update={"belief": belief})
    weak = any(one.weak for one in found if one)
    grows = next((one for one in found if one and one.why == "grows"), None)
    metric = metric_name(name)
    if len(values) == 1 and (only := next(one for one in found if one)):
        low, high, value = only.low, only.high, values[0]
    elif metric in _LOGARITHMIC and min(values) > 0:
        logs = [log(value) for value in values]
        interval = t_interval(logs)
        low, high = (exp(interval[0]), exp(interval[1])) if interval else (None, None)
        value = exp(sum(logs) / len(logs))
    else:
        interval = t_interval(values)
        low, high = (_inside(metric, bound) for bound in interval) if interval else (None, None)
        value = sum(values) / len(values)
    few = next((one for one in found if one and one.why == "too few"), None)
    if few and not all(reaches(percentile_of(name), one.n) for one in found if one):
        high = None
    marked = grows or few
    return Estimate(
        value=value,
        low=low,
        high=high,
        n=len(values),
        weak=weak,
        reason=marked.reason if marked else "",
        why=marked.why if marked else "",
        need=few.need if few else None,
        belief=belief,
    )


_SHARES = ("success_rate", "error_rate", "hit_ratio", "busiest_share", "repeated_share")


def _inside(metric: str, bound: float | None) -> float | None:
    """Clip bounds to what is possible: counts and shares are never negative; rates of success and hits are at
    most 1."""
    if bound is None:
        return None
    top = 1.0 if metric in _SHARES else float("inf")
    return min(max(bound, 0.0), top)


def threshold_results(
    configs: Mapping[str, CaseConfig],
    cases: Iterable[CaseResult],
    owners: Mapping[str, Source],
    trials: Sequence[TrialResult] = (),
) -> tuple[ThresholdResult, ...]:
    """Decide each threshold on each case that it applies to, by the range of the number that it names alone,
    and by whether the server is OVERLOADED; with a load in stages, also on each level."""
    return tuple(
        _threshold(case, configs[case.case], text, owners, [one for one in trials if one.case == case.case])
        for case in cases
        if case.excluded is None and case.case in configs and case.trials
        for text in configs[case.case].thresholds
    )


def _threshold(
    case: CaseResult,
    config: CaseConfig,
    text: str,
    owners: Mapping[str, Source],
    trials: Sequence[TrialResult],
) -> ThresholdResult:
    criterion = criterion_of(text, config, owners)
    metrics, server = case.metrics, case.server
    if criterion.level:
        metrics, server = _at_level(criterion, trials)
    estimate = find(criterion.ref, metrics)
    timeouts = [
        group.longest_timeout_ns / 1e9
        for group in config.groups
        if criterion.ref.owner.partition(".")[0] == group.name
    ]
    mirror = mirror_of(criterion.ref, metrics)
    timeout_s = max(timeouts, default=None)
    held = outcome(criterion, estimate, timeout_s, server, mirror)
    overloaded = fails_by_overload(criterion, estimate, server)
    value = number_of(estimate)
    within = range_of(criterion.ref, estimate, mirror, timeout_s)
    known = estimate.reason
    if value is not None and within is not None:
        margin = _margin(criterion, value)
        known = f"it is {show(criterion.ref, value)}{_ends(criterion.ref, within, estimate)}{margin}"
    if overloaded:
        result: Outcome = "failed"
        reason = f"failed (the server is OVERLOADED, which fails any limit; {known})"
    elif held is not None:
        result = "passed" if held else "failed"
        reason = f"{'holds' if held else 'failed'} ({known})"
    elif is_broken(estimate):
        result, reason = "refused", f"is undecided: this number is unreliable ({estimate.reason or known})"
    elif value is not None and within is not None and estimate.why == "grows":
        result, reason = "open", f"is undecided: {known}, and in some trials it {estimate.reason}"
    elif value is not None and within is not None:
        result = "open"
        reason = f"is undecided: {known}, so the limit lies within its range; {_decides(criterion, estimate, value, within, case)}"
    else:
        result, reason = "no value", f"has no value ({estimate.reason})"
    levels = (
        (LevelOutcome(group=criterion.ref.owner, level=criterion.level, outcome=result, measured=value),)
        if criterion.level
        else level_outcomes(criterion, trials, timeout_s)
    )
    return ThresholdResult(
        case=case.case,
        that=text,
        outcome=result,
        measured=value,
        sentence=f"{case.case}: {text} {reason}.",
        told=f"{reason}.",
        overloaded=overloaded,
        levels=levels,
    )


def _at_level(criterion: Criterion, trials: Sequence[TrialResult]) -> tuple[dict[str, Estimate], ServerState]:
    """Return (the numbers of the level that a threshold names, over the trials; whether most trials were
    OVERLOADED in it)."""
    of_trials = [
        [metrics for label, metrics in levels_of(trial, criterion.ref.owner) if label == criterion.level]
        for trial in trials
    ]
    if not any(of_trials):
        name, reason = str(criterion.ref), f"no trial reached {criterion.level}"
        return {name: Estimate(value=None, reason=reason, why="not measured")}, "UNKNOWN"
    found = [metrics for mine in of_trials for metrics in (mine or [{}])]
    growing = sum(find(criterion.ref, one).why == "grows" for one in found)
    return over_runs(found), "OVERLOADED" if 2 * growing > len(found) else "UNKNOWN"


def _ends(ref: MetricRef, within: tuple[float, float], estimate: Estimate) -> str:
    """Return the range of a number as a clause; empty where it has none."""
    low, high = within
    if low == high:
        return ""
    if estimate.high is None and ref.metric.source == "traffic" and ref.stat not in (None, "min", "max"):
        return f", at least {show(ref, low)}" if low > 0 else ", too few requests for an interval"
    return f", {show(ref, low)} to {show(ref, high)}"


def _margin(criterion: Criterion, value: float) -> str:
    """Return how far the value lies from its limit, as a clause."""
    limit = criterion.value
    if limit <= 0 or value == limit or criterion.op in ("==", "!="):
        return ""
    side = "below" if value < limit else "above"
    if criterion.ref.metric.dimension == "ratio":
        return f"; {rounded(100 * abs(value - limit), 3)} points {side} the limit"
    if value > 1.95 * limit:
        return f"; {value / limit:.3g} × the limit"
    return f"; {show_percent(abs(value / limit - 1))} {side} the limit"


def _decides(
    criterion: Criterion, estimate: Estimate, value: float, within: tuple[float, float], case: CaseResult
) -> str:
    """Return what would decide an open threshold: a calmer machine, more replicates, or a longer load."""
    away = abs(value - criterion.value)
    upper = value < criterion.value
    disturbed = ends(value, estimate) or within
    pushed = (disturbed[1] - value) if upper else (value - disturbed[0])
    if pushed >= away:
        return "a quieter machine would decide it"
    scatter = (within[1] - value if upper else value - within[0]) - pushed
    if away == 0 or isinf(scatter) or (upper and estimate.high is None):
        return "a longer load would decide it"
    times = (scatter / (away - pushed)) ** 2
    if len(case.trials) < 2:
        return f"a load {max(times, 1.1):.2g} times as long would decide it"
    wanted = replicates_for(scatter / (away - pushed), len(case.trials))
    return (
        f"{wanted} replicates would decide it" if wanted else "more replicates would probably not decide it"
    )


def generator_results(summaries: Iterable[TrialSummary]) -> tuple[GeneratorResult, ...]:
    """Break results down by traffic group and generator (for groups with several), then by machine and by
    site; empty where no trial keeps them apart."""
    found: dict[tuple[str, int | None, str], list[GeneratorPart | PlacePart]] = {}
    for summary in summaries:
        for part in summary.parts:
            found.setdefault((part.group, part.generator, part.machine), []).append(part)
        for place in summary.places:
            name = place.place if place.kind == "machine" else f"site {place.place}"
            found.setdefault((place.group, None, name), []).append(place)
    return tuple(_parts_over_trials(*key, parts) for key, parts in found.items())


def _parts_over_trials(
    group: str, generator: int | None, place: str, parts: Sequence[GeneratorPart | PlacePart]
) -> GeneratorResult:
    ended = sum(part.ok + part.failed for part in parts)
    responses = sum(part.responses for part in parts)
    medians = [part.response_p50_ns for part in parts if part.response_p50_ns is not None]
    tails = [part.response_p99_ns for part in parts if part.response_p99_ns is not None]
    return GeneratorResult(
        group=group,
        generator=generator,
        place=place,
        trials=len(parts),
        due=sum(part.due for part in parts),
        ok=sum(part.ok for part in parts),
        failed=sum(part.failed for part in parts),
        success_rate=sum(part.ok for part in parts) / ended if ended else None,
        response_mean_s=sum(part.response_sum_ns for part in parts) / responses / 1e9 if responses else None,
        response_p50_s=median(medians) / 1e9 if medians else None,
        response_p99_s=median(tails) / 1e9 if tails else None,
    )
