"""A small synthetic run in today's formats as tests/packs/pack-N.svload.zip: run it when a format's number has risen.

Packs that are there stay as they are: `svload report PACK` must read what any older svload wrote.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from svload import api
from svload.store import pack_run
from svload.testing import make_run

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "packs"


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    number = 1 + len(list(FOLDER.glob("pack-*.svload.zip")))
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), cases=3, replicates=2, duration_s=0.3, vus=4, probe_vus=3, faults={"TC1.r2": "no-hits"})  # fmt: skip
        api.analyse(run)
        path = pack_run(run, FOLDER / f"pack-{number}.svload.zip")
    print(f"{path.relative_to(FOLDER.parent.parent)}: {path.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
