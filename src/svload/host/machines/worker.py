"""Dask's worker on a machine of a fleet: `python -m svload.host.machines.worker`, started by SSH.

The first line of its input is JSON: certificates, the scheduler's address, its own name and port. It answers
{"ready": version}. The end of its input, such as when SSH ends, immediately ends it and the agent that it
owns.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

from svload.host.machines.cluster_security import SETTINGS, no_folder_left, security_of, without_pages

_BEGUN_WITHIN_S = 30


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
        await worker.finished()


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
