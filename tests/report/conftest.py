"""Synthetic runs in states that are hard to report, judged and reported once per session."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.report.wording_facts import searched
from tests.support import SyntheticRun, make_run

from svload import api
from svload.model.results import Findings
from svload.report.files.write import write_all
from svload.store import write_findings

Shown = Callable[..., str]
ONE_SERVER = {f"TC{6 * place + other}": "one server" for place in range(6) for other in range(1, 6)}
RUNS: dict[str, dict[str, Any]] = {
    "plain": {"cases": 6, "replicates": 3},
    "slower": {"cases": 6, "replicates": 3, "seed": 2, "median_ms": 12.0},
    "mixed": {
        "cases": 7,
        "replicates": 4,
        "factors": {"load": ["without", "with"]},
        "faults": {
            "TC1": "no-hits",
            "TC2": "errors",
            "TC3": "too-short",
            "TC4.r2": "generator-limited",
            "TC5.r1": "unsealed",
        },
    },
    "refused": {"cases": 2, "replicates": 2, "faults": {"*": "no-hits"}},
    "one": {"cases": 1, "replicates": 1},
    "hostile": {
        "cases": 8,
        "replicates": 1,
        "factors": {"fac<b>\u202etor": ["=1+1", "<img src=x onerror=alert(2)>"]},
        "faults": {"*": "hostile-names"},
    },
    "overloaded": {"cases": 2, "replicates": 2, "load": "open", "faults": {"TC1": "overloaded"}},
    "unmeasured": {"cases": 2, "replicates": 1, "faults": {"*": "unsealed"}},
    "users": {"users": (2, 3, 5, 8, 16, 32), "replicates": 3, "excluded": ONE_SERVER},
    "search": {"users": (2, 4, 6, 8, 12, 24), "replicates": 3, "excluded": ONE_SERVER},
}


def table_of(sheet: Any, head: int) -> list[dict[str, Any]]:
    """Return the rows of a sheet's table whose headings are in row `head`, as heading → cell's value."""
    rows = list(sheet.iter_rows(min_row=head, values_only=True))
    end = next((at for at, row in enumerate(rows) if at and row[0] is None), len(rows))
    return [dict(zip(map(str, rows[0]), row, strict=True)) for row in rows[1:end]]


@dataclass(frozen=True)
class Reported:
    """A run with its findings and the files made from it."""

    run: SyntheticRun
    findings: Findings
    files: dict[str, Path]

    @property
    def page(self) -> str:
        return self.files["report.html"].read_text(encoding="utf-8")


Reporter = Callable[[str], Reported]


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reporter:
    """`reported("mixed")`: made on first use, by any worker; the others read its files."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "reported"
    shared.mkdir(exist_ok=True)

    @cache
    def get(name: str) -> Reported:
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (shared / f"{name}.json").exists():
                _make(shared, name)
        return _read(shared, name)

    return get


def _make(shared: Path, name: str) -> None:
    run = make_run(shared / name, duration_s=0.6, **RUNS[name])
    findings = api.analyse(run)
    if name == "search":
        findings = searched(findings)
        write_findings(run, findings)
    files = write_all(run, findings)
    found = {"run": str(run.path), "files": {kind: str(file) for kind, file in files.items()}}
    (shared / f"{name}.json").write_text(json.dumps(found))


def _read(shared: Path, name: str) -> Reported:
    found = json.loads((shared / f"{name}.json").read_text())
    run = SyntheticRun(Path(found["run"]))
    files = {kind: Path(file) for kind, file in found["files"].items()}
    return Reported(run, Findings.read(run.findings_path), files)


@pytest.fixture(params=[name for name in RUNS if name != "slower"])
def any_run(request: pytest.FixtureRequest, reported: Reporter) -> Reported:
    """Return each of the runs in turn, except `slower`, which is only there to be compared."""
    return reported(request.param)


@pytest.fixture
def visited(needs: Callable[..., None], request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Return `visited(file, width, theme, anchor)`: the page; `seen` has every error and foreign request."""
    needs("chromium")
    browser = request.getfixturevalue("browser")
    pages = []

    def show(file: Path, width: int = 1200, theme: str = "light", anchor: str = "") -> Any:
        size = {"width": width, "height": 900}
        page = browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce")
        page.seen = []
        page.on("pageerror", lambda error: page.seen.append(str(error)))
        page.on("console", lambda message: page.seen.append(message.text))
        page.on("dialog", lambda dialog: (page.seen.append(dialog.message), dialog.dismiss()))
        foreign = re.compile("(?!file:|blob:)")
        page.on("request", lambda asked: page.seen.extend([asked.url] if foreign.match(asked.url) else []))
        page.goto(f"file://{file}{anchor}")
        pages.append(page)
        return page

    yield show
    for page in pages:
        page.close()


@pytest.fixture
def opened(visited: Callable[..., Any], reported: Reporter) -> Callable[..., Any]:
    """Return `opened("plain", width, theme, anchor)`: a run's report as `visited` shows it."""
    return lambda name, *where, **more: visited(reported(name).files["report.html"], *where, **more)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Return `shown(show_why, trial, findings, width=80)`: the printed text."""

    def show(print_it: Callable[..., None], *what: Any, width: int = 100, **more: Any) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        print_it(*what, **more)
        return capsys.readouterr().out

    return show


class Compared(NamedTuple):
    """The rows of two runs that are compared, and the page."""

    rows: list[dict[str, Any]]
    file: Path


@pytest.fixture(scope="session")
def compared(reported: Reporter, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Compared]:
    """Return `compared("plain", "slower")`: made on first use."""

    @cache
    def get(first: str, second: str) -> Compared:
        file = tmp_path_factory.mktemp("compared") / "compare.html"
        found = Compared(*api.compare(*(str(reported(name).run.path) for name in (first, second)), page=file))
        assert found.file == file
        return found

    return get
