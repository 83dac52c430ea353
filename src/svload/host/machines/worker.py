"""Dask's worker on a machine of a fleet: `python -m svload.host.machines.worker`, started by SSH.

The first line of its input is JSON: certificates, the scheduler's address, its own name and port. It answers
{"ready": version}. The end of its input, such as when SSH ends, immediately ends it and the agent that it
owns; a controller that vanishes without ending SSH is missed by the bearer, or before there is one here.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from svload.host.machines.cluster_security import SETTINGS, no_folder_left, security_of, without_pages

if TYPE_CHECKING:
    from distributed import Worker

_BEGUN_WITHIN_S = 30
_USED_WITHIN_S = 120.0
"""By then a living controller has given it a bearer: it waits 60 s for other workers and 30 s for a
connection."""


async def serve(settings: dict[str, Any]) -> None:
    """Run one task at a time, until the input ends or the scheduler is gone."""
    from distributed import Worker

    import svload

    with no_folder_left():
        made = without_pages(Worker)(
            settings["scheduler"], name=settings["name"], nthreads=1, host="127.0.0.1", port=settings["port"],
            security=security_of(settings["pems"]), dashboard=False, dashboard_address="127.0.0.1:0", memory_limit=0,
            death_timeout=_BEGUN_WITHIN_S, resources={"svload": 1},
        )  # fmt: skip
    async with made as worker:
        print(json.dumps({"ready": svload.__version__}), flush=True)
        await _end_of(worker, _USED_WITHIN_S)


async def _end_of(worker: Worker, used_within_s: float) -> None:
    """Return when the worker was released, or if no actor was given to it in time."""
    released = asyncio.ensure_future(worker.finished())  # type: ignore[no-untyped-call]
    done, _ = await asyncio.wait([released], timeout=used_within_s)
    if not done and worker.state.actors:
        await released


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> int:
    """Run the worker; return 0 once the scheduler has released it."""
    import dask

    settings = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    with dask.config.set(SETTINGS):
        asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
