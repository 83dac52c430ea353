"""A study's planned comparisons as contrasts, and what their blocks and bring-ups can decide before
anything has run (docs/method.md §2).

Arithmetic on counts alone, so that `svload plan` answers without numpy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, expm1, log1p
from typing import TYPE_CHECKING, Any, NamedTuple

from svload.analysis import limits
from svload.model.results import Claim
from svload.model.study import CaseConfig, Comparison, Factor, Lock
from svload.model.units import show_percent
from svload.study.config import measure_of
from svload.study.order import control_level, is_split

if TYPE_CHECKING:
    from svload.analysis.floor import LabFloor

NO_LAST_RUN = "this lab's noise is unknown until a first run or A/A"
HARD = ("restart", "rebuild")
_MARGIN = re.compile(r"by more than (\d+(?:\.\d+)?) ?%")
Cell = tuple[str, ...]
"""Matched cases: (baseline's, treatment's); for an interaction (baseline's, treatment's, and both at the
first level of `by`)."""


@dataclass(frozen=True)
class Contrast:
    """A claim that the study plans to make: a treatment level against the baseline over matched cases, or how
    that effect differs at a level of `by`."""

    name: str
    comparison: Comparison
    treatment: str
    cells: tuple[Cell, ...]
    hard: bool
    by_levels: tuple[str, str] | None = None
    control: tuple[Cell, ...] = ()
    """for sides that take turns: each baseline with its second server; empty: the study has no control"""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Matched cases that differ in the compared factor alone; for an interaction, both pairs of each
        quadruple."""
        found = [pair for cell in self.cells for pair in zip(cell[::2], cell[1::2], strict=True)]
        return tuple(dict.fromkeys(found))

    @property
    def cases(self) -> tuple[str, ...]:
        """Every case that the contrast needs."""
        return tuple(dict.fromkeys(case for cell in (*self.cells, *self.control) for case in cell))

    @property
    def least_units(self) -> int:
        """The number of independent units that a claim needs: bring-ups for a factor that restarts services,
        else blocks."""
        return limits.CLAIM_BRING_UPS if self.hard else limits.CLAIM_BLOCKS


def contrasts_of(lock: Lock) -> tuple[Contrast, ...]:
    """Return the contrasts: one for each treatment, with matched cases pooled, or with `per: case` one for
    each matched cell. Their number is the size of the family in Holm's test."""
    return tuple(contrast for comparison in lock.comparisons for contrast in _contrasts(lock, comparison))


def _contrasts(lock: Lock, comparison: Comparison) -> Iterable[Contrast]:
    factors = {factor.name: factor for factor in lock.factors}
    factor = factors.get(comparison.factor)
    if factor is None:
        return
    control = control_level(comparison.baseline) if lock.measure.control else ""
    treatments = [level.name for level in factor.levels if level.name not in (comparison.baseline, control)]
    again = dict(matched_pairs(lock, comparison, control)) if control else {}
    by = factors.get(comparison.by) if comparison.by else None
    hard = factor.change in HARD or (by is not None and by.change in HARD)
    for treatment in treatments:
        name = comparison.name if len(treatments) == 1 else f"{comparison.name}: {treatment}"
        pairs = matched_pairs(lock, comparison, treatment)
        if by is None:
            for one in _named(name, comparison, treatment, pairs, hard, None):
                baselines = dict.fromkeys(cell[0] for cell in one.cells if cell[0] in again)
                yield replace(one, control=tuple((case, again[case]) for case in baselines))
            continue
        first, *others = [level.name for level in by.levels]
        for other in others:
            cells = _quadruples(lock, pairs, by, first, other)
            text = f"{name}, {by.name} {other} against {first}"
            yield from _named(text, comparison, treatment, cells, hard, (other, first))


def _named(
    name: str, comparison: Comparison, treatment: str, cells: Sequence[Cell], hard: bool, by: tuple[str, str] | None
) -> Iterable[Contrast]:  # fmt: skip
    if comparison.per == "case":
        for cell in cells:
            yield Contrast(f"{name} ({cell[1]} against {cell[0]})", comparison, treatment, (cell,), hard, by)
    else:
        yield Contrast(name, comparison, treatment, tuple(cells), hard, by)


