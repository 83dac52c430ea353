"""From sealed trials to findings: each trial judged, cases summed up, criteria and claims decided (docs/method.md §2, §3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from svload.analysis import ANALYSIS_VERSION
from svload.analysis.belief import Beliefs, asked_of
from svload.analysis.cases import case_result, threshold_results
from svload.analysis.checks import Context, all_checks
from svload.analysis.checks.base import worst
from svload.analysis.claims import judge_claims, made_of, metrics_of_claims
from svload.analysis.counting import Counting
from svload.analysis.criteria import criterion_of, metric_of, owners_of_case
from svload.analysis.explored import load_effects
from svload.analysis.leaving import leave_out
from svload.analysis.measures import measure_trial
from svload.analysis.pooling import Distribution, Distributions, distributions_of
from svload.analysis.saturation import saturated
from svload.analysis.sentences import findings_of, floor_told
from svload.analysis.series import CaseCut, Cut, case_cut, own_cut, provisional_cut
from svload.analysis.server import GROWS, overloaded_groups, server_state
from svload.analysis.stops import stops_of
from svload.analysis.view import kept_window, look
from svload.model.certificates import Certificates
from svload.model.errors import SvloadError
from svload.model.metrics import MetricRef, Source
from svload.model.plan import Batch
from svload.model.results import CheckResult, Estimate, Findings, Grade, TrialResult, Verdict
from svload.model.study import CaseConfig, Lock
from svload.study.check import owners_of

if TYPE_CHECKING:
    from svload.store import TrialData

T = TypeVar("T")
R = TypeVar("R")
_REPLICATE = re.compile(r"\.r(\d+)$")


def judge_trial(
    trial: TrialData,
    config: CaseConfig,
    *,
    lock: Lock | None = None,
    cut: CaseCut | None = None,
    extra: Sequence[MetricRef] = (),
) -> TrialResult:
    """A trial's metrics and both verdicts.

    Without `cut` the verdict is provisional: it uses the trial's own warm-up cut, where the final one uses the case's. `lock` names
    owners of metrics that this case lacks; `extra` adds statistics beyond those that tables show. Metrics are in base units.
    """
    length_ns = trial.summary.window_ns[1] - trial.summary.window_ns[0]
    cut = cut or provisional_cut(trial_cut(trial, config), length_ns)
    window = kept_window(trial.summary, cut.cut_ns)
    groups = look(trial, config, window)
    owners = _owners(config, lock)
    asked = asked_of(lock, config, owners)
    wanted = (*extra, *asked)
    metrics = measure_trial(trial, config, window, wanted, groups)
    counting = Counting(trial, window, groups, metrics)
    context = Context(groups, metrics, cut, owners, counting)
    checks = tuple(check.judge(trial, config, context) for check in all_checks())
    state, told = server_state(context, checks, saturated(trial, window))
    if state == "OVERLOADED":
        metrics = _growing(metrics, overloaded_groups(context))
    beliefs = Beliefs(checks)
    metrics = leave_out(beliefs.fill(metrics), beliefs, counting)
    replicate, block = _place(trial)
    return TrialResult(
        trial=trial.summary.trial,
        case=trial.summary.case,
        replicate=replicate,
        block=block,
        verdict=_verdict(trial.summary.trial, checks, state, told, _grades(asked, metrics, beliefs)),
        metrics=metrics,
        cut_ns=cut.cut_ns,
    )


def trial_cut(trial: TrialData, config: CaseConfig) -> Cut:
    """A trial's own warm-up cut, from the window without ramps."""
    return own_cut(look(trial, config, kept_window(trial.summary)), stops_of(trial.monitors))


class Each(Protocol):
    """How all items are gone through: results in their order, exceptions as of a loop."""

    def __call__(self, function: Callable[[T], R], items: Sequence[T], /) -> list[R]:
        """`function` of every item."""


def _in_turn(function: Callable[[T], R], items: Sequence[T], /) -> list[R]:
    return [function(item) for item in items]


def judge_run(
    lock: Lock,
    configs: Mapping[str, CaseConfig],
    trials: Iterable[TrialData],
    *,
    planned: int | None = None,
    attempts: Sequence[dict[str, Any]] = (),
    certificates: Certificates | None = None,
    environment: Mapping[str, str] | None = None,
    batches: Sequence[Batch] = (),
    each: Each = _in_turn,
) -> Findings:
    """All that sealed trials say under `lock`. `configs` holds each valid case's configuration, `planned` how many trials the plan has,
    `certificates` what is known of the instrument and of the lab's own noise, `environment` the machine in words; `batches` is the plan, which says
    what a trial stands in for.

    A case's trials are one piece of work, since its cut needs all of them; `each` goes through these. Tables that lie on disk are in
    memory for so long alone.
    """
    trials = [trial for trial in trials if trial.summary.case in configs]
    wanted = _wanted(lock, configs)
    made = made_of(trials, batches)
    by_case: dict[str, list[TrialData]] = {}
    for trial in trials:
        by_case.setdefault(trial.summary.case, []).append(trial)

    def judged(case: str) -> tuple[list[TrialResult], Distributions]:
        return _judge_case(by_case[case], configs[case], lock, wanted.get(case, ()))

    all_checks()  # loads them, here for all cases
    try:
        found = each(judged, list(by_case))
    except SvloadError:  # of several damaged trials the one is told that ran first
        for trial in trials:
            trial_cut(trial.unread(), configs[trial.summary.case])
        raise
    results = [result for of_case, _ in found for result in of_case]
    distributions = {key: one for _, of_case in found for key, one in of_case.items()}
    order = {case.name: number for number, case in enumerate(lock.cases)}
    results.sort(key=lambda result: (order.get(result.case, len(order)), result.replicate))
    own = [one for one in results if not made[one.trial].serves]  # a repeated partner serves its claims alone
    asked = {name: tuple(map(str, refs)) for name, refs in _asked(lock, configs).items()}
    cases = tuple(
        case_result(
            lock,
            case,
            configs.get(case.name),
            [one for one in own if one.case == case.name],
            asked.get(case.name, ()),
            distributions,
        )
        for case in lock.cases
    )
    aa = certificates.aa if certificates else None
    claims = judge_claims(lock, configs, results, made, aa, distributions)
    thresholds = threshold_results(configs, cases, _all_owners(lock))
    count = planned if planned is not None else len(lock.valid_cases) * lock.measure.replicates
    return Findings(
        analysis_version=ANALYSIS_VERSION,
        study=lock.name,
        question=lock.question,
        profile=lock.profile,
        floor=floor_told(aa),
        complete=len(results) >= count,
        planned_trials=count,
        sealed_trials=len(results),
        attempts=tuple(attempts),
        cases=cases,
        trials=tuple(results),
        claims=claims,
        thresholds=thresholds,
        findings=findings_of(
            lock, cases, results, claims, thresholds, load_effects(lock, configs, cases, results, made)
        ),
        environment=dict(environment or {}),
        instrument=certificates.instrument if certificates else None,
    )


