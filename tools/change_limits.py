"""make test-limits: each limit of analysis/limits.py, changed by a third down and up, must make a test fail.

The tests are those of tests/analysis (on planted runs). One pass finds which tests read which limit; then,
for each change, these are run in a fork until one fails, the quickest first. Changes that no test noticed are listed. Exit 0: all were noticed; 1: some were
not; 2: the tests fail without a change, or could not be run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = ["tests/analysis"]
QUIET = ["-q", "--no-header", "-p", "no:cacheprovider", "-m", "not timing"]
NO_LIMITS = {"ANALYSIS_VERSION"}
LOWER, HIGHER = 2 / 3, 4 / 3


def changes(limits: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the limit, the name of the change, and its changed value; figures of a tuple change one by one,
    those of a table together."""
    for name, value in limits.items():
        if not name.isupper() or name.startswith("_") or name in NO_LIMITS:
            continue
        for factor in (LOWER, HIGHER):
            way = "lower" if factor < 1 else "higher"
            if isinstance(value, tuple) and all(map(_is_number, value)):
                for place, one in enumerate(value):
                    changed = (*value[:place], _changed(one, factor), *value[place + 1 :])
                    yield name, f"{name}[{place}] {way}", changed
            elif isinstance(value, dict) and all(map(_is_number, value.values())):
                yield name, f"{name} {way}", {key: _changed(one, factor) for key, one in value.items()}
            elif _is_number(value):
                yield name, f"{name} {way}", _changed(value, factor)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _changed(value: float, factor: float) -> float:
    """Change an integer by at least one; a share near 1 by its distance from 1."""
    if isinstance(value, int):
        return round(value * factor) if round(value * factor) != value else value + (1 if factor > 1 else -1)
    return 1 - (1 - value) * factor if 0.9 <= value < 1 else value * factor


class _Readers:
    """The tests that read each limit, and how long they take."""

    def __init__(self, limits: ModuleType) -> None:
        self.tests: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)
        self._now = ""
        readers = self

        class Traced(ModuleType):
            def __getattribute__(self, name: str) -> Any:
                if name.isupper():
                    readers.tests[name].add(readers._now)
                return super().__getattribute__(name)

        limits.__class__ = Traced

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._now = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def of(self, name: str) -> list[str]:
        """Return the tests that read it, the quickest first, then the others of their files, which may see
        what a shared fixture made: all tests, if it was read before any test ran."""
        known = self.tests[name]
        if "" in known or not known:
            return sorted(self.seconds, key=lambda test: self.seconds[test])
        files = {test.partition("::")[0] for test in known}
        beside = [test for test in self.seconds if test.partition("::")[0] in files]
        return sorted(beside, key=lambda test: (test not in known, self.seconds[test]))


class _Chosen:
    """Selects only these of the collected tests, in this order."""

    def __init__(self, chosen: list[str]) -> None:
        self.place = {nodeid: number for number, nodeid in enumerate(chosen)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (one for one in items if one.nodeid in self.place), key=lambda one: self.place[one.nodeid]
        )


def _in_fork(act: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            os._exit(act())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    """Find the readers, then make each change and run them."""
    known = argparse.ArgumentParser(description=__doc__)
    known.add_argument("names", nargs="*", help="only these limits")
    known.add_argument("--tests", nargs="+", default=TESTS, help="only these tests")
    asked = known.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    from svload.analysis import limits

    plain = dict(vars(limits))
    readers = _Readers(limits)
    if pytest.main([*QUIET, *asked.tests], [readers]) != 0:
        print("the tests fail without a change", file=sys.stderr)
        return 2
    limits.__class__ = ModuleType
    unnoticed = []
    for name, what, value in changes(plain):
        if asked.names and name not in asked.names:
            continue
        began = time.monotonic()

        def changed(name: str = name, value: Any = value) -> int:
            setattr(limits, name, value)
            for module in [one for key, one in sys.modules.items() if key.startswith("svload.analysis.")]:
                if vars(module).get(name) == plain[name] and module is not limits:
                    setattr(module, name, value)
            tests = readers.of(name)
            files = dict.fromkeys(test.partition("::")[0] for test in tests)
            return int(pytest.main([*QUIET, "-x", *files], [_Chosen(tests)]))

        code = _in_fork(changed)
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            print(f"pytest ended with {code} for {what}", file=sys.stderr)
            return 2
        noticed = code == pytest.ExitCode.TESTS_FAILED
        print(
            f"{'noticed  ' if noticed else 'UNNOTICED'} {what} ({time.monotonic() - began:.0f} s)", flush=True
        )
        if not noticed:
            unnoticed.append(what)
    print(f"{len(unnoticed)} changes that no test noticed: {', '.join(unnoticed) or 'none'}")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
