"""The answer of a search as findings keep it: the bracket, every level with what said so, every
trial in its order, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, isinf

from svload.analysis.capacity.asked import (
    UNTIMED,
    SealedAt,
    case_name,
    criteria_of,
    load_of,
    next_of,
    replicates_of,
    search_of,
    throughputs_of,
)
from svload.analysis.capacity.gate import gate_of
from svload.analysis.capacity.knee import Found, Throughput
from svload.analysis.capacity.level import Judged, Replicate
from svload.analysis.capacity.replicates import KEEPS_UP, value_at
from svload.analysis.capacity.scouting import scouted
from svload.analysis.capacity.search import GROWTH, Answer, Step, ends_after, levels_after
from svload.analysis.criteria import show
from svload.model.capacity import (
    CapacityLevel,
    CapacityResult,
    CapacityTrial,
    CapacityWay,
    GainStep,
    SearchState,
    noun_of,
)
from svload.model.metrics import Criterion
from svload.model.results import Finding, TrialResult
from svload.model.study import CapacitySearch, Lock
from svload.study import resolve


def capacity_of(
    lock: Lock, results: Sequence[TrialResult], sealed_s: SealedAt = UNTIMED
) -> CapacityResult | None:
    """What a search has found so far; None where the lock asks for none. `sealed_s` says what is left of its time."""
    asked = lock.search
    if asked is None:
        return None
    ordered = sorted(results, key=lambda one: one.block)
    step = next_of(lock, ordered, sealed_s)
    if asked.gain is not None:
        found = _knee(lock, asked, ordered, step)
    else:
        found = _largest(lock, asked, ordered, step)
    return found.model_copy(update={"gate": gate_of(asked.at_least, found)})


def capacity_finding(found: CapacityResult | None) -> list[Finding]:
    """The answer as a finding: it rests on the two ends."""
    if found is None:
        return []
    ends = [load for load in (found.kept, found.broken) if load is not None]
    gate = [found.gate.sentence] if found.gate else []
    return [
        Finding(
            kind="capacity",
            sentence=" ".join([found.sentence, *gate]),
            evidence=tuple(f"cases/{case_name(found.over, load)}" for load in ends),
            certainty=STATE_WORDS[found.state],
        )
    ]


STATE_WORDS: Mapping[SearchState, str] = {
    "searching": "not at its end",
    "bracketed": "bracketed",
    "above": "not bracketed: above the loads that were allowed",
    "below": "not bracketed: below the loads that were allowed",
    "undecided": "undecided",
}


def _largest(
    lock: Lock, asked: CapacitySearch, results: Sequence[TrialResult], step: Step | Answer | Found
) -> CapacityResult:
    seen = replicates_of(lock, results)
    search = search_of(asked)
    criteria = {one.text: one for one in criteria_of(lock, resolve(lock, lock.valid_cases[0]))}
    answer = (
        step if isinstance(step, Answer) else Answer(*ends_after(search, seen), levels_after(search, seen))
    )
    rates = throughputs_of(lock, results)
    found = CapacityResult(
        over=asked.over,
        that=asked.that,
        least=asked.least,
        most=asked.most,
        ended=isinstance(step, Answer),
        state=_state(asked, answer) if isinstance(step, Answer) else "searching",
        kept=answer.kept,
        broken=answer.broken,
        levels=tuple(
            _level(asked, load, one, criteria, rates) for load, one in sorted(answer.levels.items())
        ),
        trials=tuple(_trials(lock, results, seen)),
        confirmed=tuple(
            CapacityWay(way=way, outcome=one.outcome, replicates=one.replicates)
            for way, one in answer.confirmed.items()
        ),
        hysteresis=answer.hysteresis,
        why_wide=answer.why_wide,
        sentence="",
    )
    if isinstance(step, Answer):
        return found.model_copy(update={"sentence": _sentence(asked, step, found.state, criteria)})
    assert isinstance(step, Step)
    text = f"The search for the largest {asked.over} is not at its end: next, {step.because}."
    return found.model_copy(update={"sentence": text})


def _state(asked: CapacitySearch, answer: Answer) -> SearchState:
    if answer.kept is not None and answer.broken is not None:
        return "bracketed"
    if answer.kept is not None and answer.kept >= asked.most:
        return "above"
    if answer.broken is not None and answer.broken <= asked.least:
        return "below"
    return "undecided"


def _trials(lock: Lock, results: Sequence[TrialResult], seen: Sequence[Replicate]) -> list[CapacityTrial]:
    assert lock.search is not None
    search = search_of(lock.search)
    looks = scouted(search, seen, GROWTH).trials
    told = []
    for number, (result, one) in enumerate(zip(results, seen, strict=True), 1):
        kept, broken = ends_after(search, seen[:number])
        told.append(
            CapacityTrial(
                trial=result.trial,
                load=one.load,
                scout=number <= looks,
                outcome="no number" if one.holds is None else "holds" if one.holds else "breaks",
                kept=kept,
                broken=broken,
            )
        )
    return told


def _level(
    asked: CapacitySearch,
    load: int,
    one: Judged,
    criteria: Mapping[str, Criterion],
    rates: Sequence[Throughput],
) -> CapacityLevel:
    criterion = criteria.get(one.by)
    ends = [
        value_at(criterion, margin) if criterion and margin is not None and isfinite(margin) else None
        for margin in (one.mean, one.low, one.high)
    ]
    known = sorted(end for end in ends[1:] if end is not None)
    low, high = known if len(known) == 2 else (None, None)
    believed = [rate.per_s for rate in rates if rate.load == load and rate.per_s is not None]
    return CapacityLevel(
        load=load,
        outcome=one.outcome,
        by=one.by,
        margin=one.mean if one.mean is not None and not isinf(one.mean) else None,
        low=one.low,
        high=one.high,
        replicates=one.replicates,
        refused=one.refused,
        case=case_name(asked.over, load),
        value=ends[0],
        value_low=low,
        value_high=high,
        throughput_rps=sum(believed) / len(believed) if believed else None,
        why=one.why,
    )


def _sentence(
    asked: CapacitySearch, answer: Answer, state: SearchState, criteria: Mapping[str, Criterion]
) -> str:
    text = f"{_head(asked, answer, state)}."
    if answer.broken is not None:
        text = f"{text[:-1]}{_by_how_much(answer.levels[answer.broken], criteria)}."
    if (
        answer.kept is not None
        and (again := answer.confirmed.get("from above")) is not None
        and again.outcome == "kept"
    ):
        text += f" {answer.kept:,} was reached from above too, and kept it."
    if answer.hysteresis:
        loads = ", ".join(f"{load:,}" for load in answer.hysteresis)
        text += (
            f" Reached from above it does not hold at {loads}, where from below it did: the server does "
            f"not come back."
        )
    if answer.why_wide and state == "bracketed":
        text += f" The bracket is no narrower because of this: {answer.why_wide}."
    return text


def _head(asked: CapacitySearch, answer: Answer, state: SearchState) -> str:
    that = _signs(" and ".join(asked.that))
    kept, broken = answer.kept, answer.broken
    match state:
        case "bracketed":
            return f"{that} holds up to {kept:,} {noun_of(asked.over)}, and not at {broken:,}"
        case "above":
            return (
                f"Not bracketed: {that} holds up to {kept:,} {noun_of(asked.over)}, the most that was allowed, "
                "and the limit lies above (ask for more with --to)"
            )
        case "below":
            return (
                f"Not bracketed: {that} does not hold at {broken:,} {noun_of(asked.over)}, the least that was allowed, "
                "and the limit lies below (ask for less with --from)"
            )
    why = f": {answer.why_wide}" if answer.why_wide else ""
    if kept is not None:
        return f"Undecided: {that} holds at {kept:,} {noun_of(asked.over)}, and above that nothing could be told{why}"
    if broken is not None:
        return (
            f"Undecided: {that} does not hold at {broken:,} {noun_of(asked.over)}, and below that nothing "
            f"could be told{why}"
        )
    return f"Undecided: nothing could be told of {that}{why}"


def _by_how_much(level: Judged, criteria: Mapping[str, Criterion]) -> str:
    if level.by == KEEPS_UP:
        return " (it is OVERLOADED there: arrivals pile up)"
    criterion = criteria.get(level.by)
    if level.mean is None or criterion is None:
        return f" (by {_signs(level.by)})" if level.by else ""
    if isinf(level.mean):
        return f" (by {_signs(level.by)}: OVERLOADED, or beyond the time-out)"
    return f" ({_signs(level.by)}: it is {show(criterion.ref, value_at(criterion, level.mean))} there)"


def _signs(text: str) -> str:
    """As people write it."""
    return text.replace("<=", "≤").replace(">=", "≥")


def _knee(
    lock: Lock, asked: CapacitySearch, results: Sequence[TrialResult], step: Step | Answer | Found
) -> CapacityResult:
    rates = throughputs_of(lock, results)
    found = step if isinstance(step, Found) else Found(None, ())
    flat = found.flat
    state: SearchState = _knee_state(asked, found) if isinstance(step, Found) else "searching"
    return CapacityResult(
        over=asked.over,
        gain=asked.gain,
        least=asked.least,
        most=asked.most,
        ended=isinstance(step, Found),
        state=state,
        kept=flat.low_load if flat else None,
        broken=flat.high_load if flat else None,
        steps=tuple(
            GainStep(
                low_load=one.low_load,
                high_load=one.high_load,
                gain=one.value,
                low=one.low,
                high=one.high,
                outcome=one.outcome,
                low_rps=one.low_per_s,
                high_rps=one.high_per_s,
            )
            for one in found.steps
        ),
        trials=tuple(
            CapacityTrial(
                trial=result.trial,
                load=load_of(lock, result),
                scout=False,
                outcome="holds" if rate.per_s is not None else "no number",
                kept=None,
                broken=None,
            )
            for result, rate in zip(results, rates, strict=True)
        ),
        why_wide=found.why_open,
        sentence=_knee_sentence(asked, found, step),
    )


def _knee_state(asked: CapacitySearch, found: Found) -> SearchState:
    if found.flat is not None:
        return "bracketed"
    return "undecided" if found.why_open else "above"


def _knee_sentence(asked: CapacitySearch, found: Found, step: Step | Answer | Found) -> str:
    if isinstance(step, Step):
        return f"The search for the knee over {noun_of(asked.over)} is not at its end: next, {step.because}."
    limit = 100 * (asked.gain or 0)
    if found.flat is not None:
        gain = found.flat
        text = (
            f"Above {gain.low_load:,} {noun_of(asked.over)} more of them gain less than {limit:.3g} %: from "
            f"there to {gain.high_load:,} "
            f"throughput grows by {100 * gain.value:.2g} % of what is added (95 % interval "
            f"{100 * gain.low:.2g} to {100 * gain.high:.2g} %)."
        )
    elif found.why_open:
        return (
            f"Undecided: no step up to {asked.most:,} {noun_of(asked.over)} surely gains less than "
            f"{limit:.3g} %: {found.why_open}."
        )
    else:
        return (
            f"Not bracketed: up to {asked.most:,} {noun_of(asked.over)}, the most that was allowed, every "
            f"step that was measured gains more "
            f"than {limit:.3g} % (ask for more with --to)."
        )
    return f"{text} Open: {found.why_open}." if found.why_open else text
