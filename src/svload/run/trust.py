"""Whose studies may run commands: those written by `init` here or confirmed once with --trust. Host state, never in the study."""

from __future__ import annotations

import json
from pathlib import Path

from svload.host import state_dir
from svload.model.errors import SvloadError
from svload.store import write_text
from svload.study import study_digest

_FILE = "trusted.json"


def trust(path: Path) -> None:
    """Remember the study at `path` as the user's own, as it stands now: an edited one is asked about again."""
    known = _known()
    known[str(path.resolve())] = study_digest(path)
    write_text(state_dir() / _FILE, json.dumps(known, indent=1))


def is_trusted(path: Path) -> bool:
    """Whether the study at `path` is known and unchanged since."""
    known = _known().get(str(path.resolve()))
    try:
        return known is not None and known == study_digest(path)
    except (SvloadError, OSError):
        return False


def _known() -> dict[str, str]:
    try:
        known = json.loads((state_dir() / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in known.items()} if isinstance(known, dict) else {}
