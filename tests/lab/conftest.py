"""Fixtures for tests of kits: a lab of services (`lab_of`), the agent that starts them, and a client."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import completed

from svload.host import Agent, start_agent
from svload.lab import Lab
from svload.lab.kits.redis import _encoded, _read
from svload.model.facts import Endpoint, ServiceFacts
from svload.model.study import ServiceSpec


@pytest.fixture(scope="module")
def shared_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with start_agent(tmp_path_factory.mktemp("lab") / "agent", "tests of the lab") as made:
        yield made


@pytest.fixture
def host(shared_agent: Agent) -> Iterator[Agent]:
    """Return the agent that the tests of a file share; what a test started ends with it."""
    yield shared_agent
    shared_agent.stop(None, now=True)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    """Return an agent with its own folder."""
    with start_agent(tmp_path / "agent", "tests of the lab") as made:
        yield made


@pytest.fixture
def lab_of(tmp_path: Path, host: Any) -> Any:
    """Return lab_of(spec(…), …) → a lab in the folder `tmp_path`, of which nothing is left after the test."""
    labs: list[Lab] = []

    def make(*specs: ServiceSpec, work: str = "work", **more: Any) -> Lab:
        labs.append(Lab(specs, host, tmp_path / work, tmp_path / "cache", study_dir=tmp_path, **more))
        return labs[-1]

    yield make
    for lab in labs:
        facts = lab.facts().values()
        lab.down()
        assert gone(pids_of(*facts))
        assert not [path for one in facts for path in folders(one) if path.exists()]


@pytest.fixture
def up(lab_of: Any) -> Any:
    """Return up(spec(…), …) → a lab that is up."""

    def make(*specs: ServiceSpec, **more: Any) -> Lab:
        lab: Lab = lab_of(*specs, **more)
        lab.up()
        return lab

    return make


def spec(name: str, kit: str, **options: Any) -> ServiceSpec:
    """Return a service, as a study would have it."""
    return ServiceSpec(name=name, kit=kit, options=options)


def settled(lab: Lab, service: str, wanted: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """Read the service's counters since `before` until `wanted` is reached; return them."""
    deadline = time.monotonic() + HANG_S
    while True:
        values = lab.counters()[service].values
        found = {key: values[key] - before.get(key, 0.0) for key in wanted}
        if found == wanted or time.monotonic() > deadline:
            return found


Answers = list[tuple[int, bytes]]


def fetched(at: Endpoint, path: str, times: int = 1, method: str = "GET", **headers: str) -> Answers:
    """Return status and body of each request of one connection; `{}` in a header is its number."""
    line = http.client.HTTPConnection(at.address, at.port, timeout=HANG_S)
    if at.scheme == "https":
        tls = ssl.create_default_context(cadata=at.ca_pem)
        line = http.client.HTTPSConnection("localhost", at.port, context=tls, timeout=HANG_S)
    found = []
    with contextlib.closing(line):
        for number in range(times):
            sent = {name.replace("_", "-"): value.format(number) for name, value in headers.items()}
            line.request(method, path, headers=sent)
            answer = line.getresponse()
            found.append((answer.status, answer.read()))
    return found


def sizes(at: Endpoint, path: str, times: int = 1, **headers: str) -> list[tuple[int, int]]:
    """Return status and size of each GET of one connection."""
    return [(status, len(body)) for status, body in fetched(at, path, times, **headers)]


def settings_of(facts: ServiceFacts) -> dict[str, str | None]:
    """Return the service's value of each setting."""
    return {one.name: one.found for one in facts.settings}


def gone(lab_pids: list[int]) -> bool:
    """Return whether all these processes have ended."""
    return not any(Path(f"/proc/{pid}").exists() for pid in lab_pids)


def pids_of(*services: ServiceFacts) -> list[int]:
    """Return the pids of these services' processes."""
    return [process.pid for one in services for process in one.processes]


def folders(facts: ServiceFacts) -> set[Path]:
    """Return the folders of the service's control groups."""
    return {Path(path) for group in facts.groups for path in group.paths.values()}


def procs(path: str) -> set[int]:
    """Return the pids of the processes in a control group."""
    return {int(pid) for pid in Path(path, "cgroup.procs").read_text().split()}


@contextlib.contextmanager
def redis(at: Endpoint) -> Iterator[Callable[..., Any]]:
    """Return say(word, …) → the answer; errors as Redis words them."""
    with socket.create_connection((at.address, at.port), 5) as line, line.makefile("rb") as answers:

        def say(*words: str) -> Any:
            line.sendall(_encoded(words))
            try:
                return _read(answers)
            except OSError as why:
                return f"refused: {why}"

        yield say


def mariadb(at: Endpoint, statement: str, password: str = "lab") -> str:
    """Return MariaDB's answers to the user `lab`, over TCP."""
    where = f"--no-defaults --host={at.address} --port={at.port} --user=lab --password={password}"
    form = "--batch --skip-column-names lab"
    done = completed(["mariadb", *where.split(), *form.split(), f"--execute={statement}"])
    return (done.stdout + done.stderr).strip()
