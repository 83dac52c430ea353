"""Layers of tests, and the rule for skipping (CONTRIBUTING.md).

A test of the ``real`` or ``look`` layer may require what a machine may lack with ``needs(...)``; if it is
missing the test is skipped and the run ends with one loud line. With ``CI=true`` that is a failure: our
machines must have what our tests need. Tests run in parallel (``tools/beside.sh``), each worker with a
separate machine-wide lock: two loads at the same time spoil each other's figures, but not what a test
asserts.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

LAYERS = ("pure", "truth", "real", "look")
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")

LACKING = re.compile(r"not on this machine: (.* \(root on Debian: make apt\))")

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def _surroundings(tmp_path_factory: pytest.TempPathFactory) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and a shell's & pass on ignored ones
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ["SVLOAD_LOCK"] = str(tmp_path_factory.getbasetemp() / "machine.lock")


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Fail a test that leaves a variable behind: tests that run after it in this process would read it."""
    before = _variables()
    yield
    changed = {name for name, _ in before.items() ^ _variables().items()}
    assert not changed, f"this test leaves environment variables changed: {sorted(changed)}"


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests without a layer theirs, and put pure tests last, so that workers end together (they take
    tests in this order)."""
    for item in items:
        if not any(map(item.get_closest_marker, LAYERS)):
            item.add_marker(pytest.mark.pure)
    items.sort(key=lambda item: item.get_closest_marker("pure") is not None)
    if seed := config.getoption("--shuffle"):
        files = sorted({_unit(item.nodeid) for item in items})
        random.Random(seed).shuffle(files)
        places = {file: place for place, file in enumerate(files)}
        items.sort(key=lambda item: places[_unit(item.nodeid)])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="take the files in an order that this chooses")
    parser.addoption("--left", metavar="SECONDS", type=float, help="begin no test after that")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_NotRun(config))


class _NotRun:
    """The tests that are not run: timing tests, which are counted, and those for which no time was left,
    which are listed."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.timing = 0
        left_s = config.getoption("--left")
        self.until = None if left_s is None else time.time() + left_s
        if hasattr(config, "workerinput"):
            self.until = config.workerinput["until"]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["until"] = self.until

    def pytest_report_header(self) -> str | None:
        seed = self.config.getoption("--shuffle")
        return seed and f"order of the files: seed {seed}"

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.timing += sum(item.get_closest_marker("timing") is not None for item in items)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["timing"] = self.timing

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the count from a worker of xdist: each has collected the same tests."""
        self.timing = max(self.timing, getattr(node, "workeroutput", {}).get("timing", 0))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if self.until is None or time.time() < self.until:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        item.ihook.pytest_runtest_logreport(report=not_run(item, "no time was left"))
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, Any] | None:
        """Return a separate outcome, neither a pass nor a failure nor a skip."""
        # A report of collection has no properties.
        if why := dict(getattr(report, "user_properties", ())).get("not run"):
            return "not run", "N", (f"NOT RUN: {why}", {"yellow": True})
        return None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for report in terminalreporter.stats.get("not run", ()):
            why = dict(report.user_properties)["not run"]
            terminalreporter.write_line(f"not run: {report.nodeid}: {why}", yellow=True)
        if self.timing:
            terminalreporter.write_line(f"left out: {self.timing} timing tests (make test-timing)")


def not_run(item: pytest.Item, why: str) -> pytest.TestReport:
    """Return the report of a test that was not run."""
    return pytest.TestReport(
        item.nodeid, item.location, {}, "skipped", why, "call", user_properties=[("not run", why)]
    )


APART = ("tests/docs/", "tests/journeys/")
TOGETHER = {
    "tests/journeys/test_demo.py": "demo",
    "tests/journeys/test_real.py": "swift",
    "tests/lab/test_swift.py": "swift",
}
"""Files in these folders are distributed test by test, with exceptions; every other file stays on one worker,
with what it makes once."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Group by file: the marker `xdist_group` has no effect with pytest 9.2 and xdist 3.8."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _unit(nodeid)

    return ByFile(config, log)


def _unit(nodeid: str) -> str:
    """Return the unit that one worker takes as a whole."""
    file = nodeid.partition("::")[0]
    return TOGETHER.get(file) or (nodeid if file.startswith(APART) else file)


@pytest.fixture(scope="session")
def needs() -> Callable[..., None]:
    """Call with names of programs (or ``"root"``): skip loudly, or fail in CI, if one is missing."""

    def ask(*wanted: str) -> None:
        if missing := [name for name in wanted if not _has(name)]:
            reason = f"not on this machine: {', '.join(missing)} (root on Debian: make apt)"
            if IN_CI:
                pytest.fail(f"{reason}; in CI nothing is skipped", pytrace=False)
            pytest.skip(reason)

    return ask


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Start the system's Chromium: one for the whole session, because Playwright refuses a second beside
    it. No sandbox, because tests may run as root; no traffic of its own."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-sync"]
    arguments += ["--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as play:
        found = play.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        yield found
        found.close()


def _has(name: str) -> bool:
    if name == "root":
        return os.geteuid() == 0
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None


@pytest.fixture
def serve_truth(tmp_path: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """Start known-truth servers outside any lab: serve_truth(**config) → its ready line (ports, pid). They
    end with the test."""
    from tests.servers import truth

    with ExitStack() as stack:
        yield lambda **config: stack.enter_context(truth(tmp_path / "truth.json", **config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one loud line per reason; from the reports, which come from every worker."""
    stats = terminalreporter.stats
    expected = [str(report.longrepr) for report in [*stats.get("skipped", ()), *stats.get("failed", ())]]
    for reason, tests in Counter(found[1] for text in expected if (found := LACKING.search(text))).items():
        text = f"!!! NOT TESTED: {tests} tests on real servers or pages, for lack of {reason}"
        terminalreporter.write_line(text, red=True, bold=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI, make any skip a failure, even without ``needs``."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if IN_CI and reporter is not None and reporter.stats.get("skipped") and exitstatus == 0:
        reporter.write_line("!!! a test was skipped, and in CI that is a failure", red=True, bold=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
