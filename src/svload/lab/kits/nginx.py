"""nginx: static files of given sizes, or a proxy before another service."""

from __future__ import annotations

import json
import os
import random
import re
import string
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from svload.host.machine.page_cache import in_page_cache
from svload.lab import web
from svload.lab.kit import KitOptions, Permits, Spelling, option, words
from svload.lab.server import Server, path_of, upstreams_of
from svload.model.bounds import FILES_BYTES
from svload.model.costs import Costs
from svload.model.facts import FILES, RESIDENT_FILES, Counters, Endpoint, ServiceFacts, Setting
from svload.model.units import size_bytes
from svload.study.mistakes import nearest, shortened, wrong

_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_SPELLING = Spelling("directive", "[a-z_0-9]+", without=";{}#'\"\\")
MOST_FILE_BYTES = 64 << 20
MOST_FILES = 1_000

OWN = words(
    """
    access_log client_body_temp_path default_type fastcgi_temp_path proxy_temp_path scgi_temp_path uwsgi_temp_path
    """
)
"""Directives that the kit writes itself: nginx accepts them only once, or uses only the first."""
_OF_UPSTREAMS = words(
    """
    bind buffer_size buffering buffers busy_buffers_size cache cache_background_update cache_bypass cache_key
    cache_lock cache_lock_age cache_lock_timeout cache_max_range_offset cache_methods cache_min_uses
    cache_path cache_revalidate cache_use_stale cache_valid connect_timeout force_ranges hide_header
    ignore_client_abort ignore_headers intercept_errors limit_rate max_temp_file_size next_upstream
    next_upstream_timeout next_upstream_tries no_cache pass_header pass_request_body pass_request_headers
    read_timeout request_buffering send_timeout socket_keepalive store store_access temp_file_write_size
    """
)
_OF_TLS_UPSTREAMS = words(
    """
    ssl_certificate ssl_certificate_key ssl_ciphers ssl_conf_command ssl_crl ssl_name ssl_password_file
    ssl_protocols ssl_server_name ssl_session_reuse ssl_trusted_certificate ssl_verify ssl_verify_depth
    """
)
DIRECTIVES = (
    words(
        """
        absolute_redirect add_after_body add_before_body add_header add_trailer addition_types aio aio_write
        allow ancient_browser ancient_browser_value auth_basic auth_basic_user_file auth_delay auth_request
        auth_request_set autoindex autoindex_exact_size autoindex_format autoindex_localtime charset
        charset_types chunked_transfer_encoding client_body_buffer_size client_body_in_file_only
        client_body_in_single_buffer client_body_timeout client_header_buffer_size client_header_timeout
        client_max_body_size connection_pool_size create_full_put_path dav_access dav_methods deny directio
        directio_alignment disable_symlinks error_log error_page etag expires fastcgi_catch_stderr
        fastcgi_index fastcgi_keep_conn fastcgi_param fastcgi_send_lowat fastcgi_split_path_info grpc_bind
        grpc_buffer_size grpc_connect_timeout grpc_hide_header grpc_ignore_headers grpc_intercept_errors
        grpc_next_upstream grpc_next_upstream_timeout grpc_next_upstream_tries grpc_pass_header
        grpc_read_timeout grpc_send_timeout grpc_set_header grpc_socket_keepalive gunzip gunzip_buffers gzip
        gzip_buffers gzip_comp_level gzip_disable gzip_hash gzip_http_version gzip_min_length gzip_no_buffer
        gzip_proxied gzip_static gzip_types gzip_vary gzip_window http2_body_preread_size http2_chunk_size
        http2_idle_timeout http2_max_concurrent_pushes http2_max_concurrent_streams http2_max_field_size
        http2_max_header_size http2_max_requests http2_pool_size http2_push http2_push_preload
        http2_recv_buffer_size http2_recv_timeout http2_streams_index_size if_modified_since
        ignore_invalid_headers include index keepalive_disable keepalive_requests keepalive_time
        keepalive_timeout large_client_header_buffers limit_conn limit_conn_dry_run limit_conn_log_level
        limit_conn_status limit_conn_zone limit_rate limit_rate_after limit_req limit_req_dry_run
        limit_req_log_level limit_req_status limit_req_zone lingering_close lingering_time lingering_timeout
        log_format log_not_found log_subrequest map_hash_bucket_size map_hash_max_size max_headers max_ranges
        memcached_bind memcached_buffer_size memcached_connect_timeout memcached_gzip_flag
        memcached_next_upstream memcached_next_upstream_timeout memcached_next_upstream_tries
        memcached_read_timeout memcached_send_timeout memcached_socket_keepalive merge_slashes
        min_delete_depth mirror mirror_request_body modern_browser modern_browser_value mp4_buffer_size
        mp4_max_buffer_size mp4_start_key_frame msie_padding msie_refresh open_file_cache
        open_file_cache_errors open_file_cache_events open_file_cache_min_uses open_file_cache_valid
        open_log_file_cache output_buffers override_charset port_in_redirect post_action postpone_gzipping
        postpone_output proxy_cache_convert_head proxy_cookie_domain proxy_cookie_flags proxy_cookie_path
        proxy_headers_hash_bucket_size proxy_headers_hash_max_size proxy_http_version proxy_method
        proxy_redirect proxy_send_lowat proxy_set_body proxy_set_header read_ahead real_ip_header
        real_ip_recursive recursive_error_pages request_pool_size reset_timedout_connection resolver
        resolver_timeout rewrite_log root satisfy scgi_param secure_link secure_link_md5 secure_link_secret
        send_lowat send_timeout sendfile sendfile_max_chunk server_name_in_redirect
        server_names_hash_bucket_size server_names_hash_max_size server_tokens set_real_ip_from slice
        source_charset ssi ssi_ignore_recycled_buffers ssi_last_modified ssi_min_file_chunk ssi_silent_errors
        ssi_types ssi_value_length ssl ssl_buffer_size ssl_certificate ssl_certificate_key ssl_ciphers
        ssl_client_certificate ssl_conf_command ssl_crl ssl_dhparam ssl_early_data ssl_ecdh_curve ssl_ocsp
        ssl_ocsp_cache ssl_ocsp_responder ssl_password_file ssl_prefer_server_ciphers ssl_protocols
        ssl_reject_handshake ssl_session_cache ssl_session_ticket_key ssl_session_tickets ssl_session_timeout
        ssl_stapling ssl_stapling_file ssl_stapling_responder ssl_stapling_verify ssl_trusted_certificate
        ssl_verify_client ssl_verify_depth sub_filter sub_filter_last_modified sub_filter_once
        sub_filter_types subrequest_output_buffer_size tcp_nodelay tcp_nopush types_hash_bucket_size
        types_hash_max_size underscores_in_headers uninitialized_variable_warn userid userid_domain
        userid_expires userid_flags userid_mark userid_name userid_p3p userid_path userid_service
        uwsgi_modifier1 uwsgi_modifier2 uwsgi_param uwsgi_string variables_hash_bucket_size
        variables_hash_max_size
        """
    )
    | {f"{kind}_{name}" for kind in ("fastcgi", "proxy", "scgi", "uwsgi") for name in _OF_UPSTREAMS}
    | {f"{kind}_{name}" for kind in ("grpc", "proxy", "uwsgi") for name in _OF_TLS_UPSTREAMS}
)
"""The directives that `tuning` may contain: those that Debian's nginx 1.22.1 accepts in its http block (`nginx -t` of
each; tests/lab/test_real.py checks them) except blocks, since `tuning` has only values."""