def _judge_case(
    trials: Sequence[TrialData], config: CaseConfig, lock: Lock, extra: Sequence[MetricRef]
) -> tuple[list[TrialResult], Distributions]:
    """All trials of a case, with the cut that they have in common, and what is pooled over them later.

    That is each percentile that is compared, and each that a trial has too few requests for.
    """
    trials = [trial.unread() for trial in trials]
    window_ns = trials[-1].summary.window_ns
    cuts = case_cut([trial_cut(trial, config) for trial in trials], window_ns[1] - window_ns[0])
    results = [
        judge_trial(trial, config, lock=lock, cut=cut, extra=extra)
        for trial, cut in zip(trials, cuts, strict=True)
    ]
    owners = _owners(config, lock)
    compared = [metric_of(one.metric, config, owners) for one in lock.comparisons]
    heads = {f"{ref.owner}.{ref.metric.name}" for ref in compared if ref.stat and ref.stat.startswith("p")}
    heads |= {
        name.rpartition(".p")[0]
        for result in results
        for name, estimate in result.metrics.items()
        if estimate.why == "too few"
    }
    pooled: dict[tuple[str, str], Distribution] = {}
    for trial, cut in zip(trials, cuts, strict=True):
        pooled |= distributions_of(trial, config, kept_window(trial.summary, cut.cut_ns), heads)
    return results, pooled


def _wanted(lock: Lock, configs: Mapping[str, CaseConfig]) -> dict[str, list[MetricRef]]:
    """By case: the metrics that its thresholds and the study's claims name."""
    owners = _all_owners(lock)
    claims = metrics_of_claims(lock, configs)
    return {
        name: [criterion_of(text, config, owners).ref for text in config.thresholds] + claims.get(name, [])
        for name, config in configs.items()
    }


def _asked(lock: Lock, configs: Mapping[str, CaseConfig]) -> dict[str, tuple[MetricRef, ...]]:
    return {name: asked_of(lock, config, _owners(config, lock)) for name, config in configs.items()}


def _all_owners(lock: Lock) -> dict[str, Source]:
    return owners_of(lock.source)


def _owners(config: CaseConfig, lock: Lock | None) -> dict[str, Source]:
    return {**(_all_owners(lock) if lock else {}), **owners_of_case(config)}


def _place(trial: TrialData) -> tuple[int, int]:
    """(replicate, block): by the seal, else by the trial's name."""
    if trial.seal is not None:
        return trial.seal.replicate, trial.seal.block
    found = _REPLICATE.search(trial.summary.trial)
    number = int(found[1]) if found else 1
    return number, number


def _grades(
    asked: Iterable[MetricRef], metrics: Mapping[str, Estimate], beliefs: Beliefs
) -> dict[str, Grade]:
    """The grade of each number that is asked for; one that was not measured has that of what breaks the trial as a whole."""
    found: dict[str, Grade] = {}
    for name in map(str, asked):
        belief = metrics[name].belief if name in metrics else beliefs.of(name)
        found[name] = belief.grade if belief else "VALID"
    return found


def _verdict(
    trial: str, checks: Sequence[CheckResult], state: Any, told: Sequence[str], grades: Mapping[str, Grade]
) -> Verdict:
    """The trial's grade is that of the numbers asked for, and its reasons are the checks that doubt these."""
    doubts = [(worst(*(check.on(name) for name in grades)), check) for check in checks]
    wrong = sorted(((grade, check) for grade, check in doubts if grade != "VALID"), key=lambda one: one[0])
    return Verdict(
        trial=trial,
        instrument=worst(*grades.values()),
        server=state,
        reasons=(*(check.sentence for _, check in wrong), *told),
        checks=tuple(checks),
        remedy=next((check.remedy for _, check in wrong if check.remedy), ""),
    )


def _growing(metrics: dict[str, Estimate], groups: Sequence[str]) -> dict[str, Estimate]:
    """Percentiles of an overloaded group, marked: they grow with the run's length."""
    heads = tuple(
        f"{group}.{metric}." for group in groups for metric in ("response", "ok_response", "slot_wait")
    )
    return {
        name: estimate.model_copy(update={"reason": GROWS, "why": "grows"})
        if name.startswith(heads) and estimate.value is not None
        else estimate
        for name, estimate in metrics.items()
    }
