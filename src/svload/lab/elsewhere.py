"""Servers on other machines (`on:`): `There` is their place in the controller, `Hosted` its counterpart on
that machine, in the agent's process.

Kits run on the machine of their servers, so that they need no special cases: they write files, find programs
and query servers there. Only values (specs, facts, counters), events and errors are transferred.
"""

from __future__ import annotations

import datetime
import io
import queue
import socket
import tarfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.lab.kit import KitOptions
from svload.lab.place import Place
from svload.model.errors import Problem, SvloadError, fail
from svload.model.facts import Counters, ServiceFacts
from svload.model.outputs import write_output
from svload.model.private import private_folder
from svload.model.study import ServiceSpec

if TYPE_CHECKING:
    from svload.host import Agent
    from svload.host.machines.remote import RemoteMachine

HAND = "svload.lab.elsewhere:Hosted"
MOST_STUDY_BYTES = 64 << 20
"""The maximum size of a study's folder that is copied to a machine with servers."""
_LEFT_BEHIND = frozenset({".git", ".venv", "__pycache__", "runs", "results", "build", "node_modules"})


def _forwarded(method: str) -> Any:
    return lambda self, *words: self._ask(method, *words)


class There(Place):
    """The servers on `machine`. The study's folder, `study`, is copied there first. Raises SvloadError."""

    def __init__(
        self,
        machine: RemoteMachine,
        study: Path,
        folder: Path,
        emit: Callable[[Any], None],
        should_stop: Callable[[], bool],
        *,
        answers_within_s: float,
        life: datetime.timedelta,
        live_limits: Mapping[str, Sequence[str]],
        trusted: bool = False,
    ) -> None:
        self._machine, self._folder = machine, folder
        self._emit, self._should_stop = emit, should_stop
        self._stopped = False
        fields = {
            "study": packed_folder(study),
            "address": _numeric(machine),
            "answers_within_s": answers_within_s,
            "life": life,
            "live_limits": {service: tuple(kinds) for service, kinds in live_limits.items()},
            "trusted": trusted,
        }
        machine.hand("servers", HAND, fields)

    def lacks(self, specs: Sequence[ServiceSpec]) -> list[Problem]:
        found: list[Problem] = self._ask("lacks", list(specs))
        return [
            Problem(one.code, {**one.details, "host": self._machine.name}, self._machine.name)
            for one in found
        ]

    def start(
        self, spec: ServiceSpec, options: KitOptions, neighbours: Mapping[str, ServiceFacts], reached: bool
    ) -> ServiceFacts:
        return self._brought(self._ask("start", spec, options, dict(neighbours), reached))

    def described(self, name: str, options: KitOptions) -> ServiceFacts:
        return self._brought(self._ask("described", name, options))

    def counters(self, name: str) -> Counters | None:
        found: Counters | None = self._ask("counters", name)
        return found and found.model_copy(update={"at_ns": self._machine.offset().here(found.at_ns)})

    stop = _forwarded("stop")
    adjust = _forwarded("adjust")
    ends = _forwarded("ends")
    reset = _forwarded("reset")
    drop_cache = _forwarded("drop_cache")
    plant = _forwarded("plant")
    hold = _forwarded("hold")
    act = _forwarded("act")
    heal = _forwarded("heal")
    is_down = _forwarded("is_down")
    was_ended = _forwarded("was_ended")
    free_ports = _forwarded("free_ports")
    wipe = _forwarded("wipe")

    def _ask(self, method: str, *words: Any) -> Any:
        """Return the answer of `Hosted.do`; its events and errors are emitted and raised here."""
        answer = self._machine.tell("servers", "do", (method, words), self._look)
        for event in answer["events"]:
            self._emit(event)
        if answer["problems"]:
            raise SvloadError(*(self._problem(one) for one in answer["problems"]))
        if answer["silent"]:
            raise OSError(answer["silent"])
        return answer["answer"]

    def _problem(self, problem: Problem) -> Problem:
        """Return the problem with the machine's name before each path."""
        details = dict(problem.details)
        if "log" in details:
            details["log"] = f"{self._machine.name}:{details['log']}"
        return Problem(problem.code, details, problem.place)

    def _look(self) -> None:
        """Tell those who wait on the machine if the user has interrupted."""
        if self._should_stop() and not self._stopped:
            self._stopped = True
            self._machine.tell("servers", "stop_waiting", (), lambda: None)

    def _brought(self, facts: ServiceFacts) -> ServiceFacts:
        """Return the facts with the machine's name, and with a store's key copied here; a store's notes on
        its kept data stay there, unread."""
        facts = facts.model_copy(update={"machine": self._machine.name})
        store = facts.admin.get("object_store")
        if store is None:
            return facts
        store = {**store, "data_dir": None}
        if key_file := store.get("auth", {}).get("key_file"):
            private_folder(self._folder)
            copy = self._folder / f"{self._machine.name}.{facts.service}.key"
            write_output(copy, self._machine.agent.collect(key_file), 0o600)
            store["auth"] = {**store["auth"], "key_file": str(copy)}
        return facts.model_copy(update={"admin": {**facts.admin, "object_store": store}})


