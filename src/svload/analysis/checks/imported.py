"""What an imported trial cannot show about its instrument, and Little's law as far as its file supports it
(docs/method.md §4)."""

from __future__ import annotations

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context
from svload.analysis.ranges import harm
from svload.analysis.view import GroupView, kept_window
from svload.model.results import CheckResult, Harm, Imported
from svload.model.study import CaseConfig
from svload.model.units import show_percent
from svload.store import TrialData


class ImportedInstrument(Check):
    """An imported trial is WEAK at best: the delays that its generator added were not recorded, so its times
    have no bound."""

    name = "imported-instrument"
    order = 19
    of = "imported"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        imported = trial.summary.imported
        assert imported is not None
        notes = f" {' '.join(imported.notes)}" if imported.notes else ""
        sentence = (
            f"Imported from {imported.tool} ({imported.file}): the file doesn't record the generator's "
            f"delays or when requests were due.{notes}"
        )
        return self.result(
            "WEAK",
            sentence,
            remedy="Generate the load with svload, which measures its own delays.",
            harms=[harm(self.scope, limits.IMPORTED, 0.0)],
        )


class ImportedLittle(Check):
    """L compared with N users of an imported closed loop: Σ of clipped request times over T; with totals
    alone X·R, which has an edge bias."""

    name = "imported-little"
    order = 12
    comparisons = "lost"
    scope = "all"
    of = "imported"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """REFUSED where more users were at work than there were; WEAK where only totals show this."""
        imported = trial.summary.imported
        assert imported is not None
        found = [_in_flight(trial, view, imported) for view in context.groups]
        known = [one for one in found if one is not None]
        if not known:
            return self.unmeasured("the file doesn't record the number of users")
        worst_share, sentence, edge = max(known)
        over = worst_share > limits.TABLE_BIAS
        if not over:
            return self.result(
                "VALID", f"Little's law holds: {sentence}.{edge}", worst_share, limits.TABLE_BIAS
            )
        if not imported.single:
            late = "L > N, late completions counted: requests count in the second in which they ended"
            return self.result(
                "WEAK", f"{sentence} ({late}).", worst_share, limits.TABLE_BIAS, "Import single requests."
            )
        return self.result(
            "REFUSED",
            f"Little's law is broken: {sentence}: more users were active than there were.",
            worst_share,
            limits.TABLE_BIAS,
            "Check that the file holds a single run, and that its timestamps are start times "
            "(sampleresult.timestamp.start=true).",
            harms=[Harm(number="all", grade="REFUSED", below=None, above=None)],
        )


def _in_flight(trial: TrialData, view: GroupView, imported: Imported) -> tuple[float, str, str] | None:
    """Return (L over N less one, the same in words, the result of a tool's own arithmetic); None where N is
    not known."""
    users = imported.users.get(view.name)
    if not users:
        return None
    length_ns = max(trial.summary.window_ns[1] - trial.summary.window_ns[0], 1)
    level = view.summary.request_ns / length_ns
    rate = view.summary.completed_in_window / length_ns * 1e9
    think = max(users - level, 0.0) / rate if rate else 0.0
    sentence = (
        f"{view.name} had {level:.4g} of {users} users active on average ({show_percent(level / users)}), "
        f"the rest is {think:.3g} s of other time per request"
    )
    return level / users - 1, sentence, _edge(trial, view, level)


def _edge(trial: TrialData, view: GroupView, level: float) -> str:
    """Describe how completions counted over the window differ from what is clipped to it: the error of
    summaries without timestamps."""
    window, table = kept_window(trial.summary), trial.intervals
    at = table["interval"].astype(np.int64)
    mine = (table["group"] == view.index) & (at >= window.first) & (at < window.last)
    by_completions = float(table["response_sum_ns"][mine].sum()) / max(window.seconds * 1e9, 1.0)
    off = by_completions / level - 1 if level else 0.0
    if off <= limits.TABLE_BIAS:
        return ""
    return (
        f" X·R of all requests that began in the window would be {by_completions:.4g} ({show_percent(off)} "
        f"more): late completions counted."
    )
