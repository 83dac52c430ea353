"""The meaning of measurements: validity, statistics, laws, limits, causes, and the policies that choose the
next batch. Pure.

Names are imported lazily: numpy and scipy take a tenth of a second to import, which `svload --help` need not
pay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svload.analysis.limits import ANALYSIS_VERSION
from svload.model.late import late

if TYPE_CHECKING:
    from svload.analysis.contrasts import plan_comparisons
    from svload.analysis.estimate import estimate_run, measured, size_of_run
    from svload.analysis.floor import floor_of, floors_of, one_case_a_load
    from svload.analysis.judge import judge_run, judge_trial, own_verdicts
    from svload.analysis.load_summary import summarise_load
    from svload.analysis.phases import outside_load, own_phases, phases_of
    from svload.analysis.runs import compare_runs
    from svload.analysis.sentences import headline
    from svload.analysis.settings import settings_digest
    from svload.analysis.unreached import unreached_limits

__getattr__ = late(__name__)
