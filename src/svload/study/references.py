"""`${factor}`, `${factor.field}` and references only a request can resolve: found, explained, resolved.

A reference that is a whole scalar keeps its value's type; inside a text it is formatted. `$${` is a literal
`${`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from svload.model.bounds import TEXT_BYTES
from svload.model.study import Factor, Level
from svload.study.mistakes import Mistake, bad_reference, bad_value, closest, listed
from svload.study.tree import UNQUOTED, Path, WrittenFloat, WrittenInt

REFERENCE = re.compile(r"\$(\$?)\{([^{}]*)\}")
_BEGUN = re.compile(r"\$\{(?<!\$\$\{)")
REQUEST_TIME = ("request.id", "vu", "iteration")
RAW = ":raw"
"""The suffix of a reference in a request whose value is sent without encoding."""
PORT = "port"
OF_A_COMMAND = (PORT, "host", "build", "files", "replica")
"""What a service knows about itself once it starts; `port.NAME` is one of its further ports."""
COLUMNS = ("path", "size_bytes", "digest")
"""The columns of a table of objects."""
_NOT_SENT = frozenset({"check", "expect_status", "random", "read", "renew", "think_time", "timeout"})
"""Keys of requests and steps whose texts are read here, as numbers among others."""
MAX_NESTING = 8
Stays = Callable[[str], bool]


class _Missing:
    """This level has no such field."""


MISSING = _Missing()


@dataclass(frozen=True)
class Vocabulary:
    """Every name a study's references may use. A factor whose text is broken (`unsure`) may have any
    field."""

    factors: Mapping[str, Factor]
    feeders: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Each feeder's columns; None: any (they are in a file that was read when the study was checked)."""
    unsure: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    """Variables that requests take from their answers."""
    services: frozenset[str] = frozenset()
    """Names of the lab's services: their values, such as `db.port`, are known once they run."""

    def fields_of(self, factor: str) -> set[str]:
        """Return fields that at least one level has."""
        return {name for level in self.factors[factor].levels for name in level.fields}


@dataclass(frozen=True)
class Allowed:
    """What is allowed in a part of the study besides factors."""

    request_time: bool = False
    lab: bool = False

    def words(self, vocabulary: Vocabulary) -> set[str]:
        """Return the references that stay in the text; a factor of the same name takes precedence."""
        words = set(OF_A_COMMAND) - set(vocabulary.factors) if self.lab else set()
        if self.request_time:
            words |= set(REQUEST_TIME)
            words |= vocabulary.variables
            words |= {
                f"{feeder}.{column}"
                for feeder, columns in vocabulary.feeders.items()
                for column in columns or ()
            }
        return words

    def keeps(self, vocabulary: Vocabulary) -> Callable[[str], bool]:
        """Return whether a reference stays in the text."""
        words = self.words(vocabulary)
        free = {name for name, columns in vocabulary.feeders.items() if columns is None and self.request_time}
        if self.lab:
            free |= (vocabulary.services | {PORT}) - set(vocabulary.factors)

        def stays(reference: str) -> bool:
            bare = reference.removesuffix(RAW) if self.request_time else reference
            head, _, column = bare.partition(".")
            return bare in words or (head in free and bool(column))

        return stays


NOTHING_ELSE, IN_REQUESTS, IN_LAB = Allowed(), Allowed(request_time=True), Allowed(lab=True)


def allowed_at(path: Path) -> Allowed:
    """Return what is allowed at `path`: requests know feeders' rows, a service its port and others'."""
    in_group = path[:1] == ("traffic",) and path[2:3] in (("request",), ("scenario",))
    if path[:1] in (("requests",), ("scenarios",), ("setup",)) or in_group:
        return IN_REQUESTS
    in_set = path[:1] == ("sets",) and path[2:3] == ("lab",)
    return IN_LAB if path[:1] == ("lab",) or in_set else NOTHING_ELSE


def _is_exact(path: Path) -> bool:
    """Return whether the text at `path` is part of what a request sends, or of a command: a number in it must
    look as it is written."""
    if path[:1] == ("lab",):
        return path[2:3] in (("run",), ("environment",))
    return allowed_at(path).request_time and _NOT_SENT.isdisjoint(path[2:])


def origin_of(reference: str, levels: Mapping[str, Level]) -> Path | None:
    """Return the path of the level, or its field, that a reference names; None if it names no factor."""
    factor, _, field = reference.strip().partition(".")
    level = levels.get(factor)
    return ("factors", factor, level.name, *(field.split(".") if field else ())) if level else None


