"""The files of runs: a run's folder, journal, tables, seals, packs and SQL over it.

Names are loaded on first use, so that the process that makes load and `svload --help` load only what they
need.
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

__getattr__ = late(__name__)
