"""Messages between controller and agent: nine kinds, JSON lines over a Unix socket (SSH and Dask only
forward them).

The agent acts on one machine and knows no kit: services, generators and monitors are for it processes to start,
settings to change and files to write. It writes every action to its undo journal before carrying it out.

request (controller → agent)      reply
HELLO {version, owner, lease}     HELLO {version, agent_pid, machine, cores, root}
CLOCK {}                          CLOCK {monotonic_ns, wall}
PREPARE {actions: […]}            READY {results: […]} (one per action, in order; stops at the first failure) or error
START_AT {children, at_ns}        READY {}
STATUS {since, wait_s}            STATUS {next, notices: […], children: {name: exit | null}} (waits up to wait_s for the first)
STOP {children | all, grace_s, now, end}    READY {exits} (`end`: the lease ends too)
COLLECT {path, offset, max_bytes} COLLECT {data (base64), more}
PUT {path, offset, data, more, mode, temporary}  READY {} (in order; the file takes its name with the last part)
Every request has an `id`, its reply the same `id` and either its fields or `error` {code, details}.

Plain dataclasses: an agent starts its first child before libraries that validate studies could be loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from types import UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

Role = Literal["server", "generator", "monitor", "tool"]


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message that travels over the socket as a JSON object of its fields; both sides check their types."""

    def plain(self) -> dict[str, Any]:
        """Return the message as JSON data; field values are not copied."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: value.plain() if isinstance(value, Message) else value for name, value in values.items()
        }

    @classmethod
    def read(cls, raw: Any) -> Self:
        """Read a message from `raw`, a JSON object. Raises ValueError naming the field and its mistake."""
        if not isinstance(raw, dict):
            raise ValueError(f"{cls.__name__} is no object")
        kind: Any = cls
        hints = _hints(kind)
        if unknown := sorted(raw.keys() - hints.keys()):
            raise ValueError(f"{cls.__name__} has no field “{unknown[0]}”")
        for one in fields(cls):
            if one.name not in raw and one.default is MISSING and one.default_factory is MISSING:
                raise ValueError(f"{cls.__name__} lacks “{one.name}”")
        return cls(**{name: _understood(value, hints[name], name) for name, value in raw.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _understood(value: Any, hint: Any, name: str) -> Any:
    """Read `value` of a JSON document as the type `hint`. Raises ValueError."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is UnionType:
        if value is None and type(None) in parts:
            return None
        return _understood(value, next(part for part in parts if part is not type(None)), name)
    if origin is Literal and value in parts:
        return value
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_understood(one, parts[0], name) for one in value)
    if origin is dict and isinstance(value, dict):
        return {key: _understood(one, parts[1], name) for key, one in value.items()}
    if isinstance(hint, type) and issubclass(hint, Message):
        return value if isinstance(value, hint) else hint.read(value)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if origin is None and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise ValueError(f"“{name}” cannot be {value!r}")


@dataclass(frozen=True, kw_only=True)
class Limits(Message):
    """Limits of each single process. `cores` are those that it may run on; `nofile` is the soft limit of open
    files. None: the machine's default."""

    cores: tuple[int, ...] | None = None
    nofile: int | None = None
    nofile_hard: int | None = None


@dataclass(frozen=True, kw_only=True)
class GroupLimits(Message):
    """Limits that a control group's processes share, with children. `cpus`: a quota in cores. None: no
    limit."""

    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None
    disk_read_bytes_per_s: int | None = None
    disk_write_bytes_per_s: int | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the names of the limits that are set, as in `read_back`."""
        return tuple(name for name, value in self.plain().items() if value is not None)


@dataclass(frozen=True, kw_only=True)
class MakeGroup(Message):
    """Make a control group, below the group `within` if given; removed with the lab. An existing group gets
    these limits.

    `open_to` names limits that are not set, and that `SetLimits` may set later.
    Disk rates apply to the disks that contain `folders`.
    Result: {"paths": folder by controller, "found": the limits as the kernel reports them}.
    """

    do: Literal["group"] = "group"
    name: str
    limits: GroupLimits
    within: str | None = None
    open_to: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SetLimits(Message):
    """Change limits of a control group while its processes run. None leaves a limit as it is; those named in
    `lifted` are removed.

    The journal keeps the limits from before the first change, which are restored if nobody does it earlier. A
    limit that the group was not made open to is refused. Result: {"before", "found": the kernel's limits
    before and after, a limit that is not set being absent}.
    """

    do: Literal["limits"] = "limits"
    name: str
    limits: GroupLimits
    lifted: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DropGroup(Message):
    """End what is left in a control group and remove it. A missing group is no error."""

    do: Literal["ungroup"] = "ungroup"
    name: str


DELAY_LINE = "delay-line"
"""The part of a linked service that is not a server: the process that delays its packets."""


@dataclass(frozen=True, kw_only=True)
class LinkLimits(Message):
    """Limits of a service's link: bytes per second each way, latency added to a round trip, and TCP's
    congestion control at its service. None: no limit, and the machine's default."""

    rate_bytes_per_s: int | None = None
    latency_ns: int | None = None
    congestion: str | None = None


