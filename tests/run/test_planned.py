"""Planned faults act at their scheduled times, in order for each service."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import wait_until

from svload.model.errors import SvloadError, fail
from svload.model.faults import Fault
from svload.model.study import ServiceSpec
from svload.run.planned import PlannedFaults, live_limits

MS = 1_000_000
WEB = ServiceSpec(name="web", kit="command", options={"replicas": 2})
SERVICES = (WEB, ServiceSpec(name="db", kit="command"))


@dataclass
class Hands:
    """Records what a lab is asked; a stop of `slow` lasts until it is released, one of `broken` fails."""

    done: list[tuple[str, str, str]] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)
    slow: str = ""
    broken: str = ""

    def act(self, do: str, server: str, part: str, limits: dict[str, float]) -> dict[str, float]:
        if server == self.slow and do == "stop":
            assert self.let_go.wait(HANG_S)
        if server == self.broken:
            raise fail("agent-refused", reason="it cannot", hint="")
        self.done.append((do, server, part))
        return dict(limits)


def planned(hands: Hands, *faults: Fault, ramp_ns: int = 0) -> PlannedFaults:
    lab: Any = SimpleNamespace(faults=hands, facts=lambda: {"web": "facts of web", "db": "facts of db"})
    sampler: Any = SimpleNamespace(renew=lambda facts: hands.done.append(("renew", facts, "")))
    return PlannedFaults(lab, sampler, SERVICES, faults, ramp_ns)


def fault(kind: Any, target: str, at_ms: int, **more: Any) -> Fault:
    return Fault(place=0, kind=kind, target=target, at_ns=at_ms * MS, **more)


def test_each_is_done_at_its_moment_on_all_that_its_target_names() -> None:
    hands = Hands()
    stop = fault("stop", "web", 20, lasts_ns=20 * MS)
    made = planned(hands, stop, fault("kill", "db.part", 10), ramp_ns=10 * MS)
    began = time.monotonic_ns()
    made.begin(began)
    wait_until(lambda: len(hands.done) == 6)
    made.finish()
    assert ("kill", "db", "part") in hands.done, "beside the other service: before or after it"
    assert [one for one in hands.done if one[1] != "db"] == [
        ("stop", "web[1]", ""), ("stop", "web[2]", ""), ("start", "web[1]", ""), ("start", "web[2]", ""),
        ("renew", "facts of web", ""),
    ]  # fmt: skip
    events = made.events(began)
    assert [(one.do, one.planned_s) for one in events] == [("kill", 0.02), ("stop", 0.03), ("start", 0.05)]
    assert all(one.begun_s >= one.planned_s and one.done_s >= one.begun_s for one in events)
    assert sorted(event.data["do"] for event in made.news()) == ["kill", "start", "stop"]
    assert made.news() == []
    assert made.error is None


def test_a_slow_end_of_one_service_delays_no_other() -> None:
    hands = Hands(slow="web[1]")
    pause = fault("pause", "web[2]", 2, lasts_ns=MS)
    made = planned(hands, fault("stop", "web[1]", 1), pause, fault("stop", "db", 30))
    made.begin(time.monotonic_ns())
    wait_until(lambda: ("stop", "db", "") in hands.done)
    assert hands.done == [("stop", "db", "")], "what is done to one service is done in order"
    hands.let_go.set()
    wait_until(lambda: len(hands.done) == 4)
    made.finish()


def test_what_is_not_due_when_the_load_ends_is_not_begun() -> None:
    hands = Hands()
    made = planned(hands, fault("stop", "web[1]", 1), fault("start", "web[1]", 600_000))
    began = time.monotonic_ns()
    made.begin(began)
    wait_until(lambda: hands.done)
    made.finish()
    stop, start = made.events(began)
    assert (stop.disturbs, start.begun_s, start.done_s) == (True, None, None)
    assert "when the load had ended" in start.sentence


@pytest.mark.parametrize("broken", ["web[1]", "db"])
def test_what_cannot_be_done_is_kept_and_its_service_left_alone(broken: str) -> None:
    hands = Hands(broken=broken)
    made = planned(hands, fault("stop", broken, 1), fault("start", broken, 2))
    made.begin(time.monotonic_ns())
    wait_until(lambda: made.error is not None)
    made.finish()
    assert isinstance(made.error, SvloadError)
    assert "it cannot" in str(made.error)
    assert hands.done == []


def test_groups_are_made_open_to_all_limits_that_some_case_changes() -> None:
    """Parts have their own limits, and links belong to no group."""
    both = fault("limit", "web[2]", 1, limits={"cpus": 1.0, "link_rate_bytes_per_s": 1e6})
    part = fault("limit", "db.part", 1, limits={"disk_read_bytes_per_s": 1e6})
    link = fault("limit", "front", 1, limits={"link_latency_s": 0.1})
    others = (fault("limit", "web", 1, limits={"pids": 5}), fault("stop", "db", 1))
    configs: Any = [SimpleNamespace(faults=(both, part, link)), SimpleNamespace(faults=others)]
    assert live_limits(configs) == {"web": ("cpus", "pids"), "db.part": ("disk_read_bytes_per_s",)}
    assert live_limits([]) == {}
