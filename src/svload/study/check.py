"""Whether a study's names fit together: every factor, level, service, group, feeder, column and metric that is named exists.

Reads plain data that may be broken anywhere; what is no mapping or text is passed over here and told by the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from svload.model.metrics import Source, parse_criterion
from svload.model.study import Factor
from svload.study import schema, values
from svload.study.comparisons import bring_up_mistakes, comparison_mistakes
from svload.study.factors import Kits, check_when
from svload.study.mistakes import Mistake, bad_criterion, bad_reference, bad_value, mistakes_of, unknown_name
from svload.study.references import Vocabulary, allowed_at, explain, references_in, strings_in
from svload.study.steps import step_owners, variables
from svload.study.tree import Path, kit_of

WITHOUT_REFERENCES = ("name", "question", "seed", "exclude", "case_names", "measure", "compare", "profiles")


def check_shape(data: Any) -> list[Mistake]:
    """What the file's schema does not accept."""
    try:
        schema.StudyFile.model_validate(data, context=values.AS_WRITTEN)
    except ValidationError as why:
        return mistakes_of(why, ())
    return []


def owners_of(data: Mapping[str, Any]) -> dict[str, Source]:
    """Whom the metric grammar may name: traffic groups, services, feeders."""
    kinds: tuple[tuple[str, Source], ...] = (
        ("feeders", "feeder"),
        ("lab", "service"),
        ("traffic", "traffic"),
    )
    owners = {name: source for section, source in kinds for name in _mapping(data, section)}
    return owners | dict.fromkeys(step_owners(data), "traffic")


def check_names(data: Mapping[str, Any], vocabulary: Vocabulary, kits: Kits | None) -> list[Mistake]:
    """Names that stand for nothing, references that can never be resolved, criteria that are none."""
    factors, unsure = vocabulary.factors, vocabulary.unsure
    mistakes = list(_clashes(data))
    mistakes += _references(data, vocabulary)
    for path, when in _whens(data):
        mistakes += check_when(when, path, factors, unsure)
    mistakes += _targets(data)
    mistakes += comparison_mistakes(data, factors, unsure, owners_of(data))
    mistakes += bring_up_mistakes(data)
    mistakes += _criteria(data, factors)
    for name, service in _dicts(_mapping(data, "lab")):
        kit = kit_of(service)
        if kits is not None and kit is not None and not values.holds_reference(kit) and kit not in kits:
            mistakes.append(unknown_name(("lab", name, "kit"), kit, "kit", kits))
    return mistakes


def _clashes(data: Mapping[str, Any]) -> Iterable[Mistake]:
    """Groups, services and feeders share one grammar; factors and feeders share `${…}`."""
    for first, second in (
        ("lab", "traffic"),
        ("lab", "feeders"),
        ("feeders", "traffic"),
        ("factors", "feeders"),
    ):
        for name in _mapping(data, first):
            if name in _mapping(data, second):
                yield bad_value(
                    (second, name), f"the name stands under {first} already", name, "Take another name."
                )
    taken = variables(data)
    for section in ("factors", "feeders"):
        for name in _mapping(data, section):
            if name in taken:
                yield bad_value(
                    (section, name), "a request takes a variable of that name", name, "Take another name."
                )
            if name == "secret" and data.get("secrets"):
                yield bad_value(
                    (section, name), "that is what secrets are called", name, "Take another name."
                )


def _references(data: Mapping[str, Any], vocabulary: Vocabulary) -> Iterable[Mistake]:
    for path, text in strings_in(dict(data), ()):
        if path[0] == "profiles":
            continue
        for reference in references_in(text):
            if path[0] in WITHOUT_REFERENCES or path[-1] == "when":
                yield bad_reference(path, f"${{{reference}}}", "It is read before the cases are made.")
                continue
            # A level's field may hold what only its place of use allows.
            parts = [path] if path[0] != "factors" else [("requests",), ("lab",)]
            told = [explain(reference, vocabulary, allowed_at(part)) for part in parts]
            if told[0] and all(told):
                hint, meant = told[0]
                yield bad_reference(path, f"${{{reference}}}", hint, meant)


