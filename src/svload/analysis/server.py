"""The server's verdict: STEADY, SATURATED, OVERLOADED or UNKNOWN. It is a finding about the server, never a
refusal (docs/method.md §3).

Open loop: OVERLOADED where the backlog (due and not completed) grows over the kept window by more than 5 % of
what was due while the generator is clean; SATURATED where it keeps up but half of the median response is
waiting for a slot; else STEADY. Closed loop: users wait for their answers, so no backlog builds up before the
server: STEADY where response and throughput do not drift, else UNKNOWN. In either loop visible waves are no
steady state. Either loop is SATURATED where a server's own monitors show it at a limit: all its workers at
work and requests waiting for one, its maximum of threads reached, sessions dropped, an accept queue of its
own overflowing, its CPU quota or a core of the servers used to 95 %; what no monitor offers cannot be
detected. Throughput that stays flat while load rises is detected over cases (`saturated_levels`). Load in
stages, or a fixed amount of work, seeks no steady state, and where most requests failed none was seen:
UNKNOWN unless it is OVERLOADED. A trial with several groups has the worst of their states. A limited server
that died in the trial, as the study expects (`on_death: finding`), is OVERLOADED whatever the load. Where the
study plans faults, the state is that before the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
from numpy.typing import ArrayLike

from svload.analysis import limits
from svload.analysis.checks import Context
from svload.analysis.inference import bin_means
from svload.analysis.laws.levels import Floats
from svload.analysis.series import backlog_grows, backlog_growth, response_series, throughput_series
from svload.analysis.view import GroupView
from svload.model.executors import ClosedLoop
from svload.model.facts import Death
from svload.model.load_curve import LoadCurve
from svload.model.results import CaseResult, CheckResult, Estimate, ServerState, TrialResult
from svload.model.units import show_duration, show_number, show_percent

_GROWS = "grows with run length"
_GROWING = ("response.", "ok_response.", "slot_wait.")
"""Times of an overloaded group that grow with the run's length."""
WAITS = "more than half of the median response time is waiting for a free slot"
_SEVERITY: tuple[ServerState, ...] = ("STEADY", "UNKNOWN", "SATURATED", "OVERLOADED")
_CLEAN = ("generator-harm", "accounting")


def most_severe(states: Iterable[ServerState]) -> ServerState:
    """Return the most severe: OVERLOADED before SATURATED before UNKNOWN before STEADY."""
    return max(states, key=_SEVERITY.index, default="UNKNOWN")


def server_state(
    context: Context,
    checks: Iterable[CheckResult],
    at_limit: tuple[str, ...] = (),
    deaths: Sequence[Death] = (),
) -> tuple[ServerState, tuple[str, ...]]:
    """Return (state, sentences for anything but STEADY). `at_limit`: clauses of `evidence.saturated`."""
    if deaths:
        return "OVERLOADED", tuple(death.sentence for death in deaths)
    medians = [f"{group.name}.response.p50" for group in context.groups]
    clean = [check for check in checks if check.check in _CLEAN]
    if any(check.on(median) == "REFUSED" for check in clean for median in medians):
        return "UNKNOWN", (
            "Whether the server was saturated is unknown: svload's own load was not as requested.",
        )
    found = [_state(group, context) for group in context.calm]
    if at_limit and any(group.shape == "constant" for group in context.calm):
        found.append(("SATURATED", f"The server works at its limit: {'; '.join(at_limit)}."))
    state = most_severe(state for state, _ in found)
    return state, tuple(sentence for of, sentence in found if sentence and of == state)


def overloaded_groups(context: Context) -> list[str]:
    """Return the groups with a backlog that grows beyond the limit, whatever was taken from their servers:
    their percentiles grow with the run's length."""
    return [group.name for group in context.calm if context.ranges.overloads(group)]


def growing(metrics: Mapping[str, Estimate], groups: Sequence[str]) -> dict[str, Estimate]:
    """Mark the percentiles of overloaded groups: they grow with the run's length."""
    heads = tuple(f"{group}.{metric}" for group in groups for metric in _GROWING)
    return {
        name: estimate.model_copy(update={"reason": _GROWS, "why": "grows"})
        if name.startswith(heads) and estimate.value is not None
        else estimate
        for name, estimate in metrics.items()
    }


