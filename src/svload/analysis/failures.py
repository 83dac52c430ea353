"""Failures: statuses, errors and checks by case and group, or step. Counts are judged whatever disturbed the
times: steal cannot invent a wrong status (docs/method.md §2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from svload.analysis import limits
from svload.analysis.criteria import criterion_of, metric_of
from svload.model.failures import FailureKind, Failures
from svload.model.metrics import Criterion, Source
from svload.model.request_errors import GENERATOR_LIMITS
from svload.model.results import Claim, GroupSummary, StepSummary, ThresholdResult, TrialSummary
from svload.model.study import CaseConfig
from svload.model.traffic import Group, Request, StatusCheck

OF_SUCCESS = frozenset({"success_rate", "error_rate", "failed"})
"""Metrics by which a study states how many failures it accepts."""


def failures_of(
    configs: Mapping[str, CaseConfig],
    summaries: Iterable[TrialSummary],
    thresholds: Sequence[ThresholdResult],
    claims: Sequence[Claim],
    owners: Mapping[str, Source],
    searched: bool = False,
) -> tuple[Failures, ...]:
    """Return every case's groups, or steps, with a failed request. `searched`: the run searched for a limit,
    so loads that fail are expected."""
    by_case: dict[str, list[TrialSummary]] = {}
    for one in summaries:
        by_case.setdefault(one.case, []).append(one)
    found = [row for name, config in configs.items() for row in _of_case(config, by_case.get(name, ()))]
    failed, kept = (_criteria(configs, owners, thresholds, outcome) for outcome in ("failed", "passed"))
    broken = {(name, one.ref.owner) for name, criteria in failed.items() for one in criteria}
    broken |= _broken_by_gates(configs, owners, claims)
    return tuple(
        row.model_copy(
            update={"beside": _beside(row, configs[row.case], broken, kept.get(row.case, ()), searched)}
        )
        for row in found
    )


def _criteria(
    configs: Mapping[str, CaseConfig],
    owners: Mapping[str, Source],
    thresholds: Iterable[ThresholdResult],
    outcome: str,
) -> dict[str, list[Criterion]]:
    """Return by case the study's criteria on success and errors that had this outcome."""
    found: dict[str, list[Criterion]] = {}
    for one in thresholds:
        if one.outcome == outcome and one.case in configs and any(name in one.that for name in OF_SUCCESS):
            criterion = criterion_of(one.that, configs[one.case], owners)
            if criterion.ref.metric.name in OF_SUCCESS:
                found.setdefault(one.case, []).append(criterion)
    return found


def _broken_by_gates(
    configs: Mapping[str, CaseConfig], owners: Mapping[str, Source], claims: Iterable[Claim]
) -> set[tuple[str, str]]:
    """Return (case, owner) of the treatments that failed a gate on success or errors."""
    return {
        (treatment, ref.owner)
        for claim in claims
        if claim.gate is not None and claim.gate.outcome == "fail"
        for _, treatment in claim.pairs
        if treatment in configs
        and (ref := metric_of(claim.metric, configs[treatment], owners)).metric.name in OF_SUCCESS
    }


def _beside(
    row: Failures, config: CaseConfig, broken: set[tuple[str, str]], kept: Sequence[Criterion], searched: bool
) -> str:
    if {(row.case, row.group), (row.case, row.owner)} & broken:
        return ""
    if searched:
        return "search"
    if config.faults:
        return "planned fault"
    if any(_allows(one, row) for one in kept):
        return "allowed"
    return "few" if row.ended - row.failed >= limits.SUCCESS_LEADS * row.ended else ""


def _allows(criterion: Criterion, row: Failures) -> bool:
    """Return whether a criterion that holds accepts these failures: one on the group covers a step where the
    step meets it too."""
    owner, name = criterion.ref.owner, criterion.ref.metric.name
    if criterion.level:
        return False
    if owner == row.owner:
        return True
    share = row.failed / row.ended
    return (
        owner == row.group
        and name != "failed"
        and criterion.holds(share if name == "error_rate" else 1 - share)
    )


