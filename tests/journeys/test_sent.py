"""Requests that were sent compared with the study: a script that walks through its list without a pause,
and users as the text describes them."""

from __future__ import annotations

from typing import Any

import pytest

from .ring import STUDY
from .world import World, only_run

pytestmark = pytest.mark.truth
OBJECTS = 20
TEXT = f"""\
name: sent
lab: {{store: {{at: "http://127.0.0.1:PORT"}}}}
factors:
  users:
    script-1: {{take: walk, wait: 0s}}
    text-2: {{take: random, wait: {{uniform: [10 ms, 20 ms]}}}}
feeders: {{object: {{range: [1, {OBJECTS}], take: "${{users.take}}"}}}}
requests: {{download: {{get: "http://store/v1/a/c/o${{object.value}}", expect_status: 404}}}}
traffic: {{readers: {{executor: per-vu-iterations, vus: 3, iterations: 60, think_time: "${{users.wait}}", record: rows, request: download}}}}
measure: {{duration: 120s, replicates: 1}}
"""


def test_a_script_that_does_not_do_what_the_text_says_is_seen(world: World, truth: dict[str, Any]) -> None:
    world.run(world.study(TEXT.replace("PORT", str(truth["http_port"]))))
    script, text = world.json("query", str(only_run(world)), (STUDY / "queries/sent.sql").read_text())
    assert (script["users"], text["users"]) == ("script-1", "text-2")
    assert [one["downloads"] for one in (script, text)] == [180, 180]
    assert [one["objects"] for one in (script, text)] == [OBJECTS, OBJECTS]
    assert script["in_order"] > 0.9, "one after the other, but for the list's end"
    assert text["in_order"] < 0.2, "a random object follows the last one by chance alone"
    assert script["least_pause_s"] < text["least_pause_s"] <= text["mean_pause_s"]
    assert text["least_pause_s"] >= 0.0099
