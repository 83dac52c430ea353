"""What stays: a run's folder, journal, tables, seals, packs and SQL over it.

Names are loaded when first used, so that the process that makes load and `svload --help` pay for nothing they don't need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svload.store.journal import Journal, Journalled, read_events
    from svload.store.layout import RunDir, TrialDir, find_run, folder_name, unfinished_runs
    from svload.store.pack import open_pack, pack_run
    from svload.store.parquet import TrialData, merge_shares, read_trial, write_trial_tables
    from svload.store.raw import read_tables, write_tables
    from svload.store.seal import seal_trial, verify_run, verify_trial, write_artefact, write_text
    from svload.store.sql import export_views, query

__all__ = [
    "Journal",
    "Journalled",
    "RunDir",
    "TrialData",
    "TrialDir",
    "export_views",
    "find_run",
    "folder_name",
    "merge_shares",
    "open_pack",
    "pack_run",
    "query",
    "read_events",
    "read_tables",
    "read_trial",
    "seal_trial",
    "unfinished_runs",
    "verify_run",
    "verify_trial",
    "write_artefact",
    "write_tables",
    "write_text",
    "write_trial_tables",
]

_HOMES = {
    "journal": ("Journal", "Journalled", "read_events"),
    "layout": ("RunDir", "TrialDir", "find_run", "folder_name", "unfinished_runs"),
    "pack": ("open_pack", "pack_run"),
    "parquet": ("TrialData", "merge_shares", "read_trial", "write_trial_tables"),
    "raw": ("read_tables", "write_tables"),
    "seal": ("seal_trial", "verify_run", "verify_trial", "write_artefact", "write_text"),
    "sql": ("export_views", "query"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"svload.store has no {name!r}")
    return getattr(import_module(f"svload.store.{_HOME[name]}"), name)
