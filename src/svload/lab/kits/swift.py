"""OpenStack Swift, from PyPI in its own environment: proxy, account, container, object servers, memcached."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TextIO

from pydantic import StringConstraints, model_validator

from svload.host.process.interpreter import python
from svload.lab import memcache
from svload.lab.installs import run_installer
from svload.lab.kit import DurationNs, KitOptions, Permits, SizeBytes, option
from svload.lab.server import Server, missing, user_name
from svload.lab.tools import collector
from svload.model.costs import Costs
from svload.model.errors import Problem, fail
from svload.model.facts import Counters, ServiceFacts, Setting
from svload.model.outputs import write_output
from svload.model.private import private_folder

REQUIREMENTS = Path(__file__).with_name("swift-requirements.txt")
"""Swift and its requirements, pinned by hash (compiled by uv from one line, swift==…)."""
PARTITION_POWER = 8
COPIES_PARTITION_POWER = 5
"""The partitions for objects with copies: a replicator asks every other server about each in a pass."""
TIERS = ("account", "container", "object")
MOST_OBJECT_SERVERS = 9
DAEMONS = ("replicator", "updater")
"""The daemons beside each object server if there are copies, by their modules in swift.obj."""
USER = "lab:filler"
_INSTALL_WITHIN_S = 600.0
AccountUser = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,32}:[A-Za-z0-9]{1,32}$")]
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,64}$")]


class SwiftOptions(KitOptions):
    """Options of `swift`; `tuning` contains settings of the proxy server's file (client_timeout,
    node_timeout, …).

    Several object servers have separate devices, ports and processes: the parts `object-1`, `object-2` … of
    the service. With copies of objects (`object_replicas`), each of them has a replicator, and an updater
    that adds missing entries to listings, in the same part; accounts and containers have one server and no
    copies. The proxy tries the next server after one has refused or has not answered within `node_timeout`.
    Objects may consist of segments (static large objects, SLO).
    """

    parts: ClassVar[tuple[str, ...]] = (
        *TIERS, *(f"object-{number}" for number in range(1, MOST_OBJECT_SERVERS + 1)), "proxy", "memcached",
    )  # fmt: skip
    """The processes by name; `object` stands for all object servers."""

    proxy_workers: int = option(2, ge=1, doc="worker processes of the proxy server")
    object_workers: int = option(2, ge=1, doc="worker processes of each object server")
    object_servers: int = option(
        1,
        ge=1,
        le=MOST_OBJECT_SERVERS,
        doc="object servers, each with a device and a port of its own; several are called object-1, object-2 …",
    )
    object_replicas: int = option(
        1, ge=1, le=MOST_OBJECT_SERVERS, doc="copies of each object, each on a different object server"
    )
    replicator_interval: DurationNs = option(
        "10s",
        unit="time",
        ge=1_000_000_000,
        doc="interval between a replicator's passes over its server's objects, if there are copies",
    )
    updater_interval: DurationNs = option(
        "5s",
        unit="time",
        ge=1_000_000_000,
        doc="interval between an updater's passes over outstanding listing entries, if there are copies "
        "(Swift's default: 300 s)",
    )
    max_clients: int = option(
        1024,
        ge=1,
        doc="connections that each proxy worker serves at a time; a keep-alive one counts until closed",
    )
    backlog: int = option(4096, ge=1, doc="length of each server's accept queue")
    memcache_pool: int = option(
        2, ge=1, doc="connections of each proxy worker to memcached (memcache_max_connections)"
    )
    memcached_connections: int = option(1024, ge=1, doc="maximum connections of its memcached (-c)")
    memcached_memory: SizeBytes = option("64 MiB", unit="size", doc="memory of its memcached for items (-m)")
    users: dict[AccountUser, Key] = option(
        {}, doc="users of its tempauth, each account:user with its key, who may read and write every account"
    )
    token_life: DurationNs = option(
        "24h", unit="time", ge=1_000_000_000, doc="how long a token of its tempauth is valid"
    )
    count_requests: bool = option(
        True, doc="let the proxy count its answers (proxy-logging, statsd), for comparison with what was sent"
    )

    @model_validator(mode="after")
    def _a_server_a_copy(self) -> SwiftOptions:
        if self.object_replicas > self.object_servers:
            raise ValueError(
                f"{self.object_replicas} copies of each object need as many object_servers, not {self.object_servers}"
            )
        return self

    @property
    def objects(self) -> tuple[str, ...]:
        """The names of its object servers."""
        if self.object_servers == 1:
            return ("object",)
        return tuple(f"object-{number}" for number in range(1, self.object_servers + 1))

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of all storage servers, in the order of their start."""
        return ("account", "container", *self.objects)


