"""The file of readings: written, read between two times, damaged, and joined with other machines'."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.results import readings, rows_of

from svload.watch.control import busy_cores
from svload.watch.fleet import as_fleet
from svload.watch.monitor import Reading
from svload.watch.series import SeriesReader, SeriesWriter, together


def write(path: Path, times: range, metric: str = "x") -> None:
    writer = SeriesWriter(path)
    for at_ns in times:
        writer.readings("cache", "m", at_ns, [Reading("", metric, at_ns), Reading("e", "y_ratio", 0.5)])
    writer.close()


def test_readings_between_two_times_counted_from_an_origin(tmp_path: Path) -> None:
    write(tmp_path / "s", range(10, 20))
    assert rows_of(SeriesReader(tmp_path / "s").between(12, 13, 100)) == [
        (-88, "cache", "m", "", "x", 12.0),
        (-88, "cache", "m", "e", "y_ratio", 0.5),
        (-87, "cache", "m", "", "x", 13.0),
        (-87, "cache", "m", "e", "y_ratio", 0.5),
    ]
    assert rows_of(SeriesReader(tmp_path / "none").between(0, 9, 0)) == []


def test_a_reader_that_goes_on_finds_what_a_new_one_finds(tmp_path: Path) -> None:
    path = tmp_path / "s"
    reader = SeriesReader(path)
    write(path, range(50))
    for begin, end in ((5, 10), (10, 12), (11, 40), (41, 90), (60, 99), (3, 7)):
        if end == 90:
            write(path, range(50, 99), metric="z")
        found = rows_of(reader.between(begin, end, 0))
        assert found == rows_of(SeriesReader(path).between(begin, end, 0)) != []


def test_columns_may_change_and_come_back(tmp_path: Path) -> None:
    writer = SeriesWriter(tmp_path / "s")
    for at_ns, entities in enumerate(("a", "ab", "b", "a")):
        writer.readings("", "m", at_ns, [Reading(entity, "n", 1) for entity in entities])
    writer.close()
    found = rows_of(SeriesReader(tmp_path / "s").between(0, 9, 0))
    assert [(row[0], row[3]) for row in found] == [(0, "a"), (1, "a"), (1, "b"), (2, "b"), (3, "a")]


def test_one_monitor_is_read_among_others(tmp_path: Path) -> None:
    writer = SeriesWriter(tmp_path / "s")
    for at_ns in range(10, 14):
        for monitor in ("m", "other"):
            writer.readings("", monitor, at_ns, [Reading("", "n", at_ns)])
    writer.close()
    reader = SeriesReader(tmp_path / "s")
    found = [row[:3] for row in rows_of(reader.between(11, 12, 0, "other"))]
    assert found == [(11, "", "other"), (12, "", "other")]
    assert rows_of(reader.between(11, 12, 0, "none")) == []
    assert len(rows_of(reader.between(12, 13, 0))) == 4


def test_a_cut_at_any_byte_loses_only_what_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write(path, range(3))
    whole, rows = path.read_bytes(), rows_of(SeriesReader(path).between(0, 9, 0))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        before = rows_of(SeriesReader(path).between(0, 9, 0))
        assert before == rows[: 2 * max(whole[:length].count(b"\n") - 1, 0)], "two a line, after the names"
        write(path, range(7, 8))
        after = rows_of(SeriesReader(path).between(0, 9, 0))
        assert [row[0] for row in after[-2:]] == [7, 7]
        # A line that lost only its newline is whole again once the next writer has begun a new one.
        assert after[: len(before)] == before
        assert len(after) - len(before) in (2, 4)


def test_damage_inside_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "s"
    write(path, range(4))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2:2] = [b"\x00garbage\n", b'["a", 1]\n', b"[1]\n", b"7\n", b"[999, 1, 2]\n", lines[1][:-3] + b"]\n"]
    path.write_bytes(b"".join(lines))
    assert {row[0] for row in rows_of(SeriesReader(path).between(0, 9, 0))} == {0, 1, 2, 3}


def test_notes_are_words(tmp_path: Path) -> None:
    writer = SeriesWriter(tmp_path / "s")
    writer.note("cache", "varnish", 5, "cannot be read: gone")
    writer.note("", "host", 6, "can be read again")
    writer.close()
    notes = SeriesReader(tmp_path / "s").notes()
    assert notes == ["cache.varnish: cannot be read: gone", "host.host: can be read again"]
    assert SeriesReader(tmp_path / "none").notes() == []


ROWS = [
    (0, "", "host", "cpu0", "steal_seconds_total", 0.5),
    (1, "", "host", "cpu1", "busy_seconds_total", 3.0),
    (2, "", "host", "", "memory_bytes", 1e9),
    (3, "", "others", "", "cpu_seconds_total", 0.25),
    (4, "", "others", "find 7", "cpu_seconds_total", 0.2),
    (5, "web", "process", "", "cpu_seconds_total", 9.0),
]


def test_of_another_machine_its_disturbances_and_its_servers_are_kept() -> None:
    there = as_fleet(readings(*ROWS), "h1")
    assert rows_of(there) == [
        (0, "", "fleet", "h1/cpu0", "steal_seconds_total", 0.5),
        (1, "", "fleet", "h1/cpu1", "busy_seconds_total", 3.0),
        (3, "", "fleet", "h1", "others_cpu_seconds_total", 0.25),
        (5, "web", "process", "", "cpu_seconds_total", 9.0),
    ]
    both = rows_of(together([readings(*ROWS), there, as_fleet(readings(), "h2")]))
    assert (both[: len(ROWS)], len(both)) == (ROWS, len(ROWS) + 4)


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
