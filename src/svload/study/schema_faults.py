"""The `faults` of a study file as pydantic models."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from svload.study.mistakes import wrong
from svload.study.values import Count, OrReference, Part, SizeBytes, SpanNs, Texts, When

KINDS = ("stop", "kill", "start", "pause", "limit")


class LimitsPart(Part):
    """Limits of a service as one, all its processes and their children, as they are written under lab."""

    cpus: Annotated[float, Field(gt=0), OrReference()] | None = Field(None, description="CPU quota in cores")
    memory: SizeBytes | None = Field(None, description="memory, swap included")
    pids: Count | None = Field(None, description="most processes and threads")

    @model_validator(mode="after")
    def _some(self) -> LimitsPart:
        if self.cpus is None and self.memory is None and self.pids is None:
            raise wrong("one of cpus, memory, pids was expected")
        return self


class FaultPart(Part):
    """A planned fault: at that moment of each trial, one of stop, kill, start, pause, limit."""

    when: When = {}
    at: SpanNs = Field(description="when, from the begin of measuring (ramps apart): 10s")
    stop: Texts | None = Field(
        None, description="services, replicas (web[2]) or parts (backend.object) that are asked to end"
    )
    kill: Texts | None = Field(None, description="those that are killed at once (SIGKILL)")
    start: Texts | None = Field(None, description="those that are started again, after stop or kill")
    pause: Texts | None = Field(None, description="those whose processes stand still for that time (SIGSTOP)")
    limit: dict[str, LimitsPart] | None = Field(
        None, description="service: {cpus, memory, pids}, its limits from then on", min_length=1
    )
    lasts: SpanNs | None = Field(
        None,
        alias="for",
        description="after which time it is taken back; left out: by start, or after the trial",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> FaultPart:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise wrong(f"one of {', '.join(KINDS)} was expected")
        if self.start is not None and self.lasts is not None:
            raise wrong("for belongs to stop, kill, pause and limit")
        if self.pause is not None and self.lasts is None:
            raise wrong("a pause needs its time", "Write for: 2s.")
        return self