def _of_case(config: CaseConfig, summaries: Sequence[TrialSummary]) -> Iterator[Failures]:
    for group in config.groups:
        mine = [(one.trial, part) for one in summaries for part in one.groups if part.name == group.name]
        for step, requests in _parts(group, [part for _, part in mine]):
            totals = [(trial, _total(part, step)) for trial, part in mine]
            counted = [(trial, one) for trial, one in totals if one is not None]
            row = _row(config.case.name, group.name, step, requests, counted, [part for _, part in mine])
            if row.failed:
                yield row


def _parts(group: Group, found: Sequence[GroupSummary]) -> Iterator[tuple[str, tuple[Request, ...]]]:
    """Return (step, its request) where the group has scenarios and every trial counted their steps; else the
    whole group."""
    names = {step.name for step in group.steps}
    if group.scenarios and found and all(names <= {one.name for one in part.steps} for part in found):
        yield from ((step.name, (step.request,)) for step in group.steps)
    else:
        yield "", group.requests


def _total(part: GroupSummary, step: str) -> GroupSummary | StepSummary | None:
    return next((one for one in part.steps if one.name == step), None) if step else part


def _row(
    case: str,
    group: str,
    step: str,
    requests: Sequence[Request],
    totals: Sequence[tuple[str, GroupSummary | StepSummary]],
    whole: Sequence[GroupSummary],
) -> Failures:
    status: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    for _, one in totals:
        status.update(one.status)
        errors.update(one.errors)
    head = f"{step}: " if step else ""
    for part in whole:
        failed = part.checks_failed.items()
        checks.update({name.removeprefix(head): count for name, count in failed if name.startswith(head)})
    own = sum(errors.pop(name, 0) for name in GENERATOR_LIMITS)
    return Failures(
        case=case,
        group=group,
        step=step,
        ended=sum(one.ok + one.failed for _, one in totals) - own,
        failed=sum(one.failed for _, one in totals) - own,
        trials=tuple(trial for trial, one in totals if one.failed),
        kinds=tuple(sorted(_kinds(requests, status, errors, checks), key=lambda kind: -kind.count)),
    )


def _kinds(
    requests: Sequence[Request], status: Mapping[str, int], errors: Counter[str], checks: Mapping[str, int]
) -> Iterator[FailureKind]:
    """Name the kinds: wrong statuses by their number, failed checks by their name, everything else by its
    error's name."""
    unexpected, failed_checks = errors.pop("status", 0), errors.pop("check", 0)
    answered = unexpected + failed_checks
    wrong = {
        code: count for code, count in status.items() if code.isdigit() and not _expected(requests, int(code))
    }
    expected = _expected_words(requests)
    for code, count in wrong.items() if answered else ():
        yield FailureKind(kind="status", name=code, count=min(count, answered), expected=expected)
    if unexpected and not wrong:
        yield FailureKind(kind="status", name="another status", count=unexpected, expected=expected)
    of_status = {one.name for request in requests for one in request.checks if isinstance(one, StatusCheck)}
    others = {name: count for name, count in checks.items() if count and name not in of_status}
    for name, count in others.items():
        yield FailureKind(kind="check", name=name, count=count)
    if failed_checks and not others and not wrong:
        yield FailureKind(kind="error", name="check", count=failed_checks)
    for name, count in errors.items():
        if count:
            yield FailureKind(kind="error", name=name, count=count)


def _expected(requests: Iterable[Request], status: int) -> bool:
    return any(
        any(low <= status <= high for low, high in request.expect_status)
        and all(low <= status <= high for low, high in _asked(request))
        for request in requests
    )


def _asked(request: Request) -> list[tuple[int, int]]:
    return [one.status for one in request.checks if isinstance(one, StatusCheck)]


def _expected_words(requests: Iterable[Request]) -> str:
    """Return `200` or `200 to 399`: what a status check asks for, else what the request expects."""
    ranges = [one for request in requests for one in (_asked(request) or request.expect_status)]
    texts = (str(low) if low == high else f"{low} to {high}" for low, high in ranges)
    return " or ".join(dict.fromkeys(texts))
