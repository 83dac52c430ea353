"""A study's text as a tree whose nodes know their `file:line`; profiles and overrides are merged into it.

YAML here is data: no tags, no merge keys, a bound on size, depth and nodes (aliases count each time they are
used).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from svload.model.bounds import DIGITS, TEXT_BYTES, VALUES, Bound
from svload.model.errors import Problem, SvloadError

Scalar = str | int | float | bool | None
Path = tuple[str | int, ...]
MAX_DEPTH = 40
WHOLE = frozenset({"size", "think_time", "body"})
"""Keys whose mapping is one value (a distribution): a profile replaces it instead of merging into it."""
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class Node:
    """A value and its place: a scalar, a mapping or a list of nodes."""

    value: Scalar | dict[str, Node] | list[Node]
    place: str


UNQUOTED = "expected quotes: without them it is a number"


class WrittenInt(int):
    """A whole number with its `text` in the file, which differs from how it is shown: 007."""

    text: str


class WrittenFloat(float):
    """A number with its `text` in the file, which differs from how it is shown: 1.10."""

    text: str


def _number(number: float | int, text: str) -> float | int:
    if str(number) == text:
        return number
    written = WrittenInt(number) if isinstance(number, int) else WrittenFloat(number)
    written.text = text
    return written


def read_tree(text: str, file: str) -> tuple[Node, list[Problem]]:
    """Return the tree of a YAML document and what in it is not plain data (tags, duplicate keys).

    `file` is shown in places. A file called .json is read as JSON, and its places are the file. Raises
    SvloadError study-syntax if there is no tree at all.
    """
    if not is_text(text):
        raise SvloadError(_syntax("half a surrogate pair is not text", file))
    if len(text.encode()) > TEXT_BYTES.most:
        raise SvloadError(
            _syntax(f"it is longer than {TEXT_BYTES.most:,} bytes ({TEXT_BYTES.because})", file)
        )
    if file.endswith(".json"):
        return _of_json(text, file), []
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False  # the later one is used from there on, as in YAML 1.2
    try:
        root = yaml.compose(text)
    except MarkedYAMLError as why:
        mark = why.problem_mark or why.context_mark
        reason = " ".join(str(why.problem or why.context or "it cannot be read").split())
        lines = text.splitlines() or [""]
        line = min(mark.line + 1, len(lines)) if mark else 1
        if "${" in lines[line - 1]:
            reason += " (inside […] and {…} a ${…} must be quoted)"
        raise SvloadError(_syntax(reason, f"{file}:{line}")) from why
    except RecursionError as why:
        raise SvloadError(_syntax("it is nested too deeply", file)) from why
    except (YAMLError, ValueError) as why:
        raise SvloadError(_syntax(" ".join(str(why).split()), file)) from why
    reader = _Reader(file)
    tree = reader.node(root, None, 0) if root is not None else Node({}, f"{file}:1")
    return tree, reader.faults


def _of_json(text: str, file: str) -> Node:
    """Return the tree of one JSON document. Raises SvloadError study-syntax."""

    def refuse(number: str) -> None:
        raise ValueError(f"“{_shortened(number)}” is not a usable number")

    def whole(number: str) -> int:
        if len(number) > DIGITS.most:
            refuse(number)
        return int(number)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
            raise ValueError(f"“{_shortened(twice)}” is listed twice")
        return found

    count = 0

    def node(value: Any, depth: int) -> Node:
        nonlocal count
        count += 1
        if count > VALUES.most:
            raise SvloadError(_too_large(VALUES, file))
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        if isinstance(value, float) and not math.isfinite(value):
            refuse(str(value))
        if not all(map(is_text, value if isinstance(value, dict) else [value])):
            raise ValueError("half a surrogate pair is not text")
        if isinstance(value, dict):
            return Node({key: node(item, depth + 1) for key, item in value.items()}, file)
        return Node([node(item, depth + 1) for item in value] if isinstance(value, list) else value, file)

    try:
        return node(json.loads(text, parse_constant=refuse, parse_int=whole, object_pairs_hook=once), 0)
    except (ValueError, RecursionError) as why:
        raise SvloadError(_syntax(str(why), file)) from why


def _too_large(bound: Bound, place: str) -> Problem:
    return Problem("study-too-large", {"reason": bound.text}, place)


def _syntax(reason: str, place: str) -> Problem:
    return Problem("study-syntax", {"reason": reason if len(reason) <= 200 else reason[:199] + "…"}, place)


class _Reader:
    """Converts ruamel's composed nodes to ours and collects what it cannot accept."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Problem] = []
        self.count = 0

    def node(self, raw: Any, line: int | None, depth: int) -> Node:
        """Convert `raw`; `line` is the key's if it has one."""
        self.count += 1
        place = f"{self.file}:{raw.start_mark.line + 1 if line is None else line}"
        if self.count > VALUES.most:
            raise SvloadError(_too_large(VALUES, place))
        if depth > MAX_DEPTH:
            raise SvloadError(_syntax("it is nested too deeply", place))
        kind = type(raw).__name__
        if kind == "ScalarNode":
            return Node(self.scalar(raw, place), place)
        self._no_tag(raw, place)
        if kind == "SequenceNode":
            return Node([self.node(item, None, depth + 1) for item in raw.value], place)
        mapping: dict[str, Node] = {}
        for key, value in raw.value:
            key_line = key.start_mark.line + 1
            if type(key).__name__ != "ScalarNode" or not is_text(key.value):
                self.faults.append(_syntax("a key must be a word", f"{self.file}:{key_line}"))
                continue
            if key.value in mapping:
                self.faults.append(
                    _syntax(f"“{_shortened(key.value)}” is listed twice", f"{self.file}:{key_line}")
                )
            mapping[str(key.value)] = self.node(value, key_line, depth + 1)
        return Node(mapping, place)

    def scalar(self, raw: Any, place: str) -> Scalar:
        """Return a plain value; dates stay text."""
        tag, text = str(raw.tag).removeprefix("tag:yaml.org,2002:"), str(raw.value)
        if not is_text(text):
            self.faults.append(_syntax("half a surrogate pair is not text", place))
            return ""
        if raw.style is None and tag == "null":
            return None
        try:
            if raw.style is None and tag == "bool":
                return _TRUTH[text.lower()]
            if tag in ("int", "float") and "_" in text:
                return text  # rejected where a number is required: some read 1_000 as 1.000
            if raw.style is None and tag == "int":
                if len(text) > DIGITS.most:
                    raise ValueError
                return _number(int(text, 0 if text[:3].lstrip("+-")[:2] in ("0x", "0o") else 10), text)
            if raw.style is None and tag == "float":
                number = float(text)
                if math.isfinite(number):
                    return _number(number, text)
                raise ValueError
        except ValueError:
            self.faults.append(_syntax(f"“{_shortened(text)}” is not a usable number", place))
            return _shortened(text)
        except KeyError:
            self.faults.append(_syntax(f"“{_shortened(text)}” is neither true nor false", place))
            return False
        if tag not in ("str", "timestamp", "merge", "value"):
            self._no_tag(raw, place)
        return text

    def _no_tag(self, raw: Any, place: str) -> None:
        if not str(raw.tag).startswith("tag:yaml.org,2002:") or str(raw.tag).rpartition(":")[2] not in (
            "map",
            "seq",
            "str",
        ):
            self.faults.append(_syntax(f"the tag {_shortened(str(raw.tag))} is not data", place))


