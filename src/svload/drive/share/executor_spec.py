"""Executors of a share: for each of engine/engine/src/executor/ a class with the fields of its `Options`.

Numbers of VUs, iterations and rates cover all shares, except `vus` and `max_vus`, which are this share's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from svload.drive.share.request_spec import OneOf


@dataclass(frozen=True)
class ThinkTime(OneOf):
    """A pause; `lognormal_ns` is (median, p99)."""

    constant_ns: int | None = None
    uniform_ns: tuple[int, int] | None = None
    exponential_ns: float | None = None
    lognormal_ns: tuple[float, float] | None = None


NO_PAUSE = ThinkTime(constant_ns=0)


@dataclass(frozen=True)
class Stage:
    """A straight line from the level before to `target`: VUs, or arrivals per second."""

    duration_ns: int
    target: float


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """The options of every closed executor: of all VUs, this share's are `vu_from`, `vu_from + vu_step` …"""

    vus: int
    vus_total: int | None = None
    vu_from: int = 0
    vu_step: int = 1
    think_time: ThinkTime = NO_PAUSE
    pacing_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class ConstantVus(LoopOptions):
    """A fixed set of VUs that start during a ramp, or spread."""

    kind: Literal["constant-vus"] = "constant-vus"
    ramp_up_ns: int = 0
    spread_ns: int = 0
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class RampingVus(LoopOptions):
    """VUs whose number follows stages."""

    kind: Literal["ramping-vus"] = "ramping-vus"
    start_vus: int = 0
    stages: tuple[Stage, ...]


@dataclass(frozen=True, kw_only=True)
class SharedIterations(LoopOptions):
    """A number of iterations for all VUs together."""

    kind: Literal["shared-iterations"] = "shared-iterations"
    spread_ns: int = 0
    iterations: int


@dataclass(frozen=True, kw_only=True)
class PerVuIterations(LoopOptions):
    """A number of iterations for each VU."""

    kind: Literal["per-vu-iterations"] = "per-vu-iterations"
    spread_ns: int = 0
    iterations: int


@dataclass(frozen=True, kw_only=True)
class Places:
    """Every open executor's options: arrivals `index_from`, `index_from + index_step` … below `limit`."""

    index_from: int = 0
    index_step: int = 1
    max_vus: int
    on_full: Literal["wait", "drop"] = "wait"
    arrivals: Literal["constant", "poisson"] = "constant"
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class ConstantArrivalRate(Places):
    kind: Literal["constant-arrival-rate"] = "constant-arrival-rate"
    rate_rps: float


@dataclass(frozen=True, kw_only=True)
class RampingArrivalRate(Places):
    """Arrivals whose rate follows stages."""

    kind: Literal["ramping-arrival-rate"] = "ramping-arrival-rate"
    start_rate_rps: float = 0.0
    stages: tuple[Stage, ...]


ClosedSpec = ConstantVus | RampingVus | SharedIterations | PerVuIterations
OpenSpec = ConstantArrivalRate | RampingArrivalRate
ExecutorSpec = ClosedSpec | OpenSpec
