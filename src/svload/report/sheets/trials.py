"""The sheet of trials: counts, and every headline number; shares and rates as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from svload.model.results import CaseResult, TrialResult
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet, heading
from svload.report.told.numbers import Told
from svload.report.told.spelling import (
    dimension_of,
    full_metric,
    grade_words,
    services_of,
    traffic_groups,
    traffic_owners,
)

_STATS = ("p50", "p90", "p95", "p99", "p99.9", "mean")
_OF_GROUP = ("success_rate", "throughput", *(f"response.{stat}" for stat in _STATS), "recovery", "fault_errors", "fault_error_rate")  # fmt: skip
_OF_SERVICE = ("cpu.mean", "memory.max", "hit_ratio")
_FIXED = ("case", "trial", "replicate", "block", "instrument", "server state", "kept window, s", "counts")
_HEAD = 1


@dataclass
class TrialTable:
    """The places of trials and their metrics. `rows` by trial; `columns` by full metric name."""

    sheet: Sheet
    told: Told
    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)

    def over(self, case: CaseResult, key: str) -> str | None:
        """Return the reference to a metric in the case's trials, or None if it has none."""
        if case.case not in self.spans or key not in self.columns:
            return None
        first, last = self.spans[case.case]
        return self.sheet.range(first, self.columns[key], last)

    def values(self, case: CaseResult, key: str) -> list[float]:
        """Return the values that are numbers there."""
        numbers = [self.told.of_trial(trial, key) for trial in self.told.trials(case)]
        return [one.value for one in numbers if one.value is not None and not one.refused]


def metric_keys(gathered: Gathered) -> list[str]:
    """Return the metrics that have a column: those of each group, step and service, and those of
    comparisons."""
    findings = gathered.findings
    owners = sorted(traffic_owners(findings), key=lambda name: name != gathered.group)
    keys = [f"{group}.{name}" for group in owners for name in _OF_GROUP]
    keys += [f"{service}.{name}" for service in services_of(findings) for name in _OF_SERVICE]
    keys += [full_metric(findings, comparison.metric) for comparison in gathered.lock.comparisons]
    known = {key for trial in findings.trials for key in trial.metrics}
    known |= {key for case in findings.cases for key in case.metrics}
    return [key for key in dict.fromkeys(keys) if key in known]


def fill_trials(sheet: Sheet, gathered: Gathered) -> TrialTable:
    """Write the sheet; trials of a case are together, those that count first."""
    findings = gathered.findings
    table = TrialTable(sheet, gathered.told)
    groups = sorted(traffic_groups(findings), key=lambda name: name != gathered.group)
    counted = [f"{group}: {what}" for group in groups for what in ("due", "ok", "completed")]
    keys = metric_keys(gathered)
    headers = [*_FIXED, *counted, *map(heading, keys)]
    table.columns = {key: len(_FIXED) + len(counted) + number for number, key in enumerate(keys)}
    ordered = _ordered(gathered, table)
    note = "A number with ✗ is of a broken trial (REFUSED): it is text, and enters no case. Success and throughput are formulas."
    sheet.text(0, 0, note, "note")
    widths = [9, 11, 11, 8, 13, 13, 11, 9, *[13] * (len(headers) - 8)]
    sheet.table(_HEAD, headers, len(ordered), widths, frozen=2)
    for trial in ordered:
        _fill_trial(table, gathered, trial, groups)
    return table


def _ordered(gathered: Gathered, table: TrialTable) -> list[TrialResult]:
    """Return all trials in order, and store their rows and each case's span in `table`."""
    ordered: list[TrialResult] = []
    for case in gathered.findings.cases:
        refused = set(case.refused)
        mine = list(gathered.trials_of(case.case))
        mine.sort(key=lambda trial: trial.trial in refused)
        first = _HEAD + 1 + len(ordered)
        if mine:
            table.spans[case.case] = (first, first + len(mine) - 1)
        table.rows |= {trial.trial: first + number for number, trial in enumerate(mine)}
        ordered += mine
    return ordered


def _fill_trial(table: TrialTable, gathered: Gathered, trial: TrialResult, groups: Sequence[str]) -> None:
    sheet, row = table.sheet, table.rows[trial.trial]
    digest = gathered.digests.get(trial.trial)
    kept_s = digest.kept_s[1] - digest.kept_s[0] if digest else None
    for column, text in enumerate((trial.case, trial.trial)):
        sheet.text(row, column, text)
    sheet.number(row, 2, trial.replicate)
    sheet.number(row, 3, trial.block)
    sheet.text(row, 4, grade_words(gathered.findings, trial), trial.verdict.instrument)
    sheet.text(row, 5, trial.verdict.server)
    sheet.number(row, 6, kept_s, "time_s", "cannot be read")
    counts = gathered.told.of_trial(trial, f"{gathered.group}.response.p50").believed
    sheet.text(row, 7, "yes" if counts else "no", "beside")
    written: dict[str, tuple[str, float]] = {}
    for number, group in enumerate(groups):
        written |= _fill_group(sheet, row, trial, group, len(_FIXED) + 3 * number, kept_s)
    for key, column in table.columns.items():
        one = gathered.told.of_trial(trial, key)
        if key in written and not one.refused:
            sheet.formula(row, column, *written[key], dimension_of(key))
        else:
            sheet.told(row, column, one)


def _fill_group(
    sheet: Sheet, row: int, trial: TrialResult, group: str, column: int, kept_s: float | None
) -> dict[str, tuple[str, float]]:
    """Write due, ok and completed; return success and throughput as (formula over them, value) by metric."""
    success, throughput = (trial.metrics.get(f"{group}.{name}") for name in ("success_rate", "throughput"))
    due = success.n if success else None
    ok = round((success.value or 0.0) * success.n) if success else None
    for place, count in enumerate((due, ok, throughput.n if throughput else None), column):
        sheet.number(row, place, count, "count", "not measured")
    due_cell, ok_cell, done_cell = (sheet.range(row, column + number) for number in range(3))
    written = {}
    if success and success.value is not None:
        written[f"{group}.success_rate"] = (f"={ok_cell}/{due_cell}", success.value)
    if throughput and throughput.value is not None and kept_s:
        written[f"{group}.throughput"] = (f"={done_cell}/{sheet.range(row, 6)}", throughput.value)
    return written
