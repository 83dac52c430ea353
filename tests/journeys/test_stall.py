"""A server that stalls, compared with its own log; a generator that is stopped, which must be detected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

from . import stalls
from .world import World, only_run

pytestmark = pytest.mark.truth


@pytest.mark.parametrize(
    ("stall_s", "strict"), [(0.25, False), pytest.param(1.0, True, marks=pytest.mark.timing)]
)
@pytest.mark.parametrize("max_vus", [64, 500])
def test_no_stall_of_the_server_is_hidden(
    world: World, serve_truth: Callable[..., dict[str, Any]], max_vus: int, stall_s: float, strict: bool
) -> None:
    """Two stalls of full length, a fifth of the time; strictly, four. No answer is seen before the server
    wrote it, nor (strictly) long after."""
    stall = {"every_ns": round(5 * stall_s * stalls.S), "for_ns": round(stall_s * stalls.S)}
    url, admin = stalls.server(serve_truth, apart=strict, stall=stall, log=True)
    duration_s = 20 if strict else 2.5
    words = ("--max-vus", str(max_vus), "--duration", f"{duration_s}s", "--out", str(world.runs))
    text = world.json("load", url, "--rate", "500", *words)
    assert (text["due"], text["failed"], text["dropped"], text["waiting"]) == (text["ok"], 0, 0, 0)
    run = stalls.only(world)
    answered = stalls.answered(admin, run.start_ns)
    assert len(answered) == len(run.due_ns) == text["due"] == pytest.approx(500 * duration_s, abs=1)
    served = [at - run.start_ns - due for at, due in zip(answered, run.due_ns, strict=True)]
    table = pq.read_table(*sorted(only_run(world).glob("trials/*/samples.parquet"))).to_pydict()
    seen = [done - due for done, due in zip(table["done_ns"], table["due_ns"], strict=True)]
    # First come, first served: the log's answers in order are those of the due times in order.
    assert stalls.quantile(served, 0.99) > 800 * stall_s
    for p in (0.5, 0.9, 0.99):
        true, got = stalls.quantile(served, p), stalls.quantile(seen, p)
        assert got >= 0.95 * true, (p, true, got)
        assert not strict or got == pytest.approx(true, rel=0.05, abs=0.2 if p == 0.5 else 0)
    if not strict:
        return
    assert text["instrument"]["grade"] == "VALID", text["instrument"]
    pairs = sorted(zip(table["due_ns"], table["done_ns"], strict=True))
    kept_ns = run.of([done - due for due, done in pairs])
    for p in (0.5, 0.9, 0.99):
        shown = text["response_ms"][f"p{100 * p:g}"]
        assert shown == pytest.approx(stalls.quantile(kept_ns, p), rel=0.008)


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.timing)])
def test_a_stopped_generator(world: World, serve_truth: Callable[..., dict[str, Any]], strict: bool) -> None:
    """In the part that a warm-up cut may cover: the generator's own delay is (strictly) not cut."""
    url, admin = stalls.server(serve_truth)
    args = ("--rate", "500", "--duration", "4s", "--threshold", "p(50)<10s")
    with stalls.loading(world, admin, 500, url, *args) as (command, generators):
        stalls.stop(generators, 0.5)
        command.end()
    trial, checks = stalls.verdict(only_run(world))
    assert trial["verdict"]["instrument"] == "WEAK"
    assert checks["generator-harm"]["grade"] == "WEAK", checks["generator-harm"]
    if strict:
        # An eighth of all arrivals were due in the stop, and waited up to 0.5 s for the generator to
        # continue.
        assert trial["cut_ns"] == 0, checks["warm-up"]
        assert trial["metrics"]["load.response.mean"]["value"] > 0.02
        assert trial["metrics"]["load.response.max"]["value"] > 0.45
