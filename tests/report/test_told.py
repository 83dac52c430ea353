"""A number is told alike everywhere: its value, mark, bound and why it is null come from fields, and from one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from html import unescape
from math import isclose
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from tests.report.told_facts import MEDIAN, TAIL, believed, doubted

import svload
from svload.model.results import Belief, Estimate, Findings
from svload.report.data.gather import gather
from svload.report.page.render import render_page
from svload.report.sheets.workbook import write_workbook
from svload.report.told.numbers import Number, Told, number_of, too_few_rule

Reporter = Callable[[str], Any]
PACKAGE = Path(svload.__file__).parent
ROOMS = ("report", "analysis", "api", "cli")
"""Who reads what analysis wrote: by fields and codes alone."""


def number(**fields: Any) -> Number:
    return number_of(TAIL, Estimate(**{"value": 0.0021, "low": 0.002, "high": 0.0023, "n": 900} | fields))


@pytest.mark.parametrize(
    ("below", "above", "told"),
    [
        (0.0, 0.0, ""),
        (0.0, 0.0001, ""),
        (0.0, 0.12, "up to +12 %"),
        (0.03, 0.0, "up to −3 %"),
        (0.03, 0.12, "−3 to +12 %"),
        (0.05, 0.05, "±5 %"),
        (None, 0.0, "off by an unknown share"),
    ],
)
def test_a_bound_is_told_where_it_is_not_zero(below: float | None, above: float | None, told: str) -> None:
    belief = Belief(grade="WEAK", below=below, above=above)
    assert number(belief=belief).bound == told


def test_marks_are_the_number_s_own() -> None:
    assert number().marked == "2.1 ms"
    assert number(belief=Belief(grade="WEAK")).marked == "2.1 ms ~"
    assert number(belief=Belief(grade="REFUSED")).marked == "2.1 ms ✗"
    assert number(weak=True).marked == "2.1 ms °"
    assert number(why="grows").marked == "2.1 ms °"
    assert number(weak=True, belief=Belief(grade="WEAK")).marked == "2.1 ms ~"
    assert number().whole == "2.1 ms [2, 2.3]"


def test_a_null_is_told_by_its_code_and_never_by_its_sentence() -> None:
    short = number(
        value=None,
        low=None,
        high=None,
        why="too few",
        need=368,
        n_eff=335.4,
        reason="words that nobody reads",
    )
    assert short.text == "too few"
    assert "335 of 368 independent requests" in short.why_words
    assert "(368 for p99)" in too_few_rule([short]).replace("each trial: ", "(").replace(".", ")")
    misleading = number(
        value=None,
        low=None,
        high=None,
        reason="too few: 3 effective requests, p99 needs 368; > time-out; grows",
    )
    assert misleading.text == "–"
    assert number_of(TAIL, None).text == "not measured"


def test_a_refused_number_without_a_value_shows_what_was_measured() -> None:
    belief = Belief(grade="REFUSED", as_measured=0.0042)
    one = number(value=None, low=None, high=None, why="refused", belief=belief)
    assert one.refused
    assert one.marked == "4.2 ms ✗"
    assert one.value is None


def test_a_case_s_number_counts_the_trials_that_carry_it(reported: Reporter) -> None:
    findings = doubted(reported("plain").findings, {"TC0.r1": {TAIL: "REFUSED"}, "TC1.r1": {MEDIAN: "WEAK"}})
    told = Told(findings)
    first, second = findings.cases[:2]
    assert told.of_case(first, MEDIAN).counted == "3/3"
    assert told.of_case(first, TAIL).counted == "2/3"
    assert told.counts(first, MEDIAN) == ("TC0.r1", "TC0.r2", "TC0.r3")
    assert told.of_case(second, MEDIAN).mark == "~"
    assert told.of_case(second, TAIL).mark in ("", "~")


def _parsed(tree: ast.AST) -> list[str]:
    """Calls that take sentences apart: of `.sentence`, `.reason` and the like by partition, split,
    startswith, find, `in`, or a pattern."""
    told = {"sentence", "reason", "reasons", "note", "remedy", "floor"}
    taking = {"partition", "rpartition", "split", "rsplit", "startswith", "endswith", "find", "index", "removeprefix", "removesuffix", "replace"}  # fmt: skip
    patterns = {"search", "match", "fullmatch", "findall", "finditer", "sub"}

    def sentence(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in told

    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in taking and sentence(node.func.value):
                found.append(ast.unparse(node))
            if node.func.attr in patterns and any(map(sentence, node.args)):
                found.append(ast.unparse(node))
        if (
            isinstance(node, ast.Compare)
            and any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops)
            and any(map(sentence, node.comparators))
        ):
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_in_the_room_takes_a_sentence_of_analysis_apart(room: str) -> None:
    found = {}
    paths = sorted((PACKAGE / room).rglob("*.py"))
    assert len(paths) > 5
    for path in paths:
        if taken := _parsed(ast.parse(path.read_text(encoding="utf-8"))):
            found[str(path.relative_to(PACKAGE))] = taken
    assert found == {}


def test_no_template_does() -> None:
    paths = sorted((PACKAGE / "report").rglob("*.j2"))
    assert paths
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"\.(?:sentence|reason|floor)\.(?:startswith|split|partition)", text), path.name


@pytest.mark.parametrize(
    "code",
    [
        "claim.sentence.partition('). ')",
        "estimate.reason.startswith('> time-out')",
        "re.search('too few', estimate.reason)",
        "'grows' in estimate.reason",
        "findings.floor.startswith('floor known')",
    ],
)
def test_the_guard_sees_what_it_is_for(code: str) -> None:
    assert _parsed(ast.parse(code))


@pytest.mark.parametrize(
    "code", ["drawing.text(x, y, one.sentence)", "[check.sentence, check.remedy]", "key.partition('.')"]
)
def test_the_guard_lets_sentences_be_shown(code: str) -> None:
    assert not _parsed(ast.parse(code))


class _Cells:
    """The number cells of a page's table by row and column, as text without its interval."""

    def __init__(self, page: str) -> None:
        self.page = page

    def rows(self, table: str) -> dict[str, list[str]]:
        body = self.page[self.page.index(table) :]
        body = body[: body.index("</table>")]
        found = {}
        for row in re.findall(r"<tr[^>]*>(?:(?!</tr>).)*</tr>", body, re.S):
            head = re.search(r'<th scope="row"[^>]*>(?:<a [^>]*>)?([^<]*)', row)
            cells = re.findall(r'<td class="num[^"]*"[^>]*>(.*?)</td>', row, re.S)
            if head and cells:
                found[head[1]] = [
                    unescape(re.sub(r"<small.*", "", re.sub(r"</?span[^>]*>", "", cell), flags=re.S))
                    for cell in cells
                ]
        return found


