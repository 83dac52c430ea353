"""Rows of a file, and tokens: taken once, for each user, or renewed; secrets are in no file."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pyarrow
import pytest
from pyarrow.parquet import write_table
from tests.servers import Answering, serving

from .world import World, assert_valid, only_run

pytestmark = pytest.mark.truth
SESAME = "sesame-4711"
KEYSTONE, USES = "/v3/auth/tokens", 15


class Handler(Answering):
    """Give tokens for the right key, and objects for the right token."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        path, token = self.path, self.headers.get("X-Auth-Token", "")
        self.asked.append((path, token))
        if path == "/auth":
            if self.headers.get("X-Auth-Key") not in ("testing", SESAME):
                return self.answer(b"", 401)
            return self.answer(b"", **{"X-Auth-Token": f"tk-{len(self.asked)}"})
        if path == "/v1/AUTH_demo/c/o":
            return self.answer(b"object", 200 if self._is_good(token) else 401)
        if path.startswith("/objects/"):
            return self.answer(b"object", 200 if token.startswith("tk-") else 403)
        return self.answer(b"file")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.path, body))
        assert self.headers["Content-Type"] == "application/json"
        known = json.loads(body)["auth"]["identity"]["password"]["user"]["password"] == SESAME
        number = sum(path == KEYSTONE for path, _ in self.asked)
        given = {"X-Subject-Token": f"ks-{number}"} if known else {}
        self.answer(b"{}", 201 if known else 401, **given)

    def _is_good(self, token: str) -> bool:
        """Return whether the token is still good: one of Keystone's is good for a number of requests."""
        uses = sum(one == ("/v1/AUTH_demo/c/o", token) for one in self.asked)
        return token.startswith("ks-") and uses <= USES


@pytest.fixture
def server() -> Iterator[int]:
    Handler.asked.clear()
    with serving(Handler) as port:
        yield port


def run(world: World, text: str, port: int) -> dict[str, Any]:
    """Run and judge the only trial of a study, and check its identities and Little's sum."""
    trust = ["--trust"] if "secrets:" in text else []
    trial: dict[str, Any] = world.run(world.study(text.replace("PORT", str(port))), *trust)["trials"][0]
    assert_valid(trial, "accounting")
    return trial


PARQUET = """\
name: rows-of-parquet
lab: {server: {at: "http://127.0.0.1:PORT"}}
feeders:
  file: {parquet: rows.parquet, take: sequential}
requests:
  fetch: {get: "http://server/f${file.name}", check: ["size_bytes == ${file.size_bytes}"]}
traffic:
  users: {executor: per-vu-iterations, vus: 2, iterations: 10, request: fetch}
measure: {duration: 100s, replicates: 1}
"""


def test_rows_of_a_parquet_file_are_asked_as_they_are_dealt(world: World, server: int) -> None:
    names = [f"n-{n}" for n in range(7)]
    write_table(pyarrow.table({"name": names, "size_bytes": [4] * 7}), world.root / "rows.parquet")
    trial = run(world, PARQUET, server)
    assert trial["metrics"]["users.success_rate"]["value"] == 1
    asked = Counter(path for path, _ in Handler.asked if path != "/")
    assert asked == Counter(f"/f{names[n % 7]}" for n in range(20))


TOKEN = """\
name: token
lab: {swift: {at: "http://127.0.0.1:PORT"}}
feeders: {object: {range: [1, 40], take: random}}
setup:
  - {get: http://swift/auth, headers: {X-Auth-Key: testing}, take: {token: {header: X-Auth-Token}}}
traffic:
  readers: {executor: per-vu-iterations, vus: 3, iterations: 20, generators: 2, request: {get: "http://swift/objects/${object.value}", headers: {X-Auth-Token: "${token}"}, check: [body contains object]}}
measure: {duration: 100s, replicates: 1}
"""


@pytest.mark.smoke
def test_one_token_then_random_objects(world: World, server: int) -> None:
    trial = run(world, TOKEN, server)
    assert trial["metrics"]["readers.success_rate"]["value"] == 1
    assert trial["metrics"]["readers.requests"]["value"] == 60, "set-up is counted apart"
    [token] = {token for path, token in Handler.asked if path.startswith("/objects/")}
    assert [path for path, _ in Handler.asked].count("/auth") == 1
    assert len({path for path, _ in Handler.asked}) > 15
    assert holding(token, only_run(world)) == [], "a token is a secret"


