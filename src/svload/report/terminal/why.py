"""What is behind a trial's numbers, a comparison, or a run's doubts: `svload why`."""

from __future__ import annotations

from math import exp

from rich.console import Console
from rich.table import Table
from rich.text import Text

from svload.model.evidence import Evidence
from svload.model.results import CaseResult, CheckResult, Claim, Findings, TrialResult
from svload.model.units import rounded, show_duration
from svload.model.visible import visible
from svload.report.terminal.console import console
from svload.report.terminal.live import GRADE_STYLE
from svload.report.wording.claimed import (
    claimed,
    claimed_of,
    details,
    lost_reasons,
    lost_words,
    pair_strangers,
    ran_first,
)
from svload.report.wording.doubts import Doubt, asked_keys, doubting, doubts, summary
from svload.report.wording.evidence import evidence_lines, fault_lines, gave_way
from svload.report.wording.numbers import Number, Numbers
from svload.report.wording.spelling import (
    GRADE_MARK,
    cause,
    count_words,
    grade_words,
    list_words,
    number_words,
    unique,
)

_SHOWN = ("success_rate", "throughput", "response.p50", "response.p95", "response.p99", "response.p99.9")
_GRADES = ("REFUSED", "WEAK", "VALID")
_MOST_PAIRS = 60


def show_why(what: TrialResult | CaseResult | Claim | Findings, findings: Findings | None = None) -> None:
    """Print a trial's numbers by grade, a case's limits, a comparison's pairs, or every doubt of a run;
    `findings` are those that contain the others."""
    out = console()
    if isinstance(what, Findings):
        _show_doubts(out, what)
    elif isinstance(what, CaseResult):
        show_case(what)
    elif isinstance(what, Claim):
        assert findings is not None
        _show_claim(out, findings, what)
    else:
        _show_trial(out, what, findings)


def _say(out: Console, line: str, style: str = "") -> None:
    out.print(Text(visible(line), style=style))


def _show_trial(out: Console, trial: TrialResult, findings: Findings | None) -> None:
    """Print which numbers are REFUSED, WEAK and VALID, by which check and because of whom; then the checks,
    those that passed in one line."""
    verdict = trial.verdict
    cut = f"; the first {show_duration(trial.cut_ns / 1e9)} are cut as warm-up" if trial.cut_ns else ""
    out.print(Text.assemble(visible(f"{trial.trial} of {trial.case}: "), (grade_words(findings, trial), GRADE_STYLE[verdict.instrument]), f", server {verdict.server}{cut}"))  # fmt: skip
    numbers = _numbers(trial, findings)
    for grade in _GRADES:
        mine = [one for one in numbers if one.grade == grade and one.why != "not measured"]
        if not mine:
            continue
        _say(out, f"{GRADE_MARK[grade]} {grade}", GRADE_STYLE[grade])
        if grade == "VALID":
            _say(out, "  " + "; ".join(f"{number_words(one.key)} {_value(one)}" for one in mine))
        else:
            _table(out, mine)
    for check in sorted(doubting(trial), key=lambda one: _GRADES.index(one.grade)):
        _check(out, check)
    sentences = {check.sentence for check in verdict.checks}
    for reason in verdict.reasons:
        if reason not in sentences:
            _say(out, f"server: {reason}")
    _show_faults(out, trial)
    _show_evidence(out, trial.evidence)
    passed = sum(check.measured and check.grade == "VALID" for check in verdict.checks)
    if passed:
        _say(out, f"✓ {count_words(passed, 'more check')} found nothing", "dim")
    for sentence in unique(check.sentence for check in verdict.checks if not check.measured):
        _say(out, f"– {sentence}", "dim")


def show_case(case: CaseResult) -> None:
    """Print a case's limits: which was reached first, how near each was, what was refused."""
    out = console()
    state = f", server {case.server}" if case.server else ""
    out.print(Text(visible(f"{case.case}: {count_words(len(case.trials), 'trial')}{state}"), style="bold"))
    for at, text in enumerate(gave_way(case.evidence)):
        _say(out, f"{'reached first' if not at else 'then'}: {text}", "red" if not at else "yellow")
    for line in evidence_lines(case.evidence, clear=True) or ["none of its monitors declares a limit"]:
        _say(out, line)
    if case.trials:
        _say(out, f"more: svload why {case.trials[0]}", "dim")


def _show_faults(out: Console, trial: TrialResult) -> None:
    """Print planned faults with their real times, and how soon each group recovered."""
    if trial.faults:
        _say(out, "planned faults:", "bold")
    for line in fault_lines(trial):
        _say(out, f"  {line}")


def _show_evidence(out: Console, evidence: Evidence) -> None:
    """Print limits that were near and counters that increased; nothing if there are none."""
    lines = evidence_lines(evidence)
    if lines:
        _say(out, "limits and refusals:", "bold")
    for line in lines:
        _say(out, f"  {line}")


