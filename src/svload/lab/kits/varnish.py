"""Varnish Cache before another service."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from svload.lab.kit import DurationNs, KitOptions, Permits, SizeBytes, option, words
from svload.lab.server import Server, path_of, upstream_of
from svload.lab.tuning import retune, spelled
from svload.model.costs import Costs
from svload.model.errors import SvloadError
from svload.model.facts import Counters, Endpoint, ServiceFacts, Setting
from svload.model.parameters import Parameter, declared

CANONICAL = {
    "requests": ("client_req",),
    "hits": ("cache_hit",),
    "misses": ("cache_miss",),
    "connections": ("sess_conn",),
    "bytes_out": ("s_resp_hdrbytes", "s_resp_bodybytes"),
    "body_bytes_out": ("s_resp_bodybytes",),
}
"""Canonical counter → the MAIN counters that it is computed from."""
PROOF = ("client_req", "cache_hit", "cache_miss", "n_object")
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class VarnishOptions(KitOptions):
    """Options of `varnish`; `tuning` contains its parameters (thread_pool_min, listen_depth, …), set before
    its child starts, some also live."""

    parameters = declared(
        "server",
        "live",
        """
        between_bytes_timeout connect_timeout default_grace default_keep default_ttl first_byte_timeout gzip_level http_gzip_support
        http_range_support idle_send_timeout lru_interval max_restarts max_retries nuke_limit pipe_timeout send_timeout shortlived
        thread_queue_limit timeout_idle timeout_linger
        """,
    )
    of: str = option(doc="the service that it caches")
    storage: SizeBytes = option("256 MiB", unit="size", doc="size of its storage in memory")
    keep: DurationNs = option("24 h", unit="time", doc="how long an object stays fresh; longer than a trial")


_HARMLESS = words(
    """
    accept_filter acceptor_sleep_decay acceptor_sleep_incr acceptor_sleep_max auto_restart backend_idle_timeout
    backend_local_error_holddown backend_remote_error_holddown ban_cutoff ban_dups ban_lurker_age ban_lurker_batch ban_lurker_holdoff
    ban_lurker_sleep between_bytes_timeout cli_limit cli_timeout clock_skew clock_step connect_timeout critbit_cooloff default_grace
    default_keep default_ttl feature fetch_chunksize fetch_maxchunksize first_byte_timeout gzip_buffer gzip_level gzip_memlevel
    h2_header_table_size h2_initial_window_size h2_max_concurrent_streams h2_max_frame_size h2_max_header_list_size
    h2_rx_window_increment h2_rx_window_low_water http1_iovs http_gzip_support http_max_hdr http_range_support http_req_hdr_len
    http_req_size http_resp_hdr_len http_resp_size idle_send_timeout listen_depth lru_interval max_esi_depth max_restarts max_retries
    max_vcl nuke_limit pcre2_depth_limit pcre2_jit_compilation pcre2_match_limit ping_interval pipe_sess_max pipe_timeout prefer_ipv6
    rush_exponent send_timeout shortlived tcp_fastopen tcp_keepalive_intvl tcp_keepalive_probes tcp_keepalive_time
    thread_pool_add_delay thread_pool_destroy_delay thread_pool_fail_delay thread_pool_max thread_pool_min thread_pool_reserve
    thread_pool_stack thread_pool_timeout thread_pool_watchdog thread_pools thread_queue_limit thread_stats_rate timeout_idle
    timeout_linger vcl_cooldown vsl_buffer vsl_reclen vsl_space vsm_free_cooldown workspace_backend workspace_client
    workspace_session workspace_thread
    """
)
"""Left out: parameters that name a command, a path or a storage (cc_command, vcl_path, vmod_path, …), and
those that make its VCL compiler less strict."""


class Varnish(Server):
    """varnishd with a separate instance folder; nothing below /etc or /var is touched."""

    name = "varnish"
    summary = "Varnish Cache in front of another service"
    Options = VarnishOptions
    # Worker threads add their statistics to the shared ones only when they become idle.
    costs = Costs(up_s=0.7, reset_s=0.2, settle_s=1.0, answers_per_s=10_000)
    harmless = frozenset({"of", "storage", "keep"})
    permits = Permits(
        "all methods: its rules purge and ban nothing, and its admin port requires a secret from its folder"
    )
    harmless_tuning = _HARMLESS
    # cc, the system's C compiler, compiles its configuration
    programs = {"varnishd": "varnish", "varnishadm": "varnish", "varnishstat": "varnish", "cc": "gcc"}
    counted = tuple(CANONICAL)
    options: VarnishOptions
    _http: int
    _proxy: int | None
    _home: Path
    _refused: dict[str, str]

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        self._home, self._refused = self.context.work / "instance", {}
        self._http = self.context.take_port("http", self.options.port)
        self._proxy = self.context.take_port("proxy", None) if self.options.tls == "hitch" else None
        admin = self.context.take_port("admin", None)
        vcl = self.write("cache.vcl", vcl_for(upstream_of(neighbours, self.options.of), self.options.keep))
        words: list[str | Path] = [path_of("varnishd"), "-F", "-j", "none", "-n", self._home]
        words += ["-a", f"http={self.endpoint(self._http).connects_to}"]
        if self._proxy is not None:
            words += ["-a", f"proxy={self.endpoint(self._proxy).connects_to},PROXY"]
        words += [
            "-T",
            self.endpoint(admin).connects_to,
            "-s",
            f"default=malloc,{self.options.storage}",
            "-f",
            vcl,
        ]
        self.spawn("varnishd", words)

    def ready(self, timeout_s: float) -> None:
        """Wait until it answers with its parameters set: its manager sets them and reports refused ones, and
        its child is then restarted."""
        super().ready(timeout_s)
        self.set_again()

    def set_again(self) -> None:
        if self.options.tuning:
            self._refused = retune(self, self.options.tuning, self._is_well)
            self._again()

    def _again(self) -> None:
        self._admin("stop")
        self._admin("start")
        self.wait_for(self.condition, 20.0)

    def _is_well(self) -> bool:
        """Return whether it still accepts connections: neither child nor manager has ended."""
        try:
            return not self.alive() and self.condition()
        except OSError:
            return False

    def adjust(self, options: KitOptions) -> bool:
        """Set live parameters in the running server; those no longer in `tuning` get their defaults."""
        assert isinstance(options, VarnishOptions)
        known = self.parameters()
        changed = [name for which, name in self.options.differing(options) if which == "tuning" and name]
        wanted = {
            name: options.tuning.get(name, known[name].default if name in known else None) for name in changed
        }
        refused = retune(
            self, {name: value for name, value in wanted.items() if value is not None}, self._is_well
        )
        self._refused = {
            name: why
            for name, why in (self._refused | refused).items()
            if name not in changed or name in refused
        }
        self.options = options
        return True

    def parameters(self) -> Mapping[str, Parameter]:
        """Return the parameters of `param.show -j`; what a change of each requires is declared in the kit."""
        return discovered(self._admin("param.show", "-j"), VarnishOptions.parameters)

    def set_parameter(self, name: str, value: str) -> None:
        self._admin("param.set", name, value)

    def condition(self) -> bool:
        """Return whether its child runs, so that the listener accepts connections."""
        return self.accepts(self._http)

    def describe(self) -> ServiceFacts:
        """Return its endpoints and the instance folder that varnishstat and varnishadm need."""
        admin: dict[str, Any] = {
            "varnish": {
                "dir": str(self._home),
                "varnishstat": path_of("varnishstat"),
                "varnishadm": path_of("varnishadm"),
            }
        }
        if self._proxy is not None:
            admin["proxy_protocol"] = {"port": self._proxy}
        return self.service_facts(self._version(), self.endpoint(self._http), admin=admin)

    def _version(self) -> str:
        words = self.tool([path_of("varnishd"), "-V"]).split()
        return next((word.removeprefix("(varnish-") for word in words if word.startswith("(varnish-")), "")

    def _admin(self, *command: str) -> str:
        return self.tool([path_of("varnishadm"), "-n", self._home, "-t", "10", *command])

    def _main(self) -> dict[str, float]:
        found = json.loads(self.tool([path_of("varnishstat"), "-1", "-j", "-n", self._home]))
        counters = found.get("counters", found)
        return {
            name.removeprefix("MAIN."): float(one["value"])
            for name, one in counters.items()
            if name.startswith(("MAIN.", "SMA.default."))
        }

    def reset(self) -> dict[str, Any]:
        """Restart its child, for an empty cache, new counters and threads; return what it then counts."""
        try:
            self._again()
            found = self._main()
        except SvloadError as why:
            raise self.reset_failed("varnishd", why) from why
        proof = {name: found[name] for name in (*PROOF, "uptime")}
        if any(proof[name] for name in PROOF):
            raise self.reset_failed("varnishd", f"it still counts {proof}")
        return proof

    def counters(self) -> Counters:
        at_ns = time.monotonic_ns()
        return canonical(self._main(), at_ns)

    def effective(self) -> list[Setting]:
        """Return each tuned parameter as the running server shows it, and the kernel's accept queue."""
        shown = self.parameters()
        settings = []
        for name, value in self.options.tuning.items():
            if name == "listen_depth" and name not in self._refused:
                continue
            asked, found = spelled(value), shown[name].value if name in shown else None
            same = found is not None and (asked == found or _number(asked) == _number(found) is not None)
            why = self._refused.get(name, "")
            settings.append(Setting(name=name, asked=asked, found=asked if same else found, why=why))
        depth = self.options.tuning.get(
            "listen_depth", shown["listen_depth"].value if "listen_depth" in shown else None
        )
        if "listen_depth" not in self._refused:
            settings.append(
                self.backlog_setting("listen_depth", None if depth is None else int(depth), self._http)
            )
        return settings


