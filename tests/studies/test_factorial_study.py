"""studies/002-factorial-redis: its cells are the paper's, its sizes the server's own,
and all profiles can be planned."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svload.lab import find_mistakes, kit_options
from svload.model.executors import ConstantVus, PerVuIterations
from svload.model.study import Lock
from svload.model.traffic import SizeCheck
from svload.study import load_study, resolve

STUDY = Path(__file__).parents[2] / "studies/002-factorial-redis"
PROFILES = {
    "study.yaml": (None, "short", "demo", "without-root"),
    "memory.yaml": (None, "short"),
    "storage.yaml": (None, "short"),
    "confounded.yaml": (None, "demo"),
}


def lock(file: str, profile: str | None) -> Lock:
    return load_study(STUDY / file, profile=profile, kits=kit_options(), check_lab=find_mistakes)


def page_bytes(count: int) -> int:
    """What the target's page of 1! to `count`! has, joined by spaces."""
    sys.set_int_max_str_digits(0)
    return sum(len(f"{n}!={math.factorial(n)}") for n in range(1, count + 1)) + count - 1


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
        assert numbers is not None
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
