"""Commands start fast; modules that only judging needs are not loaded before a load begins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.servers import completed

HEAVY = {"pyarrow", "duckdb", "numpy", "scipy", "PIL", "reportlab", "pypdfium2", "pandas", "xlsxwriter"}
OWN = {"svload.run.execution", "svload.lab.lab", "svload.watch", "svload.report.page"}
NOT_BEFORE_A_LOAD = OWN | {"cryptography"}
HELP_S_MAX = 0.2
TRIES = 5
STUDY = str(Path(__file__).resolve().parents[2] / "studies" / "001-svload")


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with svload's own folders in it."""
    places = {name: str(folder / name.lower()) for name in ("SVLOAD_STATE", "SVLOAD_CACHE")}
    return completed([sys.executable, *words], cwd=folder, env=os.environ | places, check=True)


def tops(modules: Iterable[str]) -> set[str]:
    return {module.split(".")[0] for module in modules}


@pytest.mark.truth
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
    said = run("-X", "importtime", "-m", "svload", *words, folder=tmp_path).stderr
    loaded = {
        line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")
    }
    assert "svload.cli.main" in loaded
    assert (loaded | tops(loaded)) & (HEAVY | NOT_BEFORE_A_LOAD) == set()


@pytest.mark.truth
def test_what_must_not_be_loaded_is_named_as_it_is(tmp_path: Path) -> None:
    """The list of heavy modules contains only names that exist."""
    code = (
        "import svload.run.execution, svload.report.page, svload.lab.authority, svload.lab.lab, "
        "svload.store.parquet, svload.watch, sys;"
        "print(*sys.modules)"
    )
    loaded = set(run("-c", code, folder=tmp_path).stdout.split())
    assert {"pyarrow", "numpy", "svload.watch"} | NOT_BEFORE_A_LOAD <= loaded


@pytest.mark.truth
@pytest.mark.timing
def test_help_is_quick() -> None:
    command = [str(Path(sys.executable).with_name("svload")), "--help"]
    times = []
    for _ in range(TRIES):
        begun = time.perf_counter()
        done = completed(command, check=True)
        times.append(time.perf_counter() - begun)
    assert "svload" in done.stdout
    assert min(times) < HELP_S_MAX, f"the quickest of {TRIES} took {min(times):.2f} s"


NUMBERS = {"numpy", "scipy", "pyarrow", "duckdb"}
JUDGING = NUMBERS | {"PIL", "reportlab", "pypdfium2", "jinja2", "xlsxwriter", "cryptography"}
CONTROLLER = """
import json, sys
from svload import api
at_begin = []

def emit(event):
    if event.kind == "trial-phase" and event.data["name"] == "count":
        at_begin.append(sorted(sys.modules))

api.load(api.QuickLoad(sys.argv[1], vus=1, duration="0.3s"), emit=emit)
json.dump({"begin": at_begin[0], "end": sorted(sys.modules)}, sys.stdout)
"""


@pytest.mark.truth
def test_judging_starts_after_the_load(serve_truth: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{serve_truth()['http_port']}/info"
    found = json.loads(run("-c", CONTROLLER, url, folder=tmp_path).stdout)
    assert tops(found["begin"]) & (JUDGING | {"rich", "ruamel"}) == set()
    assert {"numpy", "pyarrow"} <= tops(found["end"]), "what is forbidden above is really needed later"
    kits = {module for module in found["begin"] if module.startswith("svload.lab.kits.")}
    assert kits == {"svload.lab.kits.external"}


@pytest.mark.parametrize("module", ["svload.drive.generator", "svload.watch.sampler"])
def test_a_speaking_child_loads_only_the_standard_library(module: str, tmp_path: Path) -> None:
    loaded = run("-c", f"import sys, {module}; print(*sys.modules)", folder=tmp_path).stdout.split()
    strangers = tops(loaded) - set(sys.stdlib_module_names) - {"svload", "__main__"}
    assert {name for name in strangers if not name.startswith("_")} == set()


VALIDATING = {"pydantic", "pydantic_core", "ruamel", "rich", "numpy"}
TYPED = """
import os, sys
from svload.cli import main
from svload.run import hands

class Hands:
    def __init__(self, *_):
        print(*sys.modules, flush=True)
        os._exit(0)

hands.EarlyHands = Hands
os.environ["SVLOAD_LOCK"] = os.path.abspath("lock")  # another load may run beside the tests
sys.argv = ["svload", "load", sys.argv[1], "-c", "2", "-d", "1s", "--threshold", "p(99)<1s"]
main.main()
"""
HANDS = "import sys, svload.host, svload.host.agent.serve, svload.drive.generators, svload.watch; print(*sys.modules)"


@pytest.mark.parametrize("words", [(TYPED, "http://127.0.0.1:9/"), (HANDS,)], ids=["typed", "hands"])
def test_a_load_is_started_by_nothing_that_validates(words: tuple[str, ...], tmp_path: Path) -> None:
    """The agent is being started before anything that validates a study is loaded: the command line is
    checked with the standard library. So are the hands, on the controller's side and on the agent's."""
    assert tops(run("-c", *words, folder=tmp_path).stdout.split()) & VALIDATING == set()
