"""Case by case: the summary, and the paper's tables of success, response times, CPU and memory, as formulas over the sheet of trials."""

from __future__ import annotations

from collections.abc import Sequence

from svload.model.results import CaseResult, Estimate
from svload.report.gather import Gathered
from svload.report.sheets.book import Sheet
from svload.report.sheets.trials import TrialTable
from svload.report.words import (
    dimension_of,
    metric_label,
    services_of,
    short_reason,
    traffic_owners,
)

_MOST_T = 20
_HEAD = 1


def over_cases(table: TrialTable, sheet: Sheet, row: int, column: int, case: CaseResult, key: str) -> None:
    """One case's value of a metric as analysis has it: the geometric mean over the trials that count, of shares and counts the mean."""
    estimate, form = case.metrics.get(key), form_of_key(key)
    reference = table.over(case.case, key)
    if estimate is None or estimate.value is None:
        sheet.number(row, column, None, form, short_reason(estimate.reason) if estimate else "not measured")
    elif reference is None:
        sheet.number(row, column, estimate.value, form)
    else:
        mean = "AVERAGE" if is_arithmetic(key, estimate) else "GEOMEAN"
        sheet.formula(row, column, f"={mean}({reference})", estimate.value, form)


def is_arithmetic(key: str, estimate: Estimate) -> bool:
    """Whether analysis averages values rather than their logarithms: shares and counts, and whatever is not above 0."""
    return dimension_of(key) in ("ratio", "count") or not (estimate.value and estimate.value > 0)


def form_of_key(key: str) -> str:
    """The number format of a metric."""
    return "cores" if key.endswith(".cpu.mean") else dimension_of(key)


def bound_over_cases(
    table: TrialTable, sheet: Sheet, row: int, column: int, case: CaseResult, key: str, sign: int
) -> None:
    """An end of the 95 % interval: t over per-run logarithms (METHOD §2); from 20 trials on it is a bootstrap's, which is no formula."""
    estimate, form = case.metrics.get(key), form_of_key(key)
    bound = None if estimate is None else estimate.low if sign < 0 else estimate.high
    reference = table.over(case.case, key)
    if estimate is None or bound is None:
        sheet.text(row, column, "–", "reason")
        return
    if reference is None or estimate.n >= _MOST_T:
        sheet.number(row, column, bound, form)
        return
    n, plus = f"COUNT({reference})", "+" if sign > 0 else "-"
    if is_arithmetic(key, estimate):
        sheet.formula(
            row,
            column,
            f"=AVERAGE({reference}){plus}TINV(0.05,{n}-1)*STDEV({reference})/SQRT({n})",
            bound,
            form,
        )
    else:
        logs = f"LN({reference})"
        sheet.array_formula(
            row, column, f"=EXP(AVERAGE({logs}){plus}TINV(0.05,{n}-1)*STDEV({logs})/SQRT({n}))", bound, form
        )


def ran(gathered: Gathered) -> list[CaseResult]:
    """The cases that were to be run."""
    return [case for case in gathered.findings.cases if case.excluded is None]


def _identity(gathered: Gathered, sheet: Sheet, row: int, case: CaseResult) -> int:
    """Name, levels and verdicts; the next free column."""
    sheet.text(row, 0, case.case)
    column = 1
    for factor in gathered.factors:
        sheet.text(row, column, case.levels.get(factor, ""))
        column += 1
    return column


