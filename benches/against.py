"""Two engines in one run, alternated: that of this tree and that of another commit: `python -m benches.run
--against COMMIT [--quick]`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benches.figures import Ratio, interval, paired_ratio
from benches.measure import Failed
from benches.peers import Job, Svload
from benches.report import name_of
from benches.works import Outcome

LIMIT = 1.02
"""The highest ratio of this engine's CPU to the other's, over all works; for one work, if surely above it."""
ROOT = Path(__file__).parents[1]
_BUILD_BOUND_S = 900


class OtherEngine(Svload):
    """Another build of the engine, called like `Svload`, with the same share. For the works it is a peer."""

    get = "git"
    ours = False

    def __init__(self, commit: str, module: Path) -> None:
        super().__init__(f"svload {commit[:9]}")
        self._module = module

    def command(self, job: Job) -> list[str]:
        """The share's process loads that module instead of its own."""
        return [*super().command(job), str(self._module)]


@dataclass
class Comparison:
    """All works of one run. Ratios: process CPU per request, this engine over the other, paired by round."""

    commit: str
    outcomes: list[Outcome] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def overall(self) -> Ratio:
        """Over all works and rounds, equally weighted."""
        ours: dict[int, float] = {}
        theirs: dict[int, float] = {}
        for at, outcome in enumerate(self.outcomes):
            for rounds, cell in zip((ours, theirs), _pair(outcome), strict=True):
                rounds |= {at * 1_000 + number: value for number, value in cell.items()}
        return paired_ratio(ours, theirs)

    @property
    def slower(self) -> list[str]:
        """Works that are certainly slower."""
        sure = [outcome for outcome in self.outcomes if outcome.ratio and outcome.ratio.low > LIMIT]
        return [name_of(outcome) for outcome in sure]

    @property
    def passed(self) -> bool:
        """Return if every run counted, the overall ratio is within the limit, and no work is surely
        slower."""
        clean = not any(cell.failures for outcome in self.outcomes for cell in outcome.cells)
        return clean and not self.troubles and not self.slower and self.overall.value <= LIMIT

    def table(self) -> str:
        """Return one line per work, then the verdict."""
        lines = [f"this engine ÷ that of {self.commit[:12]}, process CPU a request (95 %)"]
        for outcome in self.outcomes:
            lines.append(f"  {name_of(outcome):<20} {interval(outcome.ratio)}")
            lines += [f"    ! {failure}" for cell in outcome.cells for failure in cell.failures]
        lines.append(f"  {'all':<20} {interval(self.overall)}")
        lines += [f"  ! {trouble}" for trouble in self.troubles]
        lines += [f"  ! {name} is surely slower" for name in self.slower]
        return "\n".join([*lines, f"{'kept' if self.passed else 'MISSED'}: at most {LIMIT:.2f} over all"])


def _pair(outcome: Outcome) -> tuple[dict[int, float], dict[int, float]]:
    cells = {cell.ours: cell.by_round("process_us") for cell in outcome.cells}
    return cells.get(True, {}), cells.get(False, {})


def other_engine(commit: str, folder: Path, say: Callable[[str], None]) -> OtherEngine:
    """Return the engine of a commit, built once in a worktree and kept. Raise Failed if git or cargo does."""
    full = _told(["git", "rev-parse", "--verify", f"{commit}^{{commit}}"]).strip()
    module = folder / "engines" / full / "_native.abi3.so"
    if not module.exists():
        say(f"building the engine of {full[:12]} (once; a minute or two)")
        module.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="svload-bench-") as place:
            tree = Path(place) / "tree"
            _told(["git", "worktree", "add", "--detach", str(tree), full])
            try:
                _build(tree, folder / "engines" / "target", module)
            finally:
                _told(["git", "worktree", "remove", "--force", str(tree)])
    return OtherEngine(full, module)


def _build(tree: Path, target: Path, module: Path) -> None:
    """Build like `make setup`: the release profile, with the crates that the tree has locked."""
    _told([sys.executable, "tools/cargo_lock.py", "write"], tree)
    words = ["cargo", "build", "--release", "--locked", "--package", "svload-native"]
    more = {
        "CARGO_TARGET_DIR": str(target.resolve()),
        "PYO3_PYTHON": sys.executable,
        "PYO3_BUILD_EXTENSION_MODULE": "1",
    }
    _told([*words, "--manifest-path", "engine/Cargo.toml"], tree, more)
    part = module.with_suffix(".part")
    shutil.copy2(target / "release" / "lib_native.so", part)
    part.replace(module)


def _told(command: Sequence[str], folder: Path = ROOT, more: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(command), cwd=folder, env=os.environ | (more or {}), capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=_BUILD_BOUND_S,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"{' '.join(command[:3])} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
