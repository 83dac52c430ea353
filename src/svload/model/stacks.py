"""Which functions a service was in while load was made: its call stacks as they were sampled (stacks.json of a trial)."""

from __future__ import annotations

from typing import ClassVar

from svload.model.base import Artefact

SEPARATOR = ";"
"""Between the functions of a folded stack."""
KERNEL = "_[k]"
"""Ends the name of a function of the kernel, as in folded stacks of other tools."""


class Stacks(Artefact):
    """stacks.json: the call stacks of one service in the measured time of a trial, folded.

    A study asks for them with `profile: SERVICE`. They are sampled in the first replicate of each case.
    """

    FORMAT: ClassVar[int] = 1
    service: str
    """the service whose processes were sampled, children included"""
    rate_hz: int
    """samples that a second of CPU gives"""
    window_s: float
    """seconds of the trial in which it was sampled: its load after the ramps, of a long one the begin"""
    samples: int
    """stacks that were taken in that time; each stands for 1/rate_hz seconds of CPU"""
    folded: dict[str, int]
    """stack → samples: functions from the outermost to the one that ran, joined by `;`; `_[k]` marks the kernel's"""
    lost: int = 0
    """samples of the whole machine that the sampler says it lost"""
    sampler_cpu_s: float | None = None
    """seconds of CPU that the sampling process itself took meanwhile; null: not known"""
    why: str = ""
    """why there are no samples, in a sentence; empty: there are"""

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU that the samples stand for."""
        return self.samples / self.rate_hz


def joined(frames: list[str]) -> str:
    """A folded stack of its functions, the outermost first."""
    return SEPARATOR.join(frame.replace(SEPARATOR, ",") for frame in frames)
