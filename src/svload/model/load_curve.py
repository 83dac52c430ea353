"""Results of a study whose factor is its load: throughput and response over users, rates or think times, and
the limits from the operational laws (docs/method.md §4)."""

from __future__ import annotations

from typing import Literal

from svload.model.base import Frozen

CurveKind = Literal["users", "rate", "think"]
LimitName = Literal["N*", "Z*", "full rate", "N_break", "rate_break", "N_peak"]
ResourceKind = Literal["cpu", "cores", "workers", "rate"]
LimitState = Literal["bracketed", "below", "above", "edge", "none"]


class ResourceUse(Frozen):
    """How much of a resource was in use in a trial's kept window."""

    name: str
    """such as `CPU of cache`, `link rate out of store`"""
    service: str
    """the service that it belongs to; empty: all services together"""
    kind: ResourceKind
    """cpu: of one service; cores: shared by all services; workers: requests that a service works on
    concurrently; rate: bytes per second of a disk or a link"""
    used: float
    """time average in use: cores, or workers; for a rate the share of it"""
    capacity: float
    """the most that can be in use, in the same unit"""
    limited_by: str
    """what sets the capacity, such as `its quota`; for a rate the rate itself: `20 MB/s`"""


class GroupLoad(Frozen):
    """A traffic group's users in a trial's window, before any warm-up cut: the terms of N = X·(R + Z)."""

    users: float | None
    """planned users of a closed loop; null: an open loop"""
    rate_rps: float | None
    """planned arrivals per second of an open loop; null: a closed loop"""
    think_s: float
    """mean pause between two requests of a user: Σ pauses clipped to the window, over completions"""
    window_s: float
    """length of the window"""
    longest_cycle_s: float | None
    """longest response plus mean pause, by which the edges may shift it; null: a request did not end"""


class RampBreak(Frozen):
    """The load at which response or errors of a group leave the line they followed while load rose."""

    group: str
    """the traffic group"""
    kind: Literal["users", "rate"]
    """what rose"""
    what: Literal["response", "errors"]
    """what left its line"""
    at: float | None
    """users, or arrivals per second; null: `reason` says why"""
    low: float | None = None
    """lower end of the 95 % interval; null: none"""
    high: float | None = None
    """upper end; null: none"""
    reason: str = ""
    """why there is no value; empty: there is one"""


class LoadPoint(Frozen):
    """One level of load: means over the trials in which both numbers count."""

    case: str
    """the case, as in the lock"""
    level: str
    """the factor's level"""
    at: float
    """users, arrivals per second, or think time in seconds"""
    users: float | None
    """users of a closed loop; null: an open loop"""
    think_s: float
    """mean pause of a user between two requests"""
    throughput_rps: float
    """completions per second"""
    throughput_low: float | None
    """lower end of its 95 % interval between trials; null: fewer than two"""
    throughput_high: float | None
    """upper end"""
    response_s: float
    """mean response"""
    response_low: float | None
    """lower end of its 95 % interval between trials; null: fewer than two"""
    response_high: float | None
    """upper end"""
    runs: tuple[tuple[float, float], ...]
    """(throughput, mean response) of each trial"""
    most_rps: float | None
    """asymptotic bound of throughput; null: no limit was found"""
    least_s: float | None
    """asymptotic bound of response; null: no limit was found"""
    accounted: float | None
    """X·(R + Z) over N, mean over its trials; null: an open loop, or a window of fewer than twenty cycles"""
    flat: bool
    """throughput is flat from this level on, or up to it, while response rises"""


class DemandFound(Frozen):
    """The demand of one request on a resource, by regression over levels (the utilisation law)."""

    resource: str
    """its name, as in `ResourceUse`"""
    limited_by: str
    """what sets its capacity"""
    kind: ResourceKind = "cpu"
    """as in `ResourceUse`"""
    capacity: float
    """cores, or workers; 1: the whole of a rate"""
    demand_s: float
    """time per request of one core, of one worker, or of the whole rate, in seconds"""
    low: float | None
    """lower end of the 95 % interval; null: fewer than three blocks"""
    high: float | None
    """upper end"""
    at_rest: float
    """use without requests of this group"""
    most_used: float
    """largest use in a trial"""
    bottleneck: bool
    """it is the first to be full"""


class LoadLimit(Frozen):
    """A limit of the load, and whether the measured levels bracket it. N*, N_break and N_peak are three
    different quantities."""

    name: LimitName
    """N*: (D + Z)/max(Dᵢ/mᵢ). Z*: the think time below which these users saturate it. full rate:
    1/max(Dᵢ/mᵢ). N_break, rate_break: where two segments of throughput meet. N_peak: where it is largest
    """
    value: float | None
    """users, arrivals per second, or seconds; null: `reason` says why"""
    low: float | None = None
    """lower end of the 95 % interval; null: fewer than three blocks"""
    high: float | None = None
    """upper end"""
    state: LimitState
    """bracketed: the whole interval is inside the levels; below, above: outside; edge: it extends beyond
    them; none: no number"""
    reason: str = ""
    """what it rests on, or why there is no value"""


class LoadCurve(Frozen):
    """Throughput and response of one group over the levels of a factor that is its load, all else equal."""

    factor: str
    """the factor"""
    kind: CurveKind
    """what its levels change"""
    group: str
    """the traffic group that has this load"""
    when: dict[str, str]
    """levels of the other factors that vary"""
    points: tuple[LoadPoint, ...]
    """by `at`, ascending"""
    demands: tuple[DemandFound, ...]
    """demands, the first to be full first; empty: no resource was read, or none grows with throughput"""
    limits: tuple[LoadLimit, ...]
    """limits from the laws"""
    top_rps: float | None
    """1/max(Dᵢ/mᵢ), the most requests that it can serve per second; null: no limit was found"""
    alone_s: float | None
    """D, the response of a request that meets no other; null: no limit was found"""
    agree: bool | None
    """N* and N_break lie within 25 % of each other; null: one of them is not bracketed"""
    law_off: float | None
    """largest relative deviation of X·(R + Z) from N over the levels, with sign; null: not checkable"""
    law_allowed: float
    """deviation up to which the law holds: what the windows' edges can explain, at least 3 %"""
    scalability: tuple[float, float, float] | None
    """λ (1/s), σ, κ of the Universal Scalability Law; null: fewer than six levels of users"""
    sentences: tuple[str, ...] = ()
    """the result in words"""
