"""How long `svload import` takes from a file of 10 million samples to its findings, and how much memory:
`python -m benches.importing`.

The file is JMeter's CSV with all its columns, of 400 threads; it is made first, and its making is not
counted. Limits: 15 s and 2 GiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

SAMPLES = 10_000_000
LIMIT_S, LIMIT_BYTES = 15.0, 2 << 30
USERS = 400
EPOCH_MS = 1_700_000_000_000
_PIECE = 500_000
_IMPORT = """
import json, resource, sys, time
from pathlib import Path
begun = time.monotonic()
from svload import api
done = api.import_files([sys.argv[1]], "jtl", out=Path(sys.argv[2]), write_report=False)
group = next(iter(done.imported.values())).requests
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": time.monotonic() - begun, "bytes": used, "requests": group, "findings": len(done.findings.findings)}))
"""


def write(path: Path, samples: int, seed: int = 1) -> None:
    """A closed loop of 400 threads with lognormal times of 40 ms, as JMeter writes it: in the order of the ends."""
    draw = np.random.default_rng(seed)
    each = -(-samples // USERS)
    with path.open("wb") as file:
        first = True
        for begin in range(0, each, max(_PIECE // USERS, 1)):
            count = min(max(_PIECE // USERS, 1), each - begin)
            file.write(_piece(draw, begin, count, first))
            first = False


def _piece(draw: np.random.Generator, begin: int, count: int, header: bool) -> bytes:
    spent = np.maximum(draw.lognormal(np.log(40), 0.3, (count, USERS)), 1).astype(np.int64)
    cycle = 60  # ms from begin to begin: what a request leaves of it is think time
    begun = (begin + np.arange(count))[:, None] * cycle + (np.arange(USERS) * cycle // USERS)[None, :]
    spent = np.minimum(spent, cycle)
    order = np.argsort((begun + spent).ravel(), kind="stable")
    begun, spent = begun.ravel()[order], spent.ravel()[order]
    thread = np.tile(np.arange(USERS), count)[order]
    size = len(order)
    threads = pa.DictionaryArray.from_arrays(
        pa.array(thread.astype(np.int32)), [f"Thread Group 1-{n + 1}" for n in range(USERS)]
    )
    labels = pa.DictionaryArray.from_arrays(
        pa.array((thread % 3).astype(np.int32)), ["home", "search", "buy"]
    )

    def same(text: str) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, dtype=np.int32)), [text]).cast(
            pa.string()
        )

    number = pa.array(np.full(size, USERS))
    table = pa.table(
        {
            "timeStamp": EPOCH_MS + begun, "elapsed": spent, "label": labels.cast(pa.string()), "responseCode": same("200"), "responseMessage": same("OK"),
            "threadName": threads.cast(pa.string()), "dataType": same("text"), "success": same("true"), "failureMessage": same(""),
            "bytes": pa.array(np.full(size, 4321)), "sentBytes": pa.array(np.full(size, 123)), "grpThreads": number, "allThreads": number,
            "URL": same("http://127.0.0.1:8080/"), "Latency": spent // 2, "IdleTime": pa.array(np.zeros(size, dtype=np.int64)),
            "Connect": pa.array(np.zeros(size, dtype=np.int64)),
        }
    )  # fmt: skip
    out = pa.BufferOutputStream()
    pacsv.write_csv(table, out, write_options=pacsv.WriteOptions(include_header=header, quoting_style="none"))
    return bytes(out.getvalue())


def main() -> int:
    """Make the file, import it in a process of its own, print what it took; 1 beyond a limit."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--samples", type=int, default=SAMPLES)
    asked.add_argument(
        "--folder",
        type=Path,
        default=None,
        help="where the file and the run are put; default: a temporary folder",
    )
    words = asked.parse_args()
    with tempfile.TemporaryDirectory(dir=words.folder) as folder:
        path = Path(folder) / "results.jtl"
        begun = time.monotonic()
        write(path, words.samples)
        size = path.stat().st_size
        print(
            f"{words.samples:,} samples, {size / 1e6:,.0f} MB, made in {time.monotonic() - begun:.1f} s",
            file=sys.stderr,
        )
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT, str(path), folder], capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.stderr.write(done.stderr)
            return 1
        found = json.loads(done.stdout)
    within = found["seconds"] <= LIMIT_S and found["bytes"] <= LIMIT_BYTES
    cpu_s = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    print(
        json.dumps(
            found
            | {
                "file_bytes": size,
                "cpu_s": cpu_s,
                "limit_s": LIMIT_S,
                "limit_bytes": LIMIT_BYTES,
                "within": within,
            },
            indent=1,
        )
    )
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
