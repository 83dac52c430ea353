"""nginx and Node decode the values that the engine encoded: each answers with what it understood."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.drive.test_encoding import COLUMN, ODD, posted, share, text
from tests.servers import free_port, nginx, running

from svload import _native
from svload.model.typed_url import sent_as

pytestmark = pytest.mark.real

NODE = """
require('http').createServer((request, response) => {
  const url = new URL(request.url, 'http://h'), parts = [];
  request.on('data', part => parts.push(part)).on('end', () => {
    const body = Buffer.concat(parts).toString(), kind = request.headers['content-type'] || '';
    let told = decodeURIComponent(url.pathname.split('/')[2]) + '\\n' + url.searchParams.get('q');
    if (kind.includes('json')) told = JSON.parse(body).v;
    if (kind.includes('form')) told = new URLSearchParams(body).get('v');
    response.end(told);
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
"""
NGINX = 'merge_slashes off; location / { return 200 "$uri\\n$http_x_value"; }'
SIGNS = st.characters(exclude_categories=["Cs"])
VALUES = st.lists(
    st.text(SIGNS, max_size=20) | st.text('/?&=#%+"\\ 4a1ü;<>{}', max_size=12), min_size=5, max_size=40
)
ROUNDS = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, needs: Any) -> Iterator[int]:
    """Start a server that answers with the values it understood."""
    needs("node")
    folder, port = tmp_path_factory.mktemp("node"), free_port()
    (folder / "server.js").write_text(NODE)
    with running(["node", str(folder / "server.js"), str(port)], port, folder / "log"):
        yield port


def read_back(port: int, values: list[str], request: dict[str, Any], *parts: Any) -> None:
    """Check that every value's answer is what `parts` contain."""
    asked = request | {"checks": [{"name": "same", "body": {"equals": text(*parts)}}]}
    rows = {"rows": {"v": ("utf8", values)}}
    tables = _native.run_share(share(port, len(values), asked), rows, lambda _: None)
    (group,) = json.loads(tables["summary"]["json"][1][0])["groups"]
    (step,) = group["steps"]
    assert (step["ok"], step["failed"]) == (len(values), 0), (step["errors"], group["checks_failed"])


@given(values=VALUES)
@ROUNDS
def test_values_are_what_the_server_reads(port: int, values: list[str]) -> None:
    values = [ODD, *values]
    read_back(port, values, {"path": text("/a/v-", COLUMN, "/b?q=", COLUMN)}, "v-", COLUMN, "\n", COLUMN)
    typed = posted("application/json", '{"v": "', COLUMN, '"}')
    read_back(port, values, {"path": text("/a/-", COLUMN, ";")} | typed, COLUMN)
    form = posted("application/x-www-form-urlencoded", "w=1&v=", COLUMN)
    read_back(port, values, {"path": text("/a/")} | form, COLUMN)


def test_nginx_reads_paths_and_headers(tmp_path: Path, needs: Any) -> None:
    """It resolves `..` after decoding, and refuses a NUL, so these are left out."""
    needs("nginx")
    port = free_port()
    with running(nginx(tmp_path, port, NGINX), port, tmp_path / "log"):
        signs = st.characters(exclude_categories=["Cs"], exclude_characters="\0.")

        @given(values=st.lists(st.text(signs, max_size=20), min_size=5, max_size=40))
        @ROUNDS
        def read(values: list[str]) -> None:
            asked = {"path": text("/files/v-", COLUMN), "headers": [("X-Value", text("ü"))]}
            read_back(port, [ODD, *values], asked, "/files/v-", COLUMN, "\nü")
            inner = asked | {"path": text("/a/v-", COLUMN, "/b")}
            read_back(port, [ODD, *values], inner, "/a/v-", COLUMN, "/b\nü")

        read()


def test_typed_umlauts_reach_the_server(port: int) -> None:
    """Node refuses raw bytes in a path."""
    path = text(sent_as("/a/straße und mehr/?q=größe & 1"))
    read_back(port, ["x"], {"path": path}, "straße und mehr\ngröße ")


def test_a_raw_value_is_read_as_more_than_a_value(port: int) -> None:
    asked = {"path": text("/a/v/b?q=", COLUMN | {"raw": True})}
    read_back(port, ["plain"], asked, "v\n", COLUMN)
    with pytest.raises(AssertionError, match="same"):
        read_back(port, ["red&blue"], asked, "v\n", COLUMN)
