"""`svload probe URL`: a few transfers measured as by curl, without a lab, a run or an agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from svload import _native
from svload.drive.share.executor_spec import ConstantArrivalRate
from svload.drive.share.request_spec import BodySpec, RequestSpec, TextPart
from svload.drive.share.spec import EndpointSpec, GroupSpec, Http2Spec, ShareSpec, TlsSpec
from svload.drive.share.write import text_of
from svload.drive.targets import (
    allowed_blocks,
    parse_connect_to,
    parse_url,
    resolve_target,
    system_authorities,
)
from svload.model.columns import SAMPLES, WIDTH
from svload.model.errors import fail
from svload.model.facts import Endpoint
from svload.model.request_errors import ERRORS

MOST_TRANSFERS = 100_000
SECOND_NS = 1_000_000_000
Connection = Literal["keep-alive", "new"]


def probe(
    url: str,
    count: int = 1,
    headers: Sequence[tuple[str, str]] = (),
    ca_pem: str | None = None,
    authorised: Sequence[str] = (),
    connection: Connection = "new",
    timeout_s: float = 30.0,
    method: str = "GET",
    body: BodySpec | None = None,
    verify: bool = True,
    connect_to: str | None = None,
    http2: bool = False,
    on_progress: Callable[[int], None] = lambda ended: None,
) -> list[dict[str, Any]]:
    """Make `count` transfers of `url` in sequence: `curl_variables` of each.
    `connect_to`: host:port of the connections, if not the URL's own. `on_progress` is called about once a
    second until the last transfer, with the number of those that have ended.

    Raises SvloadError: url-bad, unauthorised-target (before any packet), usage.
    """
    if not 1 <= count <= MOST_TRANSFERS:
        raise fail("usage", reason=f"--count takes 1 to {MOST_TRANSFERS}", hint="")
    target = parse_url(url)
    if connect_to:
        target = replace(target, connect_to=parse_connect_to(connect_to))
    endpoint = resolve_target(target, authorised)
    tls = None
    if target.scheme == "https":
        ca_pem = (ca_pem or system_authorities()) if verify else None
        tls = TlsSpec(server_name=target.host, ca_pem=ca_pem, verify=verify)
    request = RequestSpec(
        name="probe",
        method=method,
        endpoint=target.endpoint,
        path=(TextPart(target.path),),
        headers=tuple((name, (TextPart(value),)) for name, value in headers),
        body=body,
        timeout_ns=round(timeout_s * 1e9),
        expect_status=((100, 599),),
    )
    server = EndpointSpec(address=endpoint.connects_to, tls=tls)
    share = _share(server, endpoint, count, request, connection, http2)

    def progress(text: str) -> None:
        (group,) = json.loads(text)["groups"]
        if (ended := group["ok"] + group["failed"]) < count:
            on_progress(ended)

    tables = _native.run_share(text_of(share), {}, progress)
    return [curl_variables(row) for row in rows_of(tables["samples"])]


def _share(
    server: EndpointSpec,
    endpoint: Endpoint,
    count: int,
    request: RequestSpec,
    connection: Connection,
    http2: bool,
) -> ShareSpec:
    group = GroupSpec(
        name="probe",
        client="curl",
        connection=connection,
        tls_resumption=False,
        http2=Http2Spec(streams=1) if http2 else None,
        record="rows",
        stop_offset_ns=SECOND_NS,
        graceful_stop_ns=request.timeout_ns * count,
        executor=ConstantArrivalRate(rate_rps=1000.0 * count, limit=count, max_vus=1),
        request=request,
    )
    return ShareSpec(
        id="probe.0",
        seed=0,
        interval_ns=SECOND_NS,
        window_ns=(0, SECOND_NS),
        endpoints={request.endpoint: server},
        allowed=tuple(allowed_blocks([endpoint])),
        groups=(group,),
    )


def rows_of(samples: dict[str, tuple[str, bytes]]) -> list[dict[str, int]]:
    """Return a samples table of the engine as one dict per request."""
    columns = {}
    for name, code in SAMPLES.items():
        data = samples[name][1]
        width = WIDTH[code]
        signed = code.startswith("i")
        columns[name] = [
            int.from_bytes(data[at : at + width], "little", signed=signed)
            for at in range(0, len(data), width)
        ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def curl_variables(row: dict[str, int]) -> dict[str, Any]:
    """Return curl's eleven variables of a request (docs/method.md §6), with `http_code` and `error`: times in
    s from its start, sizes in bytes, speed in bytes/s."""
    begun, done = row["begun_ns"], row["done_ns"]
    total_s = max(done - begun, 0) / 1e9 if done >= 0 else 0.0
    first_byte = row["first_byte_ns"]
    return {
        "size_download": row["body_bytes"],
        "size_header": row["header_bytes"],
        "size_request": row["request_bytes"],
        "speed_download": row["body_bytes"] / total_s if total_s else 0.0,
        "time_namelookup": max(row["lookup_ns"], 0) / 1e9,
        "time_connect": max(row["connect_ns"], 0) / 1e9,
        "time_appconnect": max(row["appconnect_ns"], 0) / 1e9,
        "time_pretransfer": max(row["pretransfer_ns"], 0) / 1e9,
        "time_starttransfer": max(first_byte - begun, 0) / 1e9 if first_byte >= 0 else 0.0,
        "time_redirect": max(row["redirect_ns"], 0) / 1e9,
        "time_total": total_s,
        "http_code": row["status"],
        "error": ERRORS[row["error"]],
    }
