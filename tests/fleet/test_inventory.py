"""Fleet inventories: parsing, and error messages for invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from svload.fleet.inventory import DEFAULT_PORT, Member, read_inventory
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
        (listing(web={"hosts": ["a"]}), "fleet-group", "groups of it are: web."),
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
