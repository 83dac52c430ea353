"""Output of commands: it fits the width, is plain without a terminal, and ends with the report's path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import openpyxl
import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion
from tests.evolve import evolve
from tests.report.conftest import Reporter, Shown
from tests.report.wording_facts import MEDIAN, TAIL, doubted, outcomes
from tests.results import trial_result

from svload import api
from svload.host.process import cgroups
from svload.model.certificates import InstrumentCertificate, InstrumentLevel, Place
from svload.model.results import (
    Belief,
    CheckResult,
    Estimate,
    Finding,
    Findings,
    Gate,
    OwnVerdicts,
    ThresholdResult,
)
from svload.report.data.gather import gather
from svload.report.files.junit import junit_xml
from svload.report.files.markdown import summary_markdown
from svload.report.page.view import render_page
from svload.report.sheets.workbook import write_workbook
from svload.report.terminal.casetable import case_table
from svload.report.terminal.console import MOST_LINES
from svload.report.terminal.tables import show_comparison, show_findings, show_plan, show_probe, show_rows
from svload.report.terminal.why import show_why
from svload.report.wording.claimed import claimed
from svload.report.wording.spelling import instrument_line, instrument_words

REPORTS = ["plain", "mixed", "hostile", "refused", "one", "overloaded", "unmeasured"]


def report_of(shown: Shown, found: Any, width: int = 100) -> list[str]:
    files = {"findings.json": found.run.findings_path, **found.files}
    code = api.verdict_exit(found.findings)
    return shown(show_findings, found.findings, files, code=code, width=width).splitlines()


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [120, 100, 80, 50])
def test_it_fits_and_is_plain(shown: Shown, reported: Reporter, name: str, width: int) -> None:
    found = reported(name)
    lines = report_of(shown, found, width)
    paths = [str(path) for path in (*found.files.values(), found.run.findings_path)]
    for line in lines:
        if not any(path.endswith(line.split()[-1]) for path in paths if line.split()):
            assert cell_len(line) <= width, line
        assert not {"\x1b", "\u202e"} & set(line)
    run = [case for case in found.findings.cases if case.excluded is None]
    first = next(at for at, line in enumerate(lines) if line.startswith("case "))
    table = 1 + len(run) * (1 if name != "hostile" else 12)
    assert width == 50 or len(lines) - min(table, len(lines) - first) <= MOST_LINES


def test_the_answer_stands_first_then_the_doubts_and_the_paths_last(shown: Shown, reported: Reporter) -> None:
    lines = report_of(shown, reported("mixed"))
    begins = ("✗ probe.success_rate", "Comparisons of probe p50", ("~ Rough", "~ Not usable"), "case ")
    at = [next(n for n, line in enumerate(lines) if line.startswith(one)) for one in begins]
    assert at == sorted(at)
    assert lines[-2].endswith("report.html") and lines[-1].startswith("exit 1: 1 threshold failed")
    assert any(line.endswith("svload why") for line in lines[at[2] : at[2] + 3])
    for claim in reported("mixed").findings.claims:
        assert len([line for line in lines if claim.name in line]) == 1


@pytest.mark.parametrize("width", [120, 100, 80])
@pytest.mark.parametrize(
    "make", [outcomes, lambda findings: doubted(findings, {"TC0.r1": {MEDIAN: "REFUSED", TAIL: "REFUSED"}})]
)
def test_nothing_is_cut(reported: Reporter, shown: Shown, width: int, make: Callable[..., Any]) -> None:
    found = reported("plain")
    findings = make(found.findings)
    text = shown(show_findings, findings, found.files, width=width)
    assert "…" not in text
    assert all(word in text for claim in findings.claims for word in claim.name.split())
    assert all(f"\n{case.case} " in text for case in findings.cases)
    folded = " ".join(text.split())
    assert all(level in folded for case in findings.cases for level in case.levels.values())


def cells(findings: Findings, width: int = 200) -> dict[str, list[str]]:
    return {one.heading: [cell.text for cell in one.cells] for one in case_table(findings, width).columns}


def test_a_cell_bears_its_own_mark(reported: Reporter) -> None:
    grades: dict[str, Any] = {f"TC2.r{n}": {TAIL: "REFUSED"} for n in (1, 2, 3)}
    grades["TC1.r1"] = {MEDIAN: "WEAK"}
    findings = doubted(reported("plain").findings, grades)
    shown = cells(findings)
    assert [text[-1] for text in shown["probe p50"][:2]] == ["]", "~"]
    assert shown["p99"][2].endswith("✗") and not shown["p99"][0].endswith("✗")


def asked_by_threshold(findings: Findings, *criteria: str) -> Findings:
    one = ThresholdResult(case="", that="", outcome="passed", measured=0.1, sentence="")
    pairs = product((case.case for case in findings.cases), criteria)
    return evolve(findings, thresholds=tuple(evolve(one, case=case, that=that) for case, that in pairs))


@pytest.mark.parametrize("width", [200, 80, 60])
def test_what_is_compared_or_has_a_threshold_always_has_a_column(reported: Reporter, width: int) -> None:
    findings = reported("plain").findings
    asked = asked_by_threshold(findings, "probe.response.p95 < 1 s", "probe.response.mean < 1 s")
    found = list(cells(asked, width))
    assert {"p95", "mean"} <= set(found)
    assert found.index("probe p50") < found.index("p95")
    assert "p99" not in found or found.index("p95") < found.index("p99")
    compared = tuple(evolve(claim, metric="cache.cpu.mean") for claim in findings.claims)
    assert "cache cpu" in cells(evolve(findings, claims=compared), width)
    assert not {"p95", "mean", "cache cpu"} & set(cells(findings, width))


def test_omitted_columns_are_reported(reported: Reporter) -> None:
    many = [f"probe.response.p{stat} < 1 s" for stat in (50, 75, 90, 95, 99)]
    findings = asked_by_threshold(reported("plain").findings, *many, "cache.cpu < 90 %", "backend.cpu < 90 %")
    notes = {width: " ".join(case_table(findings, width).notes) for width in (50, 250)}
    assert re.search("no room for .*(backend cpu|p99|p75)", notes[50])
    assert "no room for " not in notes[250]


def test_a_scenario_has_a_row_a_step(reported: Reporter) -> None:
    findings = reported("plain").findings
    cases = []
    for case in findings.cases:
        probe = {key: one for key, one in case.metrics.items() if key.startswith("probe.") and one.value}
        steps = {
            key.replace("probe", f"probe.{step}", 1): evolve(
                one, value=factor * one.value, low=None, high=None, why=why
            )
            for step, factor, why in (("login", 0.5, ""), ("order", 2.0, "grows"))
            for key, one in probe.items()
        }
        cases.append(evolve(case, metrics={**case.metrics, **steps}))
    table = case_table(evolve(findings, cases=tuple(cases)), 100)
    names = [cell.text for cell in table.columns[0].cells]
    assert names[:3] == [findings.cases[0].case, "  └ login", "  └ order"]
    medians = next(one for one in table.columns if one.heading == "probe p50").cells
    assert medians[1].text and medians[1].text != medians[2].text
    assert medians[2].text.endswith("°") and any(
        "or grows with the run's length" in one for one in table.notes
    )


def test_narrow_terminals_lose_the_least_needed_columns(reported: Reporter) -> None:
    wide, shown, narrow = (cells(reported("mixed").findings, width) for width in (200, 80, 50))
    assert {"case", "levels", "verdict", "server", "probe p50", "p99", "rate", "ok", "n"} <= set(wide)
    assert {"case", "verdict", "probe p50"} <= set(narrow) < set(wide)
    assert len(set(shown["levels"])) == len(shown["levels"]), "cases look different"
    assert not [text for text in shown["levels"] if "…" in text]
    assert shown["n"] == ["4/4", "0/4", "4/4", "0/4", "4/4", "3/3", "4/4"]


def test_where_nothing_was_ok_its_times_say_so(reported: Reporter) -> None:
    findings = reported("plain").findings
    first, *others = findings.cases
    refused = Estimate(value=None, why="refused", belief=Belief(grade="REFUSED", as_measured=30.0))
    nothing = {**first.metrics, MEDIAN: refused, TAIL: Estimate(value=None, why="time-out")}

    def with_first(**more: float) -> dict[str, list[str]]:
        case = evolve(first, metrics=nothing | {"probe.success_rate": Estimate(n=900, **more)})
        return cells(evolve(findings, cases=(case, *others)))

    dead, alive = with_first(value=0.0), with_first(value=0.01)
    assert (dead["probe p50"][0], dead["p99"][0], dead["ok"][0]) == ("none ok", "none ok", "0 %")
    assert "none ok" not in (*dead["probe p50"][1:], *dead["rate"])
    assert (alive["probe p50"][0], alive["p99"][0]) == ("30 s ✗", "failed")


def test_why_in_words(reported: Reporter, shown: Shown, snapshot: SnapshotAssertion) -> None:
    """A trial: its numbers by grade, and the check that doubts them with its cause. A comparison: its
    pairs, what was lost, and what would decide an undecided one. A run: all doubts, or that there are
    none."""
    plain = reported("plain").findings
    trials = doubted(plain, {"TC0.r1": {TAIL: "REFUSED", MEDIAN: "WEAK"}})
    claims = outcomes(plain)
    assert shown(show_why, trials.trials[0], trials) == snapshot(name="trial")
    assert shown(show_why, claims.claims[0], claims) == snapshot(name="decided")
    assert shown(show_why, claims.claims[2], claims) == snapshot(name="open")
    run = doubted(plain, {"TC0.r1": {TAIL: "REFUSED"}})
    assert shown(show_why, run, None) == snapshot(name="run")
    assert shown(show_why, doubted(plain, {}), None) == snapshot(name="clean run")
    unsealed = evolve(plain, trials=(), sealed_trials=0)
    assert shown(show_why, unsealed, None).startswith("no trial of this run is sealed yet\n")


@pytest.mark.parametrize("width", [80, 100, 120])
def test_why_fits(reported: Reporter, shown: Shown, width: int) -> None:
    findings = outcomes(doubted(reported("plain").findings, {"TC0.r1": {TAIL: "REFUSED", MEDIAN: "WEAK"}}))
    for what in (findings, findings.trials[0], *findings.claims):
        text = shown(show_why, what, findings, width=width)
        assert max(map(cell_len, text.splitlines())) <= width and "…" not in text


def gated(findings: Findings, failing: Sequence[int], of: int = 9) -> Findings:
    """Return claims of which some failed their gate; their names tell which."""
    one = outcomes(findings).claims[1]
    claims = []
    for number in range(of):
        gate = Gate(text="worse by more than 5 %", outcome="fail" if number in failing else "pass")
        name = f"{'bad' if number in failing else 'good'} {number}"
        claims.append(evolve(one, name=name, gate=gate))
    return evolve(findings, claims=tuple(claims))


@pytest.mark.parametrize("width", [120, 80])
@pytest.mark.parametrize(("failing", "of"), [((8,), 9), (tuple(range(3, 30)), 30), ((), 9)])
def test_a_failed_gate_stands_first_and_is_never_left_out(
    reported: Reporter, shown: Shown, width: int, failing: tuple[int, ...], of: int
) -> None:
    findings = gated(reported("plain").findings, failing, of)
    text = shown(show_findings, findings, {}, width=width)
    named = re.findall(r"(?:bad|good) \d+", text[text.index("Comparisons") :])
    assert [name for name in named if name.startswith("bad")] == [f"bad {number}" for number in failing]
    assert named[: len(failing)] == [f"bad {number}" for number in failing]
    assert f"{of - len(named)} more comparison" in text
    summary = summary_markdown(findings)
    assert all(f"bad {number} |" in summary for number in failing)


@pytest.mark.parametrize("width", [120, 80])
@pytest.mark.parametrize("long", ["first", "doubts", "claims", "all"])
def test_ten_long_findings_fit_24_lines(reported: Reporter, shown: Shown, width: int, long: str) -> None:
    found = reported("plain")
    findings = found.findings
    words = " ".join(["a sentence that goes on and on"] * 8)
    if long in ("first", "all"):
        one = Finding(kind="death", sentence="", evidence=(), certainty="certain")
        result = [evolve(one, sentence=f"{n}: {words}.") for n in range(10)]
        findings = evolve(findings, findings=(*result, *findings.findings))
    if long in ("doubts", "all"):
        asked = (f"probe.response.p50 < {n}.{'1' * 200} s" for n in range(10))
        one = ThresholdResult(case="TC0", that="", outcome="no value", measured=None, sentence="")
        findings = evolve(findings, thresholds=tuple(evolve(one, that=that) for that in asked))
    if long in ("claims", "all"):
        findings = gated(findings, (8,), 20)
        claims = tuple(evolve(one, name=f"{one.name} {words[:90]}") for one in findings.claims)
        findings = evolve(findings, claims=claims)
    lines = report_of(shown, replace(found, findings=findings), width)
    cases = sum(case.excluded is None for case in findings.cases)
    assert len(lines) - (1 + cases) <= MOST_LINES
    text = "\n".join(lines)
    more = {"first": "more sentences in the report", "doubts": "more doubts in the report; svload why", "claims": "more comparisons in the report"}  # fmt: skip
    assert all(words in text for name, words in more.items() if long in (name, "all"))
    if long in ("claims", "all"):
        assert "bad 8" in text
    if long in ("first", "all"):
        assert ("0: a sentence" if long == "first" else "GATE FAILED: worse by more than 5 % (bad 8") in text


def judged_anew(findings: Findings) -> Findings:
    """Return findings that other rules made: they trusted its first trial less, its second more."""
    first, second, *others = findings.trials
    now = evolve(second, verdict__instrument="REFUSED")
    own = {one.trial: one.verdict.instrument for one in others} | {first.trial: "WEAK", second.trial: "VALID"}
    changed = {"own_verdicts": OwnVerdicts(version=2, trials=own), "trials": (first, now, *others)}
    return findings.model_copy(update=changed)


def test_a_trials_own_grade_is_shown(reported: Reporter, shown: Shown, tmp_path: Path) -> None:
    found = reported("plain")
    findings = judged_anew(found.findings)
    first, second, third = findings.trials[:3]
    now = first.verdict.instrument
    result = {first.trial: f"WEAK, then {now}", second.trial: "VALID, then REFUSED", third.trial: ""}
    gathered = gather(found.run, findings)
    page = render_page(gathered)[0]
    write_workbook(gathered, tmp_path / "report.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "report.xlsx")["Trials"]
    cells = {row[1]: row[4] for row in sheet.iter_rows(min_row=3, values_only=True)}
    graded = {
        case.get("name"): [one.get("value") for one in case.iterfind(".//property[@name='instrument']")]
        for case in ElementTree.fromstring(junit_xml(findings))[1]
    }
    for trial in (first, second, third):
        words = result[trial.trial]
        (row,) = re.findall(rf'<tr id="[^"]*"><th scope="row">{trial.trial}</th>.*?</tr>', page, re.S)
        assert re.findall(r"<small>([A-Z]+, then [A-Z]+)</small>", row) == ([words] if words else [])
        assert cells[trial.trial] == (words or trial.verdict.instrument)
        assert graded[trial.trial] == ([words] if words else [])
        why = shown(show_why, trial, findings, width=2000)
        assert f": {words or trial.verdict.instrument}, server" in why


def test_claims_of_a_run_that_is_judged_again_are_exploratory(reported: Reporter, shown: Shown) -> None:
    found = reported("plain")
    anew = judged_anew(found.findings)
    again = render_page(gather(found.run, anew))[0]
    for findings, page, exploratory in ((anew, again, True), (found.findings, found.page, False)):
        assert {one.certainty == "exploratory" for one in claimed(findings)} == {exploratory}
        assert ('<span class="tag">exploratory</span>' in page) is exploratory
        assert ("(exploratory) |" in summary_markdown(findings)) is exploratory
        why = shown(show_why, findings.claims[0], findings, width=2000)
        assert ("judged again by newer rules" in why) is exploratory
        printed = shown(show_findings, findings, {})
        assert ("exploratory, since newer rules judged them" in printed) is exploratory


@pytest.mark.parametrize("errors", [["connect_reset"], ["", "tls_expired", "short_head", "tls_expired"]])
def test_a_probe_says_once_why_transfers_failed(errors: list[str], shown: Shown) -> None:
    reply = shown(show_probe, [{"time_total": 0.1, "http_code": 200, "error": error} for error in errors])
    for name in filter(None, set(errors)):
        assert reply.count(f"{name}: ") == 1, reply
    assert ": " not in shown(show_probe, [{"time_total": 0.1, "http_code": 200, "error": ""}])


WIDE = [f"column_{number}" for number in range(30)]
TEXT = "a sentence that is as long as a remedy, and then some more of it"


@pytest.mark.parametrize("width", [80, 47])
@pytest.mark.parametrize("cells", [[0.123456789] * 30, [TEXT] * 30, ["名前" * 9, None] * 15])
def test_rows_name_the_columns_left_out(cells: list[Any], width: int, shown: Shown) -> None:
    reply = shown(show_rows, WIDE, [cells, cells], width=width)
    assert all(cell_len(line) <= width for line in reply.splitlines())
    named = reply.splitlines()[0].split()
    assert named == WIDE[: len(named)], "no heading is folded"
    found = f"{30 - len(named)} of 30 columns do not fit: {', '.join(WIDE[len(named) :])}. Select"
    assert found in " ".join(reply.split())


@pytest.mark.parametrize("names", [["case"], ["case", "sentence"], WIDE[:6]])
def test_rows_that_fit_are_shown_whole(names: list[str], shown: Shown) -> None:
    reply = shown(show_rows, names, [["TC1", TEXT, *"wxyz"][: len(names)]], width=80)
    assert reply.splitlines()[0].split() == names and "do not fit" not in reply


def test_two_runs_have_ratios_without_intervals(shown: Shown) -> None:
    row = {"case": "TC0", "metric": "probe.response.p50", "ratio": 1234.5, "note": "not interleaved"}
    found = shown(show_comparison, [row, row | {"ratio": None}], Path("compare.html"))
    assert " 1,230 " in found and "95 %" not in found


def test_the_bias_is_reported_with_its_sign_and_place() -> None:
    times = {
        "truth_p50_ns": 1_001_000,
        "truth_p99_ns": 1_090_000,
        "seen_p50_ns": 1_031_000,
        "seen_p99_ns": 1_080_000,
    }
    place = Place(host="A processor #1234", kernel="6.1", engine="abcdef")
    level = InstrumentLevel(service_ns=10**6, n=600, **times)
    held = InstrumentCertificate(place=place, made_wall=1.76e9, levels=(level,))
    assert "1 ms: +30 µs at p50, −10 µs at p99" in instrument_line(held)
    head, level = instrument_words(held.model_dump(mode="json"))
    assert "2025-10-09, A processor #1234, kernel 6.1" in head
    assert "p50 +30 µs" in level and "600 requests" in level


def test_why_marks_what_was_not_measured(shown: Shown) -> None:
    checks = (
        CheckResult(check="steal", grade="VALID", sentence="Not measured: no monitor.", measured=False),
        CheckResult(check="clocks", grade="VALID", sentence="The clocks were stable."),
    )
    reply = shown(show_why, trial_result("TC0", checks=checks))
    assert "– Not measured" in reply and "✓ 1 more check found nothing" in reply


STUDY = {
    "name": "open",
    "lab": {"web": {"at": "http://127.0.0.1:9"}},
    "factors": {"rate": [10, 20]},
    "requests": {"page": {"get": "http://web/", "timeout": "5s"}},
    "traffic": {
        "steady": {"executor": "constant-arrival-rate", "rate": "100/s", "request": "page"},
        "varied": {"executor": "constant-arrival-rate", "rate": "${rate}/s", "request": "page"},
        "said": {"executor": "constant-arrival-rate", "rate": "5/s", "max_vus": 7, "request": "page"},
        "closed": {"executor": "constant-vus", "vus": 3, "request": "page"},
    },
    "measure": {"duration": "1s", "replicates": 2},
}


GATE = {"factor": "rate", "baseline": "10", "metric": "closed.response.p50"}
GATE["fail_if"] = "worse by more than 5 %"


@pytest.fixture
def printed(tmp_path: Path, shown: Shown) -> Callable[..., str]:
    def plan(**changes: Any) -> str:
        (tmp_path / "study.yaml").write_text(json.dumps(STUDY | changes))
        return shown(show_plan, api.plan(str(tmp_path), api.Choices(out=tmp_path / "runs")), width=300)

    return plan


@pytest.mark.parametrize("changes", [{}, {"compare": [GATE]}], ids=["without a gate", "with one"])
def test_a_plan(printed: Callable[..., str], snapshot: SnapshotAssertion, changes: dict[str, Any]) -> None:
    """Each open group has a number of concurrent requests, a closed one has none; the duration, also of
    blocks that a gate may add."""
    assert printed(**changes) == snapshot
    single = printed(factors={"rate": [10]}, measure={"duration": "1s", "replicates": 1})
    assert "\n1 trial, about " in single


@pytest.mark.parametrize(
    ("old", "limited", "expected"), [(True, "write", 1), (True, "read", 0), (False, "write", 0)]
)
def test_a_limit_of_writes_that_will_not_hold_is_reported(
    printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch, old: bool, limited: str, expected: int
) -> None:
    monkeypatch.setattr(cgroups, "writes_escape", lambda: old)
    store = {"kit": "truth", "role": "store", "disk_rate": {limited: "10 MB/s"}}
    line = "web: disk_rate write makes every number WEAK at best here"
    assert printed(lab={"web": store}).count(line) == expected


@pytest.mark.parametrize("levels", [2, 6])
def test_repeats_are_reported_once(printed: Callable[..., str], snapshot: SnapshotAssertion, levels: int):
    text = printed(
        factors={"rate": [10, 20], "build": [f"v{number}" for number in range(levels + 1)]},
        exclude=[{"when": {"rate": 10}, "because": "slow ones are known"}],
        compare=[{"name": "builds", "factor": "build", "baseline": "v0", "metric": "closed.response.p50"}],
        measure={"duration": "1s", "replicates": 6},
    )
    assert text == snapshot