def _sheet(path: Path, name: str, head: int) -> list[dict[str, Any]]:
    sheet = openpyxl.load_workbook(path, data_only=True)[name]
    rows = list(sheet.iter_rows(min_row=head, values_only=True))
    end = next((at for at, row in enumerate(rows) if at and row[0] is None), len(rows))
    return [dict(zip(map(str, rows[0]), row, strict=True)) for row in rows[1:end]]


OVERVIEW = ("response.p50", "response.p95", "response.p99", "throughput", "success_rate")
HEADINGS = {
    "response.p50": "{g}: response p50, s", "response.p95": "{g}: response p95, s", "response.p99": "{g}: response p99, s",
    "throughput": "{g}: throughput, 1/s", "success_rate": "{g}: success rate",
}  # fmt: skip


def _agree(cell: Any, one: Number) -> bool:
    """Whether a workbook's cell says what the number is: a number that counts as number,
    all else as text with its mark."""
    if one.value is not None and not one.refused:
        return isinstance(cell, (int, float)) and isclose(cell, one.value, rel_tol=1e-9, abs_tol=1e-12)
    return isinstance(cell, str) and one.text in cell and ("✗" in cell) is one.refused


def _same_in_page_and_workbook(run: Any, findings: Findings, folder: Path) -> int:
    """How many numbers were compared."""
    gathered = gather(run, findings)
    page = _Cells(render_page(gathered)[0])
    write_workbook(gathered, folder / "report.xlsx")
    told, compared = gathered.told, 0
    summary = {row["case"]: row for row in _sheet(folder / "report.xlsx", "Summary", 2)}
    trials = {row["trial"]: row for row in _sheet(folder / "report.xlsx", "Trials", 2)}
    overview = page.rows('<table class="overview"')
    for case in findings.cases:
        if case.excluded is not None:
            continue
        numbers = [told.of_case(case, f"{told.group}.{metric}") for metric in OVERVIEW]
        if case.case.isalnum() and len(case.case) <= 30:
            assert [text.strip() for text in overview[case.case][:5]] == [one.marked for one in numbers]
            assert overview[case.case][5] == numbers[0].counted
        row = summary[case.case]
        assert (row["trials that count"], row["trials made"]) == (numbers[0].believed, numbers[0].made)
        for metric, one in zip(OVERVIEW, numbers, strict=True):
            heading = next(head for head in row if head.startswith(HEADINGS[metric].format(g=told.group)))
            assert _agree(row[heading], one), (case.case, metric, row[heading], one)
            compared += 1
        for trial in told.trials(case):
            for metric in OVERVIEW:
                one = told.of_trial(trial, f"{told.group}.{metric}")
                key = f"{told.group}.{metric}"
                heading = next(
                    (
                        head
                        for head in trials[trial.trial]
                        if head.startswith(HEADINGS[metric].format(g=told.group))
                    ),
                    "",
                )
                if heading and key in trial.metrics:
                    assert _agree(trials[trial.trial][heading], one), (trial.trial, metric)
                    compared += 1
    for comparison in gathered.lock.comparisons:
        for row in _sheet(folder / "report.xlsx", comparison.name, 3):
            if row.get("baseline case") is None:
                continue
            both = [told.of_case(case, comparison.metric) for name in (row["baseline case"], row["treatment case"]) for case in findings.cases if case.case == name]  # fmt: skip
            assert isinstance(row["ratio"], (int, float)) is all(
                one.value is not None and not one.refused for one in both
            )
            compared += 1
    return compared


