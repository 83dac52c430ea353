"""Every surface of a run: what a busy machine merely disturbed is rough and never REFUSED, what is broken is REFUSED, and
no check is called by its name where a sentence stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.evolve import evolve
from tests.report.told_facts import MEDIAN, TAIL, doubted

from svload import api
from svload.analysis.checks import all_checks
from svload.model.events import Event
from svload.model.results import Findings, Grade
from svload.report.data.gather import gather
from svload.report.files.junit import junit_xml
from svload.report.files.markdown import summary_markdown
from svload.report.page.render import render_page
from svload.report.terminal.live import PlainView
from svload.report.terminal.tables import show_findings
from svload.report.terminal.why import show_why
from svload.report.told.answer import answer
from svload.report.told.causes import cause
from svload.report.told.quieter import quieter_line

Reporter = Callable[[str], Any]
_NAMED = re.compile(
    r"\b(hiccups|generator-harm|others-cpu|run-queue|steal|warm-up|accounting|manipulation)\b"
)
"""Names of checks that sentences used to be made of."""


def graded(findings: Findings, grade: Grade) -> Findings:
    """Its median and its p99 so in every trial of the first case."""
    case = findings.cases[0]
    marks: dict[str, dict[str, Grade]] = {name: {MEDIAN: grade, TAIL: grade} for name in case.trials}
    return evolve(doubted(findings, marks), findings=())


def terminal(findings: Findings, run: Any, capsys: pytest.CaptureFixture[str]) -> str:
    show_findings(findings, {}, code=api.verdict_exit(findings))
    show_why(findings)
    return capsys.readouterr().out + quieter_line(findings)


def page(findings: Findings, run: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """Its answer, up to the table that shows every verdict."""
    text = render_page(gather(run, findings))[0]
    return re.sub(r"<[^>]+>", " ", text.partition("<main")[2].partition('id="matrix"')[0])


def markdown(findings: Findings, run: Any, capsys: pytest.CaptureFixture[str]) -> str:
    return summary_markdown(findings)


def junit(findings: Findings, run: Any, capsys: pytest.CaptureFixture[str]) -> str:
    return junit_xml(findings)


def live(findings: Findings, run: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """A running count; which trial it was, `svload why` says."""
    view = PlainView()
    for trial in findings.trials:
        data = {"trial": trial.trial, "instrument": trial.verdict.instrument, "server": "STEADY", "reasons": list(trial.verdict.reasons), "headline": "probe p50 2 ms"}  # fmt: skip
        view.on_event(Event("trial-sealed", data))
    return capsys.readouterr().err


SURFACES = [terminal, page, markdown, junit, live]


@pytest.mark.parametrize("surface", SURFACES)
def test_a_disturbed_trial_is_rough_and_not_refused(
    reported: Reporter, surface: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = reported("plain")
    told = surface(graded(found.findings, "WEAK"), found.run, capsys)
    assert "REFUSED" not in told
    assert re.search("rough", told, re.IGNORECASE)


@pytest.mark.parametrize("surface", SURFACES)
def test_a_broken_trial_is_refused(
    reported: Reporter, surface: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = reported("plain")
    told = surface(graded(found.findings, "REFUSED"), found.run, capsys)
    assert re.search("REFUSED|Not usable|broken", told)


def test_no_sentence_is_made_of_a_checks_name(reported: Reporter) -> None:
    for grade in ("WEAK", "REFUSED"):
        found = answer(graded(reported("plain").findings, grade))
        for one in (*found.first, *found.sentences, *found.unsaid):
            assert not _NAMED.search(one.whole), one.whole
    for check in all_checks():
        assert "-" not in cause(check.name), check.name


def test_the_page_s_table_of_checks_is_in_plain_words(reported: Reporter) -> None:
    table = reported("plain").page.partition('class="checks"')[2].partition("</table>")[0]
    heads = " ".join(re.findall(r'<th scope="row"[^>]*>(.*?)</th>', table))
    assert cause("others-cpu") in heads and cause("accounting") in heads
    for check in all_checks():
        assert check.name not in heads or check.name in cause(check.name)


def test_junit_passes_a_disturbed_trial_with_output_and_errs_on_a_broken_one(reported: Reporter) -> None:
    findings = reported("plain").findings
    for grade, tag in (("WEAK", "system-out"), ("REFUSED", "error")):
        found = graded(findings, grade)
        trials = {one.get("name"): one for one in ElementTree.fromstring(junit_xml(found))[1]}
        for trial in found.cases[0].trials:
            assert {child.tag for child in trials[trial]} - {"properties"} == {tag}
