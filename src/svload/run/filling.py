"""The rows that a case needs: filled stores, and tables written under inputs/, both the same for all trials
of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from svload.lab import Lab
from svload.model.errors import fail
from svload.model.study import CaseConfig
from svload.run.inputs import csv_bytes, own_table, tables_of, write_table
from svload.store import RunDir


def fill(
    run: RunDir,
    lab: Lab,
    config: CaseConfig,
    seed: int,
    have: Mapping[str, Path],
    phase: Callable[[str], AbstractContextManager[None]],
) -> Mapping[str, Path]:
    """Fill the stores and return the tables by name, including `have`. A set that was listed before must be
    the same again. Raise SvloadError."""
    held = all(lab.stores.holds(objects) for objects in config.objects)
    wanted = {one.table for one in config.objects} | {source.name for source in config.tables}
    if held and wanted <= have.keys():
        return have
    filled: Mapping[str, Any] = {}
    if not held:
        with phase("fill"):
            filled = lab.stores.fill_all(config.objects, seed)
    known = tables_of(run.inputs, measured=bool(run.sealed_trials()))
    for name, table in filled.items():
        if name not in known:
            write_table(run.inputs, name, table)
        elif csv_bytes(table) != known[name].read_bytes():
            service = next(one.service for one in config.objects if one.table == name)
            reason = "its objects differ from those in the run's earlier trials"
            raise fail("fill-failed", service=service, reason=reason, log="")
    for source in config.tables:
        if source.name not in known:
            write_table(run.inputs, source.name, own_table(source))
    return tables_of(run.inputs)
