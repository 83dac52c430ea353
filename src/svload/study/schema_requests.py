"""Requests of the study file as pydantic models."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from svload.model.protocols import NAMES
from svload.study.described import with_protocols
from svload.study.distributions import SizeOrLaw
from svload.study.mistakes import wrong
from svload.study.values import (
    Count,
    Decided,
    Flag,
    Formed,
    Name,
    OneOrMany,
    OrAlone,
    OrReference,
    Part,
    PlainCount,
    Redirects,
    SentText,
    SpanNs,
    Texts,
    holds_reference,
)

METHODS = ("get", "head", "delete", "options", "post", "put", "patch")
OF_A_DIALOGUE = {"tcp", "dialogue", *NAMES, "counts_as", "timeout", "check", "take"}
WITH_BODY = ("post", "put", "patch")


def _ascending(text: str) -> str:
    low, _, high = text.partition("-")
    if high and high < low:
        raise wrong("the high end must not be below the low one", f"Write {high}-{low}.")
    return text


StatusRange = Annotated[
    str,
    BeforeValidator(
        lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    ),
    Formed(r"[1-5][0-9]{2}(-[1-5][0-9]{2})?", "a status from 100 to 599, or a range such as 200-299"),
    AfterValidator(_ascending),
    WithJsonSchema({"type": ["string", "integer"], "examples": [200, "200-299"]}),
    OrReference(),
]


class BodyPart(Part):
    """What a request carries: a text (which may hold `${…}`), random bytes of a size, or a file beside the study."""

    text: str | None = Field(None, description="the text itself; `${…}` is filled in for each request")
    random: SizeOrLaw | None = Field(
        None, description="seeded random bytes: 40 KiB, {lognormal: {median: …, p99: …}} or {uniform: […, …]}"
    )
    file: str | None = Field(None, description="a file in the study's folder")

    @model_validator(mode="after")
    def _one_kind(self) -> BodyPart:
        if sum(kind is not None for kind in (self.text, self.random, self.file)) != 1:
            raise wrong("expected one of text, random, file", "Write {random: 40 KiB}.")
        return self


class TakePart(Part):
    """A variable taken from the answer: a header, a place in a JSON body, or a match of a regular expression
    in the body."""

    header: str | None = Field(None, description="the header's name")
    json_path: str | None = Field(None, alias="json", description="a path: access.token, items[0].id")
    regex: str | None = Field(None, description="its first group, or all that matches: id=(\\d+)")

    @model_validator(mode="after")
    def _one_kind(self) -> TakePart:
        if sum(kind is not None for kind in (self.header, self.json_path, self.regex)) != 1:
            raise wrong("expected one of header, json, regex", "Write {header: X-Auth-Token}.")
        return self


class OrOfRequest(OrReference):
    """Besides the annotated type a text that contains a `${…}`, also in a case: a request may resolve it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
            return value if holds_reference(value) else inner(value)

        return core_schema.no_info_wrap_validator_function(check, handler(source))


