"""What the engine would reject in a case, found by its own checks before anything is started."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from svload import _native
from svload.drive.generator import engine_column
from svload.drive.share.cut import Share, build_shares
from svload.drive.share.executor_spec import ConstantVus
from svload.drive.share.request_spec import RequestSpec, TextPart
from svload.drive.share.requests import Taken
from svload.drive.share.set_up import trial_set_up
from svload.drive.share.spec import EndpointSpec, GroupSpec, ShareSpec, TlsSpec
from svload.drive.share.timeline import timeline
from svload.drive.share.write import Pattern, text_of
from svload.model.bounds import PATTERNS, TABLE_BYTES
from svload.model.errors import SvloadError
from svload.model.executors import ClosedLoop
from svload.model.facts import Endpoint
from svload.model.protocols import NAMES
from svload.model.study import CaseConfig
from svload.model.traffic import Group, Request, TableSource
from svload.study.beside import NO_FILE, file_beside, text_beside
from svload.study.feeders import read_file
from svload.study.mistakes import Mistake, bad_value, refused, shortened
from svload.study.placed import placed
from svload.study.steps import INLINE
from svload.study.tree import Path as Place

MOST_ROWS = 1_000
"""Rows of a table that are checked: all its columns, and enough rows for most users."""
_GROUP = re.compile(r"share\.groups\[(\d+)\]\.(.*)", re.DOTALL)
_STEP = re.compile(r"scenarios\[(\d+)\]\.steps\[(\d+)\]\.request\.?(.*)", re.DOTALL)
_COMMANDS = {f"{name}.commands": name for name in NAMES}
_ENTRY = re.compile(
    rf"(checks|take|dialogue|{'|'.join(map(re.escape, _COMMANDS))}|headers|source_addresses)\[(\d+)\]"
)
Columns = Mapping[str, Sequence[object]]


class CaseChecks:
    """Finds, for each case of a study, the first thing that the engine would not run, with its place there.

    Nothing is started; no packet is sent. A pattern accepted once is not compiled again: that may cost 10 ms.
    """

    def __init__(self) -> None:
        self.proven: set[str] = set()

    def __call__(self, config: CaseConfig, duration_ns: int, folder: Path) -> Iterator[Mistake]:
        """Return what is wrong with a case; `folder` is the study's."""
        yield from _authorities(config, folder)
        alone = _alone(config, folder)
        try:
            shares = _shares(alone, duration_ns)
            before = trial_set_up(alone, 1, _somewhere(alone), [], Taken(config.secrets))
        except (SvloadError, KeyError):
            return  # a scheme that a service does not speak: known once the lab is up
        tables = _tables(config, folder)
        for share in (*shares, *([before] if before else [])):
            inputs = {name: _columns(table) for name, table in (tables | dict(share.values)).items()}
            patterns: set[str] = set()
            text = text_of(share.spec, partial(self._unproven, patterns))
            if len(self.proven | patterns) > PATTERNS.most:
                yield refused(("traffic",), PATTERNS.text)
                return
            fault = _native.share_fault(text, inputs)
            if fault is None:
                self.proven |= patterns
            elif fault[0].endswith(".stop_offset_ns"):
                return  # too many intervals: reported with all times of the trial (plan-too-large)
            elif share is before:
                yield refused(("setup",), fault[1])
            else:
                yield _at_its_place(*fault, [alone.groups[at] for at in share.groups])
            if fault is not None:
                return

    def _unproven(self, into: set[str], pattern: Pattern) -> str:
        """Return a plain pattern in place of one already accepted; collect the others."""
        into.add(pattern)
        return "x" if pattern in self.proven else pattern


