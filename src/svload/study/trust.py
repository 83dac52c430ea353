"""What of a study runs code that is not svload's own."""

from __future__ import annotations

from pathlib import Path

from svload.model.study import Lock
from svload.study.config import resolve

CODE_FOLDERS = ("kits", "monitors", "checks", "reporters")


def needs_trust(lock: Lock) -> list[str]:
    """The study's own commands (`run: …` as each case resolves it) and the code in its folder; empty if it has neither."""
    found = []
    for case in lock.valid_cases:
        for service in resolve(lock, case).services:
            if service.kit == "command":
                found.append(f"run: {service.options.get('run')}")
    folder = Path(lock.study_dir)
    for kind in CODE_FOLDERS:
        found += [str(path) for path in sorted((folder / kind).glob("*.py"))]
    return list(dict.fromkeys(found))
