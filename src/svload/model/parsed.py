"""JSON from files that svload did not write itself, or that a disk or another user may have changed since."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError also for text nested far too deeply, where json raises RecursionError."""
    try:
        return json.loads(text)
    except RecursionError as why:
        raise ValueError("nested too deeply") from why
