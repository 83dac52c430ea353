"""Changing the parameters of a running server in one transaction, and errors for refused values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from svload.lab.kits.varnish import VarnishOptions, discovered
from svload.lab.links import needs_own_network
from svload.lab.tuning import retune
from svload.model.errors import SvloadError, fail
from svload.model.parameters import Parameter, kernel_change, may_be_set


class Server:
    """A server with two limits that bound each other, and one that breaks it."""

    def __init__(self) -> None:
        self.values = {"low": "5", "high": "10", "poison": "off"}
        self.writes: list[str] = []

    def parameters(self) -> dict[str, Parameter]:
        return {name: Parameter(name, value=value) for name, value in self.values.items()}

    def set_parameter(self, name: str, value: str) -> None:
        if name not in self.values:
            raise fail("lab-failed", reason=f"Unknown parameter {name}")
        if name == "low" and int(value) > int(self.values["high"]):
            raise fail("lab-failed", reason="Must be no more than high")
        if name == "high" and int(value) < int(self.values["low"]):
            raise fail("lab-failed", reason="Must be at least low")
        self.values[name] = value
        self.writes.append(f"{name}={value}")

    def is_well(self) -> bool:
        return self.values["poison"] == "off"


@pytest.mark.parametrize("wanted", [{"low": 400, "high": 5000}, {"high": 3, "low": 2}])
def test_dependent_limits_are_set_in_the_servers_order(wanted: dict[str, int]) -> None:
    server = Server()
    assert retune(server, wanted, server.is_well) == {}
    assert {name: int(server.values[name]) for name in wanted} == wanted


def test_what_is_refused_is_reported_and_the_rest_is_set() -> None:
    server = Server()
    refused = retune(server, {"low": 50, "nothing": 1, "high": 20}, server.is_well)
    assert refused == {"low": "Must be no more than high", "nothing": "Unknown parameter nothing"}
    assert server.values == {"low": "5", "high": "20", "poison": "off"}


def test_a_server_that_is_not_well_gets_its_old_values_back_newest_first() -> None:
    server = Server()
    with pytest.raises(SvloadError, match="failed with high = 500, poison = on, low = 400"):
        retune(server, {"low": 400, "high": 500, "poison": True}, server.is_well)
    assert server.values == Server().values
    assert server.writes[-3:] == ["low=5", "poison=off", "high=10"]


def test_whoever_stops_in_the_middle_leaves_nothing_half() -> None:
    server = Server()

    def stopped() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retune(server, {"high": 500}, stopped)
    assert server.values["high"] == "10"


def test_varnish_reports_its_parameters() -> None:
    text = """[2, ["param.show", "-j"], 1.5,
     {"name": "thread_queue_limit", "implemented": true, "value": 20, "default": "20", "minimum": "0", "description": "x"},
     {"name": "workspace_session", "value": "0.75k", "default": "0.75k", "minimum": "384b", "maximum": "1m", "units": "bytes"},
     {"name": "not_here", "implemented": false}]"""
    found = discovered(text, VarnishOptions.parameters)
    assert set(found) == {"thread_queue_limit", "workspace_session"}
    queue, workspace = found["thread_queue_limit"], found["workspace_session"]
    assert [queue.value, queue.default, queue.low, queue.high] == ["20", "20", "0", None]
    assert queue.change == "live"
    assert (workspace.unit, workspace.high, workspace.change) == ("bytes", "1m", "restart")


@pytest.mark.parametrize(
    ("option", "parameter", "change"),
    [("tuning", "thread_queue_limit", "live"), ("tuning", "thread_pool_min", "restart"), ("tuning", "new_one", "restart"),
     ("storage", None, "restart"), ("nothing", None, "")],
)  # fmt: skip
def test_what_a_change_takes_is_declared(option: str, parameter: str | None, change: str) -> None:
    assert VarnishOptions.change_of(option, parameter) == change


@pytest.mark.parametrize(
    ("names", "may"),
    [
        (("net.core.somaxconn", "net.ipv4.tcp_rmem", "net.ipv4.conf.all.rp_filter"), True),
        (("fs.file-max", "vm.swappiness"), True),
        (("kernel.core_pattern", "kernel.modprobe", "fs.binfmt_misc.register", "vm.mmap_min_addr"), False),
        (("net", "net.core", "net.core/../../kernel.core_pattern"), False),
    ],
    ids=["of the network", "how much", "what opens the machine", "no setting"],
)
def test_only_settings_that_say_how_much_may_be_named(names: tuple[str, ...], may: bool) -> None:
    assert [may_be_set(name) for name in names] == [may] * len(names)


def test_what_a_listener_takes_when_it_begins_needs_a_restart() -> None:
    assert kernel_change("net.core.somaxconn") == "restart"
    assert kernel_change("net.ipv4.tcp_max_syn_backlog") == "live"
    assert kernel_change("net.ipv4.never_heard_of") == "restart"


@pytest.mark.parametrize(
    ("sysctl", "link", "own"),
    [({}, False, False), ({"vm.swappiness": "1"}, False, False), ({"net.core.somaxconn": "77"}, False, True), ({}, True, True)],
)  # fmt: skip
def test_a_setting_of_the_network_or_a_link_needs_an_own_network(sysctl: Any, link: bool, own: bool) -> None:
    options = {"link": {"rate": "5 MB/s"}} if link else {}
    case: Any = SimpleNamespace(sysctl=sysctl, services=[SimpleNamespace(options=options)])
    assert needs_own_network(case) == own
