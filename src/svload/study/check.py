"""Whether a study's names fit together: every factor, level, service, group, feeder, column and metric
exists.

Reads plain data that may be broken anywhere; the schema reports what is no mapping or text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from svload.model.executors import RampingArrivalRate, RampingVus
from svload.model.metrics import OF_FAULTS, Criterion, Source, parse_criterion
from svload.model.study import Case, CaseConfig, Factor
from svload.study import schema, values
from svload.study.comparisons import bring_up_mistakes, comparison_mistakes
from svload.study.factors import Kits, check_when, level_name, matches
from svload.study.mistakes import Mistake, bad_criterion, bad_reference, bad_value, mistakes_of, unknown_name
from svload.study.monitored import Known, abort_mistakes, metric_in, monitored_mistakes
from svload.study.references import (
    Vocabulary,
    allowed_at,
    explain,
    references_in,
    refers,
    strings_in,
    unclosed,
)
from svload.study.sets import set_mistakes
from svload.study.steps import populations, step_owners, variables
from svload.study.targets import target_mistakes
from svload.study.tree import Path, dicts_of, kit_of, mappings_of, section_of, sequence_of
from svload.study.turns import turn_mistakes

WITHOUT_REFERENCES = ("name", "question", "seed", "exclude", "case_names", "compare", "abort_if", "profiles")


def check_shape(data: Any) -> list[Mistake]:
    """Return what the file's schema does not accept."""
    try:
        schema.StudyFile.model_validate(data, context=values.AS_WRITTEN)
    except ValidationError as why:
        return mistakes_of(why, ())
    return []


def owners_of(data: Mapping[str, Any]) -> dict[str, Source]:
    """Return the owners in the metric grammar: traffic groups, services, feeders."""
    kinds: tuple[tuple[str, Source], ...] = (
        ("feeders", "feeder"),
        ("lab", "service"),
        ("traffic", "traffic"),
    )
    owners = {name: source for section, source in kinds for name in section_of(data, section)}
    owners |= dict.fromkeys(step_owners(data), "traffic")
    before = populations(data)
    return {name: source for name, source in owners.items() if name.partition(".")[0] not in before}


def check_names(
    data: Mapping[str, Any], vocabulary: Vocabulary, kits: Kits | None, monitored: Known
) -> Iterator[Mistake]:
    """Return unknown names, references that can never be resolved, and invalid criteria."""
    factors, unsure = vocabulary.factors, vocabulary.unsure
    yield from _clashes(data)
    yield from _references(data, vocabulary)
    for path, when in _whens(data):
        yield from check_when(when, path, factors, unsure)
    yield from target_mistakes(data)
    yield from _waiting_in_a_circle(data)
    yield from comparison_mistakes(data, factors, unsure, owners_of(data))
    yield from bring_up_mistakes(data)
    yield from turn_mistakes(data, owners_of(data))
    yield from _criteria(data, factors, monitored)
    yield from set_mistakes(data, factors)
    for name, service in dicts_of(section_of(data, "lab")):
        kit = kit_of(service)
        if kits is not None and kit is not None and not values.holds_reference(kit) and kit not in kits:
            yield unknown_name(("lab", name, "kit"), kit, "kit", kits)


def _waiting_in_a_circle(data: Mapping[str, Any]) -> Iterable[Mistake]:
    """Return groups that wait for each other in a cycle."""
    waits = {
        name: group["start_when"].removesuffix(".ramped")
        for name, group in dicts_of(section_of(data, "traffic"))
        if isinstance(group.get("start_when"), str)
    }
    for name in waits:
        seen, at = {name}, waits[name]
        while at in waits and at not in seen:
            seen.add(at)
            at = waits[at]
        if at == name and len(seen) > 1:
            reason = f"{' and '.join(sorted(seen))} wait for each other in a cycle"
            yield bad_value(
                ("traffic", name, "start_when"), reason, waits[name], "Remove start_when from one of them."
            )
            return


