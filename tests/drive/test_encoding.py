"""Values of tables and responses reach the server unchanged: `urllib` and `json` decode them."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drive import share_text
from tests.drive.share_text import MS
from tests.servers import speaking

from svload import _native, api
from svload.api.studies import case_configs, load_lock
from svload.drive.refusals import encoded_rows
from svload.model.errors import SvloadError

pytestmark = pytest.mark.truth
COLUMN = {"feeder": "row", "column": "v"}
TAKEN = {"taken": "v"}
ODD = "a/b?c&d=e #%41+%\"ü\\'\t漢\r\n🚀"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.text(
    '/?&=#%+"\\ 4a1ü\n', min_size=1, max_size=12
)
SEVERAL = st.lists(TEXTS, min_size=1, max_size=8)
ROUNDS = settings(max_examples=25, deadline=None)


@dataclass
class Server:
    """Keeps each request's bytes; `/take` is answered with the next of its values as JSON."""

    port: int = 0
    heard: list[tuple[bytes, bytes]] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def talk(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as asked:
            while line := asked.readline():
                head = line
                while (one := asked.readline()) not in (b"\r\n", b""):
                    head += one
                length = re.search(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
                sent = asked.read(int(length[1])) if length else b""
                if line.startswith(b"GET /take "):
                    body = json.dumps({"v": self.values.pop(0)}).encode()
                else:
                    self.heard.append((head, sent))
                    body = b""
                answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                connection.sendall(answer)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    with speaking(made.talk) as made.port:
        yield made


def share(port: int, iterations: int, request: dict[str, Any], taken: bool = False) -> str:
    """Return one user who sends `request` once per row, in order; `taken`: a variable replaces the row."""
    plain = {"endpoint": "http://web", "timeout_ns": 5_000 * MS}
    asked = {"name": "ask", "method": "GET", "path": text("/"), **plain, **request}
    if "url" in asked:
        del asked["endpoint"], asked["path"]
    take = {"name": "take", "method": "GET", "path": text("/take"), "take": [{"name": "v", "json": "v"}]}
    steps = [{"request": take | plain}] if taken else []
    group = {
        "record": "histogram",
        "stop_offset_ns": 20_000 * MS,
        "executor": {"kind": "per-vu-iterations", "vus": 1, "vus_total": 1, "iterations": iterations},
        "feeders": {"row": {"table": "rows", "take": "walk"}},
        "scenarios": [{"steps": [*steps, {"request": asked}]}],
    }
    return json.dumps(share_text.share(group, port))


def heard(server: Server, values: Sequence[str], request: dict[str, Any], taken: bool = False) -> list[Any]:
    """Return (first line's address, headers by name, body) of a request for each value."""
    server.heard.clear()
    server.values[:] = values if taken else []
    inputs = {"rows": {"v": ("utf8", list(values))}}
    asked = share(server.port, len(values), request, taken)
    _native.run_share(asked, inputs, lambda _: None)
    found = []
    for head, body in server.heard:
        line, *fields = head.decode("latin-1").split("\r\n")
        assert re.fullmatch(r"(GET|POST) [\x21-\x7e]+ HTTP/1\.1", line), line
        found.append((line.split(" ")[1], dict(field.split(": ", 1) for field in fields if field), body))
    assert len(found) == len(values)
    return found


def sent(*what: Any) -> list[str]:
    """Return the bodies that `heard` finds."""
    return [body.decode() for _, _, body in heard(*what)]


def text(*parts: Any) -> list[Any]:
    """Return parts, of which the plain texts are the request's own."""
    return [{"text": part} if isinstance(part, str) else part for part in parts]


def posted(kind: str, *parts: Any) -> dict[str, Any]:
    """Return a body of this content type."""
    return {"method": "POST", "headers": [("Content-Type", text(kind))], "body": {"text": text(*parts)}}


@given(values=SEVERAL)
@ROUNDS
@pytest.mark.parametrize("value", [COLUMN, TAKEN], ids=["row", "taken"])
def test_a_value_in_an_address_is_read_back(server: Server, value: dict[str, Any], values: list[str]) -> None:
    path = text("/a/", value, "/b/", value, "?q=", value, "&n=1")
    found = heard(server, values, {"path": path}, taken=value is TAKEN)
    for (address, _, _), wanted in zip(found, values, strict=True):
        way, _, query = address.partition("?")
        _, first, between, second, *last = way.split("/")
        assert (first, second, unquote(between)) == ("a", "b", wanted)
        assert "/".join(last) == quote(wanted, safe="/")
        assert parse_qs(query, keep_blank_values=True) == {"q": [wanted], "n": ["1"]}


@given(values=SEVERAL)
@ROUNDS
@pytest.mark.parametrize("value", [COLUMN, TAKEN], ids=["row", "taken"])
def test_a_value_in_a_body_is_read_back(server: Server, value: dict[str, Any], values: list[str]) -> None:
    form = posted("application/x-www-form-urlencoded", "a=1&v=", value, "&w=", value)
    typed = posted("application/json; charset=utf-8", '{"v": "', value, '", "w": ["\\"', value, '"]}')
    plain = posted("text/plain", "{", value, "}")
    requests = (form, typed, typed | {"headers": []}, plain)
    bodies = [sent(server, values, one, value is TAKEN) for one in requests]
    for *asked, wanted in zip(*bodies, values, strict=True):
        assert parse_qs(asked[0], keep_blank_values=True) == {"a": ["1"], "v": [wanted], "w": [wanted]}
        assert json.loads(asked[1]) == json.loads(asked[2]) == {"v": wanted, "w": ['"' + wanted]}
        assert asked[3] == f"{{{wanted}}}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(values=st.lists(JSON, min_size=1, max_size=6))
@ROUNDS
def test_a_json_value_stands_outside_quotes(server: Server, values: list[Any]) -> None:
    rows = [json.dumps(value) for value in values]
    asked = posted("application/json", '{"v": ', COLUMN, "}")
    assert [json.loads(body) for body in sent(server, rows, asked)] == [{"v": wanted} for wanted in values]


@given(row=TEXTS)
@ROUNDS
def test_anything_else_outside_quotes_is_refused(row: str) -> None:
    asked = share(9, 1, posted("application/json", '{"v": ', COLUMN, "}"))
    fault = _native.share_fault(asked, {"rows": {"v": ("utf8", ["1", row])}})
    try:
        json.loads(row)
    except ValueError:
        assert fault is not None and fault[1].startswith("row 2 ("), fault
    else:
        # Python's reader also accepts NaN and Infinity.
        assert fault is None or row.strip(" \t\r\n") in ("NaN", "Infinity", "-Infinity")


def test_a_request_whose_variable_is_no_json_value_is_not_sent(server: Server) -> None:
    asked = posted("application/json", '{"v": ', TAKEN, "}")
    server.heard.clear()
    server.values[:] = ["7", "seven", '"8"', "1,2"]
    rows = {"rows": {"v": ("utf8", ["x"])}}
    tables = _native.run_share(share(server.port, 4, asked, taken=True), rows, lambda _: None)
    summary = json.loads(tables["summary"]["json"][1][0])["groups"][0]
    assert [body for _, body in server.heard] == [b'{"v": 7}', b'{"v": "8"}']
    assert summary["steps"][1]["errors"] == {"capture": 2}


_LEGAL = "!$&'()*+,/:;=?@[]~%"


@given(values=SEVERAL)
@ROUNDS
def test_a_whole_path_is_only_made_legal(server: Server, values: list[str]) -> None:
    sent = [address for address, _, _ in heard(server, values, {"path": [COLUMN]})]
    for address, value in zip(sent, values, strict=True):
        rooted = value if value.startswith("/") else f"/{value}"
        assert address == quote(re.sub("%(?![0-9A-Fa-f]{2})", "%25", rooted), safe=_LEGAL)
    assert [address for address, _, _ in heard(server, sent, {"path": [COLUMN]})] == sent


def test_a_whole_url_is_only_made_legal(server: Server) -> None:
    """Its fragment is not sent."""
    way = "/a%20b/ü?q=x&r=/%zz"
    url = f"http://127.0.0.1:{server.port}{way}#top"
    ((address, _, _),) = heard(server, [url], {"url": [TAKEN]}, taken=True)
    assert address == "/a%20b/%C3%BC?q=x&r=/%25zz"


@given(values=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1, max_size=6))
@ROUNDS
def test_a_header_is_one_line(server: Server, values: list[str]) -> None:
    asked = {"headers": [("X-V", text("<", TAKEN, ">"))]}
    values = [f"{value}\r\nX-W: 1" for value in values]
    for (_, fields, _), wanted in zip(heard(server, values, asked, taken=True), values, strict=True):
        line = wanted.replace("\r", " ").replace("\n", " ")
        assert fields["X-V"].encode("latin-1").decode() == f"<{line}>"
        assert "X-W" not in fields


def test_raw_values_stay_as_they_are(server: Server) -> None:
    raw = COLUMN | {"raw": True}
    asked = posted("application/json", '{"v": "', raw, '"}') | {"path": text("/a/", raw, "?q=", raw)}
    value = 'a/b&c%41"'
    ((address, _, body),) = heard(server, [value], asked)
    assert (address, body) == (f"/a/{value}?q={value}", b'{"v": "%s"}' % value.encode())
    assert _native.changed_rows(share(9, 1, asked), {"rows": {"v": ("utf8", [ODD])}}) == []


@pytest.mark.parametrize(
    ("parts", "changed"),
    [
        (text("/a/", COLUMN), [0, 2]),
        (text("/a/", COLUMN, "/b"), [0, 1, 2]),
        (text("/a?q=", COLUMN), [0, 1, 2]),
        ([COLUMN], [2]),
    ],
)
def test_rows_that_are_encoded_are_named(parts: list[Any], changed: list[int]) -> None:
    rows = {"rows": {"v": ("utf8", ["a&b", "a/b", "straße", "plain", "~"])}}
    found = _native.changed_rows(share(9, 1, {"path": parts}), rows)
    assert found == [("ask", "path", "row", "v", changed)]


STUDY = """\
name: words
lab: {api: {at: "http://127.0.0.1:9"}}
feeders:
  word: {csv: words.csv}
requests:
  find: {get: "http://api/find?q=${word.text}"}
  keep: {post: http://api/, body: '{"n": ${word.number}, "t": "${word.text:raw}"}'}
traffic:
  finders: {executor: constant-vus, vus: 1, request: find}
  keepers: {executor: constant-vus, vus: 1, request: keep}
measure: {duration: 1s, replicates: 1}
"""


def cautions(folder: Path, *rows: str) -> list[str]:
    """Write the study with these rows of its table; return what `plan` warns of."""
    (folder / "study.yaml").write_text(STUDY)
    (folder / "words.csv").write_text("\n".join(["text,number", *rows, ""]))
    return list(api.plan(str(folder), api.Choices(out=folder))["cautions"])


def test_plan_names_the_rows_that_are_encoded(tmp_path: Path) -> None:
    """It does not name rows that are sent unchanged, nor those that encoding doesn't change."""
    (found,) = cautions(tmp_path, "plain,1", "red & blue,2", "~.-_,3", "100 %,4")
    assert found.startswith("find encodes row 2 (“red & blue”) and 1 more of word.text in its address: ")
    assert "${word.text:raw}" in found
    assert cautions(tmp_path, "plain,1") == []
    words = r"study\.yaml:7: .*row 2 \(.two.\) of word\.number is not a JSON value"
    with pytest.raises(SvloadError, match=words):
        cautions(tmp_path, "a,1", "b,two")


ROOT = Path(__file__).parents[2]
COMMITTED = sorted(
    file
    for folder in ("studies", "examples", "src/svload/_studies")
    for file in (ROOT / folder).rglob("*.yaml")
    if re.search("^(traffic|base):", file.read_text(), re.MULTILINE) and "\nname:" in f"\n{file.read_text()}"
)


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_row_of_a_committed_study_is_encoded(file: Path) -> None:
    configs = case_configs(load_lock(str(file), api.Choices())).values()
    assert list(encoded_rows(configs, file.parent)) == []
