"""The studies of two more papers on their real servers: a few cells, so short that only what holds for
every trial is checked."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svload.host.machine import fabric

from .world import World, assert_valid, only_run

pytestmark = pytest.mark.real
STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture
def world(tmp_path: Path, cache: Path) -> World:
    return World(tmp_path, cache)


def run(world: World, study: str, *more: str) -> list[dict[str, Any]]:
    """Run a study with one replicate of half a second; return its trials."""
    args = ("--trust", "--replicates", "1", "--duration", "0.5s")
    trials = world.run(STUDIES / study, *args, *more)["trials"]
    for trial in trials:
        assert_valid(trial, "accounting")
    assert world.silent() == []
    return trials


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{old!r} stands once in the study"
    return text.replace(old, new)


def readings(world: World, monitor: str) -> int:
    """Return how many readings of a monitor the run has."""
    return int(world.query(f"select count(*) as n from monitors where monitor = '{monitor}'")[0]["n"])


def queried(world: World, name: str) -> list[dict[str, Any]]:
    """Return the result of a query of 004-swift-locust."""
    return world.query((STUDIES / f"004-swift-locust/queries/{name}.sql").read_text())


def failed(world: World, group: str) -> dict[str, Counter[str]]:
    """Return by case of the run why counted requests failed, in and outside the window."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in only_run(world).glob("trials/*/summary.json"):
        summary = json.loads(path.read_text())
        [counts] = [one for one in summary["groups"] if one["name"] == group]
        assert counts["begun"] > 0, path
        found[summary["case"]].update(counts["errors"])
        if counts["failed"]:
            found[summary["case"]].update({f"status {code}": n for code, n in counts["status"].items()})
    return found


@pytest.mark.smoke
def test_factorials_in_redis(world: World, needs: Callable[..., None]) -> None:
    needs("root", "redis-server")
    cases = ["F-1.0-0", "F-0.8-100", "S-1.0-0", "S-0.8-0"]
    run(world, "002-factorial-redis", "--profile", "demo", "--only", ",".join(cases))
    assert failed(world, "users") == {case: {} for case in cases}, (
        "every page has the bytes of what was stored"
    )
    assert readings(world, "redis") > 0


@pytest.mark.smoke
def test_files(world: World, needs: Callable[..., None]) -> None:
    needs("root", "mariadbd", "mariadb-install-db", "mariadb", "mariadb_config", "g++")
    run(world, "005-file-server", "--profile", "demo")
    found = failed(world, "clients")
    assert len(found) == 6
    assert not any(found.values()), found
    assert readings(world, "mariadb") > 0


def test_downloads_from_swift(world: World, needs: Callable[..., None]) -> None:
    """A fiftieth of the paper's size: even on a slow machine none of 150 users waits until the time-out."""
    needs("root", "memcached")
    folder = world.root / "swift"
    shutil.copytree(STUDIES / "004-swift-locust", folder, ignore=shutil.ignore_patterns("example"))
    file = folder / "study.yaml"
    file.write_text(replaced(file.read_text(), "size: 5 MB", "size: 100 kB"))
    world.succeed("lab", "install", str(folder))
    run(world, str(folder), "--profile", "demo", "--only", "scenario-1,scenario-4")
    found = failed(world, "users")
    assert len(found) == 2
    assert not any(found.values()), found
    levels = queried(world, "summary")
    assert [row["users"] for row in levels] == ["vus-10", "vus-150"]
    for row in levels:
        order = ("min_s", "p25_s", "p50_s", "p75_s", "p90_s", "p95_s", "p99_s", "max_s")
        assert [row[name] for name in order] == sorted(row[name] for name in order)
        assert 0 <= row["outliers"] < row["n"]
    assert {row["users"] for row in queried(world, "ramp")} == {"vus-10", "vus-150"}
    assert all(1 <= row["objects"] <= 10 for row in queried(world, "sent"))
    assert all(row["response_s"] > row["fence_s"] for row in queried(world, "outliers"))


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.timing)])
def test_a_link_holds_downloads_in_order(world: World, needs: Callable[..., None], strict: bool) -> None:
    needs("root", "memcached")
    if why := fabric.lacking(latency=False):
        pytest.skip(why)
    script = "004-swift-locust/script.yaml"
    world.succeed("lab", "install", str(STUDIES / script))
    [trial] = run(world, script, "--profile", "demo", "--only", "scenario-1", "--duration", "1s")
    assert failed(world, "users") == {"scenario-1": {}}
    [sent] = queried(world, "sent")
    assert 1 <= sent["objects"] <= 10
    if strict:
        assert 0 < trial["metrics"]["users.throughput"]["value"] < 46, "45 MB/s, and 1 MB each"
        assert sent["objects"] == 10
        assert sent["in_order"] > 0.8, "one after another, but for the way from the last to the first"
        assert sent["mean_pause_s"] < 0.1
    assert {row["who"] for row in queried(world, "scale")} == {"paper", "ours", "ours, ramp in"}


def test_what_is_written_to_swift_is_read_from_it(world: World, needs: Callable[..., None]) -> None:
    needs("root", "memcached")
    mixed = "004-swift-locust/mixed.yaml"
    world.succeed("lab", "install", str(STUDIES / mixed))
    run(world, mixed, "--profile", "demo", "--only", "size-tiny", "--duration", "2s")
    assert failed(world, "users").keys() == {"size-tiny"}
    rows = world.query("select distinct error_name from samples where error <> 0")
    assert {row["error_name"] for row in rows} <= {"no_row"}
