"""The native engine from Python: a share against a threading server on loopback, tables and identities."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.drive import share_text
from tests.drive.share_text import MS
from tests.results import unpacked
from tests.servers import Answering, serving

from svload import _native
from svload.drive import generator
from svload.model import columns
from svload.model.request_errors import ERRORS

pytestmark = pytest.mark.truth
PATHS = ["/a", "/bb", "/ccc", "/missing"]


class Handler(Answering):
    """Answer a path with itself, `/missing` with 404."""

    def do_GET(self) -> None:
        self.answer(self.path.encode(), 404 if self.path == "/missing" else 200)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(Handler) as found:
        yield found


def share(port: int, **changes: Any) -> dict[str, Any]:
    """Return a share with three VUs that walk four objects for 300 ms."""
    think = {"uniform_ns": [5 * MS, 10 * MS]}
    group = {
        "stop_offset_ns": 300 * MS,
        "graceful_stop_ns": 5_000 * MS,
        "executor": {"kind": "constant-vus", "vus": 3, "spread_ns": 10 * MS, "think_time": think},
        "feeders": {"object": {"table": "objects", "take": "walk", "vus_total": 3}},
        "request": {
            "name": "fetch",
            "method": "GET",
            "endpoint": "http://server",
            "path": [{"feeder": "object", "column": "path"}],
            "headers": [["X-Id", [{"var": "request.id"}]]],
            "timeout_ns": 5_000 * MS,
            "checks": [{"name": "size", "size_bytes": {"feeder": "object", "column": "size_bytes"}}],
        },
    }
    window = {"window_ns": [0, 300 * MS], "interval_ns": 50 * MS}
    return share_text.share(group | changes, port, "http://server", **window)


INPUTS = {"objects": {"path": ("utf8", PATHS), "size_bytes": ("u64", struct.pack("<4Q", *map(len, PATHS)))}}


def run(spec: dict[str, Any], sink: Any = lambda _: None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a share; return its tables as lists and its summary."""
    tables = _native.run_share(json.dumps(spec), INPUTS, sink)
    summary = json.loads(tables.pop("summary")["json"][1][0])
    return {name: unpacked(table) for name, table in tables.items()}, summary


def hold_identities(group: dict[str, Any]) -> None:
    """Check docs/method.md §1: a request never disappears."""
    assert group["due"] == group["begun"] + group["waiting"] + group["dropped"]
    assert group["begun"] == group["ok"] + group["failed"] + group["in_flight"]
    assert group["left_at_end"] == group["waiting"] + group["in_flight"]
    assert group["waiting_ready"] <= group["waiting"]
    assert group["failed"] == sum(group["errors"].values())


def test_tables_have_the_contracts_columns(port: int) -> None:
    tables = _native.run_share(json.dumps(share(port)), INPUTS, lambda _: None)
    wanted = {name: getattr(columns, name.upper()) for name in ("samples", "intervals", "histograms", "rows")}
    assert set(tables) == {*wanted, "summary", "witness", "stops"}
    for name, kinds in wanted.items():
        assert {key: kind for key, (kind, _) in tables[name].items()} == dict(kinds)
        lengths = {len(data) // columns.WIDTH[kind] for kind, data in tables[name].values()}
        assert len(lengths) == 1 and lengths != {0}
    assert tuple(_native.error_names()) == ERRORS


def test_a_closed_loop_is_counted_exactly(port: int) -> None:
    text: list[str] = []
    tables, summary = run(share(port), text.append)
    (group,) = summary["groups"]
    hold_identities(group)
    assert group["errors"] == {"status": group["status"]["404"]}
    assert group["ok"] == group["status"]["200"] > 0
    assert (group["checks_failed"], group["early_repeats"]) == ({"size": 0}, 0)
    assert group["connections_opened"] == 3
    samples = tables["samples"]
    assert sum(tables["rows"]["asked"]) == group["begun"] == len(samples["due_ns"])
    for vu in range(3):
        rows = [row for row, of in zip(samples["row"], samples["vu"], strict=True) if of == vu]
        assert rows == [(4 * vu // 3 + n) % 4 for n in range(len(rows))]
    assert all(a <= b for a, b in zip(samples["written_ns"], samples["first_byte_ns"], strict=True))
    assert json.loads(text[-1])["groups"][0]["begun"] == group["begun"]
    vu_time = group["vu_time"]
    spent = sum(vu_time[part] for part in ("request_ns", "think_ns", "lag_ns", "wait_ns"))
    assert spent == vu_time["active_ns"]


def test_histograms_hold_the_samples(port: int) -> None:
    tables, _ = run(share(port))
    samples, cells = tables["samples"], tables["histograms"]
    expected: dict[tuple[int, int], int] = {}
    for due_ns, done_ns, error in zip(samples["due_ns"], samples["done_ns"], samples["error"], strict=True):
        if error == 0:
            key = (due_ns // (50 * MS), columns.bucket(done_ns - due_ns))
            expected[key] = expected.get(key, 0) + 1
    table = zip(cells["metric"], cells["interval"], cells["bucket"], cells["count"], strict=True)
    assert {(interval, bucket): count for metric, interval, bucket, count in table if metric == 0} == expected


def test_a_readable_stop_fd_ends_the_load_at_once(port: int) -> None:
    reader, writer = os.pipe()
    try:

        def stop(_: str) -> None:
            os.write(writer, b"x")

        spec = share(port, stop_offset_ns=3_600_000 * MS) | {"stop_fd": reader, "interval_ns": 1_000 * MS}
        _, summary = run(spec, stop)
        assert summary["stopped"] == "stop_fd"
        hold_identities(summary["groups"][0])
    finally:
        os.close(reader)
        os.close(writer)


def test_an_exception_out_of_the_sink_stops_the_load(port: int) -> None:
    class Enough(Exception):
        pass

    def sink(_: str) -> None:
        raise Enough

    with pytest.raises(Enough):
        run(share(port, stop_offset_ns=120_000 * MS) | {"interval_ns": 1_000 * MS}, sink)


def test_a_share_that_cannot_run_names_its_field(port: int) -> None:
    with pytest.raises(ValueError, match=r"^share\.groups\[0\]\.stop_offset_ns: must be later"):
        run(share(port, stop_offset_ns=0))
    torn = {"objects": {"size_bytes": ("u64", b"123")}}
    with pytest.raises(ValueError, match=r"inputs\.objects\.size_bytes"):
        _native.run_share(json.dumps(share(port)), torn, lambda _: None)
    with pytest.raises(ValueError, match=r"^share"):
        run({})


def test_a_panic_of_the_engine_is_an_error_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Panic(BaseException):
        """An error like PyO3's, which is no Exception."""

    def run_share(*words: object) -> None:
        raise Panic("index out of bounds")

    monkeypatch.setattr(generator, "_native", SimpleNamespace(run_share=run_share))
    generator._load({"share": {}, "inputs": {}, "out": tmp_path / "tables"}, 1, *os.pipe())
    found = json.loads(capsys.readouterr().out)
    assert found["error"]["details"] == {"reason": "Panic: index out of bounds"}
