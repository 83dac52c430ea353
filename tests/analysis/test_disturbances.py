"""Share of the machine used by strangers, how they are named, and what a look at the machine reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.analysis.conftest import table_of

from svload.analysis.disturbances import disturbances_of, strangers_share, unread
from svload.analysis.quiet import Look, Whose, disturbances
from svload.analysis.view import Window
from svload.model.facts import Endpoint, ProcessFact, ServiceFacts

SECONDS = 10
WINDOW = Window(0, SECONDS, 10**9)
Rates = Mapping[tuple[str, str, str, str], float]
OTHERS = ("", "others", "", "cpu_seconds_total")
CONCERNED = ("", "others", "", "concerned_seconds_total")


def busy(cores: int) -> Rates:
    return {("", "host", f"cpu{core}", "busy_seconds_total"): 0.1 for core in range(cores)}


def readings(rates: Rates) -> dict[str, Any]:
    """Return counters (service, monitor, entity, metric) with this growth per second, read each second."""
    return table_of(
        (second * 10**9, *name, 5.0 + rate * second)
        for name, rate in rates.items()
        for second in range(SECONDS + 1)
    )


@pytest.mark.parametrize("cores", [24, 64])
def test_a_hog_on_the_servers_core_is_seen_however_many_cores_there_are(cores: int) -> None:
    """Server and load ran on three cores; a process that uses a whole core is on one of them or elsewhere."""
    beside = readings({**busy(cores), OTHERS: 1.0, CONCERNED: 1 / 3})
    apart = readings({**busy(cores), OTHERS: 1.0, CONCERNED: 0.0})
    found = disturbances_of(beside, WINDOW).of("others-cpu")
    assert sum(one.lost_s for one in found) == pytest.approx(SECONDS / 3)
    assert disturbances_of(apart, WINDOW).of("others-cpu") == []
    assert strangers_share(beside, WINDOW) == strangers_share(apart, WINDOW) == pytest.approx(1 / cores)


def test_a_run_that_did_not_look_where_they_ran_is_judged_by_all_cores() -> None:
    assert disturbances_of(readings({**busy(2), OTHERS: 1.0}), WINDOW).of("others-cpu")
    assert not disturbances_of(readings({**busy(64), OTHERS: 1.0}), WINDOW).of("others-cpu")


@pytest.mark.parametrize(
    ("rates", "share"),
    [
        ({**busy(2), OTHERS: 0.4}, 0.2),
        ({**busy(2), OTHERS: 0.4, ("", "host", "cpu0", "steal_seconds_total"): 0.2}, 0.3),
        ({**busy(2), OTHERS: 3.0}, 1.0),
        # the more disturbed one of two machines
        ({**busy(2), OTHERS: 0.2, ("", "fleet", "far/cpu0", "busy_seconds_total"): 0.1,
          ("", "fleet", "far", "others_cpu_seconds_total"): 0.4}, 0.4),
        # no process table, no /proc/stat: the mean wait of the load's threads
        ({("", "generator", "load.0/0", "run_queue_seconds_total"): 0.1,
          ("", "generator", "load.0/1", "run_queue_seconds_total"): 0.3}, 0.2),
        # the server itself also causes waits, if anything else was read
        ({**busy(2), OTHERS: 0.4, ("", "generator", "load.0/0", "run_queue_seconds_total"): 0.9}, 0.2),
        (busy(2), None),
    ],
    ids=["cpu", "steal", "at most all", "fleet", "waits", "waits beside", "nothing"],
)  # fmt: skip
def test_the_share_of_strangers(rates: Rates, share: float | None) -> None:
    assert strangers_share(readings(rates), WINDOW) == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    ("facts", "rates", "expected"),
    [
        ({"address": "192.0.2.1"}, {}, ["web"]),
        ({"address": "shop.example"}, {}, ["web"]),
        ({"address": "127.0.0.1"}, {}, []),
        ({"address": "unix:/run/app.sock"}, {}, []),
        ({"address": "192.0.2.1"}, {("web", "switches", "web", "run_queue_seconds_total"): 0.1}, []),
        ({"address": "192.0.2.1", "machine": "far"}, {}, []),
        ({"address": "192.0.2.1", "pid": 7}, {}, []),
    ],
)
def test_a_server_on_an_unread_machine_is_named(
    facts: dict[str, Any], rates: Rates, expected: list[str]
) -> None:
    processes = (ProcessFact(name="web", pid=facts["pid"], start_ticks=1),) if "pid" in facts else ()
    endpoints = (Endpoint(scheme="http", address=facts["address"], port=80),)
    own = {"endpoints": endpoints, "processes": processes, "machine": facts.get("machine", "")}
    service = ServiceFacts(service="web", kit="external", version="", **own)
    assert unread(readings({OTHERS: 0.1, **rates}), [service]) == expected


BURN = Whose("python3", 123, "bob", "python3 burn.py")
QUIET: dict[str, Any] = {
    "cores": 2,
    "stolen": {"cpu0": 0.0, "cpu1": 0.01},
    "waited": 0.045,
    "others": [(BURN, 0.1)],
}


def reported(**changes: Any) -> tuple[str, ...]:
    return disturbances(Look(**(QUIET | changes)))


def test_a_quiet_machine_says_nothing() -> None:
    assert reported() == reported(stolen={}, waited=None, others=[]) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"others": [(BURN, 0.11)]}, "other processes use 0.11 of 2 cores: python3 (process 123, bob, python3 burn.py)"),
        ({"others": [(BURN, 0.06), (Whose("cargo", 7), 0.05)]}, "python3 (process 123, bob, python3 burn.py), cargo (process 7)"),
        ({"stolen": {"cpu0": 0.0, "cpu1": 0.02}}, "the hypervisor gives 2 % of cpu1 to other guests"),
        ({"stolen": {"cpu0": 0.0, "cpu1": 0.012}}, "the hypervisor gives 1.2 % of cpu1 to other guests"),
        ({"waited": 0.06}, "can't be seen from here wait for a core 6 % of the time"),
    ],
)  # fmt: skip
def test_each_disturbance_is_reported(changes: dict[str, Any], words: str) -> None:
    (found,) = reported(**changes)
    assert words in found
