"""A fleet by its inventory: who does what, how each machine is reached, and the load that it can generate."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from svload.fleet.inventory import DEFAULT_PORT, Member, read_inventory
from svload.fleet.machines import LEAST_FREE_BYTES, MOST_WALL_OFF_NS, against, load_capacity, notes
from svload.fleet.reaching import reach_of
from svload.host.clock.exchange import Link
from svload.host.clock.offset import WIDEST_NS, Offset
from svload.host.machines.reach import PYTHON
from svload.model.errors import ExitCode, SvloadError


def listing(**groups: Any) -> dict[str, Any]:
    """Return ansible-inventory's output for these groups."""
    return {"_meta": {"hostvars": groups.pop("hostvars", {})}, "all": {"children": list(groups)}, **groups}


ALONE = {"hosts": ["a"]}
PAPER = listing(
    generators={"hosts": ["a1", "a2", "b1"]},
    servers={"hosts": ["s1"]},
    sites={"children": ["brno", "praha"]},
    brno={"hosts": ["a1", "a2", "s1"]},
    praha={"hosts": ["b1"]},
    hostvars={
        "a1": {"ansible_host": "192.0.2.1"},
        "b1": {"svload_port": 18000, "svload_address": "192.0.2.9"},
    },
)


def test_who_does_what_and_where() -> None:
    fleet = read_inventory(PAPER, "hosts.yaml")
    assert fleet.names == ("a1", "a2", "b1", "s1")
    assert fleet.members[0] == Member("a1", "192.0.2.1", True, False, "brno", DEFAULT_PORT)
    assert fleet.members[2] == Member("b1", "192.0.2.9", True, False, "praha", 18000)
    assert (fleet.members[3].does, fleet.members[3].site) == ("serves", "brno")


def test_groups_below_groups_count_and_sites_may_be_left_out() -> None:
    fast = {"hosts": ["x"], "children": ["fast"]}
    given = listing(generators={"children": ["fast"]}, fast=fast, servers={"hosts": ["x"]})
    found = read_inventory(given, "i")
    assert [(one.name, one.does, one.site) for one in found.members] == [("x", "generates and serves", "")]


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (listing(generator={"hosts": ["a"]}), "fleet-group", "Call “generator” “generators”."),
        (listing(web={"hosts": ["a"]}), "fleet-group", "its groups are: web."),
        (listing(), "fleet-group", "it has no groups."),
        (listing(generators={"hosts": []}), "fleet-group", "has no host"),
        (listing(generators={"hosts": ["a"]}, sites={"children": []}), "fleet-inventory", "a is at no site"),
        (
            listing(generators=ALONE, sites={"children": ["x", "y"]}, x=ALONE, y=ALONE),
            "fleet-inventory",
            "a is at 2 sites (x, y)",
        ),
        *(
            (
                listing(generators=ALONE, hostvars={"a": {"svload_port": port}}),
                "fleet-inventory",
                "not a port",
            )
            for port in ("http", "²")
        ),
        (
            listing(generators=ALONE, hostvars={"a": {"ansible_host": "{{ ip }}"}}),
            "fleet-inventory",
            "ansible_host of a is a template",
        ),
    ],
)
def test_what_is_wrong_is_reported(given: dict[str, Any], code: str, says: str) -> None:
    with pytest.raises(SvloadError) as caught:
        read_inventory(given, "hosts.yaml")
    (problem,) = caught.value.problems
    assert (problem.code, caught.value.exit_code) == (code, ExitCode.USAGE)
    assert says in str(problem)
    assert str(problem).startswith("hosts.yaml: ")


MEMBER = Member("gen1", "192.0.2.11", True, False, "brno", 17700)


def words(**variables: Any) -> list[str]:
    return reach_of(MEMBER, variables).words("svload.x", {"-R": 5000, "-L": 6000})


def test_ssh_gets_ansibles_options_asks_nothing_and_notices_a_silent_host() -> None:
    found = words(
        ansible_host="198.51.100.7", ansible_port=2222, ansible_user="ops", ansible_ssh_private_key_file="/k",
        ansible_ssh_common_args="-o ProxyJump=gate -F /dev/null", ansible_ssh_extra_args="-4",
    )  # fmt: skip
    own = ("-o BatchMode=yes", "-o ServerAliveInterval=2", "-o ExitOnForwardFailure=yes")
    forwards = ("-R 5000:127.0.0.1:5000", "-L 6000:127.0.0.1:6000")
    ansibles = ("-p 2222", "-l ops", "-i /k", "-o ProxyJump=gate -F /dev/null", "-4")
    options = " ".join(found)
    assert [one for one in (*own, *forwards, *ansibles) if one not in options] == []
    assert found[:2] == ["ssh", "-T"]
    assert found[-2:] == ["198.51.100.7", f"exec {PYTHON} -P -m svload.x"]


