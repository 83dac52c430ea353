"""Requests and traffic groups of one case: from checked parts of the file to the contracts in svload.model.traffic."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from typing import Any

from svload.model.stages import Stage
from svload.model.traffic import (
    Body,
    ClosedLoop,
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    Group,
    PerVuIterations,
    RampingArrivalRate,
    RampingVus,
    Request,
    Scenario,
    SharedIterations,
    SizeLaw,
    Take,
    ThinkTime,
    Turn,
)
from svload.model.units import show_duration
from svload.study import distributions, schema_traffic
from svload.study.checks import CHECK_FORMS, read_check
from svload.study.mistakes import Mistake, bad_value, unknown_name
from svload.study.templates import Names, template
from svload.study.tree import Path

_URL = re.compile(r"(https?)://(\$\{[^}]*\}|[^/?#$]*)(.*)", re.DOTALL)
_TAKEN_HOST = re.compile(r"(?:https?://)?\$\{([^}]*)\}.*", re.DOTALL)
_RAW_URL = re.compile(r"(tcp|tls)://([^/?#\s]+)/?")
_FRAMING = ("content-length", "transfer-encoding", "expect")
_HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?")


def read_request(
    name: str, part: schema_traffic.RequestPart, names: Names, path: Path
) -> Request | list[Mistake]:
    """The request of this case, or what is wrong with it."""
    url: str = getattr(part, part.method)
    url_path = (*path, part.method)
    mistakes: list[Mistake] = []
    if part.tcp is not None:
        return _read_dialogue(name, part, names, url_path)
    taken = _TAKEN_HOST.fullmatch(url.strip())
    anywhere = taken is not None and taken[1].strip() in names.variables
    split = _URL.fullmatch("http:///" if anywhere else url.strip())
    other_scheme = re.match(r"([A-Za-z][\w+.-]*)://", url.strip())
    if other_scheme and not split:
        return [
            bad_value(
                url_path,
                "the scheme http or https was expected",
                other_scheme[1],
                "Write http://service/path.",
            )
        ]
    if not split or re.search(r"\s", url.strip()):
        return [bad_value(url_path, "a URL was expected", url, "Write http://service/path.")]
    scheme, host, rest = split.groups()
    rest = rest.partition("#")[0]
    mistakes += [] if anywhere else _host_mistakes(host, names, url_path, url)
    if rest and rest[0] not in "/?$":
        mistakes.append(bad_value(url_path, "the path must begin with /", url))
    checks = []
    for index, text in enumerate(part.check):
        check = read_check(text, names)
        if isinstance(check, str):
            mistakes.append(bad_value((*path, "check", index), check, text, CHECK_FORMS))
        else:
            checks.append(check)
    for header, value in part.headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", header) or re.search(r"[\r\n]", value):
            mistakes.append(bad_value((*path, "headers", header), "a header of one line was expected", value))
        if part.body is not None and header.lower() in _FRAMING:
            mistakes.append(
                bad_value((*path, "headers", header), "it follows from the body", value, "Leave it out.")
            )
    if mistakes:
        return mistakes
    return Request(
        name=name,
        method=part.method.upper(),
        scheme="" if anywhere else scheme,
        host=host,
        path=() if anywhere else template(rest if rest[:1] in ("/", "$") else f"/{rest}", names),
        url=template(url.strip(), names) if anywhere else None,
        headers=tuple((header, template(value, names)) for header, value in part.headers.items()),
        body=_body(part.body, names),
        expect_continue=part.expect_continue,
        chunked=part.chunked,
        timeout_ns=part.timeout,
        expect_status=tuple(_status_range(text) for text in part.expect_status),
        checks=tuple(checks),
        take=tuple(
            Take(name=taken_name, header=take.header, json_path=take.json_path, regex=take.regex)
            for taken_name, take in part.take.items()
        ),
        follow_redirects=part.follow_redirects,
    )


def _read_dialogue(
    name: str, part: schema_traffic.RequestPart, names: Names, path: Path
) -> Request | list[Mistake]:
    url = (part.tcp or "").strip()
    split = _RAW_URL.fullmatch(url)
    if not split:
        return [bad_value(path, "an address was expected", url, "Write tcp://service or tls://service.")]
    if mistakes := _host_mistakes(split[2], names, path, url):
        return mistakes
    return Request(
        name=name,
        method="TCP",
        scheme=split[1],
        host=split[2],
        path=(),
        timeout_ns=part.timeout,
        dialogue=tuple(_turn(turn, names) for turn in part.dialogue),
    )


def _turn(part: schema_traffic.TurnPart, names: Names) -> Turn:
    plain = part.model_dump(exclude={"send"})
    return Turn(send=None if part.send is None else template(part.send, names), **plain)


def _body(part: schema_traffic.BodyPart | None, names: Names) -> Body | None:
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


def read_group(
    name: str,
    part: schema_traffic.GroupPart,
    request: Request,
    scenarios: Sequence[Scenario],
    present: Collection[str],
) -> Group:
    """The group of this case; `request` is its only one, or its scenarios' first. `start_when` is dropped where the group it waits for is not `present`."""
    waits_for = (part.start_when or "").removesuffix(".ramped")
    return Group(
        name=name,
        client=part.client,
        connection=part.connection,
        executor=_executor(part),
        request=request,
        scenarios=tuple(scenarios),
        generators=part.generators,
        start_when=waits_for if waits_for in present else None,
        graceful_stop_ns=part.graceful_stop,
        tls_resumption=part.tls_resumption,
        spin_ns=part.spin,
        pacing_quantum_ns=part.pacing_quantum,
        source_addresses=tuple(part.source_addresses),
        close=part.close,
        http2=part.http2,
        streams=part.streams,
        record=part.record,
    )


