"""The interface of a kit, the code for one kind of server. A new kit is a new file in lab/kits/ with one
subclass of `Kit`.

check → install → up → ready → facts → reset → counters → read_back → down. A kit never starts a process or
changes a setting itself: it asks the machine's agent (`KitContext.host`), which undoes everything. Every
method must return within its bound. `svload.lab.server.Server` is the usual base class: it starts, watches
and stops the processes that a kit defines.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from svload.lab.metrics_page import metrics_page
from svload.model.costs import Costs
from svload.model.errors import Problem, fail
from svload.model.facts import Counters, Endpoint, ProcessFact, ServiceFacts, Setting
from svload.model.messages import Action, Limits
from svload.model.metrics import CATALOGUE
from svload.model.parameters import Parameter
from svload.model.study import REPLICAS
from svload.model.units import bytes_per_s, duration_ns, size_bytes
from svload.study.mistakes import shortened

Change = Literal["request", "live", "reload", "restart", "rebuild"]
_WRITTEN = WithJsonSchema({"type": ["string", "integer"]})
DurationNs = Annotated[int, BeforeValidator(duration_ns), Field(ge=0), _WRITTEN]
"""Written `2 ms`, stored in ns."""
SizeBytes = Annotated[int, BeforeValidator(size_bytes), Field(ge=0), _WRITTEN]
"""Written `1 GiB` or as an integer of bytes, stored in bytes."""
_WRITTEN_AS_TEXT = WithJsonSchema({"type": "string"})
Rate = Annotated[int, BeforeValidator(bytes_per_s), _WRITTEN_AS_TEXT]
"""Written `20 MB/s` or `10 Mbit/s`, stored in bytes per second."""

Latency = Annotated[int, BeforeValidator(duration_ns), Field(gt=0, le=10_000_000_000), _WRITTEN_AS_TEXT]
"""Written `20 ms`, stored in ns."""

LOOPBACK = "127.0.0.1"
"""The address where services without a link listen."""


class DiskRate(BaseModel):
    """`{read: 20 MB/s, write: 10 MB/s}`: the most that a service may read from its disk and write to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    read: Rate | None = Field(None, description="maximum read rate, such as 20 MB/s")
    write: Rate | None = Field(None, description="maximum write rate, such as 10 MB/s")

    @model_validator(mode="before")
    @classmethod
    def _says_which(cls, written: Any) -> Any:
        if not isinstance(written, dict) or not written or not written.keys() <= {"read", "write"}:
            raise ValueError("write what is limited: {read: 20 MB/s}, {write: 10 MB/s} or both")
        return written