def _state(group: GroupView, context: Context) -> tuple[ServerState, str]:
    failed = int(group.intervals["failed"].sum())
    if failed > limits.MOSTLY_FAILED * (failed + group.ok) and not backlog_grows(group):
        share = 100 * failed / (failed + group.ok)
        return (
            "UNKNOWN",
            f"{group.name}: {share:.3g} % of its requests failed, so the server's state is unknown.",
        )
    return _closed(group, context) if group.closed else _open(group, context)


def _open(group: GroupView, context: Context) -> tuple[ServerState, str]:
    if (taken := context.ranges.unsure_overload(group)) is not None:
        return "UNKNOWN", (
            f"{group.name}: the backlog grew by {show_percent(backlog_growth(group)[0])} of the due requests while up to "
            f"{show_percent(taken, 2)} of its servers' time went to other programs or was lost with the "
            "machine: whether they would keep up without that is unknown."
        )
    if backlog_grows(group):
        return "OVERLOADED", (
            f"{group.name}: the backlog grew by {show_percent(backlog_growth(group)[0])} of the due requests "
            "while the generator was on time: the server can't keep up, and its percentiles grow with the run's length."
        )
    if group.shape != "constant":
        return _unsought(group)
    if waits_for_slots(group.name, context.metrics):
        return "SATURATED", f"{group.name}: {WAITS}."
    return _swinging(group) or ("STEADY", "")


def waits_for_slots(group: str, metrics: Mapping[str, Estimate]) -> bool:
    """Return whether an open loop's arrivals wait for a free slot for most of their response."""
    wait, response = (_value(metrics, f"{group}.{name}.p50") for name in ("slot_wait", "response"))
    return bool(wait and response and wait > limits.SLOTS_FULL * response)


def _swinging(group: GroupView) -> tuple[ServerState, str] | None:
    """Return UNKNOWN where response, or a closed loop's throughput, goes up and down in waves."""
    cycles = _cycles(group)
    points = POINTS if cycles is None else min(POINTS, int(cycles / limits.WAVE_POINT))
    waves = {"response": wave_in(response_series(group)[1], points)}
    if cycles is not None:
        waves["throughput"] = wave_in(throughput_series(group), *of_cycles(cycles))
    for name, wave in waves.items():
        if wave is not None:
            period = show_duration(group.window.seconds / wave.cycles)
            return "UNKNOWN", (
                f"{group.name}: {name} swings by ±{show_percent(wave.amplitude, 2)} every {period}, so the server was not "
                "in a steady state."
            )
    return None


def _cycles(group: GroupView) -> float | None:
    """Return how many cycles each user of a closed loop went through, on average; None for an open one."""
    executor = group.spec.executor
    if not isinstance(executor, ClosedLoop):
        return None
    completed = int((group.intervals["completed_ok"] + group.intervals["completed_failed"]).sum())
    return completed / executor.most_vus


def _unsought(group: GroupView) -> tuple[ServerState, str]:
    what = "load in stages" if group.shape == "ramping" else "a fixed amount of work"
    return "UNKNOWN", f"{group.name}: {what} has no steady state."


def _closed(group: GroupView, context: Context) -> tuple[ServerState, str]:
    if group.shape != "constant":
        return _unsought(group)
    drifting = [
        what for what, one in context.drifts.items() if one.unsteady and what.startswith(f"{group.name}.")
    ]
    if drifting:
        return "UNKNOWN", f"{', '.join(drifting)} drifts, so the server was not in a steady state."
    return _swinging(group) or ("STEADY", "")


def _value(metrics: Mapping[str, Estimate], name: str) -> float | None:
    estimate = metrics.get(name)
    return estimate.value if estimate else None


