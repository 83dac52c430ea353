from __future__ import annotations

from pathlib import Path

import pytest

from svload.model.events import Event
from svload.store.journal import Journal, read_events


def test_what_was_written_is_read_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    for number in range(3):
        journal.write(Event("notice", {"text": f"{number} ü\n"}), sync=number == 2)
        assert [event.data["text"] for event in read_events(journal.path).events][-1] == f"{number} ü\n"
    journal.close()
    assert read_events(journal.path).dropped == ()


def test_a_line_torn_anywhere_is_dropped_and_reported_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path) as journal:
        journal.write(Event("notice", {"text": "first"}))
        journal.write(Event("notice", {"text": "second"}))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(first + 1, len(whole) - 1):
        path.write_bytes(whole[:length])
        torn = read_events(path)
        assert [event.data["text"] for event in torn.events] == ["first"]
        assert len(torn.dropped) == 1
        assert "torn last line" in torn.dropped[0]
        with Journal(path) as journal:
            journal.write(Event("notice", {"text": "third"}))
        again = read_events(path)
        assert [event.data["text"] for event in again.events] == ["first", "third"]
        assert len(again.dropped) == 1


@pytest.mark.parametrize("fits", [1, 60])
def test_a_line_after_one_that_a_full_disk_cut_is_whole(tmp_path: Path, fits: int) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path) as journal:
        whole = journal._file

        class Full:
            def write(self, data: bytes) -> int:
                whole.write(data[:fits])
                raise OSError(28, "No space left on device")

        journal._file = Full()
        with pytest.raises(OSError, match="No space") as caught:
            journal.write(Event("notice", {"text": "cut"}))
        assert caught.value.filename == str(path)
        journal._file = whole
        journal.write(Event("run-ended", {"text": "last"}))
    read = read_events(path)
    assert [event.text("text") for event in read.events] == ["last"]
    assert (len(read.dropped), read.damaged) == (1, ())


@pytest.mark.parametrize(
    "line", ["5", "[]", "null", '{"kind":"notice"}', '{"kind":1,"data":{},"wall":1,"monotonic_ns":1}',
             '{"kind":"trial-sealed","data":7,"wall":1.0,"monotonic_ns":1}', '{"kind":"notice","data":{},"wall":"x","monotonic_ns":1}',
             "[" * 100_000, '{"kind":"notice","data":' + '{"a":' * 100_000]
)  # fmt: skip
def test_json_that_is_no_event_is_a_damaged_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path) as journal:
        journal.write(Event("notice", {"text": "first"}))
    path.write_bytes(path.read_bytes() + line.encode() + b"\n")
    read = read_events(path)
    assert [event.text("text") for event in read.events] == ["first"]
    assert read.dropped == (f"events.jsonl:2: a damaged line was dropped ({len(line)} bytes)",)
