"""Requests of one case: from checked parts of the file to the contracts in svload.model.traffic."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from svload.model.protocols import PROTOCOLS, Protocol
from svload.model.traffic import (
    Body,
    Check,
    Commands,
    HeaderCheck,
    Request,
    SizeLaw,
    StatusCheck,
    Take,
    TakenPart,
    Template,
    Turn,
)
from svload.model.typed_url import encoded, sent_as
from svload.study import distributions, schema_requests
from svload.study.checks import CHECK_FORMS, read_check
from svload.study.mistakes import Mistake, bad_value, unknown_name
from svload.study.references import RAW, refers, unescaped
from svload.study.templates import Names, template
from svload.study.tree import Path

_URL = re.compile(r"(https?)://(\$\{[^}]*\}|[^/?#$]*)(.*)", re.DOTALL)
_TAKEN_HOST = re.compile(r"(?:https?://)?\$\{([^}]*)\}.*", re.DOTALL)
_RAW_URL = re.compile(r"(tcp|tls)://([^/?#\s]+)/?")
_FRAMING = ("content-length", "transfer-encoding", "expect")
_HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?")


def read_request(
    name: str, part: schema_requests.RequestPart, names: Names, path: Path
) -> Request | list[Mistake]:
    """Return the request of this case, or what is wrong with it."""
    url: str = getattr(part, part.method)
    url_path = (*path, part.method)
    mistakes: list[Mistake] = []
    if part.tcp is not None:
        return _read_raw(name, part, names, path)
    taken = _TAKEN_HOST.fullmatch(url.strip())
    anywhere = taken is not None and taken[1].strip().removesuffix(RAW) in names.variables
    split = _URL.fullmatch("http:///" if anywhere else url.strip())
    other_scheme = re.match(r"([A-Za-z][\w+.-]*)://", url.strip())
    if other_scheme and not split:
        return [
            bad_value(
                url_path, "expected the scheme http or https", other_scheme[1], "Write http://service/path."
            )
        ]
    if not split or re.search(r"[\x00-\x1f\x7f]", url.strip()):
        return [bad_value(url_path, "expected a URL", url, "Write http://service/path.")]
    scheme, host, rest = split.groups()
    rest = rest.partition("#")[0]
    mistakes += [] if anywhere else _host_mistakes(host, names, url_path, url)
    if rest and rest[0] not in "/?$":
        mistakes.append(bad_value(url_path, "the path must begin with /", url))
    checks, of_checks = _read_checks(part, names, path)
    mistakes += [*of_checks, *_varying_takes(part, path)]
    for header, value in part.headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", header) or re.search(r"[\r\n]", value):
            mistakes.append(bad_value((*path, "headers", header), "expected a header of one line", value))
        if part.body is not None and header.lower() in _FRAMING:
            mistakes.append(
                bad_value((*path, "headers", header), "it follows from the body", value, "Leave it out.")
            )
    for word, named in (("adds", part.adds), ("removes", part.removes)):
        if named is not None and named not in names.sets:
            mistakes.append(unknown_name((*path, word), named, "feeder of written objects", names.sets))
    if mistakes:
        return mistakes
    request = Request(
        name=name,
        method=part.method.upper(),
        scheme="" if anywhere else scheme,
        host=host,
        path=() if anywhere else template(sent_as(rest if rest[:1] in ("/", "$") else f"/{rest}"), names),
        url=template(encoded(url.strip()), names) if anywhere else None,
        headers=tuple((header, template(value, names)) for header, value in part.headers.items()),
        body=_body(part.body, names),
        expect_continue=part.expect_continue,
        chunked=part.chunked,
        timeout_ns=part.timeout,
        expect_status=tuple(_status_range(text) for text in part.expect_status),
        checks=tuple(checks),
        take=_takes(part),
        follow_redirects=part.follow_redirects,
        adds=part.adds,
    )
    return _drawing(request, part.removes, names, url_path)


def _drawing(request: Request, removes: str | None, names: Names, path: Path) -> Request | list[Mistake]:
    """Return the request with the set of written objects that it reads from."""
    named = (part.taken.partition(".")[0] for part in request.parts if isinstance(part, TakenPart))
    asked = {name for name in named if name in names.sets} | ({removes} if removes else set())
    if request.adds is not None and asked <= {request.adds}:
        return request
    if len(asked) > 1 or (request.adds is not None and asked):
        reason = "expected one feeder of written objects"
        return [bad_value(path, reason, ", ".join(sorted(asked | {request.adds or ""} - {""})))]
    return request.model_copy(update={"draws": next(iter(asked), None), "removes": removes is not None})


def _read_checks(
    part: schema_requests.RequestPart, names: Names, path: Path
) -> tuple[list[Check], list[Mistake]]:
    checks: list[Check] = []
    mistakes = []
    for index, text in enumerate(part.check):
        check = read_check(text, names)
        if isinstance(check, str):
            mistakes.append(bad_value((*path, "check", index), check, text, CHECK_FORMS))
        elif part.tcp is not None and isinstance(check, StatusCheck | HeaderCheck):
            reason = "expected size_bytes, body, sha256 or md5: only HTTP has a status and headers"
            mistakes.append(bad_value((*path, "check", index), reason, text))
        else:
            checks.append(check)
    return checks, mistakes


def _takes(part: schema_requests.RequestPart) -> tuple[Take, ...]:
    return tuple(Take(name=name, **unescaped(take.model_dump())) for name, take in part.take.items())


def _varying_takes(part: schema_requests.RequestPart, path: Path) -> Iterator[Mistake]:
    for name, take in part.take.items():
        yield from _varying(take.model_dump(by_alias=True), (*path, "take", name))


def _varying(texts: Mapping[str, str | None], path: Path) -> Iterator[Mistake]:
    """Report texts that are the same in all requests of a case and contain what only a request knows."""
    for key, text in texts.items():
        if refers(text):
            reason = "expected a text that is the same in all requests"
            yield bad_value((*path, key), reason, text, "Use what a level gives, or leave the reference out.")


def _read_raw(
    name: str, part: schema_requests.RequestPart, names: Names, path: Path
) -> Request | list[Mistake]:
    """Return a request of another protocol than HTTP."""
    url = (part.tcp or "").strip()
    split = _RAW_URL.fullmatch(url)
    if not split:
        reason = "expected an address"
        return [bad_value((*path, "tcp"), reason, url, "Write tcp://service or tls://service.")]
    checks, mistakes = _read_checks(part, names, path)
    mistakes += _host_mistakes(split[2], names, (*path, "tcp"), url)
    for taken, take in part.take.items():
        if take.header is not None:
            reason = "expected json or regex: only HTTP has headers"
            mistakes.append(bad_value((*path, "take", taken), reason, take.header))
    mistakes += _varying_takes(part, path)
    for index, turn in enumerate(part.dialogue):
        turn_path = (*path, "dialogue", index)
        mistakes += _varying({"expect": turn.expect, "match": turn.match}, turn_path)
    commands, of_commands = _commands(part, path)
    mistakes += of_commands
    if mistakes:
        return mistakes
    sends = sum(turn.send is not None or turn.send_hex is not None for turn in part.dialogue)
    protocol, words = commands or (None, [])
    counts = sum(protocol.counts(command) for command in words) if protocol else max(sends, 1)
    return Request(
        name=name,
        method="TCP",
        scheme=split[1],
        host=split[2],
        path=(),
        timeout_ns=part.timeout,
        checks=tuple(checks),
        take=_takes(part),
        dialogue=tuple(_turn(turn, names) for turn in part.dialogue),
        commands=Commands(protocol=protocol.name, commands=_templates(words, names)) if protocol else None,
        counts_as=part.counts_as or counts,
    )


def _commands(
    part: schema_requests.RequestPart, path: Path
) -> tuple[tuple[Protocol, list[list[str]]] | None, list[Mistake]]:
    """Return the protocol of its commands, with the words of each; or what is wrong with them."""
    for protocol in PROTOCOLS:
        written = getattr(part, protocol.name)
        if not written:
            continue
        commands = [_words(command) for command in written]
        reason = f"expected a command, such as {protocol.example[0]}"
        wrong = [
            bad_value((*path, protocol.name, index), reason, written[index])
            for index, words in enumerate(commands)
            if not words
        ]
        return (protocol, commands), wrong
    return None, []


def _templates(commands: list[list[str]], names: Names) -> tuple[tuple[Template, ...], ...]:
    return tuple(tuple(template(word, names) for word in words) for words in commands)


def _words(command: str | list[str]) -> list[str]:
    """Return a command's words; none if its quotes do not match."""
    if not isinstance(command, str):
        return command
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _turn(part: schema_requests.TurnPart, names: Names) -> Turn:
    plain = unescaped(part.model_dump(exclude={"send", "read"}))
    # A `${…}` that only a request can resolve is still a text.
    read: Any = part.read
    return Turn(
        send=None if part.send is None else template(part.send, names),
        read=template(read, names) if isinstance(read, str) else read,
        **plain,
    )


