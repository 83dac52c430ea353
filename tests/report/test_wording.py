"""Every output shows a number alike: value, mark, bound and reason of a null, made by one function."""

from __future__ import annotations

import re
from html import unescape
from math import isclose
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl import Workbook
from tests.evolve import evolve
from tests.report.conftest import Reporter, table_of
from tests.report.test_page import with_steps
from tests.report.wording_facts import MEDIAN, TAIL, doubted, outcomes

from svload.model.load_summary import LoadSummary
from svload.model.results import Belief, CaseResult, Estimate, StageResult
from svload.model.visible import visible
from svload.report.data.gather import Gathered, gather
from svload.report.data.outliers import Outlier
from svload.report.page.cases import GROUP_METRICS, STEP_METRICS
from svload.report.page.cases import _when as outlier_time
from svload.report.page.view import render_page
from svload.report.sheets.book import clean, heading
from svload.report.sheets.summary import metric_keys
from svload.report.sheets.workbook import write_workbook
from svload.report.terminal.load_end import _stages as stages_table
from svload.report.wording.answer import answer
from svload.report.wording.numbers import Number, Numbers, number_of, too_few_rule
from svload.report.wording.spelling import full_metric, outcome_words, show_ratio, show_value

pytestmark = pytest.mark.slow


def number(**fields: Any) -> Number:
    return number_of(TAIL, Estimate(**{"value": 0.0021, "low": 0.002, "high": 0.0023, "n": 900} | fields))


@pytest.mark.parametrize(
    ("below", "above", "expected"),
    [
        (0.0, 0.0, ""),
        (0.0, 0.0001, ""),
        (0.0, 0.12, "up to +12 %"),
        (0.03, 0.0, "up to −3 %"),
        (0.03, 0.12, "−3 to +12 %"),
        (0.05, 0.05, "±5 %"),
        (None, 0.0, "off by an unknown amount"),
        (0.0, 1.4, "up to +140 %"),
        (0.4, 9.0, "−40 to +900 %"),
        (0.4, 620.0, "−40 % to 620 times"),
        (0.0, 62_000.0, "up to 62,000 times"),
        (1.0, 620.0, "no bound below, up to 620 times"),
        (1.0, 3.0, "no bound below, up to +300 %"),
        (1.0, 0.0, "no bound below"),
    ],
)
def test_a_bound_is_reported_if_not_zero(below: float | None, above: float | None, expected: str):
    assert number(belief=Belief(grade="WEAK", below=below, above=above)).bound == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(1.0, "100 %"), (1 - 1e-16, "100 %"), (0.99997, "99.997 %"), (0.999949, "99.99 %"), (1 - 1 / 300_000, "99.9997 %"), (12.345, "1,234 %")],
)  # fmt: skip
def test_a_single_failure_is_not_rounded_away(share: float, expected: str) -> None:
    assert show_value(share, "ratio") == expected


def test_no_number_has_an_exponent() -> None:
    assert number(value=0.9996, low=0.9985, high=0.9999).whole == "1,000 ms [998, 1,000]"
    assert show_value(999.6, "rate_rps") == "1,000/s"
    estimates = {"throughput": Estimate(value=123_456.0), "success_rate": Estimate(value=1.0)}
    stage = StageResult.model_construct(label="a", from_s=0.0, to_s=9.0, holds=True, metrics=estimates)
    columns = stages_table(LoadSummary.model_construct(stages=(stage,)))
    assert [cells[0] for cells in columns.values()][-2:] == ["123,500/s", "100 %"]
    late = Outlier.__new__(Outlier)
    object.__setattr__(late, "at_s", (1234.0, 1567.0))
    assert outlier_time(late) == "1,230–1,570 s"


WEAK, REFUSED = Belief(grade="WEAK"), Belief(grade="REFUSED", as_measured=0.0042)
NULL = {"value": None, "low": None, "high": None}