def matched_pairs(lock: Lock, comparison: Comparison, treatment: str) -> list[tuple[str, str]]:
    """Return valid cases that differ in the compared factor alone."""
    by_levels = _by_levels(lock)
    pairs = []
    for case in lock.valid_cases:
        others = {name: level for name, level in case.levels.items() if name != comparison.factor}
        wanted = {name: level for name, level in comparison.when.items() if name != comparison.factor}
        if case.levels[comparison.factor] != comparison.baseline or any(
            others.get(name) != level for name, level in wanted.items()
        ):
            continue
        match = by_levels.get(_key({**case.levels, comparison.factor: treatment}))
        if match is not None:
            pairs.append((case.name, match))
    return pairs


def _quadruples(
    lock: Lock, pairs: Sequence[tuple[str, str]], by: Factor, first: str, other: str
) -> list[Cell]:
    """Return each pair at the level `other` of the factor `by`, with the same pair at its first level."""
    by_levels = _by_levels(lock)
    levels = {case.name: case.levels for case in lock.valid_cases}
    found: list[Cell] = []
    for pair in pairs:
        if levels[pair[0]][by.name] != other:
            continue
        against = [by_levels.get(_key({**levels[case], by.name: first})) for case in pair]
        if against[0] is not None and against[1] is not None:
            found.append((*pair, against[0], against[1]))
    return found


def _by_levels(lock: Lock) -> dict[tuple[tuple[str, str], ...], str]:
    return {_key(case.levels): case.name for case in lock.valid_cases}


def _key(levels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(levels.items()))


def wanted_widths(lock: Lock) -> dict[str, float]:
    """Map each contrast to half the width, in logarithms, that its interval should reach by adding blocks:
    that of `measure.until`, and for a gate 0.6 of its margin. Empty: only the planned blocks are run."""
    if not lock.measure.blocked:
        return {}
    found = {}
    for contrast in contrasts_of(lock):
        gate = _MARGIN.search(contrast.comparison.fail_if or "")
        wanted = [limits.GATE_WIDTH * log1p(float(gate[1]) / 100)] if gate else []
        wanted += [log1p(lock.measure.until)] if lock.measure.until is not None else []
        if wanted and contrast.cells:
            found[contrast.name] = min(wanted)
    return found


def most_blocks(lock: Lock) -> int:
    """Return the largest number of blocks to run: `measure.at_most`, else four times the planned number."""
    return lock.measure.at_most or limits.GATE_MOST * lock.measure.replicates


def most_trials(lock: Lock) -> int:
    """Return the number of trials with all blocks that `measure.until` or a gate may add; without either,
    that of the plan."""
    wide = wanted_widths(lock)
    cases = {case for contrast in contrasts_of(lock) if contrast.name in wide for case in contrast.cases}
    more = max(most_blocks(lock) - lock.measure.replicates, 0) * len(cases)
    return sum(measure_of(lock, case).replicates for case in lock.valid_cases) + more


def planned_blocks(lock: Lock, contrast: Contrast) -> int:
    """Return the number of blocks that hold every case of a contrast: the least number of replicates."""
    names = {name for cell in contrast.cells for name in cell}
    return min(
        (measure_of(lock, lock.case(name)).replicates for name in names), default=lock.measure.replicates
    )


def planned_units(lock: Lock, contrast: Contrast) -> tuple[int, int]:
    """Return (independent units that the plan gives a contrast, independent bring-ups).

    With fewer than six bring-ups, blocks that share one are separate units, and the claim holds for these
    bring-ups alone.
    """
    blocks = planned_blocks(lock, contrast)
    if contrast.hard or is_split(lock):
        return blocks, blocks
    bring_ups = min(lock.measure.bring_ups, blocks)
    return (bring_ups if bring_ups >= limits.CLAIM_BRING_UPS else blocks), bring_ups


