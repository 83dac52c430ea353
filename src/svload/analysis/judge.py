"""The way from sealed trials to findings: judge each trial, grade each of its numbers by what all checks
together conclude about it, summarise cases, decide criteria and claims (docs/method.md §2, §3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, get_args

from svload.analysis import limits
from svload.analysis.capacity.asked import capacity_of
from svload.analysis.cases import case_result, threshold_results
from svload.analysis.checks import Context, all_checks
from svload.analysis.checks.base import worst
from svload.analysis.claims.decide import judge_claims, metrics_of_claims
from svload.analysis.claims.pairs import Each, Known, in_turn, once
from svload.analysis.claims.turned import made_of, turned_of
from svload.analysis.criteria import criterion_of, metric_of, owners_of_case
from svload.analysis.curves.curve import load_curves
from svload.analysis.curves.trial_loads import group_loads, ramp_breaks, resources_used
from svload.analysis.disturbances import strangers_share, unread
from svload.analysis.evidence import evidence_of, saturated
from svload.analysis.explored import load_effects
from svload.analysis.failures import failures_of
from svload.analysis.limits import ANALYSIS_VERSION
from svload.analysis.measures import measure_trial
from svload.analysis.outages import healthy, of_all_requests, outages_of, whole_window
from svload.analysis.ranges import Ranges, effect
from svload.analysis.recovery import disturbing, fault_results, undisturbed
from svload.analysis.sentences import findings_of, floor_words, late_bodies, unlike_answers
from svload.analysis.series import CaseCut, Cut, case_cut, own_cut, settled_ns, stops_of
from svload.analysis.server import growing, overloaded_groups, saturated_levels, server_state
from svload.analysis.stages import stages_of
from svload.analysis.view import kept_window, look
from svload.model.certificates import Certificates
from svload.model.events import Event
from svload.model.facts import newest_programs
from svload.model.metrics import MetricRef, Source, is_timing
from svload.model.results import (
    Belief,
    CheckResult,
    Estimate,
    Findings,
    Grade,
    Harm,
    OwnVerdicts,
    TrialResult,
    Verdict,
)
from svload.model.study import CaseConfig, Lock
from svload.store import TrialData
from svload.study.check import owners_of

_REPLICATE = re.compile(r"\.r(\d+)$")


def judge_trial(
    trial: TrialData,
    config: CaseConfig,
    *,
    lock: Lock | None = None,
    cut: CaseCut | None = None,
    extra: Sequence[MetricRef] = (),
    server_cores: Sequence[int] = (),
    programs: Mapping[str, str] | None = None,
) -> TrialResult:
    """Return a trial's metrics and both verdicts.

    Without `cut` the verdict is provisional: it uses the trial's own warm-up cut, where the final one uses
    the case's. `lock` names owners of metrics that this case lacks; `extra` adds statistics beyond those that
    tables show; `server_cores` are those that the services are pinned to, if any; `programs` are the study's
    own as the run's last trials had them. Metrics are in base units.
    """
    outages = outages_of(trial, config)
    whole, trial = trial, healthy(trial, outages)
    cut = cut or case_cut([trial_cut(trial, config)], _settling_ns(trial))[0]
    window = kept_window(trial.summary, cut.cut_ns)
    groups = look(trial, config, window)
    owners = _owners(config, lock)
    asked = asked_of(lock, config, owners)
    wanted = (*extra, *asked)
    metrics = measure_trial(trial, config, window, wanted, groups)
    if trial is not whole:
        to_end = replace(window, last=max(whole_window(whole).last, window.last))
        of_all = measure_trial(whole, config, to_end, wanted, look(whole, config, to_end))
        metrics = {name: of_all[name] if of_all_requests(name) else one for name, one in metrics.items()}
    ranges = Ranges(trial, config, window, groups, metrics)
    before = look(trial, config, undisturbed(trial, window)) if disturbing(trial) else None
    shown = evidence_of(trial, window)
    uses = resources_used(trial, window, server_cores, shown)
    limited = saturated(shown, trial, window, uses, server_cores)
    read = any(use.verdict for use in shown.limits) or bool(uses)
    reached = limited if read else None
    context = Context(
        groups, metrics, cut, owners, ranges, before, reached, _compared_reuse(lock), programs or {}
    )
    checks = tuple(_checked(trial, whole, config, context))
    state, reasons = server_state(context, checks, limited, trial.lab.deaths)
    if state == "OVERLOADED":
        metrics = growing(metrics, overloaded_groups(context))
    beliefs = Beliefs(checks)
    metrics = beliefs.fill(metrics)
    checks = (*checks, *_combined(beliefs, checks, asked))
    replicate, block = _place(trial)
    return TrialResult(
        trial=trial.summary.trial,
        case=trial.summary.case,
        replicate=replicate,
        block=block,
        verdict=_verdict(trial.summary.trial, checks, state, reasons, _grades(asked, metrics, beliefs)),
        metrics=metrics,
        cut_ns=cut.cut_ns,
        deaths=tuple(death.sentence for death in trial.lab.deaths),
        outages=outages,
        stages=stages_of(trial, config, window),
        loads=group_loads(groups, metrics),
        uses=uses,
        breaks=ramp_breaks(config, groups),
        evidence=shown,
        faults=fault_results(trial, groups),
        strangers=strangers_share(trial.monitors, window),
        unread=tuple(unread(trial.monitors, trial.lab.services)),
    )


def _compared_reuse(lock: Lock | None) -> frozenset[str]:
    """Return the groups that use connections differently from level to level."""
    traffic = lock.source.get("traffic") if lock else None
    return frozenset(
        name
        for name, group in (traffic.items() if isinstance(traffic, dict) else ())
        if isinstance(group, dict) and "${" in str(group.get("connection", ""))
    )


def _checked(
    trial: TrialData, whole: TrialData, config: CaseConfig, context: Context
) -> Iterator[CheckResult]:
    """Run every check that applies to such a trial; for an imported one, mark those as unmeasured that read
    what only svload's own load records. `whole`: the trial including what followed the loss of its server."""
    imported = trial.summary.imported
    for check in all_checks():
        if imported is not None and check.of == "own":
            yield check.unmeasured(
                f"{imported.file} was written by {imported.tool}, whose results hold no facts for it"
            )
        elif imported is not None or check.of != "imported":
            yield check.judge(whole if check.of_totals else trial, config, context)


