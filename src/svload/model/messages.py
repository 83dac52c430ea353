"""What controller and agent say to each other: eight messages, JSON lines over a Unix socket (SSH or Dask only carry them later).

The agent is one machine's hands and knows no kit: services, generators and monitors reach it as processes to start, settings to
change and files to write. Everything it does is in its undo journal before it is done.

request (controller → agent)      reply
HELLO {version, owner, lease}     HELLO {version, agent_pid, machine, cores, root}
CLOCK {}                          CLOCK {monotonic_ns, wall}
PREPARE {actions: […]}            READY {results: […]} (one a action, in order; stops at the first failure) or error
START_AT {children, at_ns}        READY {}
STATUS {since, wait_s}            STATUS {next, notices: […], children: {name: exit | null}} (waits up to wait_s for the first)
STOP {children | all, grace_s, now, end}    READY {exits} (`end`: the lease ends too)
COLLECT {path, offset, max_bytes} COLLECT {data (base64), more}
Every request carries `id`, its reply the same `id` and either its fields or `error` {code, details}.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from svload.model.base import Frozen

MessageKind = Literal["HELLO", "CLOCK", "PREPARE", "READY", "START_AT", "STATUS", "STOP", "COLLECT"]
Role = Literal["server", "generator", "monitor", "tool"]


class Lease(Frozen):
    """How long the agent lives without its owner: `connection` (ends with the socket) or until a wall time."""

    kind: Literal["connection", "until"] = "connection"
    until_wall: float | None = None


class Limits(Frozen):
    """Limits of a process group. `cpus` is a quota in cores, `cores` a cpuset. None: as the machine gives."""

    cores: tuple[int, ...] | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    nofile: int | None = None


class Spawn(Frozen):
    """Start a process in a group of its own that dies with the agent.

    Role `generator` and `monitor` speak JSON lines on stdin and stdout (below); a `server`'s output goes to `log`;
    a `tool` runs to its end within `timeout_s` and returns {exit, tail}. Result: {"pid": machine pid, "start_ticks"}.
    """

    do: Literal["spawn"] = "spawn"
    child: str
    role: Role
    argv: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None
    log: str
    limits: Limits = Limits()
    timeout_s: float = 60.0
    network_namespace: str | None = None
    stop_signal: Literal["TERM", "INT", "QUIT", "KILL"] = "TERM"


class WriteFile(Frozen):
    """Write a file (created with `mode`); undone by removal if `temporary`. Parents are made."""

    do: Literal["write"] = "write"
    path: str
    text: str
    mode: int = 0o644
    temporary: bool = False


class SetSysctl(Frozen):
    """Set /proc/sys/<name>; the old value stands in the journal and is put back. Result: {"old", "found"}."""

    do: Literal["sysctl"] = "sysctl"
    name: str
    value: str


class Tell(Frozen):
    """Send a JSON line to a generator's or monitor's stdin; its answer {"ready": true, …} is the result."""

    do: Literal["tell"] = "tell"
    child: str
    message: dict[str, Any]
    timeout_s: float = 30.0


class Signal(Frozen):
    """Send a signal to a child's group (planted faults: STOP, CONT)."""

    do: Literal["signal"] = "signal"
    child: str
    signal: Literal["STOP", "CONT", "TERM", "KILL", "HUP"]


Action = Annotated[Spawn | WriteFile | SetSysctl | Tell | Signal, Field(discriminator="do")]


class Notice(Frozen):
    """Something the agent noticed: a child's JSON line (`line`), its end (`exit`), or a warning of its own (`note`)."""

    number: int
    child: str
    kind: Literal["line", "exit", "note"]
    data: dict[str, Any]
    monotonic_ns: int


# Lines between agent and its speaking children (generators, monitors):
#   → {"prepare": {…}}            ← {"ready": true, …} or {"error": {"code", "details"}}
#   → {"calibrate": true}         ← {"ready": true, "calibration_ns": t}, of a generator between two loads
#   → {"start_at_ns": n}          ← {"progress": {…}} about once a second, then {"done": {…, "start_at_ns"}} (n = 0: at once, at a moment of its own)
#   → {"stop": true}              ← {"done": {…}}
#   → end of input: the child ends.
