"""svload's engine in a separate process: `python -m benches.share SPEC OUT [MODULE]`: runs the share, keeps
its tables, prints its summary.

It does what a generator of svload does, without agent and controller; everything is recorded and written.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

import svload
from svload.store.raw import write_tables


def main() -> int:
    """Run the share and return 0; a share that can't run gives a traceback, which the bench shows."""
    spec = Path(sys.argv[1]).read_text(encoding="utf-8")
    if len(sys.argv) > 3:
        _take(Path(sys.argv[3]))
    from svload import _native

    tables = _run(_native, spec)
    summary = json.loads(tables.pop("summary")["json"][1][0])
    write_tables(Path(sys.argv[2]), tables)
    print(json.dumps(summary | {"load_rss_bytes": max(_resident_bytes, default=0)}))
    return 0


def _take(module: Path) -> None:
    """Use another build of the engine instead of svload's own."""
    name = "svload._native"
    spec = importlib.util.spec_from_loader(name, ExtensionFileLoader(name, str(module)))
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} is no module")
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    setattr(svload, "_native", found)  # noqa: B010  # what `from svload import _native` looks at first


def _run(engine: Any, spec: str) -> Any:
    """Run the share. An older engine knows fewer fields; a field that requests nothing is left out for it."""
    while True:
        try:
            return engine.run_share(spec, {}, _progress)
        except ValueError as why:
            unknown = re.search("unknown field `([a-z0-9_]+)`", str(why))
            if unknown is None:
                raise
            spec = _without(spec, unknown[1])


def _without(spec: str, field: str) -> str:
    """Return a share without a field at any depth. Raise ValueError if one of them requests something."""

    def leave_out(found: dict[str, Any]) -> dict[str, Any]:
        if found.pop(field, None):
            raise ValueError(f"that engine does not know `{field}`, which the share asks for")
        return found

    return json.dumps(json.loads(spec, object_hook=leave_out))


_resident_bytes: list[int] = []
"""Resident memory during the load, once a second: the process's peak would be from writing its tables."""


def _progress(text: str) -> None:
    json.loads(text)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    _resident_bytes.append(pages * os.sysconf("SC_PAGESIZE"))


if __name__ == "__main__":
    sys.exit(main())