def saturated_levels(
    curves: Sequence[LoadCurve], cases: Sequence[CaseResult], trials: Sequence[TrialResult]
) -> tuple[tuple[CaseResult, ...], list[TrialResult]]:
    """Return cases and trials with what levels show about them: one that is STEADY at a load at which
    throughput is flat while response rises is SATURATED."""
    texts = {
        point.case: (
            f"{curve.group}: throughput stays at {show_number(point.throughput_rps, 4)}/s while {curve.factor} and "
            "response time rise: the server works at its limit."
        )
        for curve in curves
        for point in curve.points
        if point.flat
    }

    def seen(trial: TrialResult) -> TrialResult:
        verdict = trial.verdict
        if trial.case not in texts or verdict.server != "STEADY":
            return trial
        found = verdict.model_copy(
            update={"server": "SATURATED", "reasons": (*verdict.reasons, texts[trial.case])}
        )
        return trial.model_copy(update={"verdict": found})

    changed = tuple(
        case.model_copy(update={"server": "SATURATED"})
        if case.case in texts and case.server == "STEADY"
        else case
        for case in cases
    )
    return changed, [seen(trial) for trial in trials]


POINTS = 60
"""The most points that the page draws of a line over time."""
_LEAST_POINTS = 20
_MOST_RHO = 0.95


@dataclass(frozen=True)
class Wave:
    """A wave: its `amplitude` over the median, to either side; its number of `cycles` in the window."""

    amplitude: float
    cycles: int


def of_cycles(cycles: float) -> tuple[int, float]:
    """Return (points, least amplitude) for completions of users who go through this many cycles each.

    The stretch between two edges holds one cycle of a user more or less, and of all users where they are in
    step: a count swings by that much without the server's help, one over the cycles of a point. So points are
    long, where cycles allow it.
    """
    points = min(POINTS, max(int(cycles * limits.WAVES), _LEAST_POINTS), int(cycles / limits.WAVE_POINT))
    return points, max(limits.WAVES, points / max(cycles, 1.0))


def wave_in(values: ArrayLike, points: int = POINTS, least: float = limits.WAVES) -> Wave | None:
    """Find the wave of evenly spaced values, on this many means of them (as the page draws), with at least
    this amplitude; None where there is none, or there are too few values.

    Fisher's test for the largest ordinate of a periodogram (1929), relative to the spectrum of an AR(1) with
    the same autocorrelation. Queues that wander without a period do not count.
    """
    x = np.asarray(values, dtype=float)
    if not _LEAST_POINTS <= points <= len(x):
        return None
    y = bin_means(x, points)
    middle = float(np.median(y))
    if middle <= 0:
        return None
    at = np.arange(points)
    y = y - np.polyval(np.polyfit(at, y, 1), at)
    spectrum = np.fft.rfft(y)[1 : (points + 1) // 2]
    power = np.abs(spectrum) ** 2
    cycles = int(np.argmax(power)) + 1
    amplitude = 2 * sqrt(float(power[cycles - 1])) / points / middle
    if amplitude < least or cycles < limits.WAVE_CYCLES:
        return None
    whitened = power / _remembered(y, spectrum[cycles - 1], cycles)
    share = float(whitened[cycles - 1] / whitened.sum())
    return Wave(amplitude, cycles) if _fisher_p(share, len(power)) < limits.WAVES_P else None


def _remembered(y: Floats, line: complex, cycles: int) -> Floats:
    """Return the spectrum of an AR(1) with the lag-1 correlation of what remains without the line."""
    points = len(y)
    turn = 2 * np.pi * cycles * np.arange(points) / points
    rest = y - 2 / points * (line.real * np.cos(turn) - line.imag * np.sin(turn))
    spread = float((rest**2).sum())
    rho = float((rest[1:] * rest[:-1]).sum()) / spread if spread > 0 else 0.0
    rho = min(max(rho + (1 + 4 * max(rho, 0.0)) / points, 0.0), _MOST_RHO)
    frequency = 2 * np.pi * np.arange(1, (points + 1) // 2) / points
    return np.asarray(1 / (1 + rho**2 - 2 * rho * np.cos(frequency)))


def _fisher_p(share: float, ordinates: int) -> float:
    """Return the chance that the largest of this many ordinates of noise has at least this share of their
    sum."""
    terms = range(1, min(ordinates, int(1 / share)) + 1)
    total: float = sum(
        (-1) ** (j - 1) * comb(ordinates, j) * max(1 - j * share, 0.0) ** (ordinates - 1) for j in terms
    )
    return min(max(total, 0.0), 1.0)
