"""Requests as a share writes them (engine/README.md), with what set-up took already put in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from svload.model.traffic import (
    Body,
    BodyCheck,
    Check,
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
    TextTest,
    Turn,
)

SET_UP = "setup"
"""The feeder that hands each VU the variables that set-up took for it."""


@dataclass(frozen=True)
class Writer:
    """Writes requests of one group. `trial`: variables of the whole trial; `vus`: variable → values by VU number."""

    group: str = ""
    trial: Mapping[str, str] = field(default_factory=dict)
    vus: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, Mapping[str, Sequence[str]]]:
        """The table of the group's own feeder."""
        return {self._table: self.vus} if self.vus else {}

    def feeder(self, vus: int) -> dict[str, Any]:
        """The feeder that hands out `vus`."""
        return {SET_UP: {"table": self._table, "take": "vu", "vus_total": vus}} if self.vus else {}

    @property
    def _table(self) -> str:
        return f"{SET_UP}.{self.group}"

    def request(self, request: Request, origins: Mapping[str, str]) -> dict[str, Any]:
        """A request. `origins`: its endpoint as the study names it → the share's name of it. Raises KeyError for an unknown one."""
        if request.dialogue:
            return {
                "name": request.name,
                "endpoint": origins[request.endpoint],
                "timeout_ns": request.timeout_ns,
                "dialogue": [self._turn(turn) for turn in request.dialogue],
            }
        if request.url is not None:
            target: dict[str, Any] = {"url": self.template(request.url)}
        else:
            target = {"endpoint": origins[request.endpoint], "path": self.template(request.path)}
        return {
            "name": request.name,
            "method": request.method,
            **target,
            "headers": [[name, self.template(value)] for name, value in request.headers],
            "timeout_ns": request.timeout_ns,
            "expect_status": [list(span) for span in request.expect_status],
            "checks": [self._check(check) for check in request.checks],
            **self._body(request),
            **({"take": [_take(take) for take in request.take]} if request.take else {}),
        }

    def template(self, template: Template) -> list[dict[str, str]]:
        """A text's parts."""
        return [self._part(part) for part in template]

    def _part(self, part: Part) -> dict[str, str]:
        if isinstance(part, TakenPart) and part.taken in self.trial:
            return {"text": self.trial[part.taken]}
        if isinstance(part, TakenPart) and part.taken in self.vus:
            return {"feeder": SET_UP, "column": part.taken}
        return part.model_dump()

    def _turn(self, turn: Turn) -> Any:
        if turn.until_close:
            return "until_close"
        if turn.send is not None:
            return {"send": self.template(turn.send)}
        return turn.model_dump(exclude_none=True, exclude={"until_close"})

    def _body(self, request: Request) -> dict[str, Any]:
        if request.body is None:
            return {}
        said: dict[str, Any] = {"body": self._content(request.body)}
        said |= {"expect_continue": True} if request.expect_continue else {}
        return said | ({"chunked": True} if request.chunked else {})

    def _content(self, body: Body) -> dict[str, Any]:
        if body.text is not None:
            return {"text": self.template(body.text)}
        return {"file": body.file} if body.file is not None else {"random": _size(body.random or SizeLaw())}

    def _check(self, check: Check) -> dict[str, Any]:
        match check:
            case SizeCheck():
                size = check.size_bytes
                wanted: Any = self._part(size) if isinstance(size, FeederPart) else size
                return {"name": check.name, "size_bytes": wanted}
            case HeaderCheck():
                return {"name": check.name, "header": check.header, "test": self._test(check.test)}
            case BodyCheck():
                return {"name": check.name, "body": self._test(check.body)}
            case DigestCheck():
                return {"name": check.name, "digest": check.digest, "equals": self.template(check.equals)}
        return {"name": check.name, "status": list(check.status)}

    def _test(self, test: TextTest) -> Any:
        if test.equals is not None:
            return {"equals": self.template(test.equals)}
        if test.contains is not None:
            return {"contains": self.template(test.contains)}
        return {"matches": test.matches} if test.matches is not None else "present"


@dataclass(frozen=True)
class Taken:
    """What set-up took: variables of the trial, and, by group, those of each VU (values by VU number)."""

    trial: Mapping[str, str] = field(default_factory=dict)
    vus: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    def writer(self, group: str) -> Writer:
        """What writes the requests of a group."""
        return Writer(group, self.trial, self.vus.get(group, {}))


def feeders_of(requests: Iterable[Request]) -> list[str]:
    """The feeders whose rows the requests ask for, in the order of their first mention."""
    parts = (part for request in requests for part in request.parts)
    return list(dict.fromkeys(part.feeder for part in parts if isinstance(part, FeederPart)))


def _take(take: Take) -> dict[str, str]:
    if take.header is not None:
        return {"name": take.name, "header": take.header}
    if take.json_path is not None:
        return {"name": take.name, "json": take.json_path}
    return {"name": take.name, "regex": take.regex or ""}


def _size(law: SizeLaw) -> dict[str, Any]:
    if law.uniform is not None:
        return {"uniform": list(law.uniform)}
    return {"lognormal": list(law.lognormal)} if law.lognormal is not None else {"bytes": law.constant or 0}
