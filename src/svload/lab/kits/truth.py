"""The known-truth server: a store, cache or TLS front with configured, and therefore known, behaviour."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema, model_validator

from svload import __version__
from svload.host.process.interpreter import python
from svload.lab import web
from svload.lab.kit import DurationNs, KitOptions, Permits, SizeBytes, option
from svload.lab.server import Server, missing, upstream_of
from svload.model.costs import Costs
from svload.model.errors import Problem
from svload.model.facts import LINK_RATE, Counters, Endpoint, ServiceFacts, Setting
from svload.model.units import bytes_per_s, duration_ns

Native = dict[str, Any]
"""A distribution in the server's format: {"constant_ns": n}, {"uniform_ns": [a, b]}, {"exponential_ns":
mean}, {"lognormal_ns": {median, p99}}."""


def native_distribution(written: Any) -> Native:
    """Convert `2 ms`, {uniform: [1 ms, 3 ms]}, {exponential: 2 ms} or {lognormal: {median: 2 ms, p99: 9 ms}}
    to ns. Raises ValueError."""
    if not isinstance(written, dict):
        return {"constant_ns": duration_ns(written)}
    if len(written) != 1:
        raise ValueError("write one of a time, constant, uniform, exponential, lognormal")
    [(kind, value)] = written.items()
    if kind == "constant":
        return {"constant_ns": duration_ns(value)}
    if kind == "exponential":
        return {"exponential_ns": duration_ns(value)}
    if kind == "uniform" and isinstance(value, (list, tuple)) and len(value) == 2:
        return {"uniform_ns": [duration_ns(end) for end in value]}
    if kind == "lognormal" and isinstance(value, dict) and set(value) == {"median", "p99"}:
        return {"lognormal_ns": {name: duration_ns(part) for name, part in value.items()}}
    raise ValueError(
        "write a time, {uniform: [1 ms, 3 ms]}, {exponential: 2 ms} or {lognormal: {median: 2 ms, p99: 9 ms}}"
    )


def _stall(written: Any) -> Any:
    if written is None:
        return None
    if not isinstance(written, dict) or not {"every", "for"} <= set(written) <= {"every", "for", "offset"}:
        raise ValueError("write {every: 1 s, for: 50 ms}, and offset: if the first is to come later")
    return {f"{name}_ns": duration_ns(value) for name, value in written.items()}


def _rate(written: Any) -> Any:
    return None if written is None else bytes_per_s(written)


def _share(value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError("expected a share from 0 to 1")
    return value


_TIME = WithJsonSchema({"type": ["string", "object"]})
ServiceTime = Annotated[Native, BeforeValidator(native_distribution), _TIME]
Stall = Annotated[
    dict[str, int] | None, BeforeValidator(_stall), WithJsonSchema({"type": ["object", "null"]})
]
Rate = Annotated[int | None, BeforeValidator(_rate), WithJsonSchema({"type": ["string", "null"]})]


COUNTED = ("requests", "connections", "tls_handshakes", "tls_resumed", "bytes_out")


class TruthOptions(KitOptions):
    """Options of `truth`; `live` ones change without a restart and, unlike `tuning`, have units."""

    role: Literal["store", "cache", "front"] = option(doc="what it plays: store, cache or front")
    of: str | None = option(None, doc="the service that a cache or front forwards to")
    service_time: ServiceTime = option(
        "0 s", change="live", unit="time", doc="time a worker spends on a request: a time or a distribution"
    )
    miss_service_time: ServiceTime | None = option(
        None,
        change="live",
        unit="time",
        doc="a cache's own time on a miss, before the store's; left out, service_time",
    )
    workers: int = option(8, change="live", ge=1, doc="requests served at the same time")
    queue_limit: int | None = option(
        None, change="live", ge=0, doc="requests that may wait for a worker; further ones are answered 503"
    )
    max_connections: int | None = option(None, change="live", ge=1, doc="maximum number of open connections")
    backlog: int = option(1024, ge=1, doc="length of the accept queue")
    seed: int = option(0, change="live", ge=0, doc="seed of its draws")
    cpu_burn: DurationNs = option("0 s", change="live", unit="time", doc="CPU time burnt for each answer")
    spin: DurationNs = option(
        "0 s",
        change="live",
        unit="time",
        doc="poll instead of sleeping for this long before each answer is due",
    )
    stall: Stall = option(None, change="live", doc="pause all answers regularly: {every: 1 s, for: 50 ms}")
    error_rate: Annotated[float, AfterValidator(_share)] = option(
        0.0, change="live", unit="ratio", doc="share of answers replaced by 500"
    )
    serial_lock: DurationNs = option(
        "0 s", change="live", unit="time", doc="time for which each request holds the server's one lock"
    )
    rate_limit: Rate = option(
        None, change="live", unit="rate", doc="rate of the link over which bodies are sent, such as 10 MiB/s"
    )
    body_memory: SizeBytes | None = option(
        None, unit="size", doc="bytes of stored bodies; above it a store answers 507, a cache evicts"
    )
    cache_objects: int | None = option(None, ge=1, doc="objects in a cache; the oldest is evicted first")
    ignore_cold: bool = option(
        False, change="live", doc="planted fault of a cache: X-Cold is ignored, so that misses hit"
    )
    never_store: bool = option(
        False, change="live", doc="planted fault of a cache: nothing is stored, every look-up is a miss"
    )
    log: bool = option(False, change="live", doc="keep a log of every request (GET /log of its admin port)")

    @model_validator(mode="after")
    def _role_fits(self) -> TruthOptions:
        if self.role == "store" and self.of:
            raise ValueError("a store forwards to no service: leave `of` out")
        if self.role != "store" and not self.of:
            raise ValueError(f"a {self.role} needs `of`, the service that it forwards to")
        if self.role != "cache" and self.miss_service_time is not None:
            raise ValueError("only a cache has misses: leave `miss_service_time` out")
        return self


_LIVE_FIELDS = {
    "seed": "seed", "workers": "workers", "queue_limit": "queue_limit", "max_connections": "max_connections",
    "service_time": "service_time", "miss_service_time": "miss_service_time", "cpu_burn": "cpu_burn_ns", "spin": "spin_ns",
    "stall": "stall", "error_rate": "error_rate", "serial_lock": "serial_lock_ns", "rate_limit": "rate_limit_bytes_per_s",
    "ignore_cold": "ignore_cold", "never_store": "never_store", "log": "log",
}  # fmt: skip
"""Option → the server's field, for all options that may change while it runs."""


