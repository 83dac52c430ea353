"""Factors and their levels, the cases they make, excluded cases, and the names of cases."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from svload.model.bounds import LEVELS, OPEN, REPORTED
from svload.model.parameters import kernel_change
from svload.model.study import Case, Factor, Level
from svload.model.visible import marks_as_letters
from svload.study.mistakes import BAD_VALUE, Mistake, bad_value, nearest, unknown_name
from svload.study.references import references_in, refers, strings_in, unescaped
from svload.study.sets import differing
from svload.study.tree import UNQUOTED, Path, dicts_of, kit_of, section_of

MOST_SIGNS = 200
"""The longest name of a level: it is used in tables and in names of files."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
Change = Literal["request", "live", "restart", "rebuild"]


class Options(Protocol):
    """A kit's options model (svload.lab.kit.KitOptions): this package knows no kit."""

    supported_faults: ClassVar[frozenset[str]]
    """Planned faults that such a service supports: stop, kill, start, pause, limit."""
    parts: ClassVar[tuple[str, ...]]
    """Its parts that a fault may name."""

    @classmethod
    def change_of(cls, name: str, parameter: str | None = None) -> str:
        """Return what changing an option, or a parameter of `tuning`, requires; empty for anything else."""


Kits = Mapping[str, type[Options]]
"""Kit name → its options model."""