class Swift(Server):
    """A complete Swift on one disk, optionally with copies of objects. Its data is kept in the cache, under a
    key of what it was filled with."""

    name = "swift"
    permits = Permits(
        "the proxy's API by its users' tokens; its other servers and its memcached are no addresses of the lab"
    )
    summary = "OpenStack Swift with its memcached, one object server or a ring of several"
    Options = SwiftOptions
    # Counts arrive by UDP, and a busy worker may send late. On one core, 5,500 objects of 40 KiB were put in
    # 60 to 72 s and listed in 7 s. Requesting 1,500 objects in 300 containers once each through a cache,
    # after a flush of its memcached, took 16 s simultaneously, and 7 to 10 s for neighbours in sequence, on a
    # busy machine.
    costs = Costs(up_s=2.6, reset_s=0.1, settle_s=1.0, fill_per_s=80, refill_per_s=750, answers_per_s=110)
    harmless = frozenset(
        {
            "proxy_workers", "object_workers", "max_clients", "backlog", "memcache_pool", "memcached_connections", "memcached_memory",
            "count_requests", "token_life", "users", "object_servers", "object_replicas", "replicator_interval",
            "updater_interval",
        }
    )  # fmt: skip
    harmless_tuning = frozenset(
        {
            "client_chunk_size", "client_timeout", "conn_timeout", "error_suppression_interval", "error_suppression_limit",
            "keepalive_timeout", "node_timeout", "object_chunk_size",
            "recoverable_node_timeout", "request_node_count",
        }
    )  # fmt: skip
    programs = {"memcached": "memcached"}
    options: SwiftOptions
    _ports: dict[str, int]
    _holding: Path
    _kept: Path
    _lock: TextIO | None = None

    @classmethod
    def check(cls, options: KitOptions, cache: Path) -> list[Problem]:
        problems = super().check(options, cache)
        if not (environment(cache) / ".complete").exists():
            hint = "Install it: svload lab install, with the study's name."
            problems.insert(0, missing(cls.name, f"Swift {version()}", hint))
        if not _has_attributes(cache):
            what = f"a file system with user extended attributes at {cache}"
            hint = "Set SVLOAD_CACHE to a folder on ext4, xfs or btrfs."
            problems.append(missing(cls.name, what, hint))
        return problems

    @classmethod
    def install(cls, options: KitOptions, cache: Path, root: bool) -> list[str]:
        """Install Swift from the user's package index into the cache, verified by the pinned hashes."""
        home = environment(cache)
        if (home / ".complete").exists():
            return []
        shutil.rmtree(home, ignore_errors=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        run_installer(python("-m", "venv", str(home)), _INSTALL_WITHIN_S)
        pip = python(
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            executable=str(home / "bin/python"),
        )
        run_installer(
            [*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(REQUIREMENTS)], _INSTALL_WITHIN_S
        )
        write_output(home / ".complete", version() + "\n")
        return [f"Swift {version()} in {home}"]

    # up

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        take = self.context.take_port
        self._ports = {"proxy": take("http", self.options.port)}  # first, since it may be a fixed one
        for part in (*self.options.servers, "memcached", "statsd", "syslog"):
            self._ports[part] = take(part, None)
        self._point_at(self.context.work / "empty")
        self._write_configuration()
        self._build_rings()
        ports, address = self._ports, self.context.address
        self.spawn(
            "collector",
            python(
                str(collector.__file__),
                address,
                str(ports["statsd"]),
                str(ports["syslog"]),
                str(self.log_of("swift")),
            ),
            helper=True,
        )
        self.wait_for(lambda: bool(collector.ask(address, ports["statsd"])), 15.0)
        self.spawn(
            "memcached",
            memcache.argv(
                address,
                ports["memcached"],
                self.options.memcached_connections,
                self.options.memcached_memory,
                4,
            ),
        )
        programs = environment(self.context.cache) / "bin"
        for part in (*self.options.servers, "proxy"):
            configured = self.context.work / f"{part}-server.conf"
            self.spawn(
                part, [programs / "python", "-P", programs / f"swift-{_tier_of(part)}-server", configured]
            )
            if part in self.options.objects and self.options.object_replicas > 1:
                for name, daemon in zip(_daemons_of(part), DAEMONS, strict=True):
                    words = python("-c", _DAEMON, daemon, executable=str(programs / "python"))
                    self.spawn(name, [*words, self.context.work, configured])

    def parts(self, part: str) -> list[str]:
        """Return the processes of a part in the order of their start, including an object server's daemons;
        for the empty part all."""
        found = super().parts(part)
        if not found:
            own = [process.name for process in self._own()]
            reason = f"{self.context.service} has no part “{part}”; it has {', '.join(own)}"
            raise fail("lab-failed", place=self.context.service, reason=reason)
        return found

    def belongs(self, process: str, part: str) -> bool:
        """Return whether a process belongs to the part; `object` stands for all object servers."""
        servers = self.options.objects if part == "object" else (part,)
        return part == "" or process in servers or any(process in _daemons_of(server) for server in servers)

    def _point_at(self, folder: Path) -> None:
        """Make the servers store below `folder`, which they look up by name at every request."""
        for device in {"d1", *map(_device_of, self.options.objects)}:
            (folder / device).mkdir(parents=True, exist_ok=True)
        link, beside = self.context.work / "devices", self.context.work / "devices.new"
        beside.unlink(missing_ok=True)
        beside.symlink_to(folder)
        beside.replace(link)
        self._holding = folder

    def _write_configuration(self) -> None:
        key = secrets.token_urlsafe(24)
        self.write("filler.key", key + "\n")
        self.write(
            "swift.conf", "[swift-hash]\nswift_hash_path_prefix = svload\nswift_hash_path_suffix = svload\n"
        )
        self.write(
            "proxy-server.conf",
            self._common("proxy", self.options.proxy_workers, _PATIENCE | self.options.tuning)
            + _proxy(
                self.options,
                self.context.address,
                self._ports["statsd"],
                self.endpoint(self._ports["memcached"], "tcp").connects_to,
                key,
            ),
        )
        for part in self.options.servers:
            workers = self.options.object_workers if part in self.options.objects else 1
            text = self._common(part, workers, {}) + _storage(_tier_of(part))
            if part in self.options.objects:
                text += _daemons(self.options, self._only(part))
            self.write(f"{part}-server.conf", text)

    def _only(self, part: str) -> Path:
        """Return a folder with only this server's device: an updater processes every one that it finds."""
        folder, device = self.context.work / "updaters" / part, _device_of(part)
        folder.mkdir(parents=True, exist_ok=True)
        link = folder / device
        link.unlink(missing_ok=True)
        link.symlink_to(self.context.work / "devices" / device)
        return folder

    def _common(self, part: str, workers: int, tuning: Mapping[str, Any]) -> str:
        work = self.context.work
        (work / "recon" / part).mkdir(parents=True, exist_ok=True)
        settings = {
            "bind_ip": self.context.address,
            "bind_port": self._ports[part],
            "workers": workers,
            "backlog": self.options.backlog,
            "max_clients": self.options.max_clients if part == "proxy" else 1024,
            "user": user_name(),
            "swift_dir": work,
            "devices": work / "devices",
            "mount_check": "false",
            "log_level": "ERROR",
            "log_udp_host": self.context.address,
            "log_udp_port": self._ports["syslog"],
            "recon_cache_path": work / "recon" / part,
            **tuning,
        }
        return "[DEFAULT]\n" + "".join(f"{name} = {_plain(value)}\n" for name, value in settings.items())

    def _build_rings(self) -> None:
        copies = self.options.object_replicas
        power = PARTITION_POWER if copies == 1 else COPIES_PARTITION_POWER
        objects = [(_device_of(part), self._ports[part]) for part in self.options.objects]
        rings = {tier: (PARTITION_POWER, 1, [("d1", self._ports[tier])]) for tier in ("account", "container")}
        rings["object"] = (power, copies, objects)
        words = ("-c", _RINGS, str(self.context.work), self.context.address, json.dumps(rings))
        swifts = str(environment(self.context.cache) / "bin/python")
        self.tool(python(*words, executable=swifts), 60.0)

    def condition(self) -> bool:
        return all(
            self.answers(self._ports[part], "/healthcheck") for part in (*self.options.servers, "proxy")
        )

    def describe(self) -> ServiceFacts:
        address, ports = self.context.address, self._ports
        auth = {"kind": "tempauth", "user": USER, "key_file": str(self.context.work / "filler.key")}
        kept = None if self._holding.is_relative_to(self.context.work) else str(self._holding)
        admin = {
            "object_store": {
                "url": self.url(ports["proxy"], ""),
                "auth": auth,
                "data_dir": kept,
                "log": str(self.log_of("swift")),
            },
            "memcached": {"address": address, "port": ports["memcached"]},
            "workers": {"port": ports["proxy"], "connections": self.options.max_clients},
        }
        if self.options.count_requests:
            admin["statsd"] = {"address": address, "port": ports["statsd"]}
        return self.service_facts(version(), self.endpoint(ports["proxy"]), admin=admin)

    # while it runs

    def hold(self, key: str) -> None:
        """Keep the stored data in the cache under `key`; memcached forgets earlier accounts."""
        servers, copies = self.options.object_servers, self.options.object_replicas
        ring = "" if servers == 1 else f"-{copies}-on-{servers}"  # the ring decides where data is stored
        self._point_at(self._own_folder(self.context.cache / "data" / "swift" / f"{key}{ring}"))
        memcache.reset(self, self._ports["memcached"])

    def _own_folder(self, folder: Path) -> Path:
        """Return the folder, or one beside it if another lab stores there; it is this lab's until `down`."""
        if self._lock is not None and self._kept == folder:
            return self._holding
        self._give_up()
        private_folder(folder.parent)
        self._kept, mine, number = folder, folder, 1
        while not self._taken(mine):
            number += 1
            mine = folder.with_name(f"{folder.name}-{number}")
        return mine

    def _taken(self, folder: Path) -> bool:
        """Lock the folder; return False if another lab has it."""
        self._lock = folder.with_name(f".{folder.name}.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._give_up()
            return False
        return True

    def _give_up(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def down(self) -> None:
        super().down()
        self._give_up()

    def reset(self) -> dict[str, Any]:
        """Flush its memcached (which also invalidates every token) and keep the stored data. Proof: a key set
        before is gone afterwards."""
        return memcache.reset(self, self._ports["memcached"])

    @classmethod
    def counts(cls, options: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return what its proxy counts, if counting is enabled."""
        return ("requests",) if options.get("count_requests", True) else ()

    @classmethod
    def copies(cls, options: Mapping[str, Any]) -> int:
        return int(options.get("object_replicas", 1))

    def counters(self) -> Counters | None:
        """Return the proxy's answers by status, and bytes of GET bodies. Exact once they have settled."""
        if not self.options.count_requests:
            return None
        at_ns = time.monotonic_ns()
        return canonical(collector.ask(self.context.address, self._ports["statsd"]), at_ns)

    def effective(self) -> Sequence[Setting]:
        """Return queue, workers and memcached's limits as read back, and timeouts as configured."""
        address, options = self.context.address, self.options
        workers = _children(self._processes["proxy"].pid)
        return [
            self.backlog_setting("backlog", options.backlog, self._ports["proxy"]),
            *(
                Setting(name=name, asked=str(asked), found=None)
                for name, asked in (_PATIENCE | options.tuning).items()
            ),
            Setting(
                name="proxy_workers",
                asked=str(options.proxy_workers),
                found=None if workers is None else str(workers),
            ),
            *memcache.settings(
                address, self._ports["memcached"], options.memcached_connections, options.memcached_memory
            ),
        ]


def version() -> str:
    found = re.search(r"^swift==([\w.]+)", REQUIREMENTS.read_text(encoding="ascii"), re.MULTILINE)
    assert found
    return found[1]


def environment(cache: Path) -> Path:
    """Return the folder where Swift is installed, named after its version and Python's."""
    return cache / "kits" / f"swift-{version()}-py{sys.version_info.major}.{sys.version_info.minor}"


def canonical(found: Mapping[str, Any], at_ns: int) -> Counters:
    """Return proxy-logging's sums as canonical counters.

    Names: proxy-server.<type>.<method>.<status>.timing (one per answer) and .xfer (bytes of bodies in both
    directions). Left out: those by policy, which are duplicates, and HEADs of accounts and containers, with
    which the proxy itself looks up ACLs.
    """
    sums: dict[str, float] = found["sums"]
    values = {"requests": 0.0, "answers": 0.0, "body_bytes_out": 0.0}
    for name, value in sums.items():
        parts = name.split(".")
        if parts[0] != "proxy-server" or len(parts) != 5:
            continue
        _, kind, method, status, what = parts
        if method == "HEAD" and kind in ("account", "container"):
            continue
        if what == "timing" and status.isdigit():
            values["requests"] += value
            values["answers"] += value
            values[f"status.{status}"] = values.get(f"status.{status}", 0.0) + value
        elif what == "xfer" and method == "GET":
            values["body_bytes_out"] += value
    raw = {"statsd.datagrams": float(found["datagrams"]), "statsd.dropped": float(found["dropped"]), **sums}
    return Counters(at_ns=at_ns, values=values, exact=False, raw=raw)


def _proxy(options: SwiftOptions, address: str, statsd: int, memcached: str, key: str) -> str:
    users = {USER: key, **options.users}
    known = "\n".join(
        f"user_{who.replace(':', '_')} = {its} .admin .reseller_admin" for who, its in users.items()
    )
    counted = "proxy-logging " if options.count_requests else ""
    return f"""
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck {counted}cache listing_formats tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:proxy-logging]
use = egg:swift#proxy_logging
access_log_level = ERROR
access_log_statsd_host = {address}
access_log_statsd_port = {statsd}
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:cache]
use = egg:swift#memcache
memcache_servers = {memcached}
memcache_max_connections = {options.memcache_pool}
[filter:tempauth]
use = egg:swift#tempauth
{known}
token_life = {options.token_life // 1_000_000_000}
[filter:slo]
use = egg:swift#slo
"""


def _storage(tier: str) -> str:
    return f"""
[pipeline:main]
pipeline = healthcheck {tier}-server
[app:{tier}-server]
use = egg:swift#{tier}
[filter:healthcheck]
use = egg:swift#healthcheck
"""


def _daemons(options: SwiftOptions, device: Path) -> str:
    """Return the configuration of an object server's daemons. ssync uses the other object servers, so that no
    rsync daemon is needed. An updater processes the one device below `device`."""
    return f"""
[object-replicator]
interval = {options.replicator_interval / 1e9:g}
sync_method = ssync
[object-updater]
interval = {options.updater_interval // 1_000_000_000}
devices = {device}
"""


_PATIENCE = {"node_timeout": 30, "conn_timeout": 5}
"""Timeouts of the proxy server, s; Swift's defaults are 10 and 0.5, which a crowd on two cores exceeds."""


def _tier_of(part: str) -> str:
    """Return `object` for `object-2`."""
    return part.partition("-")[0]


def _daemons_of(part: str) -> tuple[str, ...]:
    return tuple(f"{part}-{daemon}" for daemon in DAEMONS)


def _device_of(part: str) -> str:
    """Return the device of an object server; a single one shares that of accounts and containers."""
    return f"o{part.partition('-')[2]}" if "-" in part else "d1"


_DAEMON = """
import sys
from importlib import import_module
from swift.common.utils import set_swift_dir
daemon = sys.argv.pop(1)
set_swift_dir(sys.argv.pop(1))
import_module("swift.obj." + daemon).main()
"""
"""Servers find swift.conf by their swift_dir, daemons only below /etc."""


_RINGS = """
import json, sys
from swift.common.ring import RingBuilder
folder, address, rings = sys.argv[1:]
for tier, (power, copies, places) in json.loads(rings).items():
    ring = RingBuilder(power, copies, 1)
    for zone, (device, port) in enumerate(places, 1):
        ring.add_dev({"region": 1, "zone": zone, "ip": address, "port": port, "replication_ip": address,
                      "replication_port": port, "device": device, "weight": 1.0, "meta": ""})
    ring.rebalance(seed=1)
    ring.get_ring().save(folder + "/" + tier + ".ring.gz")
"""


def _plain(value: Any) -> str:
    text = str(value)
    if "\n" in text:
        raise ValueError(f"“{text}” is more than one line")
    return text


def _has_attributes(cache: Path) -> bool:
    """Return whether files there may have user attributes: tried in the nearest existing folder."""
    folder = next((one for one in (cache, *cache.parents) if one.is_dir()), Path("/"))
    probe = folder / f".svload-attributes-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        probe.touch()
        os.setxattr(probe, "user.svload", b"1")
    except OSError:
        return not os.access(
            folder, os.W_OK
        )  # if nothing may be written, the missing installation is reported
    finally:
        probe.unlink(missing_ok=True)
    return True


def _children(pid: int) -> int | None:
    try:
        return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    except OSError:
        return None
