"""Layers of tests and the one rule on skipping.

A test without a layer is ``pure``. A test of the ``real`` or ``look`` layer may ask for what a machine may lack with
``needs(...)``; where it is missing the test is skipped and the run ends with one loud line. With ``CI=true`` that is
a failure: a machine of ours must have what our tests need.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

LAYERS = ("pure", "truth", "truth_long", "real", "look")
READY_WITHIN_S = 30.0
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")

_lacking = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_lacking] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        layers = [name for name in LAYERS if item.get_closest_marker(name)]
        if not layers:
            item.add_marker(pytest.mark.pure)


@pytest.fixture
def needs(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Call with names of programs (or ``"root"``): skips loudly, or fails in CI, when one is missing."""
    lacking = request.config.stash[_lacking]

    def ask(*wanted: str) -> None:
        missing = [name for name in wanted if not _has(name)]
        if not missing:
            return
        reason = f"needs {', '.join(missing)} (root on Debian: make apt)"
        lacking.setdefault(reason, []).append(request.node.nodeid)
        if IN_CI:
            pytest.fail(f"{reason}; in CI nothing is skipped", pytrace=False)
        pytest.skip(reason)

    return ask


def _has(name: str) -> bool:
    if name == "root":
        return os.geteuid() == 0
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None


@contextmanager
def _running_truth(file: Path, **config: Any) -> Iterator[dict[str, Any]]:
    file.write_text(json.dumps({"role": "store", "http_port": 0, "admin_port": 0, **config}))
    command = [sys.executable, "-m", "svload.truth", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], READY_WITHIN_S)[0], "no ready line"
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.fixture
def serve_truth(tmp_path: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """Start known-truth servers outside any lab: serve_truth(**config) → its ready line (ports, pid). They end with the test."""
    with ExitStack() as stack:
        yield lambda **config: stack.enter_context(_running_truth(tmp_path / "truth.json", **config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for reason, tests in config.stash[_lacking].items():
        terminalreporter.write_line(
            f"!!! NOT TESTED: {len(tests)} tests on real servers or pages: {reason}", red=True, bold=True
        )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skip of any kind is a failure, also one that did not ask ``needs``."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if IN_CI and reporter is not None and reporter.stats.get("skipped") and exitstatus == 0:
        reporter.write_line("!!! a test was skipped, and in CI that is a failure", red=True, bold=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
