"""Case by case: the summary, and the paper's tables of success, response times, CPU and memory, as
formulas over the sheet of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, isclose, log

from svload.analysis.inference import t_interval
from svload.model.results import CaseResult
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet, form_of_key
from svload.report.sheets.drawn import CHART_ROWS, column_chart, interval_chart, wide
from svload.report.sheets.layout import heading
from svload.report.sheets.trials import TrialTable
from svload.report.told.causes import cause
from svload.report.told.doubts import doubts
from svload.report.told.numbers import Number
from svload.report.told.spelling import count_words, services_of, traffic_owners

_MOST_T = 20
_HEAD = 1
_REMARK = 48


def over_cases(table: TrialTable, sheet: Sheet, row: int, column: int, case: CaseResult, key: str) -> None:
    """One case's number as analysis has it: a formula over its trials' cells where it is their mean (of
    shares and counts), else their geometric mean."""
    one, reference = table.told.of_case(case, key), table.over(case, key)
    if one.value is None or one.refused or reference is None or not is_mean(table.values(case, key), one):
        sheet.told(row, column, one)
    else:
        mean = "AVERAGE" if is_arithmetic(one) else "GEOMEAN"
        sheet.formula(row, column, f"={mean}({reference})", one.value, form_of_key(key))


def is_arithmetic(one: Number) -> bool:
    """Whether analysis averages values rather than their logarithms: shares and counts, and whatever is not above 0."""
    return one.dimension in ("ratio", "count") or not (one.value and one.value > 0)


def is_mean(values: Sequence[float], one: Number) -> bool:
    """Whether a formula over these values gives the number: a pooled percentile is none of its trials' means."""
    if not values or one.value is None:
        return False
    if is_arithmetic(one):
        return isclose(sum(values) / len(values), one.value, rel_tol=1e-9, abs_tol=1e-12)
    return min(values) > 0 and isclose(exp(sum(map(log, values)) / len(values)), one.value, rel_tol=1e-9)


def bound_over_cases(
    table: TrialTable, sheet: Sheet, row: int, column: int, case: CaseResult, key: str, sign: int
) -> None:
    """An end of the 95 % interval: t over per-run logarithms (docs/method.md §2) where it
    is that, else the number alone."""
    one, form = table.told.of_case(case, key), form_of_key(key)
    bound = one.low if sign < 0 else one.high
    reference, values = table.over(case, key), table.values(case, key)
    if bound is None or one.refused:
        sheet.text(row, column, "–", "reason")
        return
    arithmetic = is_arithmetic(one)
    interval = (
        t_interval(values if arithmetic else [log(value) for value in values])
        if is_mean(values, one)
        else None
    )
    end = None if interval is None else interval[0 if sign < 0 else 1]
    end = exp(end) if end is not None and not arithmetic else end
    if reference is None or end is None or len(values) >= _MOST_T or not isclose(end, bound, rel_tol=1e-9):
        sheet.number(row, column, bound, form)
        return
    n, plus = f"COUNT({reference})", "+" if sign > 0 else "-"
    if arithmetic:
        sheet.formula(
            row,
            column,
            f"=AVERAGE({reference}){plus}TINV(0.05,{n}-1)*STDEV({reference})/SQRT({n})",
            bound,
            form,
        )
    else:
        logs = (
            f"LN({reference})"
            if len(values) == len(case.trials)
            else f"IF(ISNUMBER({reference}),LN({reference}))"
        )
        sheet.array_formula(
            row, column, f"=EXP(AVERAGE({logs}){plus}TINV(0.05,{n}-1)*STDEV({logs})/SQRT({n}))", bound, form
        )


def ran(gathered: Gathered) -> list[CaseResult]:
    """The cases that were to be run."""
    return [case for case in gathered.findings.cases if case.excluded is None]


def factor_widths(gathered: Gathered) -> list[float]:
    """A column a factor, as wide as its levels, within reason."""
    return [
        min(max(len(text) + (3 if text == factor else 1) for text in (factor, *levels, "level")), 24)
        for factor, levels in gathered.factors.items()
    ]


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
    headers = [
        "case",
        *factors,
        "instrument",
        "server state",
        "load model",
        "trials that count",
        "trials made",
        heading(median),
        "low 95 %, s",
        "high 95 %, s",
        *(heading(key) for key in keys),
        "doubts: in how many trials",
    ]
    widths = [8, *factor_widths(gathered), 12, 12, 11, 9, 9, *[11] * 3, *[11] * 4, 14, 11, _REMARK]
    sheet.text(
        0,
        0,
        f"{findings.floor}. One row a case; each number is a formula over its trials that count, in the sheet "
        f"Trials. The sheet Verdicts has the doubts in words.",
        "note",
    )
    sheet.table(_HEAD, headers, len(findings.cases), widths, freeze=(_HEAD + 1, 1))
    for number, case in enumerate(findings.cases):
        row = _HEAD + 1 + number
        column = _identity(gathered, sheet, row, case)
        if case.excluded is not None:
            sheet.text(row, column, "excluded", "excluded")
            sheet.text(row, len(headers) - 1, case.excluded, "beside")
            sheet.lines(row, [(case.excluded, _REMARK - 2)])
            continue
        sheet.text(row, column, case.instrument or "no trial", case.instrument or "reason")
        sheet.text(row, column + 1, case.server or "")
        sheet.text(row, column + 2, case.load_model.get(group.partition(".")[0], ""))
        reference, one = table.over(case, median), table.told.of_case(case, median)
        if reference and len(table.values(case, median)) == one.believed:
            sheet.formula(row, column + 3, f"=COUNT({reference})", one.believed, "count")
        else:
            sheet.number(row, column + 3, one.believed, "count")
        sheet.number(row, column + 4, len(case.trials), "count")
        over_cases(table, sheet, row, column + 5, case, median)
        bound_over_cases(table, sheet, row, column + 6, case, median, -1)
        bound_over_cases(table, sheet, row, column + 7, case, median, 1)
        for offset, key in enumerate(keys):
            over_cases(table, sheet, row, column + 8 + offset, case, key)
        doubted = _doubts(gathered, case)
        sheet.text(row, len(headers) - 1, doubted, "beside")
        sheet.lines(row, [(doubted, _REMARK - 2)])
    if findings.cases:
        _median_chart(sheet, gathered, median, 1 + len(factors) + 5)