def _files(written: Any) -> dict[str, int]:
    if not isinstance(written, dict):
        raise ValueError("write paths with sizes, such as {/1k: 1 KiB}")
    found = {str(path): size_bytes(size) for path, size in written.items()}
    if sum(found.values()) > FILES_BYTES.most or len(found) > MOST_FILES:
        raise ValueError(f"{FILES_BYTES.text}, in {MOST_FILES:,} files")
    for path, size in found.items():
        if not _PATH.fullmatch(path) or ".." in path:
            raise ValueError(f"“{path}” is not a plain path such as /1k")
        if above := found.keys() & set(map(str, PurePosixPath(path).parents)):
            raise ValueError(f"“{above.pop()}” can't be a file and the folder of “{path}”")
        if size > MOST_FILE_BYTES:
            raise ValueError(f"“{path}” is larger than {MOST_FILE_BYTES >> 20} MiB")
    return found


def _directive(name: str) -> str:
    """Return the name if it is a directive of the http block; nginx would refuse any other at bring-up."""
    if not re.fullmatch(_SPELLING.names, name):
        raise wrong(f"“{shortened(name, 60)}” is not a valid directive name")
    if name in OWN:
        raise wrong(f"svload writes {name} itself, and another one would not count")
    if name not in DIRECTIVES:
        alike = [known for known in DIRECTIVES if known[0] == name[0]]
        raise wrong(
            f"nginx knows no directive {shortened(name, 60)} in its http block",
            nearest(name, alike or DIRECTIVES),
        )
    return name


