"""Kits that start processes, with ordinary programs."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.servers import accepts, free_port, serving

from svload.host import Agent
from svload.lab import faults, standing
from svload.lab.ports import HIGHEST, LOWEST, Ports
from svload.lab.server import backlog_of
from svload.lab.web import call
from svload.model.errors import SvloadError
from svload.model.events import Event
from svload.model.study import ServiceSpec

from .conftest import gone, spec

pytestmark = pytest.mark.truth
SERVER = f"{sys.executable} -m http.server --bind 127.0.0.1 ${{port}}"


def command(name: str = "api", **options: Any) -> ServiceSpec:
    return spec(name, "command", **{"run": SERVER, "ready": "GET /"} | options)


def is_known(host: Agent, child: str) -> bool:
    """Return whether a child of that name was ever started."""
    with suppress(SvloadError):
        host.exited(child)
        return True
    return False


def test_a_command_starts_on_a_free_port_and_leaves_nothing(lab_of: Any, tmp_path: Path) -> None:
    (tmp_path / "beside-the-study.txt").write_text("here")
    events: list[Event] = []
    lab = lab_of(command(nofile=400_000), on_event=events.append)
    facts = lab.up()["api"]
    [endpoint] = facts.endpoints
    assert LOWEST <= endpoint.port <= HIGHEST
    assert call(f"http://127.0.0.1:{endpoint.port}/beside-the-study.txt") == (200, b"here")
    assert lab.endpoints() == {"http://api": endpoint}
    assert [(one.name, one.asked) for one in facts.settings] == [("nofile", "400000")]
    assert lab.alive() == []
    [process] = facts.processes
    assert not gone([process.pid])
    lab.down()
    assert gone([process.pid])
    assert not (tmp_path / "work/services").exists()
    assert [event.data["state"] for event in events if event.kind == "service"] == ["up", "ready", "down"]


def test_a_setting_that_the_machine_cut_is_reported(up: Any) -> None:
    events: list[Event] = []
    up(command(nofile=999_999_999, nofile_hard=1_000_000_000), on_event=events.append)
    soft, hard = (event.data for event in events if event.kind == "setting")
    assert (soft["what"], soft["asked"]) == ("api.nofile", "999999999")
    assert (hard["what"], hard["asked"]) == ("api.nofile_hard", "1000000000")
    assert soft["found"] == hard["found"] != soft["asked"]
    assert hard["why"] == f"the hard limit here is {hard['found']}, and may not be raised"


def test_a_service_that_dies_at_once_is_reported_with_its_last_words(lab_of: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit('the tea is cold')")
    lab = lab_of(command(run=f"{sys.executable} broken.py"))
    with pytest.raises(SvloadError) as caught:
        lab.up()
    [problem] = caught.value.problems
    assert problem.code == "service-died"
    assert "the tea is cold" in str(problem)
    assert "the tea is cold" in Path(str(problem.details["log"])).read_text(), "where it sends its reader"
    assert not (tmp_path / "work/services").exists()


@pytest.mark.parametrize("stops", [False, True], ids=["it never answers", "the user wants out"])
def test_a_service_that_is_not_ready_is_ended(lab_of: Any, host: Agent, stops: bool) -> None:
    run = f"{sys.executable} -c 'import time; time.sleep(60)'"
    if stops:
        lab = lab_of(command("silent", run=run), should_stop=lambda: is_known(host, "silent.server"))
    else:
        lab = lab_of(command("silent", run=run, start_within="300 ms"))
    with pytest.raises(SvloadError) as caught:
        lab.up()
    assert [one.code for one in caught.value.problems] == ["interrupted" if stops else "service-not-ready"]
    assert host.exited("silent.server") is not None


def test_a_command_takes_as_long_as_it_says(up: Any, host: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own bound for its start counts also when it is started again; its death is noticed."""
    for module in (standing, faults):
        monkeypatch.setattr(module, "READY_WITHIN_S", 1e-9)
    lab = up(command())
    lab.faults.act("kill", "api", "", {})
    lab.faults.act("start", "api", "", {})
    host.stop(["api.server"], now=True)
    assert [problem.code for problem in lab.alive()] == ["service-died"]


