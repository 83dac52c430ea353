"""The available kits: every subclass of `Kit` in lab/kits/, and those of other packages' entry points."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from importlib.metadata import entry_points
from types import ModuleType

from pydantic import ValidationError

from svload.lab import kits as folder
from svload.lab.kit import Kit, KitOptions
from svload.model.bounds import OPTION, SIZE_BYTES, TIME_NS, WORKERS
from svload.model.study import ServiceSpec
from svload.study.mistakes import (
    BAD_VALUE,
    Mistake,
    bad_value,
    in_our_words,
    mistakes_of,
    unknown_name,
    where,
)
from svload.study.tree import Path

ENTRY_POINTS = "svload.kits"


class _Kits(Mapping[str, "type[Kit]"]):
    """Every kit by name, loaded when first used; each file in lab/kits/ has the name of its kit."""

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
    """Each kit's options by the kit's name, loaded when first used."""

    def __getitem__(self, name: str) -> type[KitOptions]:
        return all_kits()[name].Options

    def __iter__(self) -> Iterator[str]:
        return iter(all_kits())

    def __len__(self) -> int:
        return len(all_kits())


@cache
def all_kits() -> Mapping[str, type[Kit]]:
    """Return every kit by name, loaded when first used. In-tree kits precede those of other packages."""
    return _Kits()


def kit_options() -> Mapping[str, type[KitOptions]]:
    """Return every kit's options model by the kit's name."""
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


def check_specs(specs: Sequence[ServiceSpec]) -> tuple[dict[str, KitOptions], list[Mistake]]:
    """Return each service's options as validated by its kit, and all mistakes in them. Starts nothing."""
    options: dict[str, KitOptions] = {}
    found: list[Mistake] = []
    for spec in specs:
        kind = all_kits().get(spec.kit)
        if kind is None:
            found.append(unknown_name(("lab", spec.name, "kit"), spec.kit, "kit", all_kits()))
            continue
        try:
            options[spec.name] = parsed = kind.Options.model_validate(spec.options)
        except ValidationError as why:
            found += _option_mistakes(spec, kind, why)
            continue
        found += _tls_mistakes(spec, kind, parsed) + _without_effect(spec, kind) + _too_large(spec, parsed)
    return options, found


def _option_mistakes(spec: ServiceSpec, kind: type[Kit], why: ValidationError) -> Iterable[Mistake]:
    """Yield the first mistake of each rejected option; for a bad value with the option's description."""
    fields = kind.Options.model_fields
    known = {field.alias or name: field.description or "" for name, field in fields.items()}
    reported: set[Path] = set()
    for mistake in mistakes_of(in_our_words(spec.kit, known, why), ("lab", spec.name)):
        if mistake.code == BAD_VALUE:
            mistake = _of_the_option(mistake, known)
        if mistake.path not in reported:
            reported.add(mistake.path)
            yield mistake


def _of_the_option(mistake: Mistake, known: Mapping[str, str]) -> Mistake:
    """Return a bad value's mistake at its option, or at its parameter of `tuning`, without the union members
    that pydantic adds to the path, which no study contains."""
    depth = 4 if mistake.path[2:3] == ("tuning",) else 3
    path, hint = mistake.path[:depth], mistake.details.get("hint")
    meaning = known.get(str(path[-1]), "") if len(path) == 3 else ""
    details = {"where": where(path), "hint": hint or (f"It is: {meaning}." if meaning else "")}
    return replace(mistake, path=path, details=mistake.details | details)


def _without_effect(spec: ServiceSpec, kind: type[Kit]) -> list[Mistake]:
    """Return a mistake for each option that would have no effect."""
    found = []
    for key in kind.ignores:
        default = KitOptions.model_fields[key].default
        if spec.options.get(key, default) != default:
            reason = f"the kit {kind.name} cannot set it"
            found.append(bad_value(("lab", spec.name, key), reason, spec.options[key], "Leave it out."))
    return found


def _too_large(spec: ServiceSpec, options: KitOptions) -> list[Mistake]:
    """Return a mistake for each number that is too large for any server: workers are started one by one."""
    found = []
    for key in options.model_fields_set:
        value = getattr(options, key)
        bound = WORKERS if key.endswith(("workers", "threads")) else OPTION
        field = type(options).model_fields[key].json_schema_extra
        unit = field.get("unit") if isinstance(field, dict) else ""
        bound = {"size": SIZE_BYTES, "time": TIME_NS}.get(str(unit), bound)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > bound.most:
            found.append(bad_value(("lab", spec.name, key), bound.text, spec.options.get(key)))
    return found


def _tls_mistakes(spec: ServiceSpec, kind: type[Kit], options: KitOptions) -> list[Mistake]:
    allowed = (["true"] if kind.own_tls else []) + (["hitch"] if kind.front else [])
    written = {True: "true", False: None}.get(options.tls) if isinstance(options.tls, bool) else options.tls
    if written is None or written in allowed:
        return []
    hint = f"Write tls: {' or tls: '.join(allowed)}." if allowed else "Leave it out."
    return [bad_value(("lab", spec.name, "tls"), f"the kit {kind.name} has no such TLS front", written, hint)]
