"""`svload import` of real result files of every load tester, with bytes, cells and rows altered."""

from __future__ import annotations

import gzip
import re
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from tests.store import foreign_files as files

from .oracle import Case, command
from .packs import flipped

STORE = Path(__file__).parents[1] / "store"
TABLE = (
    b"users,rps,p50_ms,p95_ms,errors\n10,98.2,12.5,30.1,0\n20,180.4,15.2,41.0,0.1\n40,201.7,60.9,188.4,2.5\n"
)
ODD = (
    "", "-1", "0", "nan", "inf", "1e308", "1e400", "9" * 30, str(2**31), str(2**63), "5e10", "1,5", "0x10",
    "true", "N/A", "=cmd()", "\x1b[2J", "\u202ex", "e\u0301", "\x00", '"', "a" * 5_000, "2026-01-01T00:00:00Z",
    "1970/01/01 00:00:00", "9999999999999", "\udcff",
)  # fmt: skip
CELL = re.compile(r'[^,;\t\n"{}<>= ]+')
WAYS = ("flip", "flip", "cut", "cell", "cell", "cell", "row", "swap", "drop", "column", "join", "code")


@cache
def _files() -> list[bytes]:
    """Return files of JMeter, Locust and k6, at most 300 lines of each, and a table."""
    found = [gzip.decompress(path.read_bytes()) for path in sorted((STORE / "jmeter").glob("*.jtl.gz"))]
    found.append((STORE / "formats" / "locust_stats_history.csv").read_bytes())
    load = files.closed_loop(users=3, lasts=1_500, failing=0.2)
    with tempfile.TemporaryDirectory(prefix="svload-fuzz-") as folder:
        for write in (files.write_k6_json, files.write_k6_csv, files.write_history):
            write(Path(folder) / "file", load)
            found += [(Path(folder) / "file").read_bytes()] * 6
    return [b"".join(one.splitlines(keepends=True)[:300]) for one in [*found, *[TABLE] * 4]]


def one(draw: Random, folder: Path) -> Case:
    """Import one altered file."""
    data = draw.choice(_files())
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        data = _altered(data, draw)
    if draw.random() < 0.15:
        data = gzip.compress(data, 1)
        data = flipped(data, draw) if draw.random() < 0.5 else data
    name = draw.choice(("a.jtl", "a.csv", "kpi.xml", "x_stats_history.csv", "results.json.gz"))
    (folder / name).write_bytes(data)
    words = ["import", draw.choice((name, f"before={name}")), "--out", "runs"]
    if draw.random() < 0.4:
        words += ["--as", draw.choice(("jtl", "locust", "k6", "table"))]
    words += draw.choice(([], [], ["--window", "all"], ["--json"], ["--factor", "users"]))
    environment = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state")}
    found = command(words, folder, environment)
    left = [path.name for path in (folder / "runs").glob("*")]
    if found.ended in ("exit 2", "exit 3") and left and not found.wrong:
        return Case(found.ended, f"{' '.join(words)}: refused, and {', '.join(left)} is left")
    return found


def _altered(data: bytes, draw: Random) -> bytes:
    way = draw.choice(WAYS)
    if way == "flip":
        return flipped(data, draw)
    if way == "cut":
        return data[: draw.randrange(len(data) + 1)]
    if way == "join":
        return data + draw.choice(_files())
    text = data.decode("utf-8", "surrogateescape")
    if way == "code":
        return text.encode(draw.choice(("utf-16", "utf-8-sig", "cp1252", "shift_jis", "utf-32")), "replace")
    lines = text.splitlines(keepends=True) or [""]
    at = draw.randrange(len(lines))
    if way == "cell":
        cells = list(CELL.finditer(lines[at]))
        if cells:
            cell = draw.choice(cells)
            lines[at] = lines[at][: cell.start()] + draw.choice(ODD) + lines[at][cell.end() :]
    elif way == "row":
        lines.insert(draw.randrange(len(lines) + 1), lines[at])
    elif way == "swap":
        other = draw.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif way == "drop":
        del lines[at]
    elif way == "column":
        place, odd = draw.randrange(8), draw.choice(ODD)
        lines[1:] = [
            ",".join(odd if number == place else cell for number, cell in enumerate(line.split(",")))
            for line in lines[1:]
        ]
    return "".join(lines).encode("utf-8", "surrogateescape")
