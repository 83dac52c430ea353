"""The workers of a running Dask cluster, as machines that make load.

The user's own configuration of Dask determines its encryption. Sites, and what else the workers do, are not
known there.
"""

from __future__ import annotations

import contextlib
import pkgutil
import re
import socket
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import svload
from svload.host.machines.cluster import silence_dask
from svload.host.machines.reach import Joined, Reach
from svload.model.errors import Problem, SvloadError, fail

if TYPE_CHECKING:
    from distributed import Client

_SCHEDULER_WITHIN_S = 10.0
_WORKER_WITHIN_S = 30.0
_END_WITHIN_S = 5.0
_SCHEMES = ("tcp", "tls")
_SECURE = "Name it as Dask does, tls://HOST:PORT or tcp://HOST:PORT; certificates are named by Dask's own configuration (distributed.comm.tls)."


def workers_of(scheduler: str) -> tuple[Reach, ...]:
    """Return all of its workers, by name. Raises SvloadError fleet-scheduler, fleet-other-svload (each worker
    that lacks this version), fleet-worker, tool-missing."""
    if not _is_address(scheduler):
        raise fail(
            "fleet-scheduler", address=scheduler, reason="that is not a scheduler's address", hint=_SECURE
        )
    try:
        from distributed import Client
    except ImportError:
        hint = "pip install 'svload[fleet]'."
        raise fail("tool-missing", kit="svload run --scheduler", what="distributed", hint=hint) from None
    with contextlib.ExitStack() as stack:
        silence_dask()
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        try:
            client = Client(scheduler, timeout=_SCHEDULER_WITHIN_S, set_as_default=False)  # type: ignore[no-untyped-call]
        except Exception as why:  # Dask raises anything that its transports and its configuration raise
            raise fail("fleet-scheduler", address=scheduler, reason=_in_words(why), hint=_SECURE) from why
        stack.callback(client.close, timeout=_END_WITHIN_S)
        workers: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]  # some versions return 5
        found = reaches_of(
            scheduler, {address: str(worker.get("name", "")) for address, worker in workers.items()}
        )
        if not found:
            hint = "Start some, or wait for the queue to start them; then run the command again."
            raise fail("fleet-scheduler", address=scheduler, reason="it has no worker", hint=hint)
        _must_have_svload(client, found)
    return found


def reaches_of(scheduler: str, names: Mapping[str, str]) -> tuple[Reach, ...]:
    """Return machines of workers: address → name. Raises SvloadError fleet-worker."""
    found: dict[str, Reach] = {}
    for address, worker_name in sorted(names.items(), key=lambda one: (one[1], one[0])):
        place = urlsplit(address)
        if place.scheme not in _SCHEMES or not place.hostname:
            raise fail(
                "fleet-worker",
                host=worker_name or address,
                reason=f"it is at {address}, which can't be reached",
            )
        # A worker without a name uses its address as one; a name becomes part of a folder's name there.
        own = worker_name if worker_name and worker_name != address else place.netloc
        name = re.sub(r"[^\w.:-]+", "-", own)
        while name in found:
            name = f"{name}-{place.port}"
        joined = Joined(scheduler, address, _is_own(place.hostname))
        found[name] = Reach(name, place.hostname, "", 0, "", joined=joined)
    return tuple(found.values())


def _must_have_svload(client: Client, workers: tuple[Reach, ...]) -> None:
    asked = [
        client.submit(
            pkgutil.resolve_name, "svload:__version__", workers=[one.joined.worker], allow_other_workers=False, pure=False,
            retries=0,
        )
        for one in workers if one.joined is not None
    ]  # fmt: skip
    problems = []
    deadline = time.monotonic() + _WORKER_WITHIN_S
    for one, future in zip(workers, asked, strict=True):
        try:
            version = str(future.result(timeout=max(1.0, deadline - time.monotonic())))
        except (ImportError, AttributeError):
            version = ""
        except TimeoutError:
            reason = f"it took no task within {_WORKER_WITHIN_S:.0f} s; it is busy"
            problems.append(Problem("fleet-worker", {"host": one.name, "reason": reason}))
            continue
        except Exception as why:  # anything that Dask raises for a worker that leaves
            problems.append(Problem("fleet-worker", {"host": one.name, "reason": _in_words(why)}))
            continue
        if version != svload.__version__:
            details: dict[str, object] = {
                "host": one.name,
                "found": f"svload {version}" if version else "no svload",
                "own": svload.__version__,
            }
            problems.append(Problem("fleet-other-svload", details))
    if problems:
        raise SvloadError(*problems)


def _is_address(text: str) -> bool:
    try:
        place = urlsplit(text)
        return place.scheme in _SCHEMES and bool(place.hostname) and place.port is not None
    except ValueError:
        return False


def _is_own(address: str) -> bool:
    """Return whether this machine has that address: it can listen there."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(place)
    except OSError:
        return False
    return True


def _in_words(why: BaseException) -> str:
    """Return the last cause, which states what happened; Dask wraps it."""
    while why.__cause__ is not None:
        why = why.__cause__
    return " ".join(str(why).split())[:300] or type(why).__name__