def _value(written: Any) -> Any:
    _SPELLING.value(written)
    return written


class NginxOptions(KitOptions):
    """Options of `nginx`; `tuning` has directives of its http block (keepalive_requests, sendfile …)."""

    files: Annotated[dict[str, int], BeforeValidator(_files), WithJsonSchema({"type": "object"})] = option(
        {"/1k": "1 KiB", "/10k": "10 KiB", "/100k": "100 KiB"},
        validate_default=True,
        doc="the files it serves: path and size of each",
    )
    of: str | None = option(None, doc="a service that it forwards all other paths to, its replicas in turn")
    workers: int = option(1, ge=1, doc="worker processes")
    worker_connections: int = option(1024, ge=1, doc="maximum connections of each worker")
    backlog: int = option(511, ge=1, doc="length of the accept queue")
    tuning: dict[Annotated[str, AfterValidator(_directive)], Annotated[Any, AfterValidator(_value)]] = option(
        {}, doc="directives of its http block, by their own names"
    )


_HARMLESS = words(
    """
    absolute_redirect chunked_transfer_encoding client_body_buffer_size client_body_timeout client_header_buffer_size
    client_header_timeout client_max_body_size connection_pool_size directio directio_alignment etag gzip gzip_buffers gzip_comp_level
    gzip_http_version gzip_min_length gzip_proxied gzip_types gzip_vary http2_max_concurrent_streams if_modified_since keepalive_requests
    keepalive_time keepalive_timeout large_client_header_buffers limit_rate limit_rate_after lingering_close lingering_time
    lingering_timeout max_ranges merge_slashes open_file_cache open_file_cache_errors open_file_cache_min_uses open_file_cache_valid
    output_buffers postpone_output proxy_buffer_size proxy_buffering proxy_buffers proxy_busy_buffers_size proxy_connect_timeout
    proxy_read_timeout proxy_request_buffering proxy_send_timeout proxy_socket_keepalive read_ahead request_pool_size
    reset_timedout_connection send_timeout sendfile sendfile_max_chunk server_tokens ssl_buffer_size ssl_prefer_server_ciphers
    ssl_protocols ssl_session_cache ssl_session_tickets ssl_session_timeout tcp_nodelay tcp_nopush types_hash_bucket_size
    types_hash_max_size
    """
)
"""Directives of the http block that only set amounts, times or switches."""


