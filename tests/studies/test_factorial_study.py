"""studies/002-factorial-redis: its cells are the paper's, its sizes the server's own,
and all profiles can be planned."""

from __future__ import annotations

import csv
import operator
import sys
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest

from svload import api
from svload.analysis import plan_comparisons
from svload.lab import find_mistakes, kit_options
from svload.model.executors import ConstantVus, PerVuIterations
from svload.model.study import Lock
from svload.model.traffic import SizeCheck
from svload.report.terminal.tables import show_plan
from svload.study import load_study, resolve

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "studies/002-factorial-redis"
PROFILES = {
    "study.yaml": (None, "short", "demo", "without-root"),
    "memory.yaml": (None, "short"),
    "storage.yaml": (None, "short"),
    "confounded.yaml": (None, "demo"),
}


def lock(file: str, profile: str | None) -> Lock:
    return load_study(STUDY / file, profile=profile, kits=kit_options(), check_lab=find_mistakes)


@cache
def page_bytes(count: int) -> int:
    """What the target's page of 1! to `count`! has, joined by spaces."""
    sys.set_int_max_str_digits(0)
    factorials = accumulate(range(1, count + 1), operator.mul)
    return sum(len(f"{n}!={made}") for n, made in enumerate(factorials, 1)) + count - 1


def every_cell() -> Iterator[tuple[str, str | None]]:
    for file, profiles in PROFILES.items():
        for profile in profiles:
            yield file, profile


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


@pytest.mark.parametrize(("file", "profile"), list(every_cell()))
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
                assert isinstance(executor, PerVuIterations), (
                    "each user its own numbers, so that each is stored once"
                )
                assert executor.work == stored
        sizes = [check.size_bytes for check in users.request.checks if isinstance(check, SizeCheck)]
        lists = users.request.name != "factorial" and file != "confounded.yaml"
        assert sizes == ([page_bytes(stored)] if lists else [])


def test_the_papers_load() -> None:
    made = lock("study.yaml", None)
    assert (made.measure.duration_ns, made.measure.replicates) == (60_000_000_000, 6)
    for case in made.valid_cases:
        config = resolve(made, case)
        [users] = [group for group in config.groups if group.name == "users"]
        assert isinstance(users.executor, ConstantVus)
        assert users.executor.vus == 50
        assert users.request.name == case.levels["scenario"]
        [web] = [service for service in config.services if service.name == "web"]
        assert str(web.options["cpus"]) == case.levels["cpus"]


def states(made: Lock) -> dict[str, str]:
    """What the plan calls each comparison that a limit is compared in."""
    configs = {case.name: resolve(made, case) for case in made.valid_cases}
    return {
        one["name"]: one["state"]
        for one in plan_comparisons(made, configs=configs)
        if "think time" not in one["name"]
    }


@pytest.mark.parametrize("profile", PROFILES["confounded.yaml"])
def test_the_copy_whose_population_goes_with_the_limit_is_called_confounded(profile: str | None) -> None:
    made = lock("confounded.yaml", profile)
    assert set(states(made).values()) == {"confounded"}
    assert len(states(made)) == 2
    configs = {case.name: resolve(made, case) for case in made.valid_cases}
    for planned in plan_comparisons(made, configs=configs):
        assert "its levels change web.cpus and tables, feeders, before_trial at once" in planned["sentence"]


@pytest.mark.parametrize("profile", [None, "short"])
def test_the_study_itself_is_not(profile: str | None) -> None:
    assert list(states(lock("study.yaml", profile)).values()) == ["decidable"] * 4


def test_without_root_plan_says_what_is_left_out_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    planned = api.plan(str(STUDY), api.Choices(profile="without-root", out=tmp_path))
    left_out = [case for case in planned["cases"] if case["excluded"]]
    assert {case["excluded"] for case in left_out} == {"a limit on the CPU needs root"}
    assert {case["levels"]["cpus"] for case in left_out} == {"1.0", "0.9", "0.8"}
    assert len(left_out) == 18, "each of the paper's cells"
    assert [case["name"] for case in planned["cases"] if not case["excluded"]] == [
        "F-0",
        "F-100",
        "F-200",
        "S-0",
        "S-100",
        "S-200",
    ]
    show_plan(planned)
    assert "18 cases are not run: a limit on the CPU needs root (" in capsys.readouterr().out
    made = lock("study.yaml", "without-root")
    for case in made.valid_cases:
        [web] = [service for service in resolve(made, case).services if service.name == "web"]
        assert web.options.get("cpus") is None


@pytest.mark.parametrize(
    ("profile", "all_of_them"), [(None, True), ("demo", True), ("without-root", True), ("short", False)]
)
def test_raw_results_are_kept_for_jtl(profile: str | None, all_of_them: bool) -> None:
    """`short` keeps those of users who think, so that its pack stays small."""
    made = lock("study.yaml", profile)
    for case in made.valid_cases:
        [users] = [group for group in resolve(made, case).groups if group.name == "users"]
        assert users.keeps_rows == (all_of_them or case.levels["think"] != "0"), case.name


def test_before_any_run_plan_says_what_users_who_think_ask_for(tmp_path: Path) -> None:
    told = api.plan(str(STUDY), api.Choices(profile="short", out=tmp_path))["cautions"]
    assert len(told) == 2
    assert told[0].startswith(
        "50 users who think 100 ms ask for 500/s at most in F-1.0-100, F-0.9-100, F-0.8-100 and 3 more"
    )
    assert told[1].startswith("50 users who think 200 ms ask for 250/s at most in ")
