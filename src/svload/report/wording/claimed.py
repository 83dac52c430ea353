"""A comparison in words, from the claim's fields alone: its outcome with a fixed mark, one short sentence,
and the details behind it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1

from svload.analysis.limits import LEANING
from svload.model.results import Claim, Estimate, Findings, LostPair, PairRatio
from svload.model.units import Dimension, rounded, show_percent
from svload.report.wording.spelling import (
    cause,
    change_interval,
    change_words,
    count_words,
    dimension_of,
    full_metric,
    judged_again_words,
    list_words,
    metric_words,
    number_words,
    outcome_words,
    percent_words,
    show_value,
    split_metric,
)

MARKS = {"decided": "●", "no difference": "■", "open": "○", "refused": "✗"}
"""An outcome's mark, the same in terminal, page and Markdown."""
GATE_WORDS = {"fail": "gate failed:", "pass": "gate passed: not", "open": "gate undecided: perhaps"}
"""Words before the text of `fail_if`, which describes a failure."""
GATE_MARKS = {"fail": "✗", "pass": "✓", "open": "?"}
FAILED_MARK = "✗"
"""Mark of a comparison whose gate failed, in place of its outcome's."""
_LIMIT = re.compile(r"\d+(?:\.\d+)? ?%")
LONGEST_WORDS = 25
_FEW_BRING_UPS = 6
"""With fewer bring-ups than this, a claim is about these bring-ups only (docs/method.md §2)."""
_APART = 1.5
"""If ratios of matched cases differ by more than this factor, they are shown beside their pooled effect,
which then describes none of them."""


