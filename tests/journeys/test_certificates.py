"""Certificates are made, kept and shown: the instrument against a server of known times, the lab against
itself; plans that they don't cover."""

from __future__ import annotations

import pytest

from .world import World, complete, only_run

pytestmark = pytest.mark.truth
STUDY = """
name: own
question: Is it the same?
lab:
  web: {kit: truth, role: store, service_time: 2 ms, workers: 4}
factors: {users: [2, 4]}
requests: {get: {get: "http://web/info"}}
traffic: {load: {executor: constant-vus, vus: "${users}", request: get}}
measure: {duration: 0.3s, replicates: 6}
compare: [{factor: users, baseline: 2, metric: load.response.p50}]
"""


def test_the_instrument_is_measured_once_and_stated_ever_after(world: World) -> None:
    before = world.json("doctor")
    assert before["instrument"] is None
    assert {"loopback", "timers", "local ports", "open files", "clock source"} <= set(before["machine"])
    held = world.json("doctor", "--certify")["instrument"]
    assert [level["service_ns"] for level in held["levels"]] == [10**5, 10**6, 10**7, 10**8]
    for level in held["levels"]:
        assert level["n"] >= 400
        order = [level[name] for name in ("service_ns", "truth_p50_ns", "seen_p50_ns")]
        assert order == sorted(order), "nothing is seen before it was done"
        assert level["truth_p99_ns"] >= level["truth_p50_ns"]
    shown = world.svload("doctor").stdout
    assert "instrument certificate: 20" in shown
    assert "at 10 ms: p50 +" in shown
    ran = world.svload("demo", "--only", "TC0", "--replicates", "1", "--out", str(world.runs))
    assert complete(only_run(world), ran.stderr)["instrument"]["levels"] == held["levels"]
    assert "seen less done" in (only_run(world) / "derived" / "report.html").read_text()
    assert world.left() == []


@pytest.mark.long
def test_the_lab_against_itself_runs_each_case_in_twenty_pairs(world: World) -> None:
    study = world.study(STUDY.replace("[2, 4]", "[2]").partition("compare:")[0])
    too_few = world.svload("aa", study, "--pairs", "3")
    assert too_few.returncode == 2
    assert "at least 20 pairs" in too_few.stderr
    ended = world.svload("aa", study, "--out", str(world.runs), "--duration", "0.1s")
    assert len(complete(only_run(world), ended.stderr)["trials"]) == 40


@pytest.mark.timing
def test_the_lab_against_itself_sets_the_floor(world: World) -> None:
    """Twenty pairs are accepted only on a quiet machine."""
    study = world.study(STUDY)
    made = world.json("aa", study, "--out", str(world.root / "aa"))["certificate"]
    assert made["pairs"] == 20
    assert len(made["cases"]) == 2, "two numbers of users are two loads"
    floors = [floor["floor"] for floor in made["floors"] if floor["metric"] == "load.response.p50"]
    assert len(floors) == 2 and all(0 < value < 3 for value in floors)
    found = world.run(study)
    assert found["floor"].startswith("floor known: 20 A/A pairs")
    assert found["claims"][0]["floor"] is not None

    def detects(*options: str) -> float | None:
        # in a folder without the earlier run, whose scatter would be used
        planned = world.json("plan", study, "--out", str(world.root / "none"), *options)
        mde: float | None = planned["comparisons"][0]["mde"]
        return mde

    assert detects() is not None
    assert detects("--duration", "0.4s") is None, "another duration is another setting"
