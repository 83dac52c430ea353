"""One sheet a comparison of the study: matched pairs of cases with live ratios, and what may be claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, isclose, log

from svload.model.results import CaseResult, Claim
from svload.model.study import Comparison
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet
from svload.report.sheets.drawn import column_chart, ratio_chart, wide
from svload.report.sheets.layout import heading
from svload.report.sheets.summary import over_cases
from svload.report.sheets.trials import TrialTable
from svload.report.told.claimed import claimed_of, details
from svload.report.told.spelling import full_metric, split_metric

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
        f"{comparison.name}: {heading(key)}; {comparison.factor} against {comparison.baseline}",
        "bold",
    )
    sheet.text(
        1,
        0,
        "ratio = treatment / baseline. The last column is the paper's (before − after) / max(before, after), "
        "for comparison with it alone.",
        "note",
    )
    others = list(
        dict.fromkeys(
            factor for case in cases.values() for factor in case.levels if factor != comparison.factor
        )
    )
    headers = ["baseline case", "treatment case", "treatment", *others, "baseline", "treated", "ratio", "change", "baseline success", "treated success",
               "(before − after) / max, as in the paper"]  # fmt: skip
    widths = [18, 14, 16, *[13] * len(others), 13, 13, 12, 12, 12, 12, 18]
    sheet.table(_HEAD, headers, len(pairs), widths, freeze=(_HEAD + 1, 2))
    for number, (claim, baseline, treatment) in enumerate(pairs):
        row = _HEAD + 1 + number
        for column, text in enumerate((baseline, treatment, claim.treatment)):
            sheet.text(row, column, text)
        for column, factor in enumerate(others, 3):
            sheet.text(row, column, cases[baseline].levels.get(factor, ""))
        _pair(sheet, table, row, 3 + len(others), cases[baseline], cases[treatment], key)
    last = _HEAD + max(len(pairs), 1)
    below = _claims(sheet, gathered, claims, pairs, last + 2, 3 + len(others) + 2, widths)
    if pairs:
        _pair_chart(
            sheet,
            comparison,
            [ratio_of(gathered, cases, key, *pair) for _, *pair in pairs],
            heading(key),
            (below + 1, 1),
            3 + len(others),
        )


def ratio_of(
    gathered: Gathered, cases: Mapping[str, CaseResult], key: str, baseline: str, treatment: str
) -> float | None:
    """A pair's treatment over its baseline; None where either has no number that counts."""
    before, after = (_counted(gathered, cases[name], key) for name in (baseline, treatment))
    return after / before if before and after else None


def _counted(gathered: Gathered, case: CaseResult, key: str) -> float | None:
    one = gathered.told.of_case(case, key)
    return None if one.refused else one.value


def _pair_chart(
    sheet: Sheet,
    comparison: Comparison,
    ratios: Sequence[float | None],
    axis: str,
    at: tuple[int, int],
    column: int,
) -> None:
    """The ratios from 1 on; where a pair has none, both values, since its text would be drawn as a ratio of nought."""
    first, last = _HEAD + 1, _HEAD + len(ratios)
    treated = sheet.range(first, 1, last)
    if None not in ratios:
        title = f"{comparison.name}: ratio of treated to baseline"
        axes = ("treatment case", "ratio (1: no difference)")
        ratio_chart(
            sheet,
            title,
            axes,
            ("ratio", treated, sheet.range(first, column + 2, last)),
            at,
            wide(ratios, 5.0),
        )
    else:
        series = [
            (name, treated, sheet.range(first, column + offset, last))
            for offset, name in enumerate(("baseline", "treated"))
        ]
        column_chart(
            sheet,
            comparison.name,
            ("treatment case", axis),
            series,
            at,
            "A value that is missing has no column; the table says why.",
        )


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
        None if one.refused else one.value
        for one in (table.told.of_case(case, key) for case in (baseline, treatment))
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
    widths: Sequence[float],
) -> int:
    """What may be said: pooled ratio over the pairs (a formula where every pair has all its blocks),
    interval, p; the next free row."""
    heads = (
        "comparison",
        "outcome",
        "pooled ratio",
        "low 95 %",
        "high 95 %",
        "p",
        "p (Holm)",
        "p (sign flips)",
        "least detectable effect",
        "blocks or bring-ups",
        "pairs",
    )
    for column, text in enumerate(heads):
        sheet.text(row, column, text, "head")
    sheet.lines(row, list(zip(heads, [width - 2 for width in widths], strict=False)))
    for number, claim in enumerate(claims, 1):
        at = row + number
        sheet.text(at, 0, claim.name, "wrap")
        sheet.lines(at, [(claim.name, widths[0] - 1)])
        told = claimed_of(gathered.findings, claim)
        sheet.text(at, 1, told.outcome)
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
            (7, claim.p_sign_flip, "p"),
            (8, claim.mde, "ratio"),
            (9, claim.blocks, "count"),
        ):
            sheet.number(at, column, value, form)
        believed, made = claim.believed_of
        sheet.text(at, 10, f"{believed} of {made}")
    place = row + len(claims) + 2
    for claim in claims:
        told = claimed_of(gathered.findings, claim)
        lines = [told.sentence, *(f"{line.name}: {line.text}" for line in details(gathered.findings, told))]
        for text in lines:
            sheet.across(place, len(widths) - 1, text, sum(widths))
            place += 1
    return place


def _pooled(sheet: Sheet, gathered: Gathered, claim: Claim, places: list[int], row: int, column: int) -> None:
    value = claim.ratio.value
    cases = {case.case: case for case in gathered.findings.cases}
    key = full_metric(gathered.findings, claim.metric)
    found = [ratio_of(gathered, cases, key, *pair) for pair in claim.pairs]
    ratios = [ratio for ratio in found if ratio is not None]
    live = value is not None and len(ratios) == len(claim.pairs) == len(places) and len(places) > 0
    if live and value is not None and isclose(exp(sum(map(log, ratios)) / len(ratios)), value, rel_tol=1e-9):
        reference = sheet.range(_HEAD + 1 + places[0], column, _HEAD + 1 + places[-1])
        sheet.formula(row, 2, f"=GEOMEAN({reference})", value, "times")
    else:
        sheet.number(row, 2, value, "times")