def level_name(value: object) -> str:
    """Return the name of a level that is a plain value: as YAML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def is_open(raw: Any) -> bool:
    """Return whether a factor as written has a range; a level may be called `open` too."""
    return isinstance(raw, dict) and isinstance(raw.get("open"), list) and len(raw) == 1


def read_factor(name: str, raw: Any) -> tuple[Factor | None, list[Mistake]]:
    """Return the factor of the valid levels in `raw` (a list of values, or level → fields), and what is wrong
    with the others."""
    path: Path = ("factors", name)
    if is_open(raw):
        return _open_factor(name, raw["open"], (*path, "open"))
    entries: list[tuple[Path, str, Any, Any]] = []
    mistakes = []
    if isinstance(raw, dict) and raw:
        for key, fields in raw.items():
            entries.append(((*path, key), key, None, fields))
    elif isinstance(raw, list) and raw:
        for index, item in enumerate(raw):
            if isinstance(item, dict) and len(item) == 1:
                ((key, fields),) = item.items()
                entries.append(((*path, index, key), key, None, fields))
            elif isinstance(item, (str, int, float)):
                entries.append(((*path, index), level_name(item), item, None))
            else:
                mistakes.append(bad_value((*path, index), "a level is a value, or a name with fields", item))
    else:
        mistakes.append(
            bad_value(path, "expected a list of levels, or level: {field: value}", raw, "Write [a, b].")
        )
    if len(entries) > LEVELS.most:
        return None, [bad_value(path, LEVELS.text, f"{len(entries):,}")]
    levels: dict[str, Level] = {}
    for place, key, value, fields in entries:
        if fields is not None and not isinstance(fields, dict):
            value, fields = fields, None
            if isinstance(value, list):
                mistakes.append(bad_value(place, "expected a value or fields (name: value)", value))
        if not key.strip() or _CONTROL.search(key) or len(key) > MOST_SIGNS:
            reason = f"expected a level's name: 1 to {MOST_SIGNS} visible characters"
            mistakes.append(bad_value(place, reason, key))
        if key in levels:
            mistakes.append(bad_value(place, "this level is listed twice", key))
            continue
        fields = dict(fields or {})
        expect = fields.pop("expect", [])
        texts = expect if isinstance(expect, list) else [expect]
        if not all(isinstance(text, str) for text in texts):
            mistakes.append(bad_value((*place, "expect"), "expected a criterion or a list of them", expect))
            texts = []
        for word in fields:
            if not re.fullmatch(r"[A-Za-z][\w-]*", marks_as_letters(word)):
                mistakes.append(bad_value((*place, word), "expected a field's name: a letter, then letters, digits, - and _", word))  # fmt: skip
        levels[key] = Level(name=key, value=value, fields=fields, expect=tuple(texts))
    return (Factor(name=name, levels=tuple(levels.values())) if levels else None), mistakes


def _open_factor(name: str, ends: list[Any], path: Path) -> tuple[Factor | None, list[Mistake]]:
    """Return a factor whose values batches choose during the run."""
    numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
    if len(ends) != 2 or len(numbers) != 2 or not 0 <= numbers[0] < numbers[1] <= OPEN.most:
        reason = "expected the least and the largest value"
        return None, [bad_value(path, reason, ends, f"Write [1, 4000], at most {OPEN.most:,}.")]
    return Factor(name=name, levels=(), open=(numbers[0], numbers[1])), []


def matches(when: Mapping[str, Any], levels: Mapping[str, str]) -> bool:
    """Return whether a case with `levels` (factor → level) matches `when` (factor → level, or several)."""
    return all(levels.get(factor) in _names(wanted) for factor, wanted in when.items())


def _names(wanted: Any) -> list[str]:
    return [level_name(item) for item in (wanted if isinstance(wanted, (list, tuple)) else [wanted])]


def check_when(when: Any, path: Path, factors: Mapping[str, Factor], unsure: Iterable[str]) -> Iterator[Mistake]:  # fmt: skip
    """Report unknown factors and levels in a `when`; a factor whose text is broken (`unsure`) is skipped."""
    for name, wanted in when.items() if isinstance(when, dict) else ():
        if name in unsure:
            continue
        if name not in factors:
            yield unknown_name((*path, name), name, "factor", factors)
            continue
        for place, item in enumerate(wanted if isinstance(wanted, list) else [wanted]):
            at: Path = (*path, name, place) if isinstance(wanted, list) else (*path, name)
            if not refers(item):  # a reference is reported as one
                yield from unknown_level(at, item, factors[name])


def unknown_level(path: Path, written: object, factor: Factor) -> Iterator[Mistake]:
    """Report a level that does not exist, and a number that would mean another level than its text: 1.10 is
    1.1."""
    known = {level.name for level in factor.levels}
    name, text = level_name(written), getattr(written, "text", "")
    if text in known and text != name:
        yield bad_value(path, UNQUOTED, text, f'Write "{text}".')
    elif name not in known:
        yield unknown_name(path, name, f"level of {factor.name}", known)


def make_cases(factors: Sequence[Factor], exclude: Sequence[Mapping[str, Any]], names: Mapping[tuple[str, ...], str], study: str = "") -> tuple[Case, ...]:  # fmt: skip
    """Return all combinations: first those in `names` (level names in factor order → case name), in its
    order.

    The rest are named by the levels in which cases differ, a single case by its study. An excluded case
    carries the first reason that matches.
    """
    factors = [factor for factor in factors if factor.open is None]
    combinations = list(itertools.product(*([level.name for level in factor.levels] for factor in factors)))
    known = set(combinations)
    named = [levels for levels in names if levels in known]
    ordered = named + [levels for levels in combinations if levels not in names]
    taken = set(names.values())
    numbered = (f"case-{number}" for number in itertools.count(len(named)))
    free: Iterator[str] = (name for name in numbered if name not in taken)
    if len(ordered) == 1 and _is_plain(study):
        free = iter([study])
    cases, by_levels = [], _by_levels(factors, ordered, taken)
    for combination in ordered:
        levels = {factor.name: name for factor, name in zip(factors, combination, strict=True)}
        reason = next(
            (unescaped(str(rule.get("because"))) for rule in exclude if matches(rule["when"], levels)), None
        )
        name = names.get(combination) or by_levels.get(combination) or next(free)
        cases.append(Case(name=name, levels=levels, excluded=reason))
    return tuple(cases)


_MOST_FACTORS, _LONGEST_CASE = 3, 40


def _by_levels(
    factors: Sequence[Factor], combinations: Sequence[tuple[str, ...]], taken: set[str]
) -> dict[tuple[str, ...], str]:
    """Return combination → `pool-8`, or `pool-8_cache-on`: the levels in which cases differ. Empty if such
    names would be long, ambiguous, or no plain words: then cases are numbered."""
    telling = [place for place, factor in enumerate(factors) if len(factor.levels) > 1]
    if not 0 < len(telling) <= _MOST_FACTORS:
        return {}
    found = {
        levels: "_".join(f"{factors[place].name}-{_plain(levels[place])}" for place in telling)
        for levels in combinations
    }
    sound = all(map(_is_plain, found.values()))
    return found if sound and len(set(found.values()) | taken) == len(found) + len(taken) else {}


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"\w[\w.+-]*", name, re.ASCII) is not None and len(name) <= _LONGEST_CASE


def _plain(level: str) -> str:
    """Return `50/s` as `50-s`, for a folder's name."""
    return re.sub(r"[^\w.+-]+", "-", level).strip("-")


