"""The Python API: one function per command. The command line parses, calls one of these, and prints.

It composes the packages and makes no decision that a package could make. Heavy imports happen inside the
functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.api.capacity import CapacityAsk, capacity
from svload.api.certificates import AA_PAIRS, aa, certify
from svload.api.compared_urls import are_urls, compare_urls
from svload.api.exports import (
    export_jtl,
    export_tables,
    figures,
    findings_schema,
    has_ended,
    openmetrics,
    summary,
)
from svload.api.first_look import doctor, init, probe
from svload.api.fleet import fleet_check, fleet_clean, fleet_install, fleet_status
from svload.api.imports import ImportedRun, are_tables, better_files, check_tables, import_files
from svload.api.labs import (
    lab_down,
    lab_install,
    lab_reset,
    lab_status,
    lab_up,
    lab_urls,
    warm_end,
    warm_keep,
)
from svload.api.load import LoadFiles, LoadResult, load
from svload.api.runs import (
    RUNS,
    analyse,
    compare,
    damaged,
    find_run,
    judge_trial,
    names_run,
    pack,
    put_tables,
    query,
    read_findings,
    report,
    schema,
    secret_columns,
    verdict_exit,
    verify,
    why,
)
from svload.api.studies import DEMO_STUDY, Choices, Emit, RunResult, demo, load_lock, plan, resume, run_study
from svload.model.late import late
from svload.study.compared_urls import ComparedUrls
from svload.study.quick_load import QuickLoad

if TYPE_CHECKING:
    from svload.tables.own import OwnTable, direction, read_tables

__all__ = [
    "AA_PAIRS",
    "DEMO_STUDY",
    "RUNS",
    "CapacityAsk",
    "Choices",
    "ComparedUrls",
    "Emit",
    "ImportedRun",
    "LoadFiles",
    "LoadResult",
    "OwnTable",
    "QuickLoad",
    "RunResult",
    "aa",
    "analyse",
    "are_tables",
    "are_urls",
    "better_files",
    "capacity",
    "certify",
    "check_tables",
    "compare",
    "compare_urls",
    "damaged",
    "demo",
    "direction",
    "doctor",
    "export_jtl",
    "export_tables",
    "figures",
    "find_run",
    "findings_schema",
    "fleet_check",
    "fleet_clean",
    "fleet_install",
    "fleet_status",
    "has_ended",
    "import_files",
    "init",
    "judge_trial",
    "lab_down",
    "lab_install",
    "lab_reset",
    "lab_status",
    "lab_up",
    "lab_urls",
    "load",
    "load_lock",
    "names_run",
    "openmetrics",
    "pack",
    "plan",
    "probe",
    "put_tables",
    "query",
    "read_findings",
    "read_tables",
    "report",
    "resume",
    "run_study",
    "schema",
    "secret_columns",
    "summary",
    "verdict_exit",
    "verify",
    "warm_end",
    "warm_keep",
    "why",
]  # fmt: skip

__getattr__ = late(__name__)
