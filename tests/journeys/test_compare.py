"""The whole command `svload compare URL URL`, against a server with a slow path."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import speaking
from typer.testing import CliRunner, Result

from svload import api
from svload.analysis import limits
from svload.api import compared_urls
from svload.cli.app import app
from svload.model.errors import SvloadError
from svload.model.events import Event
from svload.run import warming

from .world import findings

pytestmark = pytest.mark.truth
SHORT = ("-c", "2", "-d", "0.3s", "--blocks", "3")
SLOW_S = 0.03
MS = 1_000_000


@pytest.fixture(autouse=True)
def _short_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three turns of a tenth of a second in a block, with nothing between the blocks."""
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limits, "TURN_LEAST_NS", 100 * MS)
    monkeypatch.setattr(limits, "TURN_ROUND_NS", 100 * MS)
    monkeypatch.setattr(limits, "TURN_BLOCK_HOLDS", 10)
    monkeypatch.setattr(limits, "TURN_STRETCH", 3)
    monkeypatch.setattr(limits, "TURN_APART_S", (0.0, 0.01))
    monkeypatch.setattr(warming, "STRETCHES_S", (0.2, 0.2))


def typed(*words: str) -> Result:
    """Run the command in this process, where turns are short; its run is in runs/."""
    ended = CliRunner().invoke(app, ["compare", *words], catch_exceptions=True)
    assert not ended.exception or isinstance(ended.exception, SystemExit), ended.output
    return ended