def plan_comparisons(
    lock: Lock,
    before: Sequence[Claim] = (),
    floors: Callable[[Contrast], LabFloor | None] | None = None,
    configs: Mapping[str, CaseConfig] | None = None,
) -> list[dict[str, Any]]:
    """Return per planned contrast, before the run, what its blocks and bring-ups can decide.

    Keys: name, comparison, factor, baseline, treatment, metric, by, pairs (count of matched cells), blocks,
    units, bring_ups, claims, mde (relative effect; null with mde_reason), state ("decidable" | "undecidable"
    | "confounded"), reason and remedy (why no outcome could decide it, as a clause, and the edit that would
    fix it; empty: one could), needed_blocks, sentence. `before`: an earlier run's claims. `floors` finds a
    contrast's figures in an A/A certificate, which shows how much replicates differ where there is no last
    run. `configs` tell what levels change.
    """
    contrasts = contrasts_of(lock)
    return [
        _plan(lock, contrast, len(contrasts), before, floors(contrast) if floors else None, configs or {})
        for contrast in contrasts
    ]


class Hopeless(NamedTuple):
    """Why no outcome could decide a contrast, as a clause, and the one edit that would fix it."""

    state: str
    reason: str
    remedy: str


def hopeless(lock: Lock, contrast: Contrast, configs: Mapping[str, CaseConfig]) -> Hopeless | None:
    """Return what keeps a contrast open whatever is measured; None where it can be decided."""
    if not contrast.cells:
        return Hopeless("undecidable", "no cases match, so nothing can be compared", "Include more cases")
    if clause := confounding(configs, contrast.pairs):
        return Hopeless("confounded", f"confounded, {clause}", "Let its levels change only one thing")
    if not lock.measure.blocked:
        reason = "undecidable, because trials run as listed: drift would be part of any difference"
        return Hopeless("undecidable", reason, "Remove order: as-listed")
    if planned_units(lock, contrast)[0] < contrast.least_units:
        blocks, what = planned_blocks(lock, contrast), "bring-ups" if contrast.hard else "blocks"
        reason = f"undecidable with {_count(blocks, 'block')}; needs at least {contrast.least_units} {what}"
        return Hopeless("undecidable", reason, f"Use at least {contrast.least_units} replicates")
    return None


def _head(lock: Lock, contrast: Contrast) -> str:
    of = "quadruple" if contrast.by_levels else "matched case"
    cells, blocks = _count(len(contrast.cells), of), _count(planned_blocks(lock, contrast), "block")
    return f"{contrast.name}: {contrast.comparison.metric}, {cells} in {blocks}"


def _plan(
    lock: Lock,
    contrast: Contrast,
    claims: int,
    before: Sequence[Claim],
    floor: LabFloor | None,
    configs: Mapping[str, CaseConfig],
) -> dict[str, Any]:
    blocks = planned_blocks(lock, contrast)
    units, bring_ups = planned_units(lock, contrast)
    why_not = hopeless(lock, contrast, configs)
    mde, reason = (
        _expected_mde(contrast, (units, bring_ups), claims, before, floor)
        if why_not is None
        else (None, why_not.reason)
    )
    return {
        "name": contrast.name,
        "comparison": contrast.comparison.name,
        "factor": contrast.comparison.factor,
        "baseline": contrast.comparison.baseline,
        "treatment": contrast.treatment,
        "metric": contrast.comparison.metric,
        "by": contrast.comparison.by,
        "pairs": len(contrast.cells),
        "blocks": blocks,
        "units": units,
        "bring_ups": bring_ups,
        "claims": claims,
        "mde": mde,
        "mde_reason": reason,
        "state": why_not.state if why_not else "decidable",
        "reason": why_not.reason if why_not else "",
        "remedy": why_not.remedy if why_not else "",
        "needed_blocks": contrast.least_units,
        "sentence": _planned_sentence(lock, contrast, (units, bring_ups), why_not, mde, reason),
    }


