"""Every output of a run: rough and REFUSED numbers are marked, and failures come first."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from tests.evolve import evolve
from tests.report.conftest import Reporter, Shown
from tests.report.told_facts import MEDIAN, TAIL, doubted, outcomes

from svload.analysis.checks import all_checks
from svload.model.results import FailureKind, Failures, Findings, Grade
from svload.report.data.gather import gather
from svload.report.files.markdown import plain, summary_markdown
from svload.report.page.view import render_page
from svload.report.sheets.workbook import write_workbook
from svload.report.terminal.tables import show_findings
from svload.report.wording.answer import answer, headline, leading_failures
from svload.report.wording.spelling import cause

_NAMED = re.compile(r"\b(hiccups|generator-harm|others-cpu|run-queue|steal|warm-up|accounting|manipulation)")
"""Names of checks that sentences used to contain."""


def graded(findings: Findings, grade: Grade) -> Findings:
    """Give its median and p99 this grade in every trial of the first case."""
    case = findings.cases[0]
    marks: dict[str, dict[str, Grade]] = {name: {MEDIAN: grade, TAIL: grade} for name in case.trials}
    return evolve(doubted(findings, marks), findings=())


def test_no_sentence_is_made_of_a_checks_name(reported: Reporter) -> None:
    for grade in ("WEAK", "REFUSED"):
        found = answer(graded(reported("plain").findings, grade))
        for one in (*found.first, *found.sentences, *found.caveats):
            assert not _NAMED.search(one.whole), one.whole
    for check in all_checks():
        assert "-" not in cause(check.name), check.name


def test_the_page_s_table_of_checks_is_in_plain_words(reported: Reporter) -> None:
    table = reported("plain").page.partition('class="checks"')[2].partition("</table>")[0]
    heads = " ".join(re.findall(r'<th scope="row"[^>]*>(.*?)</th>', table))
    assert cause("others-cpu") in heads and cause("accounting") in heads
    for check in all_checks():
        assert check.name not in heads or check.name in cause(check.name)


WRONG = FailureKind(kind="status", name="201", count=9, expected="200")
SENTENCE = "order: 9 × 201, expected 200; 9 of 900 requests failed in TC1."


def failing(findings: Findings, beside: Any = "", case: str = "TC1") -> Findings:
    row = Failures(
        case=case, group="shop", step="order", ended=900, failed=9, trials=(f"{case}.r1",), kinds=(WRONG,), beside=beside
    )  # fmt: skip
    return evolve(findings, failures=(row,))


@pytest.mark.parametrize("of", ["plain", "refused", "mixed"])
def test_they_lead_headline_and_answer(reported: Reporter, of: str) -> None:
    findings = failing(reported(of).findings)
    assert headline(findings) == SENTENCE
    first = answer(findings).first[0]
    assert (first.text, first.mark, first.evidence) == (SENTENCE, "✗", ("cases/TC1",))


@pytest.mark.parametrize("of", ["plain", "refused"])
def test_they_lead_every_report(reported: Reporter, of: str, tmp_path: Path, shown: Shown) -> None:
    found = reported(of)
    findings = failing(found.findings)
    printed = " ".join(shown(show_findings, findings, {}).split())
    page = unescape(render_page(gather(found.run, findings))[0])
    summary = summary_markdown(findings)
    later = "Nothing can be concluded" if of == "refused" else "omparisons"
    for text, sentence in ((printed, SENTENCE), (page, SENTENCE), (summary, plain(SENTENCE))):
        assert text.index(f"✗ {sentence}" if text is not summary else sentence) < text.rindex(later)
    write_workbook(gather(found.run, findings), tmp_path / "report.xlsx")
    book = openpyxl.load_workbook(tmp_path / "report.xlsx", read_only=True)
    assert SENTENCE in [cell for row in book.worksheets[0].iter_rows(values_only=True) for cell in row]


@pytest.mark.parametrize("beside", ["few", "allowed", "planned fault", "search"])
def test_what_does_not_lead_is_a_line_among_the_doubts(reported: Reporter, beside: str) -> None:
    findings = failing(reported("plain").findings, beside)
    clean = reported("plain").findings
    assert headline(findings) == headline(clean)
    found = answer(findings)
    assert found.first == answer(clean).first
    (line,) = [one for one in found.caveats if "order: 9 × 201, expected 200" in one.text]
    assert (line.mark, line.certainty) == ("~", "counted")


def test_failures_are_reported_by_kind_most_frequent_first(reported: Reporter) -> None:
    late = FailureKind(kind="error", name="timeout_first_byte", count=12, expected="")
    check = FailureKind(kind="check", name="body contains ok", count=5, expected="")
    findings = failing(reported("plain").findings)
    row = evolve(findings.failures[0], failed=17, kinds=(check, late))
    several = tuple(evolve(row, case=name) for name in ("TC1", "TC2"))
    (line,) = leading_failures(evolve(findings, failures=several))
    assert line.text == (
        "order: 24 × timeout first byte; 10 × failed check “body contains ok”; 34 of 1,800 requests failed in TC1 and TC2."
    )
    assert line.evidence == ("cases/TC1", "cases/TC2")
    whole = evolve(row, failed=900)
    (line,) = leading_failures(evolve(findings, failures=(whole,)))
    assert "; all 900 requests failed in TC1." in line.text


def test_a_failed_gate_leads_before_any_other_claim(reported: Reporter) -> None:
    findings = outcomes(reported("plain").findings)
    late = evolve(findings, claims=findings.claims[::-1])
    assert answer(late).claims[0].failed
    failed = "GATE FAILED: worse by more than 5 % (HTTPS against HTTP)."
    assert headline(late).startswith(f"{failed} https against http: the median response")
    (first,) = [one for one in answer(late).first if one.text.startswith("GATE FAILED")]
    assert (first.mark, first.evidence) == ("✗", ("HTTPS against HTTP",))
    passed = tuple(evolve(one, gate=None) for one in late.claims)
    clean = evolve(late, claims=passed)
    assert "gate" not in headline(clean).lower()
    assert not [one for one in answer(clean).first if "GATE" in one.text]
