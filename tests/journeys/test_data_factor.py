"""A factor over a store's data: trials request their level's objects, in any order and after a kill."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from svload.model.study import Lock
from svload.store import RunDir, read_trial
from svload.study import resolve

from .world import World, only_run

pytestmark = pytest.mark.truth
STUDY = """\
name: stored
lab:
  store: {kit: truth, role: store, service_time: 0.2 ms}
data:
  things: {in: store, containers: 2, count: "${stored.count}", size: "${stored.size}"}
factors:
  stored:
    few: {count: 5, size: 1 KiB, within: 100s}
    many: {count: 40, size: 3 KiB, within: 101s}
feeders:
  thing: {from: things, take: sequential}
traffic:
  readers:
    executor: shared-iterations
    vus: 2
    iterations: 80
    record: rows
    request: {get: "http://store${thing.path}", check: [status == 200, "size_bytes == ${thing.size_bytes}"]}
measure: {duration: "${stored.within}", replicates: 2}
"""
HELD = {"few": (5, 1024), "many": (40, 3072)}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_trial_asks_for_what_its_level_says(world: World) -> None:
    world.run(world.study(STUDY))
    run = RunDir(only_run(world))
    lock = run.lock()
    assert len(run.sealed_trials()) == 4
    for name in run.sealed_trials():
        trial = read_trial(run.trial(name).path)
        case = lock.case(trial.summary.case)
        count, size = HELD[case.levels["stored"]]
        table = rows_of(run.inputs / f"{table_of(lock, case.name)}.csv")
        assert (len(table), {int(row["size_bytes"]) for row in table}) == (count, {size})
        plan = next(one for one in run.planned_trials() if one.trial == name)
        assert plan.at.duration_ns == {"few": 100, "many": 101}[case.levels["stored"]] * 10**9
        (group,) = trial.summary.groups
        assert (group.ok, group.failed) == (80, 0), "each row's size was checked against what came"


def table_of(lock: Lock, case: str) -> str:
    (objects,) = resolve(lock, lock.case(case)).objects
    return objects.table
