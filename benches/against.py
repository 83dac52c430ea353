"""Two engines in one run, alternated: that of this tree and that of another commit: `python -m benches.run
--against COMMIT [--quick]`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benches.figures import Ratio, paired_ratio
from benches.measure import Failed
from benches.peers import Job, Svload
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
        """Make the share's process load that module instead of its own."""
        return [*super().command(job), str(self._module)]


@dataclass
class Comparison:
    """All works of one run. Ratios: process CPU per request, this engine over the other, paired by round."""

    commit: str
    outcomes: list[Outcome] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def overall(self) -> Ratio:
        """Return the ratio over all works and rounds, equally weighted."""
        rounds: dict[bool, dict[int, float]] = {True: {}, False: {}}
        for at, outcome in enumerate(self.outcomes):
            for cell in outcome.cells:
                rounds[cell.ours] |= {1_000 * at + number: us for number, us in cell.by_round().items()}
        return paired_ratio(rounds[True], rounds[False])

    def failures(self) -> Iterator[str]:
        """Yield what went wrong, and the works that are certainly slower."""
        yield from self.troubles
        for outcome in self.outcomes:
            yield from (f"{outcome.name}: {why}" for cell in outcome.cells for why in cell.failures)
            if outcome.ratio.low > LIMIT:
                yield f"{outcome.name} is surely slower"

    @property
    def passed(self) -> bool:
        """Return if every run counted, the overall ratio is within the limit, and no work is surely
        slower."""
        return not any(self.failures()) and self.overall.value <= LIMIT

    def table(self) -> str:
        """Return one line per work, then the verdict."""
        lines = [f"this engine ÷ that of {self.commit[:12]}, process CPU a request (95 %)"]
        lines += [f"  {outcome.name:<20} {outcome.ratio}" for outcome in self.outcomes]
        lines += [f"  {'all':<20} {self.overall}", *(f"  ! {why}" for why in self.failures())]
        return "\n".join([*lines, f"{'kept' if self.passed else 'MISSED'}: at most {LIMIT:.2f} over all"])


def other_engine(commit: str, folder: Path, say: Callable[[str], None]) -> OtherEngine:
    """Return the engine of a commit, built once in a worktree and kept. Raise Failed if git or cargo does."""
    full = _output(["git", "rev-parse", "--verify", f"{commit}^{{commit}}"]).strip()
    module = folder / "engines" / full / "_native.abi3.so"
    if not module.exists():
        say(f"building the engine of {full[:12]} (once; a minute or two)")
        module.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="svload-bench-") as place:
            tree = Path(place) / "tree"
            _output(["git", "worktree", "add", "--detach", str(tree), full])
            try:
                _build(tree, folder / "engines" / "target", module)
            finally:
                _output(["git", "worktree", "remove", "--force", str(tree)])
    return OtherEngine(full, module)


def _build(tree: Path, target: Path, module: Path) -> None:
    """Build like `make setup`: the release profile, with the crates that the tree has locked."""
    _output([sys.executable, "tools/cargo_lock.py", "write"], tree)
    words = ["cargo", "build", "--release", "--locked", "--package", "svload-native"]
    words += ["--manifest-path", "engine/Cargo.toml"]
    more = {"CARGO_TARGET_DIR": str(target.resolve()), "PYO3_PYTHON": sys.executable}
    _output(words, tree, more | {"PYO3_BUILD_EXTENSION_MODULE": "1"})
    part = module.with_suffix(".part")
    shutil.copy2(target / "release" / "lib_native.so", part)
    part.replace(module)


def _output(command: Sequence[str], folder: Path = ROOT, more: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(command), cwd=folder, env=os.environ | (more or {}), capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=_BUILD_BOUND_S,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"{' '.join(command[:3])} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