def fill_summary(sheet: Sheet, gathered: Gathered, table: TrialTable) -> None:
    """One row a case, excluded ones too: verdicts, n, and the main group's numbers with their interval."""
    findings, group = gathered.findings, gathered.group
    factors = list(gathered.factors)
    median = f"{group}.response.p50"
    keys = [f"{group}.response.{stat}" for stat in ("p90", "p95", "p99", "mean")]
    keys += [f"{group}.throughput", f"{group}.success_rate"]
    titles = [f"{group}: {metric_label(key).partition(': ')[2]}" for key in keys]
    headers = [
        "case",
        *factors,
        "instrument",
        "server",
        "load model",
        "n",
        "of",
        f"{group}: response, p50",
        "low 95 %",
        "high 95 %",
        *titles,
        "remark",
    ]
    widths = [11, *[13] * len(factors), 11, 12, 12, 5, 5, *[13] * 3, *[13] * len(keys), 60]
    sheet.text(
        0,
        0,
        f"{findings.floor}. Times in seconds. Each number is a formula over the sheet of trials.",
        "note",
    )
    sheet.table(_HEAD, headers, len(findings.cases), widths, freeze=(_HEAD + 1, 1))
    for number, case in enumerate(findings.cases):
        row = _HEAD + 1 + number
        column = _identity(gathered, sheet, row, case)
        if case.excluded is not None:
            sheet.text(row, column, "excluded", "reason")
            sheet.text(row, len(headers) - 1, case.excluded)
            continue
        sheet.text(row, column, case.instrument or "no trial", case.instrument or "reason")
        sheet.text(row, column + 1, case.server or "")
        sheet.text(row, column + 2, case.load_model.get(group.partition(".")[0], ""))
        reference = table.over(case.case, median)
        counted = len(case.trials) if case.instrument == "REFUSED" else len(case.trials) - len(case.refused)
        if reference and case.metrics[median].value is not None:
            sheet.formula(row, column + 3, f"=COUNT({reference})", counted, "count")
        else:
            sheet.number(row, column + 3, counted, "count")
        sheet.number(row, column + 4, len(case.trials), "count")
        over_cases(table, sheet, row, column + 5, case, median)
        bound_over_cases(table, sheet, row, column + 6, case, median, -1)
        bound_over_cases(table, sheet, row, column + 7, case, median, 1)
        for offset, key in enumerate(keys):
            over_cases(table, sheet, row, column + 8 + offset, case, key)
        sheet.text(row, len(headers) - 1, " ".join(case.reasons))
    if findings.cases:
        first, last, column = _HEAD + 1, _HEAD + len(findings.cases), 1 + len(factors) + 5
        sheet.column_chart(
            f"{group}: median response", "seconds",
            [(f"{group}, p50", sheet.range(first, 0, last), sheet.range(first, column, last))], (last + 2, 1),
        )  # fmt: skip


def fill_success(sheet: Sheet, gathered: Gathered, table: TrialTable) -> None:
    """Success and miss rates of requests, by case and group or step (the paper's Table VII)."""
    rows = [
        (case, group)
        for case in ran(gathered)
        for group in traffic_owners(gathered.findings)
        if f"{group}.success_rate" in case.metrics
    ]
    factors = list(gathered.factors)
    sheet.text(
        0,
        0,
        "Success and miss rates of requests: ok over due, of the requests due in the kept window; mean over the trials that count.",
        "note",
    )
    sheet.table(
        _HEAD,
        ["case", *factors, "group", "instrument", "due", "success", "miss"],
        len(rows),
        [11, *[13] * len(factors), 14, 11, 12, 11, 11],
        freeze=(_HEAD + 1, 1),
    )
    for number, (case, group) in enumerate(rows):
        row = _HEAD + 1 + number
        column = _identity(gathered, sheet, row, case)
        sheet.text(row, column, group)
        sheet.text(row, column + 1, case.instrument or "no trial", case.instrument or "reason")
        key = f"{group}.success_rate"
        mine = {trial.trial: trial for trial in gathered.trials_of(case.case)}
        shown = (
            case.trials
            if case.instrument == "REFUSED"
            else [name for name in case.trials if name not in case.refused]
        )
        sheet.number(
            row,
            column + 2,
            sum(mine[name].metrics[key].n for name in shown if name in mine and key in mine[name].metrics),
            "count",
        )
        over_cases(table, sheet, row, column + 3, case, key)
        value = case.metrics[key].value
        if value is None:
            sheet.text(row, column + 4, "–", "reason")
        else:
            sheet.formula(row, column + 4, f"=1-{sheet.range(row, column + 3)}", 1 - value, "ratio")


