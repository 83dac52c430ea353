"""Make a small synthetic run in today's formats as a thin tests/packs/pack-N.svload.zip; run this when a
format's number has risen.

Existing packs are not changed: `svload report PACK` must read what any older svload wrote.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from svload import api
from svload.model.certificates import Certificates, InstrumentCertificate, InstrumentLevel, Place

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.support import make_run  # noqa: E402

FOLDER = ROOT / "tests" / "packs"

CERTIFICATE = InstrumentCertificate(
    place=Place(host="a processor", kernel="6.1", engine="0" * 64),
    made_wall=1.76e9,
    levels=(
        InstrumentLevel(
            service_ns=1_000_000,
            n=600,
            truth_p50_ns=1_001_000,
            truth_p99_ns=1_090_000,
            seen_p50_ns=1_031_000,
            seen_p99_ns=1_080_000,
        ),
    ),
)


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    number = 1 + len(list(FOLDER.glob("pack-*.svload.zip")))
    with tempfile.TemporaryDirectory() as folder:
        known = Certificates(instrument=CERTIFICATE)
        run = make_run(Path(folder), cases=3, replicates=2, duration_s=0.3, vus=4, probe_vus=3, faults={"TC1.r2": "no-hits"}, certificates=known)  # fmt: skip
        api.analyse(run)
        path = api.pack(str(run.path), FOLDER / f"pack-{number}.svload.zip", thin=True)
    print(f"{path.relative_to(FOLDER.parent.parent)}: {path.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
