"""A study over parameter sets: the kernel's settings in the lab's own network, a server's parameters in
the server, live where that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .world import World, complete, lab_of, only_run

STUDY = """\
name: tuned
lab: {store: {kit: truth, role: store, backlog: 600}}
sysctl: {net.core.netdev_max_backlog: 1234}
sets: {short: {sysctl: {net.core.somaxconn: 50}}, long: {sysctl: {net.core.somaxconn: 500}}}
tuning: ${tuning}
factors: {tuning: [short, long]}
traffic: {users: {executor: constant-vus, vus: 2, request: GET http://store/}}
measure: {duration: 0.2s, replicates: 2}
"""


@pytest.mark.truth
def test_kernel_settings_stay_in_the_labs_network(world: World, needs: Callable[..., None]) -> None:
    needs("root")
    before = Path("/proc/sys/net/core/somaxconn").read_text()
    ended = world.svload("run", world.study(STUDY), "--out", str(world.runs))
    found = complete(only_run(world), ended.stderr)
    asked = {
        case["case"]: {"short": "50", "long": "500"}[case["levels"]["tuning"]] for case in found["cases"]
    }
    assert len(found["trials"]) == 4
    for trial in found["trials"]:
        lab, wanted = lab_of(only_run(world), trial["trial"]), asked[trial["case"]]
        kernel = {one["name"]: (one["found"], one["layer"]) for one in lab["settings"]}
        assert kernel["net.core.somaxconn"] == (wanted, "network")
        assert kernel["net.core.netdev_max_backlog"][0] != "1234"
        store = {one["name"]: one["found"] for one in lab["services"][0]["settings"]}
        assert store["backlog"] == wanted, "it acts: the accept queue is as long"
    assert "net.core.netdev_max_backlog: asked 1234, in force" in ended.stderr
    assert "--host-settings" in ended.stderr
    assert Path("/proc/sys/net/core/somaxconn").read_text() == before
