"""One sheet per comparison of the study: matched pairs of cases with live ratios, and what may be claimed."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isclose, log

from svload.model.results import CaseResult, Claim
from svload.model.study import Comparison
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet, column_chart, heading, ratio_chart, wide
from svload.report.sheets.summary import TrialTable, over_cases
from svload.report.wording.claimed import claimed_of, details
from svload.report.wording.spelling import full_metric, outcome_words, split_metric

_HEAD = 2
_RATIO = 2
"""The ratio's column, counted from the first column of numbers."""
_NUMBERS = ("baseline", "treated", "ratio", "change", "baseline success", "treated success",
            "(before − after) / max, as in the paper")  # fmt: skip
_CLAIM = ("comparison", "outcome", "pooled ratio", "low 95 %", "high 95 %", "p", "p (Holm)", "p (sign flips)",
          "minimum detectable effect", "blocks or bring-ups", "pairs")  # fmt: skip

Pair = tuple[Claim, CaseResult, CaseResult]


def fill_contrast(sheet: Sheet, gathered: Gathered, table: TrialTable, comparison: Comparison) -> None:
    """Write the pairs, the claims below them, then a chart of the ratios."""
    findings = gathered.findings
    key = full_metric(findings, comparison.metric)
    wanted = (comparison.factor, comparison.baseline, comparison.metric)
    claims = [
        claim
        for claim in findings.claims
        if (claim.factor, claim.baseline, claim.metric) == wanted and claim.name.startswith(comparison.name)
    ]
    cases = {case.case: case for case in findings.cases}
    pairs = [
        (claim, cases[before], cases[after])
        for claim in claims
        for before, after in claim.pairs
        if before in cases and after in cases
    ]
    title = f"{comparison.name}: {heading(key)}; {comparison.factor} against {comparison.baseline}"
    sheet.text(0, 0, title, "bold")
    note = (
        "ratio = treatment / baseline. The last column is the paper's (before − after) / max(before, after)."
    )
    sheet.text(1, 0, note, "note")
    others = [name for name in gathered.factors if name != comparison.factor]
    headers = ["baseline case", "treatment case", "treatment", *others, *_NUMBERS]
    widths = [18, 14, 16, *[13] * len(others), 13, 13, 12, 12, 12, 12, 18]
    sheet.table(_HEAD, headers, len(pairs), widths, frozen=2)
    first = 3 + len(others)
    ratios = []
    for row, (claim, before, after) in enumerate(pairs, _HEAD + 1):
        words = (before.case, after.case, claim.treatment, *(before.levels.get(name, "") for name in others))
        for column, text in enumerate(words):
            sheet.text(row, column, text)
        ratios.append(_pair(sheet, table, row, first, before, after, key))
    row = _claims(
        sheet, gathered, claims, pairs, ratios, _HEAD + max(len(pairs), 1) + 2, first + _RATIO, widths
    )
    if pairs:
        _chart(sheet, comparison, ratios, heading(key), (row + 1, 1), first)


def fill_rounds(sheet: Sheet, claims: Sequence[Claim]) -> None:
    """Write one row per round of each claim whose sides took turns: both numbers and their ratio."""
    rows = [
        (claim, pair, number, one)
        for claim in claims
        for pair in claim.evidence
        for number, one in enumerate(pair.rounds, 1)
    ]
    headers = ("comparison", "baseline trial", "treatment trial", "block", "round", "baseline, s", "treatment, s",
               "treatment / baseline", "other programs")  # fmt: skip
    sheet.table(0, headers, len(rows), (34, 18, 18, 8, 8, 13, 13, 12, 12))
    for row, (claim, pair, number, one) in enumerate(rows, 1):
        for column, text in enumerate((claim.name, pair.baseline, pair.treatment)):
            sheet.text(row, column, text)
        sheet.number(row, 3, pair.block, "count")
        sheet.number(row, 4, number, "count")
        sheet.number(row, 5, one.baseline, "time_s")
        sheet.number(row, 6, one.treatment, "time_s")
        if one.baseline and one.treatment is not None:
            ratio = f"={sheet.range(row, 6)}/{sheet.range(row, 5)}"
            sheet.formula(row, 7, ratio, one.treatment / one.baseline, "times")
        else:
            sheet.text(row, 7, "–", "reason")
        sheet.number(row, 8, one.strangers, "ratio")


