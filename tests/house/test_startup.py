"""The command line answers at once: what is heavy is imported when it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.bounds import HANG_S

pytestmark = pytest.mark.truth

HEAVY = {"pyarrow", "duckdb", "numpy", "scipy", "PIL", "reportlab", "pypdfium2", "pandas", "xlsxwriter"}
OWN = {"svload.run.execution", "svload.lab.lab", "svload.watch", "svload.report.page"}
NOT_BEFORE_A_LOAD = OWN | {"cryptography"}
HELP_S_MAX = 0.2
TRIES = 5
STUDY = str(Path(__file__).resolve().parents[2] / "studies" / "001-svload")


def imported(folder: Path, *words: str) -> set[str]:
    """Every module that ``svload WORDS`` loads, and the packages that hold it."""
    places = {name: str(folder / name.lower()) for name in ("SVLOAD_STATE", "SVLOAD_CACHE")}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "svload", *words],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
        env=os.environ | places,
        cwd=folder,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    modules = {line.rsplit("|", 1)[1].strip() for line in lines}
    return modules | {module.split(".")[0] for module in modules}


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("plan", STUDY, "--profile", "real"),
        ("lab", "status"),
        ("schema",),
        ("doctor", STUDY, "--profile", "demo"),
    ],
    ids=lambda words: " ".join(word for word in words if word != STUDY),
)
def test_what_makes_no_load_loads_nothing_heavy(tmp_path: Path, words: tuple[str, ...]) -> None:
    loaded = imported(tmp_path, *words)
    assert "svload.cli.main" in loaded
    assert loaded & (HEAVY | NOT_BEFORE_A_LOAD) == set()


def test_what_must_not_be_loaded_is_named_as_it_is() -> None:
    """The list of what is heavy holds names that exist."""
    code = (
        "import svload.run.execution, svload.report.page, svload.lab.authority, svload.lab.lab, "
        "svload.store.parquet, svload.watch, sys;"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    loaded = set(done.stdout.split())
    assert {"pyarrow", "numpy", "svload.watch"} | NOT_BEFORE_A_LOAD <= loaded


@pytest.mark.timing
def test_help_is_quick() -> None:
    command = [str(Path(sys.executable).with_name("svload")), "--help"]
    times = []
    for _ in range(TRIES):
        begun = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
        times.append(time.perf_counter() - begun)
    assert "svload" in done.stdout
    assert min(times) < HELP_S_MAX, f"the quickest of {TRIES} took {min(times):.2f} s"
