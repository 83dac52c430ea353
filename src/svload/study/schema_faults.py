"""The `faults` of a study file as pydantic models."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from svload.study.mistakes import wrong
from svload.study.values import BytesPerS, Count, OrReference, Part, SizeBytes, SpanNs, Texts, When

KINDS = ("stop", "kill", "start", "pause", "limit")


class _SomePart(Part):
    """The common part of mappings that may not be empty."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise wrong(f"expected one of {', '.join(type(self).model_fields)}")
        return self


class DiskRatePart(_SomePart):
    """Rates of a service's disk from that moment on."""

    read: BytesPerS | None = Field(None, description="maximum read rate, such as 20 MB/s")
    write: BytesPerS | None = Field(None, description="maximum write rate, such as 10 MB/s")


class LinkPart(_SomePart):
    """Rates and latency of a service's link from that moment on."""

    rate: BytesPerS | None = Field(None, description="rate in each direction, such as 10 Mbit/s")
    latency: SpanNs | None = Field(None, description="latency added to a round trip, such as 20 ms")


class LimitsPart(_SomePart):
    """Limits of a whole service, all its processes and their children, written as under lab."""

    cpus: Annotated[float, Field(gt=0, allow_inf_nan=False), OrReference()] | None = Field(
        None, description="CPU quota in cores"
    )
    memory: SizeBytes | None = Field(None, description="memory, swap included")
    pids: Count | None = Field(None, description="maximum number of processes and threads")
    disk_rate: DiskRatePart | None = Field(None, description="rates of its disk: {read, write}")
    link: LinkPart | None = Field(None, description="the link that it has under lab: {rate, latency}")


class FaultPart(Part):
    """A planned fault at one moment of each trial: one of stop, kill, start, pause, limit."""

    when: When = {}
    at: SpanNs = Field(description="when, counted from the start of measuring (after the ramps): 10s")
    stop: Texts | None = Field(
        None, description="services, replicas (web[2]) or parts (backend.object) to stop gracefully"
    )
    kill: Texts | None = Field(None, description="those to kill (SIGKILL)")
    start: Texts | None = Field(None, description="those to start again, after stop or kill")
    pause: Texts | None = Field(None, description="those to pause for that time (SIGSTOP)")
    limit: dict[str, LimitsPart] | None = Field(
        None, description="service: {cpus, memory, pids, disk_rate, link}, its new limits", min_length=1
    )
    lasts: SpanNs | None = Field(
        None,
        alias="for",
        description="how long the fault lasts; default: until a start, or the end of the trial",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> FaultPart:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise wrong(f"expected one of {', '.join(KINDS)}")
        if self.start is not None and self.lasts is not None:
            raise wrong("for belongs to stop, kill, pause and limit")
        if self.pause is not None and self.lasts is None:
            raise wrong("a pause needs a duration (for)", "Write for: 2s.")
        return self
