"""A disk rate limits what a service reads, by the kernel's count and as its users see it; a run without
one records nothing of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .world import World, checks_of, only_run

pytestmark = pytest.mark.real
FILES, EACH_MIB, RATE = 48, 2, 20_000_000


def run(
    world: World, duration: str, *sites: str, machine: dict[str, Any] | None = None, **limits: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a trial over more files than the services' memory can keep in the page cache; return its
    findings and its lab. `machine`: what all of them are within."""
    sites = sites or ("site",)
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
        "measure": {"duration": duration, "replicates": 1},
    }
    (folder / "study.yaml").write_text(json.dumps(study))
    [trial] = world.run(folder, "--trust")["trials"]
    return trial, json.loads((only_run(world) / "trials" / trial["trial"] / "lab.json").read_text())


def used_ratio(trial: dict[str, Any], whose: str) -> float:
    """Return how much of its 20 MB/s of reads it used."""
    sentence = checks_of(trial)["limits-acted"]["sentence"]
    found = re.search(rf"{whose} used ([\d.]+) % of its 20 MB/s of disk reads", sentence)
    assert found is not None, sentence
    return float(found[1]) / 100


BOTH = pytest.mark.parametrize(
    ("duration", "strict"), [("0.5s", False), pytest.param("4s", True, marks=pytest.mark.timing)]
)
"""The kernel's limit is always checked; the amount read only if the machine leaves the servers their
cores."""


@BOTH
def test_reads_are_held(world: World, needs: Callable[..., None], duration: str, strict: bool) -> None:
    needs("root", "nginx")
    trial, lab = run(world, duration, disk_rate={"read": "20 MB/s"})
    [service] = lab["services"]
    [group] = service["groups"]
    assert {one["name"]: one["found"] for one in group["settings"]}["disk_read_bytes_per_s"] == str(RATE)
    used = used_ratio(trial, "site")
    assert used > 0
    if strict:  # whether users reach the rate depends on the machine
        assert 0.93 < used < 1.07
        assert checks_of(trial)["limits-acted"]["grade"] == "VALID"
    assert not [path for path in group["paths"].values() if Path(path).exists()]


@BOTH
def test_services_share_the_reads_of_the_machine_that_they_are_within(
    world: World, needs: Callable[..., None], duration: str, strict: bool
) -> None:
    needs("root", "nginx")
    trial, lab = run(world, duration, "one", "two", machine={"disk_rate": {"read": "20 MB/s"}})
    groups = {group["name"]: group for one in lab["services"] for group in one["groups"]}
    assert set(groups) == {"vm", "one", "two"}
    assert [one["found"] for one in groups["vm"]["settings"]] == [str(RATE)]
    used = used_ratio(trial, "vm")
    if strict:
        assert 0.93 < used < 1.07, "both together"
        for name in ("one", "two"):
            answers = trial["metrics"][f"users-{name}.throughput"]["value"]
            assert answers * EACH_MIB * (1 << 20) < 0.9 * RATE, "neither has it alone"
    left = [path for group in groups.values() for path in group["paths"].values() if Path(path).exists()]
    assert left == []
