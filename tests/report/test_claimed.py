"""Comparisons, doubts and the answer in words, made from fields, in 25 words at most; failures come first."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from tests.evolve import evolve
from tests.report.conftest import Reporter, Shown
from tests.report.wording_facts import MEDIAN, TAIL, doubted, outcomes

from svload.analysis.checks import all_checks
from svload.model.results import (
    Claim,
    Estimate,
    FailureKind,
    Failures,
    Findings,
    Gate,
    Grade,
    ThresholdResult,
    TrialResult,
)
from svload.report.data.gather import gather
from svload.report.files.markdown import plain, summary_markdown
from svload.report.page.view import render_page
from svload.report.sheets.workbook import write_workbook
from svload.report.terminal.tables import show_findings
from svload.report.wording.answer import (
    answer,
    faster_sentence,
    headline,
    in_words,
    leading_failures,
    nothing_line,
)
from svload.report.wording.claimed import LONGEST_WORDS, MARKS, Claimed, claimed, details
from svload.report.wording.doubts import doubts, summary
from svload.report.wording.ending import quieter_line
from svload.report.wording.spelling import cause, change_interval, change_words


@pytest.fixture(scope="module")
def findings(reported: Reporter) -> Findings:
    return outcomes(reported("plain").findings)


def test_each_outcome_has_its_sentence_and_mark(findings: Findings) -> None:
    found = claimed(findings)
    assert [(one.mark, one.short, one.sentence.removeprefix("https against http: ")) for one in found] == [
        ("●", "decided", "the median response of probe is 2.04 times as long (1.93 to 2.16)."),
        ("■", "within 4 %", "the median response of probe differs by less than 4 %."),
        (
            "○",
            "needs 4 more blocks (12 min)",
            "undecided; the median response of probe was 8 % longer (−3 to +20 %).",
        ),
        (
            "✗",
            "0/6 pairs can be used",
            "no statement about the median response of probe, 0 of 6 pairs can be used.",
        ),
    ]
    assert set(MARKS) == {one.outcome for one in found}
    assert found[2].needs == "4 more blocks (12 min) would decide it"


def changed(findings: Findings, of: str, **changes: Any) -> Claimed:
    """Return the claim of this outcome with these changes, alone, as it is worded."""
    (claim,) = (one for one in findings.claims if one.outcome == of)
    (found,) = claimed(evolve(findings, claims=(evolve(claim, **changes),)))
    return found


@pytest.mark.parametrize(
    ("changes", "short"),
    [
        ({"unit": "bring-up"}, "needs 4 more blocks (12 min)"),  # even if three of them are one bring-up
        ({"more_blocks": 1, "more_s": None}, "needs 1 more block"),
        ({"more_s": 432_000.0}, "needs 4 more blocks (120 h)"),
        ({"more_blocks": None, "why_open": "it depends on the side"}, "undecided: it depends on the side"),
        ({"more_blocks": None, "why_open": ""}, "undecided"),
    ],
)
def test_an_open_one_says_what_would_decide_it(
    findings: Findings, changes: dict[str, Any], short: str
) -> None:
    assert changed(findings, "open", **changes).short == short


@pytest.mark.parametrize("outcome", ["decided", "no difference", "open", "refused"])
@pytest.mark.parametrize(
    "names",
    [
        ("http", "https"),
        ("cache with 4 workers and TLS", "cache with 16 workers and TLS"),
        ("x y " * 30, "z " * 60),
    ],
)
def test_sentences_have_25_words_at_most(findings: Findings, outcome: str, names: tuple[str, str]) -> None:
    one = changed(findings, outcome, baseline=names[0], treatment=names[1])
    assert len(one.sentence.split()) <= LONGEST_WORDS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"success": (1.0, 0.997), "success_interval": (-0.004, 0.0)}, "; a difference of −0.4 to +0 points"),
        ({"strangers__lean_p": 0.03}, "; more during one side (p 0.03), so all pairs have equal weight"),
        (
            {"strangers__readable": False},
            "the server's machine could not be read: all pairs have equal weight",
        ),
    ],
)
def test_what_is_behind_a_decided_one(findings: Findings, changes: dict[str, Any], words: str) -> None:
    """Everything else is in the snapshots of test_terminal.py::test_why_in_words."""
    behind = details(findings, changed(findings, "decided", **changes))
    assert [text for text in behind.values() if text.endswith(words)] != []
    assert "p and interval" not in behind


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("fail", "gate failed: worse by more than 5 %"),
        ("pass", "gate passed: not worse by more than 5 %"),
        ("open", "gate undecided: perhaps worse by more than 5 %"),
    ],
)
def test_only_a_failed_gate_reads_as_failed(findings: Findings, outcome: Any, words: str) -> None:
    gate = Gate(text="worse by more than 5 %", outcome=outcome)
    assert changed(findings, "decided", gate=gate).gate == words


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
    for outcome in ("decided", "refused"):
        one = changed(findings, "decided", gate=Gate(text=text, outcome="fail", why=why), outcome=outcome)
        assert (one.failure, one.sign) == (told, "✗")
    passed = changed(findings, "decided", gate=Gate(text=text, outcome="pass", why=why))
    assert (passed.failure, passed.sign) == ("", "●")


def test_the_page_folds_it_all_under_the_sentence(reported: Reporter, findings: Findings) -> None:
    page, _ = render_page(gather(reported("plain").run, findings))
    answer = page[page.index('id="answer"') : page.index('id="matrix"')]
    assert re.search("2.04 times as long.*Every pair used.*Unusable pairs", answer, re.DOTALL)
    for outcome in ("gate-failed", "no-difference", "open", "refused"):
        assert f'class="says {outcome}"' in answer
    for css in ("point decided", "point within", "point open", 'class="margin"'):
        assert css in answer
    assert answer.count('class="plot"') == 3, "a comparison without a ratio has nothing to draw"


def test_findings_json_has_the_words_of_the_page(findings: Findings) -> None:
    told = in_words(findings)
    assert [one.sentence for one in told.claims] == [one.sentence for one in claimed(findings)]
    for case in told.cases:
        mine = [one for one in findings.trials if one.case == case.case]
        assert list(case.reasons) == [one.text for one in doubts(findings, mine)]


@pytest.mark.parametrize(
    ("value", "low", "high", "told"),
    [
        (0.307, 0.296, 0.317, "69.3 % shorter (95 % interval 68.3 to 70.4 %)"),
        (1.18, 1.16, 1.21, "18 % longer (95 % interval 16 to 21 %)"),
        (3.2, 3.1, 3.4, "3.2 times as long (95 % interval 3.1 to 3.4)"),
        (1.01, 0.98, 1.04, "1 % longer (95 % interval −2 to +4 %)"),
        (1.9, 1.7, 2.1, "90 % longer (95 % interval 70 to 110 %)"),
        (2.08, 1.96, 2.21, "2.08 times as long (95 % interval 1.96 to 2.21)"),
        (1.455, 1.0, 2.37, "45.5 % longer (95 % interval up to 137 %)"),
        (0.55, 0.3, 1.0, "45 % shorter (95 % interval up to 70 %)"),
        (3.2, 1.0, 4.2, "3.2 times as long (95 % interval up to 4.2)"),
        (1.9, 1.0, 621.0, "90 % longer (95 % interval up to 621 times)"),
        (1.0, 1.0, 1.0, "0 % longer (95 % interval 0 to 0 %)"),
        (0.5, None, None, "50 % shorter (no interval)"),
        (1.9, 0.9, 9.5, "90 % longer (95 % interval −10 to +850 %)"),
        (3e-4, 2e-4, 4e-4, "99.97 % shorter (95 % interval 99.96 to 99.98 %)"),
        (0.5, 3e-4, 1.2, "50 % shorter (95 % interval −99.97 to +20 %)"),
        (1.9, 0.005, 621.0, "90 % longer (95 % interval 0.005 to 621 times)"),
        (250.0, 1.2, 62_000.0, "250 times as long (95 % interval 1.2 to 62,000)"),
    ],
)
def test_ratios_in_words(value: float, low: float | None, high: float | None, told: str) -> None:
    interval = change_interval(Estimate(value=value, low=low, high=high), "time_s")
    words = f"95 % interval {interval}" if interval else "no interval"
    assert f"{change_words(value, 'time_s')} ({words})" == told


GRADES: dict[str, Any] = {name: {TAIL: "REFUSED"} for name in ("TC0.r1", "TC1.r2", "TC1.r3")}
GRADES["TC1.r2"] = {TAIL: "REFUSED", MEDIAN: "WEAK"}


@pytest.mark.parametrize(("off", "told"), [(1.0, "100 %"), (1.4, "140 %"), (620.0, "a factor of 620")])
def test_a_doubt_beyond_what_percent_can_say_is_a_factor(reported: Reporter, off: float, told: str) -> None:
    first, *_ = doubts(doubted(reported("plain").findings, GRADES, bound=off))
    assert f"probe p99, off by up to {told}; by" in first.text


def test_all_doubts_are_one_line_refused_first(reported: Reporter) -> None:
    told = summary(doubted(reported("plain").findings, GRADES))
    why = "the machine stalled, mainly stress-ng"
    assert told == f"Not usable: p99 in 3 of 18 trials ({why}). Rough: p50 in 1 of 18 trials ({why})"
    assert summary(doubted(reported("plain").findings, {})) == ""
    numbers = [len(one.trials) for one in doubts(reported("mixed").findings) if one.grade == "REFUSED"]
    assert numbers == sorted(numbers, reverse=True) != [], "the most frequent reason first"


def disturbed(findings: Findings, *checks: str, outcome: str = "open") -> Findings:
    """Return findings in which these checks disturb only the first trial, with a claim of that outcome."""

    def graded(trial: TrialResult, *weak: str) -> TrialResult:
        found = tuple(
            evolve(one, grade="WEAK" if one.check in weak else "VALID") for one in trial.verdict.checks
        )
        return evolve(trial, verdict__checks=found, verdict__instrument="WEAK" if weak else "VALID")

    trials = (graded(findings.trials[0], *checks), *map(graded, findings.trials[1:]))
    claim = evolve(findings.claims[0], outcome=outcome)
    return evolve(findings, trials=trials, claims=(claim,), thresholds=())


def test_what_is_open_beside_a_busy_machine_is_reported(reported: Reporter) -> None:
    findings = reported("plain").findings
    line = quieter_line(disturbed(findings, "others-cpu", "hiccups"))
    words = f"other work on this machine disturbed 1 of {len(findings.trials)} trials. --wait-quiet 10m"
    assert line.startswith(f"1 comparison is undecided, and {words}")
    assert "REFUSED" not in line
    decided = disturbed(findings, "others-cpu", outcome="decided")
    assert quieter_line(decided) == ""
    one = ThresholdResult(case="TC0", that="p95 < 1 s", outcome="open", measured=1.0, sentence="")
    assert quieter_line(evolve(decided, thresholds=(one, evolve(one, case="TC1")))).startswith(
        "1 threshold is"
    )
    assert quieter_line(disturbed(findings)) == ""
    assert quieter_line(disturbed(findings, "manipulation")) == "", "no machine's doing"


Said = tuple[str, float | None, float | None, float | None]
"""(outcome, ratio, low, high) of a claim."""
SLOWER, FASTER = ("decided", 1.12, 1.09, 1.15), ("decided", 0.8, 0.75, 0.85)
SAME, OPEN = ("no difference", 1.01, 0.98, 1.04), ("open", 1.03, 0.98, 1.08)
LATE = ("decided", None, None, None)


def said(findings: Findings, p50: Said, p95: Said, **fields: Any) -> str:
    def claim(metric: str, of: Said) -> Claim:
        ratio = Estimate(value=of[1], low=of[2], high=of[3], n=6)
        base = {"baseline": "/v1", "treatment": "/v2", "metric": f"probe.response.{metric}", "within": 0.04}
        return findings.claims[1].model_copy(update=base | {"outcome": of[0], "ratio": ratio} | fields)

    return faster_sentence(evolve(findings, claims=(claim("p50", p50), claim("p95", p95))))


@pytest.mark.parametrize(
    ("p50", "p95", "sentence"),
    [
        (SLOWER, FASTER, "/v2 is faster than /v1 in one respect and slower in another: the median response is 12 % longer (9 to 15 %) and p95 is 20 % shorter (15 to 25 %)"),
        (SLOWER, OPEN, "/v2 is slower than /v1: the median response is 12 % longer (9 to 15 %) and p95 was 3 % longer (−2 to +8 %), which decides nothing"),
        (FASTER, SAME, "/v2 is faster than /v1: the median response is 20 % shorter (15 to 25 %) and p95 differs by less than 4 %"),
        (SAME, SAME, "/v2 and /v1 are equally fast: the median response differs by less than 4 % and p95 differs by less than 4 %"),
        (SAME, OPEN, "Whether /v2 or /v1 is faster is not decided: the median response differs by less than 4 % and p95 was 3 % longer (−2 to +8 %), which decides nothing"),
        (OPEN, OPEN, "Whether /v2 or /v1 is faster is not decided: the median response was 3 % longer (−2 to +8 %) and p95 was 3 % longer (−2 to +8 %)"),
    ],
)  # fmt: skip
def test_the_claims_are_one_sentence(findings: Findings, p50: Said, p95: Said, sentence: str) -> None:
    assert said(findings, p50, p95) == f"{sentence}, as these servers ran today."


@pytest.mark.parametrize(("timed_out", "way", "late"), [((0, 6), "slower", "/v2"), ((6, 0), "faster", "/v1")])
def test_a_side_that_alone_is_beyond_the_time_out_is_the_slower_one(
    findings: Findings, timed_out: tuple[int, int], way: str, late: str
) -> None:
    beyond = f"lies beyond the timeout with {late} alone"
    same = "the median response differs by less than 4 %"
    head = f"/v2 is {way} than /v1: {same} and p95 {beyond}, as these servers ran today."
    assert said(findings, SAME, LATE, timed_out=timed_out).startswith(head)
    ratio = Estimate(value=None, n=6, why="no ratio")
    sides = {"baseline": "/v1", "treatment": "/v2"}
    one = changed(findings, "decided", ratio=ratio, timed_out=timed_out, gate=None, **sides)
    assert one.sentence == f"/v2 against /v1: the median response of probe {beyond}."
    alone = evolve(findings, claims=(one.claim,))
    assert headline(alone) == f"{one.claim.name}: {one.sentence}"


def test_failures_stand_beside_it_and_nothing_measured_is_no_answer(findings: Findings) -> None:
    words = "ran today. Of the requests 3.2 % of /v2's and 0 % of /v1's failed."
    assert said(findings, SLOWER, SLOWER, success=(1.0, 0.968)).endswith(words)
    nothing = evolve(findings, claims=(), cases=(), trials=(), thresholds=())
    assert faster_sentence(nothing) == nothing_line(answer(nothing).nothing) != ""


def test_the_numbers_that_the_study_asks_for_keep_their_names(reported: Reporter) -> None:
    found = doubted(reported("plain").findings, {"TC0.r1": {TAIL: "WEAK"}})
    cases = tuple(evolve(case, asked=("Shop.cpu.mean",)) for case in found.cases)
    text = answer(evolve(found, cases=cases)).caveats[0].text
    assert text == "The numbers that the study asks for (Shop cpu) are reliable; other numbers are rough (~)."


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
    counted = {"ended": 900, "failed": 9, "trials": (f"{case}.r1",), "kinds": (WRONG,)}
    row = Failures(case=case, group="shop", step="order", beside=beside, **counted)
    return evolve(findings, failures=(row,))


@pytest.mark.parametrize("of", ["plain", "refused", "mixed"])
def test_they_lead_every_report(reported: Reporter, of: str, tmp_path: Path, shown: Shown) -> None:
    found = reported(of)
    findings = failing(found.findings)
    first = answer(findings).first[0]
    assert (first.text, first.mark, first.evidence) == (SENTENCE, "✗", ("cases/TC1",))
    assert headline(findings) == SENTENCE
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
    clean = reported("plain").findings
    findings = failing(clean, beside)
    assert (headline(findings), answer(findings).first) == (headline(clean), answer(clean).first)
    (line,) = [one for one in answer(findings).caveats if "order: 9 × 201, expected 200" in one.text]
    assert (line.mark, line.certainty) == ("~", "counted")


def test_failures_are_reported_by_kind_most_frequent_first(reported: Reporter) -> None:
    late = FailureKind(kind="error", name="timeout_first_byte", count=12, expected="")
    check = FailureKind(kind="check", name="body contains ok", count=5, expected="")
    findings = failing(reported("plain").findings)
    row = evolve(findings.failures[0], failed=17, kinds=(check, late))
    several = tuple(evolve(row, case=name) for name in ("TC1", "TC2"))
    (line,) = leading_failures(evolve(findings, failures=several))
    kinds = "24 × timeout first byte; 10 × failed check “body contains ok”"
    assert line.text == f"order: {kinds}; 34 of 1,800 requests failed in TC1 and TC2."
    assert line.evidence == ("cases/TC1", "cases/TC2")
    (line,) = leading_failures(evolve(findings, failures=(evolve(row, failed=900),)))
    assert "; all 900 requests failed in TC1." in line.text


def test_a_failed_gate_leads_before_any_other_claim(reported: Reporter) -> None:
    findings = outcomes(reported("plain").findings)
    late = evolve(findings, claims=findings.claims[::-1])
    assert answer(late).claims[0].failed
    failed = "GATE FAILED: worse by more than 5 % (HTTPS against HTTP)."
    assert headline(late).startswith(f"{failed} https against http: the median response")
    (first,) = [one for one in answer(late).first if one.text.startswith("GATE FAILED")]
    assert (first.mark, first.evidence) == ("✗", ("HTTPS against HTTP",))
    clean = evolve(late, claims=tuple(evolve(one, gate=None) for one in late.claims))
    words = " ".join([headline(clean), *(one.text for one in answer(clean).first)])
    assert "gate" not in words.lower()
