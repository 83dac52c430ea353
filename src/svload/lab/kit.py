"""The contract of a kit: what knows one kind of server. A new kit is a new file in
lab/kits/ with one subclass of `Kit`.

check → install → up → ready → facts → reset → counters → read_back → down. A kit never starts a process or
changes a setting by itself: it asks the machine's agent (`KitContext.host`), which undoes everything. Every
method must end within its bound. `svload.lab.server.Server` is the usual base: it starts, watches and stops
processes; a kit then says which.
"""

from __future__ import annotations

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
    model_validator,
)

from svload.lab.metrics_page import metrics_page
from svload.model.costs import Costs
from svload.model.errors import Problem, fail
from svload.model.facts import Counters, ProcessFact, ServiceFacts, Setting
from svload.model.messages import Action, Limits
from svload.model.metrics import CATALOGUE
from svload.model.parameters import Parameter
from svload.model.study import REPLICAS
from svload.model.units import bytes_per_s, duration_ns, size_bytes

Change = Literal["request", "live", "reload", "restart", "rebuild"]
_WRITTEN = WithJsonSchema({"type": ["string", "integer"]})
DurationNs = Annotated[int, BeforeValidator(duration_ns), Field(ge=0), _WRITTEN]
"""Written `2 ms`, held in ns."""
SizeBytes = Annotated[int, BeforeValidator(size_bytes), Field(ge=0), _WRITTEN]
"""Written `1 GiB` or as whole bytes, held in bytes."""
_WRITTEN_AS_TEXT = WithJsonSchema({"type": "string"})
Rate = Annotated[int, BeforeValidator(bytes_per_s), _WRITTEN_AS_TEXT]
"""Written `20 MB/s` or `10 Mbit/s`, held in bytes a second."""

Latency = Annotated[int, BeforeValidator(duration_ns), Field(gt=0, le=10_000_000_000), _WRITTEN_AS_TEXT]
"""Written `20 ms`, held in ns."""

LOOPBACK = "127.0.0.1"
"""Where services listen that have no link of their own."""


class DiskRate(BaseModel):
    """`{read: 20 MB/s, write: 10 MB/s}`: what a service may read from its disk and write to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    read: Rate | None = Field(None, description="what it may read, such as 20 MB/s")
    write: Rate | None = Field(None, description="what it may write, such as 10 MB/s")

    @model_validator(mode="before")
    @classmethod
    def _says_which(cls, written: Any) -> Any:
        if not isinstance(written, dict) or not written or not written.keys() <= {"read", "write"}:
            raise ValueError("write what is limited: {read: 20 MB/s}, {write: 10 MB/s} or both")
        return written


class Link(BaseModel):
    """`{rate: 10 Mbit/s, latency: 20 ms}`: what a service's link carries each way, and what it adds to a round trip."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    rate: Rate | None = Field(None, description="what it carries each way, such as 10 Mbit/s")
    latency: Latency | None = Field(None, description="what it adds to a round trip, such as 20 ms")
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
    """A kit's option: its default, what changing it costs, its unit and one line of
    documentation (shown by `svload schema`).

    `bounds` are pydantic's (`ge`, `le`, …).
    """
    bounds.setdefault("validate_default", unit in ("time", "size"))  # these are written with their unit
    return Field(default, description=doc, json_schema_extra={"change": change, "unit": unit}, **bounds)


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set of names."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Permits:
    """What the traffic of a study that is not trusted may ask of a kit's servers. A kit allows; it forbids nothing by name.

    `names` are what the server is told to allow, as it calls them: commands of Redis, privileges of MariaDB; none: its
    protocol has nothing that changes the server, or the load reaches no port that takes it.
    """

    text: str
    """for people: what, and what holds the traffic to it"""
    names: frozenset[str] = frozenset()


