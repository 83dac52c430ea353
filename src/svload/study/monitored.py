"""Criteria on monitors' metrics: whether a monitor reads it, and in this unit. The caller knows the monitors;
this package does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from svload.model.metrics import CATALOGUE, MetricRef, Source, parse_criterion, parse_metric, why_not_live
from svload.model.monitored import Monitored
from svload.model.units import show_percent, units_of
from svload.study.mistakes import Mistake, bad_criterion, nearest
from svload.study.tree import Path, section_of

Known = Callable[[], Mapping[str, Monitored]]
"""Returns every name that some monitor of services has (`svload.watch.monitored_names`); only called if a
criterion names one."""


def none_known() -> Mapping[str, Monitored]:
    """Return no names: criteria may use no monitor's metric."""
    return {}


def monitored_mistakes(
    texts: Iterable[tuple[Path, str]], owners: dict[str, Source], data: Mapping[str, Any], known: Known
) -> Iterator[Mistake]:
    """Return names in criteria and comparisons that no monitor has, wrong units, and shares above 100 %.
    Texts that cannot be parsed are reported elsewhere."""
    for path, text in texts:
        ref, value = _read(text, owners)
        if ref is None:
            continue
        if ref.metric.monitored:
            if fault := _wrong(ref, value is not None, known, data):
                yield bad_criterion(path, text, fault)
        elif ref.metric.name in _SHARES and value is not None and value > 1:
            hint = "" if "%" in text else f"Write {value:g} %."
            yield bad_criterion(path, text, f"{show_percent(value, 6)} is more than all of it", hint)


_SHARES = {metric.name for metric in CATALOGUE.values() if metric.dimension == "ratio"} - {"cpu"}


def metric_in(text: str, owners: dict[str, Source]) -> MetricRef | None:
    """Return the metric of a criterion, or that a comparison names; None if the text is neither."""
    return _read(text, owners)[0]


def _read(text: str, owners: dict[str, Source]) -> tuple[MetricRef | None, float | None]:
    """Return (the metric, the value that it is compared with); None for what is missing."""
    with suppress(ValueError):
        criterion = parse_criterion(text, owners)
        return criterion.ref, criterion.value
    with suppress(ValueError):
        return parse_metric(text, owners), None
    return None, None


def _wrong(ref: MetricRef, criterion: bool, known: Known, data: Mapping[str, Any]) -> str:
    name = ref.metric.name
    names = known()
    one = names.get(name)
    if one is None:
        if _has_own_page(data, ref.owner):
            return ""
        words = {metric for source, metric in CATALOGUE if source == "service"}
        words |= {found.names[-1] for found in names.values()}
        return f"“{name}” is not a metric of a service, nor does a monitor read it ({nearest(name, words)})"
    if ref.stat and one.how != "gauge":
        return f"{name} is one number and has no “.{ref.stat}”"
    written = ref.metric.dimension
    if criterion and written != one.dimension and (written, one.dimension) != ("count", "ratio"):
        units = ", ".join(units_of(one.dimension))
        what = "a share of the time" if one.how == "share" else "read so"
        return f"{name} is {what}: write it {f'in {units}' if units else 'as a number without a unit'}"
    return ""


def _has_own_page(data: Mapping[str, Any], service: str) -> bool:
    """Return whether a service has a page of metrics: its content is known only when it runs."""
    return "metrics" in section_of(section_of(data, "lab"), service)


def abort_mistakes(texts: Iterable[tuple[Path, Any]], owners: dict[str, Source]) -> Iterator[Mistake]:
    """Check `abort_if`, evaluated while load is made: it may use what monitors read and clients see."""
    for path, text in texts:
        if not isinstance(text, str):
            continue
        try:
            criterion = parse_criterion(text, owners)
        except ValueError as why:
            yield bad_criterion(path, text, str(why))
            continue
        reason = "only a threshold can name one level of the load" if criterion.level else ""
        if reason := reason or why_not_live(criterion.ref):
            yield bad_criterion(path, text, reason)