def fill_response(sheet: Sheet, gathered: Gathered, table: TrialTable) -> None:
    """Response times by case and group or step (the paper's Table VIII has their means), load model on the same line."""
    stats = ("mean", "p50", "p90", "p95", "p99", "p99.9")
    rows = [
        (case, group)
        for case in ran(gathered)
        for group in traffic_owners(gathered.findings)
        if f"{group}.response.p50" in case.metrics
    ]
    factors = list(gathered.factors)
    sheet.text(0, 0, "Response in seconds from the intended start, failures ranked above every limit (in the mean: at the time-out). Closed-loop percentiles describe the virtual users.", "note")  # fmt: skip
    headers = [
        "case",
        *factors,
        "group",
        "load model",
        "longest silence, s",
        *(f"response {stat}" for stat in stats),
        "throughput",
    ]
    sheet.table(
        _HEAD,
        headers,
        len(rows),
        [11, *[13] * len(factors), 14, 12, 11, *[12] * len(stats), 12],
        freeze=(_HEAD + 1, 1),
    )
    for number, (case, group) in enumerate(rows):
        row = _HEAD + 1 + number
        column = _identity(gathered, sheet, row, case)
        sheet.text(row, column, group)
        sheet.text(row, column + 1, case.load_model.get(group.partition(".")[0], ""))
        silence = max(
            (
                one.groups[group].summary.longest_silence_ns
                for one in gathered.of_case(case.case)
                if group in one.groups
            ),
            default=None,
        )
        sheet.number(row, column + 2, None if silence is None else silence / 1e9, "time_s")
        for offset, stat in enumerate(stats):
            over_cases(table, sheet, row, column + 3 + offset, case, f"{group}.response.{stat}")
        over_cases(table, sheet, row, column + 3 + len(stats), case, f"{group}.throughput")


def fill_usage(sheet: Sheet, gathered: Gathered, table: TrialTable) -> None:
    """CPU and memory of each service in each case (the paper's Fig. 5), with native charts."""
    cases, services = ran(gathered), services_of(gathered.findings)
    measured = [
        (service, metric)
        for metric in ("cpu.mean", "memory.max")
        for service in services
        if any(f"{service}.{metric}" in case.metrics for case in cases)
    ]
    sheet.text(
        0,
        0,
        "CPU in cores (1 is one core busy), memory in bytes (largest resident size); mean over the trials that count.",
        "note",
    )
    titles = [
        f"{service}: {'CPU, cores' if metric == 'cpu.mean' else 'memory, bytes'}"
        for service, metric in measured
    ]
    sheet.table(_HEAD, ["case", *titles], len(cases), [11, *[18] * len(titles)], freeze=(_HEAD + 1, 1))
    for number, case in enumerate(cases):
        row = _HEAD + 1 + number
        sheet.text(row, 0, case.case)
        for column, (service, metric) in enumerate(measured, 1):
            over_cases(table, sheet, row, column, case, f"{service}.{metric}")
    if cases:
        _usage_charts(sheet, measured, titles, _HEAD + len(cases))


def _usage_charts(
    sheet: Sheet, measured: Sequence[tuple[str, str]], titles: Sequence[str], last: int
) -> None:
    for place, (metric, title, axis) in enumerate(
        (("cpu.mean", "CPU of the servers", "cores"), ("memory.max", "memory of the servers", "bytes"))
    ):
        series = [
            (titles[number], sheet.range(_HEAD + 1, 0, last), sheet.range(_HEAD + 1, number + 1, last))
            for number, (_, found) in enumerate(measured)
            if found == metric
        ]
        if series:
            sheet.column_chart(title, axis, series, (last + 2 + place * 18, 1))
