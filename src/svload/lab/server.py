"""`Server`: the base class of kits that start processes. It starts them through the agent, waits for a
condition, watches and stops them."""

from __future__ import annotations

import contextlib
import http.client
import os
import pwd
import shutil
import socket
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from svload.host.machine import linux
from svload.host.machine.sock_diag import listening_sockets
from svload.lab import web
from svload.lab.kit import Kit, KitOptions
from svload.model.errors import Problem, SvloadError, fail
from svload.model.facts import Endpoint, ProcessFact, ServiceFacts, Setting
from svload.model.messages import Limits, Signal, Spawn, WriteFile
from svload.model.private import private_folder

StopSignal = Literal["TERM", "INT", "QUIT", "KILL"]
POLL_S = 0.02
TAIL_LINES = 6
SEARCH_PATH = os.pathsep.join(
    (os.environ.get("PATH", "/usr/bin:/bin"), "/usr/local/sbin", "/usr/sbin", "/sbin")
)
"""The search path for programs: Debian's servers are in sbin, which a user's path may lack."""
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": SEARCH_PATH}


def program(name: str) -> str | None:
    """Return the full path of a server's program, or None."""
    return shutil.which(name, path=SEARCH_PATH)


def path_of(name: str) -> str:
    """Return its full path, or the name itself if it is not found: starting it then fails with a message."""
    return program(name) or name


def user_name() -> str:
    """Return the user that svload runs as: not by its environment, which `su` leaves unchanged."""
    return pwd.getpwuid(os.geteuid()).pw_name


def missing(kit: str, what: str, hint: str, **more: object) -> Problem:
    """Return tool-missing."""
    return Problem("tool-missing", {"kit": kit, "what": what, "hint": hint, **more})


def lacking(kit: str, needed: Mapping[str, str]) -> list[Problem]:
    """Return tool-missing for the missing ones of `needed` (program → apt package), if any."""
    names = [name for name in needed if program(name) is None]
    if not names:
        return []
    packages = sorted({needed[name] for name in names})
    hint = f"As root: apt-get install {' '.join(packages)}; or let “svload lab install” do it."
    return [missing(kit, ", ".join(names), hint, apt=packages)]


