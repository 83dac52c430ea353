"""Requests of a share, with the names, fields and units of engine/engine/src/request_spec.rs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from svload.drive.share.write import Pattern
from svload.model.protocols import NAMES


@dataclass(frozen=True)
class TextPart:
    """A literal part of a text."""

    text: str


Raw = Literal[True] | None
"""Whether a value is sent unchanged instead of encoded."""


@dataclass(frozen=True)
class ValuePart:
    """A value that is known before the load."""

    value: str
    raw: Raw = None


@dataclass(frozen=True)
class SecretPart:
    """A value that no redirect carries to another origin."""

    secret: str
    raw: Raw = None


@dataclass(frozen=True)
class FeederPart:
    """A column of a feeder's current row."""

    feeder: str
    column: str
    raw: Raw = None


@dataclass(frozen=True)
class VarPart:
    """A value that every request has."""

    var: Literal["request.id", "vu", "iteration"]
    raw: Raw = None


@dataclass(frozen=True)
class TakenPart:
    """A variable taken from an earlier answer."""

    taken: str
    raw: Raw = None


Part = TextPart | ValuePart | SecretPart | FeederPart | VarPart | TakenPart
Parts = tuple[Part, ...]


@dataclass(frozen=True)
class OneOf:
    """A variant that carries a value: exactly one field is set."""

    def __post_init__(self) -> None:
        names = [name for name, value in vars(self).items() if value is not None]
        if len(names) != 1:
            raise ValueError(f"{type(self).__name__} says {names or 'nothing'}, and exactly one was expected")


@dataclass(frozen=True)
class SizeLaw(OneOf):
    """The length of generated bodies, in bytes; `lognormal` is (median, p99)."""

    bytes: int | None = None
    uniform: tuple[int, int] | None = None
    lognormal: tuple[float, float] | None = None


@dataclass(frozen=True)
class BodySpec(OneOf):
    """The body of a request."""

    text: Parts | None = None
    random: SizeLaw | None = None
    file: str | None = None


@dataclass(frozen=True)
class TakeTurn:
    """A turn whose match's first group is a variable, for later turns too."""

    name: str
    match: Pattern


@dataclass(frozen=True)
class TurnSpec(OneOf):
    """A turn of a dialogue, except the one that reads until the peer closes."""

    send: Parts | None = None
    send_hex: str | None = None
    expect: str | None = None
    expect_hex: str | None = None
    match: Pattern | None = None
    take: TakeTurn | None = None
    read: int | Parts | None = None


Turn = TurnSpec | Literal["until_close"]


@dataclass(frozen=True)
class CommandsSpec:
    """Commands of a protocol, each a list of words; they are sent together."""

    commands: tuple[tuple[Parts, ...], ...]


@dataclass(frozen=True)
class TextTest(OneOf):
    """A condition on a text of the answer; without one the text must only exist."""

    equals: Parts | None = None
    contains: Parts | None = None
    matches: Pattern | None = None


Test = TextTest | Literal["present"]


@dataclass(frozen=True)
class StatusCheck:
    """The answer's status lies in [low, high]."""

    name: str
    status: tuple[int, int]


@dataclass(frozen=True)
class SizeCheck:
    """The body has this length, or the length in a column or a variable."""

    name: str
    size_bytes: int | FeederPart | TakenPart


@dataclass(frozen=True)
class HeaderCheck:
    """A header passes a test."""

    name: str
    header: str
    test: Test


@dataclass(frozen=True)
class BodyCheck:
    """The body's first MiB passes a test."""

    name: str
    body: Test


@dataclass(frozen=True)
class DigestCheck:
    """The whole body has this digest, as hexadecimal digits."""

    name: str
    digest: Literal["sha256", "md5"]
    equals: Parts


CheckSpec = StatusCheck | SizeCheck | HeaderCheck | BodyCheck | DigestCheck


@dataclass(frozen=True)
class TakeHeader:
    """A variable that is a header's value."""

    name: str
    header: str


@dataclass(frozen=True)
class TakeJson:
    """A variable at a place of a JSON body, such as `items[0].id`."""

    name: str
    json: str


@dataclass(frozen=True)
class TakeRegex:
    """A variable that a regular expression finds in the body."""

    name: str
    regex: Pattern


TakeSpec = TakeHeader | TakeJson | TakeRegex


@dataclass(frozen=True, kw_only=True)
class RequestSpec:
    """One request. `url` replaces endpoint and path; `dialogue` replaces method, path, headers and body."""

    name: str
    method: str = ""
    endpoint: str = ""
    path: Parts = ()
    url: Parts | None = None
    headers: tuple[tuple[str, Parts], ...] = ()
    body: BodySpec | None = None
    expect_continue: bool = False
    chunked: bool = False
    timeout_ns: int
    expect_status: tuple[tuple[int, int], ...] = ((200, 399),)
    checks: tuple[CheckSpec, ...] = ()
    take: tuple[TakeSpec, ...] = ()
    dialogue: tuple[Turn, ...] = ()
    redis: CommandsSpec | None = None
    memcached: CommandsSpec | None = None
    adds: str | None = None
    draws: str | None = None
    removes: bool = False

    def uses(self, feeder: str) -> bool:
        """Return whether it uses rows of a feeder: in its address, a header, its body, a turn or a check."""
        return any(isinstance(part, FeederPart) and part.feeder == feeder for part in self.parts)

    @property
    def parts(self) -> Iterator[Part]:
        """Return every part of its texts, those of its checks too."""
        yield from self.path
        yield from self.url or ()
        for _, value in self.headers:
            yield from value
        yield from (self.body and self.body.text) or ()
        for turn in self.dialogue:
            if isinstance(turn, TurnSpec):
                yield from turn.send or ()
                yield from turn.read if isinstance(turn.read, tuple) else ()
        values = (getattr(self, name) for name in NAMES)
        for command in (words for one in values if one is not None for words in one.commands):
            for word in command:
                yield from word
        for check in self.checks:
            yield from _of_check(check)


def _of_check(check: CheckSpec) -> Parts:
    if isinstance(check, SizeCheck):
        return () if isinstance(check.size_bytes, int) else (check.size_bytes,)
    if isinstance(check, DigestCheck):
        return check.equals
    test: Any = getattr(check, "test", None) or getattr(check, "body", None)
    return (test.equals or test.contains or ()) if isinstance(test, TextTest) else ()
