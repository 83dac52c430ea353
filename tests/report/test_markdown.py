"""summary.md and junit.xml agree with the exit code, and no name breaks them."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from syrupy.assertion import SnapshotAssertion
from tests.evolve import evolve
from tests.report.conftest import Reporter

from svload.model.capacity import CapacityResult
from svload.model.results import Outage
from svload.report.files.junit import junit_xml
from svload.report.files.markdown import plain, summary_markdown
from svload.report.wording.answer import headline

STEP_BYTES_MAX = 1 << 20  # GitHub's limit for a step


def rendered(text: str) -> str:
    return MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text)


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "one", "hostile", "overloaded", "unmeasured"])
def test_it_is_written_beside_the_report_and_small(reported: Reporter, name: str) -> None:
    found = reported(name)
    text = found.files["summary.md"].read_text(encoding="utf-8")
    assert text == summary_markdown(found.findings)
    assert 0 < len(text.encode()) < STEP_BYTES_MAX / 10
    assert plain(headline(found.findings)) in text


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "unmeasured"])
def test_a_summary(reported: Reporter, snapshot: SnapshotAssertion, name: str) -> None:
    """The first character agrees with the exit code; every case that ran has its row."""
    assert summary_markdown(reported(name).findings) == snapshot


def test_names_show_their_own_characters_and_nothing_else(reported: Reporter) -> None:
    text = summary_markdown(reported("hostile").findings)
    page = rendered(text)
    assert "<img" not in page and "<b>" not in page
    assert "\u202e" not in text
    assert page.count("<details>") == page.count("</details>") <= 1


@pytest.mark.parametrize(
    "text",
    ["a|b", "*a*", "_a_ b_c", "[x](http://x)", "`code`", "<script>", "![x](y)", "~~a~~", "1. a", "- a", "> a", "# a", "&amp;", "\\*", "2.1 ms [2.0, 2.3]"],
)  # fmt: skip
def test_plain_text_survives_the_renderer(text: str) -> None:
    page = rendered(f"| a | b |\n| --- | --- |\n| {plain(text)} | x |\n\n{plain(text)}\n")
    cell = unescape(page.split("<td>")[1].split("</td>")[0])
    paragraph = unescape(page.split("<p>")[1].split("</p>")[0])
    assert cell == paragraph == text


@pytest.mark.parametrize("text", ["@org/team", "a @b-c", "#12", "org/repo#12"])
def test_a_name_mentions_nobody_in_a_pull_request(text: str) -> None:
    page = unescape(rendered(plain(text)))
    assert not re.search(r"(?<!\w)@\w|#\d", page)
    assert page.replace("\u200b", "") == f"<p>{text}</p>\n"


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "hostile", "one", "unmeasured"])
def test_a_case_for_every_threshold_and_trial(reported: Reporter, name: str) -> None:
    found = reported(name)
    root = ElementTree.fromstring(found.files["junit.xml"].read_text(encoding="utf-8"))
    thresholds, trials = root
    named = [(case.get("classname"), case.get("name")) for case in thresholds]
    held = [pair for pair in named if pair[0] != "comparisons"]
    assert held == [(one.case, one.that) for one in found.findings.thresholds]
    sealed = {case.get("name"): case for case in trials}
    for trial in found.findings.trials:
        case = sealed[trial.trial]
        assert (case.find("error") is not None) == (trial.verdict.instrument == "REFUSED")
        if trial.verdict.instrument == "WEAK":
            note = case.find("system-out")
            assert trial.verdict.reasons[0] in (note.text or "")
    for suite in root:
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        assert int(suite.get("errors", "")) == len(suite.findall("testcase/error"))
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))


def test_a_threshold_on_a_refused_case_is_never_a_pass(reported: Reporter) -> None:
    found = reported("mixed").findings
    root = ElementTree.fromstring(junit_xml(found))
    by_case = {case.get("classname"): case for case in root[0] if case.get("classname") != "comparisons"}
    outcomes = {one.case: one.outcome for one in found.thresholds}
    assert {"passed", "failed", "refused"} <= set(outcomes.values())
    for name, outcome in outcomes.items():
        kinds = {child.tag for child in by_case[name]}
        assert kinds == {"passed": set(), "failed": {"failure"}, "refused": {"error"}}[outcome]


@pytest.mark.parametrize("searched", [False, True])
def test_a_refused_trial_whose_server_disappeared_has_one_outcome(reported: Reporter, searched: bool) -> None:
    """A search may break the server: then, as for the exit code, that alone is no failure."""
    found = reported("refused").findings
    first = next(one for one in found.trials if one.verdict.instrument == "REFUSED")
    gone = Outage(group="probe", since_s=1.0, until_s=None, error="connect_refused", failed=9, sentence="")
    capacity = CapacityResult(over="users", state="found", sentence="12 users.") if searched else None
    found = evolve(found, trials=(evolve(first, outages=(gone,)),), capacity=capacity)
    trials = ElementTree.fromstring(junit_xml(found))[1]
    kinds = [child.tag for child in trials[0] if child.tag in ("failure", "error")]
    assert kinds == (["error"] if searched else ["failure"])


def test_characters_that_xml_cannot_hold_are_replaced(reported: Reporter) -> None:
    found = reported("plain").findings
    spoiled = evolve(found, study="a\x00b\ud800c\uffff")
    assert ElementTree.fromstring(junit_xml(spoiled)).get("name") == "a�b�c�"