def trial_cut(trial: TrialData, config: CaseConfig) -> Cut:
    """Return a trial's own warm-up cut, from the window without ramps and before any planned fault."""
    if trial.summary.imported and trial.summary.imported.whole:
        return Cut(0, False, "the whole file is measured: nothing is cut")
    trial = healthy(trial, outages_of(trial, config), before_any=True)
    window = undisturbed(trial, kept_window(trial.summary))
    return own_cut(look(trial, config, window), stops_of(trial.monitors))


def _settling_ns(trial: TrialData) -> int:
    """Return how long a trial has to settle: the window without ramps, up to its first planned fault."""
    low_ns, high_ns = trial.summary.window_ns
    faults = disturbing(trial)
    end_ns = min((round((one.begun_s or 0.0) * 1e9) for one in faults), default=high_ns)
    return min(max(end_ns, low_ns), high_ns) - low_ns


def judge_trials(
    lock: Lock,
    configs: Mapping[str, CaseConfig],
    trials: Sequence[TrialData],
    *,
    server_cores: Sequence[int] = (),
    each: Each = in_turn,
    known: Known | None = None,
) -> list[TrialResult]:
    """Judge every trial with its final verdict, by case and replicate. Arguments as in `judge_run`."""
    wanted = _wanted(lock, configs)
    programs = newest_programs(
        (trial.seal.sealed_wall, trial.lab.programs) for trial in trials if trial.seal is not None
    )
    kept: Known = {} if known is None else known

    def cut(trial: TrialData) -> Cut:
        return once(kept, "cut", trial, lambda one: trial_cut(one, configs[one.summary.case]))

    def judged(one: tuple[TrialData, CaseCut]) -> TrialResult:
        trial, of_case = one
        case, key = trial.summary.case, ("judged", trial.summary.trial)
        if key not in kept or kept[key][:2] != (of_case, programs):
            result = judge_trial(
                trial.unread(),
                configs[case],
                lock=lock,
                cut=of_case,
                extra=wanted.get(case, ()),
                server_cores=server_cores,
                programs=programs,
            )
            kept[key] = of_case, programs, result
        found: TrialResult = kept[key][2]
        return found

    all_checks()  # load them once for all trials
    own: dict[str, list[Cut]] = {}
    for trial, one in zip(trials, each(cut, trials), strict=True):
        own.setdefault(trial.summary.case, []).append(one)
    settling_ns = {trial.summary.case: _settling_ns(trial) for trial in trials}
    cuts = {case: iter(found) for case, found in matched_cuts(own, settling_ns, lock).items()}
    results = each(judged, [(trial, next(cuts[trial.summary.case])) for trial in trials])
    order = {case.name: number for number, case in enumerate(lock.cases)}
    results.sort(key=lambda result: (order.get(result.case, len(order)), result.replicate))
    return results


