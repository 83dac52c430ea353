"""Dask's scheduler and workers serve no pages, where any user of the machine could read what runs."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.bounds import HANG_S

from svload.host.machine.linux import descriptors
from svload.host.machine.sock_diag import listening_sockets
from svload.host.machines import cluster_security
from svload.host.machines.cluster_security import make_pems, no_folder_left, security_of, without_pages

distributed = pytest.importorskip("distributed")


def listeners() -> int:
    """Return the number of TCP sockets on which this process listens."""
    own = descriptors(os.getpid())
    return sum(f"socket:[{one.inode}]" in own for one in listening_sockets())


def test_scheduler_and_worker_listen_for_each_other_alone() -> None:
    import dask

    async def count() -> int:
        pems, before = make_pems(), listeners()
        security = security_of(pems)
        how = {"host": "127.0.0.1", "security": security, "dashboard": False}
        with no_folder_left():
            scheduler = without_pages(distributed.Scheduler)(
                port=0, protocol="tls", dashboard_address=None, **how
            )
        async with scheduler:
            with no_folder_left():
                worker = without_pages(distributed.Worker)(
                    scheduler.address, nthreads=1, memory_limit=0, **how
                )
            async with worker:
                return listeners() - before

    # In a separate thread, because a browser of another test may keep a loop running in this one.
    with dask.config.set(cluster_security.SETTINGS), ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, asyncio.wait_for(count(), HANG_S)).result(HANG_S) == 2