def holding(secret: str, folder: Path) -> list[Path]:
    """Return the files in a folder that contain a text."""
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


SECRET = TOKEN.replace("setup:", "secrets: {key: LOGIN_KEY}\nsetup:").replace(
    "X-Auth-Key: testing", 'X-Auth-Key: "${secret.key}"'
)


def test_a_secret_is_in_no_file(world: World, server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = world.succeed("plan", world.study(SECRET.replace("PORT", str(server))))
    assert "needs --trust: secrets.key: the variable LOGIN_KEY" in " ".join(planned.stdout.split())
    ended = world.svload("run", "study.yaml", "--out", str(world.runs))
    assert ended.returncode == 2
    assert "LOGIN_KEY is not set" in ended.stderr
    assert "LOGIN_KEY_FILE" in ended.stderr
    assert not Handler.asked, "nothing was started"
    monkeypatch.setenv("LOGIN_KEY", SESAME)
    trial = run(world, SECRET, server)
    assert trial["metrics"]["readers.success_rate"]["value"] == 1
    world.succeed("pack", "latest", "--out", str(world.runs), "--to", str(world.runs / "p.zip"))
    with zipfile.ZipFile(world.runs / "p.zip") as pack:
        pack.extractall(world.runs / "packed")
    assert holding(SESAME, world.runs) == []


def test_a_token_for_each_user(world: World, server: int) -> None:
    each = TOKEN.replace("  - {get", "  - {once: vu, request: {get")
    run(world, each.replace("X-Auth-Token}}}", "X-Auth-Token}}}}"), server)
    tokens = Counter(token for path, token in Handler.asked if path.startswith("/objects/"))
    assert sorted(tokens.values()) == [20, 20, 20]


def keystone_of_the_docs() -> str:
    """Write the study that docs/study-file.md shows, faster and with rows, for the fake server."""
    page = (Path(__file__).parents[2] / "docs/study-file.md").read_text()
    text = page.partition("```yaml file=keystone/study.yaml\n")[2].partition("\n```")[0]
    for found, here in (
        ("127.0.0.1:5000", "127.0.0.1:PORT"),
        ("127.0.0.1:8080", "127.0.0.1:PORT"),
        ("think_time: 1s,", "think_time: 20ms, record: rows,"),
        ("measure: {duration: 60s}", "measure: {duration: 2s, replicates: 1}"),
    ):
        assert found in text, found
        text = text.replace(found, here)
    return text


def test_keystone_gives_tokens(world: World, server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A POST answered 201 with X-Subject-Token, before the load and again after each 401."""
    monkeypatch.setenv("OS_PASSWORD", SESAME)
    trial = run(world, keystone_of_the_docs(), server)
    posts = [json.loads(body) for path, body in Handler.asked if path == KEYSTONE]
    users = [body["auth"]["identity"]["password"]["user"] for body in posts]
    assert users == len(posts) * [{"name": "demo", "domain": {"id": "default"}, "password": SESAME}]
    uses = Counter(token for path, token in Handler.asked if path == "/v1/AUTH_demo/c/o")
    assert set(uses) <= {f"ks-{number}" for number in range(1, len(posts) + 1)}
    asked = world.query("select vu, status, error_name from samples order by vu, begun_ns")
    found = Counter((row["status"], row["error_name"]) for row in asked)
    assert set(found) == {(200, ""), (201, ""), (401, "status")}, found
    assert found[201, ""] == len(posts) - 1, "the first token came before the load"
    assert found[201, ""] >= 4, "each user has renewed"
    for before, after in pairwise(asked):
        if before["status"] == 401 and before["vu"] == after["vu"]:
            assert after["status"] == 201, "nothing is repeated; the renewal comes first"
    assert 0 < trial["metrics"]["users.success_rate"]["value"] < 1
    assert holding(SESAME, only_run(world)) == []