def encoded_rows(configs: Iterable[CaseConfig], folder: Path) -> Iterator[str]:
    """Name the rows of the study's own tables that requests encode: unencoded they would change a request."""
    tables: dict[TableSource, dict[str, list[str]]] = {}
    reported: set[tuple[str, str, str]] = set()
    for config in configs:
        for source in config.tables:
            if source not in tables:
                tables[source] = _odd_rows(_rows(source, folder)) if source.numbers is None else {}
        odd = {source.name: tables[source] for source in config.tables if tables[source]}
        if not odd:
            continue
        inputs = {name: _columns(table) for name, table in odd.items()}
        alone = _alone(config, folder)
        try:
            shares = _shares(alone, 1)
        except (SvloadError, KeyError):
            continue
        names = {feeder.name: feeder.table for feeder in config.feeders}
        for share in shares:
            for request, field, feeder, column, rows in _native.changed_rows(text_of(share.spec), inputs):
                if (request, feeder, column) in reported or feeder not in names:
                    continue
                reported.add((request, feeder, column))
                table = odd[names[feeder]]
                first, value = table[_NUMBER][rows[0]], shortened(table[column][rows[0]])
                more = f" and {len(rows) - 1:,} more" if len(rows) > 1 else ""
                where = "body" if field.startswith("body") else "address"
                yield (
                    f"{request} encodes row {first} (“{value}”){more} of {feeder}.{column} in its {where}: "
                    f"unencoded, as older versions sent it and ${{{feeder}.{column}:raw}} does, "
                    "it would change the request"
                )


_ODD = re.compile(r"[^A-Za-z0-9._~-]")
_NUMBER = ""
"""The column of a row's number, which no table has: columns have names."""


def _odd_rows(table: Columns) -> dict[str, list[str]]:
    """Return rows with a value that contains more than unreserved characters, and their numbers from 1."""
    names = list(table)
    odd = [
        (str(number), *map(str, row))
        for number, row in enumerate(zip(*table.values(), strict=True), 1)
        if any(_ODD.search(str(value)) for value in row)
    ]
    return dict(zip((_NUMBER, *names), map(list, zip(*odd, strict=True)), strict=True)) if odd else {}


def _alone(config: CaseConfig, folder: Path) -> CaseConfig:
    """Return the case with all its groups, each made by one generator."""
    whole = placed(config, folder)
    groups = tuple(group.model_copy(update={"generators": 1}) for group in whole.all_groups)
    return whole.model_copy(update={"groups": groups})


def _shares(alone: CaseConfig, duration_ns: int) -> list[Share]:
    """Return the shares of a case before its lab is up. Raises SvloadError, KeyError."""
    variables = {name: "x" for part in alone.set_up for name in part.request.takes}
    taken = Taken({**alone.secrets, **variables})
    times = timeline(alone, duration_ns)
    return build_shares(alone, 1, times, _somewhere(alone), [], taken=taken, cores=1)


def _somewhere(config: CaseConfig) -> dict[str, Endpoint]:
    """Return an endpoint of the right scheme for each target."""
    requests = [request for group in config.groups for request in group.requests]
    requests += [part.request for part in config.set_up]
    return {
        request.endpoint: Endpoint(
            scheme="https" if request.secure else "http", address="127.0.0.1", port=1, verify=False
        )
        for request in requests
        if request.url is None
    }


def _authorities(config: CaseConfig, folder: Path) -> Iterable[Mistake]:
    """Return files of certificate authorities that are missing, lie elsewhere, or contain none."""
    for service in config.services:
        name = service.options.get("ca_file")
        if not isinstance(name, str):
            continue
        path = ("lab", service.name, "ca_file")
        file = file_beside(folder, name)
        if file is None:
            yield bad_value(path, NO_FILE[0], name, NO_FILE[1])
            continue
        try:
            pem = text_beside(file, TABLE_BYTES.most)
        except (OSError, ValueError) as why:
            yield bad_value(path, f"expected a PEM file ({why})", name)
            continue
        if fault := _tls_fault(pem):
            yield bad_value(path, f"expected a PEM file of a certificate authority (it {fault})", name)