def only_run() -> Path:
    (found,) = Path("runs").glob("compare-*")
    return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run a server that answers at once; `/slow` and `/moved` after 30 ms, `/moved` with 301, `/none` with
    404, `/closed` not at all; `/falls` and `/leaves` answer 50 requests, and then with 503 or not at all."""
    counts: Counter[bytes] = Counter()

    def talk(connection: socket.socket) -> None:
        for line in connection.makefile("rb"):
            if not line.endswith((b" HTTP/1.1\r\n", b" HTTP/2.0\r\n")):
                continue
            path = line.split(b" ")[1]
            counts[path] += 1
            worn = counts[path] > 50
            if path == b"/closed" or (path == b"/leaves" and worn):
                return
            if path in (b"/slow", b"/moved"):
                threading.Event().wait(SLOW_S)
            known = {b"/none": b"404 Not Found", b"/moved": b"301 Moved Permanently"}
            status = b"503 Worn" if path == b"/falls" and worn else known.get(path, b"200 OK")
            connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nok")

    with speaking(talk) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(("slow", "unlike"), [("/slow", []), ("/moved", ["/fast: 200; /moved: 301"])])
def test_a_slow_path_is_slower(url: str, slow: str, unlike: list[str]) -> None:
    printed = json.loads(typed(f"{url}/fast", f"{url}{slow}", *SHORT, "--json").stdout)
    found = findings(only_run())
    assert found["complete"]
    assert {case["levels"]["target"] for case in found["cases"]} == {"/fast", slow}
    assert [(one["baseline"], one["treatment"]) for one in found["claims"]] == [("/fast", slow)] * 2
    told = [one["sentence"] for one in found["findings"] if one["kind"] == "status"]
    assert [text.split("(")[1].split(")")[0] for text in told] == unlike
    assert all(one["ratio"]["value"] > 1 for one in found["claims"]), found["claims"]
    assert printed["run"] == str(only_run())
    assert "as these servers ran today" in printed["answer"]
    assert Path(printed["files"]["report.html"]).is_file()


@pytest.mark.timing
def test_answer_is_a_sentence_and_exit_status(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN_STRETCH", limits.TURN_ROUNDS)  # a pass needs them
    gate = ("--fail-if", "p50 worse by more than 5 %")
    slower = typed(f"{url}/fast", f"{url}/slow", *SHORT, *gate)
    assert slower.stdout.startswith("/slow is slower than /fast: the median response is ")
    assert slower.exit_code == 1
    faster = typed(f"{url}/slow", f"{url}/fast", *SHORT, *gate)
    assert faster.stdout.startswith("/fast is faster than /slow: the median response is ")
    assert faster.exit_code == 0


@pytest.mark.parametrize(
    ("first", "second", "duration", "sealed"),
    [("fast", "none", "0.3s", 2), ("none", "fast", "0.3s", 2), ("fast", "none", "600s", 0)],
    ids=["the second", "the first", "for seconds, before its trial ends"],
)
def test_a_side_that_fails_ends_it_with_its_name(
    url: str, first: str, second: str, duration: str, sealed: int
) -> None:
    """No request of its first trial succeeds, on any machine."""
    with pytest.raises(SvloadError) as caught:
        asked(f"{url}/{first}", f"{url}/{second}", duration=duration)
    (problem,) = caught.value.problems
    assert problem.code == "nothing-ok"
    assert f"requests to {url}/none failed (status)" in problem.sentence
    assert ("(status), with status 404" in problem.sentence) == bool(sealed), (
        "a whole trial's failures are known"
    )
    assert problem.remedy.endswith(f"svload probe {url}/none")
    assert len(list(only_run().glob("trials/*/seal.json"))) == sealed


@pytest.mark.parametrize(("path", "error"), [("falls", "status"), ("leaves", "empty_answer")])
def test_a_side_that_once_answered_is_reported_as_such(url: str, path: str, error: str) -> None:
    with pytest.raises(SvloadError) as caught:
        asked(f"{url}/fast", f"{url}/{path}")
    (problem,) = caught.value.problems
    assert (problem.code, caught.value.exit_code) == ("target-gone", 1)
    assert f"{url}/{path} no longer answers as it did: all " in problem.sentence
    assert f"failed ({error})" in problem.sentence and "svload resume" in problem.remedy


@pytest.mark.parametrize(
    ("ok", "in_flight", "p99_s", "silent_s"),
    [(90, 4, 0.002, 10), (90, 1, 5.0, 15), (0, 4, 0.0, 20), (90, 0, 0.002, None)],
)
def test_a_side_that_hangs_ends_it(ok: int, in_flight: int, p99_s: float, silent_s: int | None) -> None:
    """It answers until second 3; without requests in flight it has nothing to answer. Its control, at the
    same URL, continues to answer."""
    side = compared_urls._Side("http://b/", "http://b", succeeded=True)
    abort_if = compared_urls._unusable({"b": side, "control": side})
    for case in ("b", "control"):
        abort_if(Event("trial-started", {"trial": f"{case}.r2", "case": case}))
    last = {"response_p99_ns": p99_s * 1e9}
    for offset_s in range(90):
        answered = min(offset_s, 3) * ok // 3
        group = {"ok": answered, "errors": {}, "in_flight": in_flight, "last": last}
        of_control = {**group, "ok": 30 * offset_s + 1}
        for trial, of_one in (("control.r2", of_control), ("b.r2", group)):
            event = Event("progress", {"trial": trial, "offset_s": offset_s, "groups": [of_one]})
            error = abort_if(event)
        if error:
            break
    if silent_s is None:
        assert error is None
        return
    assert offset_s == silent_s + (3 if ok else 0) and isinstance(error, SvloadError)
    (problem,) = error.problems
    shown = f"http://b/ no longer answers as it did: it sent no response in the last {silent_s} s of b.r2."
    assert (problem.code, problem.sentence) == ("target-gone", shown)
    waits = "1 request waits" if in_flight == 1 else f"{in_flight} requests wait"
    assert problem.remedy.startswith(f"{waits} for an answer: ") and "svload resume" in problem.remedy


OTHER = "http://shop.example"


@pytest.mark.parametrize(
    ("first", "second", "more", "why"),
    [
        ("URL/fast", "URL/closed", {}, "URL/closed accepted connections but completed no response"),
        ("URL/closed", "URL/fast", {}, "URL/closed accepted connections but completed no response"),
        ("URL/fast", "http://127.0.0.1:9/", {}, "http://127.0.0.1:9/ answered no request"),
        (f"{OTHER}/fast", f"{OTHER}/closed", {"connect_to": "AT"}, f"{OTHER}/closed at AT accepted connections but"),
        ("URL/fast", "URL/slow", {"http2": True}, "URL/fast answered no request: http2_not_negotiated"),
        ("URL/fast", "URL/slow", {"within_s": 2.0}, "--for is too short for an answer: 3 blocks of at least 3 turns each"),
    ],
    ids=["the second", "the first", "nobody", "elsewhere", "http2", "too short"],
)  # fmt: skip
def test_what_cannot_be_compared_is_named_before_anything_is_loaded(
    url: str, first: str, second: str, more: dict[str, Any], why: str
) -> None:
    heard: list[Event] = []
    at = url.removeprefix("http://")
    first, second, why = (text.replace("URL", url).replace("AT", at) for text in (first, second, why))
    given = {name: at if value == "AT" else value for name, value in more.items()}
    with pytest.raises(SvloadError, match=re.escape(why)):
        asked(first, second, emit=heard.append, **given)
    assert heard == []


def test_too_long_turns_are_reported_in_the_first_warm_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are to be a thousand times its p99 of 30 ms or longer; the minimum is a tenth of a second."""
    heard: list[Event] = []
    monkeypatch.setattr(limits, "TURN_P99S", 1000.0)
    refused = asked(f"{url}/slow", f"{url}/slow?again", heard.append, within_s=20.0).outcome.error
    assert refused is not None
    assert "too short: an answer needs 3 blocks, and one takes" in str(refused)
    assert re.search(r"Give it --for \d+(s|m), or load less", refused.problems[0].remedy)
    warmed = [one for one in heard if one.kind == "trial-phase" and one.text("name") == "warm-up"]
    assert len({one.text("trial") for one in warmed}) == 1, "the other side need not be loaded"
    assert not list(only_run().glob("trials/*/seal.json"))


