"""svload itself on a study that a bench writes, in a process of its own; and results that are
kept between calls of a bench.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEPT = Path("build/bench")
BOUND_S = 3600.0


def findings_of(name: str, study: str, command: str, options: Sequence[str] = ()) -> dict[str, Any]:
    """The findings of `svload COMMAND` on this study, as JSON. Raises SystemExit with
    its last words where it has none.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / name
        place.mkdir()
        (place / "study.yaml").write_text(study, encoding="utf-8")
        words = [
            sys.executable,
            "-m",
            "svload",
            command,
            str(place),
            *options,
            "--json",
            "--out",
            f"{folder}/runs",
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND_S, check=False)
    found = json.loads(done.stdout)["findings"] if done.stdout.strip() else None
    if not found:
        raise SystemExit(f"{name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return dict(found)


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