class Truth(Server):
    """`python -m svload.truth` in a separate process; its admin port provides exact counters."""

    name = "truth"
    summary = "the embedded known-truth server: store, cache or TLS front"
    Options = TruthOptions
    costs = Costs(up_s=0.15, reset_s=0.003, fill_per_s=6_000, answers_per_s=4_000)
    own_tls = True
    permits = Permits("all methods at its HTTP ports; its admin port is no address of the lab")
    harmless = frozenset(
        {
            "role", "of", "service_time", "miss_service_time", "workers", "queue_limit", "max_connections", "backlog", "seed", "cpu_burn",
            "spin", "stall", "error_rate", "serial_lock", "rate_limit", "body_memory", "cache_objects", "ignore_cold", "never_store", "log",
        }
    )  # fmt: skip
    # These do not include the server's address, its upstream's, and whether both may leave loopback.
    harmless_tuning = frozenset({"log_limit", "upstream_timeout_ns"})
    options: TruthOptions
    _http: int
    _https: int | None
    _admin: int

    @classmethod
    def check(cls, options: KitOptions, cache: Path) -> list[Problem]:
        if find_spec("svload._native") is not None:
            return []
        return [missing(cls.name, "svload's native engine", "Build it: make setup.")]

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        self._http = self.context.take_port("http", self.options.port)
        self._https = self.context.take_port("https", None) if self.options.tls is True else None
        self._admin = self.context.take_port("admin", None)
        upstream = upstream_of(neighbours, self.options.of) if self.options.of else None
        config = self.write("truth.json", json.dumps(self._config(upstream), indent=1) + "\n")
        self.spawn("truth", python("-m", "svload.truth", "--config", str(config)))

    def _config(self, upstream: Endpoint | None) -> dict[str, Any]:
        options, credentials = self.options, self.context.credentials
        config: dict[str, Any] = {
            "role": options.role,
            "address": self.context.address,
            "http_port": self._http,
            "https_port": self._https,
            "admin_port": self._admin,
            "backlog": options.backlog,
            **_live_config(options),
        }
        if upstream:
            config["upstream"] = upstream.connects_to
        behind = [upstream.address] if upstream and upstream.via != "external" else []
        ours = map(ip_address, (self.context.address, *behind))
        config["allow_any_address"] = not all(address.is_loopback for address in ours)
        if self._https is not None and credentials:
            config["tls"] = {
                "cert_pem": credentials.cert_file.read_text(),
                "key_pem": credentials.key_file.read_text(),
            }
        if options.body_memory is not None:
            config["memory_limit_bytes"] = options.body_memory
        if options.cache_objects is not None:
            config["cache_objects_limit"] = options.cache_objects
        return {**config, **options.tuning}

    def condition(self) -> bool:
        return self.answers(self._admin, "/counters")

    def describe(self) -> ServiceFacts:
        admin: dict[str, Any] = {"truth": {"url": self.url(self._admin, "")}}
        endpoints = [self.endpoint(self._http)]
        if self._https is not None:
            endpoints.append(self.https_endpoint(self._https, "itself"))
        if self.options.role == "store":
            admin["object_store"] = {"url": self.url(self._http, ""), "auth": {"kind": "none"}}
        return self.service_facts(__version__, *endpoints, admin=admin)

    def reset(self) -> dict[str, Any]:
        """Reset counters, empty log and cache (not a store); return what the server then counts."""
        try:
            found = web.call_json(self.url(self._admin, "/reset?what=counters,log,cache"), "POST")
        except OSError as why:
            raise self.reset_failed("truth", why) from why
        proof = {
            key: found[key]
            for key in ("requests", "carried", "hits", "misses", "cache_objects", "store_objects", "log_rows")
        }
        if any(proof[key] for key in ("requests", "hits", "misses", "cache_objects")):
            raise self.reset_failed("truth", f"it still counts {proof}")
        return proof

    def plant(self, fault: str | None) -> bool:
        """Plant `no-hits`: a cache stores nothing."""
        if self.options.role != "cache" or fault not in (None, "no-hits"):
            return False
        web.call_json(
            self.url(self._admin, "/config"),
            "POST",
            {"never_store": fault == "no-hits" or self.options.never_store},
        )
        return True

    def _raw(self) -> dict[str, Any]:
        found = web.call_json(self.url(self._admin, "/counters"))
        assert isinstance(found, dict)
        return found

    @classmethod
    def counts(cls, options: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return its counters' names; a cache also counts hits and misses."""
        return (*COUNTED, *(("hits", "misses") if options.get("role") == "cache" else ()))

    def counters(self) -> Counters:
        before_ns = time.monotonic_ns()
        raw = self._raw()
        return Counters(
            at_ns=before_ns,
            values=canonical(raw, cache=self.options.role == "cache"),
            exact=True,
            raw=flat(raw),
        )

    def adjust(self, options: KitOptions) -> bool:
        assert isinstance(options, TruthOptions)
        before, after = _live_config(self.options), _live_config(options)
        changed = {key: value for key, value in after.items() if value != before[key]}
        if changed:
            web.call_json(self.url(self._admin, "/config"), "POST", changed)
        self.options = options
        return True

    def effective(self) -> list[Setting]:
        """Return the accept queue, and the link's rate if it is limited."""
        settings = [self.backlog_setting("backlog", self.options.backlog, self._http)]
        asked = self.options.rate_limit
        if asked is not None:
            found = web.call_json(self.url(self._admin, "/config")).get("rate_limit_bytes_per_s")
            settings.append(
                Setting(name=LINK_RATE, asked=str(asked), found=None if found is None else str(found))
            )
        return settings


def _live_config(options: TruthOptions) -> dict[str, Any]:
    return {field: getattr(options, name) for name, field in _LIVE_FIELDS.items()}


def flat(raw: Mapping[str, Any]) -> dict[str, float]:
    """Return the server's numbers by name, `status` flattened to status.NNN."""
    found = {
        name: float(value)
        for name, value in raw.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    for code, count in raw.get("status", {}).items():
        found[f"status.{code}"] = float(count)
    return found


def canonical(raw: Mapping[str, Any], cache: bool) -> dict[str, float]:
    """Return the canonical counters of `svload.model.facts.Counters`. Handshakes are only full ones: the
    server's number includes resumed ones."""
    values = flat(raw)
    found: dict[str, float] = {}
    wanted = [
        "requests",
        "answers",
        "tls_resumed",
        "bytes_out",
        "body_bytes_out",
        *(["hits", "misses"] if cache else []),
    ]
    found.update((key, values[key]) for key in wanted if key in values)
    if "connections_accepted" in values:
        found["connections"] = values["connections_accepted"]
    if "tls_handshakes" in values:
        found["tls_handshakes"] = values["tls_handshakes"] - values.get("tls_resumed", 0.0)
    found.update((key, value) for key, value in values.items() if key.startswith("status."))
    return found
