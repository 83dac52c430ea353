"""Configurations of cases from a lock: the only way, used for planning, running and judging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from svload import study

if TYPE_CHECKING:
    from svload.model.plan import Point
    from svload.model.study import Case, CaseConfig, Lock, ServiceSpec

_latest: tuple[Any, dict[str, CaseConfig]] = (None, {})
"""What they were made from, and the configurations made last: a command asks for them a dozen times."""


def case_configs(lock: Lock) -> dict[str, CaseConfig]:
    """Return the configuration of each valid case, by its name."""
    global _latest
    made_from = (lock.source, lock.factors, lock.cases, lock.measure, lock.study_dir, lock.plants)
    if _latest[0] != made_from:
        _latest = made_from, {case.name: _config(lock, case, None) for case in lock.valid_cases}
    return dict(_latest[1])


def case_labs(lock: Lock) -> list[tuple[ServiceSpec, ...]]:
    """Return the services of each different lab: a case may have kits of its own."""
    return list({repr(config.services): config.services for config in case_configs(lock).values()}.values())


def case_config(lock: Lock, case: Case, at: Point | None = None) -> CaseConfig:
    """Return a case's configuration at a point, with its planted fault: the basis for judging its trials."""
    as_locked = at is None or (not at.values and at.duration_ns is None)
    found = case_configs(lock).get(case.name) if as_locked else None
    return found or _config(lock, case, at)


def _config(lock: Lock, case: Case, at: Point | None) -> CaseConfig:
    from svload.run.faults import planted_config

    config = study.resolve(lock, case) if at is None else study.resolve(lock, case, at)
    return planted_config(config, lock.plants.get(case.name))
