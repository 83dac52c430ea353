"""svload's engine in a separate process: `python -m benches.share SPEC OUT` runs the share, keeps its tables,
prints its summary.

It does what a generator of svload does, without agent and controller; everything is recorded and written.
With the interpreter of another tree it measures the engine of that tree.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from svload import _native
from svload.store.raw import write_tables


def main() -> int:
    """Run the share and return 0; a share that can't run gives a traceback, which the bench shows."""
    tables = _run(Path(sys.argv[1]).read_text(encoding="utf-8"))
    summary = json.loads(tables.pop("summary")["json"][1][0])
    write_tables(Path(sys.argv[2]), tables)
    print(json.dumps(summary | {"load_rss_bytes": max(_resident_bytes, default=0)}))
    return 0


def _run(spec: str) -> Any:
    """Run the share. An older engine knows fewer fields; one that requests nothing is left out for it."""
    try:
        return _native.run_share(spec, {}, _progress)
    except ValueError as why:
        unknown = re.search("unknown field `([a-z0-9_]+)`", str(why))
        if unknown is None:
            raise
        name, error = unknown[1], why

    def leave_out(found: dict[str, Any]) -> dict[str, Any]:
        if found.pop(name, None):
            raise error
        return found

    return _run(json.dumps(json.loads(spec, object_hook=leave_out)))


_resident_bytes: list[int] = []
"""Resident memory during the load, once a second: the process's peak would be from writing its tables."""


def _progress(text: str) -> None:
    json.loads(text)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    _resident_bytes.append(pages * os.sysconf("SC_PAGESIZE"))


if __name__ == "__main__":
    sys.exit(main())
