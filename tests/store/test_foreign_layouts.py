"""JMeter's files as people have them: without names, with dates, other delimiters, or cut as JMeter was killed."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from tests.store import foreign_files as files

from svload.store.foreign.jtl import HEADER
from svload.store.foreign.run import form_of, read_foreign
from svload.store.foreign.tabulate import Made

LOAD = files.closed_loop(users=4, lasts=12_000, ramp=0)


def plain(tmp_path: Path) -> str:
    return files.write_jtl(tmp_path / "plain.jtl", LOAD).read_text(encoding="utf-8")


def made(path: Path) -> Made:
    assert form_of(path) == "jtl"
    return read_foreign(path, "jtl", whole=True)


def same(one: Made, other: Made) -> None:
    for column in ("begun_ns", "done_ns", "status", "error", "step", "vu"):
        assert np.array_equal(one.tables["samples"][column], other.tables["samples"][column])
    assert one.labels == other.labels and one.users == other.users


def test_without_a_line_of_names(tmp_path: Path) -> None:
    text = plain(tmp_path)
    (tmp_path / "a.jtl").write_text(text.partition("\n")[2], encoding="utf-8")
    found = made(tmp_path / "a.jtl")
    same(found, made(tmp_path / "plain.jtl"))
    assert any("no line of names" in note for note in found.notes)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters(delimiter: str, tmp_path: Path) -> None:
    text = plain(tmp_path).replace('"buy, now"', "@").replace(",", delimiter).replace("@", "buy, now")
    (tmp_path / "a.jtl").write_text(text, encoding="utf-8")
    same(made(tmp_path / "a.jtl"), made(tmp_path / "plain.jtl"))


@pytest.mark.parametrize(
    ("form", "clock_ns"),
    [("%Y/%m/%d %H:%M:%S.{ms}", 10**6), ("%Y-%m-%d %H:%M:%S,{ms}", 10**6), ("%Y.%m.%dT%H:%M:%S", 10**9)],
)
def test_stamps_that_are_dates(form: str, clock_ns: int, tmp_path: Path) -> None:
    head, *rows = plain(tmp_path).splitlines()
    dated = []
    for row in rows:
        stamp, _, rest = row.partition(",")
        moment = np.datetime64(int(stamp), "ms").astype("datetime64[s]").item().strftime(form)
        cell = moment.replace("{ms}", f"{int(stamp) % 1000:03d}")
        dated.append((f'"{cell}"' if "," in cell else cell) + "," + rest)
    (tmp_path / "a.jtl").write_text("\n".join([head, *dated]) + "\n", encoding="utf-8")
    found = made(tmp_path / "a.jtl")
    assert found.clock_ns == clock_ns
    assert any("taken as UTC" in note for note in found.notes)
    assert found.started_wall == files.EPOCH_MS // 1000
    if clock_ns == 10**6:
        same(found, made(tmp_path / "plain.jtl"))


@pytest.mark.parametrize("lost", [1, 7, 40])
def test_a_file_cut_within_its_last_record(lost: int, tmp_path: Path) -> None:
    text = plain(tmp_path)
    assert len(text.splitlines()[-1]) > 60
    whole = made(tmp_path / "plain.jtl")
    (tmp_path / "a.jtl").write_text(text[: -lost - 1], encoding="utf-8")
    found = made(tmp_path / "a.jtl")
    # Without one digit of its last cell a record has all of its cells.
    cut = lost > 1
    assert found.requests == whole.requests - cut
    assert any("last whole one" in note for note in found.notes) is cut


def test_a_record_of_several_lines_that_is_cut(tmp_path: Path) -> None:
    text = plain(tmp_path)
    last = text.splitlines()[-1].split(",")
    place = HEADER.index("failureMessage")
    cut = ",".join([*last[:place], '"expected 200\nbut got'])
    (tmp_path / "a.jtl").write_text(text + cut, encoding="utf-8")
    found = made(tmp_path / "a.jtl")
    assert found.requests == len(LOAD)
    assert any("last whole one" in note for note in found.notes)


def test_xml_that_ends_within_a_sample(tmp_path: Path) -> None:
    path = files.write_jtl_xml(tmp_path / "a.xml", LOAD)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.rindex("<httpSample") + 30], encoding="utf-8")
    found = made(path)
    assert found.requests == len(LOAD)  # the whole of the last one stands before its hop
    assert any("last whole one" in note for note in found.notes)


def test_k6_lines_that_end_within_a_point(tmp_path: Path) -> None:
    path = files.write_k6_json(tmp_path / "a.json", LOAD)
    text = path.read_text(encoding="utf-8")
    path.write_text(text + text.splitlines()[-1][:50], encoding="utf-8")
    found = read_foreign(path, "k6", whole=True)
    assert found.requests == len(LOAD)
    assert any("last whole one" in note for note in found.notes)


def test_gzip_without_names(tmp_path: Path) -> None:
    path = tmp_path / "a.jtl.gz"
    path.write_bytes(gzip.compress(plain(tmp_path).partition("\n")[2].encode()))
    same(made(path), made(tmp_path / "plain.jtl"))
