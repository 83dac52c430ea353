"""One sheet a comparison of the study: matched pairs of cases with live ratios, and what may be claimed."""

from __future__ import annotations

from math import exp, isclose, log

from svload.model.results import CaseResult, Claim
from svload.model.study import Comparison
from svload.report.gather import Gathered
from svload.report.sheets.book import Sheet
from svload.report.sheets.summary import over_cases
from svload.report.sheets.trials import TrialTable
from svload.report.words import full_metric, metric_label, split_metric

_HEAD = 2


def claims_of(gathered: Gathered, comparison: Comparison) -> list[Claim]:
    """The claims that a comparison made: one a contrast, or one a pair."""
    wanted = (comparison.factor, comparison.baseline, comparison.metric)
    return [
        claim
        for claim in gathered.findings.claims
        if (claim.factor, claim.baseline, claim.metric) == wanted and claim.name.startswith(comparison.name)
    ]


def fill_contrast(sheet: Sheet, gathered: Gathered, table: TrialTable, comparison: Comparison) -> None:
    """The pairs first, the claims below them, then a chart of the ratios."""
    key = full_metric(gathered.findings, comparison.metric)
    claims = claims_of(gathered, comparison)
    cases = {case.case: case for case in gathered.findings.cases}
    pairs = [
        (claim, baseline, treatment)
        for claim in claims
        for baseline, treatment in claim.pairs
        if baseline in cases and treatment in cases
    ]
    sheet.text(
        0,
        0,
        f"{comparison.name}: {metric_label(key)}, {comparison.factor} against {comparison.baseline}",
        "bold",
    )
    sheet.text(
        1,
        0,
        "ratio = treatment / baseline. The last column is the paper's (before − after) / max(before, after), for comparison with it alone.",
        "note",
    )
    others = list(
        dict.fromkeys(
            factor for case in cases.values() for factor in case.levels if factor != comparison.factor
        )
    )
    headers = ["baseline case", "treatment case", "treatment", *others, "baseline", "treated", "ratio", "change", "baseline success", "treated success",
               "(before − after) / max, as in the paper"]  # fmt: skip
    sheet.table(
        _HEAD,
        headers,
        len(pairs),
        [13, 14, 16, *[13] * len(others), 13, 13, 10, 10, 11, 11, 16],
        freeze=(_HEAD + 1, 2),
    )
    for number, (claim, baseline, treatment) in enumerate(pairs):
        row = _HEAD + 1 + number
        for column, text in enumerate((baseline, treatment, claim.treatment)):
            sheet.text(row, column, text)
        for column, factor in enumerate(others, 3):
            sheet.text(row, column, cases[baseline].levels.get(factor, ""))
        _pair(sheet, table, row, 3 + len(others), cases[baseline], cases[treatment], key)
    last = _HEAD + max(len(pairs), 1)
    below = _claims(sheet, gathered, claims, pairs, last + 2, 3 + len(others) + 2)
    if pairs:
        column = 3 + len(others)
        sheet.column_chart(
            comparison.name, metric_label(key),
            [(name, sheet.range(_HEAD + 1, 1, last), sheet.range(_HEAD + 1, column + at, last)) for at, name in enumerate(("baseline", "treated"))],
            (below + 1, 1),
        )  # fmt: skip


def _pair(
    sheet: Sheet,
    table: TrialTable,
    row: int,
    column: int,
    baseline: CaseResult,
    treatment: CaseResult,
    key: str,
) -> None:
    """Both values, their ratio, the change, both success rates and the paper's formula."""
    over_cases(table, sheet, row, column, baseline, key)
    over_cases(table, sheet, row, column + 1, treatment, key)
    before, after = (
        case.metrics[key].value if key in case.metrics else None for case in (baseline, treatment)
    )
    left, right = sheet.range(row, column), sheet.range(row, column + 1)
    if before and after is not None:
        sheet.formula(row, column + 2, f"={right}/{left}", after / before, "times")
        sheet.formula(row, column + 3, f"={right}/{left}-1", after / before - 1, "change")
        sheet.formula(
            row,
            column + 6,
            f"=({left}-{right})/MAX({left},{right})",
            (before - after) / max(before, after),
            "change",
        )
    else:
        for place in (2, 3, 6):
            sheet.text(row, column + place, "–", "reason")
    success = split_metric(key)[0]
    for place, case in enumerate((baseline, treatment)):
        over_cases(table, sheet, row, column + 4 + place, case, f"{success}.success_rate")


def _claims(
    sheet: Sheet,
    gathered: Gathered,
    claims: list[Claim],
    pairs: list[tuple[Claim, str, str]],
    row: int,
    ratio_column: int,
) -> int:
    """What may be said: pooled ratio over the pairs (a formula where every pair has all its blocks), interval, p; the next free row."""
    heads = (
        "comparison",
        "state",
        "pooled ratio",
        "low 95 %",
        "high 95 %",
        "p",
        "p (Holm)",
        "smallest p",
        "least detectable effect",
        "blocks",
        "in words",
    )
    for column, text in enumerate(heads):
        sheet.text(row, column, text, "head")
    for number, claim in enumerate(claims, 1):
        at = row + number
        sheet.text(at, 0, claim.name)
        sheet.text(at, 1, claim.state)
        _pooled(
            sheet,
            gathered,
            claim,
            [place for place, pair in enumerate(pairs) if pair[0] is claim],
            at,
            ratio_column,
        )
        for column, value, form in (
            (3, claim.ratio.low, "times"),
            (4, claim.ratio.high, "times"),
            (5, claim.p, "p"),
            (6, claim.p_adjusted, "p"),
            (7, claim.smallest_p, "p"),
            (8, claim.mde, "change"),
            (9, claim.blocks, "count"),
        ):
            sheet.number(at, column, value, form)
        sheet.text(at, 10, claim.sentence)
    return row + 1 + len(claims)


def _pooled(sheet: Sheet, gathered: Gathered, claim: Claim, places: list[int], row: int, column: int) -> None:
    value = claim.ratio.value
    cases = {case.case: case for case in gathered.findings.cases}
    key = full_metric(gathered.findings, claim.metric)
    ratios = []
    for baseline, treatment in claim.pairs:
        before, after = (
            cases[name].metrics[key].value if key in cases[name].metrics else None
            for name in (baseline, treatment)
        )
        if before and after:
            ratios.append(after / before)
    live = value is not None and len(ratios) == len(claim.pairs) == len(places) and len(places) > 0
    if live and value is not None and isclose(exp(sum(map(log, ratios)) / len(ratios)), value, rel_tol=1e-9):
        reference = sheet.range(_HEAD + 1 + places[0], column, _HEAD + 1 + places[-1])
        sheet.formula(row, 2, f"=GEOMEAN({reference})", value, "times")
    else:
        sheet.number(row, 2, value, "times", claim.ratio.reason)
