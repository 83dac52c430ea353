"""A rate of a service's disk holds what it reads, as the kernel counts it and as its users see it; a run
without one has no trace of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svload.host.process import cgroups

from .world import World, findings, only_run

pytestmark = pytest.mark.real
FILES, EACH_MIB, RATE = 48, 2, 20_000_000


def run(
    world: World, sites: tuple[str, ...] = ("site",), machine: dict[str, Any] | None = None, **limits: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A trial over more files than the services' memory can keep in the page cache: its findings, and its lab.
    `machine`: what all of them are within."""
    folder = world.root / "disk"
    folder.mkdir()
    files = {f"/f{number}": f"{EACH_MIB} MiB" for number in range(FILES)}
    (folder / "files.csv").write_text("path\n" + "".join(f"{path}\n" for path in files))
    site = {"kit": "nginx", "files": files, "memory": "40 MiB", **limits}
    lab: dict[str, Any] = dict.fromkeys(sites, site)
    if machine is not None:
        lab = {"vm": {"kit": "machine", **machine}, **{name: {**site, "within": "vm"} for name in sites}}
    study = {
        "name": "disk",
        "lab": lab,
        "before_trial": [{"drop_cache": list(sites)}],
        "feeders": {"files": {"csv": "files.csv", "take": "sequential"}},
        "traffic": {
            f"users-{name}": {
                "executor": "constant-vus",
                "vus": 4,
                "request": f"GET http://{name}${{files.path}}",
            }
            for name in sites
        },
        "measure": {"duration": "4s", "replicates": 1},
    }
    (folder / "study.yaml").write_text(json.dumps(study))
    ended = world.svload("run", str(folder), "--trust", "--out", str(world.runs))
    assert ended.returncode in (0, 1, 4), ended.stderr[-2000:]
    [trial] = findings(only_run(world))["trials"]
    return trial, json.loads((only_run(world) / "trials" / trial["trial"] / "lab.json").read_text())


def check(trial: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [one for one in trial["verdict"]["checks"] if one["check"] == name]
    return dict(found)


def test_reads_are_held(world: World, needs: Callable[..., None]) -> None:
    needs("root", "nginx")
    trial, lab = run(world, disk_rate={"read": "20 MB/s"})
    [service] = lab["services"]
    [group] = service["groups"]
    assert {one["name"]: one["found"] for one in group["settings"]}["disk_read_bytes_per_s"] == str(RATE)
    acted = check(trial, "limits-acted")
    told = re.search(
        r"site used ([\d.]+) % of its 20 MB/s of disk reads and was at it for", acted["sentence"]
    )
    assert told is not None, acted["sentence"]
    assert 93 < float(told[1]) < 107
    assert check(trial, "disk-writes")["grade"] == "VALID"
    assert not [path for path in group["paths"].values() if Path(path).exists()]


def test_services_share_the_reads_of_the_machine_that_they_are_within(
    world: World, needs: Callable[..., None]
) -> None:
    needs("root", "nginx")
    trial, lab = run(world, ("one", "two"), machine={"disk_rate": {"read": "20 MB/s"}})
    groups = {group["name"]: group for one in lab["services"] for group in one["groups"]}
    assert set(groups) == {"vm", "one", "two"}
    assert [one["found"] for one in groups["vm"]["settings"]] == [str(RATE)]
    sentence = check(trial, "limits-acted")["sentence"]
    told = re.search(r"vm used ([\d.]+) % of its 20 MB/s of disk reads", sentence)
    assert told is not None, sentence
    assert 93 < float(told[1]) < 107, "both together"
    for name in ("one", "two"):
        answers = trial["metrics"][f"users-{name}.throughput"]["value"]
        assert answers is None or answers * EACH_MIB * (1 << 20) < 0.9 * RATE, "neither has it alone"
    left = [path for group in groups.values() for path in group["paths"].values() if Path(path).exists()]
    assert left == []


def test_a_limit_of_writes_is_weak_where_they_escape(world: World, needs: Callable[..., None]) -> None:
    needs("root", "nginx")
    trial, _ = run(world, disk_rate={"write": "10 MB/s"})
    assert check(trial, "disk-writes")["grade"] == ("WEAK" if cgroups.writes_escape() else "VALID")
    assert "10 MB/s of disk writes" in check(trial, "limits-acted")["sentence"]


def test_without_a_limit_there_is_none(world: World, needs: Callable[..., None]) -> None:
    needs("root", "nginx")
    trial, lab = run(world)
    [group] = lab["services"][0]["groups"]
    assert {one["name"] for one in group["settings"]} == {"memory_bytes"}
    assert "disk reads" not in check(trial, "limits-acted")["sentence"]
    assert check(trial, "disk-writes")["sentence"] == "Disk writes have no limit."
