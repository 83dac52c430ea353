"""Pages with servers' own counters: Prometheus' text, and the Java virtual machine's."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from tests.evolve import evolve
from tests.watch.test_others import machine
from tests.watch.test_servers import http, server
from tests.watch.watched import processes, values

from svload.lab.metrics_page import metrics_page, with_metrics_page
from svload.model.facts import Endpoint, ServiceFacts
from svload.watch import proc
from svload.watch.monitors import jvm, prometheus
from svload.watch.monitors.jvm import Collector, JvmMonitor, collections_of, heap_of, longest, parse_page
from svload.watch.monitors.prometheus import PrometheusMonitor

PAGE = """\
# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{method="GET",code="200"} 1027 1395066363000
http_requests_total{code="500",method="GET"} 3
# TYPE queue_length gauge
queue_length 17
# TYPE jobs counter
jobs{queue="a \\"b\\""} 4e2
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.1"} 24
wait_seconds_bucket{le="+Inf"} 30
wait_seconds_sum 5.5
wait_seconds_count 30
# TYPE size_bytes summary
size_bytes{quantile="0.5"} 10
size_bytes_sum 90
size_bytes_count 9
node:load1 0.5
# TYPE seen counter
seen_total{path="/{id}"} 8 1520879607.789 # {trace="x"} 0.67
seen_total 9 1.520879607789e+09 # {trace="x"} 0.67
# TYPE handles_total gauge
handles_total 4
  spaced { path = "/a" , code="1" } 5