class Link(BaseModel):
    """`{rate: 10 Mbit/s, latency: 20 ms}`: the rate of a service's link in each direction, and the latency
    that it adds to a round trip."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    rate: Rate | None = Field(None, description="rate in each direction, such as 10 Mbit/s")
    latency: Latency | None = Field(None, description="latency added to a round trip, such as 20 ms")
    congestion: str | None = Field(
        None, pattern="[a-z][a-z0-9_]*", description="TCP's congestion control at its service, such as cubic"
    )

    @model_validator(mode="before")
    @classmethod
    def _says_what(cls, written: Any) -> Any:
        known = {"rate", "latency", "congestion"}
        if not isinstance(written, dict) or not written or not written.keys() <= known:
            raise ValueError(
                "write what it holds: {rate: 10 Mbit/s}, {latency: 20 ms} or both, and congestion: cubic"
            )
        return written


def option(default: Any = ..., *, change: Change = "restart", unit: str = "", doc: str, **bounds: Any) -> Any:
    """Define a kit's option: its default, what a change of it requires, its unit, and one line of
    documentation (shown by `svload schema`).

    `bounds` are those of pydantic (`ge`, `le`, …).
    """
    bounds.setdefault("validate_default", unit in ("time", "size"))  # these are written with their unit
    return Field(default, description=doc, json_schema_extra={"change": change, "unit": unit}, **bounds)


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set of names."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Permits:
    """What the traffic of an untrusted study may do on a kit's servers. This is a list of what is allowed,
    never of what is forbidden.

    `names` are allowed in the server's configuration, in its own terms: commands of Redis, privileges of
    MariaDB. They are empty if the protocol has nothing that changes the server, or no port for the load
    accepts it.
    """

    text: str
    """for people: what is allowed, and what enforces it"""
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Spelling:
    """How a server's configuration writes its own parameters, which it calls `called`: names that match
    `names` in full, and values on one line, without the characters in `without`."""

    called: str
    names: str
    booleans: tuple[str, str] = ("off", "on")
    without: str = ""
    example: str = ""

    def check_name(self, name: str) -> None:
        """Raise ValueError if it is not a name."""
        if not re.fullmatch(self.names, name):
            raise ValueError(f"“{shortened(name, 60)}” is not a valid {self.called} name{self.example}")

    def value(self, value: Any) -> str:
        """Return a value as the configuration has it. Raises ValueError if that is impossible."""
        text = self.booleans[value] if isinstance(value, bool) else str(value)
        if isinstance(value, dict | list) or not text.isprintable() or set(text) & set(self.without):
            raise ValueError(f"“{shortened(text, 60)}” is not a valid value for a {self.called}")
        return text


def _alone_or_listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class KitOptions(BaseModel):
    """Options of every service. Times, sizes and ratios may be written with units (`2 ms`, `1 GiB`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, strict=True)
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """The parameters of `tuning` whose change needs something other than a restart."""
    supported_faults: ClassVar[frozenset[str]] = words("stop kill start pause limit")
    """The planned faults that such a service supports."""
    parts: ClassVar[tuple[str, ...]] = ()
    """The processes that a fault may name, by the names they are spawned with: `backend.object`. A name also
    stands for those that continue it: `object` for `object-1`, `object-2`."""
    spelling: ClassVar[Spelling | None] = None
    """What names and values in `tuning` must be; None: the kit checks them itself."""

    tls: str | bool | None = option(None, doc="terminate TLS in front: hitch, or true for the kit's own")
    port: int | None = option(None, ge=1, le=65535, doc="a fixed port for http; default: a free port")
    cpus: float | None = option(
        None, gt=0, unit="cores", doc="CPU quota of the whole service: all its processes and their children"
    )
    memory: SizeBytes | None = option(
        None, unit="size", doc="memory of the whole service, swap included; a process beyond it is killed"
    )
    pids: int | None = option(None, ge=1, doc="maximum number of processes and threads of the whole service")
    within: str | None = option(
        None, doc="a service of the kit machine, whose limits it shares with all services within it"
    )
    on_death: Literal["failure", "finding"] = option(
        "failure",
        doc="how an unexpected exit or an out-of-memory kill counts: as a failure of the lab or, for a "
        "limited service, as a finding of the trial",
    )
    nofile: int | None = option(None, ge=1, doc="soft limit of open files of each process that it starts")
    nofile_hard: int | None = option(
        None, ge=1, doc="hard limit of open files of each process, up to which it may raise its soft limit"
    )
    needs: Annotated[list[str], BeforeValidator(_alone_or_listed)] = option(
        [], doc="services that must be up first; one referred to as ${db.port} is needed anyway"
    )
    replicas: int | None = option(
        None,
        ge=1,
        le=REPLICAS,
        doc="number of identical servers, web[1], web[2] …; they count as one service",
    )
    on: str | None = option(
        None, doc="a machine of the inventory's group servers that it runs on: servers[0], or its name"
    )
    link: Link | None = option(
        None,
        unit="mapping",
        doc="its own network link, such as {rate: 10 Mbit/s, latency: 20 ms}: rate in each direction, "
        "latency of a round trip (needs root)",
    )
    disk_rate: DiskRate | None = option(
        None, unit="mapping", doc="rates of its disk, such as {read: 20 MB/s, write: 10 MB/s} (needs root)"
    )
    metrics: Annotated[str, AfterValidator(metrics_page)] | None = option(
        None,
        doc="where it reports its metrics in Prometheus' text format: a path on its http port, or a URL on "
        "this machine",
    )
    tuning: dict[str, Any] = option({}, doc="the server's own parameters, by their own names")

    @field_validator("tuning")
    @classmethod
    def _plain_parameters(cls, tuning: dict[str, Any]) -> dict[str, Any]:
        if cls.spelling is not None:
            for name, value in tuning.items():
                cls.spelling.check_name(name)
                cls.spelling.value(value)
        return tuning

    @classmethod
    def change_of(cls, name: str, parameter: str | None = None) -> str:
        """Return what a change of an option, or of one parameter of `tuning`, requires: request (nothing: the
        next request goes elsewhere), live, reload, restart or rebuild; empty if it is not an option."""
        if name == "tuning" and parameter is not None:
            known = cls.parameters.get(parameter)
            return known.change if known else "restart"
        if name not in cls.model_fields:
            return ""
        extra = cls.model_fields[name].json_schema_extra
        return str(extra.get("change", "restart")) if isinstance(extra, dict) else "restart"

    def differing(self, other: KitOptions) -> Iterator[tuple[str, str | None]]:
        """Yield the options and the parameters of `tuning` that differ from `other`."""
        for name in type(self).model_fields:
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "tuning":
                names = sorted({*mine, *theirs})
                yield from ((name, one) for one in names if mine.get(one) != theirs.get(one))
            elif mine != theirs:
                yield name, None


