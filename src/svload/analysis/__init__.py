"""What it means: validity, statistics, laws, limits, causes, and the policies that name the next batch. Pure.

Names are loaded when first used: numpy and scipy cost a tenth of a second that `svload --help` does not pay.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svload.analysis.contrasts import plan_comparisons
    from svload.analysis.estimate import estimate_run
    from svload.analysis.judge import judge_run, judge_trial
    from svload.analysis.runs import compare_runs
    from svload.analysis.sentences import headline

__all__ = [
    "ANALYSIS_VERSION",
    "compare_runs",
    "estimate_run",
    "headline",
    "judge_run",
    "judge_trial",
    "plan_comparisons",
]

ANALYSIS_VERSION = 1
"""Stamped on derived/; findings of another version are made anew."""

_HOME = {
    "compare_runs": "runs",
    "estimate_run": "estimate",
    "headline": "sentences",
    "judge_run": "judge",
    "judge_trial": "judge",
    "plan_comparisons": "contrasts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"svload.analysis has no {name!r}")
    return getattr(import_module(f"svload.analysis.{_HOME[name]}"), name)
