"""Monitors, one file per kind. They are found by scanning this folder; those of other packages by the entry
points `svload.monitors`."""

from __future__ import annotations

import glob
import inspect
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from svload.watch.monitor import Monitor

GROUP = "svload.monitors"


@cache
def load_monitors() -> tuple[type[Monitor], ...]:
    """Return all kinds of monitors, by name. Those of other packages that cannot be imported are left out."""
    found: dict[str, type[Monitor]] = {}
    for module in iter_modules(__path__):
        loaded = import_module(f"{__name__}.{module.name}")
        kinds = [
            kind
            for _, kind in inspect.getmembers(loaded, inspect.isclass)
            if kind.__module__ == loaded.__name__
        ]
        found |= {
            kind.name: kind for kind in kinds if issubclass(kind, Monitor) and not inspect.isabstract(kind)
        }
    for point in _points_of_others():
        try:
            kind = point.load()
        except Exception:  # a broken package of others must not stop a trial
            continue
        if inspect.isclass(kind) and issubclass(kind, Monitor):
            found.setdefault(kind.name, kind)
    return tuple(found[name] for name in sorted(found))


def _points_of_others() -> Iterable[Any]:
    """Yield the entry points of other packages. importlib.metadata takes as long to load as all monitors
    together, so it is loaded only if an installed package names our group."""
    for folder in sys.path:
        for path in glob.iglob(f"{glob.escape(folder)}/*-info/entry_points.txt"):
            with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
                if GROUP in file.read():
                    from importlib import metadata

                    return metadata.entry_points(group=GROUP)
    return ()


def monitors_for(facts: Mapping[str, Any] | None) -> list[type[Monitor]]:
    """Return the monitors that attach to a service with these facts (as JSON), or to the host (None)."""
    plain = None if facts is None else dict(facts)
    return [kind for kind in load_monitors() if kind.reads(plain)]