def test_page_and_workbook_tell_the_same_numbers(any_run: Any, tmp_path: Path) -> None:
    compared = _same_in_page_and_workbook(any_run.run, any_run.findings, tmp_path)
    assert compared >= 5 * sum(case.excluded is None for case in any_run.findings.cases)


def test_so_they_do_where_single_numbers_are_doubted(reported: Reporter, tmp_path: Path) -> None:
    found = reported("plain")
    grades: dict[str, Any] = {
        "TC0.r1": {MEDIAN: "REFUSED", TAIL: "REFUSED"},
        "TC1.r1": {MEDIAN: "WEAK"},
        **{f"TC2.r{n}": {MEDIAN: "REFUSED"} for n in (1, 2, 3)},
    }
    findings = doubted(found.findings, grades)
    assert Told(findings).of_case(findings.cases[2], MEDIAN).counted == "0/3"
    assert _same_in_page_and_workbook(found.run, findings, tmp_path) > 100


def test_a_number_s_bound_stands_beside_it_on_the_page(reported: Reporter) -> None:
    found = reported("plain")
    findings = doubted(found.findings, {"TC1.r1": {MEDIAN: "WEAK"}})
    page, _ = render_page(gather(found.run, findings))
    assert '<small class="bound">up to +12 %</small>' in page
    clean, _ = render_page(gather(found.run, doubted(found.findings, {})))
    assert 'class="bound"' not in clean


def test_believed_is_what_it_says() -> None:
    assert believed(Estimate(value=1.0), "WEAK").grade == "WEAK"
