"""How svload itself connects to an inventory's machines: Ansible's variables converted to SSH options."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from svload.fleet import ansible
from svload.fleet.inventory import SERVERS, Member, read_inventory
from svload.host.machines.reach import PYTHON, Reach, connects_by_itself
from svload.host.process.interpreter import EXECUTABLE
from svload.model.errors import Problem, SvloadError, fail

LOOPBACK = "127.0.0.1"


def reaches(inventory: Path, on: Collection[str] = ()) -> tuple[Reach, ...]:
    """Return the machines that make load, and those that a study names with `on`. Raises SvloadError
    fleet-inventory, fleet-group, fleet-on, tool-missing."""
    listing = ansible.list_inventory(inventory)
    fleet = read_inventory(listing, str(inventory))
    variables: Mapping[str, Any] = listing.get("_meta", {}).get("hostvars", {})
    names = {one.name: names_of(one.name, fleet.servers) for one in fleet.members if one.serves}
    known = {called for called_so in names.values() for called in called_so}
    if lacking := [one for one in on if one not in known]:
        raise SvloadError(*(_no_server(one, names, str(inventory)) for one in lacking))
    return tuple(
        replace(
            reach_of(one, variables.get(one.name, {}), str(inventory)),
            generates=one.generates,
            known_as=names.get(one.name, ()),
        )
        for one in fleet.members
        if one.generates or set(on) & set(names.get(one.name, ()))
    )


def names_of(name: str, servers: Sequence[str]) -> tuple[str, ...]:
    """Return a study's names for a machine that serves: its index in the group, or its name. Pure."""
    return (f"{SERVERS}[{servers.index(name)}]", name)


def _no_server(on: str, names: Mapping[str, tuple[str, ...]], inventory: str) -> Problem:
    text = "; ".join(" or ".join(called) for called in names.values())
    hint = f"Choose one of {text}." if text else "Give the inventory a group “servers” with that machine."
    details: dict[str, object] = {
        "service": "a service",
        "on": on,
        "reason": "the inventory's group “servers” has no such machine",
        "hint": hint,
    }
    return Problem("fleet-on", details, inventory)


def reach_of(member: Member, variables: Mapping[str, Any], inventory: str = "") -> Reach:
    """Return how to connect to one machine. Pure. Raises SvloadError fleet-inventory."""
    home = str(variables.get("svload_home", "")).rstrip("/")
    python = str(variables.get("svload_python") or (f"{home}/venv/bin/python" if home else PYTHON))
    ssh: tuple[str, ...] = ()
    address = member.address
    if connects_by_itself(variables):
        address = str(variables.get("svload_address") or LOOPBACK)
        python = str(variables.get("svload_python") or EXECUTABLE)
    else:
        try:
            options = _ssh_words(variables)
        except ValueError as why:
            reason = f"the SSH arguments of {member.name} can't be split ({why})"
            raise fail("fleet-inventory", inventory, reason=reason) from why
        ssh = ("ssh", *options, str(variables.get("ansible_host") or member.name))
    return Reach(member.name, address, member.site, member.port, python, ssh)


def _ssh_words(variables: Mapping[str, Any]) -> list[str]:
    """Return SSH options as in Ansible's own SSH connection. Raises ValueError for an open quotation."""
    words = []
    if port := variables.get("ansible_port") or variables.get("ansible_ssh_port"):
        words += ["-p", str(port)]
    if user := variables.get("ansible_user") or variables.get("ansible_ssh_user"):
        words += ["-l", str(user)]
    if key := variables.get("ansible_ssh_private_key_file") or variables.get("ansible_private_key_file"):
        words += ["-i", str(Path(str(key)).expanduser())]
    for name in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        words += shlex.split(str(variables.get(name) or ""))
    return words
