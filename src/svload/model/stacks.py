"""The functions that a service ran while load was made: its sampled call stacks (stacks.json of a trial)."""

from __future__ import annotations

from typing import ClassVar

from svload.model.base import Artefact

SEPARATOR = ";"
"""The separator between the functions of a folded stack."""
KERNEL = "_[k]"
"""The ending of the names of kernel functions, as in folded stacks of other tools."""


class Stacks(Artefact):
    """stacks.json: the call stacks of one service in the measured time of a trial, folded.

    A study requests them with `profile: SERVICE`. They are sampled in the first replicate of each case.
    """

    FORMAT: ClassVar[int] = 1
    service: str
    """the service whose processes were sampled, children included"""
    rate_hz: int
    """samples per second of CPU time"""
    window_s: float
    """seconds of the trial that were sampled: its load after the ramps, or the beginning of a long one"""
    samples: int
    """stacks sampled in that time; each stands for 1/rate_hz seconds of CPU"""
    folded: dict[str, int]
    """stack → samples: functions from the outermost to the one that ran, joined by `;`; `_[k]` marks the kernel's"""
    lost: int = 0
    """samples of the whole machine that the sampler reports as lost"""
    sampler_cpu_s: float | None = None
    """seconds of CPU used by the sampling process itself; null: not known"""
    why: str = ""
    """why there are no samples, in a sentence; empty: there are some"""

    @property
    def cpu_s(self) -> float:
        """Return the seconds of CPU that the samples stand for."""
        return self.samples / self.rate_hz


def joined(frames: list[str]) -> str:
    """Return a folded stack of these functions, the outermost first."""
    return SEPARATOR.join(frame.replace(SEPARATOR, ",") for frame in frames)
