"""Before a load begins nothing is loaded that only judging it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S

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


def run(code: str, *words: str, folder: Path) -> Any:
    places = {name: str(folder / name.lower()) for name in ("SVLOAD_STATE", "SVLOAD_CACHE")}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True, text=True, timeout=HANG_S, check=True, cwd=folder, env=os.environ | places,
    )  # fmt: skip
    return json.loads(done.stdout)


def tops(modules: list[str]) -> set[str]:
    return {module.split(".")[0] for module in modules}


@pytest.mark.truth
def test_the_command_judges_only_after_the_load(
    serve_truth: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{serve_truth()['http_port']}/info"
    found = run(CONTROLLER, url, folder=tmp_path)
    assert tops(found["begin"]) & (JUDGING | {"rich", "ruamel"}) == set()
    assert {"numpy", "pyarrow"} <= tops(found["end"]), "what is forbidden above is really needed later"
    kits = {module for module in found["begin"] if module.startswith("svload.lab.kits.")}
    assert kits == {"svload.lab.kits.external"}


@pytest.mark.parametrize("module", ["svload.drive.generator", "svload.watch.sampler"])
def test_a_speaking_child_loads_only_the_standard_library(module: str, tmp_path: Path) -> None:
    code = f"import json, sys, {module}; json.dump(sorted(sys.modules), sys.stdout)"
    strangers = tops(run(code, folder=tmp_path)) - set(sys.stdlib_module_names) - {"svload", "__main__"}
    assert {name for name in strangers if not name.startswith("_")} == set()


VALIDATING = {"pydantic", "pydantic_core", "ruamel", "rich", "numpy"}
TYPED = """
import json, os, sys
from svload.cli import main
from svload.run import hands

class Hands:
    def __init__(self, *_):
        json.dump(sorted(sys.modules), sys.stdout)
        sys.stdout.flush()
        os._exit(0)

hands.EarlyHands = Hands
os.environ["SVLOAD_LOCK"] = os.path.abspath("lock")  # another load may run beside the tests
sys.argv = ["svload", "load", sys.argv[1], "-c", "2", "-d", "1s", "--threshold", "p(99)<1s"]
main.main()
"""
HANDS = (
    "import json, sys, svload.host, svload.host.agent.serve, svload.drive.generators, svload.watch;"
    "json.dump(sorted(sys.modules), sys.stdout)"
)


def test_typing_a_load_waits_for_nothing_that_validates(tmp_path: Path) -> None:
    """The hands are being started before anything that validates a study is loaded: what is typed is
    checked with the standard library."""
    assert tops(run(TYPED, "http://127.0.0.1:9/", folder=tmp_path)) & VALIDATING == set()


def test_the_hands_are_started_by_nothing_that_validates(tmp_path: Path) -> None:
    """Neither on the controller's side nor on the agent's."""
    assert tops(run(HANDS, folder=tmp_path)) & VALIDATING == set()
