"""Copies of artefacts with changed fields, to plant faults in a trial, a claim or a study."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


def evolve(artefact: T, /, **fields: Any) -> T:
    """Return a copy with these fields; `verdict__server` is the field `server` of the field `verdict`."""
    own = {name: value for name, value in fields.items() if "__" not in name}
    within: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        outer, nested, inner = name.partition("__")
        if nested:
            within.setdefault(outer, {})[inner] = value
    own |= {name: evolve(getattr(artefact, name), **inner) for name, inner in within.items()}
    if isinstance(artefact, BaseModel):
        return artefact.model_copy(update=own)
    return replace(artefact, **own)