@dataclass(frozen=True)
class Claimed:
    """A claim in the words shared by every output."""

    claim: Claim
    key: str
    effect: str
    """`2.04 times as long`; "" without a ratio"""
    interval: str
    """`1.93 to 2.16`; "" without one"""
    again: bool = False
    """whether newer rules than those of the run's time judge it: then it is exploratory"""

    @property
    def outcome(self) -> str:
        """Its outcome: decided, no difference, open or refused."""
        return self.claim.outcome

    @property
    def certainty(self) -> str:
        """Its certainty: its outcome, or exploratory."""
        return "exploratory" if self.again else outcome_words(self.outcome)

    @property
    def mark(self) -> str:
        return MARKS[self.outcome]

    @property
    def dimension(self) -> Dimension:
        """The dimension of the compared number."""
        return dimension_of(self.key)

    @property
    def sure(self) -> str:
        """`decided`, `decided, 3 cases left out`, `any difference is below 5 %`, `undecided: 4 more blocks
        (12 min) would decide it`, `nothing to compare: 0 of 8 pairs can be used`."""
        claim = self.claim
        if self.outcome == "no difference" and claim.within is not None:
            return f"any difference is below {percent_words(claim.within)}"
        if self.outcome == "open":
            return f"undecided{': ' + self.needs if self.needs else ''}"
        if self.outcome == "refused":
            believed, made = claim.believed_of
            return (
                f"nothing to compare: {believed} of {count_words(made, 'pair')} can be used"
                if made
                else "nothing to compare"
            )
        return self._decided

    @property
    def _decided(self) -> str:
        left_out = len(self.claim.dropped_cases)
        return f"decided, {count_words(left_out, 'case')} left out" if left_out else "decided"

    @property
    def short(self) -> str:
        """The outcome in a few letters for a terminal: `decided`, `within 5 %`, `needs 4 more blocks (12
        min)`, `0/8 pairs can be used`; the reason if it is undecided and no number of blocks would decide
        it."""
        claim = self.claim
        if self.outcome == "no difference" and claim.within is not None:
            return f"within {percent_words(claim.within)}"
        if self.outcome == "open" and (self._more or claim.why_open):
            return f"needs {self._more}" if self._more else f"undecided: {claim.why_open}"
        if self.outcome == "refused" and claim.believed_of[1]:
            return f"{claim.believed_of[0]}/{claim.believed_of[1]} pairs can be used"
        return self._decided if self.outcome == "decided" else outcome_words(self.outcome)

    @property
    def needs(self) -> str:
        """What would decide an undecided claim: `4 more blocks (12 min) would decide it`; "" if unknown."""
        return f"{self._more} would decide it" if self.outcome == "open" and self._more else ""

    @property
    def _more(self) -> str:
        """`4 more blocks (12 min)`; counts blocks even if several of them are one bring-up."""
        claim = self.claim
        if claim.more_blocks is None:
            return ""
        time = f" ({_about(claim.more_s)})" if claim.more_s is not None else ""
        return f"{count_words(claim.more_blocks, 'more block')}{time}"

    @property
    def effect_words(self) -> str:
        """`2.04 times as long (1.93 to 2.16)`."""
        return f"{self.effect} ({self.interval})" if self.interval else self.effect

    @property
    def rises(self) -> bool:
        """Whether the treatment has more; a side beyond the timeout has more than any number."""
        value, (early, late) = self.claim.ratio.value, self.claim.timed_out
        return late > early if value is None else value > 1

    @property
    def beyond(self) -> str:
        """`lies beyond the timeout with https alone`, if that decides it without a ratio; else ""."""
        if self.outcome != "decided" or self.effect:
            return ""
        return f"lies beyond the timeout with {self.claim.treatment if self.rises else self.claim.baseline} alone"

    @property
    def sentence(self) -> str:
        """Direction and size with the interval, and the outcome, in 25 words at most."""
        _, name, stat = split_metric(self.key)
        for subject in (metric_words(self.key), metric_words(f"{name}.{stat}".rstrip("."))):
            text = self._sentence(subject)
            if len(text.split()) <= LONGEST_WORDS:
                return text
        return " ".join(text.split()[: LONGEST_WORDS - 1]) + " …"

    def _sentence(self, subject: str) -> str:
        claim = self.claim
        sides = f"{claim.treatment} against {claim.baseline}"
        if claim.by_levels:
            sides += f", {claim.by_levels[0]} against {claim.by_levels[1]}"
        elif claim.by:
            sides += f", by {claim.by}"
        what = f"the effect on {subject}" if claim.by else subject
        if self.outcome == "decided" and self.effect:
            return f"{sides}: {what} is {self.effect_words}."
        if self.beyond:
            return f"{sides}: {what} {self.beyond}."
        if self.outcome == "no difference" and claim.within is not None:
            return f"{sides}: {what} differs by less than {percent_words(claim.within)}."
        if self.outcome == "refused":
            believed, made = claim.believed_of
            rest = f", {believed} of {count_words(made, 'pair')} can be used" if made else ""
            return f"{sides}: no statement about {what}{rest}."
        if not self.effect:
            return f"{sides}: {what} is undecided."
        return f"{sides}: undecided; {what} was {self.effect_words}."

    @property
    def pooled(self) -> str:
        """`2.1 times as long (1.9 to 2.3)`: the ratio over all requests of sides that took turns; else ""."""
        turns = self.claim.turns
        if turns is None:
            return ""
        return self._words(turns.pooled)

    @property
    def against_itself(self) -> str:
        """`0.4 % longer (−0.9 to +1.7 %)` for the baseline's second server; "" without a control."""
        control = self.claim.turns.control if self.claim.turns else None
        return "" if control is None else self._words(control)

    def _words(self, ratio: Estimate) -> str:
        if ratio.value is None:
            return ratio.reason
        words, interval = change_words(ratio.value, self.dimension), change_interval(ratio, self.dimension)
        return f"{words} ({interval})" if interval else words

    @property
    def failed(self) -> bool:
        """Whether its gate failed: then it is shown first and never left out."""
        gate = self.claim.gate
        return gate is not None and gate.outcome == "fail"

    @property
    def sign(self) -> str:
        """The mark before its name: ✗ if its gate failed, else its outcome's mark."""
        return FAILED_MARK if self.failed else self.mark

    @property
    def failure(self) -> str:
        """`GATE FAILED: probe.response.p50 rises by 16 to 22 %, limit 5 %`; "" if the gate did not fail."""
        gate = self.claim.gate
        if gate is None or not self.failed:
            return ""
        limit = _LIMIT.search(gate.text)
        of_time = gate.why and limit and not gate.why.startswith("success")
        text = f"{gate.why}, limit {limit[0]}" if of_time and limit else gate.why or gate.text
        return f"GATE FAILED: {text}" if text else "GATE FAILED"

    @property
    def gate(self) -> str:
        """`gate failed: worse by more than 5 %`, `gate passed: not worse by …`; "" without `fail_if`."""
        gate = self.claim.gate
        if gate is None:
            return ""
        return f"{GATE_WORDS[gate.outcome]} {gate.text}" + (f" ({gate.why})" if gate.why else "")


def _about(seconds: float) -> str:
    """Return `40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{rounded(seconds / 3600, 2)} h"


def claimed(findings: Findings) -> list[Claimed]:
    """Return every claim of the run, in the study's order."""
    return [claimed_of(findings, claim) for claim in findings.claims]


