"""What stays: a run's folder, journal, tables, seals, packs and SQL over it.

Names are loaded when first used, so that the process that makes load and `svload --help`
pay for nothing they don't need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.model.late import late

if TYPE_CHECKING:
    from svload.store.builds import measured_programs, other_builds
    from svload.store.find import find_run, last_run, names_run, unfinished_runs
    from svload.store.hold import hold_run
    from svload.store.journal import Journal, Journalled, read_events
    from svload.store.layout import RunDir, TrialDir, folder_name
    from svload.store.pack import open_pack, pack_run
    from svload.store.parquet import TrialData, merge_shares, read_trial, write_trial_tables
    from svload.store.raw import read_tables, write_tables
    from svload.store.seal import (
        findings_are_as_written,
        seal_trial,
        verify_trial,
        write_artefact,
        write_findings,
        write_text,
    )
    from svload.store.sql import export_views, query
    from svload.store.thin import thin_copy
    from svload.store.verify import changed_since_sealed, verify_run

__all__ = [
    "Journal",
    "Journalled",
    "RunDir",
    "TrialData",
    "TrialDir",
    "changed_since_sealed",
    "export_views",
    "find_run",
    "findings_are_as_written",
    "folder_name",
    "hold_run",
    "last_run",
    "measured_programs",
    "merge_shares",
    "names_run",
    "open_pack",
    "other_builds",
    "pack_run",
    "query",
    "read_events",
    "read_tables",
    "read_trial",
    "seal_trial",
    "thin_copy",
    "unfinished_runs",
    "verify_run",
    "verify_trial",
    "write_artefact",
    "write_findings",
    "write_tables",
    "write_text",
    "write_trial_tables",
]

__getattr__ = late(
    __name__,
    {
        "builds": ("measured_programs", "other_builds"),
        "journal": ("Journal", "Journalled", "read_events"),
        "find": ("find_run", "last_run", "names_run", "unfinished_runs"),
        "hold": ("hold_run",),
        "layout": ("RunDir", "TrialDir", "folder_name"),
        "pack": ("open_pack", "pack_run"),
        "parquet": ("TrialData", "merge_shares", "read_trial", "write_trial_tables"),
        "raw": ("read_tables", "write_tables"),
        "seal": (
            "findings_are_as_written",
            "seal_trial",
            "verify_trial",
            "write_artefact",
            "write_findings",
            "write_text",
        ),
        "sql": ("export_views", "query"),
        "thin": ("thin_copy",),
        "verify": ("changed_since_sealed", "verify_run"),
    },
)
