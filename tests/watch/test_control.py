"""The servers' load as passed to a live view."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.watch.control import busy_cores
from svload.watch.monitor import Reading
from svload.watch.series import SeriesReader, SeriesWriter

SECOND = 10**9


def test_busy_cores_are_the_cpu_time_between_the_last_two_readings(tmp_path: Path) -> None:
    writer = SeriesWriter(tmp_path / "monitors.jsonl")
    for at_s, used in ((1, 10.0), (2, 10.5), (4, 12.5)):
        cpu = [Reading(name, "cpu_seconds_total", used * share) for name, share in (("", 1), ("varnishd", 7))]
        writer.readings("cache", "process", at_s * SECOND, [*cpu, Reading("", "rss_bytes", 5.0)])
        writer.readings("", "host", at_s * SECOND, [Reading("cpu0", "busy_seconds_total", used)])
    writer.readings("late", "process", 4 * SECOND, [Reading("", "cpu_seconds_total", 3.0)])
    writer.flush()
    reader = SeriesReader(tmp_path / "monitors.jsonl")
    assert busy_cores(reader.between(0, 2 * SECOND, 0)) == {"cache": pytest.approx(0.5)}
    assert busy_cores(reader.between(0, 9 * SECOND, 0)) == {"cache": pytest.approx(1.0)}
    assert busy_cores(reader.between(5 * SECOND, 9 * SECOND, 0)) == {}
    writer.close()
