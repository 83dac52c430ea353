"""The wheel contains all that svload needs: installed in a clean environment elsewhere, it runs the demo."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import completed

pytestmark = [pytest.mark.truth, pytest.mark.long]
ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent


@dataclass(frozen=True)
class Installed:
    """A clean environment with the wheel in it."""

    python: Path
    elsewhere: Path

    @property
    def tools(self) -> Path:
        """Return a folder with the programs that a machine has: no compiler, no make."""
        folder = self.elsewhere.with_name("tools")
        if not folder.is_dir():
            folder.mkdir()
            for name in ("sh", "env", "uname", "ldconfig"):
                found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
                assert found
                (folder / name).symlink_to(found)
        return folder

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder outside the source tree, which it can't reach."""
        path = f"{self.python.parent}:{self.tools}"
        environment = {"PATH": path, "HOME": str(self.elsewhere), "LANG": "C.UTF-8"}
        return completed([self.python.with_name(words[0]), *words[1:]], cwd=self.elsewhere, env=environment)

    def json(self, *words: str) -> Any:
        """Run a command of svload with `--json`; return the document."""
        done = self.run("svload", *words, "--json")
        assert done.stdout, done.stderr[-3000:]
        return json.loads(done.stdout)


def must(*words: str | Path) -> None:
    environment = dict(os.environ, PYO3_PYTHON=sys.executable, VIRTUAL_ENV=str(TOOLS.parent))
    done = completed(words, cwd=ROOT, env=environment, timeout=3 * HANG_S)
    assert done.returncode == 0, f"{words[0]}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    must("make", "wheel", f"OUT={folder}")
    (wheel,) = folder.glob("svload-*.whl")
    python = folder / "venv" / "bin" / "python"
    must(sys.executable, "-m", "venv", folder / "venv")
    hashed = ("--require-hashes", "-r", folder / "requirements.txt")
    must(TOOLS / "uv", "pip", "install", "--quiet", "--python", python, *hashed)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    made = Installed(python, elsewhere)
    # Without an index: whatever the wheel requires lies beside it. Neither cargo nor make is on the path.
    done = made.run("pip", "install", "--no-index", str(wheel))
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_the_wheel_runs_every_case_of_the_demo(installed: Installed) -> None:
    """`make bench` tests that none of its trials is refused on an idle machine."""
    assert json.loads(installed.run("svload", "schema").stdout)
    found = installed.json("demo", "--replicates", "1")
    assert (found["sealed"], found["complete"]) == (20, True)
    assert len([case for case in found["findings"]["cases"] if case["excluded"]]) == 4
    for name in ("report.html", "report.xlsx"):
        assert (installed.elsewhere / found["files"][name]).stat().st_size > 0


def test_one_wheel_serves_every_python(installed: Installed) -> None:
    (wheel,) = installed.elsewhere.parent.glob("svload-*.whl")
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as held:
        names = set(held.namelist())
    package = ROOT / "src" / "svload"
    code = (".py", ".pyc", ".so", ".jinja")
    data = [path for path in package.rglob("*") if path.is_file() and path.suffix not in code]
    assert len(data) > 8
    assert {f"svload/{path.relative_to(package)}" for path in data} <= names
