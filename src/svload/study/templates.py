"""Texts that a request fills in, split at references to rows, variables and values of every request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from svload.model.traffic import FeederPart, Part, TakenPart, Template, Text, VarPart
from svload.study.references import COLUMNS, RAW, REFERENCE, REQUEST_TIME


@dataclass(frozen=True)
class Names:
    """Names that a request of this case may use."""

    services: Collection[str]
    feeders: Mapping[str, tuple[str, ...] | None]
    variables: Collection[str] = ()
    sets: Collection[str] = ()
    """Feeders of written objects."""


def template(text: str, names: Names) -> Template:
    """Split `text` at its request-time references; `$${` is a literal `${`. Raises ValueError for others."""
    parts: list[Part] = []
    literal = ""
    at = 0
    for match in REFERENCE.finditer(text):
        literal += text[at : match.start()]
        at = match.end()
        if match[1]:
            literal += match[0][1:]
            continue
        if literal:
            parts.append(Text(text=literal))
            literal = ""
        parts.append(part_of(match[2].strip(), names))
    literal += text[at:]
    return (*parts, Text(text=literal)) if literal else tuple(parts)


def part_of(reference: str, names: Names) -> FeederPart | VarPart | TakenPart:
    """Return the part for a reference in a request. Raises ValueError for an unknown reference."""
    bare = reference.removesuffix(RAW)
    raw = bare != reference
    head, _, column = bare.partition(".")
    if head in names.sets and column in COLUMNS:
        # The path of a written object is the one that it was sent to, already encoded.
        return TakenPart(taken=bare, raw=raw or column == "path")
    if head in names.feeders and column and column in (names.feeders[head] or (column,)):
        return FeederPart(feeder=head, column=column, raw=raw)
    if bare in names.variables:
        return TakenPart(taken=bare, raw=raw)
    if bare in REQUEST_TIME:
        return VarPart.model_validate({"var": bare, "raw": raw})
    raise ValueError(f"${{{reference}}} is not known to any request")
