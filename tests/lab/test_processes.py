"""Kits that start processes, on ordinary programmes."""

from __future__ import annotations

import http.server
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S

from svload.lab.lab import Lab
from svload.lab.ports import HIGHEST, LOWEST, Ports
from svload.lab.server import backlog_of
from svload.lab.web import call
from svload.model.errors import SvloadError
from svload.model.events import Event
from svload.model.study import ServiceSpec

pytestmark = pytest.mark.truth
SERVER = f"{sys.executable} -m http.server --bind 127.0.0.1 ${{port}}"


def make(tmp_path: Path, host: Any, *specs: ServiceSpec, events: list[Event] | None = None) -> Lab:
    tell = events.append if events is not None else None
    return Lab(specs, host, tmp_path / "work", tmp_path / "cache", on_event=tell, study_dir=tmp_path)


def command(name: str = "api", **options: Any) -> ServiceSpec:
    return ServiceSpec(name=name, kit="command", options={"run": SERVER, "ready": "GET /", **options})


def test_a_command_is_started_on_a_free_port_in_the_studys_folder_and_leaves_nothing(
    tmp_path: Path, host: Any
) -> None:
    (tmp_path / "beside-the-study.txt").write_text("here")
    events: list[Event] = []
    lab = make(tmp_path, host, command(nofile=400_000), events=events)
    facts = lab.up()["api"]
    [endpoint] = facts.endpoints
    assert LOWEST <= endpoint.port <= HIGHEST
    assert call(f"http://127.0.0.1:{endpoint.port}/beside-the-study.txt") == (200, b"here")
    assert lab.endpoints() == {"http://api": endpoint}
    assert [setting.name for setting in facts.settings] == ["nofile"]
    assert facts.settings[0].asked == "400000"
    assert lab.alive() == []
    [process] = facts.processes
    assert Path(f"/proc/{process.pid}").exists()
    lab.down()
    assert not Path(f"/proc/{process.pid}").exists()
    assert not (tmp_path / "work/services").exists()
    assert [event.data["state"] for event in events if event.kind == "service"] == ["up", "ready", "down"]


def test_a_setting_that_the_machine_cut_is_told(tmp_path: Path, host: Any) -> None:
    events: list[Event] = []
    lab = make(tmp_path, host, command(nofile=999_999_999, nofile_hard=1_000_000_000), events=events)
    try:
        lab.up()
    finally:
        lab.down()
    soft, hard = (event.data for event in events if event.kind == "setting")
    assert (soft["what"], soft["asked"]) == ("api.nofile", "999999999")
    assert (hard["what"], hard["asked"]) == ("api.nofile_hard", "1000000000")
    assert soft["found"] == hard["found"] != soft["asked"]
    assert hard["why"] == f"the hard limit here is {hard['found']}, and may not be raised"


def test_a_service_that_dies_at_once_is_said_with_its_last_words(tmp_path: Path, host: Any) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit('the tea is cold')")
    lab = make(tmp_path, host, command(run=f"{sys.executable} broken.py"))
    with pytest.raises(SvloadError) as caught:
        lab.up()
    [problem] = caught.value.problems
    assert problem.code == "service-died"
    assert "the tea is cold" in str(problem)
    assert "the tea is cold" in Path(str(problem.details["log"])).read_text(), (
        "where the message sends its reader"
    )
    assert not (tmp_path / "work/services").exists()


def test_a_service_that_never_answers_is_given_up(tmp_path: Path, host: Any) -> None:
    lab = make(
        tmp_path,
        host,
        command(run=f"{sys.executable} -c 'import time; time.sleep(60)'", start_within="300 ms"),
    )
    with pytest.raises(SvloadError) as caught:
        lab.up()
    assert [problem.code for problem in caught.value.problems] == ["service-not-ready"]
    assert host.children == {}


def test_who_wants_out_does_not_wait_for_readiness(tmp_path: Path, host: Any) -> None:
    waiting = command(run=f"{sys.executable} -c 'import time; time.sleep(60)'")
    lab = Lab(
        [waiting],
        host,
        tmp_path / "work",
        tmp_path / "cache",
        study_dir=tmp_path,
        should_stop=lambda: bool(host.children),
    )
    with pytest.raises(SvloadError) as caught:
        lab.up()
    assert [problem.code for problem in caught.value.problems] == ["interrupted"]
    assert host.children == {}


