"""A comparison is told from its fields: 25 words at most, a fixed mark for its outcome, all else folded behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.evolve import evolve
from tests.report.told_facts import outcomes

from svload.model.results import Findings, Gate
from svload.report.data.gather import gather
from svload.report.page.render import render_page
from svload.report.told.answer import in_words
from svload.report.told.claimed import LONGEST_WORDS, MARKS, claimed, details
from svload.report.told.doubts import doubts

Reporter = Callable[[str], Any]


@pytest.fixture(scope="module")
def findings(reported: Reporter) -> Findings:
    return outcomes(reported("plain").findings)


def test_each_outcome_has_its_sentence_and_mark(findings: Findings) -> None:
    told = claimed(findings)
    assert [one.sentence for one in told] == [
        "https against http: the median response of probe is 2.04 times as long (1.93 to 2.16).",
        "https against http: the median response of probe differs by less than 4 %.",
        "https against http: undecided; the median response of probe was 8 % longer (−3 to +20 %).",
        "https against http: no statement about the median response of probe, 0 of 6 pairs can be used.",
    ]
    assert [one.mark for one in told] == ["●", "■", "○", "✗"]
    assert set(MARKS) == {one.outcome for one in told}
    assert told[2].needs == "4 more blocks (12 min) would decide it"
    assert [one.short for one in told] == [
        "decided",
        "within 4 %",
        "needs 4 more blocks (12 min)",
        "0/6 pairs can be used",
    ]


def test_an_open_one_says_what_would_decide_it_or_what_keeps_it_open(findings: Findings) -> None:
    """Blocks are what is added to a study, also where three of them are one bring-up."""
    (claim,) = (one.claim for one in claimed(findings) if one.outcome == "open")

    def short(**changes: Any) -> str:
        return claimed(evolve(findings, claims=(claim.model_copy(update=changes),)))[0].short

    assert short(unit="bring-up") == "needs 4 more blocks (12 min)"
    assert short(more_blocks=1, more_s=None) == "needs 1 more block"
    why = "it depends on which side ran first"
    assert short(more_blocks=None, why_open=why) == f"undecided: {why}"
    assert short(more_blocks=None, why_open="") == "undecided"


@pytest.mark.parametrize("outcome", ["decided", "no difference", "open", "refused"])
@pytest.mark.parametrize(
    "names",
    [
        ("http", "https"),
        ("cache with 4 workers and TLS", "cache with 16 workers and TLS"),
        ("x y " * 30, "z " * 60),
    ],
)
def test_no_sentence_is_longer_than_25_words(
    findings: Findings, outcome: str, names: tuple[str, str]
) -> None:
    (claim,) = (one.claim for one in claimed(findings) if one.outcome == outcome)
    changed = evolve(claim, baseline=names[0], treatment=names[1])
    (one,) = claimed(evolve(findings, claims=(changed,)))
    assert len(one.sentence.split()) <= LONGEST_WORDS


def behind(findings: Findings, at: int) -> dict[str, str]:
    return {line.name: line.text for line in details(findings, claimed(findings)[at])}


def test_what_is_behind_a_decided_one(findings: Findings) -> None:
    told = behind(findings, 0)
    assert told["rests on"] == "3 of 6 pairs, in 6 bring-ups"
    assert told["bring-ups"].startswith("2: the result holds for these only")
    assert told["lost pairs"] == "2 × treatment broken: the factor did not take effect; 1 × baseline missing"
    assert told["other programs"] == (
        "12 % of the machine, 40 % at most (11 % during http, 13 % during https); 3 pairs weigh as much as 2.2 undisturbed ones"
    )
    assert told["without generator lag"].endswith("; the interval covers both")
    assert told["order effect"].endswith("when corrected for which side ran just before")
    assert told["gate"] == "failed: worse by more than 5 %"
    assert "1.95 to 2.13 for this comparison alone" in told["intervals"]
    assert "p and interval" not in told


def test_other_programs_are_told_by_side_where_they_lean(findings: Findings) -> None:
    def told(**fields: Any) -> str:
        first = findings.claims[0]
        changed = evolve(first, strangers=first.strangers.model_copy(update=fields))
        return behind(evolve(findings, claims=(changed,)), 0)["other programs"]

    assert told(lean_p=0.03).endswith("; more during one side (p 0.03), so all pairs have equal weight")
    assert told(readable=False) == "the server's machine could not be read: all pairs have equal weight"


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("fail", "gate failed: worse by more than 5 %"),
        ("pass", "gate passed: not worse by more than 5 %"),
        ("open", "gate undecided: perhaps worse by more than 5 %"),
    ],
)
def test_a_gate_that_did_not_fail_does_not_read_as_one_that_did(
    findings: Findings, outcome: Any, told: str
) -> None:
    gate = Gate(text="worse by more than 5 %", outcome=outcome)
    claim = evolve(findings.claims[0], gate=gate)
    assert claimed(evolve(findings, claims=(claim,)))[0].gate == told


@pytest.mark.parametrize(
    ("text", "why", "told"),
    [
        ("worse by more than 10 %", "success falls from 100 % to 66.8 %", "GATE FAILED: success falls from 100 % to 66.8 %"),
        ("worse by more than 7.5%", "response.p50 rises by 16 to 22 %", "GATE FAILED: response.p50 rises by 16 to 22 %, limit 7.5%"),
        ("worse by more than 10 %", "", "GATE FAILED: worse by more than 10 %"),
        ("", "", "GATE FAILED"),
    ],
)  # fmt: skip
def test_a_failed_gate_says_why_and_its_limit(findings: Findings, text: str, why: str, told: str) -> None:
    gate = Gate(text=text, outcome="fail", why=why)
    for outcome in ("decided", "refused"):
        claim = evolve(findings.claims[0], gate=gate, outcome=outcome)
        (one,) = claimed(evolve(findings, claims=(claim,)))
        assert (one.failure, one.sign) == (told, "✗")
    passed = evolve(claim, gate=Gate(text=text, outcome="pass", why=why), outcome="decided")
    (one,) = claimed(evolve(findings, claims=(passed,)))
    assert (one.failure, one.sign) == ("", "●")


def test_the_page_draws_a_failed_gate_red_and_first_whatever_else_is_decided(
    reported: Reporter, findings: Findings
) -> None:
    def article(outcome: Any) -> str:
        gate = Gate(text="worse by more than 5 %", outcome=outcome, why="response.p50 rises by 93 to 116 %")
        claims = (*findings.claims[1:], evolve(findings.claims[0], gate=gate))
        page, _ = render_page(gather(reported("plain").run, evolve(findings, claims=claims)))
        return page[page.index('<article class="says') :].split("</article>")[0]

    red = article("fail")
    assert 'class="says gate-failed"' in red
    assert "GATE FAILED: response.p50 rises by 93 to 116 %, limit 5 %." in red
    assert "reach decided failed" in red and "point decided failed" in red
    assert "tag decided" not in red
    green = article("pass")
    assert 'class="says decided"' in green
    assert "failed" not in green.replace("gate passed", "")


def test_the_page_folds_it_all_under_the_sentence(reported: Reporter, findings: Findings) -> None:
    page, _ = render_page(gather(reported("plain").run, findings))
    answer = page[page.index('id="answer"') : page.index('id="matrix"')]
    assert (
        answer.index("2.04 times as long") < answer.index("Every pair used") < answer.index("Unusable pairs")
    )
    for outcome in ("gate-failed", "no-difference", "open", "refused"):
        assert f'class="says {outcome}"' in answer
    for css in ("point decided", "point within", "point open"):
        assert css in answer
    assert answer.count('class="plot"') == 3, "a comparison without a ratio has nothing to draw"


def test_findings_json_has_the_words_of_the_page(findings: Findings) -> None:
    told = in_words(findings)
    assert [one.sentence for one in told.claims] == [one.sentence for one in claimed(findings)]
    for case in told.cases:
        mine = [one for one in findings.trials if one.case == case.case]
        assert list(case.reasons) == [one.text for one in doubts(findings, mine)]
