"""The parts of a lab and its traffic that may act outside it: options that can name a command, file, library,
user or address, and requests that write to servers that svload did not start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from svload.lab.catalogue import all_kits
from svload.lab.kit import Kit, KitOptions
from svload.model.protocols import READS
from svload.model.study import ServiceSpec
from svload.model.traffic import Request, Text
from svload.study.steps import hosts_of

HARMLESS = frozenset(KitOptions.model_fields) - {"tuning"}
"""Options of every service, which svload interprets itself."""
_PLAIN = re.compile(r"[A-Za-z0-9._%+:= *-]{0,200}")
"""A parameter's value that can neither end its line nor be a path."""
_MEDIA_TYPE = re.compile(r"(?<!\S)(application|audio|font|image|model|text|video)/[a-z0-9.+*-]{1,80}(?!\S)")
MOST_SHOWN = 120
READING_METHODS = ("GET", "HEAD", "OPTIONS")


def asks_trust(specs: Sequence[ServiceSpec], requests: Sequence[Request] = ()) -> list[str]:
    """Return what needs the user's trust in these services and requests, such as `lab.app.run: ./server` or
    `requests.wipe: FLUSHALL at tcp://127.0.0.1:6379, …`; empty if nothing does. Commands that contain
    variables are left to the server, which its kit has configured to refuse the others.

    Hosts in a study (`at:`) are not included: they need authorisation.
    """
    found: list[str] = []
    for spec in specs:
        kind = all_kits().get(spec.kit)
        if kind is not None:
            if kind.permits is None:
                found.append(f"lab.{spec.name}.kit: {spec.kit}, which requests could administer")
            found += [
                f"lab.{spec.name}.{key}: {_short(value)}" for key, value in _outside(kind, spec.options)
            ]
    reached = _Reached(specs, requests)
    for request in dict.fromkeys(requests):
        if administering := ", ".join(reached.not_permitted(request)):
            found.append(
                f"requests.{request.name}: {_short(administering)} at {request.host}, which its kit does not permit"
            )
        if writing := _writing(request):
            found += [
                f"requests.{request.name}: {_short(writing)} at {where}, which svload did not start"
                for where in reached.not_ours(request)
            ]
    return list(dict.fromkeys(found))


def _writing(request: Request) -> str:
    """Return what may change the server in a request, such as `DELETE` or `SET, FLUSHALL`; else empty."""
    if request.dialogue:
        return "a dialogue"
    if request.commands is None:
        return "" if request.method in READING_METHODS else request.method
    reads = READS[request.commands.protocol]
    names = _commands(request)
    return ", ".join(
        dict.fromkeys("a command" if "\0" in one else one for one in names if one.lower() not in reads)
    )


def _commands(request: Request) -> list[str]:
    """Return the names of its commands, with NUL in place of variables."""
    firsts = [words[0] for words in request.commands.commands] if request.commands else []
    return ["".join(part.text if isinstance(part, Text) else "\0" for part in word) for word in firsts]


class _Reached:
    """The servers that requests reach."""

    def __init__(self, specs: Sequence[ServiceSpec], requests: Sequence[Request]) -> None:
        self._ours = {spec.name: spec for spec in specs}
        self._hosts = hosts_of({spec.name: spec.options for spec in specs})
        self._named = dict.fromkeys(
            request.endpoint
            for request in requests
            if request.url is None and request.host not in self._hosts
        )

    def not_permitted(self, request: Request) -> Iterator[str]:
        """Yield the commands to a server of the lab that its kit does not permit."""
        spec = self._ours.get(request.host)
        kind = all_kits().get(spec.kit) if spec else None
        if kind is not None and kind.permits is not None and kind.permits.names:
            names = dict.fromkeys(_commands(request))
            yield from (name for name in names if "\0" not in name and name.lower() not in kind.permits.names)

    def not_ours(self, request: Request) -> Iterator[str]:
        """Yield the servers not started by svload that a request may reach, directly or through others."""
        if request.goes_anywhere:
            yield from self._named
        elif request.host not in self._hosts:
            yield request.endpoint
        hops = list(self._ours) if request.goes_anywhere else [request.host.partition(".")[0]]
        for hop in hops:  # grows meanwhile
            if (spec := self._ours.get(hop)) is None or (kind := all_kits().get(spec.kit)) is None:
                continue
            if not kind.starts and (at := spec.options.get("connect_to") or spec.options.get("at")):
                yield str(at)
            hops += [one for one in kind.needs(spec.options) if one not in hops]


def _outside(kind: type[Kit], options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in options.items():
        if key == "tuning" and isinstance(value, Mapping):
            for name, setting in value.items():
                if name not in kind.harmless_tuning or not _is_plain(setting):
                    yield f"tuning.{name}", setting
        elif key not in HARMLESS | kind.harmless | kind.addresses:
            yield key, value


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return _PLAIN.fullmatch(_MEDIA_TYPE.sub("", value)) is not None
    return value is None or isinstance(value, bool | int | float)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} …"