def _executor(part: schema_traffic.GroupPart) -> Executor:
    match part:
        case schema_traffic.OpenGroup():
            return ConstantArrivalRate(rate_rps=part.rate, ramp_up_ns=part.ramp_up, **_arriving(part))
        case schema_traffic.RampingRateGroup():
            return RampingArrivalRate(
                start_rate_rps=part.start_rate,
                stages=_stages(part.stages, part.hold_for),
                **_arriving(part),
            )
        case schema_traffic.RampingVusGroup():
            return RampingVus(
                start_vus=part.start_vus, stages=_stages(part.stages, part.hold_for), **_thinking(part)
            )
        case schema_traffic.IterationsGroup():
            kind = SharedIterations if part.executor == "shared-iterations" else PerVuIterations
            return kind(vus=part.vus, iterations=part.iterations, start=part.start, **_thinking(part))
    assert isinstance(part, schema_traffic.ClosedGroup)
    return ConstantVus(vus=part.vus, ramp_up_ns=part.ramp_up, start=part.start, **_thinking(part))


def _thinking(part: schema_traffic.Thinking) -> dict[str, Any]:
    return {"think_time": read_think_time(part.think_time), "pacing_ns": part.pacing}


def read_think_time(think: distributions.ThinkTimePart) -> ThinkTime:
    """A think time as data."""
    law = think.lognormal
    return ThinkTime(
        constant_ns=think.constant,
        uniform_ns=think.uniform,
        exponential_ns=think.exponential,
        lognormal_ns=(law.median, law.p99) if law else None,
    )


def _arriving(part: schema_traffic.Arriving) -> dict[str, Any]:
    return {"max_vus": part.max_vus, "arrivals": part.arrivals, "on_full": part.on_full}


def _stages(
    parts: Sequence[schema_traffic.VusStage] | Sequence[schema_traffic.RateStage], hold_for: int
) -> tuple[Stage, ...]:
    stages = [Stage(duration_ns=part.duration, target=part.target) for part in parts]
    held = [Stage(duration_ns=hold_for, target=stages[-1].target)] if hold_for else []
    return (*stages, *held)


def group_mistakes(part: schema_traffic.GroupPart, path: Path, duration_ns: int | None) -> list[Mistake]:
    """What only the resolved numbers show. `duration_ns` is the trial's measured time, None if that is broken."""
    executor = _executor(part)
    found = []
    if isinstance(executor, ClosedLoop) and part.generators > executor.most_vus:
        told = f"there are only {executor.most_vus} VUs to share"
        found.append(bad_value((*path, "generators"), told, part.generators))
    length_ns = executor.stages_ns
    if length_ns is not None and duration_ns is not None and length_ns > duration_ns:
        told = f"the stages last longer than measure.duration ({show_duration(duration_ns / 1e9)})"
        found.append(
            bad_value(
                (*path, "stages"),
                told,
                show_duration(length_ns / 1e9),
                "Give measure.duration at least as long.",
            )
        )
    return found