def _doubts(gathered: Gathered, case: CaseResult) -> str:
    """`✗ the factor did not act, in 4 of 6 trials. ~ svload waited for a core, in 2 of 6 trials.`"""
    return " ".join(
        f"{one.mark} {cause(one.check)}, in {len(one.trials)} of {count_words(one.of, 'trial')}."
        for one in doubts(gathered.findings, gathered.trials_of(case.case))
    )


def _median_chart(sheet: Sheet, gathered: Gathered, median: str, column: int) -> None:
    """The medians with their intervals; columns where a case has no median, whose text
    a marker would show as nought."""
    first, last = _HEAD + 1, _HEAD + len(gathered.findings.cases)
    found = [gathered.told.of_case(case, median) for case in ran(gathered)]
    values = [None if one.refused else one.value for one in found]
    at, axes = (last + 2, 1), ("case", heading(median))
    names = ("median", "low end of its 95 % interval", "high end")
    series = [
        (name, sheet.range(first, 0, last), sheet.range(first, column + offset, last))
        for offset, name in enumerate(names)
    ]
    title = f"{gathered.group}: median response by case"
    if found and all(None not in (one.value, one.low, one.high) and not one.refused for one in found):
        interval_chart(sheet, title, axes, series, at, wide(values))
    else:
        column_chart(
            sheet, title, axes, series[:1], at, "A case without a column has no median; the table says why."
        )


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
        "Success and miss rates of requests: ok over due, of the requests due in the kept window; mean over "
        "the trials that count.",
        "note",
    )
    sheet.table(
        _HEAD,
        ["case", *factors, "group", "instrument", "requests due", "success rate", "miss rate"],
        len(rows),
        [9, *factor_widths(gathered), 14, 13, 12, 12, 12],
        freeze=(_HEAD + 1, 1),
    )
    for number, (case, group) in enumerate(rows):
        row = _HEAD + 1 + number
        column = _identity(gathered, sheet, row, case)
        sheet.text(row, column, group)
        sheet.text(row, column + 1, case.instrument or "no trial", case.instrument or "reason")
        key = f"{group}.success_rate"
        due = [
            one.n
            for trial in gathered.trials_of(case.case)
            if not (one := gathered.told.of_trial(trial, key)).refused
        ]
        sheet.number(row, column + 2, sum(due), "count")
        over_cases(table, sheet, row, column + 3, case, key)
        one = gathered.told.of_case(case, key)
        value = None if one.refused else one.value
        if value is None:
            sheet.text(row, column + 4, "–", "reason")
        else:
            sheet.formula(row, column + 4, f"=1-{sheet.range(row, column + 3)}", 1 - value, "ratio")


def fill_response(sheet: Sheet, gathered: Gathered, table: TrialTable) -> None:
    """Response times by case and group or step (the paper's Table VIII has their
    means), load model on the same line."""
    stats = ("mean", "p50", "p90", "p95", "p99", "p99.9")
    rows = [
        (case, group)
        for case in ran(gathered)
        for group in traffic_owners(gathered.findings)
        if f"{group}.response.p50" in case.metrics
    ]
    factors = list(gathered.factors)
    sheet.text(0, 0, "Response from the intended start, failures ranked above every limit (in the mean: at the time-out). Closed-loop percentiles describe the virtual users.", "note")  # fmt: skip
    headers = [
        "case",
        *factors,
        "group",
        "load model",
        "longest silence, s",
        *(f"response {stat}, s" for stat in stats),
        "throughput, 1/s",
    ]
    sheet.table(
        _HEAD,
        headers,
        len(rows),
        [9, *factor_widths(gathered), 14, 13, 12, *[13] * len(stats), 14],
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
    titles = [heading(f"{service}.{metric}") for service, metric in measured]
    sheet.table(_HEAD, ["case", *titles], len(cases), [11, *[18] * len(titles)], freeze=(_HEAD + 1, 1))
    for number, case in enumerate(cases):
        row = _HEAD + 1 + number
        sheet.text(row, 0, case.case)
        for column, (service, metric) in enumerate(measured, 1):
            over_cases(table, sheet, row, column, case, f"{service}.{metric}")
    if cases:
        _usage_charts(sheet, measured, _HEAD + len(cases), gathered.colours)


def _usage_charts(
    sheet: Sheet, measured: Sequence[tuple[str, str]], last: int, colours: Mapping[str, int]
) -> None:
    for place, (metric, title, axis, number, told) in enumerate(
        (
            ("cpu.mean", "CPU of the servers, mean", "cores", "General", "1 is one core busy all the time."),
            (
                "memory.max",
                "memory of the servers, largest",
                "MB (10⁶ bytes)",
                "#,##0,,",
                "The largest resident size; the table has bytes.",
            ),
        )
    ):
        series = [
            (service, sheet.range(_HEAD + 1, 0, last), sheet.range(_HEAD + 1, column, last))
            for column, (service, found) in enumerate(measured, 1)
            if found == metric
        ]
        if series:
            column_chart(
                sheet, title, ("case", axis), series, (last + 2 + place * CHART_ROWS, 1), told, number,
                [colours[name] for name, *_ in series],
            )  # fmt: skip
