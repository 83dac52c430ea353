"""Limits of a service that have parts, as a study writes them. All that hold a service as one are
set from here on (`lab.groups`)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from svload.model.units import bytes_per_s, duration_ns

_WRITTEN = WithJsonSchema({"type": "string"})
Rate = Annotated[int, BeforeValidator(bytes_per_s), _WRITTEN]
"""Written `20 MB/s` or `10 Mbit/s`, held in bytes a second."""

Latency = Annotated[int, BeforeValidator(duration_ns), Field(gt=0, le=10_000_000_000), _WRITTEN]
"""Written `20 ms`, held in ns."""


class DiskRate(BaseModel):
    """`{read: 20 MB/s, write: 10 MB/s}`: what a service may read from its disk and write to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    read: Rate | None = Field(None, description="what it may read, such as 20 MB/s")
    write: Rate | None = Field(None, description="what it may write, such as 10 MB/s")

    @model_validator(mode="before")
    @classmethod
    def _says_which(cls, written: Any) -> Any:
        if not isinstance(written, dict) or not written or not written.keys() <= {"read", "write"}:
            raise ValueError("write what is limited: {read: 20 MB/s}, {write: 10 MB/s} or both")
        return written


class Link(BaseModel):
    """`{rate: 10 Mbit/s, latency: 20 ms}`: what a service's link carries each way, and what it adds to a round trip."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    rate: Rate | None = Field(None, description="what it carries each way, such as 10 Mbit/s")
    latency: Latency | None = Field(None, description="what it adds to a round trip, such as 20 ms")
    congestion: str | None = Field(
        None, pattern="[a-z][a-z0-9_]*", description="TCP's congestion control at its service, such as cubic"
    )

    @model_validator(mode="before")
    @classmethod
    def _says_what(cls, written: Any) -> Any:
        known = {"rate", "latency", "congestion"}
        if not isinstance(written, dict) or not written or not written.keys() <= known:
            raise ValueError(
                "write what it holds: {rate: 10 Mbit/s}, {latency: 20 ms} or both, and congestion: cubic"
            )
        return written
