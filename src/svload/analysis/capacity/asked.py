"""What a run's lock asks of a search, the next step or the answer from its judged trials, and the answer as
findings keep it: the limit with its interval, every load, every trial in order, and a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, isfinite, log
from statistics import geometric_mean, mean
from types import MappingProxyType
from typing import Literal

from svload.analysis.capacity.readings import Measured, as_measured, gone_from, is_unanswered, measured
from svload.analysis.capacity.search import (
    Answer,
    Progress,
    Reading,
    Search,
    Step,
    answer,
    budget_of,
    next_step,
)
from svload.analysis.criteria import criterion_of
from svload.model.capacity import (
    CapacityGate,
    CapacityLevel,
    CapacityResult,
    CapacityTrial,
    GainStep,
    SearchState,
    noun_of,
)
from svload.model.results import Finding, TrialResult
from svload.model.study import CapacitySearch, Lock
from svload.model.units import show_percent
from svload.study import resolve

SealedAt = Mapping[str, float]
"""Trial → when it was sealed, in Unix time (s)."""
UNTIMED: SealedAt = MappingProxyType({})
APART = 1.25
"""The ratio of the upper load of a step to the lower one, where a gain is asked for."""


def next_of(
    lock: Lock, results: Sequence[TrialResult], sealed_s: SealedAt = UNTIMED, begun_s: float | None = None
) -> Step | Answer:
    """Return the next loads, or the answer; `results` in the order they ran. The lock must ask for a
    search."""
    asked = lock.search
    assert asked is not None
    if gone := gone_words(results):
        return answer(progress_of(lock, results), gone)
    step = next_step(search_of(lock, results, sealed_s, begun_s), readings_of(lock, results))
    if isinstance(step, Step) and asked.gain is not None:
        pairs = tuple(load for low in step.loads for load in (low, above(low, asked)))
        return Step(pairs, step.because)
    return step


def search_of(
    lock: Lock,
    results: Sequence[TrialResult] = (),
    sealed_s: SealedAt = UNTIMED,
    begun_s: float | None = None,
) -> Search:
    """Return the search in the form that `search` takes."""
    asked = lock.search
    assert asked is not None
    budget = budget_of(asked, [sealed_s.get(one.trial) for one in results], begun_s)
    if asked.gain is None:
        return Search(asked.least, asked.most, asked.start, asked.tolerance, budget, lock.seed)
    most = max(int(asked.most / APART), asked.least)
    return Search(asked.least, most, min(asked.start, most), asked.tolerance, budget, lock.seed, 2)


def progress_of(lock: Lock, results: Sequence[TrialResult]) -> Progress:
    """Return the progress that these trials show."""
    return Progress(search_of(lock), readings_of(lock, results))


def readings_of(lock: Lock, results: Sequence[TrialResult]) -> list[Reading]:
    """Return a reading of each trial, or of each step of two where a gain is asked for."""
    if lock.search is not None and lock.search.gain is not None:
        wanted = lock.search.gain
        return [
            Reading(low, None if step is None else step.gain - wanted) for low, step in _pairs(lock, results)
        ]
    return [one.reading for one in measured_of(lock, results)]


def measured_of(lock: Lock, results: Sequence[TrialResult]) -> list[Measured]:
    """Return what each trial says about the criteria."""
    config = resolve(lock, lock.valid_cases[0])
    criteria = [criterion_of(text, config) for text in lock.search.that] if lock.search else []
    group = next(one for one in config.groups if one.name == config.main_group)
    return [
        Measured(Reading(load_of(lock, one), None), lacks="the server was gone")
        if is_lost
        else measured(one, criteria, load_of(lock, one), group.longest_timeout_ns / 1e9)
        for one, is_lost in zip(results, _lost(results), strict=True)
    ]


def gone_words(results: Sequence[TrialResult]) -> str:
    """Return since when the server is gone; empty where it answered the last trial."""
    if (place := gone_from(results)) is None:
        return ""
    first = results[place]
    ends = next((one for one in first.outages if one.until_s is None), None)
    at = f"{ends.since_s:.1f} s of {first.trial}" if ends is not None else f"the end of {first.trial}"
    return f"server gone since {at} (connections refused until the search ended)"


def _lost(results: Sequence[TrialResult]) -> list[bool]:
    """Return the trials that carry no information about their load, since the server was gone."""
    place = gone_from(results)
    return [is_unanswered(one) or (place is not None and at >= place) for at, one in enumerate(results)]


def steps_of(lock: Lock, results: Sequence[TrialResult]) -> list[GainStep]:
    """Return every step up with both rates known, in the order they ran."""
    return [step for _, step in _pairs(lock, results) if step is not None]


def _pairs(lock: Lock, results: Sequence[TrialResult]) -> list[tuple[int, GainStep | None]]:
    lost = {one.trial: is_lost for one, is_lost in zip(results, _lost(results), strict=True)}
    found: list[tuple[int, GainStep | None]] = []
    for pair in _whole_pairs(results):
        low, high = (load_of(lock, one) for one in pair)
        low_rps, high_rps = (None if lost[one.trial] else rate_of(lock, one) for one in pair)
        step = None
        if low_rps and high_rps and high > low:
            gain = log(high_rps / low_rps) / log(high / low)
            step = GainStep(low_load=low, high_load=high, gain=gain, low_rps=low_rps, high_rps=high_rps)
        found.append((low, step))
    return found


def _whole_pairs(results: Sequence[TrialResult]) -> list[tuple[TrialResult, TrialResult]]:
    """Return both trials of every step up, without steps of which one was given up or is not made yet. Each
    trial is a block of its own, and the lower load of a step has the odd number."""
    of_block = {one.block: one for one in results}
    return [
        (low, of_block[block + 1]) for block, low in of_block.items() if block % 2 and block + 1 in of_block
    ]


def above(load: int, asked: CapacitySearch) -> int:
    """Return the upper load of the step up from this one."""
    return min(max(ceil(load * APART), load + 1), asked.most)


def rate_of(lock: Lock, result: TrialResult) -> float | None:
    """Return its ok completions a second."""
    estimate = result.metrics.get(f"{resolve(lock, lock.valid_cases[0]).main_group}.ok_throughput")
    return as_measured(estimate) if estimate is not None else None


def load_of(lock: Lock, result: TrialResult) -> int:
    """Return the load of a trial of a search, from the name of its case."""
    assert lock.search is not None
    return int(result.case.removeprefix(f"{lock.search.over}-"))


def case_name(over: str, load: int) -> str:
    """Return the case of a load."""
    return f"{over}-{load}"


_MUCH = 0.1
STATE_WORDS: Mapping[SearchState, str] = {
    "searching": "still running",
    "found": "95 % interval",
    "above": "above the largest allowed load",
    "below": "below the smallest allowed load",
    "undecided": "undecided",
}


def capacity_of(
    lock: Lock, results: Sequence[TrialResult], sealed_s: SealedAt = UNTIMED, begun_s: float | None = None
) -> CapacityResult | None:
    """Return what a search has found so far; None where the lock asks for none. `sealed_s` and `begun_s`
    determine how much of its time is left."""
    asked = lock.search
    if asked is None:
        return None
    ordered = sorted(results, key=lambda one: one.block)
    step = next_of(lock, ordered, sealed_s, begun_s)
    now = progress_of(lock, ordered)
    found = step if isinstance(step, Answer) else answer(now)
    limit = found.limit
    result = CapacityResult(
        over=asked.over,
        that=asked.that,
        gain=asked.gain,
        least=asked.least,
        most=asked.most,
        ended=isinstance(step, Answer),
        state=found.state if isinstance(step, Answer) else "searching",
        limit=None if limit is None else limit.value,
        low=found.held if limit is None else floor(limit.low),
        high=found.broke if limit is None else ceil(limit.high),
        width=None if limit is None else limit.width,
        drift=0.0 if limit is None else limit.drift,
        levels=() if asked.gain is not None else tuple(_levels(lock, ordered)),
        steps=tuple(steps_of(lock, ordered)) if asked.gain is not None else (),
        trials=tuple(_trials(lock, ordered)),
        why_open=found.why,
        sentence="",
    )
    sentence = _sentence(asked, result, now, step)
    if (gone := gone_words(ordered)) and gone not in sentence:
        sentence += f" The search ended early: {gone}."
    result = result.model_copy(update={"sentence": sentence})
    return result.model_copy(update={"gate": gate_of(asked.at_least, result)})


def capacity_finding(found: CapacityResult | None) -> list[Finding]:
    """Return the answer as a finding, with the loads nearest to the limit as evidence."""
    if found is None:
        return []
    near = sorted(found.levels, key=lambda one: abs(one.load - (found.limit or found.high or found.low or 0)))
    gate = [found.gate.sentence] if found.gate else []
    return [
        Finding(
            kind="capacity",
            sentence=" ".join([found.sentence, *gate]),
            evidence=tuple(f"cases/{one.case}" for one in near[:2]),
            certainty=STATE_WORDS[found.state],
        )
    ]


def _trials(lock: Lock, results: Sequence[TrialResult]) -> list[CapacityTrial]:
    search, readings = search_of(lock), readings_of(lock, results)
    read: Sequence[tuple[TrialResult, ...]] = [(one,) for one in results]
    if search.trials_each == 2:
        read = _whole_pairs(results)
    place = {one.trial: at for at, mine in enumerate(read) for one in mine}
    texts, seen = list[CapacityTrial](), 0
    for result in results:
        at = place.get(result.trial)
        holds = None
        if at is not None:
            seen, holds = at + 1, readings[at].holds
        before = Progress(search, readings[:seen])
        limit = before.limit
        texts.append(
            CapacityTrial(
                trial=result.trial,
                load=load_of(lock, result),
                look=at is not None and at < before.looks,
                outcome="no number" if holds is None else "holds" if holds else "breaks",
                low=None if limit is None else limit.low,
                high=None if limit is None else limit.high,
            )
        )
    return texts


def _levels(lock: Lock, results: Sequence[TrialResult]) -> list[CapacityLevel]:
    assert lock.search is not None
    by_load: dict[int, list[tuple[Measured, TrialResult]]] = {}
    for one, result in zip(measured_of(lock, results), results, strict=True):
        by_load.setdefault(one.reading.load, []).append((one, result))
    return [_level(lock, load, mine) for load, mine in sorted(by_load.items())]


def _level(lock: Lock, load: int, mine: Sequence[tuple[Measured, TrialResult]]) -> CapacityLevel:
    assert lock.search is not None
    counted = [one for one, _ in mine if one.reading.margin is not None]
    holds = {one.reading.holds for one in counted}
    nearest = min(counted, key=lambda one: one.reading.margin or 0.0, default=None)
    by = nearest.by if nearest is not None else ""
    values = [one.value for one in counted if one.by == by and one.value is not None and isfinite(one.value)]
    rates = [rate for _, result in mine if (rate := rate_of(lock, result)) is not None]
    return CapacityLevel(
        load=load,
        case=case_name(lock.search.over, load),
        outcome="no number"
        if not holds
        else "mixed"
        if len(holds) > 1
        else "holds"
        if True in holds
        else "breaks",
        by=by,
        value=None if not values else geometric_mean(values) if min(values) > 0 else mean(values),
        low=min(values, default=None),
        high=max(values, default=None),
        throughput_rps=mean(rates) if rates else None,
        trials=len(counted),
        without=len(mine) - len(counted),
        why=next((one.lacks for one, _ in mine if one.lacks), ""),
    )


def _sentence(asked: CapacitySearch, result: CapacityResult, now: Progress, step: Step | Answer) -> str:
    if isinstance(step, Step):
        return f"The search for the largest {noun_of(asked.over)} is still running; next: {step.because}."
    text, limit = _head(asked, result), step.limit
    if result.state == "found":
        text += f" ({result.low:,} to {result.high:,}: 95 % interval from {len(result.trials)} trials)"
    if result.why_open and result.state == "undecided":
        text += f": {result.why_open}"
    text += "."
    if result.drift:
        way = "fell" if result.drift < 0 else "rose"
        text += f" During the search the limit {way} by {100 * abs(result.drift):.0f} %."
    if limit is not None and limit.far_off:
        which = "An outlier is" if limit.far_off == 1 else f"{limit.far_off} outliers are"
        text += f" {which} left out."
    strangers = mean([one.strangers for one in now.seen] or [0.0])
    if strangers >= _MUCH:
        text += f" Other programs used {100 * strangers:.0f} % of this machine; on a quiet machine the limit may be higher."
    if result.why_open and result.state == "found":
        text += f" The interval is wider than {show_percent(asked.tolerance)}: {result.why_open}."
    if asked.given_up_s is not None:
        text += f" Requests timed out after {asked.given_up_s:.3g} s because time was short (--timeout)."
    return text + _unseen(result, now)


def _head(asked: CapacitySearch, result: CapacityResult) -> str:
    noun, most, least = noun_of(asked.over), asked.most, asked.least
    if asked.gain is not None:
        gains = f"more {noun} gain less than {show_percent(asked.gain)}"
        match result.state:
            case "found":
                return f"Above about {round(result.limit or 0):,} {noun} {gains}"
            case "above":
                return f"Up to {most:,} {noun}, the largest allowed load, every step gains more than {show_percent(asked.gain)} (search higher with --to)"
            case "below":
                return f"Already at {least:,}, the smallest allowed load, {gains} (search lower with --from)"
        return f"Undecided: where {gains}{_rough(result)}"
    that = " and ".join(asked.that).replace("<=", "≤").replace(">=", "≥")
    match result.state:
        case "found":
            return f"{that} holds up to about {round(result.limit or 0):,} {noun}"
        case "above":
            return f"{that} holds at {most:,} {noun}, the largest allowed load: the limit is higher (search higher with --to)"
        case "below":
            return f"{that} fails even at {least:,} {noun}, the smallest allowed load: the limit is lower (search lower with --from)"
    return f"Undecided: {that}{_rough(result)}"


def _rough(result: CapacityResult) -> str:
    if result.limit is not None:
        return f", perhaps {round(result.limit):,} {noun_of(result.over)} ({result.low:,} to {result.high:,})"
    known = [
        f"held at {result.low:,}" if result.low is not None else "",
        f"broke at {result.high:,}" if result.high is not None else "",
    ]
    words = " and ".join(one for one in known if one)
    return f" {words} in single trials" if words else ""


def _unseen(result: CapacityResult, now: Progress) -> str:
    """Return how rare failures may be and yet have gone unseen: the trial is the unit, however many requests
    it has."""
    top = result.low if result.state == "found" else result.most if result.state == "above" else None
    if top is None:
        return ""
    below = [one for one in now.seen if one.shares and top / 2 <= one.load <= top]
    if not below or any(bad for one in below for bad, _ in one.shares.values()):
        return ""
    rarest = 100 * (1 - 0.05 ** (1 / len(below)))
    return (
        f" No request failed in {len(below)} trial{'s' * (len(below) > 1)} at {top:,} or less; failures that occur in fewer than "
        f"{rarest:.0f} % of trials may have been missed."
    )


_WORDS = {"pass": "passed", "fail": "failed", "open": "undecided"}


def gate_of(at_least: int | None, found: CapacityResult) -> CapacityGate | None:
    """Return pass where the limit's whole interval reaches it, fail where the interval ends below it, else
    open."""
    if at_least is None:
        return None
    outcome, why = _judged(at_least, found)
    need = f"{at_least:,} {noun_of(found.over)} {'is' if at_least == 1 else 'are'} required"
    return CapacityGate(
        at_least=at_least, outcome=outcome, sentence=f"Gate {_WORDS[outcome]}: {need}, and {why}."
    )


def _judged(at_least: int, found: CapacityResult) -> tuple[Literal["pass", "fail", "open"], str]:
    if not found.ended:
        return "open", "the search is still running"
    if found.state == "above" and found.most is not None and at_least <= found.most:
        return "pass", f"{found.most:,} pass"
    if found.state == "below" and found.least is not None and at_least >= found.least:
        return "fail", f"{found.least:,} fail"
    if found.state != "found" or found.low is None or found.high is None:
        return "open", "the limit is unknown"
    ends = f"the limit is between {found.low:,} and {found.high:,}"
    if found.low >= at_least:
        return "pass", ends
    return ("fail", ends) if found.high < at_least else ("open", ends)
