"""The sheet of trials: what was counted, and every headline number as a formula over that trial's rows or buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from svload.model.results import CaseResult, TrialResult
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet
from svload.report.sheets.layout import heading
from svload.report.sheets.rows import LongTables, Place
from svload.report.told.anew import grade_words
from svload.report.told.numbers import Told
from svload.report.told.spelling import (
    dimension_of,
    full_metric,
    services_of,
    traffic_groups,
    traffic_owners,
)

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
_FIXED = ("case", "trial", "replicate", "block", "instrument", "server state", "kept window, s", "counts")
_HEAD = 1


@dataclass
class TrialTable:
    """Where trials and their metrics stand. `rows` by trial; `columns` by full metric name."""

    sheet: Sheet
    told: Told
    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)

    def over(self, case: CaseResult, key: str) -> str | None:
        """The reference to a metric in the case's trials: what is REFUSED there is text, which no
        formula counts. None if it has none."""
        if case.case not in self.spans or key not in self.columns:
            return None
        first, last = self.spans[case.case]
        return self.sheet.range(first, self.columns[key], last)

    def values(self, case: CaseResult, key: str) -> list[float]:
        """The values that stand there as numbers."""
        numbers = [self.told.of_trial(trial, key) for trial in self.told.trials(case)]
        return [one.value for one in numbers if one.value is not None and not one.refused]


def metric_keys(gathered: Gathered) -> list[str]:
    """The metrics that a trial has a column for: each group's and step's, each service's,
    and what comparisons are about."""
    findings = gathered.findings
    first = gathered.group
    keys = []
    for group in sorted(traffic_owners(findings), key=lambda name: name != first):
        keys += [
            f"{group}.success_rate",
            f"{group}.throughput",
            *(f"{group}.response.{stat}" for stat in (*QUANTILES, "mean")),
            *(f"{group}.{name}" for name in ("recovery", "fault_errors", "fault_error_rate")),
        ]
    keys += [
        f"{service}.{metric}"
        for service in services_of(findings)
        for metric in ("cpu.mean", "memory.max", "hit_ratio")
    ]
    keys += [full_metric(findings, comparison.metric) for comparison in gathered.lock.comparisons]
    known = {key for trial in findings.trials for key in trial.metrics}
    return [key for key in dict.fromkeys(keys) if key in known]


def fill_trials(sheet: Sheet, gathered: Gathered, tables: LongTables) -> TrialTable:
    """Write the sheet; trials of a case stand together, those that count first."""
    findings = gathered.findings
    table = TrialTable(sheet, gathered.told)
    groups = sorted(traffic_groups(findings), key=lambda name: name != gathered.group)
    counted = [f"{group}: {what}" for group in groups for what in ("due", "ok", "completed")]
    keys = metric_keys(gathered)
    headers = [*_FIXED, *counted, *map(heading, keys)]
    table.columns = {key: len(_FIXED) + len(counted) + number for number, key in enumerate(keys)}
    ordered = _ordered(gathered, table)
    sheet.text(
        0,
        0,
        "One row a trial. A number with ✗ is of a broken trial (REFUSED): it is text, and enters no case. Each other number of a "
        "group is a formula over its rows or its bucket table.",
        "note",
    )
    sheet.table(
        _HEAD,
        headers,
        len(ordered),
        [9, 11, 11, 8, 13, 13, 11, 9, *[13] * (len(headers) - 8)],
        freeze=(_HEAD + 1, 2),
    )
    for trial in ordered:
        _fill_trial(table, gathered, tables, trial, groups)
    return table


def _ordered(gathered: Gathered, table: TrialTable) -> list[TrialResult]:
    """All trials in their order, and in `table` their rows and each case's span."""
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


def _fill_trial(
    table: TrialTable, gathered: Gathered, tables: LongTables, trial: TrialResult, groups: Sequence[str]
) -> None:
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
    for number, group in enumerate(groups):
        _fill_group(
            table,
            gathered,
            trial,
            group,
            len(_FIXED) + 3 * number,
            tables.places.get((trial.trial, group)),
            kept_s,
        )
    for key, column in table.columns.items():
        if key not in _formulas(groups):
            sheet.told(row, column, gathered.told.of_trial(trial, key))


def _formulas(groups: Sequence[str]) -> set[str]:
    stats = ("success_rate", "throughput", *(f"response.{stat}" for stat in (*QUANTILES, "mean")))
    return {f"{group}.{stat}" for group in groups for stat in stats}


def _fill_group(
    table: TrialTable,
    gathered: Gathered,
    trial: TrialResult,
    group: str,
    column: int,
    place: Place | None,
    kept_s: float | None,
) -> None:
    """due, ok, completed; then success, throughput, percentiles and mean as formulas over
    them and over the long tables."""
    sheet, row, metrics = table.sheet, table.rows[trial.trial], trial.metrics
    success, throughput, median = (
        metrics.get(f"{group}.{name}") for name in ("success_rate", "throughput", "response.p50")
    )
    due_cell, ok_cell, done_cell = (sheet.range(row, column + number) for number in range(3))
    due = success.n if success else 0
    ranked = median.n if median and median.n else due
    ok = round((success.value or 0.0) * due) if success else 0
    sheet.number(row, column, due if success else None, "count", "not measured")
    if place is not None:
        sheet.formula(row, column + 1, place.ok(), ok, "count")
    else:
        sheet.number(row, column + 1, ok if success else None, "count", "not measured")
    sheet.number(row, column + 2, throughput.n if throughput else None, "count", "not measured")
    written: dict[str, tuple[str, float]] = {}
    if success and success.value is not None:
        written[f"{group}.success_rate"] = (f"={ok_cell}/{due_cell}", success.value)
    if throughput and throughput.value is not None and kept_s:
        written[f"{group}.throughput"] = (f"={done_cell}/{sheet.range(row, 6)}", throughput.value)
    n = due_cell if ranked == due else str(ranked)
    for stat, p in QUANTILES.items():
        estimate = metrics.get(f"{group}.response.{stat}")
        if place is not None and estimate and estimate.value is not None:
            written[f"{group}.response.{stat}"] = (place.quantile(p, n), estimate.value)
    mean = metrics.get(f"{group}.response.mean")
    if place is not None and place.rows and mean and mean.value is not None and ok == due:
        written[f"{group}.response.mean"] = (place.mean(), mean.value)
    for key in _formulas([group]) & set(table.columns):
        one = gathered.told.of_trial(trial, key)
        if key in written and not one.refused:
            sheet.formula(row, table.columns[key], *written[key], dimension_of(key))
        else:
            sheet.told(row, table.columns[key], one)
