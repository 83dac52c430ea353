"""A lab kept on purpose: a process that holds it until its lease ends (`svload lab up --for 2h`).

It owns the agent by a connection lease, so that even its own kill -9 ends the lab. It answers one JSON line with another on a
Unix socket: {"do": "status" | "reset" | "down"}.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from svload import study
from svload.host import cache_dir, labs_dir, list_labs, split_cores, start_agent, state_dir
from svload.lab import Lab, endpoints
from svload.model.errors import Problem, SvloadError, fail
from svload.model.events import Event
from svload.model.messages import Lease
from svload.model.study import Lock

UP_TIMEOUT_S = 300.0
ASK_TIMEOUT_S = 60.0
_SOCKET, _FACTS, _LOCK, _ALIVE = "keeper.sock", "keeper.json", "keeper.lock.json", "alive"


def keep(lock: Lock, lease_s: float) -> dict[str, Any]:
    """Start a keeper for the lab of `lock`'s first case; returns when it is up, with id, until and endpoints. Raises SvloadError."""
    folder = _folder(f"{lock.name}-{os.getpid()}-{time.time_ns() % 10**6}")
    folder.mkdir(parents=True)
    (folder / _LOCK).write_text(lock.to_json())
    log = folder / "keeper.log"
    argv = [sys.executable, "-m", "svload.run.keeper", str(folder), str(time.time() + lease_s)]
    with log.open("wb") as out, (folder / _ALIVE).open("wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            pass_fds=[alive.fileno()],
        )
    until = time.monotonic() + UP_TIMEOUT_S
    while time.monotonic() < until:
        if (folder / _FACTS).exists():
            return dict(json.loads((folder / _FACTS).read_text()))
        if process.poll() is not None:
            break
        time.sleep(0.02)
    error = _failure(folder, log)
    _remove_dead(folder)
    raise error


def _failure(folder: Path, log: Path) -> SvloadError:
    told = folder / "failure.json"
    if told.exists():
        problems = json.loads(told.read_text())
        return SvloadError(
            *(Problem(problem["code"], problem["details"], problem["place"]) for problem in problems)
        )
    tail = log.read_text(errors="replace")[-300:] if log.exists() else ""
    return fail("lab-failed", reason=f"its keeper ended: {tail.strip() or 'no word'}", hint=f"See {log}.")


def kept_labs() -> list[dict[str, Any]]:
    """Facts of every kept lab whose keeper answers; the remains of dead ones are removed."""
    labs = []
    for folder in sorted(_folder("").glob("*")):
        if (folder / _FACTS).exists() and _answers(folder):
            labs.append(dict(json.loads((folder / _FACTS).read_text())))
        else:
            _remove_dead(folder)
    return labs


def _remove_dead(folder: Path) -> None:
    """Remove a keeper's folder if nobody holds its lock, which the kernel drops with the keeper's life."""
    with suppress(OSError), (folder / _ALIVE).open("rb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


def ask(lab_id: str, what: str) -> dict[str, Any]:
    """Ask a keeper to `reset` or go `down`; its answer. Raises SvloadError usage if there is none."""
    folder = _folder(lab_id)
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ASK_TIMEOUT_S)
            line.connect(str(folder / _SOCKET))
            line.sendall(json.dumps({"do": what}).encode() + b"\n")
            answer = line.makefile().readline()
        return dict(json.loads(answer))
    except (OSError, ValueError) as why:
        known = ", ".join(lab["id"] for lab in kept_labs()) or "none"
        raise fail(
            "usage", reason=f"No lab {lab_id} answers ({why})", hint=f"Labs that are up: {known}."
        ) from why


def _answers(folder: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(2)
            line.connect(str(folder / _SOCKET))
        return True
    except OSError:
        return False


def _folder(lab_id: str) -> Path:
    return state_dir() / "kept" / lab_id


def main(folder: Path, until_wall: float) -> int:
    """Hold the lab until the lease ends, TERM comes or `down` is asked."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    lock = Lock.read(folder / _LOCK)
    config = study.resolve(lock, lock.valid_cases[0])
    try:
        with start_agent(labs_dir() / folder.name, Lease(), f"lab {folder.name}") as agent:
            cores = split_cores(agent.cores)
            lab = Lab(config.services, agent, agent.dir, cache_dir(), cores.servers if cores.pinned else None, _note,
                      study_dir=Path(lock.study_dir))  # fmt: skip
            try:
                lab.up()
                for objects in config.objects:
                    lab.fill(objects, lock.seed)
                _serve(folder, lab, lock, until_wall)
            finally:
                lab.down()
    except SvloadError as error:
        told = [{"code": p.code, "details": p.details, "place": p.place} for p in error.problems]
        (folder / "failure.json").write_text(json.dumps(told, default=str))
        return int(error.exit_code)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _serve(folder: Path, lab: Lab, lock: Lock, until_wall: float) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(folder / _SOCKET))
        door.listen(8)
        facts = {
            "id": folder.name,
            "study": lock.name,
            "until": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(until_wall)),
            "pid": os.getpid(),
            "endpoints": {
                name: f"{at.scheme}://{at.connects_to}" for name, at in endpoints(lab.facts()).items()
            },
        }
        temporary = folder / f".{_FACTS}"
        temporary.write_text(json.dumps(facts))
        temporary.rename(folder / _FACTS)
        while (left := until_wall - time.time()) > 0:
            door.settimeout(min(left, 1.0))
            if died := lab.alive():
                raise SvloadError(*died)
            try:
                line, _ = door.accept()
            except TimeoutError:
                continue
            with line:
                if _answer(line, lab) == "down":
                    return


def _answer(line: socket.socket, lab: Lab) -> str:
    line.settimeout(5)
    try:
        wanted = str(json.loads(line.makefile().readline() or "{}").get("do", ""))
        answer: dict[str, Any] = {"ok": True}
        if wanted == "reset":
            answer["proof"] = lab.reset(list(lab.facts()))
        line.sendall(json.dumps(answer, default=str).encode() + b"\n")
        return wanted
    except (OSError, ValueError):
        return ""


def _note(event: Event) -> None:
    print(event.to_json(), flush=True)


def agents() -> list[str]:
    """Owners of all agents on this machine, kept or running."""
    return [lab.owner for lab in list_labs() if lab.alive]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
