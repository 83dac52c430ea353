"""What the replicates of one level say of a criterion, at most so many looks at them (docs/method.md §4).

A margin is the logarithm of the distance to the limit, positive where the criterion holds. After each
replicate from the third on, a t interval over the margins is looked at, each look with its part of alpha
(Bonferroni over the looks that are planned; Jennison and Turnbull 2000, ch. 1). Stopping at the first look
that decides is therefore no “until it decides”. One look more is a sign test: t asks for a mean, and
margins in two heaps, all beyond the limit, have a mean that it can't tell from the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, inf, log, log2, sqrt
from typing import Literal, NamedTuple

LEAST, MOST = 3, 12
"""Replicates of a level."""
ALPHA = 0.05
INDIFFERENCE = log(1.03)
"""A mean margin within this is as good as the limit itself: the level counts as kept."""
REPEATS = 3
"""A number that is REFUSED is measured again so often at most; then the level counts neither way."""
NARROWEST = log(1.005)
"""Margins that scatter less than this are not believed to: three equal replicates would decide anything."""

Outcome = Literal["kept", "broken", "more", "open"]


@dataclass(frozen=True)
class Share:
    """A criterion on a share of all requests, by counts: `bad` of `n` requests fail it, and at most the share
    `limit` of them may (0.001: 0.1 %). `within`: how few and how many they may truly be (docs/method.md §3);
    None: `bad`."""

    bad: int
    n: int
    limit: float
    within: tuple[int, int] | None = None


class Margin(NamedTuple):
    """A measured margin, and how low and high it may truly be (docs/method.md §3); −inf: worse than any limit."""

    mid: float
    low: float
    high: float


@dataclass(frozen=True)
class Replicate:
    """One trial at a level.

    `margins`: by criterion; None where its number was REFUSED or not measured. `shares`: by criterion its
    counts. `after`: the load of the trial before it; None: of another kind, or the first. `lacks`: by
    criterion, why it has no number. `too_few`: they lack nothing but requests.
    """

    load: int
    margins: Mapping[str, Margin | None]
    shares: Mapping[str, Share] = field(default_factory=dict)
    after: int | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    too_few: bool = False

    @property
    def counts(self) -> bool:
        """Every number that the criterion needs is there."""
        return all(margin is not None for margin in self.margins.values())

    @property
    def holds(self) -> bool | None:
        """What it says alone; None where it does not count."""
        if any(margin is not None and margin.mid == -inf for margin in self.margins.values()):
            return False
        if not self.counts:
            return None
        broken = any(margin.mid < 0 for margin in self.margins.values() if margin is not None)
        return not broken and all(one.bad <= one.limit * one.n for one in self.shares.values())


@dataclass(frozen=True)
class Judged:
    """A level's outcome, and the criterion that says so: of a broken level the one that is broken most surely.

    `mean`, `low` and `high` are its margin; −inf: worse than any limit. `why`: why it cannot be told, or
    what tells it where its interval does not. `too_few`: for want of requests alone. `breaks`: of
    `replicates`, those that break `by`.
    """

    outcome: Outcome
    by: str = ""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    replicates: int = 0
    refused: int = 0
    why: str = ""
    too_few: bool = False
    breaks: int = 0


def judge_level(replicates: Sequence[Replicate], most: int = MOST) -> Judged:
    """What all replicates of one load say together: broken as soon as one criterion is, kept when all are."""
    counted = [one for one in replicates if one.counts]
    n, refused = len(counted), len(replicates) - len(counted)
    if n < LEAST:
        return _without(replicates, n, refused)
    looks = most - LEAST + 1
    judged = [_of_margins(name, counted, looks + 1) for name in counted[0].margins]
    judged += [_of_share(name, counted, looks, most) for name in counted[0].shares]
    for outcome in ("broken", "open", "more"):
        found = [one for one in judged if one.outcome == outcome]
        if found:
            judged = found
            break
    nearest = min(judged, key=lambda one: inf if one.mean is None else one.mean)
    ended = nearest.outcome == "more" and (n >= most or refused > REPEATS)
    return replace(
        nearest,
        outcome="open" if ended else nearest.outcome,
        replicates=n,
        refused=refused,
        breaks=sum(_breaks(one, nearest.by) for one in counted),
    )


def _breaks(replicate: Replicate, by: str) -> bool:
    margin, share = replicate.margins.get(by), replicate.shares.get(by)
    return (margin is not None and margin.mid < 0) or (
        share is not None and share.bad > share.limit * share.n
    )


def _without(replicates: Sequence[Replicate], n: int, refused: int) -> Judged:
    """Too few replicates count yet. More requests than a trial has are not to be had by repeating it."""
    lacking = [one for one in replicates if not one.counts]
    few = len(lacking) >= LEAST and all(one.too_few for one in lacking)
    told = Counter(
        (name, one.lacks.get(name, "REFUSED"))
        for one in lacking
        for name, margin in one.margins.items()
        if margin is None
    ).most_common(1)
    by, why = told[0][0] if told else ("", "")
    outcome: Outcome = "open" if refused > REPEATS or few else "more"
    return Judged(outcome, by, replicates=n, refused=refused, why=why, too_few=few)


def _of_margins(name: str, counted: Sequence[Replicate], looks: int) -> Judged:
    """`looks`: those of t, and the one of the signs."""
    found = [margin for one in counted if (margin := one.margins[name]) is not None]
    n = len(found)
    if any(one.mid == -inf for one in found):  # worse than any limit, and has no mean
        return Judged("broken" if all(one.mid < 0 for one in found) else "more", name, -inf)
    mean = sum(one.mid for one in found) / n
    scatter = max(sqrt(sum((one.mid - mean) ** 2 for one in found) / (n - 1)), NARROWEST)
    reach = _t(n - 1, ALPHA / looks) * scatter / sqrt(n)
    low = mean - reach - sum(one.mid - one.low for one in found) / n
    high = mean + reach + sum(one.high - one.mid for one in found) / n
    outcome: Outcome = "more"
    if high < 0:
        outcome = "broken"
    elif low > 0 or (low >= -INDIFFERENCE and high <= INDIFFERENCE):
        outcome = "kept"
    if outcome == "more" and (signs := _of_signs(found, looks)) is not None:
        side = "beyond" if signs == "broken" else "within"
        why = f"each of the first {sign_look(looks)} trials lies {side} the limit (sign test)"
        return Judged(signs, name, mean, low, high, why=why)
    return Judged(outcome, name, mean, low, high)


def sign_look(looks: int) -> int:
    """So many replicates, all on one side, are rare enough for one of so many looks: two-sided 2 · 2⁻ⁿ ≤ α / looks."""
    return ceil(log2(2 * looks / ALPHA))


def _of_signs(margins: Sequence[Margin], looks: int) -> Literal["kept", "broken"] | None:
    """The exact sign test (Arbuthnott 1710; Dixon and Mood 1946), once: of the first so many replicates, by the
    whole of each one's bounds. Later ones are not asked, which would be further looks."""
    first = margins[: sign_look(looks)]
    if len(first) < sign_look(looks):
        return None
    if all(one.high < 0 for one in first):
        return "broken"
    return "kept" if all(one.low > 0 for one in first) else None


