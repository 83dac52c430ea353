"""An Ansible inventory as svload reads it: which machines make load, which serve, and at which site. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from svload.model.errors import Problem, SvloadError, fail

GENERATORS, SERVERS, SITES = "generators", "servers", "sites"
_ALWAYS = ("all", "ungrouped")
DEFAULT_PORT = 17700


@dataclass(frozen=True)
class Member:
    """A machine of the inventory. `site` may be empty; `port` is the one that svload's agents use."""

    name: str
    address: str
    generates: bool
    serves: bool
    site: str
    port: int

    @property
    def does(self) -> str:
        """Return its roles in words."""
        return " and ".join(
            word for word, is_so in (("generates", self.generates), ("serves", self.serves)) if is_so
        )


@dataclass(frozen=True)
class Fleet:
    """The machines of an inventory, generators before servers, each in the inventory's order."""

    path: str
    members: tuple[Member, ...]
    servers: tuple[str, ...] = ()
    """The names of the machines that serve, in their group's order."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return their names, as Ansible knows them."""
        return tuple(member.name for member in self.members)


def read_inventory(listing: Mapping[str, Any], path: str) -> Fleet:
    """Read the output of `ansible-inventory --list`; groups that svload does not know are the user's own.

    Raises SvloadError fleet-group (no generators) and fleet-inventory, with everything that is wrong.
    """
    generators, servers = _hosts(listing, GENERATORS), _hosts(listing, SERVERS)
    if not generators:
        raise _no_generators(listing, path)
    variables: Mapping[str, Any] = listing.get("_meta", {}).get("hostvars", {})
    at = _sites(listing)
    names = list(dict.fromkeys((*generators, *servers)))
    problems = [
        Problem("fleet-inventory", {"reason": reason}, path)
        for name in names
        for reason in _wrong(name, at, variables.get(name, {}), has_sites=SITES in listing)
    ]
    if problems:
        raise SvloadError(*problems)
    return Fleet(
        path,
        tuple(
            Member(
                name=name,
                address=_address(name, variables.get(name, {})),
                generates=name in generators,
                serves=name in servers,
                site=next(iter(at.get(name, ())), ""),
                port=int(variables.get(name, {}).get("svload_port", DEFAULT_PORT)),
            )
            for name in names
        ),
        tuple(servers),
    )


def _wrong(
    name: str, at: Mapping[str, list[str]], variables: Mapping[str, Any], *, has_sites: bool
) -> list[str]:
    found = []
    if has_sites and not at.get(name):
        found.append(f"{name} is at no site; put it into a group below “sites”")
    if len(at.get(name, ())) > 1:
        found.append(f"{name} is at {len(at[name])} sites ({', '.join(at[name])}); a machine is at one")
    port = variables.get("svload_port", DEFAULT_PORT)
    if not str(port).isdecimal() or not 0 < int(port) < 65536:
        found.append(f"svload_port of {name} is {port!r}, which is not a port")
    for variable in ("ansible_host", "svload_address"):
        if "{{" in str(value := variables.get(variable, "")):
            found.append(f"{variable} of {name} is a template, which svload does not evaluate: {value}")
    return found


def _address(name: str, variables: Mapping[str, Any]) -> str:
    return str(variables.get("svload_address") or variables.get("ansible_host") or name)


def _sites(listing: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return host → the groups directly below `sites` that contain it."""
    at: dict[str, list[str]] = {}
    for site in listing.get(SITES, {}).get("children", ()):
        for name in _hosts(listing, site):
            at.setdefault(name, []).append(site)
    return at


def _hosts(listing: Mapping[str, Any], group: str, seen: tuple[str, ...] = ()) -> list[str]:
    """Return the hosts of a group and of all groups below it, once each."""
    if group in seen:
        return []
    held = listing.get(group, {})
    below = [name for child in held.get("children", ()) for name in _hosts(listing, child, (*seen, group))]
    return list(dict.fromkeys((*held.get("hosts", ()), *below)))


def _no_generators(listing: Mapping[str, Any], path: str) -> SvloadError:
    groups = sorted(name for name in listing if name not in (*_ALWAYS, "_meta"))
    if GENERATORS in groups:
        return fail(
            "fleet-group",
            path,
            reason="the group “generators” has no host",
            hint="Put at least one host into it.",
        )
    close = get_close_matches(GENERATORS, groups, 1)
    listed = f"its groups are: {', '.join(groups)}" if groups else "it has no groups"
    hint = (
        f"Call “{close[0]}” “{GENERATORS}”."
        if close
        else f"Put the machines that generate the load into it; {listed}."
    )
    return fail("fleet-group", path, reason="it has no group “generators”", hint=hint)