def is_text(value: object) -> bool:
    """Return whether a text can be written to a file: False for half a surrogate pair."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


def plain(node: Node) -> Any:
    """Return the tree as dicts, lists and scalars."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def place_of(node: Node, path: Path) -> str:
    """Return `file:line` of the deepest part of `path` that exists."""
    for step in path:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[str(step)]
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        else:
            break
    return node.place


def merge(base: Node, over: Node, path: Path = ()) -> Node:
    """Merge `over` into `base`: mappings merge, everything else is replaced.

    A service whose kit changes is replaced whole, like a distribution. Places stay those of the origin.
    """
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    names = 3 if path[:1] == ("factors",) else 2  # a factor, level or request may be called `size` or `body`
    if len(path) > names and path[-1] in WHOLE:
        return over
    if len(path) == 2 and path[0] == "lab" and kit_of(plain(over)) not in (None, kit_of(plain(base))):
        return over
    merged = dict(base.value)
    for key, child in over.value.items():
        merged[key] = merge(merged[key], child, (*path, key)) if key in merged else child
    return Node(merged, base.place)


def merge_plain(base: Any, over: Any) -> Any:
    """Merge plain data in the same way."""
    return plain(merge(_from_plain(base, ""), _from_plain(over, "")))


def kit_of(service: Mapping[str, Any]) -> str | None:
    """Return the kit that a service's mapping names, short forms included; None if it names none."""
    if isinstance(kit := service.get("kit"), str):
        return kit
    return "command" if "run" in service else "external" if "at" in service else None


def section_of(data: Any, name: str) -> dict[str, Any]:
    """Return a section of plain data; empty if it is missing or no mapping, or if `data` is none."""
    raw = data.get(name) if isinstance(data, Mapping) else None
    return raw if isinstance(raw, dict) else {}


def sequence_of(data: Any, name: str) -> list[Any]:
    """Return a section that is a list; empty if it is missing or no list, or if `data` is no mapping."""
    raw = data.get(name) if isinstance(data, Mapping) else None
    return raw if isinstance(raw, list) else []


def mappings_of(data: Any, name: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the entries of a section that is a list, with their places; only those that are mappings."""
    return [(place, item) for place, item in enumerate(sequence_of(data, name)) if isinstance(item, dict)]


def value_at(data: Any, path: Path) -> Any:
    """Return what plain data holds at `path`, or the text that stands for all of it (`${…}`), or None."""
    for step in path:
        if isinstance(data, str):
            return data
        if isinstance(data, dict):
            data = data.get(step)
        else:
            data = (
                data[step] if isinstance(data, list) and isinstance(step, int) and step < len(data) else None
            )
    return data


def dicts_of(raw: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Return the entries of a section that are mappings."""
    return ((name, item) for name, item in raw.items() if isinstance(item, dict))


def override(tree: Node, key: str, value: Any) -> Node:
    """Set the dotted `key` (`traffic.background.vus`) in `tree`; reads text as YAML scalar or flow value.
    Raise SvloadError study-syntax."""
    place = f"override {key}"
    if isinstance(value, str) and value.strip():
        written, faults = read_tree(value, place)
        if faults:
            raise SvloadError(*faults)
        value = plain(written)
    node = _from_plain(value, place)
    for step in reversed(key.split(".")):
        node = Node({step: node}, place)
    return merge(tree, node)


def _from_plain(value: Any, place: str) -> Node:
    if isinstance(value, Mapping):
        return Node({str(key): _from_plain(child, place) for key, child in value.items()}, place)
    if isinstance(value, (list, tuple)):
        return Node([_from_plain(child, place) for child in value], place)
    return Node(value, place)