def matched_cuts(
    own: Mapping[str, Sequence[Cut]], windows_ns: Mapping[str, int], lock: Lock
) -> dict[str, list[CaseCut]]:
    """Return each case's cut; cases of equal length that a study compares share one: otherwise the two sides
    of equal servers would be read over different times."""
    slowest: dict[int, int] = {}
    for case, cuts in own.items() if lock.comparisons else ():
        settled = settled_ns(cuts, windows_ns[case]) or 0
        slowest[windows_ns[case]] = max(slowest.get(windows_ns[case], 0), settled)
    return {
        case: case_cut(cuts, windows_ns[case], slowest.get(windows_ns[case], 0)) for case, cuts in own.items()
    }


def sealed_at(trials: Iterable[TrialData]) -> dict[str, float]:
    """Return when each trial was sealed, in Unix time (s); unsealed trials are left out."""
    return {one.trial: one.seal.sealed_wall for one in trials if one.seal is not None}


def judge_run(
    lock: Lock,
    configs: Mapping[str, CaseConfig],
    trials: Iterable[TrialData],
    *,
    planned: int | None = None,
    attempts: Sequence[dict[str, Any]] = (),
    certificates: Certificates | None = None,
    environment: Mapping[str, str] | None = None,
    server_cores: Sequence[int] = (),
    begun_s: float | None = None,
    each: Each = in_turn,
    known: Known | None = None,
) -> Findings:
    """Return all findings from sealed trials under `lock`. `configs` holds each valid case's configuration,
    `planned` the number of trials in the plan, `certificates` what is known of the instrument and of the
    lab's own noise, `environment` the machine in words; `server_cores` are those that the services are pinned
    to, if any; `begun_s`: when the run had the machine for itself, Unix time.

    A trial is one piece of work; `each` runs these. Tables on disk are in memory only that long. To
    judge more trials of the same run later, pass the same `known`.
    """
    trials = [trial for trial in trials if trial.summary.case in configs]
    known = {} if known is None else known
    _read_turns(lock, configs, trials, each, known)
    made = made_of(trials, configs, metrics_of_claims(lock, configs), each=each, known=known)
    results = judge_trials(lock, configs, trials, server_cores=server_cores, each=each, known=known)
    asked = {name: tuple(map(str, asked_of(lock, one, _owners(one, lock)))) for name, one in configs.items()}
    cases = tuple(
        case_result(
            case,
            configs.get(case.name),
            [one for one in results if one.case == case.name],
            asked.get(case.name, ()),
            [trial.summary for trial in trials if trial.summary.case == case.name],
        )
        for case in lock.cases
    )
    curves = load_curves(lock, configs, cases, results)
    cases, results = saturated_levels(curves, cases, results)
    aa = certificates.aa if certificates else None
    claims = judge_claims(lock, configs, results, made, aa)
    thresholds = threshold_results(configs, cases, owners_of(lock.source), results)
    capacity = capacity_of(lock, results, sealed_at(trials), begun_s)
    summaries = [trial.summary for trial in trials]
    failures = failures_of(
        configs, summaries, thresholds, claims, owners_of(lock.source), searched=capacity is not None
    )
    count = planned if planned is not None else sum(one.measure.replicates for one in configs.values())
    return Findings(
        analysis_version=ANALYSIS_VERSION,
        study=lock.name,
        question=lock.question,
        profile=lock.profile,
        floor=floor_words(aa),
        complete=len(results) >= count and (capacity is None or capacity.ended),
        planned_trials=count,
        sealed_trials=len(results),
        attempts=tuple(attempts),
        cases=cases,
        trials=tuple(results),
        claims=claims,
        thresholds=thresholds,
        failures=failures,
        curves=curves,
        capacity=capacity,
        findings=findings_of(
            lock,
            cases,
            results,
            (
                *unlike_answers(claims, summaries),
                *load_effects(lock, configs, cases, results, made),
                *late_bodies(configs, results),
            ),
            curves,
            capacity,
        ),
        environment=dict(environment or {}),
        instrument=certificates.instrument if certificates else None,
    )