class Server(Kit):
    """A kit whose service is processes. Subclasses define `start`, `condition` and `describe`."""

    programs: ClassVar[Mapping[str, str]] = {}
    """Each program that it needs → its apt package."""
    _processes: dict[str, ProcessFact]
    _helpers: set[str]
    _orders: dict[str, Spawn]
    _started_with: KitOptions

    @abstractmethod
    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        """Write configuration and start processes (`write`, `spawn`)."""

    @abstractmethod
    def condition(self) -> bool:
        """Return whether it answers now. An OSError counts as no. Called repeatedly until it is true."""

    @abstractmethod
    def describe(self) -> ServiceFacts:
        """Return the facts without processes, settings and the settling time, which are added later."""

    # what the lab calls

    @classmethod
    def check(cls, options: KitOptions, cache: Path) -> list[Problem]:
        """Return tool-missing for the `programs` that are not installed."""
        return lacking(cls.name, cls.programs)

    def up(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        """Start it afresh in an empty work folder."""
        self._processes, self._helpers, self._orders = {}, set(), {}
        self._started_with = self.options
        private_folder(self.context.work)
        private_folder(self.context.logs)
        self.start(neighbours)

    def ready(self, timeout_s: float) -> None:
        self.wait_for(self.condition, timeout_s)

    def facts(self) -> ServiceFacts:
        return self.describe().model_copy(
            update={
                "processes": tuple(self._own()),
                "settings": self.read_back(),
                "settle_s": self.costs.settle_s,
            }
        )

    def started(self) -> Sequence[ProcessFact]:
        """Return the processes that `spawn` started, helpers included."""
        return tuple(self._processes.values())

    def read_back(self) -> tuple[Setting, ...]:
        """Return the open-file limits of the process that was started last, which serves the clients, and the
        settings from `effective`."""
        own = self._own() if self._processes else []
        return (*(_open_files(self.context.limits, own[-1].pid) if own else ()), *self.effective())

    def effective(self) -> Sequence[Setting]:
        """Return the kit's settings as the running service reports them."""
        return ()

    def alive(self) -> list[Problem]:
        """Return service-died for each process that has ended by itself."""
        return [
            self._death(part, code)
            for part in self._processes
            if (code := self.context.host.exited(self.context.child(part))) is not None
        ]

    def down(self) -> None:
        """Stop its processes in reverse order of their start, and wipe its work folder."""
        parts = getattr(self, "_processes", {})
        if parts:
            with contextlib.suppress(SvloadError):  # the agent is gone, and with it the processes
                self.context.host.stop([self.context.child(part) for part in reversed(parts)])
        self._processes = {}
        shutil.rmtree(self.context.work, ignore_errors=True)

    # what planned faults do to it

    def parts(self, part: str) -> list[str]:
        """Return a part's processes in the order of their start; for the empty part all except helpers."""
        return [name for name in self._processes if name not in self._helpers and self.belongs(name, part)]

    def belongs(self, process: str, part: str) -> bool:
        """Return whether a process, named as at `spawn`, belongs to the part; all belong to the empty one."""
        return part in ("", process)

    def halt(self, parts: Sequence[str], *, now: bool) -> None:
        """End these processes in reverse order; `now`: by SIGKILL. The folders stay."""
        self.context.host.stop([self.context.child(part) for part in reversed(parts)], now=now)

    def start_again(self, parts: Sequence[str], ready_within_s: float | None) -> None:
        """Start ended processes as before; wait until the service answers unless `ready_within_s` is None."""
        for part in parts:
            self._run(part)
        if parts and ready_within_s is not None:
            self.wait_for(self.condition, ready_within_s)
            self.set_again()

    def set_again(self) -> None:
        """Set what `adjust` has changed since `up`, which a process that is started again has lost."""
        wanted, self.options = self.options, self._started_with
        if wanted != self.options:
            self.adjust(wanted)

    def signal(self, parts: Sequence[str], name: Literal["STOP", "CONT"]) -> None:
        """Pause or continue these processes and all that they started."""
        self.context.host.prepare([Signal(child=self.context.child(part), signal=name) for part in parts])

    # what subclasses use

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        """Write a file in the work folder and return its path."""
        path = self.context.work / name
        self.context.host.prepare([WriteFile(path=str(path), text=text, mode=mode, temporary=True)])
        return path

    def spawn(
        self,
        part: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stop_signal: StopSignal = "TERM",
        helper: bool = False,
        secrets: Sequence[str] = (),
    ) -> ProcessFact:
        """Start one process of the service; its output goes to `<part>.log` in the work folder.

        A `helper` belongs to svload: it is watched and stopped with the service, but has none of its limits
        and is not in its facts. The environment variables of the study's secrets are not inherited, except
        those of `secrets`.
        """
        self._orders[part] = Spawn(
            child=self.context.child(part),
            role="server",
            argv=tuple(str(word) for word in argv),
            env={**ENVIRONMENT, **(env or {})},
            withheld=self.context.withheld(secrets),
            cwd=str(cwd or self.context.work),
            log=str(self.log_of(part)),
            limits=self.context.limits,
            group=None if helper else self._group_of(part),
            link=self.context.link,
            stop_signal=stop_signal,
        )
        if helper:
            self._helpers.add(part)
        return self._run(part)

    def _group_of(self, process: str) -> str | None:
        """Return the control group that it starts in. Raises SvloadError if two parts claim it."""
        groups = self.context.part_groups
        mine = [part for part in groups if part and self.belongs(process, part)]
        if len(mine) > 1:
            raise fail(
                "lab-failed",
                place=self.context.service,
                reason=f"{' and '.join(mine)} of {self.context.service} can't both be limited: {process} is in both",
            )
        return groups[mine[0]] if mine else groups.get("", self.context.group)

    def _run(self, part: str) -> ProcessFact:
        [result] = self.context.host.prepare([self._orders[part]])
        self._processes[part] = fact = ProcessFact(
            name=part, pid=result["pid"], start_ticks=result["start_ticks"]
        )
        return fact

    def tool(self, argv: Sequence[str | Path], timeout_s: float = 20.0) -> str:
        """Run a short command to its end and return its output. Raises SvloadError lab-failed if it fails."""
        log = self.context.work / f"tool-{time.monotonic_ns()}.log"
        action = Spawn(
            child=f"{self.context.service}.{log.stem}",
            role="tool",
            argv=tuple(str(word) for word in argv),
            env=ENVIRONMENT,
            withheld=self.context.withheld(),
            cwd=str(self.context.work),
            log=str(log),
            timeout_s=timeout_s,
        )
        [result] = self.context.host.prepare([action], timeout_s=timeout_s + 5.0)
        output = (
            log.read_text(encoding="utf-8", errors="replace") if log.exists() else str(result.get("tail", ""))
        )
        log.unlink(missing_ok=True)
        if result["exit"] != 0:
            raise fail(
                "lab-failed",
                place=self.context.service,
                reason=f"“{' '.join(action.argv[:3])} …” of {self.context.service} ended with "
                f"{result['exit']}: {output[-400:].strip()}",
            )
        return output

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Poll `condition` until it holds. Raises SvloadError service-died or service-not-ready with the end
        of the log, interrupted."""
        deadline = time.monotonic() + timeout_s
        while True:
            if self.context.stopped():
                raise fail("interrupted")
            if dead := self.alive():
                raise SvloadError(*dead)
            try:
                if condition():
                    return
            except (OSError, http.client.HTTPException):
                pass
            if time.monotonic() > deadline:
                log = self._newest_log()
                raise fail(
                    "service-not-ready",
                    place=self.context.service,
                    service=self.context.service,
                    seconds=f"{timeout_s:g}",
                    tail=tail(log),
                    log=log,
                )
            time.sleep(POLL_S)

    def _own(self) -> list[ProcessFact]:
        return [process for part, process in self._processes.items() if part not in self._helpers]

    def log_of(self, part: str) -> Path:
        return self.context.logs / f"{part}.log"

    def reset_failed(self, part: str, why: OSError | SvloadError | str) -> SvloadError:
        """Return reset-failed with its reason and the log of the process that was not reset."""
        reason = "; ".join(one.sentence for one in why.problems) if isinstance(why, SvloadError) else str(why)
        service, log = self.context.service, self.log_of(part)
        return fail("reset-failed", place=service, service=service, reason=reason, log=log)

    def endpoint(self, port: int, scheme: Literal["http", "tcp"] = "http") -> Endpoint:
        """Return its endpoint for plain HTTP, or for raw dialogues."""
        return Endpoint(scheme=scheme, address=self.context.address, port=port)

    def https_endpoint(self, port: int, via: str) -> Endpoint:
        """Return its TLS endpoint, verified by the lab's authority."""
        credentials = self.context.credentials
        return Endpoint(
            scheme="https",
            address=self.context.address,
            port=port,
            ca_pem=credentials.ca_pem if credentials else None,
            via=via,
        )

    def url(self, port: int, path: str = "/") -> str:
        """Return a URL for `svload.lab.web`."""
        return f"http://{self.endpoint(port).connects_to}{path}"

    def answers(self, port: int, path: str) -> bool:
        """Return whether GET `path` is answered with 200."""
        return web.status(self.url(port, path), timeout_s=2.0) == 200

    def accepts(self, port: int) -> bool:
        """Return whether a TCP connection is accepted."""
        with socket.create_connection((self.context.address, port), timeout=2.0):
            return True

    def backlog_setting(self, name: str, asked: int | None, port: int) -> Setting:
        """Return the length of the accept queue in the kernel: min(asked, net.core.somaxconn)."""
        with self._in_its_network():
            found = backlog_of(self.context.address, port)
        return Setting(
            name=name,
            asked=None if asked is None else str(asked),
            found=None if found is None else str(found),
        )

    def _in_its_network(self) -> contextlib.AbstractContextManager[None]:
        """Move this thread into the network of the service's sockets: a linked service has a separate one."""
        if self.context.link is None or not self._processes:
            return contextlib.nullcontext()
        return linux.in_network(f"/proc/{next(iter(self._processes.values())).pid}/ns/net")

    def _death(self, part: str, code: int) -> Problem:
        log = self.log_of(part)
        return Problem(
            "service-died",
            {"service": self.context.child(part), "exit": code, "tail": tail(log), "log": log},
            self.context.service,
        )

    def _newest_log(self) -> Path:
        logs = sorted(
            (path for path in self.context.logs.glob("*.log") if path.stat().st_size),
            key=lambda path: path.stat().st_mtime_ns,
        )
        return logs[-1] if logs else self.log_of(next(iter(self._processes), "server"))


def upstream_of(neighbours: Mapping[str, ServiceFacts], name: str) -> Endpoint:
    """Return the plain HTTP endpoint of a needed service. Raises SvloadError lab-failed if it has none."""
    return upstreams_of(neighbours, name)[0]


def upstreams_of(neighbours: Mapping[str, ServiceFacts], name: str) -> list[Endpoint]:
    """Return a needed service's plain HTTP endpoints, one per replica. Raises SvloadError without any."""
    if found := [endpoint for endpoint in neighbours[name].endpoints if endpoint.scheme == "http"]:
        return found
    raise fail(
        "lab-failed",
        reason=f"{name} offers no plain HTTP endpoint for the services before it",
        hint="Give it one, or point `of` elsewhere.",
    )


def tail(log: Path) -> str:
    """Return the last lines of a log on one line, or “(nothing)”."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            text = file.read().decode(errors="replace")
    except OSError:
        return "(nothing)"
    return (
        " | ".join(line.strip() for line in text.splitlines()[-TAIL_LINES:] if line.strip())[-600:]
        or "(nothing)"
    )


def _open_files(limits: Limits, pid: int) -> Iterator[Setting]:
    """Yield the requested limits of open files, as the kernel has them for a process."""
    found = linux.open_file_limits(pid)
    for name, asked, held in zip(
        ("nofile", "nofile_hard"), (limits.nofile, limits.nofile_hard), found, strict=True
    ):
        if asked is not None:
            cut = held is not None and held.isdecimal() and int(held) < asked
            why = f"the hard limit here is {found[1]}, and may not be raised" if cut else ""
            yield Setting(name=name, asked=str(asked), found=held, layer="process", why=why)


def backlog_of(address: str, port: int) -> int | None:
    """Return the smallest accept-queue limit of the TCP listeners on `port` (the kernel's
    sk_max_ack_backlog); None if there are no listeners.

    Listeners on all addresses are included. The value is min(the server's listen() argument,
    net.core.somaxconn).
    """
    found = (one for one in listening_sockets() if one.port == port and one.serves(address))
    return min((one.write_queue for one in found), default=None)
