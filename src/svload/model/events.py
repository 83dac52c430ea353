"""Events as typed values. Progress bar, log, journal and report read the same events, one JSON line each."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from typing import Literal

from svload.model.parsed import parsed

EventKind = Literal[
    "run-started",  # study, profile, trials, seed, most_trials (with the blocks that a gate may add)
    "phase",  # name (install | look | up | fill | down | analyse | report), state (begin | end), seconds
    "placement",  # sha256 of the placement.json that is written next
    "batch",  # number, trials, because; of a search over, levels (load, outcome), kept, broken
    "trial-started",  # trial, case, position, of, attempt
    "trial-phase",  # trial, name (reset | warm | prepare | load | drain | seal), seconds
    "progress",  # trial, offset_s, groups (engine progress merged over shares), generator_cpu_s, service_cores
    # trial, case, analysis_version, instrument, server, reasons, refused_by (check → its sentence and
    # remedy), seconds, beside_s (of them, beside ramps and window), headline
    "trial-sealed",
    "trial-failed",  # trial, code, sentence: an infrastructure failure; the attempt is kept under attempts/
    "trial-stopped",  # trial: stopped by the user
    "service",  # service, state (up | ready | down | died), pid
    # trial, place, do, target, planned_s, begun_s, done_s, limits, found, text: a
    # planned fault was carried out
    "fault",
    "setting",  # what, asked, found
    # text: one plain sentence for the reader; waiting: who holds the machine, and since
    # when, where that is waited for
    "notice",
    # text, undone (bool): what a killed svload left on this machine, put back now, or why that could not be
    "leftover",
    "run-ended",  # exit_code, sealed, complete, seconds, journal (bytes and SHA-256 of the run's journal before it)
]


@dataclass(frozen=True)
class Event:
    """One event: `wall` in Unix seconds, `monotonic_ns` of CLOCK_MONOTONIC, `data` plain JSON (see above)."""

    kind: EventKind
    data: dict[str, object] = field(default_factory=dict)
    wall: float = field(default_factory=time.time)
    monotonic_ns: int = field(default_factory=time.monotonic_ns)

    def number(self, key: str) -> float | None:
        """Return a number of `data`; None if absent."""
        value = self.data.get(key)
        return float(value) if isinstance(value, (int, float)) else None

    def text(self, key: str) -> str:
        """Return a text of `data`; empty if absent."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    def to_json(self) -> str:
        """Return one line without its newline."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"), default=str)

    @staticmethod
    def from_json(line: str) -> Event:
        """Read a line of `to_json`; raises ValueError on a damaged line."""
        raw = parsed(line)
        match raw:
            case {
                "kind": str(kind),
                "data": dict(data),
                "wall": int() | float() as wall,
                "monotonic_ns": int(at_ns),
            }:
                return Event(kind, data, wall, at_ns)  # type: ignore[arg-type]
        raise ValueError("no event")
