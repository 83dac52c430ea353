"""Load curves in sentences: the limits, the effects of think time, and where a ramp broke. They state no more
than the curve holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, log
from statistics import median

import numpy as np

from svload.analysis import limits
from svload.analysis.inference import t_interval, welch_interval
from svload.model.load_curve import DemandFound, LimitName, LoadCurve, LoadLimit, LoadPoint, RampBreak
from svload.model.results import Finding, TrialResult
from svload.model.units import show_duration

MEASURED = "measured"
_LAW = "N = X·(R + Z)"


def sentences_of(curve: LoadCurve) -> tuple[str, ...]:
    """Return the sentences: think time first, then the limit, then whether the law holds where no other
    sentence has stated it."""
    told = []
    if curve.kind == "think":
        told += list(_think_time(curve))
    told += [sentence for sentence in (_limit(curve), _peak(curve)) if sentence]
    if curve.kind == "users" and curve.law_off is not None:
        told.append(f"{_law(curve)}.")
    return tuple(told)


def curve_findings(curves: Sequence[LoadCurve]) -> Iterator[Finding]:
    """Return one finding per curve, with the cases that it rests on."""
    for curve in curves:
        if curve.sentences:
            where = ", ".join(f"{factor} {level}" for factor, level in curve.when.items())
            yield Finding(
                kind="law",
                sentence=(f"{where}: " if where else "") + " ".join(curve.sentences),
                evidence=tuple(f"cases/{point.case}" for point in curve.points),
                certainty=MEASURED,
            )


def _law(curve: LoadCurve) -> str:
    """State whether N = X·(R + Z) holds, without a full stop."""
    off = curve.law_off
    if off is None:
        return f"{_LAW} can't be checked: the trials' windows hold fewer than {limits.LAW_CYCLES} cycles"
    if abs(off) <= curve.law_allowed:
        return f"{_LAW} holds within {max(ceil(100 * abs(off)), 1)} %"
    more = (
        "late completions are counted"
        if off > 0
        else "users spent time on something other than response and think time"
    )
    return f"{_LAW} is off by {100 * off:+.2g} %: {more}"


def _think_time(curve: LoadCurve) -> Iterator[str]:
    """Describe the effect of the longest pause compared with the shortest."""
    short, long = curve.points[0], curve.points[-1]
    if long.response_s >= short.response_s:
        return
    pause = show_duration(long.at)
    fell = f"response time fell from {show_duration(short.response_s)} to {show_duration(long.response_s)}"
    change = long.throughput_rps / short.throughput_rps - 1
    if _surely_more(short, long):
        yield (
            f"With a think time of {pause} {fell} and throughput rose from {_rate(short.throughput_rps)} to "
            f"{_rate(long.throughput_rps)} ({100 * change:+.2g} %): with fewer requests at once the server is more efficient. "
            f"{_law(curve)}."
        )
    else:
        kept = "stayed at" if abs(change) <= limits.FLAT else "went to"
        yield (
            f"The {pause} think time did not make the server faster: {fell}, because users think instead of waiting, "
            f"throughput {kept} {_rate(long.throughput_rps)} ({100 * change:+.2g} %), and {_law(curve)}."
        )


def _surely_more(short: LoadPoint, long: LoadPoint) -> bool:
    """Return whether throughput is higher with the longer pause: by its interval, or with single trials by
    more than 5 %."""
    logs = [np.log([run[0] for run in point.runs]) for point in (long, short)]
    difference, interval = welch_interval(logs[0], logs[1])
    least = interval[0] if interval else difference - log(1 + limits.FLAT)
    return least > 0 and difference > log(1 + limits.FLAT)


def _limit(curve: LoadCurve) -> str:
    limit = curve.limits[0]
    first = next((one for one in curve.demands if one.bottleneck), None)
    if limit.value is None:
        return f"No limit of {_what(limit.name)}: {limit.reason}."
    shown = shown_limit(limit)
    if limit.state != "bracketed":
        return (
            f"{limit.name} is not bracketed by the levels: about {shown}, "
            f"{_beside(curve, limit)}{_because(first, limit)}."
        )
    told = {
        "N*": f"From N* = {shown} users on, users wait for one another{_because(first, limit)}",
        "Z*": (
            f"With a think time below Z* = {shown} these users saturate the server{_because(first, limit)}"
        ),
    }.get(limit.name, f"The server is saturated at {shown}{_because(first, limit)}")
    return f"{told}{_breaks(curve)}."


def _breaks(curve: LoadCurve) -> str:
    """Compare the measured break with the limit; "" where there is none."""
    found = next((one for one in curve.limits if one.name in ("N_break", "rate_break")), None)
    if found is None or found.value is None or found.state != "bracketed":
        return ""
    agrees = (
        "they agree within 25 %"
        if curve.agree
        else "they differ by more than 25 %: they are two different quantities"
    )
    return f"; measured throughput stops rising linearly at {shown_limit(found)}, and {agrees}"


def _peak(curve: LoadCurve) -> str:
    found = next((one for one in curve.limits if one.name == "N_peak"), None)
    if found is None or found.value is None:
        return ""
    return f"Throughput is largest at N_peak = {shown_limit(found)} users and falls beyond it (Universal Scalability Law)."


def _what(name: LimitName) -> str:
    return {"N*": "users", "Z*": "think time"}.get(name, "the rate")


def _beside(curve: LoadCurve, limit: LoadLimit) -> str:
    first, last = (_value(limit.name, point.at) for point in (curve.points[0], curve.points[-1]))
    return {
        "below": f"below the lowest of {first}",
        "above": f"above the highest of {last}",
    }.get(limit.state, f"and its interval reaches beyond {first} to {last}")


def _because(first: DemandFound | None, limit: LoadLimit) -> str:
    if first is None:
        return f" ({limit.reason})"
    if first.kind == "rate":
        return f" ({first.resource}: {show_duration(first.demand_s)} per request at {first.limited_by})"
    unit = "worker" if first.kind == "workers" else "core"
    several = "" if first.capacity == 1 else "s"
    return (
        f" ({first.resource}: {show_duration(first.demand_s)} per request, {first.capacity:g} {unit}{several}: "
        f"{first.limited_by})"
    )


def shown_limit(limit: LoadLimit) -> str:
    """Return `23.4 [22.1, 24.8]`."""
    assert limit.value is not None
    text = _value(limit.name, limit.value)
    if limit.low is None or limit.high is None:
        return text
    return f"{text} [{_value(limit.name, limit.low)}, {_value(limit.name, limit.high)}]"


def _value(name: LimitName, value: float) -> str:
    if name == "Z*":
        return show_duration(value)
    return _rate(value) if name in ("full rate", "rate_break") else f"{value:.3g}"


def _rate(value: float) -> str:
    return f"{value:.4g}/s"


def ramp_findings(trials: Sequence[TrialResult]) -> Iterator[Finding]:
    """Return a finding for each case and group with response or errors that left their line on a ramp: the
    earlier of the two first."""
    found: dict[tuple[str, str], dict[str, list[RampBreak]]] = {}
    for trial in trials:
        for one in trial.breaks:
            found.setdefault((trial.case, one.group), {}).setdefault(one.what, []).append(one)
    for (case, group), by_what in found.items():
        told = sorted(clause for what, breaks in by_what.items() if (clause := _ramp(what, breaks)))
        if told:
            clauses = " and ".join(clause for _, clause in told)
            yield Finding(
                kind="law",
                sentence=f"{case}: as the load of {group} rises, {clauses}.",
                evidence=(f"cases/{case}",),
                certainty=MEASURED,
            )


def _ramp(what: str, breaks: Sequence[RampBreak]) -> tuple[float, str] | None:
    """Return (where, clause) if it broke in most trials: with t over several trials, or with the own interval
    of a single trial."""
    known = [one for one in breaks if one.at is not None]
    if 2 * len(known) <= len(breaks):
        return None
    values = [one.at for one in known if one.at is not None]
    interval = t_interval(values) if len(values) >= limits.DESCRIBE_BLOCKS else (known[0].low, known[0].high)
    unit = "users" if known[0].kind == "users" else "/s"
    space = " " if unit == "users" else ""
    ends = (
        f" [{interval[0]:.3g}, {interval[1]:.3g}]"
        if interval and interval[0] is not None and interval[1] is not None
        else ""
    )
    word = "response time starts to rise faster" if what == "response" else "errors start"
    return median(values), f"{word} at {median(values):.3g}{ends}{space}{unit}"