def test_svload_is_where_it_was_installed_or_where_the_inventory_says() -> None:
    assert reach_of(MEMBER, {}).python == "~/.svload-fleet/venv/bin/python"
    assert reach_of(MEMBER, {"svload_home": "/opt/sv/"}).python == "/opt/sv/venv/bin/python"
    assert words(svload_python="/my python")[-1] == "exec '/my python' -P -m svload.x"
    assert words(svload_home="~/a b")[-1] == "exec ~/'a b/venv/bin/python' -P -m svload.x"


def test_this_machine_needs_no_ssh() -> None:
    found = reach_of(MEMBER, {"ansible_connection": "local"})
    assert found.ssh == ()
    assert found.words("svload.x", {"-R": 1, "-L": 2}) == [sys.executable, "-P", "-m", "svload.x"]
    assert found.site == "brno"


def test_arguments_with_an_open_quotation_are_an_error_of_the_inventory() -> None:
    with pytest.raises(SvloadError, match="SSH arguments of gen1 can't be split"):
        words(ansible_ssh_common_args="-o ProxyCommand='ssh -W")


FACTS: dict[str, Any] = {
    "home": "/opt/svload", "cores": 8, "open_files": 1_000_000, "local_ports": 28_232, "free_bytes": 10**11,
    "writable": True, "installed": None, "clock_source": "tsc",
}  # fmt: skip


def test_ports_or_descriptors_bound_it() -> None:
    by_ports = load_capacity(FACTS, Link(1e9, 2e9))
    assert (by_ports.connections, by_ports.bound_by, by_ports.cores) == (28_232, "ports", 2)
    assert (by_ports.to_bytes_per_s, by_ports.back_bytes_per_s) == (1e9, 2e9)
    by_files = load_capacity(FACTS | {"open_files": 1024}, None)
    assert (by_files.connections, by_files.bound_by) == (960, "descriptors")


def wall(offset_ns: int) -> Offset:
    return Offset(offset_ns, 1_000, 0, 2_000)


@pytest.mark.parametrize(
    ("facts", "offset_ns", "codes"),
    [
        ({}, 0, []),
        ({}, MOST_WALL_OFF_NS, []),
        ({}, MOST_WALL_OFF_NS + 2_000, ["fleet-clock"]),
        ({}, -MOST_WALL_OFF_NS - 2_000, ["fleet-clock"]),
        ({"free_bytes": LEAST_FREE_BYTES - 1}, 0, ["fleet-disk-full"]),
        ({"free_bytes": LEAST_FREE_BYTES - 1, "installed": "a digest"}, 0, []),
        ({"writable": False}, 0, ["fleet-folder"]),
    ],
)
def test_what_speaks_against_it(facts: dict[str, Any], offset_ns: int, codes: list[str]) -> None:
    assert [one.code for one in against(MEMBER, FACTS | facts, wall(offset_ns))] == codes


def test_the_side_of_a_wrong_clock_is_reported() -> None:
    (ahead,) = against(MEMBER, FACTS, wall(90 * 10**9))
    (behind,) = against(MEMBER, FACTS, wall(-90 * 10**9))
    assert "ahead" in str(ahead) and "behind" in str(behind)


@pytest.mark.parametrize(
    ("facts", "bound_ns", "text", "words"),
    [
        ({}, WIDEST_NS, {}, None),
        ({}, WIDEST_NS + 1, {}, "one-way times"),
        ({"clock_source": "hpet"}, 0, {}, "hpet: reading it may take so long that ranges of times are wider"),
        ({"clock_source": "arch_sys_counter"}, 0, {}, None),
        ({"open_files": 1024}, 0, {}, "limited by descriptors"),
        ({}, 0, {"refused": ["net.core.somaxconn"]}, "net.core.somaxconn"),
    ],
)
def test_notes(facts: dict[str, Any], bound_ns: int, text: dict[str, Any], words: str | None) -> None:
    found = notes(FACTS | facts, Offset(0, bound_ns, 0, 0), text)
    assert len(found) == (words is not None)
    assert words is None or words in found[0]