def _clashes(data: Mapping[str, Any]) -> Iterable[Mistake]:
    """Return names used twice: groups, services, feeders share one grammar; factors and feeders `${…}`."""
    for first, second in (
        ("lab", "traffic"),
        ("lab", "feeders"),
        ("feeders", "traffic"),
        ("factors", "feeders"),
    ):
        for name in section_of(data, first):
            if name in section_of(data, second):
                yield bad_value(
                    (second, name), f"the name is already used under {first}", name, "Take another name."
                )
    taken = variables(data)
    for section in ("factors", "feeders"):
        for name in section_of(data, section):
            if name in taken:
                yield bad_value(
                    (section, name), "a request takes a variable of that name", name, "Take another name."
                )
            if name == "secret" and data.get("secrets"):
                yield bad_value(
                    (section, name), "the name is reserved for secrets", name, "Take another name."
                )


def _references(data: Mapping[str, Any], vocabulary: Vocabulary) -> Iterable[Mistake]:
    for path, text in strings_in(dict(data), ()):
        if path[0] == "profiles":
            continue
        if path[0] not in WITHOUT_REFERENCES and (mistake := unclosed(path, text)):
            yield mistake
        for reference in references_in(text):
            if path[0] in WITHOUT_REFERENCES or _in_when(path):
                yield bad_reference(path, f"${{{reference}}}", "It is read before the cases are made.")
                continue
            # A level's field may hold what only its place of use allows.
            parts = [path] if path[0] != "factors" else [("requests",), ("lab",)]
            texts = [explain(reference, vocabulary, allowed_at(part)) for part in parts]
            if texts[0] and all(texts):
                hint, meant = texts[0]
                yield bad_reference(path, f"${{{reference}}}", hint, meant)


def _in_when(path: Path) -> bool:
    """Return whether a text is in a `when`; a level, its field or a header may have that name too."""
    return path[2:3] == ("when",) and path[0] != "factors"


def _whens(data: Mapping[str, Any]) -> Iterable[tuple[Path, Any]]:
    for section in ("exclude", "before_trial", "faults", "compare", "thresholds"):
        for index, item in mappings_of(data, section):
            yield (section, index, "when"), item.get("when")
    for name, group in dicts_of(section_of(data, "traffic")):
        yield ("traffic", name, "when"), group.get("when")


def _criteria(data: Mapping[str, Any], factors: Mapping[str, Factor], monitored: Known) -> Iterable[Mistake]:
    owners = owners_of(data)
    texts: list[tuple[Path, Any]] = [(path, that) for path, that, _ in _thresholds(data)]
    for factor in factors.values():
        for level in factor.levels:
            texts += [(("factors", factor.name, level.name, "expect"), text) for text in level.expect]
    written = [(path, text) for path, text in texts if isinstance(text, str) and not refers(text)]
    for path, text in written:
        try:
            parse_criterion(text, owners)
        except ValueError as why:
            yield bad_criterion(path, text, str(why))
    aborts: list[tuple[Path, Any]] = [
        (("abort_if", index), text)
        for index, text in enumerate(sequence_of(data, "abort_if"))
        if not refers(text)
    ]
    yield from abort_mistakes(aborts, owners)
    written += [(path, text) for path, text in aborts if isinstance(text, str)]
    written += _metrics(data)
    yield from monitored_mistakes(written, owners, data, monitored)