@dataclass(frozen=True, kw_only=True)
class OpenLinks(Message):
    """Let the lab's own network carry links. Result: {"address": by which linked services reach services
    without links}."""

    do: Literal["links"] = "links"


@dataclass(frozen=True, kw_only=True)
class MakeLink(Message):
    """Make a network namespace joined to the lab's; removed with the lab. An existing link gets this rate.

    A link with a latency carries nothing until its delay line runs. Result: {"address": inside it, "outside",
    "inside": its interfaces, "network", "fabric": files of its namespace and of the lab's,
    "rate_bytes_per_s": as the kernel reports it}.
    """

    do: Literal["link"] = "link"
    name: str
    limits: LinkLimits


@dataclass(frozen=True, kw_only=True)
class DropLink(Message):
    """Remove a link. A missing link is no error."""

    do: Literal["unlink"] = "unlink"
    name: str


@dataclass(frozen=True, kw_only=True)
class Spawn(Message):
    """Start a process in a new session that dies with the agent; with `group` it starts in that control group,
    with `link` in that link's network.

    Role `generator` and `monitor` speak JSON lines on stdin and stdout (below); a `server`'s output goes to
    `log`; a `tool` runs to its end within `timeout_s` and returns {exit, tail}. It inherits the agent's
    variables except those `withheld`. Result: {"pid": machine pid, "start_ticks"}.
    """

    do: Literal["spawn"] = "spawn"
    child: str
    role: Role
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    withheld: tuple[str, ...] = ()
    cwd: str | None = None
    log: str
    limits: Limits = Limits()
    group: str | None = None
    link: str | None = None
    timeout_s: float = 60.0
    stop_signal: Literal["TERM", "INT", "QUIT", "KILL"] = "TERM"


@dataclass(frozen=True, kw_only=True)
class WriteFile(Message):
    """Write a file (created with `mode`); undone by removal if `temporary`. Parent folders are created."""

    do: Literal["write"] = "write"
    path: str
    text: str
    mode: int = 0o644
    temporary: bool = False


@dataclass(frozen=True, kw_only=True)
class HoldSysctls(Message):
    """Set and keep these settings of the kernel (by name: `net.core.somaxconn`), and restore settings kept
    before and no longer named.

    Settings of the whole machine are only changed with `host`. The journal keeps the old values. A refusal
    is no error. Result: {"settings": [{"name", "asked", "old", "found", "layer": network | machine,
    "why": "" or why it differs from the requested value}]}.
    """

    do: Literal["sysctl"] = "sysctl"
    values: dict[str, str]
    host: bool = False


@dataclass(frozen=True, kw_only=True)
class Tell(Message):
    """Send a JSON line to a generator's or monitor's stdin; the result is its answer {"ready": true, …}."""

    do: Literal["tell"] = "tell"
    child: str
    message: dict[str, Any]
    timeout_s: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Signal(Message):
    """Send a signal to a child's group (planted faults: STOP, CONT)."""

    do: Literal["signal"] = "signal"
    child: str
    signal: Literal["STOP", "CONT", "TERM", "KILL", "HUP"]


Action = (
    Spawn
    | MakeGroup
    | SetLimits
    | DropGroup
    | OpenLinks
    | MakeLink
    | DropLink
    | WriteFile
    | HoldSysctls
    | Tell
    | Signal
)
_ACTIONS: Mapping[str, type[Action]] = {
    kind.do: kind
    for kind in (
        Spawn,
        MakeGroup,
        SetLimits,
        DropGroup,
        OpenLinks,
        MakeLink,
        DropLink,
        WriteFile,
        HoldSysctls,
        Tell,
        Signal,
    )
}


def read_action(raw: Any) -> Action:
    """Read an action of a PREPARE. Raises ValueError that states what is wrong."""
    name = str(raw.get("do")) if isinstance(raw, dict) else ""
    if name not in _ACTIONS:
        raise ValueError(f"there is no action “{name}”")
    return _ACTIONS[name].read(raw)


@dataclass(frozen=True, kw_only=True)
class Notice(Message):
    """Something the agent noticed: a child's JSON line (`line`), its end (`exit`), or a warning from the
    agent (`note`)."""

    number: int
    child: str
    kind: Literal["line", "exit", "note"]
    data: dict[str, Any]
    monotonic_ns: int


# Lines between agent and its speaking children (generators, monitors):
#   → {"prepare": {…}}            ← {"ready": true, …} or {"error": {"code", "details"}}
#   → {"calibrate": true}         ← {"ready": true, "calibration_ns": t}, by a generator between two loads
#   → {"start_at_ns": n}          ← {"progress": {…}} about once a second, then {"done": {…, "start_at_ns"}} (n = 0: immediately, at a moment it chooses)
#   → {"stop": true}              ← {"done": {…}}
#   → end of input: the child ends.