def claimed_of(findings: Findings, claim: Claim) -> Claimed:
    key = full_metric(findings, claim.metric)
    value, again = claim.ratio.value, findings.own_verdicts is not None
    if value is None:
        return Claimed(claim, key, "", "", again)
    dimension = dimension_of(key)
    effect, interval = change_words(value, dimension), change_interval(claim.ratio, dimension)
    return Claimed(claim, key, effect, interval, again)


def details(findings: Findings, one: Claimed) -> dict[str, str]:
    """Return everything behind a claim as label → text, in the order in which readers need it."""
    claim = one.claim
    behind = {
        "number": number_words(one.key),
        "gate": one.gate.removeprefix("gate "),
        "exploratory": judged_again_words(findings),
        "undecided because": claim.why_open,
        "would decide it": one.needs,
        "intervals": _intervals(one),
        "p": _p(claim),
        "rests on": _rests_on(claim),
        "turns": _turns(claim),
        "over all requests together": one.pooled,
        f"{claim.baseline} against itself": one.against_itself,
        "held back": "; ".join(claim.turns.guards) if claim.turns else "",
        "bring-ups": _bring_ups(claim),
        "lost pairs": "; ".join(f"{count} × {why}" for why, count in lost_reasons(claim.lost)),
        "left out": list_words(list(claim.dropped_cases)),
        "other programs": _strangers(claim),
        "with equal weights": _alike(one),
        "without generator lag": _without_lag(one),
        "what it cannot rule out": _cannot_rule_out(claim),
        "beyond the timeout": _by_side(claim.timed_out, "pairs: worse than any number"),
        "overloaded": _by_side(claim.overloaded, "trials"),
        "order effect": _carry_over(one),
        "matched cases": _apart(findings, one),
        "success": _success(claim),
        "minimum detectable effect": "" if claim.mde is None else percent_words(claim.mde),
        "the lab's own noise": ""
        if claim.floor is None
        else f"{percent_words(expm1(claim.floor))} (measured by A/A)",
    }
    return {name: text for name, text in behind.items() if text}


def _intervals(one: Claimed) -> str:
    if not one.interval:
        return ""
    single = one.claim.single
    alone = ""
    if single is not None:
        ratio = one.claim.ratio.model_copy(update={"low": single[0], "high": single[1]})
        alone = f"; {change_interval(ratio, one.dimension)} for this comparison alone"
    return f"{one.interval}, adjusted for all comparisons of the study{alone}"


def _p(claim: Claim) -> str:
    if claim.p is None:
        return ""
    text = f"{claim.p:.2g}"
    if claim.p_adjusted is not None:
        text += f", {claim.p_adjusted:.2g} after Holm's correction over the study's comparisons"
    if claim.p_sign_flip is not None:
        text += f"; {claim.p_sign_flip:.2g} by sign flips of single pairs"
    return text


def _rests_on(claim: Claim) -> str:
    believed, made = claim.believed_of
    units = count_words(claim.blocks, claim.unit)
    return f"{believed} of {count_words(made, 'pair')}, in {units}" if made else units


def _turns(claim: Claim) -> str:
    if claim.turns is None:
        return ""
    share = percent_words(claim.turns.in_flight)
    late = f"; in {share} of them a request was still in flight while the next turn was measured"
    return f"{count_words(claim.turns.rounds, 'round')}, both sides up at once{late if claim.turns.in_flight else ''}"


def _bring_ups(claim: Claim) -> str:
    if not claim.bring_ups:
        return ""
    if claim.bring_ups < _FEW_BRING_UPS:
        return f"{claim.bring_ups}: the result holds for these only ({_FEW_BRING_UPS} would make it general)"
    return str(claim.bring_ups)


_WHY_LOST = {"broken": "broken", "missing": "missing", "no number": "without a number"}


def pair_strangers(pair: PairRatio) -> str:
    """Return other programs' share of the machine in the pair's more disturbed trial; "" if not read."""
    return "" if pair.strangers is None else show_percent(pair.strangers, 2)


def ran_first(claim: Claim, pair: PairRatio) -> str:
    """Return the level whose trial ran first."""
    if pair.rounds:
        return "in turns"
    return claim.treatment if pair.treatment_first else claim.baseline


def lost_words(one: LostPair) -> str:
    """Return `baseline broken: the factor did not act`."""
    side = "both sides" if one.side == "both" else one.side
    return f"{side} {_WHY_LOST[one.why]}" + (
        f": {list_words(list(map(cause, one.checks)))}" if one.checks else ""
    )


def lost_reasons(lost: Sequence[LostPair]) -> list[tuple[str, int]]:
    """Return why pairs are lost, most frequent reason first."""
    return Counter(lost_words(one) for one in lost).most_common()


