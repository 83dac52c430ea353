"""A generator: a process that makes load, exchanging JSON lines with its agent.

`python -m svload.drive.generator` lives through many trials: prepare (share and tables) → ready; start_at_ns
→ progress … done; its tables go to the file that the share names. Between loads it measures its core's speed
(calibrate). It only imports the standard library, the raw container and the native engine: it must start
fast.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from svload import _native
from svload.drive.share.write import begun
from svload.model.errors import error_line
from svload.store.raw import write_tables

PRIORITY = -10
"""Nice value of a generator with its own cores, if the machine allows one below 0: other processes that wake
there would delay it.

On cores shared with servers it would take their time; there the engine's short slices must do.
"""
LEAD_NS = 20_000_000
"""A start chosen by the generator is this far ahead, so that the engine has armed its timers."""
_tables: dict[str, dict[str, Any]] = {}
_out = threading.Lock()


def main() -> int:
    """Read lines until the end of input. Return 0; a failing share gives an error line, never a traceback."""
    with suppress(PermissionError):
        if len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    prepared: dict[str, Any] | None = None
    stop_write = -1
    load: threading.Thread | None = None
    for line in sys.stdin:
        message = json.loads(line)
        try:
            if "prepare" in message:
                prepared = _prepare(message["prepare"])
                _say({"ready": True, "share": prepared["share"]["id"]})
            elif "calibrate" in message:
                _say({"ready": True, "calibration_ns": fixed_work_ns()})
            elif "start_at_ns" in message and prepared is not None:
                stop_read, stop_write = os.pipe()
                start_at_ns = message["start_at_ns"] or time.monotonic_ns() + LEAD_NS
                args = (prepared, start_at_ns, stop_read, stop_write)
                load = threading.Thread(target=_load, args=args, daemon=True)
                load.start()
                prepared = None
            elif "stop" in message and load is not None and load.is_alive():
                os.write(stop_write, b"x")
        except (ValueError, OSError, KeyError) as why:
            _say(error_line(why, ""))
    if load is not None and load.is_alive():
        os.write(stop_write, b"x")
        load.join(5)
    return 0


def _prepare(message: dict[str, Any]) -> dict[str, Any]:
    inputs = {}
    for name, path in message["tables"].items():
        if path not in _tables:
            _tables[path] = read_inputs(Path(path))
        inputs[name] = _tables[path]
    for name, columns in message.get("values", {}).items():
        inputs[name] = {column: ("utf8", values) for column, values in columns.items()}
    return {"share": message["share"], "out": Path(message["out"]), "inputs": inputs}


def _load(prepared: dict[str, Any], start_at_ns: int, stop_read: int, stop_write: int) -> None:
    try:
        share = begun(prepared["share"], start_at_ns, stop_read)
        tables = _native.run_share(share, prepared["inputs"], _progress)
        summary = json.loads(tables.pop("summary")["json"][1][0])
        write_tables(prepared["out"], tables)
        _say({"done": {"summary": summary, "tables": str(prepared["out"]), "start_at_ns": start_at_ns}})
    except BaseException as why:  # a thread's end alone would leave the controller waiting
        _say(error_line(why, prepared["out"]))
    finally:
        os.close(stop_read)
        os.close(stop_write)


def _progress(text: str) -> None:
    _say({"progress": json.loads(text) | {"cpu_s": time.process_time()}})


def _say(message: dict[str, Any]) -> None:
    with _out:
        sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def read_inputs(path: Path) -> dict[str, Any]:
    """Return a table of inputs/ (CSV) as engine columns."""
    limit = csv.field_size_limit(sys.maxsize)  # a value from a Parquet file may be longer than 128 KiB
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            names = next(rows)
            columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
    finally:
        csv.field_size_limit(limit)
    return {name: engine_column(name, column) for name, column in zip(names, columns, strict=True)}


def engine_column(name: str, values: list[str]) -> tuple[str, Any]:
    """Return a column in the engine's form: `…_bytes` as u64, all else as text."""
    if name.endswith("_bytes"):
        return "u64", b"".join(int(value).to_bytes(8, "little") for value in values)
    return "utf8", values


BLOCK = bytes(range(256)) * 256
BURSTS, REPEATS = 6, 10
GAP_S = 0.004
WARM_NS = 3_000_000
"""How long a core that slept is first brought up to speed, unmeasured."""


def fixed_work_ns() -> float:
    """Return the lower quartile of `BURSTS` × `REPEATS` times of one SHA-256 over 64 KiB, in ns: some 25 ms.

    The quartile leaves out the time of interrupts and other processes (they have their own checks), the gaps
    between the bursts leave out what disturbs a core for some milliseconds; both move with the core's clock.
    """
    times = []
    for burst in range(BURSTS):
        if burst:
            time.sleep(GAP_S)
        warm_until_ns = time.perf_counter_ns() + (WARM_NS if burst == 0 else WARM_NS // 20)
        while time.perf_counter_ns() < warm_until_ns:
            hashlib.sha256(BLOCK).digest()
        for _ in range(REPEATS):
            begun_ns = time.perf_counter_ns()
            hashlib.sha256(BLOCK).digest()
            times.append(time.perf_counter_ns() - begun_ns)
    return float(sorted(times)[len(times) // 4])


if __name__ == "__main__":
    sys.exit(main())
