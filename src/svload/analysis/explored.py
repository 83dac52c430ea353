"""The effect of the load itself where no planned comparison covers it: described over matched cases, marked
exploratory, without a p (docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp

from svload.analysis import limits
from svload.analysis.claims.evidence import Shown, shown
from svload.analysis.claims.pairs import Gathered, Made, gather
from svload.analysis.contrasts import HARD, Contrast, matched_pairs
from svload.model.results import CaseResult, Finding, TrialResult
from svload.model.study import CaseConfig, Comparison, Factor, Lock
from svload.model.units import show_percent

EXPLORATORY = "exploratory"
_METRIC = "response.p50"


def load_effects(
    lock: Lock,
    configs: Mapping[str, CaseConfig],
    cases: Sequence[CaseResult],
    trials: Sequence[TrialResult],
    made: Mapping[str, Made],
) -> tuple[Finding, ...]:
    """Return a finding for each level of a factor that adds traffic beside the main group, where the study
    makes no comparison over such a factor.

    Pairs and cases are left out by the same rules as in a claim; with fewer units than are needed to describe
    a case, nothing is reported.
    """
    planned = {comparison.factor for comparison in lock.comparisons}
    found = []
    for factor in lock.factors:
        for contrast in () if factor.name in planned else _contrasts(lock, factor, configs):
            gathered = gather(lock, contrast, configs, trials, made)
            effect = shown(gathered, blocked=True)
            if effect.mean is not None and not gathered.late_pairs and effect.units >= limits.DESCRIBE_BLOCKS:
                found.append(_finding(contrast, gathered, effect, configs, cases))
    return tuple(found)


def _contrasts(lock: Lock, factor: Factor, configs: Mapping[str, CaseConfig]) -> Iterator[Contrast]:
    """Contrast every other level with the one without the traffic; none where every level has it."""
    levels = [level.name for level in factor.levels]
    for baseline in levels:
        comparison = Comparison(
            name=f"load: {factor.name}", factor=factor.name, baseline=baseline, metric=_METRIC
        )
        pairs = {level: matched_pairs(lock, comparison, level) for level in levels if level != baseline}
        every = [pair for found in pairs.values() for pair in found]
        if every and all(_adds_load(*(configs.get(name) for name in pair)) for pair in every):
            for level, found in pairs.items():
                yield Contrast(comparison.name, comparison, level, tuple(found), factor.change in HARD)
            return


def _adds_load(before: CaseConfig | None, after: CaseConfig | None) -> bool:
    """Return whether the second case has all the traffic of the first and more, and the same main group under
    the same load."""
    if before is None or after is None:
        return False
    mine, theirs = ({group.name: group for group in config.groups} for config in (before, after))
    main = before.main_group
    return (
        set(mine) < set(theirs) and after.main_group == main and mine[main].executor == theirs[main].executor
    )


def _finding(
    contrast: Contrast,
    gathered: Gathered,
    effect: Shown,
    configs: Mapping[str, CaseConfig],
    cases: Sequence[CaseResult],
) -> Finding:
    comparison = contrast.comparison
    kept = [cell for cell, stays in zip(gathered.cells, effect.effect.kept, strict=True) if stays]
    pairs = [(cell[0], cell[1]) for cell in kept]
    group = configs[pairs[0][0]].main_group
    ratio = exp(effect.mean or 0.0)
    count = f"{len(pairs)} matched case{'' if len(pairs) == 1 else 's'}"
    parts = [
        f"The load itself ({comparison.factor}: {contrast.treatment} against {comparison.baseline}): the "
        f"median response of {group} is "
        f"{ratio:.3g} × as long, over {count} and {len(gathered.evidence)} pairs in {effect.units} "
        f"{'bring-ups' if gathered.is_bring_up else 'blocks'}{_spread(pairs, configs, cases)}."
    ]
    parts += success_words(comparison.baseline, contrast.treatment, gathered.success)
    parts.append("Exploratory: not a planned comparison, so it has no p.")
    return Finding(
        kind=EXPLORATORY,
        sentence=" ".join(parts),
        evidence=tuple(dict.fromkeys(f"cases/{name}" for pair in pairs for name in pair)),
        certainty=EXPLORATORY,
    )


def _spread(
    pairs: Sequence[tuple[str, str]], configs: Mapping[str, CaseConfig], cases: Sequence[CaseResult]
) -> str:
    by_name = {case.case: case.metrics for case in cases}
    ratios = {}
    for pair in pairs:
        both = [by_name[name].get(f"{configs[name].main_group}.{_METRIC}") for name in pair]
        before, after = (one.value if one else None for one in both)
        if before and after:
            ratios[pair] = after / before
    if len(ratios) < 2:
        return ""
    least, most = (pick(ratios, key=ratios.__getitem__) for pick in (min, max))
    texts = (f"{ratios[pair]:.3g} × ({pair[1]} against {pair[0]})" for pair in (least, most))
    return f", from {' to '.join(texts)}"


def success_words(baseline: str, treatment: str, success: tuple[float | None, float | None]) -> list[str]:
    """Judge time and success together (docs/method.md §2): return a sentence where success differs."""
    before, after = success
    if before is None or after is None or abs(before - after) < limits.SUCCESS_DIFFERS:
        return []
    return [
        f"Success differs: {show_percent(after, 4)} with {treatment}, {show_percent(before, 4)} with "
        f"{baseline}; failures rank above every limit."
    ]
