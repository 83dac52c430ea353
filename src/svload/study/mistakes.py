"""Mistakes in a study, as data: a path into it, a code of the error catalogue, and the nearest valid word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from svload.model.bounds import REPORTED
from svload.model.errors import Problem
from svload.model.other_words import OTHER_WORDS
from svload.model.units import Misread, refuse_marks
from svload.study.tree import Node, Path, place_of

UNKNOWN_KEY, MISSING_KEY, BAD_VALUE = "study-unknown-key", "study-missing-key", "study-bad-value"
UNKNOWN_NAME, BAD_REFERENCE = "study-unknown-name", "study-bad-reference"


@dataclass(frozen=True)
class Mistake:
    """One mistake at `path`. `details` fill the catalogue's sentence; `place` replaces the path's own.

    `meant` is the nearest valid word: with it in place the search for further mistakes continues.
    """

    path: Path
    code: str
    details: dict[str, object] = field(default_factory=dict)
    place: str = ""
    meant: str | None = None

    def problem(self, tree: Node) -> Problem:
        """Return the problem that the user reads, with its line."""
        return Problem(self.code, self.details, self.place or place_of(tree, self.path))


def where(path: Path) -> str:
    """Return `traffic.background.vus`, `compare[0].metric`; the whole study for an empty path."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{show(step)}" for step in path)
    return text.removeprefix(".") or "the study"


MOST_SHOWN = 40
"""Most words of a list that a hint names."""
MOST_LIKE, MOST_SIGNS = 200, 100
"""With more words, or longer ones, only the same word in another case is sought: comparing 20 words for
similarity takes a millisecond."""


LIKE, ALMOST = 0.5, 0.75
"""How similar words are (difflib's ratio) of which one is suggested for the other, or put in its place."""


def closest(word: str, known: Iterable[str], like: float = ALMOST) -> str | None:
    """Return the valid word that was probably meant, at least so similar."""
    words = tuple(sorted(set(known)))
    if (ours := OTHER_WORDS.get(word.lower())) in words:
        return ours
    if len(words) > MOST_LIKE or len(word) > MOST_SIGNS:
        words = tuple(other for other in words if other.lower() == word.lower())
    return _most_like(word, words, like)


@lru_cache(maxsize=1000)
def _most_like(word: str, words: tuple[str, ...], like: float) -> str | None:
    """Return the most similar word; cached, since a mistake of a study is found again in each case."""
    near = difflib.get_close_matches(word, words, n=1, cutoff=like)
    return near[0] if near else None


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `Did you mean “server”?`, or the list of known words."""
    words = sorted(set(known))
    if near := closest(word, words, LIKE):
        return f"Did you mean “{near}”?"
    return listed(words) if words else "None is defined."


_SECTIONS = {
    "service": "lab",
    "service (nor an address)": "lab",
    "request": "requests",
    "scenario": "scenarios",
    "factor": "factors",
    "feeder": "feeders",
    "traffic group": "traffic",
    "secret": "secrets",
}
"""Kinds of names → the section of the study that defines them."""


def listed(known: Iterable[str]) -> str:
    """Return `Known: a, b.`, cut if the list is long."""
    words = sorted(set(known))
    shown = ", ".join(map(show, words[:MOST_SHOWN]))
    return f"Known: {shown}{f' and {len(words) - MOST_SHOWN:,} more' if len(words) > MOST_SHOWN else ''}."


def unknown_key(path: Path, known: Iterable[str], hint: str = "") -> Mistake:
    """Report a key that does not belong there; without `hint` the nearest is named, and an almost equal one
    put in its place."""
    words, key = list(known), str(path[-1])
    details: dict[str, object] = {
        "key": show(key),
        "where": where(path[:-1]),
        "hint": hint or nearest(key, words),
    }
    return Mistake(path, UNKNOWN_KEY, details, meant=None if hint else closest(key, words))


def unknown_name(path: Path, name: object, kind: str, known: Iterable[str]) -> Mistake:
    """Report a name that does not exist; `kind` is what it should have been (service, factor …)."""
    words = list(known)
    is_url = kind == "request" and "://" in str(name)
    hint = f"Write GET {shortened(str(name))}." if is_url else nearest(str(name), words)
    if not words and not is_url and kind in _SECTIONS:
        hint = f"Define it under {_SECTIONS[kind]}."
    details: dict[str, object] = {"where": where(path), "name": show(name), "kind": show(kind), "hint": hint}
    return Mistake(path, UNKNOWN_NAME, details, meant=closest(str(name), words))


def bad_value(path: Path, reason: str, found: object, hint: str = "", meant: str | None = None) -> Mistake:
    """Report a value that is not allowed there."""
    details: dict[str, object] = {
        "where": where(path),
        "reason": shortened(reason),
        "found": show(found),
        "hint": hint,
    }
    return Mistake(path, BAD_VALUE, details, meant=meant)


def refused(path: Path, reason: str) -> Mistake:
    """Report what the engine would not run."""
    return Mistake(path, "study-refused", {"where": where(path), "reason": shortened(reason)})


def bad_reference(path: Path, reference: str, hint: str, meant: str | None = None) -> Mistake:
    """Report a `${…}` that cannot be resolved there."""
    details: dict[str, object] = {"reference": show(reference), "where": where(path), "hint": hint}
    return Mistake(path, BAD_REFERENCE, details, meant=meant)


def bad_criterion(path: Path, text: str, reason: str, hint: str = "") -> Mistake:
    """Report a text that the metric grammar does not accept; `hint` replaces the grammar's own line."""
    details: dict[str, object] = {"text": show(text), "reason": shortened(reason.rstrip("?."))}
    remedy = {"remedy": shortened(hint).replace("{", "{{").replace("}", "}}")} if hint else {}
    return Mistake(path, "study-bad-criterion", details | remedy)