def _alone_or_listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class KitOptions(BaseModel):
    """Options of every service. Times, sizes and ratios may be written with units (`2 ms`, `1 GiB`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """What `tuning` may hold and is not changed by a restart alone, declared before any server is asked."""
    bears: ClassVar[frozenset[str]] = words("stop kill start pause limit")
    """Planned faults that such a service bears."""
    parts: ClassVar[tuple[str, ...]] = ()
    """Processes of it, by the names they are spawned with, that a fault may name: `backend.object`. One stands for
    all whose names go on from its own: `object` for `object-1`, `object-2`."""

    tls: str | bool | None = option(None, doc="terminate TLS in front: hitch, or true for the kit's own")
    port: int | None = option(
        None, ge=1, le=65535, doc="a fixed port for http; left out, svload picks a free one"
    )
    cpus: float | None = option(
        None, gt=0, unit="cores", doc="CPU quota of the service as one: all its processes and their children"
    )
    memory: SizeBytes | None = option(
        None, unit="size", doc="memory limit of the service as one, swap included; what needs more is killed"
    )
    pids: int | None = option(
        None, ge=1, doc="most processes and threads of the service as one; one more cannot be started"
    )
    within: str | None = option(
        None, doc="a service of the kit machine, whose limits it shares with all that are within it"
    )
    on_death: Literal["failure", "finding"] = option(
        "failure",
        doc="what its end, or a kill for lack of memory, is: the lab's failure, or what a limited service's "
        "trial found",
    )
    nofile: int | None = option(None, ge=1, doc="soft limit of open files of each process that it starts")
    nofile_hard: int | None = option(
        None,
        ge=1,
        doc="hard limit of open files of each process that it starts, which it may raise its own up to",
    )
    needs: Annotated[list[str], BeforeValidator(_alone_or_listed)] = option(
        [], doc="services that must be up first; one that is named as ${db.port} is needed anyway"
    )
    replicas: int | None = option(
        None,
        ge=1,
        le=REPLICAS,
        doc="how many servers of it there are, all alike, as web[1], web[2] …; they count as one",
    )
    on: str | None = option(
        None, doc="a machine of the inventory's group servers that it runs on: servers[0], or its name"
    )
    link: Link | None = option(
        None,
        unit="mapping",
        doc="a network link of its own, such as {rate: 10 Mbit/s, latency: 20 ms}: each way, and a round "
        "trip (needs root)",
    )
    disk_rate: DiskRate | None = option(
        None, unit="mapping", doc="rates of its disk, such as {read: 20 MB/s, write: 10 MB/s} (needs root)"
    )
    metrics: Annotated[str, AfterValidator(metrics_page)] | None = option(
        None,
        doc="where it tells of itself in Prometheus' text format: a path of its own http port, or a URL on "
        "this machine",
    )
    tuning: dict[str, Any] = option({}, doc="the server's own parameters, by their own names")

    @classmethod
    def change_of(cls, name: str, parameter: str | None = None) -> str:
        """What a change of an option, or of one parameter of `tuning`, takes: request (nothing: the next request
        goes elsewhere), live, reload, restart or rebuild; empty for what is no option."""
        if name == "tuning" and parameter is not None:
            known = cls.parameters.get(parameter)
            return known.change if known else "restart"
        if name not in cls.model_fields:
            return ""
        extra = cls.model_fields[name].json_schema_extra
        return str(extra.get("change", "restart")) if isinstance(extra, dict) else "restart"

    def differing(self, other: KitOptions) -> Iterator[tuple[str, str | None]]:
        """The options, and the parameters of `tuning`, that are not the same in another's."""
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
        """Carry the actions out in order; one result each. Raises SvloadError (agent-refused, agent-lost)."""

    def stop(self, children: Sequence[str], grace_s: float = 5.0, now: bool = False) -> dict[str, int]:
        """Stop children by name; their exit codes. Bounded by grace_s, then killed."""

    def exited(self, child: str) -> int | None:
        """The exit code if the child has ended, else None."""


@dataclass(frozen=True)
class Credentials:
    """A service's throw-away certificate, signed by the lab's own authority. Files are readable by the owner only."""

    cert_file: Path
    key_file: Path
    both_file: Path
    ca_pem: str