@pytest.mark.parametrize(
    ("fields", "marked"),
    [
        ({}, "2.1 ms"),
        ({"belief": WEAK}, "2.1 ms ~"),
        ({"belief": REFUSED}, "2.1 ms ✗"),
        ({"weak": True}, "2.1 ms °"),
        ({"why": "grows"}, "2.1 ms °"),
        ({"weak": True, "belief": WEAK}, "2.1 ms ~°"),
        ({"weak": True, "belief": REFUSED}, "2.1 ms ✗"),
        (NULL | {"reason": "too few: 3 effective requests, p99 needs 368; > timeout; grows"}, "–"),
        (NULL | {"why": "refused", "belief": REFUSED}, "4.2 ms ✗"),  # shows what was measured
    ],
)
def test_marks_are_the_number_s_own(fields: dict[str, Any], marked: str) -> None:
    """A null is reported by its code and never by its sentence."""
    assert number(**fields).marked == marked
    assert number().whole == "2.1 ms [2, 2.3]" and number_of(TAIL, None).text == "not measured"


def test_the_requests_that_a_percentile_needs_are_reported() -> None:
    short = number(value=0.0021, high=None, why="too few", need=368, n_eff=335.4, weak=True)
    assert short.marked == "2.1 ms °"
    assert "(368 for p99)" in too_few_rule([short]).replace("each trial: ", "(").replace(".", ")")
    refused = number(**NULL, why="refused", belief=REFUSED)
    assert refused.refused and refused.value is None


def test_a_case_s_number_counts_the_trials_that_carry_it(reported: Reporter) -> None:
    findings = doubted(reported("plain").findings, {"TC0.r1": {TAIL: "REFUSED"}, "TC1.r1": {MEDIAN: "WEAK"}})
    found = Numbers(findings)
    first, second = findings.cases[:2]
    assert [found.of_case(first, metric).counted for metric in (MEDIAN, TAIL)] == ["3/3", "2/3"]
    assert found.counts(first, MEDIAN) == ("TC0.r1", "TC0.r2", "TC0.r3")
    assert found.of_case(second, MEDIAN).mark == "~"
    assert found.of_case(second, TAIL).mark in ("°", "~°")


class _Page:
    """The number cells of a page's tables, row by row, as text without intervals and bounds."""

    def __init__(self, page: str) -> None:
        self.whole = page
        _, *self.cases = page.split('<article class="case"')

    @staticmethod
    def table(html: str, of: str) -> str:
        """Return the body of the first table of that class; "" without one."""
        begin = html.find(f'<table class="{of}"')
        return html[html.index("<tbody", begin) : html.index("</table>", begin)] if begin >= 0 else ""

    @classmethod
    def rows(cls, html: str, of: str) -> list[list[str]]:
        """Return the numbers of each row that has any; text outside the cells of numbers is left out."""
        found = []
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", cls.table(html, of), re.S):
            cells = re.findall(r'<td class="num[^"]*"[^>]*>(.*?)</td>', row, re.S)
            if cells:
                found.append([cls._plain(cell) for cell in cells])
        return found

    @staticmethod
    def _plain(cell: str) -> str:
        return unescape(re.sub(r"<small.*", "", re.sub(r"</?span[^>]*>", "", cell), flags=re.S)).strip()


def _claim_rows(book: Workbook) -> dict[str, dict[str, Any]]:
    """Return the rows of all sheets of comparisons, by the claim's name."""
    found = {}
    for sheet in book.worksheets:
        for at, row in enumerate(sheet.iter_rows(values_only=True), 1):
            if row[:2] == ("comparison", "outcome"):
                found |= {str(one["comparison"]): one for one in table_of(sheet, at)}
    return found


OVERVIEW = ("response.p50", "response.p95", "response.p99", "throughput", "success_rate")
HEADINGS = {
    "response.p50": "{g}: response p50, s", "response.p95": "{g}: response p95, s", "response.p99": "{g}: response p99, s",
    "throughput": "{g}: throughput, 1/s", "success_rate": "{g}: success rate",
}  # fmt: skip


def _agree(cell: Any, one: Number) -> bool:
    """Return whether a workbook's cell is the number: a number if it counts, else text with its mark."""
    if one.value is not None and not one.refused:
        return isinstance(cell, (int, float)) and isclose(cell, one.value, rel_tol=1e-9, abs_tol=1e-12)
    return isinstance(cell, str) and one.text in cell and ("✗" in cell) is one.refused


def _same_when_made(gathered: Gathered, folder: Path) -> int:
    path = folder / "report.xlsx"
    write_workbook(gathered, path)
    return _same_in_page_and_workbook(gathered, render_page(gathered)[0], path)


