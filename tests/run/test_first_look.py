"""What `svload init` reports of a server that refuses its first request, or ignores its port."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from svload import api, run
from svload.api import first_look
from svload.host.machine.lock import machine_lock
from svload.lab.catalogue import all_kits
from svload.model.errors import SvloadError, fail
from svload.model.events import Event
from svload.model.private import private_folder
from svload.study import load_study


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (404, "It answers 404 to GET /shop?id=1, so every request would fail: use a path that exists."),
        (401, "It answers 401 to GET /shop?id=1, so every request would fail: it requires credentials: add the headers to the request."),
        (405, "it needs another method there, such as POST."),
        (503, "so every request would fail: check its log."),
        *((status, "") for status in (200, 204, 302)),
    ],
)  # fmt: skip
def test_a_refusal_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, says: str) -> None:
    row = {"http_code": f"{status:03}", "time_total": 0.002, "size_download": 9, "error": ""}
    monkeypatch.setattr(first_look, "probe", lambda *_: [row])
    path, words = api.init("http://127.0.0.1:8080/shop?id=1", tmp_path / "mine")
    text = path.read_text()
    answer = f"was answered with {status} in 2.0 ms (9 bytes)."
    if not says:
        assert words == f"http://127.0.0.1:8080/shop?id=1 {answer}"
        assert "It answers" not in text
        return
    assert answer in words and says in words
    assert any(line.startswith("# ") and says in line for line in text.splitlines())
    line = text[: text.index("GET http://server/shop?id=1")].count("\n") + 1
    assert words.endswith(f"The request is in {path}:{line}.")
    assert load_study(path).name == "my-server"


KITS = """\
name: kits
lab: {web: {kit: "${server}"}}
factors: {server: [redis, memcached]}
traffic: {users: {executor: constant-vus, vus: 2, request: {tcp: "tcp://web", dialogue: [{send: "a"}, {match: "b"}]}}}
measure: {duration: 1s, replicates: 2}
"""


def test_each_cases_kits_are_checked_and_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "study.yaml").write_text(KITS)
    kit = all_kits()["memcached"]
    lacks = fail("tool-missing", kit="memcached", what="memcached", hint="").problems
    monkeypatch.setattr(kit, "check", classmethod(lambda *_: list(lacks)))
    [problem] = api.doctor(str(tmp_path), None)["problems"]
    assert problem.startswith("memcached needs ")
    monkeypatch.setattr(kit, "check", classmethod(lambda *_: []))
    monkeypatch.setattr(kit, "install", classmethod(lambda *_: ["made memcached"]))
    texts: list[str] = []
    with ExitStack() as other:
        other.enter_context(machine_lock("other", path=private_folder(tmp_path / "cache") / ".install.lock"))

        def emit(event: Event) -> None:
            if event.kind == "notice":
                texts.append(event.text("text"))
                other.close()

        assert "made memcached" in api.lab_install(str(tmp_path), None, emit)
    assert re.match(r"waiting: another installation .*\(other, pid", texts[0])


NO_PORT = "write {port} where it takes the port to listen on, such as “./server --port {port}”, then init"
FIX = "Fix the command, then run init again."


@pytest.mark.parametrize(
    ("code", "command", "remedy"),
    [
        ("service-not-ready", "python3 -m server --listen 8080", NO_PORT),
        ("service-died", "python3 -m server --listen 8080", NO_PORT),
        ("service-not-ready", "python3 -m server {port}", FIX),
        ("service-not-ready", "python3 -m server ${port}", FIX),
    ],
)
def test_a_command_needs_a_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, command: str, remedy: str
) -> None:
    @contextmanager
    def started_once(*_: object) -> Iterator[str]:
        raise fail(code, service="server", seconds=30, exit=1, tail="(nothing)", log="x.log")
        yield ""

    monkeypatch.setattr(run, "started_once", started_once, raising=False)
    with pytest.raises(SvloadError) as found:
        api.init(command, tmp_path / "mine")
    assert remedy in str(found.value)
    assert ("where it takes the port" in str(found.value)) == (remedy == NO_PORT)
    assert not (tmp_path / "mine").exists()
