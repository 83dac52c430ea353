"""The studies of more papers on their real servers: a few cells, so short that only what holds for every
trial is checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from .world import World, assert_valid, only_run

pytestmark = pytest.mark.real
STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture
def world(tmp_path: Path, cache: Path) -> World:
    return World(tmp_path, cache)


def run(
    world: World, study: str | Path, group: str, *more: str, refused: frozenset[str] = frozenset()
) -> list[str]:
    """Run a study with one replicate of half a second, in which no request of the group fails, but for those
    `refused` with one of these statuses; return its cases."""
    args = ("--trust", "--replicates", "1", "--duration", "0.5s")
    trials = world.run(STUDIES / study, *args, *more)["trials"]
    for trial in trials:
        assert_valid(trial, "accounting")
        summary = json.loads((only_run(world) / "trials" / trial["trial"] / "summary.json").read_text())
        [counts] = [one for one in summary["groups"] if one["name"] == group]
        assert counts["ok"] > 0 and set(counts["errors"]) <= ({"status"} if refused else set()), counts
        assert not refused or set(counts["status"]) <= {"200", *refused}, counts
    assert world.silent() == []
    return sorted(trial["case"] for trial in trials)


def readings(world: World, monitor: str) -> int:
    """Return how many readings of a monitor the run has."""
    return int(world.query(f"select count(*) as n from monitors where monitor = '{monitor}'")[0]["n"])


@pytest.mark.smoke
def test_factorials_in_redis(world: World, needs: Callable[..., None]) -> None:
    """Every page has the bytes of what was stored."""
    needs("root", "redis-server")
    cases = ["F-0.8-100", "F-1.0-0", "S-0.8-0", "S-1.0-0"]
    only = ("--profile", "demo", "--only", ",".join(cases))
    assert run(world, "002-factorial-redis", "users", *only) == cases
    assert readings(world, "redis") > 0


@pytest.mark.smoke
def test_files(world: World, needs: Callable[..., None]) -> None:
    needs("root", "mariadbd", "mariadb-install-db", "mariadb", "mariadb_config", "g++")
    assert len(run(world, "005-file-server", "clients", "--profile", "demo")) == 6
    assert readings(world, "mariadb") > 0


def test_downloads_from_swift(world: World, needs: Callable[..., None]) -> None:
    """A fiftieth of the paper's size: even on a slow machine none of 150 users waits until the timeout.
    Swift may not know a token there, because its memcached did not answer in time."""
    needs("root", "memcached")
    folder = world.root / "swift"
    shutil.copytree(STUDIES / "004-swift-locust", folder, ignore=shutil.ignore_patterns("example"))
    file = folder / "study.yaml"
    assert file.read_text().count("size: 5 MB") == 1
    file.write_text(file.read_text().replace("size: 5 MB", "size: 100 kB"))
    world.succeed("lab", "install", str(folder))
    only = ("--profile", "demo", "--only", "scenario-1,scenario-4")
    assert len(run(world, folder, "users", *only, refused=frozenset({"401"}))) == 2
    rows = {
        name: world.query((folder / "queries" / f"{name}.sql").read_text())
        for name in ("summary", "ramp", "sent", "outliers")
    }
    for name in ("summary", "ramp"):
        assert {row["users"] for row in rows[name]} == {"vus-10", "vus-150"}
    assert all(1 <= row["objects"] <= 10 for row in rows["sent"])
    assert all(row["response_s"] > row["fence_s"] for row in rows["outliers"])
