"""A case's requests as a share has them, with the results of set-up already in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from svload.drive.share import request_spec as spec
from svload.drive.share.spec import FeederSpec
from svload.drive.share.write import Pattern
from svload.model.traffic import (
    Body,
    BodyCheck,
    Check,
    Commands,
    DigestCheck,
    FeederPart,
    HeaderCheck,
    Part,
    Request,
    SizeCheck,
    SizeLaw,
    Take,
    TakenPart,
    Template,
    Text,
    TextTest,
    Turn,
)

SET_UP = "setup"
"""The feeder that hands each VU the variables that set-up took for it."""
SECRET = "secret."
"""The prefix of the names of the study's secrets; no other variable has it."""


@dataclass(frozen=True)
class Writer:
    """Writes a group's requests. `trial`: variables of the trial; `vus`: variable → values by VU number."""

    group: str = ""
    trial: Mapping[str, str] = field(default_factory=dict)
    vus: Mapping[str, Sequence[str]] = field(default_factory=dict)
    renewed: frozenset[str] = frozenset()
    """Variables of the trial that the group renews."""

    @property
    def tables(self) -> dict[str, Mapping[str, Sequence[str]]]:
        """Return the table of the group's own feeder."""
        return {self._table: self.vus} if self.vus else {}

    def feeder(self, vus: int) -> dict[str, FeederSpec]:
        """Return the feeder that hands out `vus`."""
        return {SET_UP: FeederSpec(table=self._table, take="vu", vus_total=vus)} if self.vus else {}

    @property
    def _table(self) -> str:
        return f"{SET_UP}.{self.group}"

    def request(
        self, request: Request, origins: Mapping[str, str], name: str | None = None
    ) -> spec.RequestSpec:
        """Return a request, named `name` if given. `origins`: endpoint's name in the study → in the share.

        Raises KeyError for an endpoint that is not among them.
        """
        name = name or request.name
        checks = tuple(self._check(check) for check in request.checks)
        takes = tuple(_take(take) for take in request.take)
        if request.is_raw:
            return spec.RequestSpec(
                name=name,
                endpoint=origins[request.endpoint],
                timeout_ns=request.timeout_ns,
                checks=checks,
                take=takes,
                dialogue=tuple(self._turn(turn) for turn in request.dialogue),
                **self._commands(request.commands),
            )
        anywhere = request.url is not None
        return spec.RequestSpec(
            name=name,
            method=request.method,
            endpoint="" if anywhere else origins[request.endpoint],
            path=() if anywhere else self.template(request.path),
            url=None if request.url is None else self.template(request.url),
            headers=tuple((header, self.template(value)) for header, value in request.headers),
            body=None if request.body is None else self._content(request.body),
            expect_continue=request.expect_continue and request.body is not None,
            chunked=request.chunked and request.body is not None,
            timeout_ns=request.timeout_ns,
            expect_status=request.expect_status,
            checks=checks,
            take=takes,
            adds=request.adds,
            draws=request.draws,
            removes=request.removes,
        )

    def template(self, template: Template) -> spec.Parts:
        return tuple(self._part(part) for part in template)

    def _part(self, part: Part) -> spec.Part:
        if isinstance(part, Text):
            return spec.TextPart(part.text)
        raw = part.raw or None
        match part:
            case FeederPart():
                return spec.FeederPart(part.feeder, part.column, raw)
            case TakenPart() if part.taken in self.trial and part.taken.startswith(SECRET):
                return spec.SecretPart(self.trial[part.taken], raw)
            case TakenPart() if part.taken in self.trial and part.taken not in self.renewed:
                return spec.ValuePart(self.trial[part.taken], raw)
            case TakenPart() if part.taken in self.vus:
                return spec.FeederPart(SET_UP, part.taken, raw)
            case TakenPart():
                return spec.TakenPart(part.taken, raw)
        return spec.VarPart(part.var, raw)

    def _turn(self, turn: Turn) -> spec.Turn:
        if turn.until_close:
            return "until_close"
        return spec.TurnSpec(
            send=None if turn.send is None else self.template(turn.send),
            send_hex=turn.send_hex,
            expect=turn.expect,
            expect_hex=turn.expect_hex,
            match=Pattern(turn.match) if turn.match is not None and turn.take is None else None,
            take=spec.TakeTurn(turn.take, Pattern(turn.match or "")) if turn.take is not None else None,
            read=self.template(turn.read) if isinstance(turn.read, tuple) else turn.read,
        )

    def _commands(self, given: Commands | None) -> dict[str, Any]:
        """Return the commands in the field of their protocol."""
        if given is None:
            return {}
        commands = (tuple(self.template(word) for word in command) for command in given.commands)
        return {given.protocol: spec.CommandsSpec(commands=tuple(commands))}

    def _content(self, body: Body) -> spec.BodySpec:
        if body.text is not None:
            return spec.BodySpec(text=self.template(body.text))
        if body.file is not None:
            return spec.BodySpec(file=body.file)
        return spec.BodySpec(random=_size(body.random or SizeLaw()))

    def _check(self, check: Check) -> spec.CheckSpec:
        match check:
            case SizeCheck():
                size = check.size_bytes
                if isinstance(size, FeederPart):
                    return spec.SizeCheck(check.name, spec.FeederPart(size.feeder, size.column))
                wanted = size if isinstance(size, int) else spec.TakenPart(size.taken)
                return spec.SizeCheck(check.name, wanted)
            case HeaderCheck():
                return spec.HeaderCheck(check.name, check.header, self._test(check.test))
            case BodyCheck():
                return spec.BodyCheck(check.name, self._test(check.body))
            case DigestCheck():
                return spec.DigestCheck(check.name, check.digest, self.template(check.equals))
        return spec.StatusCheck(check.name, check.status)

    def _test(self, test: TextTest) -> spec.Test:
        if test.equals is not None:
            return spec.TextTest(equals=self.template(test.equals))
        if test.contains is not None:
            return spec.TextTest(contains=self.template(test.contains))
        return spec.TextTest(matches=Pattern(test.matches)) if test.matches is not None else "present"


@dataclass(frozen=True)
class Taken:
    """Variables from set-up: those of the trial, and, by group, those of each VU (values by VU number)."""

    trial: Mapping[str, str] = field(default_factory=dict)
    vus: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    def writer(self, group: str) -> Writer:
        """Return the writer for the requests of a group."""
        return Writer(group, self.trial, self.vus.get(group, {}))


def feeders_of(requests: Iterable[Request]) -> list[str]:
    """Return the feeders whose rows the requests use, in the order of their first use."""
    parts = (part for request in requests for part in request.parts)
    return list(dict.fromkeys(part.feeder for part in parts if isinstance(part, FeederPart)))


def _take(take: Take) -> spec.TakeSpec:
    if take.header is not None:
        return spec.TakeHeader(take.name, take.header)
    if take.json_path is not None:
        return spec.TakeJson(take.name, take.json_path)
    return spec.TakeRegex(take.name, Pattern(take.regex or ""))


def _size(law: SizeLaw) -> spec.SizeLaw:
    if law.uniform is not None:
        return spec.SizeLaw(uniform=law.uniform)
    return spec.SizeLaw(lognormal=law.lognormal) if law.lognormal else spec.SizeLaw(bytes=law.constant or 0)
