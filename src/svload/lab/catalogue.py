"""Which kits there are: every subclass of `Kit` in lab/kits/, and those that other packages offer by entry point."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from svload.lab import kits as folder
from svload.lab.kit import Kit, KitOptions
from svload.model.errors import Problem
from svload.model.study import ServiceSpec

ENTRY_POINTS = "svload.kits"
NOT_YET = ("link", "disk_rate")
"""Options of every service that nothing carries out yet."""


class _Kits(Mapping[str, "type[Kit]"]):
    """Every kit by name, loaded when it is asked for: a file of lab/kits/ bears its kit's name."""

    def __init__(self) -> None:
        self._ours = {module.name for module in pkgutil.iter_modules(folder.__path__)}
        self._loaded: dict[str, type[Kit]] = {}

    @cached_property
    def _theirs(self) -> dict[str, type[Kit]]:
        """Kits of other packages."""
        kinds = [point.load() for point in entry_points(group=ENTRY_POINTS)]
        return {kind.name: kind for kind in kinds if kind.name not in self._ours}

    def __getitem__(self, name: str) -> type[Kit]:
        if name in self._loaded:
            return self._loaded[name]
        if name not in self._ours:
            return self._theirs[name]
        module = importlib.import_module(f"{folder.__name__}.{name}")
        self._loaded[name] = kind = next(kind for kind in _defined_in(module) if kind.name == name)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._ours, *self._theirs}))

    def __len__(self) -> int:
        return len(self._ours) + len(self._theirs)


class _Options(Mapping[str, "type[KitOptions]"]):
    """Each kit's options by the kit's name, loaded when asked for."""

    def __getitem__(self, name: str) -> type[KitOptions]:
        return all_kits()[name].Options

    def __iter__(self) -> Iterator[str]:
        return iter(all_kits())

    def __len__(self) -> int:
        return len(all_kits())


@cache
def all_kits() -> Mapping[str, type[Kit]]:
    """Every kit by name; an in-tree one wins over another package's of the same name. Each is loaded when it is asked for."""
    return _Kits()


def kit_options() -> Mapping[str, type[KitOptions]]:
    """Every kit's options model by the kit's name."""
    return _Options()


def _defined_in(module: ModuleType) -> Iterable[type[Kit]]:
    for thing in vars(module).values():
        if (
            inspect.isclass(thing)
            and issubclass(thing, Kit)
            and thing.__module__ == module.__name__
            and not inspect.isabstract(thing)
        ):
            yield thing


def check_specs(specs: Sequence[ServiceSpec]) -> tuple[dict[str, KitOptions], list[Problem]]:
    """Each service's options as its kit understands them, and all that is wrong with any of them, at once. Starts nothing.

    A problem's details carry `path`, the keys below `lab` that lead to the value.
    """
    options: dict[str, KitOptions] = {}
    problems: list[Problem] = []
    for spec in specs:
        kind = all_kits().get(spec.kit)
        if kind is None:
            hint = nearest(spec.kit, all_kits())
            details: dict[str, object] = {
                "where": f"lab.{spec.name}",
                "name": spec.kit,
                "kind": "kit",
                "hint": hint,
                "path": (spec.name, "kit"),
            }
            problems.append(Problem("study-unknown-name", details))
            continue
        try:
            options[spec.name] = parsed = kind.Options.model_validate(spec.options)
        except ValidationError as why:
            problems += [_explained(spec, kind, error) for error in why.errors()]
            continue
        problems += _check_tls(spec, kind, parsed) + _check_ignored(spec, kind)
    return options, problems


def nearest(word: str, known: Iterable[str]) -> str:
    """“Did you mean …?”, or the list of what is known."""
    words = sorted(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"Did you mean “{near[0]}”?" if near else f"Known: {', '.join(words)}."


def _explained(spec: ServiceSpec, kind: type[Kit], error: Any) -> Problem:
    path = (spec.name, *(str(part) for part in error["loc"]))
    where = "lab." + ".".join(path)
    key = str(error["loc"][-1]) if error["loc"] else ""
    parent = "lab." + ".".join(path[:-1])
    if error["type"] == "extra_forbidden":
        hint = nearest(key, kind.Options.model_fields) if len(path) == 2 else ""
        return Problem(
            "study-unknown-key",
            {"key": key, "where": f"{parent} (kit {kind.name})", "hint": hint, "path": path},
        )
    if error["type"] == "missing":
        field = kind.Options.model_fields.get(key)
        hint = f"{key}: {field.description}." if field and field.description else ""
        return Problem(
            "study-missing-key",
            {"key": key, "where": f"{parent} (kit {kind.name})", "hint": hint, "path": path},
        )
    field = kind.Options.model_fields.get(str(error["loc"][0])) if error["loc"] else None
    reason = str(error["msg"]).removeprefix("Value error, ")
    hint = f"It is: {field.description}." if field and field.description else ""
    return Problem(
        "study-bad-value",
        {"where": where, "reason": reason, "found": f"“{error['input']}”", "hint": hint, "path": path},
    )


def _check_ignored(spec: ServiceSpec, kind: type[Kit]) -> list[Problem]:
    """A study that sets what would have no effect is refused."""
    found = []
    for key in (*kind.ignores, *NOT_YET):
        default = KitOptions.model_fields[key].default
        if spec.options.get(key, default) != default:
            reason = (
                "this svload cannot limit it yet" if key in NOT_YET else f"the kit {kind.name} cannot set it"
            )
            details: dict[str, object] = {
                "where": f"lab.{spec.name}.{key}",
                "reason": reason,
                "found": f"“{spec.options[key]}”",
                "hint": "Leave it out.",
                "path": (spec.name, key),
            }
            found.append(Problem("study-bad-value", details))
    return found


def _check_tls(spec: ServiceSpec, kind: type[Kit], options: KitOptions) -> list[Problem]:
    allowed = (["true"] if kind.own_tls else []) + (["hitch"] if kind.front else [])
    written = (
        {True: "true", False: None, None: None}.get(options.tls, options.tls)
        if not isinstance(options.tls, str)
        else options.tls
    )
    if written is None or written in allowed:
        return []
    hint = f"Write tls: {' or tls: '.join(allowed)}." if allowed else "Leave it out."
    reason = f"the kit {kind.name} has no such TLS front"
    return [
        Problem(
            "study-bad-value",
            {
                "where": f"lab.{spec.name}.tls",
                "reason": reason,
                "found": f"“{written}”",
                "hint": hint,
                "path": (spec.name, "tls"),
            },
        )
    ]