def _same_in_page_and_workbook(gathered: Gathered, text: str, path: Path) -> int:
    """Return how many numbers were compared. Rows are matched by their order on the page."""
    page, book = _Page(text), openpyxl.load_workbook(path, data_only=True)
    ran = [case for case in gathered.findings.cases if case.excluded is None]
    compared = _same_overview(gathered, ran, page.rows(page.whole, "overview"), book)
    compared += _same_claims(gathered, page, book) + _same_trials(gathered, ran, page.cases, book)
    return compared + _same_groups(gathered, ran, page.cases, book) + _same_pairs(gathered, book)


def _same_overview(gathered: Gathered, ran: list[CaseResult], shown: list[list[str]], book: Workbook) -> int:
    expected = gathered.numbers
    summary = {row["case"]: row for row in table_of(book["Summary"], 2)}
    for case, cells in zip(ran, shown, strict=True):
        numbers = [expected.of_case(case, f"{expected.group}.{metric}") for metric in OVERVIEW]
        assert cells == [*(visible(one.marked) for one in numbers), numbers[0].counted]
        row = summary[clean(case.case)]
        assert (row["trials that count"], row["trials made"]) == (numbers[0].believed, numbers[0].made)
        for metric, one in zip(OVERVIEW, numbers, strict=True):
            heading = next(head for head in row if head.startswith(HEADINGS[metric].format(g=expected.group)))
            assert _agree(row[heading], one), (case.case, metric, row[heading], one)
    return len(OVERVIEW) * len(ran)


def _same_trials(gathered: Gathered, ran: list[CaseResult], articles: list[str], book: Workbook) -> int:
    """Compare the trials' own numbers: on the page those of the main group, in the workbook those of all
    groups and services."""
    expected, compared = gathered.numbers, 0
    sheet = {row["trial"]: row for row in table_of(book["Trials"], 2)}
    for case, article in zip(ran, articles, strict=True):
        for trial, cells in zip(expected.trials(case), _Page.rows(article, "trials"), strict=True):
            numbers = [expected.of_trial(trial, f"{expected.group}.{metric}") for metric in OVERVIEW]
            assert cells[: len(OVERVIEW)] == [one.marked for one in numbers], trial.trial
            for key in metric_keys(gathered):
                if key in trial.metrics:
                    cell = sheet[clean(trial.trial)][clean(heading(key))]
                    assert _agree(cell, expected.of_trial(trial, key)), (trial.trial, key, cell)
                    compared += 1
    return compared


def _same_groups(gathered: Gathered, ran: list[CaseResult], articles: list[str], book: Workbook) -> int:
    """Compare each case's numbers of every group and step: its section's tables, and the sheet of cases."""
    found, compared = gathered.numbers, 0
    sheet = {row["case"]: row for row in table_of(book["Cases"], 2)}
    for case, article in zip(ran, articles, strict=True):
        if not found.trials(case):
            continue
        names = [group.name for group in gathered.configs[case.case].groups]
        metrics = {f"{name}.": GROUP_METRICS for name in names}
        scenarios = [(one.name, part) for one in gathered.configs[case.case].groups for part in one.scenarios]
        steps = [f"{group}.{step.name}." for group, scenario in scenarios for step in scenario.steps]
        shown = [*_Page.rows(article, "groups"), *_Page.rows(article, "steps")]
        metrics |= dict.fromkeys(steps, STEP_METRICS)
        for (owner, of), cells in zip(metrics.items(), shown, strict=True):
            assert cells == [found.of_case(case, owner + metric).marked for metric in of], (case.case, owner)
            for key in (owner + metric for metric in of):
                cell = sheet[clean(case.case)].get(clean(heading(key)))
                if cell is not None:
                    assert _agree(cell, found.of_case(case, key)), (case.case, key)
                    compared += 1
    return compared