def test_only_what_changed_is_restarted_and_a_change_that_fails_can_be_repaired(lab_of: Any) -> None:
    one, two = command("one"), command("two")
    lab = lab_of(one, two)
    before = lab.up()
    assert lab.apply([one, two]) == []
    assert lab.apply([one, command("two", nofile=999)]) == ["two"]
    after = lab.facts()
    assert after["one"].processes == before["one"].processes
    assert after["two"].processes != before["two"].processes
    assert after["two"].endpoints == before["two"].endpoints
    assert after["two"].settings[0].found == "999"
    with pytest.raises(SvloadError):
        lab.apply([one, command("two", run=f"{sys.executable} -c 'raise SystemExit(3)'")])
    assert list(lab.facts()) == ["one"]
    assert lab.apply([one, two]) == ["two"]
    assert list(lab.facts()) == ["one", "two"]
    assert lab.apply([one]) == []
    assert list(lab.facts()) == ["one"]


def test_a_missing_program_is_reported_before_anything_starts(lab_of: Any, host: Agent) -> None:
    lab = lab_of(command("unborn"), command("other", run="no-such-programme --port ${port}"))
    with pytest.raises(SvloadError) as caught:
        lab.up()
    assert [problem.code for problem in caught.value.problems] == ["tool-missing"]
    assert not is_known(host, "unborn.server")


def test_a_fixed_port_that_is_taken_is_reported(lab_of: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        lab = lab_of(command(port=taken.getsockname()[1]))
        with pytest.raises(SvloadError, match=rf"\(process {os.getpid()}, ") as caught:
            lab.up()
    assert [problem.code for problem in caught.value.problems] == ["port-taken"]


def external(at: str) -> ServiceSpec:
    return spec("there", "external", at=at)


def test_an_external_server_is_neither_started_nor_stopped(lab_of: Any, host: Agent) -> None:
    with serving() as port:
        lab = lab_of(external(f"http://localhost:{port}"))
        [found] = lab.up()["there"].endpoints
        assert (found.scheme, found.address, found.port) == ("http", "127.0.0.1", port)
        lab.down()
        assert not is_known(host, "there.server")
        assert accepts(port)
    with pytest.raises(SvloadError, match="nothing answers"):
        lab_of(external(f"http://127.0.0.1:{free_port()}")).up()


def test_nothing_leaves_loopback(lab_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> Any:
        raise AssertionError("looked up or connected")

    lab = lab_of(external("https://shop.example.test"))
    monkeypatch.setattr(socket, "getaddrinfo", never)
    monkeypatch.setattr(socket, "create_connection", never)
    [endpoint] = lab.up()["there"].endpoints
    assert (endpoint.address, endpoint.port) == ("shop.example.test", 443)
    lab.down()


def test_ports_are_given_once_and_kept_for_their_part() -> None:
    ports = Ports(seed=5)
    given = [ports.take("a", part) for part in ("http", "https", "admin")]
    assert len(set(given)) == 3
    assert all(LOWEST <= port <= HIGHEST for port in given)
    assert ports.take("a", "https") == given[1]
    for service, part in (("b", "http"), ("a", "status")):
        with pytest.raises(SvloadError):
            ports.take(service, part, fixed=given[0])
    with socket.create_server(("127.0.0.2", 0), backlog=77) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SvloadError, match=f"[Pp]ort {port}"):
            Ports().take("a", "http", port, "127.0.0.2")
        assert Ports().take("a", "http", port) == port, "free at the address where its server listens"
        assert backlog_of("127.0.0.2", port) == 77
    assert backlog_of("127.0.0.2", port) is None
