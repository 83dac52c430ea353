"""studies/004-swift-locust: its levels are the paper's users and times, and every profile can be planned."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import duckdb
import pytest

from svload.analysis.checks import all_checks
from svload.analysis.tables import all_table_checks
from svload.lab import find_mistakes, kit_options
from svload.model.executors import ConstantVus
from svload.model.study import Lock
from svload.model.traffic import DigestCheck, SizeCheck, TakenPart, Text
from svload.study import load_study, resolve

STUDY = Path(__file__).parents[2] / "studies/004-swift-locust"
S_NS = 1_000_000_000


def lock(profile: str | None, file: str = "study.yaml") -> Lock:
    return load_study(STUDY / file, profile=profile, kits=kit_options(), check_lab=find_mistakes)


def test_users_and_times_are_the_papers() -> None:
    paper = list(csv.DictReader((STUDY / "reference/summary.csv").open()))
    made = lock(None)
    found = []
    for case in made.valid_cases:
        config = resolve(made, case)
        [group] = config.groups
        executor = group.executor
        assert isinstance(executor, ConstantVus)
        assert executor.ramp_up_ns == executor.vus * S_NS, "one user a second"
        assert executor.think_time.uniform_ns == (S_NS, 2 * S_NS)
        found.append((executor.vus, (executor.ramp_up_ns + config.measure.duration_ns) // S_NS))
        assert [(one.count, one.size) for one in config.objects] == [(20, {"constant": 5_000_000})]
    assert found == [(int(row["users"]), int(row["run_time_s"])) for row in paper]


@pytest.mark.parametrize("profile", ["demo", "short"])
def test_a_shorter_profile_has_the_same_users(profile: str) -> None:
    made = lock(profile)
    executors = [resolve(made, case).groups[0].executor for case in made.valid_cases]
    assert [executor.vus for executor in executors if isinstance(executor, ConstantVus)] == [10, 50, 100, 150]


def test_the_papers_table_is_in_seconds() -> None:
    """5 MB in its mean of 0.37 of anything below a second would be faster than memory."""
    for row in csv.DictReader((STUDY / "reference/summary.csv").open()):
        assert {name for name in row if name.startswith(("mean", "p"))} == {
            "mean_s",
            "p25_s",
            "p50_s",
            "p75_s",
        }
        assert float(row["min_s"]) <= float(row["p25_s"]) <= float(row["p50_s"]) <= float(row["max_s"])


@pytest.mark.parametrize("profile", [None, "demo"])
def test_the_mix_reads_and_deletes_what_it_wrote(profile: str | None) -> None:
    made = lock(profile, "mixed.yaml")
    for case in made.valid_cases:
        config = resolve(made, case)
        [group] = config.groups
        asked = {step.name: step.request for step in group.steps}
        assert set(asked) == {"put", "get", "head", "range", "list", "delete", "renewal"}
        assert asked["put"].adds == asked["get"].draws == asked["delete"].draws == "written"
        assert asked["delete"].removes
        token_life_ns = next(one.options["token_life"] for one in config.services)
        assert token_life_ns == "10min"
        assert group.scenarios[-1].renew_ns == 300 * S_NS, "before it ends"


def test_the_ring_keeps_three_copies_and_verifies_each_read() -> None:
    made = lock("verify", "ring.yaml")
    [case] = made.valid_cases
    config = resolve(made, case)
    [service] = config.services
    assert [service.options[name] for name in ("object_servers", "object_replicas")] == [3, 3]
    writers, readers = config.groups
    assert writers.request.adds == readers.request.draws == "written"
    assert writers.request.body is not None
    assert any(isinstance(check, DigestCheck) and check.digest == "md5" for check in readers.request.checks)
    assert config.measure.duration_ns >= 180 * S_NS


@pytest.mark.parametrize("profile", [None, "ring"])
def test_the_large_object_is_of_a_gibibyte_and_goes_both_ways(profile: str | None) -> None:
    made = lock(profile, "large.yaml")
    [case] = made.valid_cases
    [group] = resolve(made, case).groups
    put, get, delete = (step.request for step in group.steps)
    assert put.body is not None
    assert put.body.random is not None
    assert put.body.random.mean_bytes == 1 << 30
    assert (put.adds, get.draws, delete.removes) == ("written", "written", True)


def test_the_breakpoint_is_searched_over_users() -> None:
    made = lock(None, "breakpoint.yaml")
    assert [(factor.name, factor.open) for factor in made.factors] == [("users", (10, 400))]


@pytest.mark.parametrize("profile", [None, "unlimited", "demo"])
def test_the_script_asks_all_objects_in_order_and_does_not_wait(profile: str | None) -> None:
    made = lock(profile, "script.yaml")
    users = []
    for case in made.valid_cases:
        config = resolve(made, case)
        [group] = config.groups
        assert isinstance(group.executor, ConstantVus)
        assert group.executor.think_time.mean_ns == 0
        users.append(group.executor.vus)
        [feeder] = config.feeders
        assert (feeder.take, feeder.offset) == ("walk", 0), "every user begins with the first object"
        [service] = config.services
        link = service.options.get("link")
        assert link == (None if profile == "unlimited" else {"rate": "360 Mbit/s"})
    assert users == [10, 50, 100, 150]


@pytest.mark.parametrize("profile", [None, "demo"])
def test_the_scripts_ramp_takes_the_papers_part_of_the_time(profile: str | None) -> None:
    made = lock(profile, "script.yaml")
    shares = []
    for case in made.valid_cases:
        config = resolve(made, case)
        executor = config.groups[0].executor
        assert isinstance(executor, ConstantVus)
        shares.append(executor.ramp_up_ns / (executor.ramp_up_ns + config.measure.duration_ns))
    assert shares == pytest.approx([10 / 70, 50 / 130, 100 / 150, 150 / 170])


SCALE = (STUDY / "queries/scale.sql").read_text()
STATISTICS = ("mean", "std", "min", "p25", "p50", "p75", "max")


def scaled(served_per_s: float) -> dict[tuple[int, str], dict[str, float]]:
    """What scale.sql tells of a server that is full from the first user on: users / served_per_s each."""
    with duckdb.connect(":memory:") as base:
        base.execute("create table cases (case_name text, users text)")
        base.execute("create table trials (trial text, window_from_ns bigint, window_to_ns bigint)")
        base.execute(
            "create table samples (trial text, case_name text, error int, due_ns bigint, done_ns bigint)"
        )
        for users, seconds in ((10, 70), (50, 130), (100, 150), (150, 170)):
            name = f"vus-{users}"
            base.execute("insert into cases values (?, ?)", [name, name])
            base.execute("insert into trials values (?, ?, ?)", [name, users * S_NS, seconds * S_NS])
            base.execute(
                "insert into samples select $name, $name, 0, cast((at_s - least(at_s, $users) / $rate) * 1e9 as bigint),"
                " cast(at_s * 1e9 as bigint) from (select n / $rate as at_s from range(1, cast(2 * $seconds * $rate as int)) t(n))",
                {"name": name, "users": users, "rate": served_per_s, "seconds": seconds},
            )
        answer = base.execute(SCALE)
        names = [column[0] for column in answer.description]
        rows = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    return {(row["users"], row["who"]): row for row in rows}


def test_the_paper_beside_a_run_is_the_papers_table() -> None:
    found = scaled(40.0)
    for row in csv.DictReader((STUDY / "reference/summary.csv").open()):
        told = found[int(row["users"]), "paper"]
        for name in STATISTICS:
            assert told[f"{name}_x"] == pytest.approx(float(row[f"{name}_s"]) / 0.37, abs=0.005), (
                row["users"],
                name,
            )
    rates = [found[users, "paper"]["per_s"] for users in (10, 50, 100, 150)]
    assert rates == pytest.approx([25.1, 24.8, 25.3, 25.7], abs=0.05)


@pytest.mark.parametrize("served_per_s", [25.0, 60.0])
def test_a_server_that_is_full_from_the_first_level_is_the_paper_up_to_scale(served_per_s: float) -> None:
    found = scaled(served_per_s)
    for users in (10, 50, 100, 150):
        alone, ramp = found[users, "ours"], found[users, "ours, ramp in"]
        assert alone["mean_x"] == pytest.approx(users / 10, rel=0.01), "N / X"
        assert alone["mean_s"] == pytest.approx(users / served_per_s, rel=0.01)
        assert alone["per_s"] == pytest.approx(served_per_s, rel=0.01)
        assert alone["served_x"] == ramp["served_x"] == pytest.approx(1.0, abs=0.02)
        assert ramp["mean_x"] == pytest.approx(found[users, "paper"]["mean_x"], rel=0.05), (
            "the ramp is in both"
        )


@pytest.mark.parametrize("profile", [None, "ring"])
def test_every_byte_of_an_object_in_segments_is_read_by_its_segments_digest(profile: str | None) -> None:
    made = lock(profile, "segments.yaml")
    for case, segment_bytes in zip(made.valid_cases, (1 << 20, 1 << 28), strict=True):
        [group] = resolve(made, case).groups
        asked = {step.name: step.request for step in group.steps}
        puts = [asked[f"put-{number}"] for number in (1, 2, 3, 4)]
        for put in puts:
            assert put.body is not None
            assert put.body.random is not None
            assert put.body.random.mean_bytes == segment_bytes
            assert put.adds == "written", "its digest is that of what was sent"
        manifest = asked["manifest"].body
        assert manifest is not None
        text = "".join(getattr(part, "text", "1") for part in manifest.text or ())
        assert [one["size_bytes"] for one in json.loads(text)] == 4 * [segment_bytes]
        for number, name in enumerate(("first", "second", "third", "fourth")):
            headers = dict(asked[name].headers)
            [said] = headers["Range"]
            assert said == Text(text=f"bytes={number * segment_bytes}-{(number + 1) * segment_bytes - 1}")
            [digest] = [check for check in asked[name].checks if isinstance(check, DigestCheck)]
            assert digest.equals == (TakenPart(taken=puts[number].take[0].name),)
        [size] = [check for check in asked["whole"].checks if isinstance(check, SizeCheck)]
        assert size.size_bytes == 4 * segment_bytes
        assert f"bytes={segment_bytes - 1000}-{segment_bytes + 999}" in str(
            dict(asked["seam"].headers)["Range"]
        )


def test_what_the_readme_says_is_checked_is_a_check_or_a_file() -> None:
    readme = (STUDY / "README.md").read_text()
    table = readme.partition("## Threats to validity")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 10
    known = {check.name for check in (*all_checks(), *all_table_checks())}
    files = {path.name for path in (*STUDY.glob("*.yaml"), *STUDY.glob("queries/*.sql"))}
    for threat, checked, not_checkable in rows:
        assert checked.strip() or not_checkable.strip(), threat
        named = set(re.findall(r"`([\w.-]+)`", checked)) - {"hot", "random"}
        assert named <= known | files, (threat, named - known - files)
