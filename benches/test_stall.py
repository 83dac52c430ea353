"""A server that stalls, checked against its own schedule; a generator that is stopped, which must be
reported. Needs a quiet machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.journeys import stalls
from tests.journeys.world import World, only_run

STALL = stalls.Stall(every_ns=5 * stalls.S, for_ns=stalls.S)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("max_vus", [64, 500])
def test_percentiles_of_a_stalling_server_are_those_of_its_schedule(
    world: World, serve_truth: Callable[..., dict[str, Any]], max_vus: int
) -> None:
    url, admin = stalls.server(serve_truth, apart=True, stall=STALL.config)
    words = ("--rate", "500", "--max-vus", str(max_vus), "--duration", "20s", "--json")
    ended = world.svload("load", url, *words, "--out", str(world.runs))
    assert ended.returncode == 0, ended.stderr
    text = json.loads(ended.stdout)
    run = stalls.only(world)
    epoch_ns = json.loads(stalls.ask(f"{admin}/config"))["stall_epoch_ns"]
    true = run.of(STALL.responses(run.due_ns, max_vus, epoch_ns - run.start_ns))
    found = text["response_ms"]
    for p in (0.5, 0.9, 0.99):
        shown = found[f"p{100 * p:g}"]
        print(f"\nmax-vus {max_vus} p{100 * p:g}: true {stalls.quantile(true, p):.3f} ms, told {shown} ms")
    print(f"{text['instrument']}, kept {len(true)} from {run.begin_ns / 1e9} s")
    assert text["instrument"]["grade"] == "VALID", text["instrument"]
    assert (text["due"], text["failed"], text["dropped"], text["waiting"]) == (text["ok"], 0, 0, 0)
    assert len(run.due_ns) == text["due"] == pytest.approx(10_000, abs=1)
    assert len(true) > 5_000
    assert found["p50"] == pytest.approx(stalls.quantile(true, 0.5), rel=0.05, abs=0.2), found
    for p in (0.9, 0.99):
        assert found[f"p{100 * p:g}"] == pytest.approx(stalls.quantile(true, p), rel=0.05), found


@pytest.mark.parametrize("after", [2_000, 7_000])
def test_a_generator_stopped_for_two_seconds_is_reported(
    world: World, serve_truth: Callable[..., dict[str, Any]], after: int
) -> None:
    """The generator is stopped in the first half, where a warm-up cut may lie, and in the second."""
    url, admin = stalls.server(serve_truth, apart=True)
    with stalls.loading(
        world, admin, after, url, "--rate", "500", "--duration", "20s", "--threshold", "p(50)<10s"
    ) as (command, generators):
        stalls.stop(generators, 2)
        code = command.end()
    trial, checks = stalls.verdict(only_run(world))
    print(
        f"\nstopped after {after}: {trial['verdict']['instrument']}, {checks['generator-harm']['sentence']}"
    )
    print(f"p99 {trial['metrics']['load.response.p99']}, cut {trial['cut_ns'] / 1e9} s")
    assert code == 4
    assert trial["verdict"]["instrument"] == "REFUSED"
    assert checks["generator-harm"]["grade"] == "REFUSED", checks["generator-harm"]
    # A tenth of all arrivals were due in the stop, and waited up to 2 s for the generator to go on.
    metrics = trial["metrics"]
    assert metrics["load.response.max"]["value"] > 1.9
    assert metrics["load.response.mean"]["value"] > 0.05
    assert metrics["load.generator_lag.max"]["value"] > 1.9
    # One stop is one event, however many requests waited: with so few independent ones docs/method.md §2
    # gives no p99, and says why.
    p99 = metrics["load.response.p99"]
    assert p99["value"] > 1.5 if p99["value"] else "correlated" in p99["reason"], p99
