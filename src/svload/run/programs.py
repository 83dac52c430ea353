"""Whether a run that goes on would measure what it measured before: the programs of its study's folder."""

from __future__ import annotations

from pathlib import Path

from svload.model.facts import other_programs
from svload.model.study import Lock
from svload.run.configs import case_configs
from svload.store import RunDir, measured_programs
from svload.study import named_programs


def changed_programs(run: RunDir, lock: Lock) -> list[str]:
    """Programs that a server would be started from now, and that are not as the last sealed trial had them."""
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
