"""Paths and queries of URLs as people type them."""

from __future__ import annotations

import re
from urllib.parse import quote

_STAYS = "!$%&'()*+,/:;=?@[\\]|~#"
"""What browsers and curl leave in a path unencoded, besides letters, digits and `-._~`."""
_STAYS_IN_QUERY = f"{_STAYS}^`{{}}"
_DOTS = {".": 1, "%2e": 1, "..": 2, ".%2e": 2, "%2e.": 2, "%2e%2e": 2}
_REFERENCE = re.compile(r"(\$\{[^{}]*\})")


def sent_as(typed: str) -> str:
    """Return path and query as browsers and curl send what was `typed`: without dot segments, and
    percent-encoded.

    `/straße/../a b` → `/a%20b`; existing encoding stays. A `${…}` stays too, and no `..` removes one.
    """
    path, mark, query = typed.partition("?")
    return f"{encoded(_without_dots(path), _STAYS)}{mark}{encoded(query, _STAYS_IN_QUERY)}"


def encoded(text: str, stays: str = _STAYS) -> str:
    """Return `text` percent-encoded, except for `stays` and its references."""
    pieces = _REFERENCE.split(text)
    return "".join(
        piece if at % 2 else quote(piece, safe=stays, errors="surrogatepass")
        for at, piece in enumerate(pieces)
    )


def _without_dots(path: str) -> str:
    """Remove dot segments (RFC 3986 §5.2.4)."""
    root, *segments = path.split("/")
    kept: list[str] = []
    for at, segment in enumerate(segments):
        dots = _DOTS.get(segment.lower(), 0)
        of_a_value = bool(_REFERENCE.search(kept[-1] if kept else root))
        if not dots or (dots == 2 and of_a_value):
            kept.append(segment)
            continue
        if dots == 2:
            kept = kept[:-1]
        if at + 1 == len(segments):
            kept.append("")
    return "/".join([root, *kept])
