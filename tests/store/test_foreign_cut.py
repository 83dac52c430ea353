"""Files of load testers that were killed while writing: read to the last complete record, with a message."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.store import foreign_files as files

from svload.store.foreign.lines import CUT

LOAD = files.closed_loop(users=4, lasts=12_000, ramp=0)
LINES = {name: write for name, write in files.WRITERS.items() if name != "a.xml"}
read = partial(files.read, whole=True)


@pytest.mark.parametrize("begun", [3, 14, 31])
@pytest.mark.parametrize("name", LINES)
def test_a_record_that_was_begun_is_left_out(name: str, begun: int, tmp_path: Path) -> None:
    text = LINES[name](tmp_path / name, LOAD).read_text(encoding="utf-8")
    whole = read(tmp_path / name)
    (tmp_path / name).write_text(text + text.splitlines()[-1][:begun], encoding="utf-8")
    found = read(tmp_path / name)
    assert found.requests == whole.requests == len(LOAD)
    assert CUT in found.notes and CUT not in whole.notes


@pytest.mark.parametrize("points", [2, 3, 6])
@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_a_k6_request_without_its_last_points_is_left_out(name: str, points: int, tmp_path: Path) -> None:
    """Times of the other requests still contain what connecting took."""
    whole = read(LINES[name](tmp_path / name, LOAD[:-1]))
    lines = LINES[name](tmp_path / name, LOAD).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / name).write_text("".join(lines[: points - 9]), encoding="utf-8")
    found = read(tmp_path / name)
    assert found.requests == len(LOAD) - 1 and found.notes == (CUT, *whole.notes)
    assert found.groups[0].request_ns == whole.groups[0].request_ns


@pytest.mark.parametrize("name", LINES)
def test_without_its_last_line_end_a_file_is_whole(name: str, tmp_path: Path) -> None:
    text = LINES[name](tmp_path / name, LOAD).read_text(encoding="utf-8")
    (tmp_path / name).write_text(text.rstrip("\n"), encoding="utf-8")
    found = read(tmp_path / name)
    assert found.requests == len(LOAD) and CUT not in found.notes


@pytest.mark.parametrize("message", ['"expected 200\nbut got', '"a, b\n\nc""', '"'])
def test_a_message_of_several_lines_is_cut(message: str, tmp_path: Path) -> None:
    path = files.write_jtl(tmp_path / "a.jtl", LOAD)
    text = path.read_text(encoding="utf-8")
    stamp, elapsed, *_ = text.splitlines()[-1].split(",")
    path.write_text(f"{text}{stamp},{elapsed},home,500,{message}", encoding="utf-8")
    found = read(path)
    assert found.requests == len(LOAD) and CUT in found.notes


def test_stamps_with_a_comma_are_no_records_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jtl"
    row = '"2026-03-04 10:00:0{},250",7,home,true\n'
    path.write_text("timeStamp,elapsed,label,success\n" + row.format(1) + row.format(2) + row.format(3)[:20])
    found = read(path)
    assert found.requests == 2 and CUT in found.notes


@pytest.mark.parametrize("begun", [0, 4, 30])
def test_xml_ends_within_a_sample(begun: int, tmp_path: Path) -> None:
    path = files.write_jtl_xml(tmp_path / "a.xml", LOAD)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.rindex("</httpSample>") + len("</httpSample>")] + "<httpSample t="[:begun])
    found = read(path)
    assert found.requests == len(LOAD) and CUT in found.notes
