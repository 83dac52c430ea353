"""The whole command `svload load URL`: its examples, verdicts, exit status, requests, and files."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.servers import Answering, put, serving

from svload.cli.commands.load import EXAMPLES

from .world import World, only_run

pytestmark = pytest.mark.truth
TYPED = [line.strip() for line in EXAMPLES.splitlines() if line.strip().startswith("svload load")]


Asked = list[tuple[str, str, dict[str, str], bytes]]


@contextmanager
def recording(location: str = "") -> Iterator[tuple[str, Asked]]:
    """Run a server that records its requests: (method, path, headers, body); yield its origin and these.
    With a `location` each request except those of that path is redirected there."""
    kept: Asked = []

    class Keep(Answering):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept.append((self.command, self.path, dict(self.headers), body))
            if location and not location.endswith(self.path):
                return self.answer(b"", 307, Location=location)
            return self.answer(b"")

        do_PUT = do_POST = do_GET  # noqa: N815 (their names are http.server's)

    with serving(Keep) as port:
        yield f"http://127.0.0.1:{port}", kept


@pytest.fixture
def url(truth: dict[str, int]) -> str:
    return f"http://127.0.0.1:{truth['http_port']}/info"


@pytest.mark.parametrize("typed", TYPED)
def test_an_example_of_the_help_works(world: World, url: str, typed: str) -> None:
    """With the truth server as its target, and seconds instead of tens of them."""
    shorter = re.sub(r"\b(5|10)s\b", "1s", typed.replace("http://127.0.0.1:8080/", url))
    ended = world.svload(*shlex.split(shorter)[1:])
    assert "svload: " not in ended.stderr
    assert "server" in ended.stdout


SERVICE_MS = 20
"""The minimum time of each answer of the slow server: no response is shorter, however busy the machine is."""
MANY, FEW = ("-n", "200", "-c", "2"), ("-n", "20", "-c", "1")
STAYS = ("--vus", "2", "--stage", "2s:2")


@pytest.fixture
def slow_url(serve_truth: Callable[..., dict[str, Any]]) -> str:
    server = serve_truth(service_time={"constant_ns": SERVICE_MS * 1_000_000}, workers=8)
    url = f"http://127.0.0.1:{server['http_port']}/v1/a/c/o"
    put(url)
    return url


@pytest.mark.parametrize(
    ("load", "thresholds", "code", "outcomes"),
    [
        (MANY, ("errors<1%", "rate>1e9"), 1, ("passed", "failed")),
        (FEW, ("p(99.9)<10s",), 4, ("open",)),
        (FEW, ("p(99.9)<10s", "p(50)<0.5ms"), 1, ("open", "failed")),
        (STAYS, ("p(50)<0.5ms at 2 users",), 1, ("failed",)),
        (STAYS, ("p(50)<10s", "p(50)<10s at 2 users", "errors<1%", "rate<1e9"), 0, ("passed",) * 4),
    ],
)
def test_a_threshold_decides_the_exit_status(
    world: World,
    slow_url: str,
    load: tuple[str, ...],
    thresholds: tuple[str, ...],
    code: int,
    outcomes: tuple[str, ...],
) -> None:
    """A range is at most a thirtieth to five times its number, so these answers hold on any machine."""
    wanted = [word for one in thresholds for word in ("--threshold", one)]
    ended = world.svload("load", slow_url, *load, *wanted, "--json")
    found = json.loads(ended.stdout)
    assert tuple(one["outcome"] for one in found["thresholds"]) == outcomes, found["thresholds"]
    assert ended.returncode == code, ended.stderr
    assert found["response_ms"]["p50"] >= SERVICE_MS


def test_a_vanishing_server_ends_with_1(world: World, serve_truth: Callable[..., dict[str, Any]]) -> None:
    """Even if the part before meets the threshold."""
    server = serve_truth()
    url = f"http://127.0.0.1:{server['http_port']}/info"
    with world.start("load", url, "-c", "2", "-d", "5s", "--threshold", "p(50)<10s", "--json") as command:
        assert command.wait_for(second(2))
        os.kill(server["pid"], signal.SIGKILL)
        assert command.end() == 1, command.said
    (gone,) = json.loads("\n".join(command.printed))["gone"]
    assert "refused" in gone


def test_a_secret_follows_no_redirect_to_another_host(world: World) -> None:
    """Any header that is not known to be harmless counts as secret. On its own host it is sent on."""
    headers = ("-H", "X-T: hush", "-H", "X-Api-Key: hush", "-H", "Accept: text/plain")
    words = ("-n", "4", "-c", "1", "--follow-redirects", "1", *headers)
    with recording() as (there, others), recording(f"{there}/there") as (here, ours):
        world.svload("load", f"{here}/", *words, "--json")
    for asked, place, has_secret in ((ours, "/", True), (others, "/there", False)):
        seen = {(path, sent["Accept"], "hush" in str(sent)) for _, path, sent, _ in asked}
        assert seen == {(place, "text/plain", has_secret)}
    with recording("/there") as (here, ours):
        world.svload("load", f"{here}/", *words)
    assert {path for _, path, sent, _ in ours if sent["X-T"] == "hush"} == {"/", "/there"}


@pytest.mark.parametrize("command", ["load", "probe"])
def test_what_is_sent_is_what_was_typed(world: World, command: str) -> None:
    (world.root / "body.bin").write_bytes(b"\0\xfftwo\n")
    with recording() as (origin, asked):
        once = ("-n", "1", "-c", "1") if command == "load" else ("-n", "1")
        for how in (("--data", "ä=${b}", "-X", "put"), ("-D", "body.bin"), ()):
            world.json(command, f"{origin}/p?q=%20", *once, "-H", "X-Own: v: w", *how)
    wanted = [("PUT", "ä=${b}".encode()), ("POST", b"\0\xfftwo\n"), ("GET", b"")]
    assert [(method, body) for method, _, _, body in asked] == wanted
    assert {(path, headers["X-Own"]) for _, path, headers, _ in asked} == {("/p?q=%20", "v: w")}


def test_another_address_is_connected_to_and_the_url_still_names_the_server(world: World) -> None:
    with recording() as (origin, asked):
        at = origin.removeprefix("http://")
        for to in (at, f"shop.example:80:{at}"):
            world.svload("load", "http://shop.example/x", "-n", "2", "-c", "1", "--connect-to", to)
    assert [headers["Host"] for _, _, headers, _ in asked] == ["shop.example"] * 4


@pytest.mark.smoke
def test_a_kept_run_is_read_like_any_study(world: World, url: str) -> None:
    for _ in range(2):
        ended = world.svload("load", url, "-c", "4", "-d", "0.3s", "--out", str(world.runs), "--json")
    first, second = (str(world.runs / f"load-{number}") for number in (1, 2))
    assert json.loads(ended.stdout)["run"] == second
    sql = "select trial, instrument from verdicts"
    for words in (
        ("why", first, "load.r1"),
        ("query", second, sql),
        ("compare", first, second),
        ("verify", first),
    ):
        assert world.succeed(*words).stdout
    assert world.svload("report", second).stdout
    assert (world.runs / "load-2" / "derived" / "report.html").exists()


def second(number: int) -> Callable[[list[str]], bool]:
    """Return the condition that a load has printed the line of this second."""
    return lambda lines: any(re.match(rf" *{number} s ", line) for line in lines)


@pytest.mark.parametrize("words", [("--rate", "20"), ("-c", "1")])
def test_ctrl_c_waits_for_no_sampler_that_hangs(world: World, url: str, words: tuple[str, ...]) -> None:
    """What was measured is printed and kept, and nothing says that the sampler did not answer."""
    with world.start("load", url, *words, "-d", "60s", "--out", str(world.runs)) as command:
        assert command.wait_for(second(1))
        (sampler,) = world.processes("svload.watch.sampler")
        os.kill(sampler, signal.SIGSTOP)
        command.process.send_signal(signal.SIGINT)
        assert command.end() == 130
    assert "did not answer" not in command.said and "does not count" not in command.said
    text = " ".join(" ".join(command.printed).split())
    assert "(stopped)" in text and "Stopped early, after" in text
    assert "Interrupted" in command.lines[-1]
    kept = {path.name for path in (only_run(world) / "attempts" / "load.r1.a1").iterdir()}
    assert kept & {"summary.json", "seal.json"} == {"summary.json"}, "kept, and without a seal never counted"


UNSAID = ("X-JWT", "Signature", "X-CSRF", "X-Otp", "X_Otp", "1-x", "Port", "Referer")
"""Headers whose names do not show that they grant access."""


def test_a_credential_is_sent_and_kept_nowhere(world: World) -> None:
    with recording() as (origin, asked):
        world.svload(
            "load", f"{origin}/", "-n", "20", "-c", "2", "--out", str(world.runs),
            "-H", "Authorization: Bearer hush-${x}", "-H", "User-Agent: seen",
            *(word for name in UNSAID for word in ("-H", f"{name}: hush-{name}")),
        )  # fmt: skip
    loaded = [headers for _, path, headers, _ in asked if path == "/"]
    assert {headers["Authorization"] for headers in loaded} == {"Bearer hush-${x}"}
    assert {name: loaded[0][name] for name in UNSAID} == {name: f"hush-{name}" for name in UNSAID}
    files = [path for path in world.runs.rglob("*") if path.is_file()]
    assert [path for path in files if b"seen" in path.read_bytes()], "a plain header is in the study"
    assert not [path for path in files if b"hush" in path.read_bytes()]
