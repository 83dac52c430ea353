"""The results of each generator of a group, before all are merged; and those of each machine and site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from svload.analysis.quantiles import Ranked, bucket_middles, merged_ranks, ranked_counts, ranked_values
from svload.drive.generators import ShareResult
from svload.model.columns import HISTOGRAM_METRICS
from svload.model.study import CaseConfig
from svload.model.summaries import GeneratorPart, PlacePart
from svload.store.load_time import Turns, responses_ns, samples_in_load_time
from svload.store.parquet import AnyTable, as_arrays

_RESPONSE = HISTOGRAM_METRICS.index("response")
_COUNTS = ("due", "begun", "ok", "failed", "connections_opened", "bytes_received")


class _Part(NamedTuple):
    """One generator of a group: the share that it was in, its counts, its responses and their sum in ns."""

    group: int
    number: int
    result: ShareResult
    summed: Mapping[str, object]
    ranked: Ranked
    total_ns: float


def parts_of(
    results: Sequence[ShareResult],
    tables: Sequence[Mapping[str, AnyTable]],
    config: CaseConfig,
    window_ns: tuple[int, int],
    interval_ns: int,
) -> tuple[tuple[GeneratorPart, ...], tuple[PlacePart, ...]]:
    """Return the parts of all groups with several generators, by group and number; and by machine and site,
    if other machines made the load. `tables` are those of the results, not merged."""
    found = sorted(_parts(results, tables, config, window_ns, interval_ns), key=lambda one: one[:2])
    of_generators = tuple(_generator(config, one) for one in found if config.groups[one.group].generators > 1)
    return of_generators, tuple(_places(config, [one for one in found if one.result.machine]))


def _parts(
    results: Sequence[ShareResult],
    tables: Sequence[Mapping[str, AnyTable]],
    config: CaseConfig,
    window_ns: tuple[int, int],
    interval_ns: int,
) -> Iterator[_Part]:
    for result, own in zip(results, tables, strict=True):
        for place, (part, summed) in enumerate(
            zip(result.share.parts, result.summary["groups"], strict=True)
        ):
            if config.groups[part.group].generators > 1 or result.machine:
                turns = result.share.spec.turns_ns
                ranked, total_ns = _responses(own, place, window_ns, interval_ns, turns)
                yield _Part(part.group, part.number, result, summed, ranked, total_ns)


def _generator(config: CaseConfig, one: _Part) -> GeneratorPart:
    counts = {name: one.summed.get(name, 0) for name in _COUNTS}
    return GeneratorPart.model_validate(
        {
            "group": config.groups[one.group].name,
            "generator": one.number,
            "share": one.result.share.name,
            "machine": one.result.machine,
            **counts,
            "errors": one.summed.get("errors", {}),
            "status": one.summed.get("status", {}),
            "responses": one.ranked.total,
            "response_sum_ns": one.total_ns,
            "response_p50_ns": one.ranked.quantile(0.5),
            "response_p99_ns": one.ranked.quantile(0.99),
        }
    )


def _places(config: CaseConfig, parts: Sequence[_Part]) -> Iterator[PlacePart]:
    """Yield the parts, merged from the same values and buckets as the generators' figures."""
    by_place: dict[tuple[str, str, int], list[_Part]] = {}
    for one in parts:
        by_place.setdefault(("machine", one.result.machine, one.group), []).append(one)
        if one.result.site:
            by_place.setdefault(("site", one.result.site, one.group), []).append(one)
    for (kind, place, group), own in sorted(by_place.items(), key=lambda one: (one[0][2], one[0][0])):
        ranked = merged_ranks([one.ranked for one in own])
        yield PlacePart.model_validate(
            {
                "kind": kind,
                "place": place,
                "group": config.groups[group].name,
                **{
                    name: sum(int(str(one.summed.get(name, 0))) for one in own)
                    for name in ("due", "ok", "failed")
                },
                "responses": ranked.total,
                "response_sum_ns": sum(one.total_ns for one in own),
                "response_p50_ns": ranked.quantile(0.5),
                "response_p99_ns": ranked.quantile(0.99),
            }
        )


def _responses(
    tables: Mapping[str, AnyTable],
    place: int,
    window_ns: tuple[int, int],
    interval_ns: int,
    turns_ns: Sequence[tuple[int, int]] | None = None,
) -> tuple[Ranked, float]:
    """Return the ok responses of one group of a share that were due in the window, and their sum in ns: from
    rows if there are any, else from buckets."""
    rows = as_arrays(tables.get("samples", {}))
    if len(rows.get("group", ())) and (mine := rows["group"] == place).any():
        if turns_ns:
            rows = rows | samples_in_load_time(rows, Turns.of_ends(turns_ns))
        due_ns = rows["due_ns"]
        kept = mine & (rows["error"] == 0) & (due_ns >= window_ns[0]) & (due_ns < window_ns[1])
        took_ns = responses_ns(rows)[kept]
        return ranked_values(took_ns), float(took_ns.sum())
    table = as_arrays(tables["histograms"])
    at_ns = table["interval"].astype(np.int64) * interval_ns
    within = (at_ns >= window_ns[0]) & (at_ns < window_ns[1])
    of_group = (table["group"] == place) & (table["metric"] == _RESPONSE) & within
    buckets, counts = table["bucket"][of_group].astype(np.int64), table["count"][of_group].astype(np.int64)
    by_bucket = np.bincount(buckets, weights=counts).astype(np.int64)
    return ranked_counts(by_bucket), float((bucket_middles(buckets) * counts).sum())
