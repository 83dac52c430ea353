"""The sampler as a child of the real agent."""

from __future__ import annotations

import time
from array import array
from pathlib import Path

import pytest

from svload.host import start_agent
from svload.model.errors import SvloadError
from svload.model.facts import ProcessFact, ServiceFacts
from svload.model.messages import Lease, Spawn
from svload.watch import Sampler

pytestmark = pytest.mark.truth


def test_a_child_of_the_agent_is_watched_by_its_machine_pid(tmp_path: Path) -> None:
    with start_agent(tmp_path / "lab", Lease(), "a test of watching") as agent:
        spawn = Spawn(child="busy.one", role="server", argv=("sleep", "600"), log=str(tmp_path / "log"))
        (made,) = agent.prepare([spawn])
        process = ProcessFact(name="sleep", pid=made["pid"], start_ticks=made["start_ticks"])
        busy = ServiceFacts(service="busy", kit="command", version="1", processes=(process,))
        sampler = Sampler(agent, agent.dir)
        assert sampler.start({"busy": busy}, 0.05) == (
            "host.host",
            "host.others",
            "host.qdisc",
            "busy.process",
            "busy.switches",
        )
        from_ns = sampler.mark()
        table = sampler.readings(from_ns, time.monotonic_ns(), from_ns)
        found = {
            (service, metric): value
            for service, metric, value in zip(
                table["service"][1], table["metric"][1], array("d", table["value"][1]), strict=True
            )
        }
        assert found["busy", "processes"] == 1
        assert found["busy", "rss_bytes"] > 0
        assert 0 < found["busy", "fds_fullest"] < found["busy", "fds_limit"]
        assert found["busy", "cores_allowed"] >= 1
        assert found["busy", "switches_total"] >= 0
        assert ("", "cpu_ratio") in found
        agent.stop(["busy.one"])
        sampler.readings(from_ns, time.monotonic_ns(), from_ns)
        assert sorted(sampler.notes()) == [
            f"busy.{name}: cannot be read: ProcessLookupError: no process of busy is there"
            for name in ("process", "switches")
        ]
        agent.stop(["sampler"])
        with pytest.raises(SvloadError):
            sampler.readings(from_ns, from_ns, from_ns)