def _strangers(claim: Claim) -> str:
    """Return how much of the machine other programs used, and the resulting weight of the pairs."""
    found = claim.strangers
    if found is None or not claim.evidence:
        return ""
    if not found.readable:
        return "the server's machine could not be read: all pairs have equal weight"
    before, after = (show_percent(share, 2) for share in found.sides)
    text = f"{show_percent(found.mean, 2)} of the machine, {show_percent(found.most, 2)} at most ({before} during {claim.baseline}, {after} during {claim.treatment})"
    pairs = len(claim.evidence)
    if claim.turns is not None:
        return f"{text}; both sides met them alike"
    if found.lean_p < LEANING:
        return f"{text}; more during one side (p {found.lean_p:.2g}), so all pairs have equal weight"
    if found.calm_pairs < 1:
        return f"{text}; {count_words(pairs, 'pair')} together weigh less than one undisturbed pair"
    return f"{text}; {count_words(pairs, 'pair')} weigh as much as {rounded(found.calm_pairs, 2)} undisturbed ones"


def _alike(one: Claimed) -> str:
    found = one.claim.alike
    if found is None or found.value is None:
        return ""
    return f"{change_words(found.value, one.dimension)} ({change_interval(found, one.dimension)})"


def _without_lag(one: Claimed) -> str:
    ratio = one.claim.without_lag
    if ratio is None:
        return ""
    return f"{change_words(ratio, one.dimension)}; the interval covers both"


def _cannot_rule_out(claim: Claim) -> str:
    passed = claim.gate is not None and claim.gate.outcome == "pass"
    return rules_out(claim) if claim.outcome == "no difference" or passed else ""


def rules_out(claim: Claim) -> str:
    """Return what so few replicates cannot rule out, with the worst trial and the scatter of both sides."""
    text = f"{claim.blocks} replicates rule out slow runs that are more frequent than {100 * (1 - 0.05 ** (1 / claim.blocks)):.0f} %"
    if claim.spread is None:
        return text
    before, after = claim.spread
    return (
        f"{text}; the worst trial was {rounded(before.worst, 3)} × its side's mean with {claim.baseline}, {rounded(after.worst, 3)} × with "
        f"{claim.treatment} (scatter {rounded(100 * before.sd, 2)} and {rounded(100 * after.sd, 2)} %)"
    )


def _carry_over(one: Claimed) -> str:
    found = one.claim.carry_over
    if found is None:
        return ""
    ratio = one.claim.ratio.model_copy(update={"low": found.low, "high": found.high})
    text = f"{change_words(found.ratio, one.dimension)} ({change_interval(ratio, one.dimension)}) when corrected for which side ran just before"
    return f"{text}: that changes the outcome, so nothing is claimed" if found.differs else text


def _apart(findings: Findings, one: Claimed) -> str:
    """Return the smallest and the largest effect among matched cases if they differ, else ""."""
    claim = one.claim
    if claim.range is not None:
        least, most = (change_words(ratio, one.dimension) for ratio in claim.range)
        return f"they differ by more than chance: from {least} to {most}"
    known = {case.case: case.metrics.get(one.key) for case in findings.cases}
    ratios = {}
    for pair in claim.pairs:
        before, after = (found.value if (found := known.get(case)) is not None else None for case in pair)
        if before and after:
            ratios[pair] = after / before
    ordered = sorted(ratios, key=ratios.__getitem__)
    if len(ordered) < 2 or ratios[ordered[-1]] <= _APART * ratios[ordered[0]]:
        return ""
    least, most = (
        f"{change_words(ratios[pair], one.dimension)} ({pair[1]} against {pair[0]})"
        for pair in (ordered[0], ordered[-1])
    )
    return f"they differ: from {least} to {most}"


def _success(claim: Claim) -> str:
    before, after = claim.success
    if before is None or after is None or before == after == 1:
        return ""
    interval = claim.success_interval
    by = f"; a difference of {_points(interval[0])} to {_points(interval[1])} points" if interval else ""
    return f"baseline {show_value(before, 'ratio')}, treatment {show_value(after, 'ratio')}{by}"


def _points(share: float) -> str:
    """Return `−0.4`: a difference of shares in percentage points."""
    return f"{'−' if share < 0 else '+'}{rounded(100 * abs(share), 3)}"


def _by_side(counts: tuple[int, int], of: str) -> str:
    baseline, treatment = counts
    return f"baseline {baseline}, treatment {treatment} {of}" if baseline or treatment else ""