def _same_claims(gathered: Gathered, page: _Page, book: Workbook) -> int:
    """Compare each claim's row: ratio, interval, p, pairs, units, least effect and outcome."""
    claims, rows = answer(gathered.findings).claims, _claim_rows(book)
    shown = page.rows(page.whole, "claims")
    words = re.findall(r"<td>([^<]*)</td></tr>", page.table(page.whole, "claims"))
    for found, cells, outcome in zip(claims, shown, words, strict=True):
        claim, row = found.claim, rows[clean(found.claim.name)]
        known = (claim.ratio.value, claim.ratio.low, claim.ratio.high, claim.p_adjusted)
        mine = [row[name] for name in ("pooled ratio", "low 95 %", "high 95 %", "p (Holm)")]
        for value, cell, text in zip(known, mine, cells, strict=False):
            assert text == (f"{value:.3g}" if value is not None else "–")
            assert cell == "–" if value is None else isclose(cell, value, rel_tol=1e-9), claim.name
        least = row["minimum detectable effect"]
        detectable = show_ratio(1 + least) if isinstance(least, (int, float)) else "–"
        assert cells[4:] == [str(row["pairs"]), str(row["blocks or bring-ups"]), detectable]
        assert row["pairs"] == f"{claim.believed_of[0]} of {claim.believed_of[1]}"
        assert row["outcome"] == outcome == outcome_words(found.outcome)
    return 8 * len(claims)


def _same_pairs(gathered: Gathered, book: Workbook) -> int:
    """Compare ratios of two cases, which are numbers where both cases have one that counts."""
    found, compared = gathered.numbers, 0
    cases = {clean(case.case): case for case in gathered.findings.cases}
    for comparison in gathered.lock.comparisons:
        key = full_metric(gathered.findings, comparison.metric)
        title = clean(f"{comparison.name}: {heading(key)}; ")
        (sheet,) = [one for one in book.worksheets if str(one.cell(1, 1).value).startswith(title)]
        for row in table_of(sheet, 3):
            both = [found.of_case(cases[row[side]], key) for side in ("baseline case", "treatment case")]
            counts = all(one.value is not None and not one.refused for one in both)
            assert isinstance(row["ratio"], (int, float)) is counts
            compared += 1
    return compared


def test_page_and_workbook_show_the_same_numbers(any_run: Any) -> None:
    gathered = gather(any_run.run, any_run.findings)
    compared = _same_in_page_and_workbook(gathered, any_run.page, any_run.files["report.xlsx"])
    assert compared >= 5 * sum(case.excluded is None for case in any_run.findings.cases)


def test_so_they_do_where_single_numbers_are_doubted(reported: Reporter, tmp_path: Path) -> None:
    found = reported("plain")
    grades: dict[str, Any] = {f"TC2.r{n}": {MEDIAN: "REFUSED"} for n in (1, 2, 3)}
    grades |= {"TC0.r1": {MEDIAN: "REFUSED", TAIL: "REFUSED"}, "TC1.r1": {MEDIAN: "WEAK"}}
    findings = doubted(found.findings, grades)
    assert Numbers(findings).of_case(findings.cases[2], MEDIAN).counted == "0/3"
    assert _same_when_made(gather(found.run, findings), tmp_path) > 400


def test_so_they_do_for_the_steps_of_scenarios(reported: Reporter, tmp_path: Path) -> None:
    found = reported("plain")
    plain = gather(found.run, found.findings)
    without = _same_in_page_and_workbook(plain, found.page, found.files["report.xlsx"])
    assert _same_when_made(with_steps(plain), tmp_path) > without


def test_so_they_do_for_claims_of_each_outcome(reported: Reporter, tmp_path: Path) -> None:
    found = reported("plain")
    first = found.findings.claims[0]
    same = {name: getattr(first, name) for name in ("factor", "baseline", "metric")}
    each = enumerate(outcomes(found.findings).claims)
    claims = tuple(one.model_copy(update=same | {"name": f"{first.name} {n}"}) for n, one in each)
    findings = evolve(found.findings, claims=claims)
    assert {one.outcome for one in claims} == {"decided", "no difference", "open", "refused"}
    _same_when_made(gather(found.run, findings), tmp_path)


def test_a_number_s_bound_stands_beside_it_on_the_page(reported: Reporter) -> None:
    found = reported("plain")
    findings = doubted(found.findings, {"TC1.r1": {MEDIAN: "WEAK"}})
    page, _ = render_page(gather(found.run, findings))
    assert '<small class="bound">up to +12 %</small>' in page
    clean, _ = render_page(gather(found.run, doubted(found.findings, {})))
    assert 'class="bound"' not in clean
