"""What of a lab may act outside it: options that can name a command, a file, a library, a user or an address."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from svload.lab.catalogue import all_kits
from svload.lab.kit import Kit, KitOptions
from svload.model.study import ServiceSpec

HARMLESS = frozenset(KitOptions.model_fields) - {"tuning"}
"""Options of every service: svload reads them itself."""
_PLAIN = re.compile(r"[A-Za-z0-9._%+:= *-]{0,200}")
"""A parameter's value that can neither end its line nor name a path."""
_MEDIA_TYPE = re.compile(r"(?<!\S)(application|audio|font|image|model|text|video)/[a-z0-9.+*-]{1,80}(?!\S)")
MOST_SHOWN = 120


def asks_trust(specs: Sequence[ServiceSpec]) -> list[str]:
    """What of these services needs the user's trust, such as `lab.app.run: ./server`; empty where nothing does.

    Hosts that a study names (`at:`) are no part of it: they need to be authorised.
    """
    found: list[str] = []
    for spec in specs:
        kind = all_kits().get(spec.kit)
        if kind is not None:
            found += [
                f"lab.{spec.name}.{key}: {_short(value)}" for key, value in _outside(kind, spec.options)
            ]
    return list(dict.fromkeys(found))


def _outside(kind: type[Kit], options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in options.items():
        if key == "tuning" and isinstance(value, Mapping):
            for name, setting in value.items():
                if name not in kind.harmless_tuning or not _is_plain(setting):
                    yield f"tuning.{name}", setting
        elif key not in HARMLESS | kind.harmless | kind.addresses:
            yield key, value


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return _PLAIN.fullmatch(_MEDIA_TYPE.sub("", value)) is not None
    return value is None or isinstance(value, bool | int | float)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} …"