def test_a_control_stands_beside_the_answer(url: str) -> None:
    result = asked(f"{url}/fast", f"{url}/slow", control=True)
    assert result.outcome.complete
    found = findings(only_run())
    assert {case["levels"]["target"] for case in found["cases"]} == {"/fast", "/slow", "/fast-again"}
    assert [claim["treatment"] for claim in found["claims"]] == ["/slow"] * 2
    assert all(claim["turns"]["control"]["value"] for claim in found["claims"])


def asked(
    first: str,
    second: str,
    emit: api.Emit = lambda event: None,
    duration: str = "0.3s",
    connect_to: str | None = None,
    http2: bool = False,
    **more: Any,
) -> api.RunResult:
    request = api.QuickLoad(first, vus=2, duration=duration, connect_to=connect_to, http2=http2)
    choices = api.Choices(out=Path("runs"))
    ask = api.ComparedUrls(request, second, 3, **more)
    return api.compare_urls(ask, choices, emit, api.LoadFiles())


def test_an_interrupted_one_goes_on_where_it_stopped(url: str) -> None:
    heard = []

    def stops(event: Event) -> None:
        if event.kind == "progress" and event.text("trial").endswith(".r2") and not heard:
            heard.append(event)
            signal.raise_signal(signal.SIGINT)

    stopped = asked(f"{url}/fast", f"{url}/slow", stops)
    assert (stopped.exit_code, stopped.outcome.sealed) == (130, 2)
    before = {path: path.read_bytes() for path in only_run().glob("trials/*/seal.json")}
    assert api.resume(None, api.Choices(out=Path("runs")), lambda event: None).outcome.complete
    assert {path: path.read_bytes() for path in before} == before
    assert findings(only_run())["question"].startswith("Which is faster, /fast (")
