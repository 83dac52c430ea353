"""Every kit that is found fulfils the contract of `svload.lab.kit.Kit`, and hostile values for its options
that the user has not trusted reach no server.

An option takes effect through what a kit asks the agent to do. Here the agent is a recorder, and each hostile
value contains a mark: if nothing asks for trust, no command line, file or environment that the kit makes may
contain it.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from svload.lab import all_kits, asks_trust, check_specs
from svload.lab import kits as folder
from svload.lab.kit import Change, Credentials, Kit, KitContext, KitOptions
from svload.lab.server import Server
from svload.model.facts import Endpoint, ServiceFacts
from svload.model.messages import Action, Limits
from svload.model.study import ServiceSpec

KITS = all_kits()
MINIMAL: dict[str, dict[str, Any]] = {
    "command": {"run": "true"},
    "external": {"at": "http://127.0.0.1:1"},
    "hitch": {"of": "backend"},
    "truth": {"role": "cache", "of": "backend"},
    "varnish": {"of": "backend"},
    "nginx": {"of": "backend"},
}
"""The required options of kits, and the service before which a proxy stands; the others have none."""


def test_a_file_in_the_folder_is_a_kit_of_that_name() -> None:
    assert {path.stem for path in Path(folder.__file__).parent.glob("*.py")} - {"__init__"} <= set(KITS)


@pytest.fixture(params=sorted(KITS))
def kit(request: pytest.FixtureRequest) -> type[Kit]:
    return KITS[request.param]


def spec(kit: type[Kit], **options: Any) -> ServiceSpec:
    return ServiceSpec(name="it", kit=kit.name, options={**MINIMAL.get(kit.name, {}), **options})


def own_options(kit: type[Kit]) -> list[str]:
    return [name for name in kit.Options.model_fields if name not in KitOptions.model_fields]


def test_it_says_what_it_is_and_what_it_takes_beside_load(kit: type[Kit]) -> None:
    assert kit.name.isascii() and kit.name == kit.name.lower()
    assert 10 < len(kit.summary) < 90
    assert kit.__doc__ not in (None, Kit.__doc__)
    costs = kit.costs
    assert all(0 <= one < 60 for one in (costs.up_s, costs.reset_s, costs.settle_s))
    assert min(costs.fill_per_s, costs.refill_per_s or 1, costs.answers_per_s) > 0


def test_every_option_says_what_it_means_and_what_a_change_costs(kit: type[Kit]) -> None:
    assert issubclass(kit.Options, KitOptions)
    assert set(KitOptions.model_fields) <= set(kit.Options.model_fields), "options of every service"
    for name, field in kit.Options.model_fields.items():
        assert field.description and not field.description.endswith("."), name
        assert field.json_schema_extra["change"] in get_args(Change), name
    live = [
        one for one in own_options(kit) if kit.Options.model_fields[one].json_schema_extra["change"] == "live"
    ]
    assert not live or kit.adjust is not Kit.adjust
    schema = json.loads(json.dumps(kit.Options.model_json_schema()))
    assert schema["additionalProperties"] is False, "for editors"
    assert set(schema["properties"]) == set(kit.Options.model_fields)


@pytest.mark.parametrize("bare", [False, True], ids=["this machine", "no programs"])
def test_check_starts_nothing_and_says_what_is_missing(
    kit: type[Kit], bare: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Any:
        raise AssertionError("check must not start a process or open a connection")

    monkeypatch.setattr(subprocess, "Popen", never)
    monkeypatch.setattr(socket.socket, "connect", never)
    if bare:
        monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    options = kit.Options.model_validate(spec(kit).options)
    problems = kit.check(options, tmp_path / "cache")
    for problem in problems:
        assert problem.code == "tool-missing"
        assert problem.details["hint"] and str(problem), "a remedy"
    assert problems == kit.check(options, tmp_path / "cache")


def test_needs_are_read_from_raw_options(kit: type[Kit]) -> None:
    assert kit.needs({}) == ()
    if "of" in kit.Options.model_fields:
        assert kit.needs({"of": "backend"}) == ("backend",)


def test_unknown_options_are_refused(kit: type[Kit]) -> None:
    _, mistakes = check_specs([spec(kit, no_such_option=1)])
    assert [mistake.code for mistake in mistakes] == ["study-unknown-key"]


MARK = "svload-mark"
HOSTILE: tuple[Any, ...] = (
    f"id > /tmp/{MARK}; exec gcc %s",
    f"/etc/{MARK}",
    f"../{MARK}",
    f"text/../{MARK}",
    f"text/{MARK}/x text/css",
    f"{MARK};\n  include /etc/passwd",
    f"{MARK}\r\n[app:main]",
    f"{MARK} }} server {{",
    f"{MARK},ext_path=/tmp/x:64m",
    f"$({MARK})",
    f"'{MARK}'",
    f'"{MARK}',
    f"{MARK}\0",
    [f"/etc/{MARK}"],
    {f"/{MARK}": f"/etc/{MARK}"},
    {f"/../{MARK}": "1 KiB"},
    {f"/{MARK};": "1 KiB"},
)
ACTING = {
    "varnish": ("cc_command", "vcl_path", "vmod_path", "vcc_allow_inline_c", "vcc_unsafe_path", "user", "debug"),
    "nginx": ("include", "error_log", "access_log", "root", "proxy_pass", "listen", "perl_modules", "load_module", "ssl_certificate",
              "client_body_temp_path", "proxy_store", "resolver", "ssl_stapling", "auth_request", "log_format", "js_import"),
    "memcached": ("ext_path", "ssl_key", "ssl_chain_cert", "ssl_ca_cert", "proxy_config", "auth_file", "hashpower,ext_path"),
    "hitch": ("pem-file", "pem-dir", "backend", "frontend", "user", "group", "chroot", "log-filename", "ocsp-dir", "client-verify-ca",
              "ssl-engine", "daemon", "syslog", "keepalive\nuser"),
    "redis": ("dir", "dbfilename", "include", "loadmodule", "aclfile", "logfile", "pidfile", "unixsocket", "replicaof", "slaveof", "bind",
              "user", "requirepass", "rename-command", "tls-cert-file", "appendfilename", "appenddirname", "cluster-config-file",
              "enable-debug-command", "enable-module-command", "enable-protected-configs", "oom-score-adj", "hz\nloadmodule"),
    "mariadb": ("init_file", "plugin_load", "plugin_load_add", "plugin_dir", "datadir", "basedir", "tmpdir", "user", "socket", "bind_address",
                "secure_file_priv", "general_log_file", "log_error", "log_bin", "slow_query_log_file", "ssl_cert", "init_connect",
                "skip_grant_tables", "local_infile", "chroot", "init_fil", "wsrep_notify_cmd", "server_audit_file_path"),
    "swift": ("bind_ip", "user", "swift_dir", "devices", "log_udp_host", "log_address", "recon_cache_path", "container_sync_realms_conf",
              "use", "__file__", "client_timeout\nuser"),
    "truth": ("address", "allow_any_address", "upstream", "http_port", "admin_port", "tls", "role"),
}  # fmt: skip
"""Parameters of the servers' own that act outside: these must never be declared harmless."""


