"""svload's engine in a process of its own: `python -m benches.share SPEC OUT`: runs the share, keeps its tables, prints its summary.

It does what a generator of svload does, without agent and controller; the whole recording is on, and written.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from svload import _native
from svload.store.raw import write_tables


def main() -> int:
    """Returns 0; a share that can't run is a traceback, which the bench shows."""
    spec = Path(sys.argv[1]).read_text(encoding="utf-8")
    tables = _native.run_share(spec, {}, _progress)
    summary = json.loads(tables.pop("summary")["json"][1][0])
    write_tables(Path(sys.argv[2]), tables)
    print(json.dumps(summary | {"load_rss_bytes": max(_resident_bytes, default=0)}))
    return 0


_resident_bytes: list[int] = []
"""Resident memory while load was made, once a second: the peak of the process would be that of writing its tables."""


def _progress(text: str) -> None:
    json.loads(text)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    _resident_bytes.append(pages * os.sysconf("SC_PAGESIZE"))


if __name__ == "__main__":
    sys.exit(main())
