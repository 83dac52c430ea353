"""Permanent ids: a case's own name if possible, so that `report.html#TC7` stays valid, and `#TC7.time` for a
part of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[^A-Za-z0-9_.\-]+")
_LONGEST = 60


class Anchors:
    """Unique ids by name, or by owner and part. The same names in the same order give the same ids."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in reserved}
        self._ids: dict[tuple[str, ...], str] = {}

    def __call__(self, *name: str) -> str:
        """Return the id of a name (owner and part are joined with a dot): itself, or its plain part with a
        hash if links would lose characters."""
        if name not in self._ids:
            self._ids[name] = self._new(".".join(name))
        return self._ids[name]

    def _new(self, name: str) -> str:
        plain = _PLAIN.sub("-", name).strip("-.")
        if plain != name or not plain[:1].isalpha() or len(plain) > _LONGEST:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            plain = f"c-{plain[: _LONGEST - 12]}-{digest}" if plain else f"c-{digest}"
        found, number = plain, 2
        while found.lower() in self._taken:
            found, number = f"{plain}-{number}", number + 1
        self._taken.add(found.lower())
        return found