def _numbers(trial: TrialResult, findings: Findings | None) -> list[Number]:
    """Return the numbers that the study asks for in the trial, every group's headline numbers, and others
    that are doubtful."""
    if findings is None:
        findings = Findings(analysis_version=0, study="", question="", profile=None, complete=True, planned_trials=1, sealed_trials=1, cases=(), trials=(trial,))  # fmt: skip
    numbers = Numbers(findings)
    case = next((one for one in findings.cases if one.case == trial.case), None)
    keys = dict.fromkeys(asked_keys(numbers, case) if case is not None else ())
    groups = [key.removesuffix(".success_rate") for key in trial.metrics if key.endswith(".success_rate")]
    keys |= dict.fromkeys(f"{group}.{name}" for group in groups for name in _SHOWN)
    keys |= dict.fromkeys(key for key, one in trial.metrics.items() if one.belief is not None)
    return [numbers.of_trial(trial, key) for key in keys if key in trial.metrics]


def _value(one: Number) -> str:
    if one.value is None:
        return f"– ({one.why_words or one.text})"
    return f"{one.whole} ({_support(one)})" if one.thin else one.whole


def _support(one: Number) -> str:
    """Return what the mark ° stands for elsewhere; "" for a number without it."""
    return "" if not one.thin else "few requests" if one.few else "grows with the run's length"


def _table(out: Console, numbers: list[Number]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for one in numbers:
        as_measured = f"as measured {one.why_words}" if one.as_measured is not None else ""
        why = list_words([cause(check) for check in one.doubts])
        support = "" if one.refused else _support(one)
        text = "; ".join(part for part in (one.bound, why, support, as_measured) if part)
        table.add_row("", Text(visible(number_words(one.key))), Text(visible(one.text)), Text(visible(text)))
    out.print(table)


def _check(out: Console, check: CheckResult) -> None:
    who = f", by {check.who}" if check.who else ""
    _say(
        out,
        f"{GRADE_MARK[check.grade]} {cause(check.check)}{who}: {check.sentence}",
        GRADE_STYLE[check.grade],
    )
    if check.remedy:
        _say(out, f"  → {check.remedy}", "dim")


def _show_claim(out: Console, findings: Findings, claim: Claim) -> None:
    """Print the outcome, the details behind it, every pair that counts, and why the others do not."""
    one = claimed_of(findings, claim)
    out.print(Text(visible(f"{one.sign} {claim.name}: {one.sure}"), style="bold"))
    _say(out, one.sentence)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for name, text in details(findings, one).items():
        table.add_row(Text(visible(name), style="dim"), Text(visible(text)))
    out.print(table)
    if claim.evidence:
        _pairs(out, claim)
    for why, count in lost_reasons(claim.lost):
        mine = [lost for lost in claim.lost if lost_words(lost) == why]
        where = ", ".join(
            f"block {lost.block}: {lost.treatment} against {lost.baseline}" for lost in mine[:6]
        )
        _say(out, f"lost {count} × {why} ({where}{' …' if len(mine) > 6 else ''})", "yellow")


def _pairs(out: Console, claim: Claim) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("block", claim.baseline, claim.treatment, "ratio", "first", "others"):
        table.add_column(
            Text(visible(heading)), justify="right" if heading == "ratio" else "left", overflow="fold"
        )
    for pair in claim.evidence[:_MOST_PAIRS]:
        first = ran_first(claim, pair)
        table.add_row(
            str(pair.block), Text(visible(pair.baseline)), Text(visible(pair.treatment)), rounded(exp(pair.log_ratio), 3), Text(visible(first)), pair_strangers(pair)
        )  # fmt: skip
    out.print(table)
    if len(claim.evidence) > _MOST_PAIRS:
        _say(out, f"{count_words(len(claim.evidence) - _MOST_PAIRS, 'more pair')}: --json has all", "dim")


def _show_doubts(out: Console, findings: Findings) -> None:
    """Print all doubts of a run, a check per line, most frequent first; then names to ask for."""
    found = doubts(findings)
    if not findings.trials:
        out.print(Text("no trial of this run is sealed yet", style="yellow"))
    elif not found:
        out.print(Text("no check found a problem in this run", style="green"))
    elif text := summary(findings, most=4):
        out.print(Text(visible(text), style="bold"))
    for one in found:
        _doubt(out, one)
    for case in findings.cases:
        if first := gave_way(case.evidence)[:1]:
            _say(out, f"{case.case}: limit reached first: {first[0]}", "yellow")
    names = [f'"{one.claim.name}"' for one in claimed(findings)]
    trials = dict.fromkeys(name for one in found for name in one.trials[:1])
    full = [case.case for case in findings.cases if gave_way(case.evidence)]
    asked = [*names[:3], *full[:1], *list(trials)[:3]]
    if asked:
        _say(out, f"more: svload why {' | '.join(asked)}", "dim")


def _doubt(out: Console, one: Doubt) -> None:
    _say(out, one.text, GRADE_STYLE[one.grade])
    trials = f"{', '.join(one.trials[:6])}{' …' if len(one.trials) > 6 else ''}"
    found = f": {one.example}" if one.numbers else ""
    _say(out, f"  {trials}{found}", "dim")