def _tls_fault(pem: str) -> str:
    """Return why the engine rejects an authority; empty: it does not."""
    origin = "https://x"
    request = RequestSpec(name="x", method="GET", endpoint=origin, path=(TextPart("/"),), timeout_ns=1)
    group = GroupSpec(
        name="x", record="histogram", stop_offset_ns=1, executor=ConstantVus(vus=1), request=request
    )
    share = ShareSpec(
        id="x",
        seed=1,
        interval_ns=1,
        window_ns=(0, 1),
        endpoints={origin: EndpointSpec(address="127.0.0.1:1", tls=TlsSpec(server_name="x", ca_pem=pem))},
        allowed=(),
        groups=(group,),
    )
    fault = _native.share_fault(text_of(share), {})
    return fault[1] if fault else ""


def _tables(config: CaseConfig, folder: Path) -> dict[str, Columns]:
    """Return tables in the share's form: with all rows, or as many as are checked."""
    users = max(
        (group.executor.most_vus for group in config.groups if isinstance(group.executor, ClosedLoop)),
        default=1,
    )
    found = {source.name: _rows(source, folder, max(users, MOST_ROWS)) for source in config.tables}
    for objects in config.objects:
        rows = min(objects.count, max(users, MOST_ROWS))
        found[objects.table] = {"path": ["/o"] * rows, "size_bytes": [1] * rows, "digest": ["0" * 64] * rows}
    return found


def _rows(source: TableSource, folder: Path, most: int | None = None) -> Columns:
    if source.values is not None:
        return {"value": source.values[:most]}
    if source.numbers is not None:
        low, high = source.numbers
        return {"value": range(low, high + 1)[:most]}
    kind, name = ("parquet", source.parquet) if source.parquet is not None else ("csv", source.csv)
    file = file_beside(folder, name or "")
    table = read_file(kind, file) if file is not None else {"value": [""]}
    return {column: values[:most] for column, values in table.items()}


def _columns(table: Columns) -> dict[str, tuple[str, Any]]:
    return {name: engine_column(name, [str(value) for value in values]) for name, values in table.items()}


def _at_its_place(field: str, problem: str, groups: Sequence[Group]) -> Mistake:
    """Return a fault of the share at its place in the study."""
    match = _GROUP.fullmatch(field)
    if match is None:
        return refused(("traffic",), shortened(f"{field} {problem}"))
    group, rest = groups[int(match[1])], match[2]
    path: Place = ("traffic", group.name)
    if step := _STEP.fullmatch(rest):
        request = group.scenarios[int(step[1])].steps[int(step[2])].request
        return refused((*_request_at(request, path), *_inside(step[3], request)), problem)
    if rest.startswith("request"):
        rest = rest.removeprefix("request").removeprefix(".")
        return refused((*_request_at(group.request, path), *_inside(rest, group.request)), problem)
    if rest.startswith("feeders."):
        return refused(("feeders", *rest.split(".")[1:]), f"{problem} (traffic.{group.name})")
    if entry := _ENTRY.match(rest):
        return refused((*path, entry[1], int(entry[2])), problem)
    return refused((*path, rest.removeprefix("executor.").removesuffix("_ns")), problem)


def _request_at(request: Request, path: Place) -> Place:
    return ("requests", request.name) if request.name not in (INLINE, "request") else (*path, "request")


def _inside(field: str, request: Request) -> Place:
    """Split `checks[1]` into check, 1; `take[0]` into take, name; `redis.commands[2][0]` into redis, 2."""
    entry = _ENTRY.match(field)
    if entry is None:
        return (field.partition(".")[0],) if field else ()
    word, at = entry[1], int(entry[2])
    if word == "take":
        return ("take", request.take[at].name)
    if word == "headers":
        return ("headers", request.headers[at][0])
    return (({"checks": "check"} | _COMMANDS).get(word, word), at)
