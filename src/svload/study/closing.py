"""A study whose open factor has been measured somewhere: those values are its levels, and each a case of its own."""

from __future__ import annotations

from collections.abc import Iterable

from svload.model.plan import Batch
from svload.model.study import Case, Level, Lock
from svload.study.factors import level_name


def closed(lock: Lock, batches: Iterable[Batch]) -> Lock:
    """The lock with the values that batches chose as levels; itself where it has no open
    factor, or nothing was chosen yet.

    So whatever reads a run finds factors, levels and cases, and nothing that is open. A search has
    one case beside its open factor.
    """
    searched = [factor.name for factor in lock.factors if factor.open is not None]
    chosen = {trial.case: trial.at.values for batch in batches for trial in batch.trials if trial.at.values}
    if not searched or not chosen:
        return lock
    factors = tuple(
        factor
        if factor.open is None
        else factor.model_copy(
            update={
                "open": None,
                "levels": tuple(
                    Level(name=level_name(value), value=value)
                    for value in sorted({values[factor.name] for values in chosen.values()})
                ),
            }
        )
        for factor in lock.factors
    )
    (base,) = lock.valid_cases
    ordered = sorted(chosen.items(), key=lambda one: tuple(one[1][name] for name in searched))
    cases = [
        _case(base, name, {key: level_name(value) for key, value in values.items()})
        for name, values in ordered
    ]
    return lock.model_copy(update={"factors": factors, "cases": tuple(cases)})


def _case(base: Case, name: str, levels: dict[str, str]) -> Case:
    return base.model_copy(update={"name": name, "levels": base.levels | levels})