def _planned_sentence(
    lock: Lock,
    contrast: Contrast,
    units_and_bring_ups: tuple[int, int],
    why_not: Hopeless | None,
    mde: float | None,
    reason: str,
) -> str:
    bring_ups, blocks = units_and_bring_ups[1], planned_blocks(lock, contrast)
    head = _head(lock, contrast)
    if why_not is not None:
        return f"{head}: {why_not.reason}."
    detects = f"detects {show_percent(mde)} or more" if mde is not None else f"minimum detectable effect unknown: {reason}"  # fmt: skip
    parts = [f"{head}: decidable, {detects}."]
    if wanted := wanted_widths(lock).get(contrast.name):
        parts.append(
            f"Blocks are added until its interval is ± {show_percent(expm1(wanted), 2)}, at most {most_blocks(lock)}."
        )
    if lock.measure.order == "turns" and not is_split(lock):
        parts.append("The result holds for these running servers only.")
    elif bring_ups < limits.CLAIM_BRING_UPS and bring_ups < blocks:
        of_these = "this one bring-up" if bring_ups == 1 else f"these {bring_ups} bring-ups"
        parts.append(
            f"The result holds for {of_these} only; bring_ups: {limits.CLAIM_BRING_UPS} would make it general."
        )
    return " ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _expected_mde(
    contrast: Contrast,
    units_and_bring_ups: tuple[int, int],
    claims: int,
    earlier: Sequence[Claim],
    floor: LabFloor | None,
) -> tuple[float | None, str]:
    """Return (minimum detectable effect or None, why). An effect below the lab's own noise floor is no claim,
    however many blocks there are."""
    units, bring_ups = units_and_bring_ups
    before = next((claim for claim in earlier if claim.name == contrast.name), None)
    if before is None and floor is None:
        return None, NO_LAST_RUN
    from svload.analysis.inference import least_detectable, sd_of_interval

    low, high = (before.single or (before.ratio.low, before.ratio.high)) if before else (None, None)
    sd = floor.floor.sd if floor else None
    if before is not None and low is not None and high is not None:
        sd = sd_of_interval(low, high, before.blocks)
    mde = None if sd is None else least_detectable(sd, units, claims)
    if mde is None:
        return None, NO_LAST_RUN
    return max(mde, exp(floor.of_mean(units, bring_ups)) - 1 if floor else 0.0), ""


LIMITS = frozenset({"cpus", "memory", "pids", "nofile", "nofile_hard", "link", "disk_rate"})
"""Options of every service that only say how much it may use."""
_PARTS = {
    "objects": "data",
    "tables": "tables",
    "feeders": "feeders",
    "set_up": "setup",
    "groups": "traffic",
    "before_trial": "before_trial",
}


def confounding(configs: Mapping[str, CaseConfig], pairs: Iterable[tuple[str, str]]) -> str:
    """Return why a limit's effect cannot be isolated, as a clause; empty where levels change only limits, or
    no limit. A factor that changes a limit together with something else: no number of blocks can tell which
    of the two had the effect (docs/method.md §2).

    A parameter set is one treatment: what it changes counts as one thing, and a claim is about the set as a
    whole.
    """
    for before, after in pairs:
        if before not in configs or after not in configs:
            continue
        old, new = configs[before], configs[after]
        changed = list(_changed(old, new))
        if old.set_name != new.set_name and {*old.tuned, *new.tuned}.issuperset(changed):
            continue  # two parameter sets make the whole difference
        held = [name for name in changed if name.rpartition(".")[2] in LIMITS]
        others = [name for name in changed if name not in held]
        if held and others:
            changes = f"its levels change {', '.join(held)} and {', '.join(others)} at once"
            return f"{changes}, and what caused a difference can't be known"
    return ""


def _changed(before: CaseConfig, after: CaseConfig) -> Iterator[str]:
    """Return what differs between two cases: `service.option`, else the part of the study."""
    old = {service.name: service for service in before.services}
    new = {service.name: service for service in after.services}
    for name in old.keys() | new.keys():
        if name not in old or name not in new or old[name].kit != new[name].kit:
            yield name
            continue
        options = (old[name].options, new[name].options)
        yield from sorted(
            f"{name}.{key}"
            for key in options[0].keys() | options[1].keys()
            if options[0].get(key) != options[1].get(key)
        )
    yield from (text for part, text in _PARTS.items() if getattr(before, part) != getattr(after, part))
