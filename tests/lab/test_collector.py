from __future__ import annotations

import select
from concurrent.futures import ThreadPoolExecutor

from tests.bounds import HANG_S

from svload.lab.tools import collector
from svload.lab.tools.collector import Sums


def test_statsd_lines_are_summed_and_rubbish_ignored() -> None:
    sums = Sums()
    sums.add(b"a.b:3.25|ms")
    sums.add(b"a.b:1|ms\na.bytes:100|c")
    sums.add(b"a.bytes:7|c|@0.5")
    sums.add(b"rubbish")
    sums.add(b"c:x|c")
    sums.add(b"g:5|g")
    sums.add(b"d:1|c|@0")
    assert sums.sums == {"a.b": 2.0, "a.bytes": 114.0}
    assert sums.datagrams == 7


def test_sums_of_more_than_a_datagram_are_answered() -> None:
    sums = Sums()
    for number in range(5_000):
        sums.add(f"proxy-server.object.GET.{number}.timing:1|ms".encode())
    with collector._bound("127.0.0.1", 0) as statsd, ThreadPoolExecutor(1) as other:
        port = statsd.getsockname()[1]
        asked = other.submit(collector.ask, "127.0.0.1", port, HANG_S)
        select.select([statsd], [], [], HANG_S)
        collector._drain(statsd, port, sums)
        assert asked.result()["sums"] == sums.sums
