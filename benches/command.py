"""Results that are kept between calls of a bench, and the time that a call has left."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEPT = Path("build/bench")


@dataclass
class Kept:
    """A bench's results by name, written after each: what one call did not come to, the next one makes.
    `asked`: the options that they hold for.
    """

    path: Path
    asked: dict[str, Any]
    results: dict[str, dict[str, Any]]

    @classmethod
    def at(cls, path: Path, asked: dict[str, Any], anew: bool = False) -> Kept:
        """What is kept there for the same options; other options begin anew."""
        old = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not anew else {}
        return cls(path, asked, old["results"] if old.get("asked") == asked else {})

    def keep(self, name: str, result: dict[str, Any]) -> None:
        self.results[name] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"asked": self.asked, "results": self.results}, indent=1)
        self.path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Clock:
    """What is left of the minutes that a call may take; without a bound there is always time."""

    minutes: float | None
    begun: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        """Seconds until the end."""
        return float("inf") if self.minutes is None else 60 * self.minutes - (time.monotonic() - self.begun)