def canonical(main: Mapping[str, float], at_ns: int) -> Counters:
    """Return MAIN counters under the canonical names, and the raw ones."""
    values = {
        name: sum(main[part] for part in parts)
        for name, parts in CANONICAL.items()
        if all(part in main for part in parts)
    }
    if (
        "requests" in values
    ):  # a request that waited for another's fetch of its object is counted again when it continues
        values["requests"] -= main.get("busy_wakeup", 0.0)
    return Counters(at_ns=at_ns, values=values, exact=False, raw=dict(main))


def vcl_for(backend: Endpoint, keep_ns: int) -> str:
    """Return the cache's rules.

    Host is not hashed: http and https share an entry. An X-Cold header is part of the key and never reaches
    the backend, so that a request with a new one is a true miss (a new object, a real fetch). Only 200s to
    GET and HEAD without credentials are stored; an object store's listings and signed URLs never are.
    """
    return f"""vcl 4.1;
backend default {{ .host = "{backend.address}"; .port = "{backend.port}"; }}

sub vcl_recv {{
    if (req.method != "GET" && req.method != "HEAD") {{ return (pass); }}
    if (req.http.Authorization || req.http.X-Auth-Token || req.http.X-Storage-Token) {{ return (pass); }}
    if (req.url ~ "^/(healthcheck|info)$" || req.url ~ "[?&]temp_url_sig=") {{ return (pass); }}
    if (req.url ~ "^/v1/[^/?]+(/[^/?]*)?/?([?].*)?$") {{ return (pass); }}
    if (req.url ~ "^/v1/") {{ set req.url = regsub(req.url, "[?].*$", ""); }}
    unset req.http.Cookie;
    set req.http.X-Cold-Key = req.http.X-Cold;
    unset req.http.X-Cold;
    return (hash);
}}

sub vcl_hash {{
    hash_data(req.url);
    if (req.http.X-Cold-Key) {{ hash_data(req.http.X-Cold-Key); }}
    return (lookup);
}}

sub vcl_backend_fetch {{
    unset bereq.http.X-Cold;
    unset bereq.http.X-Cold-Key;
}}

sub vcl_backend_response {{
    unset beresp.http.Set-Cookie;
    if (bereq.uncacheable) {{ return (deliver); }}
    set beresp.grace = 0s;
    set beresp.keep = 0s;
    if (beresp.status == 200) {{
        set beresp.ttl = {keep_ns / 1e9:.3f}s;
    }} else {{
        set beresp.ttl = 0s;
        set beresp.uncacheable = true;
    }}
    return (deliver);
}}
"""


def discovered(text: str, known: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the parameters from the output of `param.show -j`: [version, [command], time, {"name", "value",
    …}, …]; some have no value here."""
    return {
        name: replace(
            known.get(name, Parameter(name)),
            unit=str(one.get("units", "")),
            low=_text(one.get("minimum")),
            high=_text(one.get("maximum")),
            value=str(one["value"]),
            default=_text(one.get("default")),
        )
        for one in json.loads(text)
        if isinstance(one, dict) and "value" in one
        for name in (str(one["name"]),)
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(text: str) -> float | None:
    """Convert a number with a size suffix to bytes; return None if it is not one."""
    unit = _UNITS.get(text[-1:].lower(), 0)
    try:
        return float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        return None
