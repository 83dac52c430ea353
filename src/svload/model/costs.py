"""How long a kind of server takes besides load: times and rates declared by its kit, for the estimate of a
run's duration."""

from __future__ import annotations

from pydantic import Field

from svload.model.base import Frozen


class Costs(Frozen):
    """A service's share of a run's time on two cores. Rough: they only serve planning."""

    up_s: float = Field(default=0.5, description="until it is ready")
    reset_s: float = Field(default=0.0, description="one reset before a trial")
    settle_s: float = Field(default=0.0, description="after a load, until its counters are true")
    fill_per_s: float = Field(default=1_000.0, description="objects put into it a second")
    refill_per_s: float | None = Field(
        default=None, description="objects found again a second after a restart; None: they are put again"
    )
    answers_per_s: float = Field(
        default=5_000.0, description="requests answered a second; behind a cache: those that miss"
    )
    hits_per_s: float | None = Field(
        default=None, description="of a cache: requests answered a second that hit; None: as those that miss"
    )