@dataclass(frozen=True)
class KitContext:
    """A kit's surroundings: its name, folders, agent, limits, ports. `group` is the control group that its
    processes are started in, `part_groups` those of its parts where they have groups of their own (the empty part:
    of all others), `link` the link in whose network.

    Folders: `work` is wiped on down, `logs` stays until the lab's owner wipes it, `cache`
    is kept, `study` is the study's.

    `take_port(part, fixed)` gives a free port, the same one again for the same part. `stopped` turns true
    when the user wants out: whoever waits then raises SvloadError interrupted. `secrets` are the study's:
    name → the variable that holds it. `trusted`: the study is the user's own, so its traffic may administer
    the server.
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
        """Variables that its processes do not inherit: those that hold secrets, or name a file that
        does, `but` for these secrets."""
        variables = [variable for secret, variable in self.secrets.items() if secret not in but]
        return tuple(name for variable in variables for name in (variable, f"{variable}_FILE"))

    def child(self, part: str) -> str:
        """The agent's name of one of this service's processes."""
        return f"{self.service}.{part}"


class Kit(ABC):
    """One kind of server. `Options` is its schema; `needs` names the services that must be ready first.

    `ignores` names options of every service that mean nothing here: a study that sets one is refused, so that
    none is without effect. `costs` say what it takes beside load, for plans. `own_tls`: it can terminate TLS
    itself (`tls: true`); `tls: hitch` in front of it works for every kit that has `front`.

    `harmless` names the kit's own options that can name no command, file, library, user or address,
    whatever their value, and `harmless_tuning` such parameters of the server. `addresses` are the options
    whose hosts the user authorises. A study that sets anything else needs the user's trust; a kit that
    declares nothing needs it for every option of its own. `permits` says what the traffic may do until the study
    is trusted; where it is None, nothing holds traffic to anything, and the kit itself needs trust. `starts`: its processes are svload's own, so that
    their CPU and memory can be read.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    Options: ClassVar[type[KitOptions]] = KitOptions
    costs: ClassVar[Costs] = Costs()
    own_tls: ClassVar[bool] = False
    balances: ClassVar[bool] = False
    """It shares requests out over all replicas of the service behind it."""
    certified: ClassVar[bool] = False
    """It has a certificate of the lab's authority whatever its options say."""
    ignores: ClassVar[tuple[str, ...]] = ()
    front: ClassVar[bool] = True
    harmless: ClassVar[frozenset[str]] = frozenset()
    harmless_tuning: ClassVar[frozenset[str]] = frozenset()
    addresses: ClassVar[frozenset[str]] = frozenset()
    permits: ClassVar[Permits | None] = None
    starts: ClassVar[bool] = True
    """False: it runs already, and need not be waited for as one that starts."""

    def __init__(self, options: KitOptions, context: KitContext) -> None:
        self.options = options
        self.context = context

    @classmethod
    def needs(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Services that this one talks to, from its raw options (`of: backend`)."""
        return (str(options["of"]),) if options.get("of") else ()

    @classmethod
    def counts(cls, options: Mapping[str, Any]) -> tuple[str, ...] | None:
        """The canonical counters that `counters()` gives under these raw options; None: it does not say."""
        return () if cls.counters is Kit.counters else None

    @classmethod
    def copies(cls, options: Mapping[str, Any]) -> int:
        """How often it stores what is put, under these raw options."""
        return 1

    @classmethod
    def measures(cls, options: Mapping[str, Any]) -> frozenset[str] | None:
        """The metrics of a service (`svload.model.metrics`) that a trial can give; None: not known."""
        counted = cls.counts(options)
        if counted is None:
            return None
        found = {name for source, name in CATALOGUE if source == "service" and name in counted}
        found |= {"hit_ratio"} if {"hits", "misses"} <= found else set()
        return frozenset(found | ({"cpu", "memory"} if cls.starts else set()))

    @classmethod
    @abstractmethod
    def check(cls, options: KitOptions, cache: Path) -> list[Problem]:
        """What this machine lacks for it, each with its remedy; empty if it can run. Quick; starts nothing."""

    @classmethod
    def install(cls, options: KitOptions, cache: Path, root: bool) -> list[str]:
        """Install what `check` misses into `cache` (or by apt where root allows); what was
        done, a line each. Idempotent."""
        return []

    @abstractmethod
    def up(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        """Start it. `neighbours` are the facts of the services it needs. Raises SvloadError."""

    @abstractmethod
    def ready(self, timeout_s: float) -> None:
        """Return when it answers; raises SvloadError service-died or service-not-ready (with its log's tail)."""

    @abstractmethod
    def facts(self) -> ServiceFacts:
        """What it offers, after `ready`."""

    def started(self) -> Sequence[ProcessFact]:
        """Every process that it started and that should run, svload's own helpers too."""
        return ()

    def reset(self) -> dict[str, Any]:
        """Bring it to its state before any trial (empty cache, new counters) and return
        the proof, read from the server."""
        return {}

    def counters(self) -> Counters | None:
        """Canonical counters now, or None if it offers none."""
        return None

    def read_back(self) -> tuple[Setting, ...]:
        """Each asked setting as the running service reports it."""
        return ()

    def adjust(self, options: KitOptions) -> bool:
        """Take changed options and parameters whose change is `live` or `reload` into effect; False if this
        kit can't, and must be restarted."""
        return False

    def parameters(self) -> Mapping[str, Parameter]:
        """The running server's own parameters with the values in force; empty: it does not tell."""
        return {}

    def set_parameter(self, name: str, value: str) -> None:
        """Set one while it runs. Raises SvloadError with the server's words where it refuses."""
        raise fail("lab-failed", reason=f"{self.name} takes no parameters while it runs")

    def hold(self, key: str) -> None:
        """A store that keeps its data between runs: use the data of this name (a digest of
        what it will hold) from now on."""

    def folders(self) -> tuple[Path, ...]:
        """Folders with the files that it sends, whose pages `drop_cache` drops; none: it tells of none."""
        return ()

    def plant(self, fault: str | None) -> bool:
        """Plant a fault for a demonstration (`no-hits`), or take all back (None); False
        if it does not know that fault."""
        return False

    def alive(self) -> list[Problem]:
        """service-died for each of its processes that has ended by itself. Quick."""
        return []

    @abstractmethod
    def down(self) -> None:
        """Stop it and wipe its work folder. Never raises for a service that is gone already."""
