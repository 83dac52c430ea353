"""junit.xml: what failed fails, what was refused is an error, and what is odd in names does not break the XML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.evolve import evolve

from svload.report.files.junit import junit_xml

Reporter = Callable[[str], Any]


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "hostile", "one", "unmeasured"])
def test_a_case_for_every_threshold_and_trial(reported: Reporter, name: str) -> None:
    found = reported(name)
    root = ElementTree.fromstring(found.files["junit.xml"].read_text(encoding="utf-8"))
    thresholds, trials = root
    named = [(case.get("classname"), case.get("name")) for case in thresholds]
    assert [pair for pair in named if pair[0] != "comparisons"] == [
        (one.case, one.that) for one in found.findings.thresholds
    ]
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


def test_an_incomplete_run_is_an_error(reported: Reporter) -> None:
    assert "27 of 28 planned trials" in junit_xml(reported("mixed").findings)


def test_characters_that_xml_cannot_hold_are_replaced(reported: Reporter) -> None:
    found = reported("plain").findings
    spoiled = evolve(found, study="a\x00b\ud800c\uffff")
    assert ElementTree.fromstring(junit_xml(spoiled)).get("name") == "a�b�c�"