def read_case_names(text: str, file: str, factors: Sequence[Factor]) -> tuple[dict[tuple[str, ...], str], dict[str, bool], list[Mistake]]:  # fmt: skip
    """Read a table `case, <factor>…[, valid]`: (level names → case name in order, case → valid, mistakes).

    Rows with levels that the study does not have are reported; `file` names the table in places.
    """
    names: dict[tuple[str, ...], str] = {}
    valid: dict[str, bool] = {}
    mistakes: list[Mistake] = []
    strangers: set[tuple[str, str]] = set()

    def mistake(line: int, reason: str, found: object, hint: str = "", path: Path = ("case_names",)) -> None:
        details: dict[str, object] = {"where": "the table", "reason": reason, "found": found, "hint": hint}
        mistakes.append(Mistake(path, BAD_VALUE, details, f"{file}:{line}"))

    rows = csv.DictReader(io.StringIO(text, newline=""))
    wanted = {"case", *(factor.name for factor in factors)}
    header = set(rows.fieldnames or ())
    if header - {"valid"} != wanted or len(header) < len(rows.fieldnames or ()):
        mistake(
            1,
            f"expected the columns {', '.join(sorted(wanted))} (and valid)",
            ", ".join(rows.fieldnames or ()),
        )
        return names, valid, mistakes
    called: set[str] = set()
    for row in rows:
        line = rows.line_num
        if len(mistakes) >= REPORTED.most:
            break
        if None in row or None in row.values():
            mistake(line, f"expected {len(header)} values", ",".join(str(value) for value in row.values()))
            continue
        name, levels = (
            (row["case"] or "").strip(),
            tuple((row[factor.name] or "").strip() for factor in factors),
        )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", name):
            mistake(line, "expected a case's name: letters, digits, - _ . +", name)
        for factor, level in zip(factors, levels, strict=True):
            known = [other.name for other in factor.levels]
            if level not in known and (factor.name, level) not in strangers:
                strangers.add((factor.name, level))
                mistake(
                    line,
                    f"expected a level of {factor.name}",
                    level,
                    nearest(level, known),
                    ("factors", factor.name),
                )
        if levels in names or name in called:
            mistake(line, "this case is listed twice", name)
        names[levels] = name
        called.add(name)
        if row.get("valid"):
            valid[name] = str(row["valid"]).strip().lower() in ("yes", "true", "1")
    return names, valid, mistakes


def changes(data: Mapping[str, Any], factors: Sequence[Factor], kits: Kits | None) -> tuple[Factor, ...]:  # fmt: skip
    """Return the factors with what changing each requires: restart if it affects `lab` or `sysctl`, rebuild
    if it affects `data`.

    The `change` of an option or a parameter says where it requires less (live, reload) or more. A factor that
    chooses a set requires what the most expensive difference between any sets does.
    """
    cost = {factor.name: 0 for factor in factors}
    if isinstance(chosen := data.get("tuning"), str):
        costs = [_CLASSES.index(_change_at(data, path, "restart", kits)) for path in differing(data)]
        for factor in _reached(chosen, factors):
            cost[factor] = max([cost[factor], *costs])
    defaults: tuple[tuple[str, Change], ...] = (
        ("lab", "restart"),
        ("sysctl", "restart"),
        ("data", "rebuild"),
    )
    for section, default in defaults:
        for path, text in strings_in(data.get(section, {}), (section,)):
            change = _change_at(data, path, default, kits)
            for factor in _reached(text, factors):
                cost[factor] = max(cost[factor], _CLASSES.index(change))
    return tuple(factor.model_copy(update={"change": _CLASSES[cost[factor.name]]}) for factor in factors)


_CLASSES: tuple[Change, ...] = ("request", "live", "restart", "rebuild")


def _change_at(data: Mapping[str, Any], path: Path, default: Change, kits: Kits | None) -> Change:
    """Return what changing the value at `path` requires, by the kit's option or parameter, or the kernel's
    setting; else `default`. The address of a server that is already running requires nothing if svload starts
    no server that it might restart for it."""
    service = section_of(section_of(data, "lab"), str(path[1])) if path[0] == "lab" and len(path) > 2 else {}
    model = (kits or {}).get(str(kit_of(service)))
    kernel: str = kernel_change(str(path[1])) if path[0] == "sysctl" and len(path) > 1 else ""
    if model is not None:
        kernel = model.change_of(str(path[2]), str(path[3]) if len(path) > 3 else None)
    if kernel == "request" and any(kit_of(one) != "external" for _, one in dicts_of(section_of(data, "lab"))):
        return default
    return next(
        (change for change in _CLASSES if change == ("live" if kernel == "reload" else kernel)), default
    )


def _reached(text: str, factors: Sequence[Factor]) -> set[str]:
    """Return the factors that `text` names, and those that their levels' fields name."""
    by_name = {factor.name: factor for factor in factors}
    found: set[str] = set()
    open_texts = [text]
    while open_texts:
        for reference in references_in(open_texts.pop()):
            name = reference.partition(".")[0]
            if name in by_name and name not in found:
                found.add(name)
                fields = [level.fields for level in by_name[name].levels]
                open_texts += [inner for _, inner in strings_in(fields, ())]
    return found