class Nginx(Server):
    """nginx with all its files in the service's folder; its status page is on a separate port."""

    name = "nginx"
    summary = "nginx: static files, or a proxy in front of another service"
    Options = NginxOptions
    costs = Costs(up_s=0.2, answers_per_s=20_000)
    own_tls = True
    balances = True
    harmless = frozenset({"files", "of", "workers", "worker_connections", "backlog"})
    permits = Permits(
        "all methods: its configuration takes none that changes a file, and its status page is read-only"
    )
    harmless_tuning = _HARMLESS
    programs = {"nginx": "nginx-light"}
    counted = ("requests", "connections")
    options: NginxOptions
    _http: int
    _https: int | None
    _status: int

    def start(self, neighbours: Mapping[str, ServiceFacts]) -> None:
        self._http = self.context.take_port("http", self.options.port)
        self._https = self.context.take_port("https", None) if self.options.tls is True else None
        self._status = self.context.take_port("status", None)
        for folder in ("files", "temporary"):
            (self.context.work / folder).mkdir(parents=True, exist_ok=True)
        for path, size in self.options.files.items():
            self.write(f"files{path}", _content(path, size), 0o644)
        config = self.write(
            "nginx.conf", self._config(upstreams_of(neighbours, self.options.of) if self.options.of else [])
        )
        self.spawn("nginx", [path_of("nginx"), "-c", config, "-p", self.context.work, "-e", "stderr"])

    def _config(self, upstreams: Sequence[Endpoint]) -> str:
        work, options = self.context.work, self.options
        temporary = "\n".join(
            f'  {kind}_temp_path "{work}/temporary/{kind}";'
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        tuning = "\n".join(f"  {name} {_SPELLING.value(value)};" for name, value in options.tuning.items())
        listeners = f"    listen {self.endpoint(self._http).connects_to} backlog={options.backlog};\n"
        if self._https is not None and self.context.credentials:
            listeners += (
                f"    listen {self.endpoint(self._https).connects_to} ssl backlog={options.backlog};\n"
                f'    ssl_certificate "{self.context.credentials.cert_file}";\n'
                f'    ssl_certificate_key "{self.context.credentials.key_file}";\n'
                "    ssl_protocols TLSv1.2 TLSv1.3;\n"
            )
        behind = "".join(f" server {one.connects_to};" for one in upstreams)
        pool = f"  upstream behind {{{behind} }}\n" if len(upstreams) > 1 else ""
        to = "behind" if pool else "".join(one.connects_to for one in upstreams)
        forward = (
            f"    location / {{ try_files $uri @next; }}\n    location @next {{ proxy_pass http://{to}; "
            f'proxy_http_version 1.1; proxy_set_header Connection ""; }}\n'
            if upstreams
            else ""
        )
        return f"""daemon off;
pid "{work}/nginx.pid";
error_log stderr error;
worker_processes {options.workers};
{_user()}events {{ worker_connections {options.worker_connections}; }}
http {{
  access_log off;
  log_format status '$connection';
  default_type application/octet-stream;
{temporary}
{tuning}
{pool}  server {{
{listeners}    root "{work}/files";
{forward}  }}
  server {{
    listen {self.endpoint(self._status).connects_to};
    access_log "{work}/status.log" status;
    location = /status {{ stub_status; }}
    location / {{ return 404; }}
  }}
}}
"""

    def condition(self) -> bool:
        return self.answers(self._status, "/status")

    def describe(self) -> ServiceFacts:
        endpoints = [self.endpoint(self._http)]
        if self._https is not None:
            endpoints.append(self.https_endpoint(self._https, "itself"))
        version = self.tool([path_of("nginx"), "-v"]).strip().rpartition("/")[2]
        admin = {
            "nginx": {
                "status_url": self.url(self._status, "/status"),
                "status_log": str(self.context.work / "status.log"),
                "connections_limit": self.options.workers * self.options.worker_connections,
            }
        }
        outputs = {"files": json.dumps(self.options.files)}
        return self.service_facts(version, *endpoints, admin=admin, outputs=outputs)

    def folders(self) -> tuple[Path, ...]:
        return (self.context.work / "files",)

    def reset(self) -> dict[str, Any]:
        """Do nothing, since it has no state; the proof has the open connections."""
        return {"active_connections": self._stub()["active"]}

    def counters(self) -> Counters:
        """Return requests and connections of the service's ports, without those of the status page, which its
        log counts; and how much of its files is in the page cache."""
        at_ns = time.monotonic_ns()
        log = (self.context.work / "status.log").read_text().split()
        stub = self._stub()
        values = {
            "requests": stub["requests"] - len(log) - 1,
            "connections": stub["accepts"] - len(set(log)) - 1,
        }
        found = in_page_cache(self.context.work / "files")
        if found is not None:
            values |= {FILES: found.size_bytes, RESIDENT_FILES: found.resident_bytes}
        return Counters(at_ns=at_ns, values=values, raw=stub)

    def _stub(self) -> dict[str, float]:
        _, text = web.call(self.url(self._status, "/status"))
        return parse_stub_status(text.decode())

    def effective(self) -> list[Setting]:
        return [self.backlog_setting("backlog", self.options.backlog, self._http)]


def parse_stub_status(text: str) -> dict[str, float]:
    """Return active, accepts, handled, requests, reading, writing, waiting from the page of
    ngx_http_stub_status_module. Raises ValueError."""
    numbers = [float(word) for word in re.findall(r"\d+", text)]
    names = ("active", "accepts", "handled", "requests", "reading", "writing", "waiting")
    if len(numbers) != len(names):
        raise ValueError(f"not a status page: {text[:80]!r}")
    return dict(zip(names, numbers, strict=True))


def _content(path: str, size: int) -> str:
    draw = random.Random(f"svload nginx {path}")
    block = "".join(draw.choices(string.ascii_letters + string.digits, k=min(size, 4096)))
    return (block * (size // max(len(block), 1) + 1))[:size]


def _user() -> str:
    """Return the directive by which root's workers keep the owner of the folder, which is private."""
    return "user root;\n" if os.geteuid() == 0 else ""
