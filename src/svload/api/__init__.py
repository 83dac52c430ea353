"""The Python API: one function a command. The command line parses, calls one of these, and prints.

It composes the rooms and decides nothing that a room could decide. Heavy imports happen inside the functions.
"""

from __future__ import annotations

from svload.api.certificates import AA_PAIRS, aa, certify
from svload.api.exports import export_tables, figures, findings_schema, has_ended, openmetrics, summary
from svload.api.labs import lab_down, lab_install, lab_reset, lab_status, lab_up, warm_end, warm_keep
from svload.api.load import LoadFiles, LoadResult, load
from svload.api.quick import doctor, init, probe
from svload.api.runs import (
    RUNS,
    analyse,
    compare,
    damaged,
    judge_trial,
    pack,
    query,
    read_findings,
    report,
    schema,
    verdict_exit,
    verify,
    why,
)
from svload.api.studies import DEMO_STUDY, Choices, Emit, RunResult, demo, load_lock, plan, resume, run_study
from svload.study.quick import QuickLoad

__all__ = [
    "AA_PAIRS", "DEMO_STUDY", "RUNS", "Choices", "Emit", "LoadFiles", "LoadResult", "QuickLoad", "RunResult", "aa", "analyse",
    "certify", "compare", "damaged", "demo", "doctor", "export_tables", "figures", "findings_schema", "has_ended", "init", "judge_trial", "lab_down",
    "lab_install", "lab_reset", "lab_status", "lab_up", "load", "load_lock", "openmetrics", "pack", "plan", "probe", "query",
    "read_findings", "report", "resume", "run_study", "schema", "summary", "verdict_exit", "verify", "warm_end",
    "warm_keep", "why",
]  # fmt: skip
