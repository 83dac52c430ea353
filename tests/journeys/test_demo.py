"""The demo and all that reads its run; planted faults are refused."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from svload.analysis.checks import all_checks
from svload.model.units import show_duration
from svload.store import read_events

from .world import World, assert_valid, checks_of, complete, findings, only_run

pytestmark = pytest.mark.truth
CASES = "TC0,TC2,TC9,TC11"
PLANTS = {
    "no-hits": ("manipulation", "REFUSED"),
    "generator-limited": ("generator-harm", "WEAK"),
    "too-short": ("warm-up", "REFUSED"),
}
"""Planted fault → the check that must name it, and its grade."""


@dataclass(frozen=True)
class Demo:
    """A finished reduced demo and its output."""

    world: World
    run: Path
    ended: subprocess.CompletedProcess[str]

    def svload(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command on this world's runs that must succeed."""
        ended = self.world.svload(*args, "--out", str(self.world.runs))
        assert ended.returncode == 0, (args, ended.stderr[-1500:])
        return ended

    def json(self, *args: str) -> Any:
        return json.loads(self.svload(*args, "--json").stdout)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    world = World(tmp_path_factory.mktemp("demo"))
    ended = world.svload("demo", "--only", CASES, "--replicates", "2", "--out", str(world.runs))
    complete(only_run(world), ended.stderr)
    return Demo(world, only_run(world), ended)


@pytest.mark.smoke
def test_the_demo_ends_with_a_table_and_its_files(demo: Demo) -> None:
    lines = demo.ended.stdout.splitlines()
    assert set(CASES.split(",")) <= {line.split()[0] for line in lines if line.strip()}, lines
    for name in ("findings.json", "report.html", "report.xlsx", "junit.xml"):
        assert (demo.run / "derived" / name).stat().st_size > 0
        assert any(f"{demo.run.name}/derived/" in line and name in line for line in lines), lines
    assert (demo.world.runs / "latest").resolve() == demo.run.resolve()
    assert demo.world.left() == []


def test_progress_goes_to_stderr_alone(demo: Demo) -> None:
    sealed = [line for line in demo.ended.stderr.splitlines() if "/8] TC" in line]
    assert len(sealed) == 8
    assert "left)" in sealed[0]
    assert "/8]" not in demo.ended.stdout
    assert "…" not in demo.ended.stdout.split("\n")[0]


def test_progress_shows_what_generators_and_servers_are_doing(demo: Demo) -> None:
    journals = sorted(demo.run.glob("trials/*/events.jsonl"))
    events = (event for path in journals for event in read_events(path).events)
    found = [event.data for event in events if event.kind == "progress"]
    assert found
    assert all(one["generator_cpu_s"] > 0 for one in found)
    assert {service for one in found for service in one["service_cores"]} == {"backend", "cache"}


def test_servers_counters_agree_with_the_factors(demo: Demo) -> None:
    """The servers' own counters show in every trial that the factor acted."""
    for trial in findings(demo.run)["trials"]:
        assert_valid(trial, "accounting", "manipulation", "reconciliation")


def test_why_lists_every_check(demo: Demo) -> None:
    text = demo.svload("why", "TC11.r1").stdout
    assert "TC11.r1" in text
    assert re.search(r"✓ \d+ more checks found nothing", text)
    checks = demo.json("why", "TC11.r1")["verdict"]["checks"]
    assert {check["check"] for check in checks} == {one.name for one in all_checks() if one.of != "imported"}
    assert [check["check"] for check in checks if not check["measured"]] == []


@pytest.mark.smoke
def test_a_pack_is_read_like_the_run(demo: Demo, tmp_path: Path) -> None:
    packed = tmp_path / "demo.svload.zip"
    demo.svload("pack", "latest", "--to", str(packed))
    assert packed.stat().st_size < 5 * 2**20
    elsewhere = World(tmp_path / "elsewhere")
    checked = elsewhere.json("verify", str(packed))
    assert checked == {"sealed": 8, "thinned": 0, "damage": [], "made_again": [], "builds": [], "altered": []}
    assert "TC9.r1" in elsewhere.svload("why", "TC9.r1", "--run", str(packed)).stdout
    sql = "select sum(ok) as ok from trials"
    assert elsewhere.json("query", str(packed), sql) == demo.json("query", "latest", sql)
    found = elsewhere.json("report", str(packed))
    assert found["findings"]["cases"] == findings(demo.run)["cases"]
    made = Path(found["files"]["report.html"])
    assert made.is_file() and made.is_relative_to(elsewhere.env["SVLOAD_CACHE"]), (
        "unpacked into the own cache"
    )


@pytest.mark.smoke
def test_two_runs_are_compared_and_json_is_all_of_stdout(demo: Demo) -> None:
    args = ("demo", "--only", "TC2,TC9", "--replicates", "1", "--out", str(demo.world.runs), "--json")
    ended = demo.world.svload(*args)
    found = json.loads(ended.stdout)
    assert ended.returncode == found["exit_code"]
    assert (found["sealed"], found["planned"], found["complete"]) == (2, 2, True)
    assert Path(found["files"]["report.html"]).is_file()
    rows = demo.json("compare", demo.run.name, Path(found["run"]).name)
    assert {row["case"] for row in rows} == {"TC2", "TC9"}
    for row in rows:
        assert "not interleaved" in row["note"] if row["ratio"] is not None else row["note"], row
    assert "TC9" in demo.svload("compare", demo.run.name, Path(found["run"]).name).stdout


@pytest.mark.timing
def test_a_plan_expects_what_the_last_run_took(demo: Demo, tmp_path: Path) -> None:
    last = (demo.world.runs / "latest").resolve()
    found = findings(last)
    cases = ",".join(case["case"] for case in found["cases"] if case["trials"])
    asked = ("plan", "001-svload", "--profile", "demo", "--only", cases, "--replicates", "2")
    planned = demo.json(*asked)
    unknown = demo.world.json(*asked, "--out", str(tmp_path))
    assert planned["estimated_s"] == pytest.approx(found["phases_s"]["total"], rel=0.25)
    assert 0.1 < unknown["estimated_s"] / found["phases_s"]["total"] < 2


def test_time_outside_load_is_reported_with_its_share(demo: Demo) -> None:
    phases = findings(demo.run)["phases_s"]
    assert {"up", "fill", "reset", "load", "analyse", "report", "total"} <= set(phases)
    (line,) = (line for line in demo.ended.stdout.splitlines() if " of it under load" in line)
    assert line.startswith(f"{show_duration(phases['total'])} in all, {show_duration(phases['load'])} of it")
    page = (demo.run / "derived" / "report.html").read_text(encoding="utf-8")
    assert "outside load" in page


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_named_in_its_trials(world: World, plant: str) -> None:
    name, grade = PLANTS[plant]
    cases = ("--only", "TC9,TC11", "--replicates", "1")
    ended = world.svload("demo", "--plant", plant, *cases, "--out", str(world.runs))
    found = complete(only_run(world), ended.stderr)
    assert f"planted faults: {plant} in TC11" in ended.stderr
    planted = [trial for trial in found["trials"] if trial["case"] == "TC11"]
    assert planted
    for trial in planted:
        checks = checks_of(trial)
        assert checks[name]["grade"] == grade, checks[name]
        assert checks["accounting"]["grade"] != "REFUSED", "the engine did as it was asked"
