"""`svload compare URL URL`, the whole command: against a server with a slow path."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .world import World, complete, findings, only_run, sealed

pytestmark = pytest.mark.truth
SHORT = ("-c", "2", "-d", "0.3s", "--blocks", "3")
SLOW_S = 0.03


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that answers at once; `/slow` after 30 ms, `/none` with 404, `/closed` not at all."""
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ")[1]
                if path == b"/closed":
                    break
                if path == b"/slow":
                    await asyncio.sleep(SLOW_S)
                status = b"404 Not Found" if path == b"/none" else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    server.close()
    tasks = asyncio.all_tasks(loop)
    for one in tasks:
        one.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
    loop.close()


def runs_of(world: World) -> list[Path]:
    return sorted(world.runs.glob("compare-*")) if world.runs.exists() else []


def test_a_slow_path_is_slower(world: World, url: str) -> None:
    asked = ("compare", f"{url}/fast", f"{url}/slow", *SHORT, "--out", str(world.runs), "--json")
    ended = world.svload(*asked)
    found = complete(only_run(world), ended.stderr)
    assert {case["levels"]["target"] for case in found["cases"]} == {"/fast", "/slow"}
    assert [(one["baseline"], one["treatment"]) for one in found["claims"]] == [("/fast", "/slow")] * 2
    assert all(one["ratio"]["value"] > 1 for one in found["claims"]), [
        one["ratio"] for one in found["claims"]
    ]
    printed = json.loads(ended.stdout)
    assert printed["run"] == str(only_run(world))
    assert "as these servers ran today" in printed["answer"]
    assert Path(printed["files"]["report.html"]).is_file()
    assert world.silent() == []


@pytest.mark.timing
def test_the_answer_is_one_sentence_and_a_gate_the_exit_status(world: World, url: str) -> None:
    gate = ("--fail-if", "p50 worse by more than 5 %", "--out", str(world.runs))
    slower = world.svload("compare", f"{url}/fast", f"{url}/slow", *SHORT, *gate)
    assert slower.stdout.startswith("/slow is slower than /fast: the median response is ")
    assert slower.returncode == 1
    faster = world.svload("compare", f"{url}/slow", f"{url}/fast", *SHORT, *gate)
    assert faster.stdout.startswith("/fast is faster than /slow: the median response is ")
    assert faster.returncode == 0


@pytest.mark.parametrize("order", [("fast", "none"), ("none", "fast")])
def test_a_side_that_fails_ends_it_with_its_name(world: World, url: str, order: tuple[str, str]) -> None:
    """Its first trial has no request that succeeded, on any machine."""
    one, other = (f"{url}/{path}" for path in order)
    ended = world.svload("compare", one, other, *SHORT, "--out", str(world.runs))
    assert ended.returncode == 1
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("svload: ")]
    assert f"requests to {url}/none failed (status), with status 404. " in line
    assert f"svload probe {url}/none" in line
    assert len(sealed(only_run(world))) > 0
    assert world.silent() == []


def test_a_side_without_an_answer_ends_it(world: World, url: str) -> None:
    ended = world.svload("compare", f"{url}/fast", f"{url}/closed", *SHORT, "--out", str(world.runs))
    assert ended.returncode in (1, 3)
    assert f"svload: {url}" in ended.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("http://127.0.0.1:9/", "latest"), "http://127.0.0.1:9/ is a URL, and latest is a run"),
        (("latest", "http://127.0.0.1:9/"), "http://127.0.0.1:9/ is a URL, and latest is a run"),
        (("one", "two", "--rate", "5"), "--rate is about two URLs"),
        (("one", "two", "--spin", "60us"), "--spin is about two URLs"),
        (("http://x/", "http://y/", "--to", "page.html"), "--to is about two runs"),
        (("http://127.0.0.1:9/", "http://other.example/"), "http://other.example is not authorised"),
        (("http://127.0.0.1:9/", "http://127.0.0.1:9/", "--fail-if", "slower"), "worse, better or different"),
    ],
)
def test_what_is_typed_wrongly_is_told_before_anything_is_sent(
    world: World, typed: tuple[str, ...], said: str
) -> None:
    ended = world.svload("compare", *typed)
    assert ended.returncode == 2, ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert runs_of(world) == []


def test_nobody_listens(world: World, url: str) -> None:
    ended = world.svload("compare", f"{url}/fast", "http://127.0.0.1:9/", *SHORT, "--out", str(world.runs))
    assert ended.returncode == 3
    assert "http://127.0.0.1:9" in ended.stderr
    assert "nothing answers" in ended.stderr


def test_an_interrupted_one_goes_on_where_it_stopped(world: World, url: str) -> None:
    asked = ("compare", f"{url}/fast", f"{url}/slow", "-c", "2", "-d", "0.3s", "--blocks", "4")
    with world.start(*asked, "--out", str(world.runs)) as command:
        assert command.wait_for(lambda lines: sum(line.startswith("[") for line in lines) >= 2)
        command.process.send_signal(signal.SIGINT)
        assert command.end() == 130
    run = only_run(world)
    assert f"svload resume {run}" in command.said
    before = sealed(run)
    assert before
    complete(run, world.svload("resume").stderr)
    assert before.items() <= sealed(run).items()
    assert findings(run)["question"].startswith("Which is faster, /fast (")
    assert world.silent() == []