def check_case_criteria(config: CaseConfig, data: Mapping[str, Any], monitored: Known) -> Iterable[Mistake]:
    """Check the criteria of one case after their references were resolved."""
    owners = owners_of(data)
    places = [path for path, _, when in _thresholds(data) if matches(when, config.case.levels)]
    if len(places) != len(config.thresholds):  # a broken one is left out
        places = [("thresholds",)] * len(config.thresholds)
    texts: list[tuple[Path, str]] = list(zip(places, config.thresholds, strict=True))
    texts += [(_expect_at(data, config.case, text), text) for text in config.expects]
    yield from monitored_mistakes(texts, owners, data, monitored)
    for number, (path, text) in enumerate(texts):
        try:
            criterion = parse_criterion(text, owners)
        except ValueError as why:
            yield bad_criterion(path, text, str(why))
            continue
        if criterion.level and number >= len(config.thresholds):
            yield bad_criterion(path, text, "only a threshold can name one level of the load")
        elif criterion.level and (reason := _no_such_level(criterion, config)):
            yield bad_criterion(path, text, reason)


def _no_such_level(criterion: Criterion, config: CaseConfig) -> str:
    """Return why its group has no such level; empty: it has."""
    owner = criterion.ref.owner or config.main_group
    executor = next((group.executor for group in config.groups if group.name == owner), None)
    levels = executor.levels if isinstance(executor, RampingVus | RampingArrivalRate) else []
    if criterion.level in levels:
        return ""
    if not levels:
        return f"{owner} has no stage that stays at one level"
    # As a criterion is written: without separators.
    wanted, *there = (level.replace(",", "") for level in (criterion.level, *levels))
    return f"{owner} does not stay at {wanted}, only at {', '.join(there)}"


def check_given(
    config: CaseConfig, given: Mapping[str, frozenset[str] | None], data: Mapping[str, Any]
) -> Iterable[Mistake]:
    """Check criteria and comparisons that use counters of a case's services which these lack. `given`:
    service → metrics."""
    if all(known is None for known in given.values()):
        return
    owners = owners_of(data)
    texts = [*_texts_of(config, data), *_metrics(data, config.case)]
    for path, text, ref in ((path, text, metric_in(text, owners)) for path, text in texts):
        if ref is None:
            continue
        known = given.get(ref.owner) if ref.metric.source == "service" else None
        if known is not None and not ref.metric.monitored and ref.metric.name not in known:
            gives = f"it gives {', '.join(sorted(known))}" if known else "it gives none"
            yield bad_criterion(path, text, f"{ref.owner} does not count its {ref.metric.name} ({gives})")


def check_faulted(config: CaseConfig, data: Mapping[str, Any]) -> Iterable[Mistake]:
    """Check criteria on the outcome of planned faults in a case that has none."""
    if config.faults:
        return
    owners = owners_of(data)
    for path, text in _texts_of(config, data):
        if (ref := metric_in(text, owners)) and ref.metric.name in OF_FAULTS:
            yield bad_criterion(path, text, "no fault is planned in any case that it applies to; see faults")


