"""Load curves in the words shared by every output: titles, axes, one row per limit and per demand, and the
lines to draw. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svload.analysis.laws.levels import Bounds
from svload.analysis.laws.throughput import Scalability
from svload.model.load_curve import DemandFound, LimitName, LoadCurve, LoadLimit
from svload.model.units import Dimension
from svload.report.wording.spelling import show_value

_AXES: dict[str, tuple[str, Dimension]] = {
    "users": ("users", "count"),
    "rate": ("arrivals", "rate_rps"),
    "think": ("think time", "time_s"),
}
LIMIT_WORDS: dict[LimitName, str] = {
    "N*": "users from which they wait for one another, (D + Z)/max(Dᵢ/mᵢ)",
    "Z*": "think time below which these users are more than the server can serve, N·max(Dᵢ/mᵢ) − D",
    "full rate": "arrivals a second at which the first resource is full, 1/max(Dᵢ/mᵢ)",
    "N_break": "users at which measured throughput breaks from its rise (two segments)",
    "rate_break": "arrivals a second at which measured throughput breaks from its rise (two segments)",
    "N_peak": "users at which throughput is largest (Universal Scalability Law)",
}
_STATES = {
    "bracketed": "bracketed by the levels",
    "below": "not bracketed: below the levels",
    "above": "not bracketed: above the levels",
    "edge": "not bracketed: its interval reaches beyond the levels",
    "none": "no number",
}
_STEPS = 60


@dataclass(frozen=True)
class LimitRow:
    """A limit in words."""

    name: str
    meaning: str
    shown: str
    state: str


@dataclass(frozen=True)
class DrawnLines:
    """(at, value) points of the asymptotic bounds and of the Universal Scalability Law, in base units; empty
    if there are none."""

    most_rps: tuple[tuple[float, float], ...]
    least_s: tuple[tuple[float, float], ...]
    scalability: tuple[tuple[float, float], ...]


def axis_of(curve: LoadCurve) -> tuple[str, Dimension]:
    """Return the label of the levels, and their dimension."""
    return _AXES[curve.kind]


def title_of(curve: LoadCurve) -> str:
    """Return `users over users_n (cpus 0.5)`: group, factor and the other factors' levels."""
    where = ", ".join(f"{factor} {level}" for factor, level in curve.when.items())
    return f"{curve.group} over {curve.factor}" + (f" ({where})" if where else "")


def limit_dimension(name: LimitName) -> Dimension:
    """Return the dimension of a limit."""
    return "time_s" if name == "Z*" else "rate_rps" if name in ("full rate", "rate_break") else "count"


def limit_rows(curve: LoadCurve) -> list[LimitRow]:
    """Return every limit; those without a number have the reason."""
    return [LimitRow(one.name, LIMIT_WORDS[one.name], _shown(one), _state(one)) for one in curve.limits]


def _shown(limit: LoadLimit) -> str:
    dimension = limit_dimension(limit.name)
    if limit.value is None or limit.low is None or limit.high is None:
        return show_value(limit.value, dimension)
    low, high = (show_value(end, dimension) for end in (limit.low, limit.high))
    return f"{show_value(limit.value, dimension)} [{low}, {high}]"


def _state(limit: LoadLimit) -> str:
    text = limit.reason if limit.value is None else _STATES[limit.state]
    return f"{text}; {limit.reason}" if limit.value is not None and limit.reason else text


def demand_rows(curve: LoadCurve) -> list[tuple[DemandFound, str, str]]:
    """Return each demand with (seconds per request with its interval, capacity) in words."""
    return [(one, _demand(one), _capacity(one)) for one in curve.demands]


def _capacity(one: DemandFound) -> str:
    return one.limited_by if one.kind == "rate" else f"{one.capacity:g} ({one.limited_by})"


def _demand(one: DemandFound) -> str:
    if one.low is None or one.high is None:
        return show_value(one.demand_s, "time_s")
    low, high = (show_value(end, "time_s") for end in (one.low, one.high))
    return f"{show_value(one.demand_s, 'time_s')} [{low}, {high}]"


def lines_of(curve: LoadCurve) -> DrawnLines:
    """Return the bounds and the law between the lowest and the highest level."""
    first, last = curve.points[0].at, curve.points[-1].at
    at = [first + (last - first) * step / _STEPS for step in range(_STEPS + 1)]
    bounds = _bounds(curve)
    law = Scalability(*curve.scalability, 0.0, 0.0) if curve.scalability else None
    fit = tuple((n, law.throughput_rps(n)) for n in at) if law else ()
    if bounds is None:
        return DrawnLines((), (), fit)
    pairs = [_bound_at(curve, bounds, value) for value in at]
    return DrawnLines(
        tuple((value, most) for value, (most, _) in zip(at, pairs, strict=True)),
        tuple((value, least) for value, (_, least) in zip(at, pairs, strict=True)),
        fit,
    )


def _bounds(curve: LoadCurve) -> Bounds | None:
    if curve.top_rps is None or curve.alone_s is None:
        return None
    return Bounds(curve.top_rps, curve.alone_s)


def _bound_at(curve: LoadCurve, bounds: Bounds, at: float) -> tuple[float, float]:
    if curve.kind == "rate":
        return min(at, bounds.top_rps), bounds.alone_s
    users = at if curve.kind == "users" else curve.points[0].users or 0.0
    think_s = curve.points[0].think_s if curve.kind == "users" else at
    return bounds.throughput_rps(users, think_s), bounds.response_s(users, think_s)


def drawn_limits(curve: LoadCurve) -> list[LoadLimit]:
    """Return the limits to draw: those with a number within or near the levels."""
    last = curve.points[-1].at
    return [one for one in curve.limits if one.value is not None and 0 < one.value <= 1.25 * last]


def drawable_curves(curves: Sequence[LoadCurve]) -> list[LoadCurve]:
    """Return the curves that can be drawn: those with two levels or more."""
    return [curve for curve in curves if len(curve.points) > 1]


def curve_caption(curve: LoadCurve) -> str:
    """Return a caption: what is drawn, n and the interval."""
    counts = sorted({len(point.runs) for point in curve.points})
    trials = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    bound = " Dashed: the asymptotic bounds, which nothing can exceed." if curve.top_rps is not None else ""
    law = " Thin: the Universal Scalability Law." if curve.scalability else ""
    return (
        f"Completions a second and mean response of {curve.group}, failures with the time that they took. Large dots: mean "
        "over trials, bars its 95 % interval "
        f"(t); small dots: single trials (n = {trials} a level).{bound}{law} Upright lines: limits, dashed where "
        "the levels do not bracket them; "
        "shaded: the 95 % interval."
    )
