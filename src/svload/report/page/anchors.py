"""Permanent ids: a case's own name where it can be one, so that `report.html#TC7` stays true,
and `#TC7.time` for a part of it."""

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
        """The id of a name (an owner and its part: with a dot between): itself, or its plain part with a
        hash where links lose characters."""
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