def _of_share(name: str, counted: Sequence[Replicate], looks: int, most: int) -> Judged:
    """Counts of all replicates together against the limit, by Clopper and Pearson (1934): 2,995 requests
    without a failure show 99.9 %.

    Open where a level without any failure could not show it with all the replicates that it may have.
    """
    from scipy.stats import beta

    shares = [one.shares[name] for one in counted]
    bad, n, limit = sum(one.bad for one in shares), sum(one.n for one in shares), shares[0].limit
    if not n:
        return Judged("more", name)
    within = [one.within or (one.bad, one.bad) for one in shares]
    few, many = (sum(one[end] for one in within) for end in (0, 1))
    low = float(beta.ppf(ALPHA / looks, few, n - few + 1)) if few else 0.0
    high = float(beta.ppf(1 - ALPHA, many + 1, n - many)) if many < n else 1.0
    mean = log(limit / ((bad or 0.5) / n))
    judged = Judged("more", name, mean, log(limit / high), log(limit / low) if low > 0 else None)
    if low > limit:
        return replace(judged, outcome="broken")
    if high <= limit:
        return replace(judged, outcome="kept")
    wanted = requests_without_failure(limit)
    if not many and n * most < wanted * len(counted):
        told = f"{n:,} requests of {len(counted)} trials, none of them bad, are too few"
        why = f"{told} to show it: {wanted:,} are needed"
        return replace(judged, outcome="open", why=why, too_few=True)
    between = few <= limit * n < many
    return replace(judged, why="the limit lies within the bounds of its trials") if between else judged


def requests_without_failure(limit: float) -> int:
    """So many, none of them bad, show that at most this share is (0.001: 2,995)."""
    return int(log(ALPHA) / log(1 - limit)) + 1


@lru_cache(maxsize=256)
def _t(degrees: int, alpha: float) -> float:
    from scipy.stats import t

    return float(t.ppf(1 - alpha / 2, degrees))