def _read_turns(
    lock: Lock, configs: Mapping[str, CaseConfig], trials: Sequence[TrialData], each: Each, known: Known
) -> None:
    """Find the own cut of each trial that took turns, and what these showed, in one reading of its tables."""
    claims = metrics_of_claims(lock, configs)

    def found(trial: TrialData) -> tuple[Cut, Any]:
        once_read, case = trial.unread(), trial.summary.case
        turned = turned_of(once_read, configs[case], claims.get(case, ()))
        return trial_cut(once_read, configs[case]), turned

    new = [one for one in trials if one.summary.turns is not None and ("cut", one.trial) not in known]
    for trial, (cut, turned) in zip(new, each(found, new), strict=True):
        known["cut", trial.trial], known["turned", trial.trial] = cut, turned


def _wanted(lock: Lock, configs: Mapping[str, CaseConfig]) -> dict[str, list[MetricRef]]:
    """Return by case the metrics that its thresholds and the study's claims name."""
    owners = owners_of(lock.source)
    claims = metrics_of_claims(lock, configs)
    return {
        name: [criterion_of(text, config, owners).ref for text in config.thresholds] + claims.get(name, [])
        for name, config in configs.items()
    }


def _owners(config: CaseConfig, lock: Lock | None) -> dict[str, Source]:
    return {**(owners_of(lock.source) if lock else {}), **owners_of_case(config)}


def _place(trial: TrialData) -> tuple[int, int]:
    """Return (replicate, block): from the seal, else from the trial's name."""
    if trial.seal is not None:
        return trial.seal.replicate, trial.seal.block
    found = _REPLICATE.search(trial.summary.trial)
    number = int(found[1]) if found else 1
    return number, number


def _grades(
    asked: Iterable[MetricRef], metrics: Mapping[str, Estimate], beliefs: Beliefs
) -> dict[str, Grade]:
    """Return the grade of each number that is asked for; for one that was not measured, that of what breaks
    the whole trial."""
    found: dict[str, Grade] = {}
    for name in map(str, asked):
        belief = metrics[name].belief if name in metrics else beliefs.of(name)
        found[name] = belief.grade if belief else "VALID"
    return found


def _combined(
    beliefs: Beliefs, checks: Sequence[CheckResult], asked: Iterable[MetricRef]
) -> Iterator[CheckResult]:
    """Yield a result for the numbers asked for that are WEAK only by the sum of what several checks report."""
    found = {name: belief for name in map(str, asked) if (belief := beliefs.of(name)) is not None}
    alone = {name for name in found for check in checks if check.on(name) != "VALID"}
    harms = [
        Harm(number=name, grade="WEAK", below=belief.below, above=belief.above)
        for name, belief in found.items()
        if belief.grade == "WEAK" and name not in alone
    ]
    if harms:
        names = dict.fromkeys(doubt for one in harms for doubt in found[one.number].doubts)
        yield CheckResult(
            check="combined",
            grade="WEAK",
            sentence=f"Each within 5 %, several effects add up ({', '.join(names)}). {effect(harms)}",
            remedy="Measure when the machine is quieter.",
            harms=tuple(harms),
        )


def _verdict(
    trial: str, checks: Sequence[CheckResult], state: Any, reasons: Sequence[str], grades: Mapping[str, Grade]
) -> Verdict:
    """Give the trial the grade of the numbers asked for; its reasons are the checks that doubt these."""
    doubts = [(worst(*(check.on(name) for name in grades)), check) for check in checks]
    wrong = sorted(((grade, check) for grade, check in doubts if grade != "VALID"), key=lambda one: one[0])
    return Verdict(
        trial=trial,
        instrument=worst(*grades.values()),
        server=state,
        reasons=(*(check.sentence for _, check in wrong), *reasons),
        checks=tuple(checks),
        remedy=next((check.remedy for _, check in wrong if check.remedy), ""),
    )


