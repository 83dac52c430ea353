"""What it means: validity, statistics, laws, limits, causes, and the policies that name the next batch. Pure.

Names are loaded when first used: numpy and scipy cost a tenth of a second that `svload --help` does not pay.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svload.analysis.contrasts import plan_comparisons
    from svload.analysis.estimate import estimate_run
    from svload.analysis.floor import floor_of, floors_of, one_case_a_load, settings_digest
    from svload.analysis.judge import judge_run, judge_trial
    from svload.analysis.runs import compare_runs
    from svload.analysis.sentences import headline

__all__ = [
    "ANALYSIS_VERSION",
    "compare_runs",
    "estimate_run",
    "floor_of",
    "floors_of",
    "headline",
    "judge_run",
    "judge_trial",
    "one_case_a_load",
    "plan_comparisons",
    "settings_digest",
]

ANALYSIS_VERSION = 2
"""Stamped on derived/; findings of another version are made anew."""

_HOME = {
    "compare_runs": "runs",
    "estimate_run": "estimate",
    "floor_of": "floor",
    "floors_of": "floor",
    "headline": "sentences",
    "judge_run": "judge",
    "judge_trial": "judge",
    "one_case_a_load": "floor",
    "plan_comparisons": "contrasts",
    "settings_digest": "floor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"svload.analysis has no {name!r}")
    return getattr(import_module(f"svload.analysis.{_HOME[name]}"), name)
