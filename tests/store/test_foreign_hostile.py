"""Files that no load tester wrote, or made to do harm: one sentence with file and line, bounded memory,
nothing left behind."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.store import foreign_files as files

from svload import api
from svload.model.errors import SvloadError
from svload.store.foreign.bounds import LINE_BYTES
from svload.store.foreign.run import form_of, read_foreign
from svload.tables.reading import read_table_file

HEAD = "timeStamp,elapsed,label,success\n"
ROW = "1700000000000,10,home,true\n"
NAMELESS = "%s,5,home,200,OK,Users 1-1,text,true,,3,0,1,1,null,5,0,0\n"
POINT = '{"metric":"http_req_duration","type":"Point","data":{"time":"2026-01-01T00:00:00Z","value":5,"tags":{"name":"a"}}}\n'
VUS = '{"metric":"vus","type":"Point","data":{"time":"2026-01-01T00:00:00Z","value":%s,"tags":{}}}\n'
THREADS = "timeStamp,elapsed,success,allThreads,grpThreads\n"
K6_HEAD = "metric_name,timestamp,metric_value\n"
HISTORY = (
    "Timestamp,User Count,Name,Total Request Count,Total Failure Count,Total Average Response "
    "Time\n1700000000,1,Aggregated,0,0,0\n"
)
UNREADABLE = ("EUC-JP", "utf-7", "base64", "undefined", "punycode", "klingon")
SAMPLE = '<testResults><httpSample ts="1700000000000" t="9" lb="é" s="true"/></testResults>'
DECLARED = f'<?xml version="1.0" encoding="%s"?>\n{SAMPLE}'
XML = '<testResults>\n<httpSample ts="1700000000000" t="10" s="true"/>\n'


@pytest.mark.parametrize(
    ("form", "content", "line", "text"),
    [
        ("jtl", "", 1, "has no column timeStamp"),
        ("jtl", HEAD, None, "holds no finished request"),
        ("jtl", HEAD + ROW + "1700000000000,10,home\n", 3, "3 values stand under 4 names"),
        ("jtl", HEAD + ROW + "2026/01/01 10:00:00,10,home,true\n", 3, "timeStamp is not a whole number"),
        ("jtl", HEAD + ROW + "1700000000000,ten,home,true\n", 3, "elapsed is not a whole number: “ten”"),
        ("jtl", HEAD + ROW + "1700000000000,-5,home,true\n", 3, "elapsed is beyond all sense"),
        ("jtl", HEAD + ROW + "1700000000000,10,home, true\n", 3, "success is neither true nor false: “ true”"),
        ("jtl", HEAD + "1700000000000,4294967295,home,true\n" * 5_000, None, "their sum is too large"),
        ("jtl", THREADS + "".join(f"170000000000{n},4294967295,true,1,1\n" for n in range(3)), None, "beyond all sense"),
        ("jtl", HEAD + "2024/02/29 10:00:00,10,home,true\n2024/02/30 10:00:00,10,home,true\n", 3, "timeStamp is no time: “2024/02/30 10:00:00”"),
        ("jtl", NAMELESS % "2024-04-03 10:20:30" + NAMELESS % "7", 2, "timeStamp is no time: “7”"),
        ("jtl", HEAD + "13/01/2024 10:00:00,10,home,true\n01/13/2024 10:00:00,10,home,true\n", 3, "timeStamp is no time: “01/13/2024 10:00:00”"),
        ("jtl", HEAD + ROW + "9,10,home,true\n", None, "more than 90 days apart"),
        ("jtl", HEAD + ROW + '1700000000000,10,"home,true\n', 3, "this is not CSV"),
        ("jtl", HEAD.encode() + ROW.encode() + b"1700000000000,10,\xff\xfe,true\n", 3, "not UTF-8"),
        ("jtl", "timeStamp,timeStamp,elapsed,success\n", 1, "two columns have the same name"),
        ("jtl", HEAD + "1" * (LINE_BYTES + 10), 2, "longer than 1 MiB"),
        ("jtl", HEAD + ROW + "1700000000000,1\u202e0,\x1b[31m,true\n", 3, "elapsed is not a whole number: “1[U+202E]0”"),
        ("jtl", "<html></html>", 1, "first element is <html>"),
        ("jtl", XML + "</httpSample>", 3, "this is not XML"),
        ("jtl", '<!DOCTYPE x [<!ENTITY a "aaaa">]>\n<testResults>&a;</testResults>', 1, "declares a document type"),
        ("jtl", '<testResults>\n<sample ts="1" t="x" ' 's="true"/></testResults>', 2, "t is not a whole number: “x”"),
        ("jtl", '<testResults>\n\n<sample ts="1" t="1"/></testResults>', 3, "a sample has no s"),
        *(("jtl", DECLARED % code, 1, "the encoding that it declares can't be read") for code in UNREADABLE),
        ("jtl", "<testResults>" + "<a>" * 100, 1, "nested 64 deep"),
        ("jtl", "<testResults><!--" + "x" * (3 * LINE_BYTES), 1, "longer than 1 MiB"),
        ("k6", POINT + "{broken\n", 2, "this is not JSON"),
        ("k6", POINT + '{"metric":"http_req_duration","type":"Point","data":"x"}\n', 2, "not a k6 record"),
        ("k6", POINT + POINT.replace('"value":5', '"value":"five"'), 2, "value is not a valid number: “five”"),
        ("k6", POINT + POINT.replace("2026-01-01T00:00:00Z", "yesterday"), 2, "time is not a time: “yesterday”"),
        ("k6", POINT + POINT.replace('{"name":"a"}', '{"name":["a"]}'), 2, "tags are not texts"),
        ("k6", K6_HEAD + "http_req_duration,1700000000,5\nhttp_req_duration,soon,5\n", 3, "timestamp is not a Unix time: “soon”"),
        ("k6", K6_HEAD + "http_req_duration,-1700000000,5\n", 2, "timestamp is not a Unix time: “-1700000000”"),
        ("k6", K6_HEAD + "http_req_duration,1700000000,nan\n", 2, "metric_value is not a valid number: “nan”"),
        ("k6", K6_HEAD + "http_req_duration,1700000000\n", 2, "2 values stand under 3 names"),
        ("k6", POINT + VUS % "1000001", 2, "value is not a valid number: “1000001”"),
        ("k6", K6_HEAD + "http_req_duration,50000000000,5\n", 2, "timestamp is beyond all sense: 50000000000"),
        ("k6", K6_HEAD + "http_req_duration,1700000000,5\nvus,1700000000,2000000\n", 3, "metric_value is not a valid number: “2000000”"),
        ("locust", HISTORY + "1700000001,2147483648,Aggregated,9,0,5\n", 3, "User Count is not a valid number"),
        ("locust", HISTORY + "1700000001,1,Aggregated,9,0,1000000000000\n", 3, "Total Average Response Time is not a valid number"),
        ("jtl", THREADS + "1700000000000,10,true,1000001,1000001\n", 2, "grpThreads is beyond all sense: 1000001"),
        ("locust", HISTORY, 2, "no request ended between two rows called Aggregated"),
        ("locust", HISTORY + "1700000000,1,Aggregated,9,0,5\n", 3, "no request ended between two rows"),
        ("locust", HISTORY.replace("d,0", "d,9") + "1700000001,1,Aggregated,9,0,5\n", 3, "no request ended between two rows"),
        ("locust", HISTORY + "1700000001,1,Aggregated,x,0,5\n", 3, "Total Request Count is not a valid number: “x”"),
        ("locust", HISTORY + "1700000001,1,Aggregated,9,0,5\n1700000002,1,Aggregated,8,0,5\n", 4, "go backwards"),
        ("locust", HISTORY + "".join(f"{1700000000 + 600 * n},1,Aggregated,{n},0,5\n" for n in range(1, 13_000)), None, "more than 90 days apart"),
        ("locust", HISTORY + "1700000001,1,Aggregated,1000000000000,0,1000\n", 3, "requests times their average are beyond all sense"),
        ("locust", HISTORY + "1700000001,1,Aggregated,9,10,5\n", 3, "more requests failed than were made"),
    ],
)  # fmt: skip
def test_it_is_refused_with_its_line(
    form: str, content: str | bytes, line: int | None, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SvloadError) as caught:
        read_foreign(path, form)
    (problem,) = caught.value.problems
    assert problem.code == "import-unreadable" and problem.remedy
    assert problem.place == (f"{path}:{line}" if line else str(path))
    assert text in problem.sentence
    found = str(problem)
    assert "\n" not in found and "\x1b" not in found and "\u202e" not in found and len(found) < 1200


def test_too_long_a_history_says_which_rows_suffice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svload.store.foreign.locust.TABLE_ROWS", 2)
    path = tmp_path / "x_stats_history.csv"
    path.write_text(HISTORY + "1700000001,1,page,9,0,5\n1700000001,1,Aggregated,9,0,5\n")
    with pytest.raises(SvloadError, match="more than 2 rows") as caught:
        read_foreign(path, "locust")
    assert "the rows called Aggregated" in caught.value.problems[0].remedy


@pytest.mark.parametrize("code", ["UTF-8", "ISO-8859-15", "windows-1252"])
def test_xml_in_another_readable_encoding_keeps_its_letters(code: str, tmp_path: Path) -> None:
    path = tmp_path / "results.jtl"
    path.write_bytes((DECLARED % code).encode(code))
    assert list(read_foreign(path, "jtl").labels.values()) == ["é"]


@pytest.mark.parametrize("name", [*files.WRITERS, "locust"])
@pytest.mark.parametrize("place", ["block", "lengths", "end"])
def test_a_damaged_gzip_file_is_refused(name: str, place: str, tmp_path: Path) -> None:
    """A block of no valid type at its begin, lengths that form no code, and a file that ends within its
    first bytes."""
    path = tmp_path / "file"
    write = files.WRITERS.get(name, files.write_history)
    data = bytearray(gzip.compress(write(path, files.closed_loop(lasts=2_000)).read_bytes(), mtime=0))
    data[10 : {"end": None}.get(place, 11)] = {"block": b"\x07", "lengths": b"\x05", "end": b"\x05"}[place]
    path.write_bytes(bytes(data))
    with pytest.raises(SvloadError, match="not a complete gzip file"):
        form_of(path)
    with pytest.raises(SvloadError, match="gzip"):
        read_foreign(path, files.FORMS.get(name, name))


def test_nothing_is_left_of_an_import_that_fails(tmp_path: Path) -> None:
    good = files.write_jtl(tmp_path / "good.jtl", files.closed_loop(users=2, lasts=2000))
    bad = tmp_path / "bad.jtl"
    bad.write_text(HEAD + ROW + "torn\n")
    with pytest.raises(SvloadError):
        api.import_files([str(good), str(bad)], "jtl", out=tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "line", "text"),
    [
        ("", 1, "it has no line of names"),
        ("a,b\n", 1, "it has no row"),
        ("a,a\n1,2\n", 1, "two columns have the same name"),
        ("a,b\n1\n", 2, "1 values, but 2 names"),
        ("a,=cmd()\n1,2\n", 1, "“=cmd()” is not a valid column name"),
        (",".join(f"c{n}" for n in range(300)) + "\n", 1, "more than 200 columns"),
        ('a,b\n"1,2\n', 2, "this is not CSV"),
        ("Etiket,# Örnek,Ortalama,90% Line\na,1,2,3\n", 1, "“Ortalama” may be the mean or the median"),
        ("Etiket,# Örnek,Ortalama,Ortalama,Ortalama\na,1,2,3,4\n", 1, "two columns have the same name"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(content: str, line: int, text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(SvloadError) as caught:
        read_table_file(path)
    (problem,) = caught.value.problems
    assert problem.place == f"{path}:{line}" and text in problem.sentence


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ("- 1\n", "it is not a mapping"),
        ("given: {run_time: soon}\n", "given run_time"),
        ("given: {run_time: -5s}\n", "given run_time: -5s is negative"),
        ("given: {colour: red}\n", "given.colour"),
        ("derive: {x: y}\n", "derive x"),
        ("given: {users: !!python/object:os.system x}\n", ""),
        ("a: [\n", "Invalid YAML"),
    ],
)
def test_what_is_known_beside_a_table_is_checked(about: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    path.with_suffix(".about.yaml").write_text(about)
    with pytest.raises(SvloadError) as caught:
        read_table_file(path)
    assert text in str(caught.value)


@pytest.mark.parametrize("name", files.WRITERS)
def test_long_names_are_bounded_together(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their total number of characters, not only by their number."""
    monkeypatch.setattr("svload.store.foreign.requests.NAMES_BYTES", 5_000)
    load = [files.Asked(0, 100 * at, 50, f"{at:04}" + "x" * 996) for at in range(30)]
    made = files.read(files.WRITERS[name](tmp_path / name, load))
    assert made.requests == 30 and len(made.labels) == 6
    assert sorted(map(len, made.labels.values())) == [len("others"), *[1_000] * 5]