class Recorder:
    """An agent that only records what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def prepare(self, actions: Sequence[Action], timeout_s: float = 60.0) -> list[dict[str, Any]]:
        self.asked += [json.dumps(action.plain(), default=str) for action in actions]
        return [{"pid": 1, "start_ticks": 0, "exit": 0, "tail": ""} for _ in actions]

    def stop(self, children: Sequence[str], grace_s: float = 5.0, now: bool = False) -> dict[str, int]:
        return {}

    def exited(self, child: str) -> int | None:
        return None


def test_each_kit_declares_what_is_harmless(kit: type[Kit]) -> None:
    assert "harmless" in vars(kit), "declare which options are harmless, if only an empty set"
    assert kit.harmless | kit.addresses <= set(own_options(kit))
    assert not kit.harmless & kit.addresses
    assert kit.addresses <= {"at", "connect_to"}, "those that run/targets.py holds against what is authorised"
    assert "tuning" in kit.ignores or "harmless_tuning" in vars(kit), "declare which parameters are"


def test_each_kit_says_what_traffic_may_ask_for_or_needs_trust(kit: type[Kit]) -> None:
    assert "permits" in vars(kit), "say what requests may ask for; None where nothing holds them to it"
    needs = f"lab.it.kit: {kit.name}, which requests could administer"
    assert (needs in asks_trust([spec(kit)])) == (kit.permits is None) == (kit.name == "memcached")


def test_a_kit_that_says_nothing_needs_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KITS["beanstalkd"], "permits", None)
    asked = asks_trust([spec(KITS["beanstalkd"])])
    assert asked == ["lab.it.kit: beanstalkd, which requests could administer"]


def test_what_acts_outside_needs_trust(kit: type[Kit]) -> None:
    for name, value in itertools.product(ACTING.get(kit.name, ()), (*HOSTILE, "0.0.0.0", "on", 1, True)):
        assert asks_trust([spec(kit, tuning={name: value})]), (name, value)
    before = set(asks_trust([spec(kit)]))
    assert {*asks_trust([spec(kit, brand_new="/etc/passwd")])} - before == {"lab.it.brand_new: /etc/passwd"}


def test_media_types_need_no_trust() -> None:
    types = {"gzip_types": "text/css application/vnd.api+json image/svg+xml"}
    assert asks_trust([spec(KITS["nginx"], tuning=types)]) == []


SUSPECT = re.compile(
    "path|command|file|user|host|addr|log|include|cert|key|lib|module|script|exec|store|cors|resolver|pass"
)
CLEARED = re.compile(
    "open_file_cache.*|(watcher|worker)_logbuf_size|log_limit|tcp-backlog|back_log|sendfile.*|slowlog-.*|lfu-log-factor"
    "|innodb_(flush_log_at_trx_commit|log_(buffer|file)_size|open_files)|open_files_limit|key_buffer_size"
)


def test_no_harmless_parameter_has_a_name_of_what_acts(kit: type[Kit]) -> None:
    suspects = [name for name in sorted(kit.harmless_tuning) if SUSPECT.search(name)]
    assert [name for name in suspects if not CLEARED.fullmatch(name)] == []


def hostile_specs(kit: type[Kit]) -> Iterator[ServiceSpec]:
    for name, value in itertools.product(kit.Options.model_fields, HOSTILE):
        yield spec(kit, **{name: value})
    names = [*sorted(kit.harmless_tuning), *ACTING.get(kit.name, ())]
    for name, value in itertools.product(names, HOSTILE):
        yield spec(kit, tuning={name: value})
    for value in HOSTILE:
        if isinstance(value, str):
            yield spec(kit, tuning={value: "1"})


def test_no_hostile_value_gets_in(kit: type[Kit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "wait_for", lambda self, condition, timeout_s: None)
    tried = 0
    for one in hostile_specs(kit):
        tried += 1
        options, mistakes = check_specs([one])
        asked = [what for what in asks_trust([one]) if what not in asks_trust([spec(kit)])]
        if mistakes or asked:
            continue
        assert not set(kit.addresses) & {key for key, value in one.options.items() if MARK in str(value)}
        recorded = started(kit, options["it"], tmp_path)
        assert not [text for text in recorded if MARK in text and not is_own_file(text)], one.options
    assert tried > 100


def is_own_file(text: str) -> bool:
    """Return whether this is a file of nginx's whose name contains a plain name of the study: below the
    service's own folder, with random letters."""
    action = json.loads(text)
    return action["do"] == "write" and f"files/{MARK}" in action["path"] and MARK not in action["text"]


def started(kit: type[Kit], options: KitOptions, folder: Path) -> list[str]:
    """Return all that the kit asks of the agent to come up."""
    host = Recorder()
    credentials = Credentials(folder / "cert.pem", folder / "key.pem", folder / "both.pem", "")
    for file in (credentials.cert_file, credentials.key_file):
        file.write_text("")
    context = KitContext(
        service="it",
        **{name: folder / name for name in ("work", "logs", "cache")},
        study=folder,
        host=host,
        limits=Limits(),
        credentials=credentials if options.tls or kit.certified else None,
        take_port=lambda part, fixed: fixed or 8080,
    )
    endpoint = Endpoint(scheme="http", address="127.0.0.1", port=1)
    backend = ServiceFacts(service="backend", kit="truth", version="", endpoints=(endpoint,))
    kit(options, context).up({"backend": backend, str(getattr(options, "of", "")): backend})
    return host.asked
