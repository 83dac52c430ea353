"""Before a load begins nothing is loaded that only judging it needs, neither in the command nor in the process that makes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JUDGING = {
    "numpy",
    "scipy",
    "pyarrow",
    "duckdb",
    "altair",
    "vl_convert",
    "jinja2",
    "xlsxwriter",
    "cryptography",
}
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
        capture_output=True, text=True, timeout=60, check=True, cwd=folder, env=os.environ | places,
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


def test_typing_a_load_waits_for_no_pydantic(tmp_path: Path) -> None:
    """The agent is started before anything that validates is loaded: what is typed is checked with the standard library."""
    code = (
        "import json, sys, svload.host.lock; from svload import api; from svload.drive.targets import find_target, parse_url;"
        "ask = api.QuickLoad('http://127.0.0.1:9/', thresholds=('p(99)<1s',)); ask.check(); find_target(parse_url(ask.url));"
        "json.dump(sorted(sys.modules), sys.stdout)"
    )
    assert tops(run(code, folder=tmp_path)) & {"pydantic", "typer", "numpy"} == set()