odd{path="a\u2028b"} 6
broken{
not_a_number NaN
infinite +Inf
"""


def test_a_page_becomes_readings_by_label() -> None:
    found = {(one.entity, one.metric): one.value for one in prometheus.parse_page(PAGE)}
    assert found == {
        ("code=200 method=GET", "http_requests_total"): 1027,
        ("code=500 method=GET", "http_requests_total"): 3,
        ("", "queue_length"): 17,
        ('queue=a \\"b\\"', "jobs_total"): 400,
        ("", "wait_seconds_sum_total"): 5.5,
        ("", "wait_seconds_count_total"): 30,
        ("", "size_bytes_sum_total"): 90,
        ("", "size_bytes_count_total"): 9,
        ("", "node_load1"): 0.5,
        ("path=/{id}", "seen_total"): 8,
        ("", "seen_total"): 9,
        ("", "handles"): 4,
        ("code=1 path=/a", "spaced"): 5,
        ("path=a\u2028b", "odd"): 6,
        ("", "series_left_out"): 0,
    }


def test_long_labels_stay_apart_and_a_page_without_end_is_cut() -> None:
    first, second, _ = prometheus.parse_page("".join(f'x{{path="{"p" * 120}{one}"}} {one}\n' for one in "12"))
    assert first.entity != second.entity
    assert len(first.entity) == len(second.entity) < 140
    page = "".join(f'x{{n="{at}"}} 1\n' for at in range(prometheus.MOST_SERIES + 5))
    found = prometheus.parse_page(page)
    assert (len(found), found[-1]) == (prometheus.MOST_SERIES + 1, ("", "series_left_out", 5))


def test_the_page_is_asked_at_its_url() -> None:
    asked: list[bytes] = []

    def answer(piece: bytes) -> bytes:
        asked.append(piece.split(b" ", 2)[1])
        return http(PAGE.encode())

    with server(answer) as (port, connections):
        url = f"http://127.0.0.1:{port}/metrics?x=1"
        monitor = PrometheusMonitor("app", {"admin": {"prometheus": {"url": url}}})
        assert len(list(monitor.sample())) == len(list(monitor.sample())) == 15
        monitor.close()
    assert asked == [b"/metrics?x=1"] * 2
    assert len(connections) == 1, "one kept connection"


@pytest.mark.parametrize("body", [b"<html></html>", b"", b"# TYPE x gauge\n"])
def test_another_page_is_rejected(body: bytes) -> None:
    with pytest.raises(OSError, match="not a page in Prometheus"):
        prometheus.parse_page(body.decode())


HERE = ("/metrics", "/m?format=text", "http://127.0.0.1:9113/metrics", "http://localhost:9113")
ELSEWHERE = ("http://192.0.2.1:9113/metrics", "https://127.0.0.1:1/", "http://127.0.0.1/metrics")
NOWHERE = ("metrics", "http://u:p@127.0.0.1:1/", "/a b", "/a\r\nHost: x", "")


@pytest.mark.parametrize("written", [*HERE, *ELSEWHERE, *NOWHERE])
def test_a_path_or_a_url_of_this_machine_alone_is_taken(written: str) -> None:
    if written in HERE:
        assert metrics_page(written) == written
    else:
        with pytest.raises(ValueError, match=r"write a path|port of the exporter"):
            metrics_page(written)


def test_a_path_is_asked_at_the_services_own_port() -> None:
    plain = Endpoint(scheme="http", address="127.0.0.1", port=8080)
    facts = ServiceFacts(service="app", kit="command", version="", endpoints=(plain,), admin={"x": {}})
    for written, url in (("/metrics", "http://127.0.0.1:8080/metrics"), ("http://127.0.0.1:9/m",) * 2):
        assert with_metrics_page(facts, written).admin == {"x": {}, "prometheus": {"url": url}}
    assert with_metrics_page(facts, None) == facts
    local = evolve(facts, endpoints=(Endpoint(scheme="http", address="unix:/x", port=0),))
    assert with_metrics_page(local, "/metrics") == local


def page(**values: int | str) -> bytes:
    """Return a page of hsperfdata with these numbers and texts, `__` for a dot."""
    entries = b""
    for name, value in values.items():
        found = name.replace("__", ".").encode() + b"\0"
        name_at, data_at = 20, 20 + -(-len(found) // 8) * 8 + 4
        data = struct.pack("<q", value) if isinstance(value, int) else value.encode() + b"\0"
        length = -(-(data_at + len(data)) // 8) * 8
        elements, kind = (0, b"J") if isinstance(value, int) else (len(data), b"B")
        head = struct.pack("<iiicBBBi", length, name_at, elements, kind, 0, 1, 1, data_at)
        entries += (head + found).ljust(data_at, b"\0") + data.ljust(length - data_at, b"\0")
    sizes = (len(entries), 0, 0, 32, len(values))
    return struct.pack("<4sBBBBiiqii", b"\xca\xfe\xc0\xc0", 1, 2, 0, 1, *sizes) + entries


G1 = {
    "sun__os__hrt__frequency": 1000,
    "sun__gc__policy__name": "GarbageFirst",
    "sun__gc__generation__0__maxCapacity": 100,
    "sun__gc__generation__1__maxCapacity": 100,
    "sun__gc__generation__0__space__0__used": 30,
    "sun__gc__generation__1__space__0__used": 40,
    "sun__gc__generation__1__space__0__maxCapacity": 100,
    "sun__gc__collector__0__invocations": 4,
    "sun__gc__collector__0__time": 500,
    "sun__gc__collector__0__lastEntryTime": 9000,
    "sun__gc__collector__0__lastExitTime": 9250,
    "sun__gc__collector__1__invocations": 1,
    "sun__gc__collector__1__time": 1500,
    "java__threads__live": 12,
}


def test_heap_and_collections_of_a_page() -> None:
    found = parse_page(page(**G1))
    assert found["java.threads.live"] == 12
    assert heap_of(found) == (70, 100), "each generation may grow to the whole heap"
    assert heap_of(found | {"sun.gc.policy.name": "Copy:MSC"}) == (70, 200)
    assert heap_of({}) is None
    collectors = (Collector(4, 0.5, 0.25), Collector(1, 1.5, 0.0))
    assert collections_of(found) == {f"sun.gc.collector.{at}": one for at, one in enumerate(collectors)}


@pytest.mark.parametrize(
    ("now", "before", "seconds"),
    [
        (Collector(5, 0.9, 0.3), (4, 0.5), 0.4),
        (Collector(6, 0.9, 0.3), (4, 0.5), 0.3),
        (Collector(6, 1.5, 0.3), (4, 0.5), 0.5),
        (Collector(4, 0.5, 0.3), (4, 0.5), 0.0),
        (Collector(4, 0.5, 0.3), None, 0.0),
    ],
)
def test_the_longest_collection(now: Collector, before: tuple[float, float] | None, seconds: float) -> None:
    """Of one, the growth of the time; of several, their mean, or the last if it was longer."""
    assert longest(now, before) == pytest.approx(seconds)


@pytest.mark.parametrize("data", [b"", b"x" * 100, page(**G1)[:60], b"\xca\xfe\xc0\xc0\x00" + bytes(60)])
def test_another_file_is_no_page(data: bytes) -> None:
    with pytest.raises(OSError, match="not a page of a Java"):
        parse_page(data)


@pytest.fixture
def monitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JvmMonitor:
    """Make a virtual machine with pid 7 here and pid 3 in its own namespace, and its log."""
    monkeypatch.setattr(JvmMonitor, "root", str(tmp_path))
    monkeypatch.setattr(JvmMonitor, "table", proc.ProcessTable(str(tmp_path), every_s=0.0))
    data = tmp_path / "7" / "root" / "tmp" / "hsperfdata_joe"
    data.mkdir(parents=True)
    (data / "3").write_bytes(page(**G1))
    (tmp_path / "7" / "status").write_text("Name:\tjava\nNSpid:\t7\t3\n")
    machine(tmp_path, (7, "java", 1, 0, []))
    log = tmp_path / "log"
    log.write_text("java.lang.OutOfMemoryError: of an earlier start\n")
    admin = {"jvm": {"process": "server", "log": str(log)}}
    return JvmMonitor("app", {**processes(str(tmp_path), server=7), "admin": admin})


def test_it_is_found_by_its_own_pid_and_its_log_is_read_once(monitor: JvmMonitor, tmp_path: Path) -> None:
    def logged(text: str) -> dict[str, float]:
        """Write this to the log; return the readings after it."""
        with open(tmp_path / "log", "a") as log:
            log.write(text)
        return values(monitor)

    assert jvm.own_pid(os.getpid()) >= 1
    first = values(monitor)
    assert set(first) == set(JvmMonitor.metrics)
    wanted = {"heap_used_bytes": 70, "gc_total": 5, "gc_pause_seconds": 0, "out_of_memory_total": 0}
    assert wanted.items() <= first.items()
    whole = "Exception in thread: java.lang.OutOfMemoryError: Java heap space\n\tat x\njava.lang.OutOf"
    assert logged(whole)["out_of_memory_total"] == 1
    assert logged("MemoryError: again\n")["out_of_memory_total"] == 2
    later = page(**{**G1, "sun__gc__collector__0__invocations": 5, "sun__gc__collector__0__time": 800})
    data = tmp_path / "7" / "root" / "tmp" / "hsperfdata_joe" / "3"
    data.write_bytes(later)
    assert values(monitor)["gc_pause_seconds"] == pytest.approx(0.3)
    data.unlink()
    (tmp_path / "log").write_text("")
    assert logged("java.lang.OutOfMemoryError: after a rotation\n")["out_of_memory_total"] == 3
    found = logged("Terminating due to java.lang.OutOfMemoryError: Java heap space\n")
    assert found == {"out_of_memory_total": 4}, "the end that it caused hides nothing"
    with pytest.raises(ProcessLookupError, match="no Java virtual machine of app"):
        values(monitor)