def references_in(text: str) -> Iterator[str]:
    """Return the inner texts of all references, without escaped ones."""
    for match in REFERENCE.finditer(text):
        if not match[1]:
            yield match[2].strip()


def refers(value: object) -> bool:
    """Return whether a text contains a reference; an escaped one does not count."""
    return isinstance(value, str) and next(references_in(value), None) is not None


def unclosed(path: Path, text: str) -> Mistake | None:
    """Return the mistake of a `${` that is not closed, or that contains another."""
    begun = _BEGUN.search(REFERENCE.sub(lambda match: " " * len(match[0]), text))
    if begun is None:
        return None
    return bad_reference(
        path, text[begun.start() :], "It has no closing “}”; for a literal “${” write “$${”."
    )


def explain(reference: str, vocabulary: Vocabulary, allowed: Allowed) -> tuple[str, str | None] | None:
    """Return why no level can resolve `reference`, and which one was probably meant; None if one can."""
    words = allowed.words(vocabulary)
    head, _, rest = reference.partition(".")
    if allowed.keeps(vocabulary)(reference) or head in vocabulary.unsure:
        return None
    if head in vocabulary.factors:
        known = vocabulary.fields_of(head)
        if not rest or rest.partition(".")[0] in known | {"value"}:
            return None
        if not known:
            return f"The levels of {head} have no fields.", head
        return _suggestion(reference, {f"{head}.{field}" for field in known})
    if head in vocabulary.feeders:
        if not allowed.request_time:
            return "Only a request knows a feeder's row.", None
        return _suggestion(
            reference, {f"{head}.{column}" for column in vocabulary.feeders[head] or ("COLUMN",)}
        )
    if reference in REQUEST_TIME or reference in vocabulary.variables:
        return "Only a request knows it.", None
    fields = {f"{factor}.{field}" for factor in vocabulary.factors for field in vocabulary.fields_of(factor)}
    hint, meant = _suggestion(reference, fields | words | set(vocabulary.factors))
    if meant is None and head == "secret" and rest and allowed.request_time:
        hint = f"Name the environment variable that holds it: secrets: {{{rest}: {rest.upper()}}}."
    return hint, meant


def _suggestion(reference: str, known: set[str]) -> tuple[str, str | None]:
    meant = closest(reference, known)
    if meant is None and not known:
        return "Nothing here defines it: it may be the name of a factor, under factors.", None
    if meant is None:
        return listed(f"${{{word}}}" for word in known), None
    return f"Did you mean “${{{meant}}}”?", meant


def level_value(level: Level) -> Any:
    """Return the value of `${factor}`: a value, or the name of a level with fields (unless one is
    `value`)."""
    return level.fields.get("value", level.name) if level.fields or level.value is None else level.value