def _whens(data: Mapping[str, Any]) -> Iterable[tuple[Path, Any]]:
    for section in ("exclude", "before_trial", "compare", "thresholds"):
        for index, item in enumerate(_sequence(data, section)):
            if isinstance(item, dict):
                yield (section, index, "when"), item.get("when")
    for name, group in _mapping(data, "traffic").items():
        if isinstance(group, dict):
            yield ("traffic", name, "when"), group.get("when")


def _targets(data: Mapping[str, Any]) -> Iterable[Mistake]:
    """Services, sets of objects, feeders, requests and groups that are named by name."""
    services, groups = _mapping(data, "lab"), _mapping(data, "traffic")

    def named(path: Path, name: Any, kind: str, known: Iterable[str]) -> Iterable[Mistake]:
        if isinstance(name, str) and not values.holds_reference(name) and name not in known:
            yield unknown_name(path, name, kind, known)

    for name, item in _dicts(services):
        for place, secret in enumerate(_sequence(item, "secrets")):
            yield from named(("lab", name, "secrets", place), secret, "secret", _mapping(data, "secrets"))
    for name, item in _dicts(_mapping(data, "data")):
        yield from named(("data", name, "in"), item.get("in"), "service", services)
    for name, item in _dicts(_mapping(data, "feeders")):
        yield from named(
            ("feeders", name, "from"), item.get("from"), "set under data", _mapping(data, "data")
        )
    for index, item in enumerate(_sequence(data, "setup")):
        request = item.get("request") if isinstance(item, dict) else item
        if isinstance(request, str) and " " not in request.strip():
            yield from named(("setup", index), request, "request", _mapping(data, "requests"))
    for index, step in enumerate(_sequence(data, "before_trial")):
        if not isinstance(step, dict):
            continue
        path: Path = ("before_trial", index)
        reset = step.get("reset")
        for place, service in enumerate(reset if isinstance(reset, list) else [reset]):
            at: Path = (*path, "reset", place) if isinstance(reset, list) else (*path, "reset")
            yield from named(at, service, "service", services)
        yield from named((*path, "warm"), step.get("warm"), "feeder", _mapping(data, "feeders"))
        yield from named((*path, "through"), step.get("through"), "service", services)
    for name, group in _dicts(groups):
        request = group.get("request")
        if isinstance(request, str) and " " not in request.strip():
            yield from named(("traffic", name, "request"), request, "request", _mapping(data, "requests"))
        waits_for = group.get("start_when")
        if isinstance(waits_for, str):
            other, _, event = waits_for.partition(".")
            if event != "ramped" or other == name:
                yield bad_value(
                    ("traffic", name, "start_when"), "GROUP.ramped of another group was expected", waits_for
                )
            else:
                yield from named(("traffic", name, "start_when"), other, "traffic group", groups)


def _criteria(data: Mapping[str, Any], factors: Mapping[str, Factor]) -> Iterable[Mistake]:
    owners = owners_of(data)
    texts: list[tuple[Path, Any]] = []
    for index, item in enumerate(_sequence(data, "thresholds")):
        that = item.get("that") if isinstance(item, dict) else item
        texts.append(
            (("thresholds", index, "that") if isinstance(item, dict) else ("thresholds", index), that)
        )
    for factor in factors.values():
        for level in factor.levels:
            texts += [(("factors", factor.name, level.name, "expect"), text) for text in level.expect]
    for path, text in texts:
        if not isinstance(text, str) or values.holds_reference(text):
            continue
        try:
            parse_criterion(text, owners)
        except ValueError as why:
            yield bad_criterion(path, text, str(why))


def check_criteria(texts: Iterable[str], data: Mapping[str, Any], path: Path) -> Iterable[Mistake]:
    """Criteria of one case after their references were put in."""
    owners = owners_of(data)
    for text in texts:
        try:
            parse_criterion(text, owners)
        except ValueError as why:
            yield bad_criterion(path, text, str(why))


def _mapping(data: Mapping[str, Any], section: str) -> dict[str, Any]:
    raw = data.get(section)
    return raw if isinstance(raw, dict) else {}


def _sequence(data: Mapping[str, Any], section: str) -> list[Any]:
    raw = data.get(section)
    return raw if isinstance(raw, list) else []


def _dicts(raw: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    return ((name, item) for name, item in raw.items() if isinstance(item, dict))
