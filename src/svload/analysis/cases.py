"""A case over its replicates: the headline interval is t over per-run log values; too few blocks left make it refused (METHOD §2, §3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log

from svload.analysis import limits
from svload.analysis.checks.base import worst
from svload.analysis.criteria import TIMED_OUT, criterion_of, find, outcome, show
from svload.analysis.inference import mean_interval
from svload.analysis.server import most_severe
from svload.model.metrics import CATALOGUE, Source, metric_name
from svload.model.results import (
    CaseResult,
    Estimate,
    Grade,
    ServerState,
    ThresholdResult,
    TrialResult,
    marks,
)
from svload.model.study import Case, CaseConfig, Lock

_ARITHMETIC = {name for (_, name), metric in CATALOGUE.items() if metric.dimension in ("ratio", "count")}


def case_result(
    lock: Lock, case: Case, config: CaseConfig | None, trials: Sequence[TrialResult]
) -> CaseResult:
    """One case of the study from its judged trials; metrics come from those that are not REFUSED, or from all of a refused case."""
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
    refused = tuple(trial.trial for trial in trials if trial.verdict.instrument == "REFUSED")
    kept = [trial for trial in trials if trial.verdict.instrument != "REFUSED"]
    grade = _grade(trials, kept, lock.measure.replicates)
    shown = trials if grade == "REFUSED" else kept
    return CaseResult(
        case=case.name,
        levels=case.levels,
        excluded=None,
        instrument=grade,
        server=_server(shown),
        trials=tuple(trial.trial for trial in trials),
        refused=refused,
        metrics=over_runs([trial.metrics for trial in shown]),
        reasons=_reasons(trials, kept, grade, lock.measure.replicates),
        load_model={group.name: group.executor.model for group in config.groups},
    )


def least_blocks(replicates: int) -> int:
    """Replicates that must be left to describe a case."""
    return min(limits.DESCRIBE_BLOCKS, replicates)


def _grade(trials: Sequence[TrialResult], kept: Sequence[TrialResult], replicates: int) -> Grade | None:
    if not trials:
        return None
    if len(kept) < len(trials) and len(kept) < least_blocks(replicates):
        return "REFUSED"
    return worst(*(trial.verdict.instrument for trial in kept))


def _server(trials: Sequence[TrialResult]) -> ServerState | None:
    """The state that most trials show; the more severe of equals."""
    counts = Counter(trial.verdict.server for trial in trials)
    if not counts:
        return None
    most = max(counts.values())
    return most_severe(state for state, count in counts.items() if count == most)


_DOUBTS: tuple[Grade, ...] = ("REFUSED", "WEAK")


def _reasons(
    trials: Sequence[TrialResult], kept: Sequence[TrialResult], grade: Grade | None, replicates: int
) -> tuple[str, ...]:
    told = []
    if grade == "REFUSED":
        told.append(
            f"Only {len(kept)} of {len(trials)} trials can be believed, {least_blocks(replicates)} are needed: the case is shown, and enters no comparison."
        )
    for bad in _DOUBTS:
        for name, found in sorted(marks(trials, bad).items(), key=lambda one: (-len(one[1]), one[0])):
            _, first = found[0]
            mend = f" {first.remedy}" if bad == "REFUSED" else ""
            told.append(f"{len(found)} of {len(trials)} trials {bad} {name}: {first.sentence}{mend}")
    return tuple(told)


def over_runs(metrics: Sequence[Mapping[str, Estimate]]) -> dict[str, Estimate]:
    """Each metric over runs. Null where it is null in a run: leaving that run out would be a mean of the survivors."""
    names = list(dict.fromkeys(name for one in metrics for name in one))
    return {name: _over_runs(name, [one.get(name) for one in metrics]) for name in names}


def _over_runs(name: str, found: Sequence[Estimate | None]) -> Estimate:
    values = [one.value for one in found if one is not None and one.value is not None]
    if len(values) < len(found):
        reasons = Counter(
            one.reason if one else "not measured" for one in found if one is None or one.value is None
        )
        reason, _ = reasons.most_common(1)[0]
        beyond = sum(count for told, count in reasons.items() if told.startswith(TIMED_OUT))
        if 2 * beyond > len(found):
            return Estimate(
                value=None, n=len(values), reason=f"{TIMED_OUT} in {beyond} of {len(found)} runs: {reason}"
            )
        return Estimate(
            value=None,
            n=len(values),
            reason=f"null in {len(found) - len(values)} of {len(found)} runs: {reason}",
        )
    weak = any(one.weak for one in found if one)
    grows = next((one.reason for one in found if one and one.reason.startswith("grows")), "")
    metric = metric_name(name)
    if metric not in _ARITHMETIC and min(values) > 0:
        logs = [log(value) for value in values]
        interval = mean_interval(logs)
        low, high = (exp(interval[0]), exp(interval[1])) if interval else (None, None)
        return Estimate(
            value=exp(sum(logs) / len(logs)), low=low, high=high, n=len(values), weak=weak, reason=grows
        )
    interval = mean_interval(values)
    low, high = interval if interval else (None, None)
    return Estimate(
        value=sum(values) / len(values),
        low=_inside(metric, low),
        high=_inside(metric, high),
        n=len(values),
        weak=weak,
        reason=grows,
    )


def _inside(metric: str, bound: float | None) -> float | None:
    """Counts and shares have no negative bound; rates of success and hits end at 1."""
    if bound is None:
        return None
    top = 1.0 if metric in ("success_rate", "error_rate", "hit_ratio", "busiest_share") else float("inf")
    return min(max(bound, 0.0), top)


def threshold_results(
    configs: Mapping[str, CaseConfig], cases: Iterable[CaseResult], owners: Mapping[str, Source]
) -> tuple[ThresholdResult, ...]:
    """Each threshold on each case that it is for; a refused case never passes one."""
    return tuple(
        _threshold(case, configs[case.case], text, owners)
        for case in cases
        if case.excluded is None and case.case in configs and case.trials
        for text in configs[case.case].thresholds
    )


def _threshold(
    case: CaseResult, config: CaseConfig, text: str, owners: Mapping[str, Source]
) -> ThresholdResult:
    criterion = criterion_of(text, config, owners)
    estimate = find(criterion.ref, case.metrics)
    shown = show(criterion.ref, estimate.value)
    if case.instrument == "REFUSED":
        return ThresholdResult(
            case=case.case,
            that=text,
            outcome="refused",
            measured=estimate.value,
            sentence=f"{case.case}: {text} was not judged, the case is REFUSED.",
        )
    timeouts = [
        group.longest_timeout_ns / 1e9
        for group in config.groups
        if criterion.ref.owner.partition(".")[0] == group.name
    ]
    held = outcome(criterion, estimate, max(timeouts, default=None))
    if held is None:
        return ThresholdResult(
            case=case.case,
            that=text,
            outcome="no value",
            measured=None,
            sentence=f"{case.case}: {text} has no number ({estimate.reason}).",
        )
    if held:
        return ThresholdResult(
            case=case.case,
            that=text,
            outcome="passed",
            measured=estimate.value,
            sentence=f"{case.case}: {text} holds (it is {shown}).",
        )
    told = f"it is {shown}" if estimate.value is not None else estimate.reason
    return ThresholdResult(
        case=case.case,
        that=text,
        outcome="failed",
        measured=estimate.value,
        sentence=f"{case.case}: {text} failed ({told}).",
    )
