"""studies/002-factorial-redis: the paper's cells, and what the README says about its run."""

from __future__ import annotations

import csv
import math
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import pytest
from tests.results import findings_of, trial_result
from tests.studies.scripts import check_readme, check_whole, packed, script

from svload import api
from svload.api import OwnTable
from svload.lab import find_mistakes, kit_options
from svload.model.executors import PerVuIterations
from svload.model.results import Belief, Estimate, Findings, TrialResult
from svload.model.study import Lock
from svload.model.traffic import SizeCheck
from svload.report.terminal.tables import show_plan
from svload.store import RunDir, open_pack
from svload.study import load_study, resolve

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "studies/002-factorial-redis"
PROFILES = [
    *(("study.yaml", profile) for profile in (None, "short", "demo", "without-root")),
    *((file, profile) for file in ("memory.yaml", "storage.yaml") for profile in (None, "short")),
    *(("confounded.yaml", profile) for profile in (None, "demo")),
]


def lock(file: str, profile: str | None) -> Lock:
    return load_study(STUDY / file, profile=profile, kits=kit_options(), check_lab=find_mistakes)


@cache
def page_bytes(count: int) -> int:
    """Return the content of the target's page of 1! to `count`!, joined by spaces."""
    logs = accumulate(map(math.log10, range(1, count + 1)))
    return sum(len(f"{n}!=") + int(log) + 1 for n, log in enumerate(logs, 1)) + count - 1


def test_every_cell_of_the_papers_tables_is_a_case_in_its_order() -> None:
    paper = list(csv.DictReader((STUDY / "reference/factorial.csv").open()))
    cases = [case.levels for case in lock("study.yaml", None).cases]
    assert cases == [
        {
            "scenario": row["scenario"],
            "cpus": row["cpus"],
            "think": "0" if row["delay_ms"] == "0" else f"{row['delay_ms']}ms",
        }
        for row in paper
    ]


@pytest.mark.parametrize(("file", "profile"), PROFILES)
def test_a_page_is_held_against_what_was_stored(file: str, profile: str | None) -> None:
    made = lock(file, profile)
    for case in made.valid_cases:
        config = resolve(made, case)
        tables = {table.name: table.numbers for table in config.tables}
        [numbers] = [tables[feeder.table] for feeder in config.feeders if feeder.name == "counter"]
        stored = numbers[1]
        [users] = [group for group in config.groups if group.name == "users"]
        for step in config.before_trial:
            if step.populate is not None:
                executor = step.populate.executor
                assert isinstance(executor, PerVuIterations), "each user its own numbers, each stored once"
                assert executor.work == stored
        sizes = [check.size_bytes for check in users.request.checks if isinstance(check, SizeCheck)]
        lists = users.request.name != "factorial" and file != "confounded.yaml"
        assert sizes == ([page_bytes(stored)] if lists else [])


def test_without_root_plan_says_what_is_left_out_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    planned = api.plan(str(STUDY), api.Choices(profile="without-root", out=tmp_path))
    kept = [case["name"] for case in planned["cases"] if not case["excluded"]]
    assert kept == ["F-0", "F-100", "F-200", "S-0", "S-100", "S-200"]
    show_plan(planned)
    assert "18 cases are not run: a limit on the CPU needs root (" in capsys.readouterr().out
    made = lock("study.yaml", "without-root")
    for case in made.valid_cases:
        [web] = [service for service in resolve(made, case).services if service.name == "web"]
        assert web.options.get("cpus") is None


def test_before_any_run_plan_says_what_users_who_think_ask_for(tmp_path: Path) -> None:
    found = api.plan(str(STUDY), api.Choices(profile="short", out=tmp_path))["cautions"]
    first, second = found
    cases = "F-1.0-100, F-0.9-100, F-0.8-100 and 3 more"
    assert first.startswith(f"50 users who think 100 ms request at most 500/s in {cases}")
    assert second.startswith("50 users who think 200 ms request at most 250/s in ")


run = packed(STUDY / "example/factorial-short.svload.zip")


@pytest.fixture(scope="module")
def findings(run: RunDir) -> Findings:
    return api.runs.analyse(run)


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return script(STUDY / "tables.py")


@pytest.fixture(scope="module")
def made(run: RunDir, findings: Findings, tables: ModuleType) -> dict[str, OwnTable]:
    """Return what tables.py prints of it, by title."""
    return {table.title: table for table in tables.tables(findings, tables.asking(run.path))}


def test_it_is_whole(run: RunDir, findings: Findings) -> None:
    check_whole(run, findings, 108)


def test_the_law_and_the_limits_are_reported(findings: Findings) -> None:
    text = [one.sentence for one in findings.findings if one.kind == "law"]
    factorial = [one for one in text if one.startswith("scenario factorial")]
    assert len(factorial) == 3
    for sentence in factorial:
        assert "did not make the server faster" in sentence
        assert "N = X·(R + Z) holds within 1 %" in sentence
    for sentence in (one for one in text if one.startswith("scenario calculationsStored")):
        assert "Z* is not bracketed by the levels" in sentence, "it is full at every level"
    limits = [one.sentence for one in findings.findings if one.kind == "limit"]
    assert any("F-0.8-0: the CPU quota of web (web) was full" in one for one in limits)


def test_think_time_is_decided(findings: Findings) -> None:
    made = [one for one in findings.claims if one.name.startswith("think time where factorials are made")]
    assert [(claim.outcome, claim.ratio.high < 0.4) for claim in made] == [("decided", True)] * 2


def test_the_readme_shows_what_its_tables_say(made: dict[str, OwnTable]) -> None:
    assert (len(made), len(made["Cell by cell"].rows)) == (6, 18)
    check_readme(STUDY, *made.values())


@pytest.mark.parametrize(
    ("pack", "trials"), [("memory-short", 42), ("storage-short", 36), ("confounded-demo", 9)]
)
def test_the_readme_shows_other_tables(tables: ModuleType, tmp_path: Path, pack: str, trials: int) -> None:
    run = open_pack(STUDY / f"example/factorial-{pack}.svload.zip", tmp_path)
    found = api.runs.analyse(run)
    check_whole(run, found, trials)
    [made] = [table for table in tables.tables(found, lambda query: []) if table.rows]
    check_readme(STUDY, made)
    if pack == "confounded-demo":
        assert {claim.outcome for claim in found.claims} == {"open"}
    if pack == "memory-short":
        assert sum(one.kind == "death" for one in found.findings) == 3


def trial(rate: float, cores: float, belief: Belief | None = None) -> TrialResult:
    used = Estimate(value=cores, belief=belief)
    return trial_result("a", metrics={"users.throughput": Estimate(value=rate), "web.cpu.mean": used})


def test_a_trial_that_is_not_believed_makes_no_cost(tables: ModuleType) -> None:
    good, wrong, idle = trial(50.0, 0.1), trial(50.0, 5.0, Belief(grade="REFUSED")), trial(0.0, 0.1)
    costs = [tables.cost(trials, "web") for trials in ([wrong, good], [wrong], [idle])]
    assert costs == ["2 ms", "–", "–"]


def test_nothing_measured_is_reported_as_nothing(tables: ModuleType) -> None:
    made = {table.title: table for table in tables.tables(findings_of(study="factorial"), lambda query: [])}
    assert [row[1] for row in made["Cell by cell"].rows] == ["–"] * 18
    assert {row[3] for row in made["What the limit does to throughput"].rows} == {"not measured"}
    assert {row[1] for row in made["All cells from two demands"].rows} == {"–"}
