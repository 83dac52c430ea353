"""Checks whether a resumed run would measure the same as before: the programs in its study's folder."""

from __future__ import annotations

from pathlib import Path

from svload.model.facts import other_programs
from svload.model.study import Lock
from svload.run.configs import case_configs
from svload.store import RunDir, measured_programs
from svload.study import named_programs


def changed_programs(run: RunDir, lock: Lock) -> list[str]:
    """Return programs that a server would now be started from and that differ from those of the last sealed
    trial."""
    measured = measured_programs(run)
    if not measured:
        return []
    folder = Path(lock.study_dir).absolute()
    services = {repr(one): one for config in case_configs(lock).values() for one in config.services}
    now = {
        name: digest
        for service in services.values()
        for name, digest in named_programs(folder, service.options).items()
    }
    gone = {name: "" for name in measured if not (folder / name).exists()}
    return other_programs(measured, gone | now)
