"""Each generator's own results over a case's trials, and those of each machine and site. Counts are added exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from svload.model.results import GeneratorPart, GeneratorResult, TrialSummary
from svload.model.summaries import PlacePart


def generator_results(summaries: Iterable[TrialSummary]) -> tuple[GeneratorResult, ...]:
    """By traffic group and generator, of groups with several, then by machine and by site; empty where no trial keeps
    them apart."""
    found: dict[tuple[str, int | None, str], list[GeneratorPart | PlacePart]] = {}
    for summary in summaries:
        for part in summary.parts:
            found.setdefault((part.group, part.generator, part.machine), []).append(part)
        for place in summary.places:
            name = place.place if place.kind == "machine" else f"site {place.place}"
            found.setdefault((place.group, None, name), []).append(place)
    return tuple(_over_trials(*key, parts) for key, parts in found.items())


def _over_trials(
    group: str, generator: int | None, place: str, parts: Sequence[GeneratorPart | PlacePart]
) -> GeneratorResult:
    ended = sum(part.ok + part.failed for part in parts)
    responses = sum(part.responses for part in parts)
    medians = [part.response_p50_ns for part in parts if part.response_p50_ns is not None]
    tails = [part.response_p99_ns for part in parts if part.response_p99_ns is not None]
    return GeneratorResult(
        group=group,
        generator=generator,
        place=place,
        trials=len(parts),
        due=sum(part.due for part in parts),
        ok=sum(part.ok for part in parts),
        failed=sum(part.failed for part in parts),
        success_rate=sum(part.ok for part in parts) / ended if ended else None,
        response_mean_s=sum(part.response_sum_ns for part in parts) / responses / 1e9 if responses else None,
        response_p50_s=median(medians) / 1e9 if medians else None,
        response_p99_s=median(tails) / 1e9 if tails else None,
    )
