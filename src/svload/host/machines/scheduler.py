"""Dask's scheduler of one run: `python -m svload.host.machines.scheduler`.

The first line of its input holds the certificates (JSON); its answer is {"address": …}; the end of its input
ends it, so that it never outlives the controller.
"""

from __future__ import annotations

import asyncio
import json
import sys

from svload.host.machines.cluster_security import SETTINGS, no_folder_left, security_of, without_pages


async def serve(pems: dict[str, str]) -> None:
    """Listen on a free port of this machine's loopback until the input ends."""
    from distributed import Scheduler

    with no_folder_left():
        made = without_pages(Scheduler)(
            host="127.0.0.1",
            port=0,
            protocol="tls",
            security=security_of(pems),
            dashboard=False,
            dashboard_address=None,
        )
    async with made as scheduler:
        print(json.dumps({"address": scheduler.address}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main() -> int:
    """Run the scheduler; return 0 once its input has ended."""
    import dask

    pems = json.loads(sys.stdin.readline())
    with dask.config.set(SETTINGS):
        asyncio.run(serve(pems))
    return 0


if __name__ == "__main__":
    sys.exit(main())