class TurnPart(Part):
    """A turn of a raw dialogue: one of these."""

    send: str | None = Field(None, description="send this text; `${…}` is filled in for each request")
    send_hex: str | None = Field(None, description="send these bytes: ff 00 0a")
    expect: str | None = Field(None, description="wait for this text; anything before it is skipped")
    expect_hex: str | None = Field(None, description="wait for these bytes")
    match: str | None = Field(
        None, description="wait until this regular expression matches the received data"
    )
    take: Name | None = Field(
        None, description="with match: its first group, or the whole match, becomes this variable"
    )
    read: Annotated[PlainCount, OrOfRequest()] | None = Field(
        None, description="read this many bytes; `${…}` may be a variable or a feeder's column"
    )
    until_close: Annotated[bool, Field(strict=True)] = Field(
        False, description="read until the server closes the connection; the last turn"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> TurnPart:
        kinds = ("send", "send_hex", "expect", "expect_hex", "match", "read")
        if sum(getattr(self, kind) is not None for kind in kinds) + self.until_close != 1:
            raise wrong(f"expected one of {', '.join(kinds)}, until_close")
        for kind in ("send_hex", "expect_hex"):
            text = getattr(self, kind)
            if text is not None and not re.fullmatch(r"([0-9A-Fa-f]{2}\s*)+", text):
                raise wrong(f"{kind} takes pairs of hexadecimal digits", "Write ff 00 0a.")
        if self.expect == "":
            raise wrong("expected the text to wait for")
        if self.take is not None and self.match is None:
            raise wrong("take belongs to match", "Write {match: 'SIZE ([0-9]+)\\n', take: size}.")
        return self


_METHOD_AND_URL = "Write get: http://service/path; the key is the method."
_ELSEWHERE = {
    "method": _METHOD_AND_URL,
    "url": _METHOD_AND_URL,
    "json": "Write body: '{\"a\": 1}' and headers: {Content-Type: application/json}.",
    "data": "Write body: TEXT.",
    "params": "Write them in the URL: http://service/path?a=1.",
    "query": "Write them in the URL: http://service/path?a=1.",
}
"""Keys of a request in other load testers → what to write here."""


@with_protocols
class RequestPart(Part):
    """One request. The URL's host is a service's name; its port and certificate authority
    follow from service and scheme."""

    get: str | None = Field(None, description="the URL of a GET")
    head: str | None = Field(None, description="the URL of a HEAD")
    delete: str | None = Field(None, description="the URL of a DELETE")
    options: str | None = Field(None, description="the URL of an OPTIONS")
    post: str | None = Field(None, description="the URL of a POST")
    put: str | None = Field(None, description="the URL of a PUT")
    patch: str | None = Field(None, description="the URL of a PATCH")
    tcp: str | None = Field(None, description="the address of a raw dialogue: tcp://service or tls://service")
    dialogue: list[TurnPart] = Field([], description="of tcp: the turns in order")
    counts_as: Count | None = Field(
        None,
        description="of dialogue: how many requests the server counts for one; default: one for each send",
    )
    body: (
        Annotated[
            BodyPart,
            OrAlone(lambda value: {"text": value} if isinstance(value, str) else value, {"type": "string"}),
        ]
        | None
    ) = Field(None, description="of a POST, PUT or PATCH: a text, {random: 40 KiB} or {file: name}")
    expect_continue: Flag = Field(
        False, description="a random or file body waits for the server's 100 (1 s at most)"
    )
    chunked: Flag = Field(
        False, description="a random or file body is sent in chunks, without its length in advance"
    )
    headers: dict[str, SentText] = Field(
        {}, description="name: value; left out in cases whose level lacks the field"
    )
    timeout: SpanNs = Field(
        30_000_000_000, description="time limit, from its start to its last byte, including redirects"
    )
    check: Texts = Field(
        [],
        description="status == 200, size_bytes == ${feeder.size_bytes}, header.X-Cache == HIT, body contains "
        "ok, sha256 == …",
    )
    take: Annotated[
        dict[Name, TakePart], Field(description="variables for later steps: token: {header: X-Auth-Token}")
    ] = {}
    expect_status: Annotated[list[StatusRange], Field(min_length=1), OneOrMany()] = Field(
        ["200-399"], description="200, 200-299"
    )
    follow_redirects: Redirects = Field(0, description="how many redirects are followed; at most 100")
    adds: Annotated[Name | None, OrReference()] = Field(
        None, description="the feeder of written objects to which this upload is added as a row"
    )
    removes: Annotated[Name | None, OrReference()] = Field(
        None, description="the feeder of written objects whose row this request deletes"
    )

    @classmethod
    def hint(cls, key: str, written: Any) -> str:
        """Return what to write for a key of other load testers."""
        return _ELSEWHERE.get(key.lower(), "")

    @model_validator(mode="after")
    def _one_method(self) -> RequestPart:
        if sum(getattr(self, method) is not None for method in (*METHODS, "tcp")) != 1:
            raise wrong(f"expected exactly one of {', '.join(METHODS)}, tcp")
        methods = [word for word in ("dialogue", *NAMES) if getattr(self, word)]
        if len(methods) != (self.tcp is not None):
            raise wrong(f"tcp and one of dialogue, {', '.join(NAMES)} belong together")
        if self.tcp is not None and (other := sorted(self.model_fields_set - OF_A_DIALOGUE)):
            raise wrong(f"{other[0]} belongs to HTTP, and this is a dialogue")
        if self.adds is not None and (self.body is None or self.removes is not None):
            raise wrong("adds belongs to a request with a body that is uploaded")
        if self.counts_as is not None and not self.dialogue:
            raise wrong("counts_as belongs to a dialogue")
        if any(turn.until_close for turn in self.dialogue[:-1]):
            raise wrong("until_close must be the last turn")
        if self.body is not None and self.method not in WITH_BODY:
            raise wrong(f"a body belongs to {', '.join(WITH_BODY)}, not to {self.method}")
        if self.expect_continue is True and (self.body is None or self.body.text is not None):
            raise wrong("expect_continue needs a random or file body")
        if self.chunked is True and (self.body is None or self.body.text is not None):
            raise wrong("chunked needs a random or file body")
        return self

    @property
    def method(self) -> str:
        """Return get, head …"""
        return next(method for method in (*METHODS, "tcp") if getattr(self, method) is not None)


def spelled(value: Any) -> Any:
    """Return the mapping for `GET http://service/path`; anything else unchanged. Raises ValueError for an
    unknown method."""
    if not isinstance(value, str) or not (match := re.fullmatch(r"([A-Za-z]+)\s+(\S.*)", value.strip())):
        return value
    if match[1].lower() not in METHODS:
        raise wrong(f"expected one of {', '.join(METHODS).upper()}", "Write GET http://service/path.")
    return {match[1].lower(): match[2]}


NamedRequest = Annotated[RequestPart, OrAlone(spelled, {"type": "string"})]
"""An entry under requests: a request, or only its method and URL."""


class RequestForm(Decided):
    """A request's name, `GET http://service/path`, or the request itself."""

    def read(self, value: Any, context: Any) -> Any:
        """Return the name or the request."""
        value = spelled(value)
        if isinstance(value, str):
            return value
        return RequestPart.model_validate(value, context=context)


InlineRequest = Annotated[str | RequestPart, RequestForm()]
