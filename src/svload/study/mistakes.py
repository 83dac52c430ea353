"""What is wrong in a study, as data: a path into it, a code of the error catalogue, and the nearest valid word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from svload.model.errors import Problem
from svload.study.tree import Node, Path, place_of

UNKNOWN_KEY, MISSING_KEY, BAD_VALUE = "study-unknown-key", "study-missing-key", "study-bad-value"


@dataclass(frozen=True)
class Mistake:
    """One mistake at `path`. `details` fill the catalogue's sentence; `place` overrides the path's own."""

    path: Path
    code: str
    details: dict[str, object] = field(default_factory=dict)
    place: str = ""

    def problem(self, tree: Node) -> Problem:
        """As the user reads it, with its line."""
        return Problem(self.code, self.details, self.place or place_of(tree, self.path))


def where(path: Path) -> str:
    """`traffic.background.vus`, `compare[0].metric`; the whole study for an empty path."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "the study"


def nearest(word: str, known: Iterable[str]) -> str:
    """`Did you mean “server”?`, or the list of what is known."""
    words = sorted(set(known))
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    if near:
        return f"Did you mean “{near[0]}”?"
    return f"Known: {', '.join(words)}." if words else "There is none."


def unknown_name(path: Path, name: object, kind: str, known: Iterable[str]) -> Mistake:
    """A name that stands for nothing; `kind` is what it should have been (service, factor …)."""
    details: dict[str, object] = {
        "where": where(path),
        "name": name,
        "kind": kind,
        "hint": nearest(str(name), known),
    }
    return Mistake(path, "study-unknown-name", details)


def bad_value(path: Path, reason: str, found: object, hint: str = "") -> Mistake:
    """A value that cannot stand there."""
    details: dict[str, object] = {"where": where(path), "reason": reason, "found": show(found), "hint": hint}
    return Mistake(path, BAD_VALUE, details)


def bad_reference(path: Path, reference: str, hint: str) -> Mistake:
    """A `${…}` that cannot be resolved there."""
    return Mistake(path, "study-bad-reference", {"reference": reference, "where": where(path), "hint": hint})


def bad_criterion(path: Path, text: str, reason: str) -> Mistake:
    """A text that the metric grammar does not accept."""
    return Mistake(path, "study-bad-criterion", {"text": text, "reason": reason})


def show(value: object) -> str:
    """A found value, short enough for a sentence."""
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def wrong(reason: str, hint: str = "") -> PydanticCustomError:
    """For validators: the value is wrong because of `reason`; `hint` says what to write."""
    return PydanticCustomError(BAD_VALUE, "{reason}", {"reason": reason, "hint": hint})


_NOT_WRITTEN = ("[key]", "constant")
"""Steps of pydantic's paths that stand in no file: a key itself, and a value written without its distribution."""
_EXPECTED = {
    "string_type": "a text was expected",
    "int_type": "a whole number was expected",
    "float_type": "a number was expected",
    "bool_type": "true or false was expected",
    "dict_type": "a mapping was expected (key: value)",
    "model_type": "a mapping was expected (key: value)",
    "list_type": "a list was expected",
    "tuple_type": "a list was expected",
    "string_pattern_mismatch": "it has not the expected form",
}


def _explained(
    error: ErrorDetails, known: Mapping[str, str], errors: Sequence[ErrorDetails]
) -> InitErrorDetails | None:
    """One pydantic error in our three codes; None for a missing key whose misspelling is already told."""
    kind, context, loc = error["type"], dict(error.get("ctx", {})), error["loc"]
    if kind.startswith("study-"):
        said = PydanticCustomError(kind, "{reason}", context)
    elif kind == "extra_forbidden":
        said = PydanticCustomError(
            UNKNOWN_KEY, "{key}", {"key": str(loc[-1]), "hint": nearest(str(loc[-1]), known), "reason": ""}
        )
    elif kind == "missing":
        strangers = [
            str(other["loc"][-1])
            for other in errors
            if other["type"] == "extra_forbidden" and len(other["loc"]) == 1
        ]
        if any(
            difflib.get_close_matches(stranger, known, n=1, cutoff=0.5) == [loc[-1]] for stranger in strangers
        ):
            return None
        said = PydanticCustomError(
            MISSING_KEY,
            "{key}",
            {"key": str(loc[-1]), "hint": _as_hint(known.get(str(loc[-1]), "")), "reason": ""},
        )
    elif kind == "literal_error":
        words = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        said = wrong(f"one of {', '.join(words)} was expected", _near_word(error["input"], words))
    elif kind in ("greater_than_equal", "greater_than"):
        limit = context.get("ge", context.get("gt"))
        said = wrong(
            f"a number {'of at least' if kind == 'greater_than_equal' else 'above'} {limit} was expected"
        )
    elif kind == "value_error":
        said = wrong(str(context.get("error", error["msg"])))
    else:
        said = wrong(_EXPECTED.get(kind, error["msg"][:1].lower() + error["msg"][1:]))
    return InitErrorDetails(type=said, loc=loc, input=error["input"])  # fmt: skip


def _as_hint(line: str) -> str:
    return f"{line[:1].upper()}{line[1:].rstrip('.')}." if line else ""


def _near_word(found: object, words: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(found), words, n=1, cutoff=0.5)
    return f"Did you mean “{near[0]}”?" if near else ""


def in_our_words(title: str, known: Mapping[str, str], why: ValidationError) -> ValidationError:
    """`why` with every error in the codes of the catalogue; `known` maps the keys of the checked mapping to their lines of documentation."""
    errors = why.errors(include_url=False)
    said = [explained for error in errors if (explained := _explained(error, known, errors)) is not None]
    return ValidationError.from_exception_data(title, said)


def mistakes_of(why: ValidationError, path: Path) -> list[Mistake]:
    """The mistakes of a part at `path` whose errors are in our words already."""
    found = []
    for error in why.errors(include_url=False):
        context = dict(error.get("ctx", {}))
        loc = (*path, *(step for step in error["loc"] if step not in _NOT_WRITTEN))
        if error["type"] == UNKNOWN_KEY:
            found.append(Mistake(loc, UNKNOWN_KEY, context | {"where": where(loc[:-1])}))
        elif error["type"] == MISSING_KEY:
            found.append(Mistake(loc, MISSING_KEY, context | {"where": where(loc[:-1])}))
        else:
            found.append(
                bad_value(
                    loc,
                    str(context.get("reason", error["msg"])),
                    error["input"],
                    str(context.get("hint", "")),
                )
            )
    return found
