"""The collaboration cloud of studies/003-collaboration: as a lab of svload, and started by hand as its
README describes, with two people who talk on the test page."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from tests.bounds import HANG_S
from tests.servers import completed, wait_until

from .world import World

STUDY = Path(__file__).parents[2] / "studies" / "003-collaboration"
SAY_MS = 1000 * HANG_S


@pytest.fixture
def java(needs: Callable[..., None]) -> None:
    needs("javac", "mvn")


@pytest.mark.truth
@pytest.mark.parametrize("lacking", [("java", "javac", "mvn"), ("javac",)])
def test_without_a_jdk_one_line_says_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacking: tuple[str, ...]
) -> None:
    path = tmp_path / "path"
    path.mkdir()
    for name in {"java", "javac", "mvn"} - set(lacking):
        (path / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(path))
    ended = World(world.root, anew=True).svload("lab", "up", str(STUDY), "--trust")
    assert ended.returncode == 3
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("svload: ")]
    assert "javac" in line
    assert "apt-get install default-jdk-headless" in line
    assert "Traceback" not in ended.stderr
    assert world.left() == []


@pytest.mark.real
@pytest.mark.maven
def test_a_lab_of_three_servers_answers_a_load(world: World, needs: Callable[..., None], java: None) -> None:
    needs("root", "nsenter")
    lab = world.json("lab", "up", str(STUDY), "--trust", "--for", "10min", bound_s=10 * HANG_S)
    balancer = lab["endpoints"]["http://balancer"]
    host = str(urlsplit(balancer).hostname)
    inside = ("nsenter", f"--net={lab['network']}", sys.executable, "-m", "svload")
    seen = f"import urllib.request; print(urllib.request.urlopen('{balancer}/health', timeout=5).read())"
    asked = ("nsenter", f"--net={lab['network']}", sys.executable, "-c", seen)
    wait_until(lambda: b'"servers":3' in subprocess.run(asked, capture_output=True, check=False).stdout)
    for page in ("/presence/ann", "/sessions"):
        how = ("--authorise", host, "--duration", "1s", "--vus", "4", "--json")
        load = (*inside, "load", balancer + page, *how)
        ended = completed(load, env=world.env)
        found = json.loads(ended.stdout)
        assert found["ok"] > 0, ended.stderr
        assert found["failed"] == 0
    world.succeed("lab", "down")
    assert world.silent() == []


def commands() -> list[str]:
    """Return the two commands of the README by which the cloud is started by hand."""
    text = (STUDY / "cloud" / "README.md").read_text()
    match = re.search(r"## Start it by hand\n\n((?: {4}.+\n)+)", text)
    return [line.strip() for line in match[1].splitlines()]


@pytest.fixture
def cloud(tmp_path: Path, java: None) -> Iterator[str]:
    """Return the address of a cloud that was started by the README's commands."""
    folder = tmp_path / "cloud"
    shutil.copytree(STUDY / "cloud", folder, ignore=shutil.ignore_patterns("target"))
    build, start = commands()
    subprocess.run(shlex.split(build), cwd=folder, check=True, timeout=10 * HANG_S)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1] // 64 * 64
    with subprocess.Popen(
        ["sh", "-c", f"exec {start} --port {port}"], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = next(line for line in process.stdout if line.startswith("The cloud serves."))
            yield found.split()[4]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(HANG_S) is not None


class Person:
    """A client in another language, written from the protocol's page alone."""

    def __init__(self, balancer: str, user: str) -> None:
        with urlopen(f"{balancer}v1/place?user={user}", timeout=HANG_S) as answer:
            place = urlsplit(json.load(answer)["url"])
        self.socket = socket.create_connection((str(place.hostname), place.port), HANG_S)
        self.came = self.socket.makefile("rb")
        self.socket.sendall(
            f"GET {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\n\r\n".encode()
        )
        assert b" 101 " in self.came.readline()
        while self.came.readline().strip():
            pass
        self.say({"type": "hello", "version": 1, "user": user})
        self.heard("welcome")

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _send(self, opcode: int, data: bytes) -> None:
        size = bytes([0x80 | len(data)]) if len(data) < 126 else struct.pack(">BH", 0xFE, len(data))
        self.socket.sendall(bytes([0x80 | opcode]) + size + bytes(4) + data)  # masked with zeros

    def say(self, message: dict[str, object]) -> None:
        self._send(1, json.dumps(message).encode())

    def heard(self, kind: str) -> dict[str, Any]:
        """Return the next message of this kind; earlier ones are dropped, and pings are answered."""
        while True:
            head, size = self.came.read(2)
            if size > 125:
                size = int.from_bytes(self.came.read(2 if size == 126 else 8))
            data = self.came.read(size)
            if head & 0xF == 9:
                self._send(10, data)
            elif head & 0xF == 1:
                message: dict[str, Any] = json.loads(data)
                assert message["type"] != "error", message
                if message["type"] == kind:
                    return message

    def joined(self, session: str) -> dict[str, Any]:
        self.say({"type": "join", "id": "j1", "session": session})
        return self.heard("state")


def digest(state: dict[str, Any]) -> str:
    """Return the digest of a state, as the protocol's page defines it."""
    found = [state["session"], state["order"], state["manager"], state["control"], state["invite"]]
    found += [part for name, _ in sorted(state["members"]) for part in ("member", name)]
    found += [part for name in sorted(state["invited"]) for part in ("invited", name)]
    found += [part for pair in sorted(state["workspace"].items()) for part in ("key", *pair)]
    found += [part for chat in state["chats"] for part in ("chat", chat["order"], chat["user"], chat["text"])]
    found += [part for pair in sorted(state["numbers"]) for part in ("number", *pair)]
    texts = [str(part).encode() for part in found]
    return hashlib.sha256(b"".join(b"%d:%b," % (len(text), text) for text in texts)).hexdigest()


@pytest.mark.real
@pytest.mark.maven
def test_two_people_chat_on_the_test_page(needs: Callable[..., None], request: pytest.FixtureRequest) -> None:
    needs("chromium")
    address = request.getfixturevalue("cloud")
    browser = request.getfixturevalue("browser")
    people = {name: browser.new_page() for name in ("ann", "bob")}
    broken: list[str] = []
    for name, page in people.items():
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.goto(address)
        page.locator("#user").fill(name)
        page.locator("#enter button").click()
        page.locator("#speech:enabled").wait_for(timeout=SAY_MS)
    for name, page in people.items():
        page.locator("#said").fill(f"{name} says hello")
        page.locator("#say button:not([type])").click()
    for page in people.values():
        page.get_by_text("ann says hello").wait_for(timeout=SAY_MS)
        page.get_by_text("bob says hello").wait_for(timeout=SAY_MS)
        page.get_by_text("Here: ann, bob").wait_for(timeout=SAY_MS)
    logs = [page.locator("#log").all_inner_texts()[0] for page in people.values()]
    assert [line for line in logs[0].splitlines() if ": " in line] == [
        line for line in logs[1].splitlines() if ": " in line
    ], "both see one order"
    with Person(address, "cid") as cid:
        state = cid.joined("table")
        assert [chat["text"] for chat in state["chats"]] == ["ann says hello", "bob says hello"]
        assert digest(state) == state["digest"]
        cid.say({"type": "chat", "id": "c1", "number": 1, "sent": 1, "text": "grüße"})
        event = cid.heard("event")
        assert (event["order"], event["user"]) == (state["order"] + 1, "cid")
        assert cid.heard("ack")["order"] == event["order"]
        for page in people.values():
            page.get_by_text("cid: grüße").wait_for(timeout=SAY_MS)
        cid.say({"type": "leave", "id": "l1"})
        cid.heard("ok")
    people["ann"].locator("#stream").click()
    seen = people["bob"].locator("#frames")
    wait_until(lambda: int(seen.inner_text().split()[0]) > 0)
    for page in people.values():
        page.close()
    assert broken == []
