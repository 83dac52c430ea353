"""The committed run of the fifth paper's study: whole, and what its README says came out."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.studies.scripts import script

from svload import api
from svload.model.results import CaseResult, Findings
from svload.store import RunDir, open_pack, verify_run

STUDY = Path(__file__).parents[2] / "studies/005-file-server"
USERS = (1, 2, 4, 8, 16, 32, 64)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return open_pack(STUDY / "example/file-server-short.svload.zip", tmp_path_factory.mktemp("file-server"))


@pytest.fixture(scope="module")
def findings(run: RunDir) -> Findings:
    return api.runs.analyse(run)


@pytest.fixture(scope="module")
def cases(findings: Findings) -> dict[tuple[str, int], CaseResult]:
    return {(case.levels["size"], int(case.levels["users"])): case for case in findings.cases}


def own_script(name: str) -> ModuleType:
    return script(STUDY / f"{name}.py")


def readme() -> str:
    return " ".join((STUDY / "README.md").read_text(encoding="utf-8").split())


def test_it_is_whole(run: RunDir, findings: Findings) -> None:
    assert verify_run(run) == []
    assert findings.complete
    assert findings.sealed_trials == 147
    assert "147 trials in 29 minutes" in readme()


def test_one_user_fills_the_server(findings: Findings, cases: dict[tuple[str, int], CaseResult]) -> None:
    shown = {}
    for size, users in (("1KB", 1), ("1KB", 64), ("500KB", 1), ("500KB", 64)):
        found = cases[size, users].metrics["clients.throughput"].value
        assert found is not None
        shown[size, users] = f"{found:.0f}/s"
    p50 = [cases["1KB", users].metrics["clients.response.p50"].value for users in (1, 64)]
    assert p50[0] is not None
    assert p50[1] is not None
    told = (
        f"{shown['1KB', 1]} of 1 KB for one user (p50 {1e3 * p50[0]:.3g} ms), {shown['1KB', 64]} for 64 ({1e3 * p50[1]:.0f} ms); "
        f"{shown['500KB', 1]} and {shown['500KB', 64]} of 500 KB"
    )
    assert told in readme()
    stars = [limit for curve in findings.curves for limit in curve.limits if limit.name == "N*"]
    assert len(stars) == 6  # of 500 MB two levels are left, too few for a curve
    for star in stars:
        assert star.value is not None
        assert star.value < 1.5
        assert star.state != "bracketed"
    assert "is not bracketed by these levels" in readme()
    small = [curve for curve in findings.curves if curve.when["size"] not in ("50MB", "500MB")]
    assert max(abs(curve.law_off) for curve in small if curve.law_off is not None) < 0.03
    assert "holds within 3 % up to 1 MB" in readme()


def test_where_the_load_is_the_limit_no_throughput_is_told(cases: dict[tuple[str, int], CaseResult]) -> None:
    refused = {
        key: users
        for key in ("50MB", "500MB")
        if (users := [one for one in USERS if cases[key, one].metrics["clients.throughput"].value is None])
    }
    assert refused == {"50MB": [8, 16, 32, 64], "500MB": [4, 8, 16, 32, 64]}
    most = {
        size: max(
            value
            for users in USERS
            if (value := cases[size, users].metrics["clients.throughput"].value) is not None
        )
        for size in refused
    }
    told = f"{most['50MB']:.0f}/s of 50 MB and {most['500MB']:.1f}/s of 500 MB, with two users"
    assert told in readme()


def test_sending_the_file_leads_from_500_kb_on(run: RunDir) -> None:
    """Over all users of a size; at 500 KB single cases have some 200 samples, and one of the seven another answer."""
    callgraph = own_script("callgraph")
    at = list(callgraph.HEAD).index("paper: upload_file")
    agree = dict.fromkeys(("1KB", "10KB", "50KB", "500KB", "1MB", "50MB", "500MB"), 0)
    for line in callgraph.rows(run):
        agree[line[1].split()[0]] += line[at] == "agrees"
    assert agree == {"1KB": 0, "10KB": 0, "50KB": 0, "500KB": 6, "1MB": 7, "50MB": 7, "500MB": 7}


def test_both_scripts_tables_stand_in_one_report(run: RunDir) -> None:
    tables, callgraph = own_script("tables"), own_script("callgraph")
    first = callgraph.table([run])
    assert first is not None
    made = tables.table([api.read_findings(run)], [run.lock()])
    assert len(made.rows) == 6
    callgraph.put_beside(run, [first], "callgraph.py")
    callgraph.put_beside(run, [made], "tables.py")
    callgraph.put_beside(run, [first], "callgraph.py")
    assert [one.title for one in api.read_tables(run.tables_path)] == [made.title, first.title]
