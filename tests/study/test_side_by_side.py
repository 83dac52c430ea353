"""Turns as the default of a gate: where its sides fit side by side, and why not where they don't."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svload.model.study import Lock
from svload.study import Free, first_batch, in_turns, leaves_order_open, resolve, why_not_side_by_side
from svload.study.order import sets_of_turns

GIB = 1 << 30
FREE = Free(memory=8 * GIB, disk=8 * GIB)
GATE = """\
name: gate
lab:
  web: {kit: stone, workers: "${build.workers}"}
factors:
  build: {old: {workers: 1}, new: {workers: 2}}
  path: [a, b]
traffic:
  users: {executor: constant-vus, vus: 4, request: "GET http://web/${path}"}
measure: {duration: 5s, replicates: 6}
compare:
  - {factor: build, baseline: old, metric: users.response.p50, fail_if: worse by more than 5 %}
"""


def test_a_gate_between_builds_takes_turns(load: Callable[..., Lock]) -> None:
    lock = load(GATE)
    assert leaves_order_open(lock)
    assert why_not_side_by_side(lock, FREE) == ""
    turned = in_turns(lock)
    assert turned.measure.order == "turns"
    assert not leaves_order_open(turned), "the lock holds what was decided"
    assert resolve(turned, turned.cases[0]).groups[0].keeps_rows
    block = [trial for trial in first_batch(turned).trials if trial.block == 1]
    assert [len(one) for one in sets_of_turns(turned, block)] == [2, 2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("replicates: 6", "replicates: 6, order: trials"),
        ("replicates: 6", "replicates: 6, order: turns"),
        ("replicates: 6", "replicates: 6, order: as-listed"),
        (", fail_if: worse by more than 5 %", ""),
    ],
)
def test_what_is_chosen_and_what_is_no_gate_stays(load: Callable[..., Lock], old: str, new: str) -> None:
    assert not leaves_order_open(load(GATE.replace(old, new)))


def test_trials_are_chosen_by_that_word(load: Callable[..., Lock]) -> None:
    lock = load(GATE.replace("replicates: 6", "replicates: 6, order: trials"))
    assert lock.measure.order == "randomised-blocks"
    assert lock.measure.blocked


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{kit: stone,", "{kit: stone, port: 8080,", "only one of them can have this port (lab.web.port)"),
        ("{kit: stone,", "{kit: stone, on: servers,", "on one machine"),
        ("traffic:", "faults: [{at: 1s, stop: web}]\ntraffic:", "a fault would meet"),
        ("traffic:", "before_trial: [{drop_cache: [web]}]\ntraffic:", "the same page cache"),
        ("traffic:", "profile: web\ntraffic:", "slow its side alone"),
        ("vus: 4", 'vus: "${build.workers}"', "differ in the load itself"),
        ("vus: 4,", "vus: 4, record: histogram,", "a histogram keeps none"),
        ("metric: users.response.p50", "metric: web.cpu.mean", "moments of its own"),
        ("lab:", 'sysctl: {fs.file-max: "${build.workers}"}\nlab:', "the machine has this setting once"),
        ("lab:", 'lab:\n  db: {at: "http://127.0.0.1:80"}', "db runs already"),
        ("factor: build, baseline: old", "factor: path, baseline: a", "path changes what is asked, and no server"),
        ("replicates: 6", "replicates: 6, bring_ups: 2", "brings the servers up anyway"),
        ("{kit: stone,", "{kit: stone, memory: 5 GiB,", "2 sides declare 10 GiB of memory"),
        ("traffic:", "data: {things: {in: web, count: 1000, size: 5 MiB}}\ntraffic:", "2 sides declare 9.77 GiB of data"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(load: Callable[..., Lock], old: str, new: str, why: str) -> None:
    assert GATE.count(old) == 1
    lock = load(GATE.replace(old, new))
    assert leaves_order_open(lock)
    assert why in why_not_side_by_side(lock, FREE)


@pytest.mark.parametrize(("memory", "fits"), [("3.4 GiB", True), ("3.5 GiB", False)])
def test_a_quarter_of_what_is_free_beside_the_first_side_is_left(
    load: Callable[..., Lock], memory: str, fits: bool
) -> None:
    """Of 8 GiB: x ≤ ¾ (8 − x) holds up to 3.43 GiB."""
    lock = load(GATE.replace("{kit: stone,", f"{{kit: stone, memory: {memory},"))
    assert (why_not_side_by_side(lock, FREE) == "") == fits