def _texts_of(config: CaseConfig, data: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """Return the resolved criteria of a case, each with its place if it is written there as it is."""
    places = {str(that): path for path, that, _ in _thresholds(data)}
    texts: list[tuple[Path, str]] = [(places.get(text, ("thresholds",)), text) for text in config.thresholds]
    return texts + [(_expect_at(data, config.case, text), text) for text in config.expects]


def _metrics(data: Mapping[str, Any], of: Case | None = None) -> Iterator[tuple[Path, str]]:
    """Return the metric of each comparison, and its place; of a case: of those that its levels belong to."""
    for index, item in mappings_of(data, "compare"):
        belongs = of is None or matches(section_of(item, "when"), of.levels)
        if belongs and isinstance(metric := item.get("metric"), str):
            yield ("compare", index, "metric"), metric


def _thresholds(data: Mapping[str, Any]) -> Iterator[tuple[Path, Any, dict[str, Any]]]:
    """Return the place of each threshold's criterion, the criterion, and its `when`."""
    for index, item in enumerate(sequence_of(data, "thresholds")):
        if isinstance(item, dict):
            yield ("thresholds", index, "that"), item.get("that"), section_of(item, "when")
        else:
            yield ("thresholds", index), item, {}


def _expect_at(data: Mapping[str, Any], case: Case, text: str) -> Path:
    for factor, level in case.levels.items():
        fields = section_of(section_of(section_of(data, "factors"), factor), level)
        if text == fields.get("expect") or text in sequence_of(fields, "expect"):
            return ("factors", factor, level, "expect")
    return ("factors",)


_UNTIL, _AT_MOST = ("measure", "until"), ("measure", "at_most")


def acting(data: Mapping[str, Any]) -> Iterator[Path]:
    """Return the paths of `until` and `at_most`, of those that have an effect in this study."""
    measure = section_of(data, "measure")
    until, at_most = measure.get("until"), measure.get("at_most")
    gated = any(item.get("fail_if") is not None for _, item in mappings_of(data, "compare"))
    if until is not None and sequence_of(data, "compare"):
        yield _UNTIL
    if at_most is not None and (until is not None or gated):
        yield _AT_MOST


def without_comparison(data: Mapping[str, Any], acts_elsewhere: Callable[[Path], bool]) -> Iterable[Mistake]:
    """Report `until` where no interval could become narrower, and `at_most` that bounds nothing, unless they
    act in another profile."""
    measure, acts = section_of(data, "measure"), set(acting(data))
    until, at_most, replicates = measure.get("until"), measure.get("at_most"), measure.get("replicates", 6)
    if until is not None and _UNTIL not in acts and not acts_elsewhere(_UNTIL):
        reason = "blocks are added until comparisons are narrow enough, and the study compares nothing"
        yield bad_value(_UNTIL, reason, until, "Add a comparison, or leave until out.")
    if not isinstance(at_most, int) or not isinstance(replicates, int):
        return  # absent, or a level's
    if _AT_MOST not in acts and not acts_elsewhere(_AT_MOST):
        reason = "it limits the blocks that until or a gate (fail_if) adds, and the study has neither"
        yield bad_value(_AT_MOST, reason, at_most, "Add until: ± 5 %, or leave at_most out.")
    if _AT_MOST in acts and at_most < replicates:
        reason = f"it counts the planned blocks too, and there are {replicates}"
        hint = f"Write at_most: {4 * replicates}, or lower replicates."
        yield bad_value(_AT_MOST, reason, at_most, hint)


def uncompared(data: Mapping[str, Any], cases: Sequence[Case]) -> Iterable[Mistake]:
    """Return comparisons without a pair of cases: baseline, or all it is compared with, is excluded."""
    if all(case.excluded is not None for case in cases):
        return  # reported as such
    for index, item in mappings_of(data, "compare"):
        factor, baseline, when = item.get("factor"), item.get("baseline"), section_of(item, "when")
        if not isinstance(factor, str) or baseline is None or factor in when:
            continue  # reported as such
        meant = [case for case in cases if factor in case.levels and matches(when, case.levels)]
        if not meant:
            continue
        matched: dict[tuple[tuple[str, str], ...], set[str]] = {}
        for case in (case for case in meant if case.excluded is None):
            rest = tuple((name, level) for name, level in case.levels.items() if name != factor)
            matched.setdefault(rest, set()).add(case.levels[factor])
        run = {level for levels in matched.values() for level in levels}
        if level_name(baseline) not in run:
            reason = (
                f"every case of {factor}: {level_name(baseline)} is excluded, so there is nothing to "
                "compare with"
            )
            yield bad_value(("compare", index, "baseline"), reason, level_name(baseline))
        elif len(run) < 2:
            reason = (
                f"every case but those of {factor}: {level_name(baseline)} is excluded, so there is nothing "
                "to compare"
            )
            yield bad_value(("compare", index, "factor"), reason, factor)
        elif not any(level_name(baseline) in levels and len(levels) > 1 for levels in matched.values()):
            reason = (
                f"no case that is run differs from one of {factor}: {level_name(baseline)} in {factor} alone"
            )
            yield bad_value(("compare", index, "factor"), reason, factor)