class Host(Protocol):
    """The part of the agent's client that a kit uses (svload.host.Agent has it)."""

    def prepare(self, actions: Sequence[Action], timeout_s: float = 60.0) -> list[dict[str, Any]]:
        """Carry out the actions in order; return one result each. Raises SvloadError."""

    def stop(self, children: Sequence[str], grace_s: float = 5.0, now: bool = False) -> dict[str, int]:
        """Stop children by name and return their exit codes; after grace_s they are killed."""

    def exited(self, child: str) -> int | None:
        """Return the exit code if the child has ended, else None."""


@dataclass(frozen=True)
class Credentials:
    """A service's throw-away certificate from the lab's authority. Only the owner can read its files."""

    cert_file: Path
    key_file: Path
    both_file: Path
    ca_pem: str


@dataclass(frozen=True)
class KitContext:
    """The environment of a service: its name, folders, agent, limits, ports. Its processes are started in the
    control group `group`, or in those of `part_groups` if parts have separate groups (the empty part: all
    others), and in the network of `link`.

    Folders: `work` is wiped by `down`, `logs` is kept until the lab's owner wipes it, `cache` is kept,
    `study` is the study's.

    `take_port(part, fixed)` returns a free port, always the same one for the same part. `stopped` becomes
    true when the user interrupts: those who wait then raise SvloadError interrupted. `secrets` are the
    study's: name → the environment variable with its value. `trusted`: the study is the user's own, so its
    traffic may administer the server.
    """

    service: str
    work: Path
    logs: Path
    cache: Path
    study: Path
    host: Host
    limits: Limits
    credentials: Credentials | None
    take_port: Callable[[str, int | None], int]
    stopped: Callable[[], bool] = lambda: False
    address: str = LOOPBACK
    group: str | None = None
    part_groups: Mapping[str, str] = field(default_factory=dict)
    link: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    trusted: bool = False

    def withheld(self, but: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the variables that the processes do not inherit: those with secrets, or with the name of a
        file that has them, except the secrets in `but`."""
        variables = [variable for secret, variable in self.secrets.items() if secret not in but]
        return tuple(name for variable in variables for name in (variable, f"{variable}_FILE"))

    def child(self, part: str) -> str:
        """Return the agent's name of one of this service's processes."""
        return f"{self.service}.{part}"


class Kit(ABC):
    """One kind of server. `Options` is its schema; `needs` returns the services that must be ready first.

    `ignores` lists the options of every service that have no meaning for this kit: studies that set one are
    refused. `costs` are the times that it takes besides load, for plans. `own_tls`: it can terminate TLS
    itself (`tls: true`); `tls: hitch` works for every kit with `front`.

    `harmless` lists the kit's own options that can name no command, file, library, user or address, whatever
    their value, and `harmless_tuning` such parameters of the server. `addresses` are the options whose hosts
    the user authorises. A study that sets anything else needs the user's trust; a kit that declares nothing
    needs it for every option of its own. `permits` defines what the traffic of an untrusted study may do; if
    it is None, traffic is not restricted and the kit itself needs trust. `starts`: svload starts its
    processes, so that their CPU and memory can be read.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    Options: ClassVar[type[KitOptions]] = KitOptions
    costs: ClassVar[Costs] = Costs()
    own_tls: ClassVar[bool] = False
    balances: ClassVar[bool] = False
    """Whether it distributes requests over all replicas of the service behind it."""
    certified: ClassVar[bool] = False
    """Whether it always has a certificate of the lab's authority, whatever its options."""
    ignores: ClassVar[tuple[str, ...]] = ()
    front: ClassVar[bool] = True
    harmless: ClassVar[frozenset[str]] = frozenset()
    harmless_tuning: ClassVar[frozenset[str]] = frozenset()
    addresses: ClassVar[frozenset[str]] = frozenset()
    permits: ClassVar[Permits | None] = None
    starts: ClassVar[bool] = True
    """Whether it has to start; False if it runs already and no start must be awaited."""
    counted: ClassVar[tuple[str, ...] | None] = None
    """The canonical counters that `counters()` provides with any options; None if unknown."""

    def __init__(self, options: KitOptions, context: KitContext) -> None:
        self.options = options
        self.context = context

    @classmethod
    def needs(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the services that this one connects to, from its raw options (`of: backend`)."""
        return (str(options["of"]),) if options.get("of") else ()

    @classmethod
    def counts(cls, options: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the canonical counters that `counters()` has with these raw options; None if unknown."""
        return () if cls.counters is Kit.counters else cls.counted

    @classmethod
    def copies(cls, options: Mapping[str, Any]) -> int:
        """Return how many copies of each object it stores with these raw options."""
        return 1

    @classmethod
    def measures(cls, options: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the metrics of a service (`svload.model.metrics`) that a trial can have; None if unknown."""
        counted = cls.counts(options)
        if counted is None:
            return None
        found = {name for source, name in CATALOGUE if source == "service" and name in counted}
        found |= {"hit_ratio"} if {"hits", "misses"} <= found else set()
        return frozenset(found | ({"cpu", "memory"} if cls.starts else set()))

    @classmethod
    def check(cls, options: KitOptions, cache: Path) -> list[Problem]:
        """Return what this machine lacks for it, each with its remedy. Quick; starts nothing."""
        return []

    @classmethod
    def install(cls, options: KitOptions, cache: Path, root: bool) -> list[str]:
        """Install what `check` found, into `cache` or as root by apt; return a line for each thing done."""
        return []

    def up(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        """Start it. `neighbours` are the facts of the services it needs. Raises SvloadError."""

    def ready(self, timeout_s: float) -> None:
        """Wait until it answers. Raises SvloadError service-died or service-not-ready, with its log's end."""

    @abstractmethod
    def facts(self) -> ServiceFacts:
        """Return its facts; called after `ready`."""

    def service_facts(self, version: str, *endpoints: Endpoint, **more: Any) -> ServiceFacts:
        """Return facts with the names of service and kit."""
        return ServiceFacts(
            service=self.context.service, kit=self.name, version=version, endpoints=endpoints, **more
        )

    def started(self) -> Sequence[ProcessFact]:
        """Return every process that it started and that should be running, svload's helpers included."""
        return ()

    def reset(self) -> dict[str, Any]:
        """Restore its state before any trial (empty cache, new counters); return the server's proof."""
        return {}

    def counters(self) -> Counters | None:
        """Return the current canonical counters, or None if it has none."""
        return None

    def read_back(self) -> tuple[Setting, ...]:
        """Return each requested setting as the running service reports it."""
        return ()

    def adjust(self, options: KitOptions) -> bool:
        """Apply changed options and parameters whose change is `live` or `reload`; return False if the
        service must be restarted instead."""
        return False

    def parameters(self) -> Mapping[str, Parameter]:
        """Return the running server's parameters with their values; empty if it does not report them."""
        return {}

    def set_parameter(self, name: str, value: str) -> None:
        """Set one parameter while it runs. Raises SvloadError with the server's message if it refuses."""
        raise fail("lab-failed", reason=f"{self.name} takes no parameters while it runs")

    def hold(self, key: str) -> None:
        """Use the data of this name (a digest of the contents) from now on, if it keeps data between runs."""

    def folders(self) -> tuple[Path, ...]:
        """Return the folders with the files that it sends, for `drop_cache`; empty if unknown."""
        return ()

    def plant(self, fault: str | None) -> bool:
        """Plant a fault for a demonstration (`no-hits`), or undo all (None); return False if unknown."""
        return False

    def alive(self) -> list[Problem]:
        """Return service-died for each of its processes that has ended by itself. Quick."""
        return []

    def down(self) -> None:
        """Stop it and wipe its work folder. Never raises if the service is gone already."""
