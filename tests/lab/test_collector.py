from __future__ import annotations

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