def _pair(
    sheet: Sheet, table: TrialTable, row: int, column: int, before: CaseResult, after: CaseResult, key: str
) -> float | None:
    """Write both values, their ratio, the change, both success rates and the paper's formula; return the ratio."""
    success = f"{split_metric(key)[0]}.success_rate"
    for place, case in enumerate((before, after)):
        over_cases(table, sheet, row, column + place, case, key)
        over_cases(table, sheet, row, column + 4 + place, case, success)
    pair = [table.numbers.of_case(case, key) for case in (before, after)]
    low, high = (None if one.refused else one.value for one in pair)
    left, right = sheet.range(row, column), sheet.range(row, column + 1)
    if not low or high is None:
        for place in (2, 3, 6):
            sheet.text(row, column + place, "–", "reason")
        return None
    sheet.formula(row, column + _RATIO, f"={right}/{left}", high / low, "times")
    sheet.formula(row, column + 3, f"={right}/{left}-1", high / low - 1, "change")
    paper = f"=({left}-{right})/MAX({left},{right})"
    sheet.formula(row, column + 6, paper, (low - high) / max(low, high), "change")
    return high / low if high else None


def _chart(
    sheet: Sheet,
    comparison: Comparison,
    ratios: Sequence[float | None],
    axis: str,
    at: tuple[int, int],
    column: int,
) -> None:
    """Draw the ratios from 1 on; if a pair has none, draw both values: text would be a zero."""
    first, last = _HEAD + 1, _HEAD + len(ratios)
    series = [
        (name, sheet.range(first, 1, last), sheet.range(first, column + place, last))
        for place, name in enumerate(_NUMBERS[: _RATIO + 1])
    ]
    if None not in ratios:
        title, axes = (
            f"{comparison.name}: ratio of treated to baseline",
            ("treatment case", "ratio (1: no difference)"),
        )
        ratio_chart(sheet, title, axes, series[_RATIO], at, wide(ratios, 5.0))
    else:
        caption = "A value that is missing has no column; the table says why."
        column_chart(sheet, comparison.name, ("treatment case", axis), series[:_RATIO], at, caption)


def _claims(
    sheet: Sheet,
    gathered: Gathered,
    claims: Sequence[Claim],
    pairs: Sequence[Pair],
    ratios: Sequence[float | None],
    row: int,
    ratio_column: int,
    widths: Sequence[float],
) -> int:
    """Write the claim: pooled ratio over the pairs, interval, p; return the next free row."""
    for column, text in enumerate(_CLAIM):
        sheet.text(row, column, text, "head")
    sheet.lines(row, list(zip(_CLAIM, [width - 2 for width in widths], strict=False)))
    rows = [claimed_of(gathered.findings, claim) for claim in claims]
    for at, (claim, one) in enumerate(zip(claims, rows, strict=True), row + 1):
        sheet.text(at, 0, claim.name, "wrap")
        sheet.lines(at, [(claim.name, widths[0] - 1)])
        sheet.text(at, 1, outcome_words(one.outcome))
        mine = [place for place, pair in enumerate(pairs) if pair[0] is claim]
        _pooled(sheet, claim, mine, [ratios[place] for place in mine], at, ratio_column)
        numbers = (
            claim.ratio.low,
            claim.ratio.high,
            claim.p,
            claim.p_adjusted,
            claim.p_sign_flip,
            claim.mde,
            claim.blocks,
        )
        forms = ("times", "times", "p", "p", "p", "ratio", "count")
        for column, (value, form) in enumerate(zip(numbers, forms, strict=True), 3):
            sheet.number(at, column, value, form)
        sheet.text(at, 10, "{} of {}".format(*claim.believed_of))
    row += len(claims) + 2
    for one in rows:
        behind = details(gathered.findings, one)
        for text in (one.sentence, *(f"{name}: {text}" for name, text in behind.items())):
            sheet.across(row, len(widths) - 1, text, sum(widths))
            row += 1
    return row


def _pooled(
    sheet: Sheet, claim: Claim, places: Sequence[int], ratios: Sequence[float | None], row: int, column: int
) -> None:
    """Write the pooled ratio: a formula if it is the mean over all the claim's pairs, else a number."""
    value, known = claim.ratio.value, [log(ratio) for ratio in ratios if ratio]
    whole = value is not None and len(known) == len(claim.pairs) > 0
    if value is not None and whole and isclose(exp(sum(known) / len(known)), value, rel_tol=1e-9):
        reference = sheet.range(_HEAD + 1 + places[0], column, _HEAD + 1 + places[-1])
        sheet.formula(row, 2, f"=GEOMEAN({reference})", value, "times")
    else:
        sheet.number(row, 2, value, "times")
