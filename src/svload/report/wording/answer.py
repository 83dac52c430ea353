"""The answer of a run: what failed, its comparisons, what the servers did, then what is doubtful; of `svload
compare URL URL`, which of the two is faster. Pure: made from findings alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from svload.model.failures import Failures
from svload.model.results import Findings, Grade
from svload.report.wording.claimed import Claimed, claimed
from svload.report.wording.criteria import failed, kept_lines, not_judged
from svload.report.wording.doubts import COMMAND, MOST_SHOWN, asked_words, doubts, no_times_line, summary
from svload.report.wording.numbers import Numbers
from svload.report.wording.search_rows import GATE_MARKS
from svload.report.wording.spelling import (
    cause,
    count_words,
    judged_again_words,
    list_words,
    percent_words,
    show_value,
    split_metric,
)
from svload.study.mistakes import shortened

MOST_SENTENCES = 10
_MOST_GATES = 3
"""Maximum of failed gates that get a sentence; all of them are among the comparisons."""
LIMITS_TITLE = "How reliable it is, and what remains undecided"
_OWN_PLACE = ("planted", "gone", "capacity", "refused", "failures", "comparison", "threshold", "weak")
"""Kinds of findings that are shown elsewhere; only findings of earlier versions have the last five."""
_BEFORE = ("death", "level", "fault", "status")
"""Kinds of findings shown before the comparisons."""
_AFTER = ("server", "limit")
"""Kinds that explain an answer, shown last."""
_FIRST = ("decided", "no difference", "open", "refused")


@dataclass(frozen=True)
class Sentence:
    """A line of the answer with its mark, its certainty and the names of its evidence (cases/…, trials/…, or
    a claim's name)."""

    text: str
    certainty: str
    evidence: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    """The reasons, one line each, if it summarises several."""
    mark: str = "•"

    @property
    def whole(self) -> str:
        """Return the sentence and its reasons as one text."""
        return " ".join([self.text, *self.reasons])


@dataclass(frozen=True)
class Answer:
    """`first`, `claims` and `sentences` answer the question, in this order; `caveats` limits the answer:
    doubts, what is undecided or was not run.

    `first` begins with what failed (requests, criteria, gates), then states if no time can be used. `claims`
    begin with failed gates. `nothing` is set if there is no valid evidence at all: then `first` alone
    answers. `left_out` counts the sentences beyond ten.
    """

    first: tuple[Sentence, ...]
    claims: tuple[Claimed, ...]
    sentences: tuple[Sentence, ...]
    caveats: tuple[Sentence, ...]
    planted: tuple[str, ...]
    nothing: str | None = None
    left_out: int = 0


def answer(findings: Findings) -> Answer:
    """Return a run's answer: what failed, the comparisons, then other findings, ten sentences at most."""
    planted = tuple(finding.sentence for finding in findings.findings if finding.kind == "planted")
    because = why_nothing(findings)
    failures = leading_failures(findings)
    gone = [
        Sentence(one.sentence, one.certainty, one.evidence, mark="✗")
        for one in findings.findings
        if one.kind == "gone"
    ]
    if because is not None:
        lines = [*_of_search(findings), *gone, *failures]
        return Answer(tuple(lines[:MOST_SENTENCES]), (), (), tuple(_caveats(findings)), planted, because)
    first, after = _seen(findings)
    criteria = [
        Sentence(f"{one.text}.", "measured", _cases(one.cases), mark=one.mark) for one in failed(findings)
    ]
    found = sorted(claimed(findings), key=lambda one: (not one.failed, _FIRST.index(one.outcome)))
    no_times = [Sentence(text, "refused", mark="✗")] if (text := no_times_line(findings)) else []
    first = [*_of_search(findings), *gone, *failures, *criteria, *_failed_gates(found), *no_times, *first]
    room = max(0, MOST_SENTENCES - len(first))
    over = max(0, len(first) - MOST_SENTENCES) + max(0, len(after) - room)
    return Answer(
        tuple(first[:MOST_SENTENCES]),
        tuple(found),
        tuple(after[:room]),
        tuple(_caveats(findings)),
        planted,
        left_out=over,
    )


def _failed_gates(found: Sequence[Claimed]) -> list[Sentence]:
    """Return one sentence per failed gate with its reason and limit; of many, the last sums up."""
    gates = [one for one in found if one.failed]
    lines = [
        Sentence(f"{_gate_words(one)}.", one.certainty, (one.claim.name,), mark=one.sign)
        for one in gates[:_MOST_GATES]
    ]
    if rest := gates[_MOST_GATES:]:
        text = f"{count_words(len(rest), 'more gate')} failed."
        lines.append(
            Sentence(text, rest[0].certainty, tuple(one.claim.name for one in rest), mark=rest[0].sign)
        )
    return lines


def _gate_words(one: Claimed) -> str:
    """Return `GATE FAILED: probe.response.p50 rises by 16 to 22 %, limit 5 % (HTTPS against HTTP)`."""
    return f"{one.failure} ({one.claim.name})"


def _cases(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"cases/{name}" for name in names)


def _seen(findings: Findings) -> tuple[list[Sentence], list[Sentence]]:
    """Return the findings in analysis's own words: those shown before the comparisons, and those shown after
    them, explanations last."""
    first: list[Sentence] = []
    after: list[Sentence] = []
    explains: list[Sentence] = []
    for finding in findings.findings:
        if finding.kind not in _OWN_PLACE:
            one = Sentence(finding.sentence, finding.certainty, finding.evidence)
            before = not findings.claims or finding.kind in _BEFORE
            (explains if finding.kind in _AFTER else first if before else after).append(one)
    return first, [*after, *explains]


def _caveats(findings: Findings) -> list[Sentence]:
    """Return doubts (a reason per check), other failures, undecided criteria, what was not run."""
    lines = []
    text = summary(findings)
    found = doubts(findings)
    if text or found:
        reasons = [one.text for one in found[:MOST_SHOWN]]
        if len(found) > MOST_SHOWN:
            reasons.append(f"{count_words(len(found) - MOST_SHOWN, 'more reason')}: {COMMAND}")
        asked = f"the numbers that the study asks for ({asked_words(findings)}) are reliable"
        no_times = "No response time and no rate can be used" if no_times_line(findings) else ""
        head = text or (
            f"{no_times}; {asked}"
            if no_times
            else f"{asked[:1].upper()}{asked[1:]}; other numbers are rough (~)"
        )
        lines.append(Sentence(f"{head}.", "doubted", (), tuple(reasons), "~"))
    lines += _other_failures(findings)
    lines += [
        Sentence(f"{one.text}. Counts as not passed.", "open", _cases(one.cases), mark="?")
        for one in not_judged(findings)
    ]
    return lines + _not_run(findings)


def _of_search(findings: Findings) -> list[Sentence]:
    """Return the answer of a search and its gate; ○ if it has no answer."""
    found = findings.capacity
    if found is None:
        return []
    mark = "●" if found.state == "found" else "○"
    of = [finding for finding in findings.findings if finding.kind == "capacity"]
    evidence, certainty = (of[0].evidence, of[0].certainty) if of else ((), found.state)
    sentences = [Sentence(found.sentence, certainty, evidence, mark=mark)]
    if found.gate is not None:
        sentences.append(
            Sentence(found.gate.sentence, found.gate.outcome, mark=GATE_MARKS[found.gate.outcome])
        )
    return sentences


def _not_run(findings: Findings) -> list[Sentence]:
    lines = _judged_again(findings)
    missing = [case.case for case in findings.cases if case.excluded is None and case.instrument is None]
    if missing:
        verb = "has" if len(missing) == 1 else "have"
        text = f"{list_words(missing)} {verb} no sealed trial."
        lines.append(Sentence(text, "missing", _cases(missing), mark="?"))
    if not findings.complete:
        of = count_words(findings.planned_trials, "planned trial")
        text = (
            f"The run is incomplete: {findings.sealed_trials} of {of} "
            f"{'is' if findings.sealed_trials == 1 else 'are'} sealed."
        )
        lines.append(Sentence(text, "incomplete", mark="?"))
    return lines


def _judged_again(findings: Findings) -> list[Sentence]:
    own = findings.own_verdicts
    if own is None:
        return []
    then, now = (
        _grades(grades)
        for grades in (own.trials.values(), (one.verdict.instrument for one in findings.trials))
    )
    again = judged_again_words(findings)
    text = f"{again[:1].upper()}{again[1:]}: exploratory. Then {then}; now {now}."
    return [Sentence(text, "exploratory", mark="~")]


def _grades(grades: Iterable[Grade]) -> str:
    counts = Counter(grades)
    return ", ".join(f"{counts[grade]} {grade}" for grade in get_args(Grade) if counts[grade]) or "none"


def why_nothing(findings: Findings) -> str | None:
    """Return why nothing can be concluded, as the end of that sentence; None if anything can."""
    if any(case.instrument in ("VALID", "WEAK") for case in findings.cases):
        return None
    if findings.capacity is not None and findings.capacity.state in ("found", "above", "below"):
        return None
    if any(one.failed or one.outcome in ("decided", "no difference") for one in claimed(findings)):
        return None
    if any(one.outcome == "failed" for one in findings.thresholds):
        return None
    if not findings.trials:
        return "no trial is sealed: none was completed"
    refused = [trial for trial in findings.trials if trial.verdict.instrument == "REFUSED"]
    if len(refused) < len(findings.trials):
        head = f"too few trials are left: {len(refused)} of {len(findings.trials)} are broken (REFUSED)"
    else:
        head = f"{'every' if len(refused) > 1 else 'its only'} trial is broken (REFUSED)"
    most = [one for one in doubts(findings, refused) if one.grade == "REFUSED"][:3]
    texts = [f"In {count_words(len(one.trials), 'trial')} {cause(one.check)}: {one.example}" for one in most]
    return f"{head}. {' '.join(texts)}".rstrip(". ") if texts else head


def nothing_line(because: str | None) -> str:
    """Return `Nothing can be concluded, because …`, or "" if something can be concluded."""
    return "" if because is None else f"Nothing can be concluded, because {because}."


def headline(findings: Findings) -> str:
    """Return one short sentence for the end of a command's output: what failed (requests, a gate, a
    threshold), else the first comparison, else a median. Unless something failed, it first says if no time
    can be used."""
    if findings.capacity is None:
        if gone := [one.sentence for one in findings.findings if one.kind == "gone"]:
            return gone[0]
        if failures := leading_failures(findings):
            return failures[0].text
    because = why_nothing(findings)
    if because is not None:
        return nothing_line(because)
    if findings.capacity is not None:
        gate = findings.capacity.gate
        return f"{findings.capacity.sentence} {gate.sentence}" if gate else findings.capacity.sentence
    found = claimed(findings)
    if gates := [one for one in found if one.failed]:
        return f"{_gate_words(gates[0])}. {gates[0].sentence}"
    if broken := failed(findings):
        return f"{broken[0].text}."
    no_times = no_times_line(findings)
    claims = [one for one in found if one.outcome != "refused" and (one.effect or one.beyond)]
    if claims:
        first = min(claims, key=lambda one: one.outcome == "open")
        return f"{no_times} {first.claim.name}: {first.sentence}".strip()
    if no_times:
        held = kept_lines(findings)
        return f"{no_times} {held[1]}." if held else no_times
    numbers = Numbers(findings)
    for case in findings.cases:
        median = numbers.of_case(case, f"{numbers.group}.response.p50")
        if median.value is not None and not median.refused:
            interval = "95 % interval" if median.interval else "no interval from so few runs"
            n = count_words(median.believed, "trial")
            return f"{numbers.group}: the median response in {case.case} is {median.whole} ({interval}, {n})."
    return f"{count_words(findings.sealed_trials, 'trial')} sealed, but no usable response time (the report says why)."


def in_words(findings: Findings) -> Findings:
    """Return the findings with a sentence in each claim and the doubts about its trials in each case."""
    by_case: dict[str, list[str]] = {}
    for case in findings.cases:
        mine = [trial for trial in findings.trials if trial.case == case.case]
        by_case[case.case] = [one.text for one in doubts(findings, mine)]
    claims = tuple(one.claim.model_copy(update={"sentence": one.sentence}) for one in claimed(findings))
    cases = tuple(case.model_copy(update={"reasons": tuple(by_case[case.case])}) for case in findings.cases)
    return findings.model_copy(update={"claims": claims, "cases": cases})


_BESIDE = {
    "few": "Few requests failed",
    "allowed": "Requests failed, no more than the study allows",
    "planned fault": "Requests failed where the study planned faults",
    "search": "Requests failed at loads that the search tried",
}
_MOST_KINDS, _MOST_CASES, _LONGEST = 3, 3, 60


def leading_failures(findings: Findings) -> list[Sentence]:
    """Return one line per group or step whose failures lead the answer: `order: 9 × 201, expected 200; 9 of
    900 requests failed.`"""
    return [
        _of_failures(_sentence(findings, rows), [rows], "✗")
        for rows in _alike(findings)
        if not rows[0].beside
    ]


def _other_failures(findings: Findings) -> Iterator[Sentence]:
    """Yield one line on all others for each reason why they do not lead."""
    for beside, words in _BESIDE.items():
        mine = [rows for rows in _alike(findings) if rows[0].beside == beside]
        if mine:
            more = f" And {count_words(len(mine) - 1, 'more group or step', 'more groups or steps')}."
            text = f"{words}: {_sentence(findings, mine[0])}{more if len(mine) > 1 else ''}"
            yield _of_failures(text, mine, "~")


def _of_failures(text: str, several: Sequence[Sequence[Failures]], mark: str) -> Sentence:
    cases = dict.fromkeys(row.case for rows in several for row in rows)
    return Sentence(text, "counted", _cases(cases), mark=mark)


def _alike(findings: Findings) -> list[list[Failures]]:
    """Return the rows of each group or step, largest share of failures first."""
    alike: dict[tuple[str, str], list[Failures]] = {}
    for row in findings.failures:
        alike.setdefault((row.beside, row.owner), []).append(row)
    return sorted(
        alike.values(), key=lambda rows: -sum(row.failed for row in rows) / sum(row.ended for row in rows)
    )


def _sentence(findings: Findings, rows: Sequence[Failures]) -> str:
    """Return `order: 9 × 201, expected 200; 9 of 900 requests failed in TC1.`, by group or step."""
    alone = len({row.group for row in findings.failures}) == 1
    name = (rows[0].step if alone else "") or rows[0].owner
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        counts.update({(one.kind, one.name, one.expected): one.count for one in row.kinds})
    kinds = [_kind(*key, count) for key, count in counts.most_common()]
    if len(kinds) > _MOST_KINDS:
        kinds = [*kinds[:_MOST_KINDS], f"{len(kinds) - _MOST_KINDS} more ways"]
    failed, ended = sum(row.failed for row in rows), sum(row.ended for row in rows)
    how_many = f"all {ended:,}" if failed == ended else f"{failed:,} of {ended:,}"
    where = ""
    if sum(case.excluded is None for case in findings.cases) > 1:
        counted = f"{len(rows)} cases: " if len(rows) > _MOST_CASES else ""
        where = f" in {counted}{list_words([row.case for row in rows], _MOST_CASES)}"
    return f"{name}: {'; '.join(kinds)}; {how_many} requests failed{where}."


def _kind(kind: str, name: str, expected: str, count: int) -> str:
    if kind == "status":
        return f"{count:,} × {name}, expected {expected}"
    if kind == "check":
        return f"{count:,} × failed check “{shortened(name, _LONGEST)}”"
    return f"{count:,} × {name.replace('_', ' ')}"


_NAMES = {"p50": "the median response"}


def faster_sentence(findings: Findings) -> str:
    """Return `/v2 is slower than /v1: the median response is 12 % longer (9 to 15 %) and p95 was 3 % longer
    (−2 to +8 %), which decides nothing, as these servers ran today.` A second sentence reports failed
    requests."""
    found = claimed(findings)
    nothing = nothing_line(why_nothing(findings))
    if nothing or not found:
        return nothing
    decided = any(one.outcome in ("decided", "no difference") for one in found)
    text = list_words([f"{_name(one)} {_clause(one, decided)}" for one in found])
    success = _success(found[0])
    return f"{_head(found)}: {text}, as these servers ran today.{f' {success}' if success else ''}"


def _head(found: list[Claimed]) -> str:
    one, other = found[0].claim.treatment, found[0].claim.baseline
    slower = {claim.rises for claim in found if claim.outcome == "decided"}
    if slower == {True}:
        return f"{one} is slower than {other}"
    if slower == {False}:
        return f"{one} is faster than {other}"
    if slower:
        return f"{one} is faster than {other} in one respect and slower in another"
    if all(claim.outcome == "no difference" for claim in found):
        return f"{one} and {other} are equally fast"
    return f"Whether {one} or {other} is faster is not decided"


def _name(one: Claimed) -> str:
    stat = split_metric(one.key)[2]
    return _NAMES.get(stat, stat)


def _clause(one: Claimed, decided: bool) -> str:
    """Return `is 12 % longer (9 to 15 %)`, `differs by less than 3 %`, `was 3 % longer (−2 to +8 %)`; if
    another claim is `decided`, an undecided one says that it isn't."""
    claim = one.claim
    if one.outcome == "decided":
        return one.beyond or f"is {one.effect_words}"
    if one.outcome == "no difference" and claim.within is not None:
        return f"differs by less than {percent_words(claim.within)}"
    if one.outcome == "refused":
        return "can't be compared"
    if not one.effect_words:
        return "is not decided"
    return f"was {one.effect_words}{', which decides nothing' if decided else ''}"


def _success(one: Claimed) -> str:
    before, after = one.claim.success
    if before is None or after is None or before == after == 1:
        return ""
    rates = [f"{show_value(1 - share, 'ratio')} of {side}'s" for side, share in ((one.claim.treatment, after), (one.claim.baseline, before))]  # fmt: skip
    return f"Of the requests {list_words(rates)} failed."