def test_a_service_that_dies_later_is_noticed(tmp_path: Path, host: Any) -> None:
    lab = make(tmp_path, host, command())
    lab.up()
    try:
        host.children["api.server"].kill()
        host.children["api.server"].wait(HANG_S)
        assert [problem.code for problem in lab.alive()] == ["service-died"]
    finally:
        lab.down()


def test_only_what_changed_is_restarted(tmp_path: Path, host: Any) -> None:
    one, two = command("one"), command("two")
    lab = make(tmp_path, host, one, two)
    before = lab.up()
    try:
        assert lab.apply([one, two]) == []
        assert lab.apply([one, command("two", nofile=999)]) == ["two"]
        after = lab.facts()
        assert after["one"].processes == before["one"].processes
        assert after["two"].processes != before["two"].processes
        assert after["two"].endpoints == before["two"].endpoints
        assert after["two"].settings[0].found == "999"
        assert lab.apply([one]) == []
        assert list(lab.facts()) == ["one"]
    finally:
        lab.down()


def test_a_change_that_fails_leaves_a_lab_that_can_be_mended(tmp_path: Path, host: Any) -> None:
    lab = make(tmp_path, host, command("one"), command("two"))
    lab.up()
    try:
        with pytest.raises(SvloadError):
            lab.apply([command("one"), command("two", run=f"{sys.executable} -c 'raise SystemExit(3)'")])
        assert list(lab.facts()) == ["one"]
        assert lab.apply([command("one"), command("two")]) == ["two"]
        assert list(lab.facts()) == ["one", "two"]
    finally:
        lab.down()


def test_a_missing_programme_is_said_before_anything_starts(tmp_path: Path, host: Any) -> None:
    lab = make(tmp_path, host, command(), command("other", run="no-such-programme --port ${port}"))
    with pytest.raises(SvloadError) as caught:
        lab.up()
    assert [problem.code for problem in caught.value.problems] == ["tool-missing"]
    assert host.children == {}


def test_a_fixed_port_that_is_taken_is_said(tmp_path: Path, host: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        lab = make(tmp_path, host, command(port=taken.getsockname()[1]))
        with pytest.raises(SvloadError) as caught:
            lab.up()
    assert [problem.code for problem in caught.value.problems] == ["port-taken"]


@pytest.fixture
def running() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join(HANG_S)


def test_an_external_server_is_neither_started_nor_stopped(tmp_path: Path, host: Any, running: int) -> None:
    lab = make(
        tmp_path, host, ServiceSpec(name="api", kit="external", options={"at": f"http://localhost:{running}"})
    )
    facts = lab.up()["api"]
    assert [(one.scheme, one.address, one.port) for one in facts.endpoints] == [
        ("http", "127.0.0.1", running)
    ]
    lab.down()
    assert host.children == {}
    socket.create_connection(("127.0.0.1", running), 2).close()


def test_an_external_server_that_is_not_there_is_said(tmp_path: Path, host: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    lab = make(
        tmp_path, host, ServiceSpec(name="api", kit="external", options={"at": f"http://127.0.0.1:{port}"})
    )
    with pytest.raises(SvloadError, match="nothing answers"):
        lab.up()


def test_no_name_is_looked_up_and_nothing_sent_outside_loopback(
    tmp_path: Path, host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Any:
        raise AssertionError("looked up or connected")

    lab = make(
        tmp_path, host, ServiceSpec(name="api", kit="external", options={"at": "https://shop.example.test"})
    )
    monkeypatch.setattr(socket, "getaddrinfo", never)
    monkeypatch.setattr(socket, "create_connection", never)
    [endpoint] = lab.up()["api"].endpoints
    assert (endpoint.address, endpoint.port) == ("shop.example.test", 443)
    lab.down()


def test_ports_are_given_once_and_kept_for_their_part() -> None:
    ports = Ports(seed=5)
    given = [ports.take("a", part) for part in ("http", "https", "admin")]
    assert len(set(given)) == 3
    assert all(LOWEST <= port <= HIGHEST for port in given)
    assert ports.take("a", "https") == given[1]
    with pytest.raises(SvloadError):
        ports.take("b", "http", fixed=given[0])


def test_the_accept_queue_is_read_from_the_kernel() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=77) as listener:
        port = listener.getsockname()[1]
        assert backlog_of("127.0.0.1", port) == 77
    assert backlog_of("127.0.0.1", port) is None