def show(value: object) -> str:
    """Return a found value, short enough for a sentence."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    text = "nothing" if value is None else _written(value) or "an empty text"
    return text if len(text) <= 60 else text[:57] + "…"


def _written(value: object) -> str:
    """Return a value as YAML has it in a line, with JSON's true and false."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_written(one)}' for key, one in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def shortened(text: str, most: int = 200) -> str:
    """Return a text that may contain a file's content, short enough for a message."""
    return text if len(text) <= most else text[: most - 1] + "…"


def wrong(reason: str, hint: str = "", meant: str | None = None) -> PydanticCustomError:
    """Return the error for validators: the value is wrong because of `reason`; `hint` says what to write."""
    return PydanticCustomError(BAD_VALUE, "{reason}", {"reason": reason, "hint": hint, "meant": meant})


def not_read(why: object, hint: str = "") -> PydanticCustomError:
    """Return the error for a value that a parser refused, with what was probably meant if it knows."""
    return wrong(why.reason, f"Write {why.meant}.") if isinstance(why, Misread) else wrong(str(why), hint)


@dataclass(frozen=True)
class Gap:
    """A mistake in the combination of a mapping's keys; reported at `key`, which may be missing."""

    key: str
    reason: str
    hint: str

    def error(self, written: Mapping[str, object]) -> InitErrorDetails:
        """Return pydantic's form of it."""
        return InitErrorDetails(
            type=wrong(self.reason, self.hint), loc=(self.key,), input=written.get(self.key)
        )


_NOT_WRITTEN = ("[key]", "constant")
"""Parts of pydantic's paths that are in no file: a key itself, and a value without its distribution."""
_EXPECTED = {
    "string_type": "expected a text",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
    "dict_type": "expected a mapping (key: value)",
    "model_type": "expected a mapping (key: value)",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "too_short": "expected at least one entry",
    "too_long": "expected two values",
    "float_parsing": "expected a number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "bool_parsing": "expected true or false",
    "string_pattern_mismatch": "it does not have the expected form",
}
_BOUNDS = {
    "greater_than_equal": "expected a number of at least {ge:.16g}",
    "greater_than": "expected a number above {gt:.16g}",
    "less_than": "expected a number below {lt:.16g}",
    "less_than_equal": "expected a number of at most {le:.16g}",
}


Hint = Callable[[str], str]
"""A key that is missing, or does not belong there → what to write; empty: the schema's text is enough."""


OtherKind = Callable[[str, str], bool]
"""(unknown key, missing key) → whether the first shows that another kind of mapping was meant."""