def _body(part: schema_requests.BodyPart | None, names: Names) -> Body | None:
    if part is None:
        return None
    if part.text is not None:
        return Body(text=template(part.text, names))
    return Body(file=part.file) if part.file is not None else Body(random=_size_law(part.random))


def _size_law(
    part: distributions.LognormalSize | distributions.UniformSize | distributions.ConstantSize | None,
) -> SizeLaw:
    match part:
        case distributions.LognormalSize():
            return SizeLaw(lognormal=(part.lognormal.median, part.lognormal.p99))
        case distributions.UniformSize():
            return SizeLaw(uniform=part.uniform)
        case distributions.ConstantSize():
            return SizeLaw(constant=part.constant)
    return SizeLaw()


def _host_mistakes(host: str, names: Names, path: Path, url: str) -> list[Mistake]:
    if host in names.services:
        return []
    name, _, port = host.partition(":")
    if port and name in names.services:
        return [
            bad_value(
                path,
                f"the port of {name} follows from the service and the scheme",
                url,
                f"Write {name} alone.",
            )
        ]
    if not host or "${" in host:
        return [bad_value(path, "the host must be one name for all requests of a case", url)]
    if not _HOST.fullmatch(host) or not (_is_address(host) or "." in name or name == "localhost"):
        return [unknown_name(path, host, "service (nor an address)", names.services)]
    return []


def _is_address(host: str) -> bool:
    bare = re.sub(r"(?<=\]):\d+$", "", host) if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(bare.strip("[]"))
    except ValueError:
        return False
    return True


def _status_range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)
