"""The certificates of a run's Dask cluster, kept in memory and passed by standard input; its settings."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed.security import Security

Pems = dict[str, str]
ROLES = ("scheduler", "worker", "client")
SETTINGS: dict[str, Any] = {
    "distributed.scheduler.allowed-failures": 0,  # load is never repeated
    "distributed.scheduler.worker-ttl": "10s",
    "distributed.worker.memory.terminate": False,
    "distributed.worker.memory.pause": False,
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "15s",
    "distributed.comm.retry.count": 0,
    "distributed.admin.large-graph-warning-threshold": "1GB",
}
"""Dask's settings, for scheduler, workers and client."""


def make_pems() -> Pems:
    """Create an authority for this cluster, and a certificate that all its parts use."""
    import trustme

    authority = trustme.CA(organization_name="svload")
    issued = authority.issue_cert("svload.invalid")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    return {
        "ca": authority.cert_pem.bytes().decode(),
        "cert": chain.decode(),
        "key": issued.private_key_pem.bytes().decode(),
    }


def security_of(pems: Pems) -> Security:
    """Return settings by which both sides present a certificate and everything is encrypted."""
    from distributed.security import Security

    parts = {f"tls_{role}_{what}": pems[what] for role in ROLES for what in ("cert", "key")}
    return Security(require_encryption=True, tls_ca_file=pems["ca"], **parts)  # type: ignore[no-untyped-call]


def without_pages(kind: type[Any]) -> type[Any]:
    """Return a scheduler's or worker's class that serves no HTTP pages: with `dashboard=False` it would still
    tell anybody on this machine, unencrypted, what runs where."""

    def start_http_server(self: Any, routes: Any, *words: Any, **more: Any) -> None:
        from distributed.http.routing import RoutingApplication
        from tornado.httpserver import HTTPServer

        self.http_application = RoutingApplication(routes)  # type: ignore[no-untyped-call]
        self.http_server = HTTPServer(self.http_application)

    return type(kind.__name__, (kind,), {"start_http_server": start_http_server})


@contextlib.contextmanager
def no_folder_left() -> Iterator[None]:
    """Give Dask's scheduler and workers a folder only while they are created. Nothing is ever spilled to it,
    and a killed process could not remove it."""
    import dask

    with (
        tempfile.TemporaryDirectory(prefix="svload-dask-") as folder,
        dask.config.set({"temporary-directory": folder}),
    ):
        yield
