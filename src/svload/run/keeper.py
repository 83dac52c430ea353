"""The process that keeps a lab until its lease ends (`svload lab up --for 2h`).

It owns the agent through a connection lease, so that even kill -9 of the keeper ends the lab. Its requests
are described in svload.run.kept.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from svload import study
from svload.host import cache_dir, labs_dir, split_cores, start_agent
from svload.host.agent.unix_socket import is_own, listen
from svload.lab import Lab, endpoints, needs_own_network
from svload.model.errors import ExitCode, Problem, SvloadError
from svload.model.events import Event
from svload.model.outputs import write_output
from svload.model.study import Lock
from svload.run.attempts import without_logs
from svload.run.kept import FACTS, LOCK, SOCKET


def main(folder: Path, until_wall: float) -> int:
    """Hold the lab until the lease ends, also while it comes up, or TERM or `down` is received."""

    def has_ended() -> bool:
        return time.time() >= until_wall

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    lock = Lock.read(folder / LOCK)
    config = study.resolve(lock, lock.valid_cases[0])
    try:
        place, own_network = labs_dir() / folder.name, needs_own_network(config)
        with start_agent(place, f"lab {folder.name}", own_network=own_network) as agent, agent.joined():
            cores = split_cores(agent.cores)
            lab = Lab(config.services, agent, agent.dir, cache_dir(), cores.servers if cores.pinned else None, _note,
                      study_dir=Path(lock.study_dir), should_stop=has_ended, secrets=config.secrets,
                      sysctl=config.sysctl, trusted=lock.trusted)  # fmt: skip
            try:
                lab.up()
                lab.stores.fill_all(config.objects, lock.seed)
                network = f"/proc/{agent.pid}/ns/net" if agent.own_network else None
                _serve(folder, lab, lock, until_wall, network)
            finally:
                lab.down()
    except SvloadError as error:
        if error.exit_code is ExitCode.INTERRUPTED:  # by the end of its lease, which its starter reports
            return 0
        problems = [
            without_logs(p, "A run of the study (svload run) keeps its logs.") for p in error.problems
        ]
        write_output(folder / "failure.json", json.dumps(_reports(problems), default=str))
        return int(error.exit_code)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _serve(folder: Path, lab: Lab, lock: Lock, until_wall: float, network: str | None) -> None:
    """Answer requests. `network` is the file of the lab's own network, the only one in which its servers are
    reached; None if it has none."""
    with listen(folder, SOCKET, 8) as door:
        facts = {
            "id": folder.name,
            "study": lock.name,
            "until": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(until_wall)),
            "pid": os.getpid(),
            "network": network,
            "endpoints": {
                name: f"{at.scheme}://{at.connects_to}" for name, at in endpoints(lab.facts()).items()
            },
        }
        write_output(folder / FACTS, json.dumps(facts))
        while (left := until_wall - time.time()) > 0:
            door.settimeout(min(left, 1.0))
            if died := lab.alive():
                raise SvloadError(*died)
            try:
                line, _ = door.accept()
            except TimeoutError:
                continue
            with line:
                if is_own(line) and _answer(line, lab) == "down":
                    return


def _answer(line: socket.socket, lab: Lab) -> str:
    line.settimeout(5)
    try:
        wanted = str(json.loads(line.makefile().readline() or "{}").get("do", ""))
        answer: dict[str, Any] = {"ok": True}
        if wanted == "reset":
            try:
                answer["proof"] = lab.reset(list(lab.facts()))
            except SvloadError as error:  # the lab stays up
                answer = {"ok": False, "problems": _reports(error.problems)}
        line.sendall(json.dumps(answer, default=str).encode() + b"\n")
        return wanted
    except (OSError, ValueError):
        return ""


def _reports(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    return [{"code": one.code, "details": one.details, "place": one.place} for one in problems]


def _note(event: Event) -> None:
    print(event.to_json(), flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