def own_verdicts(events: Iterable[Event]) -> OwnVerdicts | None:
    """Return the verdicts in a run's journal; None where today's rules judged, or where the journal does not
    name the rules."""
    trials: dict[str, Any] = {}
    versions = set()
    for event in events:
        grade, version = event.text("instrument"), event.data.get("analysis_version")
        if event.kind == "trial-sealed" and grade in get_args(Grade) and isinstance(version, int):
            trials[event.text("trial")] = grade
            versions.add(version)
    versions.discard(ANALYSIS_VERSION)
    return OwnVerdicts(version=max(versions), trials=trials) if versions else None


_KINDS = ("all", "timing")
_ORDER: Mapping[Grade, int] = {"REFUSED": 0, "WEAK": 1, "VALID": 2}
_WITHOUT_QUESTION = ("response.p50", "throughput", "success_rate")

CheckHarm = tuple[CheckResult, Harm]


class Beliefs:
    """The conclusions of a trial's checks about its numbers."""

    def __init__(self, checks: Iterable[CheckResult]) -> None:
        self._exact: dict[str, list[CheckHarm]] = {}
        self._kinds: list[CheckHarm] = []
        for check in checks:
            for harm in check.harms:
                if harm.number in _KINDS:
                    self._kinds.append((check, harm))
                else:
                    self._exact.setdefault(harm.number, []).append((check, harm))
        self._of_kind = {timing: self._of_checks(timing) for timing in (False, True)}

    def _of_checks(self, timing: bool) -> tuple[list[CheckHarm], Belief | None]:
        chosen = [one for one in self._kinds if timing or one[1].number == "all"]
        return chosen, united(chosen)

    def of(self, number: str) -> Belief | None:
        """Return the belief for one number by its full name; None where no check doubts or bounds it."""
        general, belief = self._of_kind[is_timing(number)]
        exact = self._exact.get(number, [])
        return united([*general, *exact]) if exact else belief

    def fill(self, metrics: Mapping[str, Estimate]) -> dict[str, Estimate]:
        """Return the same estimates with their beliefs filled in."""
        return {
            name: estimate
            if (belief := self.of(name)) is None
            else estimate.model_copy(update={"belief": belief})
            for name, estimate in metrics.items()
        }


def united(beliefs: Sequence[CheckHarm]) -> Belief | None:
    """Combine the conclusions of several checks about one number: add their ranges, and grade the sum. A
    REFUSED number has no range; one with a doubt of unknown size has the widest."""
    if not beliefs:
        return None
    ranked = sorted((one for one in beliefs if one[1].grade != "VALID"), key=lambda one: _ORDER[one[1].grade])
    doubts = tuple(dict.fromkeys(check.check for check, _ in ranked))
    if ranked and ranked[0][1].grade == "REFUSED":
        return Belief(grade="REFUSED", below=None, above=None, doubts=doubts)
    below, above = (
        min(sum(widest if one is None else one for one in side), widest)
        for side, widest in zip(
            ([harm.below for _, harm in beliefs], [harm.above for _, harm in beliefs]),
            limits.WIDEST,
            strict=True,
        )
    )
    wide = max(below, above) > limits.OFF
    return Belief(
        grade="WEAK" if wide else "VALID",
        below=below,
        above=above,
        doubts=doubts or (tuple(dict.fromkeys(check.check for check, _ in beliefs)) if wide else ()),
    )


def asked_of(lock: Lock | None, config: CaseConfig, owners: Mapping[str, Source]) -> tuple[MetricRef, ...]:
    """Return the numbers that a study asks for in a case: those of its comparisons, thresholds and
    expectations, or of a search.

    Where it asks for none, return the median, the throughput and the success of the main group.
    """
    refs = [metric_of(one.metric, config, owners) for one in (lock.comparisons if lock else ())]
    searched = lock.search if lock else None
    for text in (*config.thresholds, *config.expects, *(searched.that if searched else ())):
        with suppress(ValueError):  # a trial judged without its lock may name owners that its case lacks
            refs.append(criterion_of(text, config, owners).ref)
    if searched is not None and searched.gain is not None:
        refs.append(metric_of(f"{config.main_group}.ok_throughput", config, owners))
    if not refs:
        refs = [metric_of(f"{config.main_group}.{name}", config, owners) for name in _WITHOUT_QUESTION]
    return tuple({str(ref): ref for ref in refs}.values())
