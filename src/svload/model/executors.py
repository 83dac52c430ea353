"""Executors: when a group's iterations begin, and how many VUs or arrivals there are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from svload.model.base import Frozen
from svload.model.distributions import lognormal_mean
from svload.model.stages import (
    LabelledStage,
    Stage,
    arrivals_until,
    labelled_stages,
    present_ns,
    stages_ns,
    users_ns,
)

FIRST_CYCLE_NS = 5_000_000
"""VUs without think time and ramp start spread over this (docs/method.md §1: spread over the first cycle)."""


class ThinkTime(Frozen):
    """A pause between a VU's requests; exactly one field is set. `lognormal_ns` is (median, p99)."""

    constant_ns: int | None = None
    uniform_ns: tuple[int, int] | None = None
    exponential_ns: int | None = None
    lognormal_ns: tuple[int, int] | None = None

    @property
    def mean_ns(self) -> float:
        if self.uniform_ns:
            return sum(self.uniform_ns) / 2
        if self.lognormal_ns:
            return lognormal_mean(*self.lognormal_ns)
        return float(self.exponential_ns or self.constant_ns or 0)


Shape = Literal["constant", "ramping", "finite"]
"""Constant: aims at a steady state. Ramping: shown over time only, no warm-up cut. Finite: a fixed amount of
work, measured whole."""


class Unstaged(Frozen):
    """The common part of executors whose load has no stages."""

    @property
    def shape(self) -> Shape:
        """Return what the load is like over time."""
        return "constant"

    @property
    def stages_ns(self) -> int | None:
        """Return how long its stages take; None without stages."""
        return None


class ClosedLoop(Unstaged):
    """The common part of closed executors: each VU waits for its answer, then thinks. Iterations begin at
    least `pacing_ns` apart."""

    think_time: ThinkTime = ThinkTime(constant_ns=0)
    pacing_ns: int = 0

    @property
    def model(self) -> str:
        """Return the load model, for every table."""
        return "closed loop"

    @property
    def most_vus(self) -> int:
        """Return the largest number of VUs at any time, over all shares."""
        raise NotImplementedError

    @property
    def cycle_ns(self) -> float:
        """Return the shortest mean cycle of a VU, not counting its requests."""
        return max(self.think_time.mean_ns, float(self.pacing_ns))

    @property
    def peak_rps(self) -> float | None:
        """Return the largest possible rate in requests per second; None if only the server bounds it."""
        return self.most_vus / (self.cycle_ns / 1e9) if self.cycle_ns else None

    def users_ns(self, low_ns: float, high_ns: float) -> float:
        """Return Σ over VUs of their planned time between two moments, ns from the group's start."""
        raise NotImplementedError


class Spread(ClosedLoop):
    """A fixed set of `vus`; without a ramp they start spread over the first cycle, or together."""

    vus: int = Field(ge=1)
    start: Literal["spread", "together"] = "spread"

    @property
    def most_vus(self) -> int:
        """Return the largest number of VUs at any time, over all shares."""
        return self.vus

    @property
    def spread_ns(self) -> int:
        """Return the time over which they start."""
        return max(round(self.cycle_ns), FIRST_CYCLE_NS) if self.start == "spread" else 0

    def users_ns(self, low_ns: float, high_ns: float) -> float:
        """Return Σ over VUs of the time after their planned first request (fixed work: as if it never
        ended)."""
        return present_ns(0.0, self.spread_ns / self.vus, self.vus, low_ns, high_ns)


class ConstantVus(Spread):
    """Closed loop: `vus` virtual users, each waits for its answer, then thinks (k6's constant-vus with a ramp)."""

    kind: Literal["constant-vus"] = "constant-vus"
    ramp_up_ns: int = 0

    @property
    def spread_ns(self) -> int:
        """Return the time over which they start: their ramp, else the first cycle."""
        return self.ramp_up_ns or super().spread_ns


class FixedWork(Spread):
    """The common part of closed executors with a fixed amount of work: `iterations`, measured whole."""

    iterations: int = Field(ge=1)

    @property
    def ramp_up_ns(self) -> int:
        """Return 0: it has no ramp."""
        return 0

    @property
    def shape(self) -> Shape:
        """Return what the load is like over time."""
        return "finite"

    @property
    def work(self) -> int:
        raise NotImplementedError