@dataclass
class Resolver:
    """Puts one case's levels into a part of the study and collects what cannot be resolved.

    `stays` decides which references are left in the text (request-time ones, `${port}`, `${db.port}`).
    """

    levels: Mapping[str, Level]
    vocabulary: Vocabulary
    mistakes: list[Mistake] = field(default_factory=list)
    made: int = 0
    within: int = 0
    """number of lists and mappings from levels' fields around the current value"""

    def put_in(self, value: Any, path: Path) -> Any:
        """Return `value` with its references resolved; paths inside stay valid.

        A key whose whole value is a field that this level lacks is left out, like a header containing one.
        """
        if isinstance(value, dict):
            resolved = {key: self.put_in(child, (*path, key)) for key, child in value.items()}
            return {key: child for key, child in resolved.items() if child is not MISSING}
        if isinstance(value, list):
            items = [self.put_in(child, (*path, index)) for index, child in enumerate(value)]
            for index, item in enumerate(items):
                if item is MISSING:
                    self.lacking(value[index], (*path, index))
            return items
        if isinstance(value, str) and "${" in value:
            return self._text(value, path, allowed_at(path).keeps(self.vocabulary), 0)
        return value

    def _text(self, text: str, path: Path, stays: Stays, depth: int) -> Any:
        self.made += len(text)
        if self.made > TEXT_BYTES.most:
            self._grown(path, text)
            return MISSING
        if depth > MAX_NESTING:
            self.mistakes.append(bad_reference(path, text, "It leads back to itself."))
            return MISSING
        if mistake := unclosed(path, text):
            self.mistakes.append(mistake)
            return MISSING
        whole = REFERENCE.fullmatch(text)
        if whole and not whole[1]:
            return self._again(whole[2].strip(), path, stays, depth)
        missing = False

        def put(match: re.Match[str]) -> str:
            nonlocal missing
            if match[1] or self.made > TEXT_BYTES.most:
                return match[0]
            found = self._again(match[2].strip(), path, stays, depth)
            self.made += len(found) if isinstance(found, str) else 1
            if self.made > TEXT_BYTES.most:
                self._grown(path, text)
                found = MISSING
            if found is MISSING:
                missing = True
            if isinstance(found, (dict, list)):
                self.mistakes.append(
                    bad_reference(path, match[0], "A list or mapping can't be part of a text.")
                )
            if isinstance(found, WrittenInt | WrittenFloat) and _is_exact(path):
                origin = origin_of(match[2], self.levels) or path
                self.mistakes.append(bad_value(origin, UNQUOTED, found, f'Write "{found.text}".'))
            return _as_text(found)

        resolved = REFERENCE.sub(put, text)
        if not missing and not self.mistakes and (wrong := self._grown_together(resolved, path, stays)):
            self.mistakes.append(wrong)
        if missing and "headers" not in path:
            self.lacking(text, path)
        return MISSING if missing and "headers" in path else resolved

    def _grown_together(self, resolved: str, path: Path, stays: Stays) -> Mistake | None:
        """Return the mistake of a reference that only inserted values formed, such as `$` before `{x}`."""
        if "${" not in resolved:
            return None
        for reference in references_in(resolved):
            if not stays(reference):
                return bad_reference(path, f"${{{reference}}}", "It comes from what was put in.")
        return unclosed(path, resolved)

    def _grown(self, path: Path, text: str) -> None:
        if not self.mistakes:
            reason = f"With its references resolved it has more than {TEXT_BYTES.most:,} signs."
            self.mistakes.append(bad_reference(path, text, reason))

    def _again(self, reference: str, path: Path, stays: Stays, depth: int) -> Any:
        """Return the value of a reference; a level's field may itself contain references."""
        found = self._look_up(reference, stays)
        if isinstance(found, str) and not all(stays(one) for one in references_in(found)):
            return self._text(found, path, stays, depth + 1)
        if not isinstance(found, (dict, list)):
            return found
        if self.within > MAX_NESTING:
            if not self.mistakes:
                self.mistakes.append(bad_reference(path, f"${{{reference}}}", "It leads back to itself."))
            return ""  # which no list lacks
        self.within += 1
        try:
            return self.put_in(found, path)
        finally:
            self.within -= 1

    def _look_up(self, reference: str, stays: Stays) -> Any:
        if stays(reference):
            return f"${{{reference}}}"
        head, _, rest = reference.partition(".")
        level = self.levels.get(head)
        if level is None:
            return MISSING
        if not rest:
            return level_value(level)
        found: Any = level.fields
        for step in rest.split("."):
            if rest == "value" and "value" not in level.fields:
                return level_value(level)
            if not isinstance(found, Mapping) or found.get(step) is None:
                return MISSING  # a null is a field that the level lacks
            found = found[step]
        return found

    def lacking(self, text: object, path: Path) -> None:
        """Report a text whose level lacks the field that it refers to."""
        names = ", ".join(
            f"{name}: {level.name}" for name, level in self.levels.items() if f"${{{name}" in str(text)
        )
        self.mistakes.append(bad_reference(path, str(text), f"The level has no such field ({names})."))


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def strings_in(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Return every text below `value`, with its path."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from strings_in(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from strings_in(child, (*path, index))
    elif isinstance(value, str):
        yield path, value


def values_in(value: Any) -> int:
    """Return how many values there are, mappings and lists included."""
    if isinstance(value, dict):
        return 1 + sum(map(values_in, value.values()))
    return 1 + sum(map(values_in, value)) if isinstance(value, list) else 1


def unescaped(value: Any) -> Any:
    """Return `value` with every `$${` as `${`: for readers that know no references."""
    if isinstance(value, dict):
        return {key: unescaped(child) for key, child in value.items()}
    if isinstance(value, list):
        return [unescaped(child) for child in value]
    return value.replace("$${", "${") if isinstance(value, str) else value