def _numeric(machine: RemoteMachine) -> str:
    """Return the numeric address at which the machine's servers listen. Raises SvloadError fleet-on."""
    try:
        return str(socket.getaddrinfo(machine.address, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as why:
        reason, hint = (
            f"{machine.address} is not an address ({why.strerror})",
            "Name one as svload_address in the inventory.",
        )
        raise fail("fleet-on", service="a server", on=machine.name, reason=reason, hint=hint) from why


class Hosted:
    """The place of a machine's servers, in the process of its `agent`. Errors are part of the answer."""

    def __init__(
        self,
        agent: Agent,
        study: bytes,
        address: str,
        answers_within_s: float,
        life: datetime.timedelta,
        live_limits: Mapping[str, Sequence[str]],
        trusted: bool = False,
    ) -> None:
        from svload.host import cache_dir
        from svload.host.machine.cores import split_cores
        from svload.lab.groups import ServiceGroups
        from svload.lab.links import ServiceLinks
        from svload.lab.standing import Starter

        self._stop, self._events = threading.Event(), queue.SimpleQueue[Any]()
        folder, cache = agent.dir, cache_dir()
        private_folder(cache)
        private_folder(folder / "study")
        unpack(study, folder / "study")
        split = split_cores(agent.cores)
        cores = split.servers if split.pinned else None
        starter = Starter(
            host=agent,
            groups=ServiceGroups(agent, live_limits),
            links=ServiceLinks(agent, folder / "links", cores),
            work=folder / "services",
            logs=folder / "logs",
            cache=cache,
            study=folder / "study",
            cores=cores,
            secrets={},
            stopped=self._stop.is_set,
            answers_within_s=answers_within_s,
            life=life,
            tell=self._events.put,
            address=address,
            trusted=trusted,
        )
        self._here = Place(starter)

    def do(self, method: str, words: Sequence[Any]) -> dict[str, Any]:
        """Call a method of `Place` by name; return its answer, the events until now, and any error. Several
        threads may call it at once."""
        answer, problems, silent = None, list[Problem](), ""
        try:
            answer = getattr(self._here, method)(*words)
        except SvloadError as why:
            problems = [_plain(one) for one in why.problems]
        except OSError as why:
            silent = str(why) or type(why).__name__
        except Exception as why:  # a bug in svload: nothing else would report it there
            problems = list(fail("lab-failed", reason=f"{type(why).__name__}: {why}", hint="").problems)
        events = []
        with suppress(queue.Empty):
            while True:
                events.append(self._events.get_nowait())
        answer = [_plain(one) for one in answer] if method == "lacks" and answer else answer
        return {"answer": answer, "events": events, "problems": problems, "silent": silent}

    def stop_waiting(self) -> None:
        """End all waiting for servers."""
        self._stop.set()


def _plain(problem: Problem) -> Problem:
    """Return the problem without objects that exist only on this machine."""
    details: dict[str, object] = {
        name: value if isinstance(value, (int, float, str, tuple, list)) else str(value)
        for name, value in problem.details.items()
    }
    return Problem(problem.code, details, problem.place)


def packed_folder(folder: Path) -> bytes:
    """Return a study's folder as a tar file, without the results of runs and builds. Raises SvloadError
    file-refused if it is larger than MOST_STUDY_BYTES.

    A link to one of its files becomes a file; one that leads elsewhere is left out, as no kit opens it.
    """
    out, size, root = io.BytesIO(), 0, folder.resolve()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1, dereference=True) as tar:
        for path in _files(folder):
            if root not in path.resolve().parents:
                continue
            size += path.stat().st_size
            if size > MOST_STUDY_BYTES:
                reason = f"it holds more than {MOST_STUDY_BYTES >> 20} MiB, and would be copied to each machine that runs servers"
                raise fail("file-refused", path=folder, reason=reason)
            tar.add(path, str(path.relative_to(folder)), recursive=False)
    return out.getvalue()


def _files(folder: Path) -> Iterable[Path]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            if path.name not in _LEFT_BEHIND:
                yield from _files(path)
        elif path.is_file():
            yield path


def unpack(data: bytes, folder: Path) -> None:
    """Unpack the result of `packed_folder`; writes nothing outside `folder`."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        tar.extractall(folder, filter="data")