class SharedIterations(FixedWork):
    """A number of iterations for all VUs together (k6's shared-iterations); generators divide them
    beforehand."""

    kind: Literal["shared-iterations"] = "shared-iterations"

    @property
    def work(self) -> int:
        return self.iterations


class PerVuIterations(FixedWork):
    """A number of iterations for each VU (k6's per-vu-iterations)."""

    kind: Literal["per-vu-iterations"] = "per-vu-iterations"

    @property
    def work(self) -> int:
        return self.vus * self.iterations


class InStages(Frozen):
    """The common part of executors whose load changes in stages."""

    stages: tuple[Stage, ...] = Field(min_length=1)

    @property
    def ramp_up_ns(self) -> int:
        """Return 0: no part is excluded from measurement, since the load is shown over time."""
        return 0

    @property
    def shape(self) -> Shape:
        """Return what the load is like over time."""
        return "ramping"

    @property
    def stages_ns(self) -> int | None:
        """Return how long its stages take."""
        return stages_ns(self.stages)

    @property
    def labelled_stages(self) -> list[LabelledStage]:
        """Return its stages with the names of their levels."""
        raise NotImplementedError

    @property
    def levels(self) -> list[str]:
        """Return the levels at which it stays for a while, named as in thresholds."""
        return list(dict.fromkeys(one.label for one in self.labelled_stages if one.holds))


class RampingVus(InStages, ClosedLoop):
    """Closed loop whose VUs follow stages (k6's ramping-vus); leaving VUs finish their request first."""

    kind: Literal["ramping-vus"] = "ramping-vus"
    start_vus: int = 0

    @property
    def most_vus(self) -> int:
        """Return the largest number of VUs at any time, over all shares."""
        return max([self.start_vus, *(round(stage.target) for stage in self.stages)])

    @property
    def labelled_stages(self) -> list[LabelledStage]:
        """Return its stages with the names of their levels: `50 users`."""
        return labelled_stages(self.start_vus, self.stages, of_rates=False)

    def users_ns(self, low_ns: float, high_ns: float) -> float:
        """Return Σ over VUs of their planned time between two moments, ns from the group's start."""
        return users_ns(self.start_vus, self.stages, low_ns, high_ns)


class OpenLoop(Unstaged):
    """The common part of open executors: arrivals that do not wait for the server; if the pool is full they
    wait, or are dropped."""

    max_vus: int | None = Field(default=None, ge=1)
    arrivals: Literal["constant", "poisson"] = "constant"
    on_full: Literal["wait", "drop"] = "wait"

    @property
    def model(self) -> str:
        """Return the load model, for every table."""
        return "open loop"

    @property
    def peak_rps(self) -> float:
        raise NotImplementedError

    def arrivals_until(self, moment_ns: float) -> float:
        """Return the rate's integral until a moment, ns from the group's start."""
        raise NotImplementedError


class ConstantArrivalRate(OpenLoop):
    """Open loop: arrivals at `rate_rps`, whatever the server does (k6's constant-arrival-rate; a full pool waits)."""

    kind: Literal["constant-arrival-rate"] = "constant-arrival-rate"
    rate_rps: float = Field(gt=0)
    ramp_up_ns: int = 0

    @property
    def peak_rps(self) -> float:
        return self.rate_rps

    def arrivals_until(self, moment_ns: float) -> float:
        """Return the rate's integral until a moment, ns from the group's start."""
        return max(moment_ns, 0.0) / 1e9 * self.rate_rps


class RampingArrivalRate(InStages, OpenLoop):
    """Open loop whose rate follows stages (k6's ramping-arrival-rate; a full pool waits)."""

    kind: Literal["ramping-arrival-rate"] = "ramping-arrival-rate"
    start_rate_rps: float = Field(default=0.0, ge=0)

    @property
    def peak_rps(self) -> float:
        return max([self.start_rate_rps, *(stage.target for stage in self.stages)])

    @property
    def labelled_stages(self) -> list[LabelledStage]:
        """Return its stages with the names of their levels: `300/s`."""
        return labelled_stages(self.start_rate_rps, self.stages, of_rates=True)

    def arrivals_until(self, moment_ns: float) -> float:
        """Return the rate's integral until a moment, ns from the group's start."""
        return arrivals_until(self.start_rate_rps, self.stages, moment_ns)


Executor = Annotated[
    ConstantVus | RampingVus | SharedIterations | PerVuIterations | ConstantArrivalRate | RampingArrivalRate,
    Field(discriminator="kind"),
]