def _explained(
    error: ErrorDetails,
    known: Mapping[str, str],
    strangers: Sequence[str],
    hinted: Hint,
    other_kind: OtherKind,
) -> PydanticCustomError | None:
    """Return one pydantic error with our codes; None for a missing key that one of `strangers` explains."""
    kind, context, key = (
        error["type"],
        dict(error.get("ctx", {})),
        str(error["loc"][-1] if error["loc"] else ""),
    )
    if kind.startswith("study-"):
        return PydanticCustomError(kind, "{reason}", context)
    if kind == "extra_forbidden":
        details = {"known": list(known), "reason": "", "hint": hinted(key) if len(error["loc"]) == 1 else ""}
        return PydanticCustomError(UNKNOWN_KEY, "{reason}", details)
    if kind == "missing" and isinstance(error["loc"][-1], int):
        return wrong(_EXPECTED["too_long"])
    if kind == "missing":
        if any(closest(stranger, known, LIKE) == key or other_kind(stranger, key) for stranger in strangers):
            return None
        line = known.get(key, "")
        hint = hinted(key) or (f"{line[:1].upper()}{line[1:].rstrip('.')}." if line else "")
        return PydanticCustomError(MISSING_KEY, "{key}", {"key": key, "hint": hint})
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        written = str(error["input"])
        hint = f"Did you mean “{near}”?" if (near := closest(written, words, LIKE)) else ""
        return wrong(f"expected one of {', '.join(words)}", hint, closest(written, words))
    if kind in _BOUNDS:
        return wrong(_BOUNDS[kind].format_map(context))
    if kind == "value_error":
        return not_read(context.get("error", error["msg"]))
    if kind in ("int_type", "float_type", "int_parsing", "float_parsing") and isinstance(error["input"], str):
        try:
            refuse_marks(error["input"])
        except ValueError as marked:
            return not_read(marked)
        if re.fullmatch(r"-?\d+" if kind.startswith("int") else r"-?\d+(\.\d+)?", error["input"]):
            return wrong(f"{_EXPECTED[kind]}, not a text", f"Write {error['input']} without quotes.")
        if re.fullmatch(r"\$[A-Za-z][\w.-]*", error["input"]):
            return wrong(_EXPECTED[kind], f"Write “${{{error['input'][1:]}}}” for a factor's level.")
    unlisted = kind in ("list_type", "tuple_type") and "${" in str(error["input"])
    hint = "Write [a, b]; an item may be a reference." if unlisted else ""
    return wrong(_EXPECTED.get(kind, error["msg"][:1].lower() + error["msg"][1:]), hint)


_SHAPES = tuple(_EXPECTED[kind] for kind in ("string_type", "dict_type", "list_type"))
"""Reasons that say nothing about the key: its meaning is the hint."""


def _described(
    error: PydanticCustomError, loc: Sequence[str | int], known: Mapping[str, str]
) -> PydanticCustomError:
    """Return the error of a value of another shape with what its key means; any other error unchanged."""
    context = dict(error.context or {})
    meaning = known.get(str(loc[0]), "").rstrip(".") if loc else ""
    if error.type != BAD_VALUE or context["reason"] not in _SHAPES or context["hint"] or not meaning:
        return error
    return wrong(str(context["reason"]), f"“{loc[0]}” is: {meaning}.")


def in_our_words(
    title: str,
    known: Mapping[str, str],
    why: ValidationError,
    hinted: Hint = lambda key: "",
    other_kind: OtherKind = lambda stranger, missing: False,
    more: Sequence[InitErrorDetails] = (),
) -> ValidationError:
    """Return `why` with the catalogue's codes, and the further mistakes `more`; `known` maps the keys of the
    checked mapping to their lines of documentation."""
    errors = why.errors(include_url=False)[: REPORTED.most]
    strangers = [
        str(error["loc"][0])
        for error in errors
        if error["type"] == "extra_forbidden" and len(error["loc"]) == 1
    ]
    explained = [(error, _explained(error, known, strangers, hinted, other_kind)) for error in errors]
    lines = [
        InitErrorDetails(
            type=_described(details, error["loc"], known), loc=error["loc"], input=error["input"]
        )
        for error, details in explained
        if details is not None
    ]
    return ValidationError.from_exception_data(title, [*lines, *more])


def mistakes_of(why: ValidationError, path: Path) -> list[Mistake]:
    """Return the mistakes of a part at `path` whose errors are already in our form."""
    found = []
    for error in why.errors(include_url=False)[: REPORTED.most]:
        context = dict(error.get("ctx", {}))
        unwritten = ("[key]",) if error["type"] == UNKNOWN_KEY else _NOT_WRITTEN
        loc = (*path, *(step for step in error["loc"] if step not in unwritten))
        if error["type"] == UNKNOWN_KEY:
            found.append(unknown_key(loc, context["known"], str(context.get("hint", ""))))
        elif error["type"] == MISSING_KEY:
            found.append(Mistake(loc, MISSING_KEY, context | {"where": where(loc[:-1])}))
        else:
            found.append(
                bad_value(
                    loc,
                    str(context.get("reason", error["msg"])),
                    error["input"],
                    str(context.get("hint", "")),
                    context.get("meant"),
                )
            )
    return found
