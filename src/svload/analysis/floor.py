"""The lab's own noise (docs/method.md §2): how far two trials of the same thing differ, per metric and load,
and how much of an effect exceeds that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from svload.analysis import limits
from svload.analysis.claims.pairs import number_of, percentile_of
from svload.analysis.claims.statistic import weights
from svload.analysis.contrasts import Contrast
from svload.analysis.inference import t_reach
from svload.model.certificates import AaCertificate, Floor
from svload.model.results import TrialResult
from svload.model.study import CaseConfig, Lock
from svload.study.check import owners_of


@dataclass(frozen=True)
class LabFloor:
    """What a certificate states for one comparison. `restarts`: each of its trials had a bring-up, so that
    its noise includes that of bring-ups."""

    floor: Floor
    restarts: bool = False

    def of_mean(self, units: int, bring_ups: int) -> float:
        """Return the |log ratio| that the mean over this many independent units, from this many bring-ups,
        stays below in 95 % of A/A comparisons.

        For one unit that is the floor itself. A mean's standard error is that of one pair over √n, where n
        counts independent draws of the noise: bring-ups where the certificate's noise includes theirs, else
        units; cases of one unit share its noise and count once. The pairs' scatter is an estimate, so the
        reach is Student's t with the degrees of freedom that they leave, and at least the quantile that they
        show.
        """
        n = max(min(units, bring_ups) if self.restarts else units, 1)
        if n == 1:
            return self.floor.floor
        reach = t_reach(self.floor.pairs - 1) * self.floor.sd
        return min(max(self.floor.floor, reach) / sqrt(n), self.floor.floor)


def load_of(config: CaseConfig) -> str:
    """Describe a case's load in words that are equal for equal loads: its groups with their executors."""
    words = (
        f"{group.name}: {group.executor.model_dump_json()} {group.connection}" for group in config.groups
    )
    return "; ".join(sorted(words))


def one_case_a_load(configs: Mapping[str, CaseConfig]) -> tuple[str, ...]:
    """Return the first case of each load: the cases that an A/A run repeats."""
    first: dict[str, str] = {}
    for name, config in configs.items():
        first.setdefault(load_of(config), name)
    return tuple(first.values())


def floors_of(configs: Mapping[str, CaseConfig], trials: Iterable[TrialResult]) -> tuple[Floor, ...]:
    """Compute floors from an A/A run, in which replicates 2k − 1 and 2k of a case are a pair. Strangers'
    share of the machine weighs a pair, as in a comparison.

    A metric has no floor where it is missing or 0 in any pair that counts, or has fewer than `AA_PAIRS`
    pairs. From `AA_CERTIFIED` pairs on the floor is their maximum, and certified; below, their 95 % quantile,
    and estimated.
    """
    by_pair: dict[tuple[str, int], list[TrialResult]] = {}
    for trial in trials:
        if trial.case in configs:
            by_pair.setdefault((trial.case, (trial.replicate + 1) // 2), []).append(trial)
    found: list[Floor] = []
    for case in one_case_a_load(configs):
        pairs = [two for (name, _), two in sorted(by_pair.items()) if name == case and len(two) == 2]
        found += _floors(load_of(configs[case]), pairs)
    return tuple(found)


def _floors(load: str, pairs: Sequence[Sequence[TrialResult]]) -> list[Floor]:
    floors = []
    for metric in dict.fromkeys(name for two in pairs for trial in two for name in trial.metrics):
        numbers = [[number_of(trial, trial.case, metric, randomised=True) for trial in two] for two in pairs]
        whole = [two for two in numbers if not any(one.state in ("lost", "missing") for one in two)]
        if len(whole) < limits.AA_PAIRS or any(one.state != "number" for two in whole for one in two):
            continue
        ratios = np.array([two[1].log - two[0].log for two in whole])
        x = np.array([[np.nan if one.strangers is None else one.strangers for one in two] for two in whole])
        weight = np.ones(len(whole)) if np.isnan(x).any() else weights(x[None], percentile_of(metric))[0]
        centre = float(np.average(ratios, weights=weight))
        certified = len(ratios) >= limits.AA_CERTIFIED
        floors.append(
            Floor(
                load=load,
                metric=metric,
                pairs=len(ratios),
                floor=_quantile(np.abs(ratios), weight, 1.0 if certified else limits.AA_QUANTILE),
                sd=sqrt(
                    float(np.average((ratios - centre) ** 2, weights=weight)) * len(whole) / (len(whole) - 1)
                ),
                certified=certified,
                strangers=None if np.isnan(x).any() else float(np.average(x.max(axis=1), weights=weight)),
            )
        )
    return floors


def _quantile(values: NDArray[np.float64], weight: NDArray[np.float64], p: float) -> float:
    """Return the least value such that the share `p` of all weight lies at or below it."""
    order = np.argsort(values)
    reached = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][min(int(np.searchsorted(reached, p - 1e-9)), len(values) - 1)])


def floor_of(
    certificate: AaCertificate | None, lock: Lock, contrast: Contrast, configs: Mapping[str, CaseConfig]
) -> LabFloor | None:
    """Return the largest floor of a comparison's metric over the loads of its cases; None if any load has
    none."""
    from svload.analysis.criteria import metric_of

    if certificate is None:
        return None
    owners = owners_of(lock.source)
    known = {(floor.load, floor.metric): floor for floor in certificate.floors}
    cases = {case for case in contrast.cases if case in configs}
    found = [
        known.get((load_of(configs[case]), str(metric_of(contrast.comparison.metric, configs[case], owners))))
        for case in cases
    ]
    whole = [floor for floor in found if floor is not None]
    if not whole or len(whole) < len(found):
        return None
    return LabFloor(max(whole, key=lambda floor: floor.floor), certificate.restarts)
