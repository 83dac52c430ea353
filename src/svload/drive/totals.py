"""Results of the shares of one load, merged: totals by group, and each generator's own cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from svload.model.summaries import GeneratorSummary, GroupSummary, Http2Summary, StepSummary

if TYPE_CHECKING:
    from svload.drive.generators import ShareResult

_MAPS = ("errors", "status", "checks_failed")


def merge_summaries(results: Sequence[ShareResult], group_names: Sequence[str]) -> tuple[GroupSummary, ...]:
    """Return totals by group over all shares: counts are added exactly; the longest silence is
    an upper bound."""
    merged: list[GroupSummary] = []
    for index, name in enumerate(group_names):
        parts = [
            group | group.get("vu_time", {})
            for result in results
            for place, group in zip(result.share.groups, result.summary["groups"], strict=True)
            if place == index
        ]
        fields: dict[str, Any] = {"name": name}
        for key in GroupSummary.model_fields:
            if key == "name":
                continue
            if key == "http2":
                fields[key] = _add_http2([part.get(key, {}) for part in parts])
            elif key in _MAPS:
                fields[key] = _add_maps([part.get(key, {}) for part in parts])
            elif key == "steps":
                fields[key] = _merge_steps([part.get(key, []) for part in parts])
            elif key in ("last_done_ns", "last_failed_ns"):
                fields[key] = max((part.get(key, -1) for part in parts), default=-1)
            elif key == "first_failure":
                failures = [failure for part in parts if (failure := part.get(key))]
                fields[key] = min(failures, key=lambda failure: failure["at_ns"], default=None)
            elif key == "plan_done":
                fields[key] = bool(parts) and all(part.get(key, False) for part in parts)
            elif key == "longest_silence_ns":
                fields[key] = _longest_silence_ns(parts)
            else:
                fields[key] = sum(part.get(key, 0) for part in parts)
        merged.append(GroupSummary(**fields))
    return tuple(merged)


def _longest_silence_ns(parts: Sequence[Mapping[str, Any]]) -> int:
    """Return how long no share had a completion, at most. Each was silent before its first due request."""
    asked = [part for part in parts if part.get("first_due_ns", -1) >= 0]
    first_ns = min((part["first_due_ns"] for part in asked), default=0)
    silences = (part["longest_silence_ns"] + part["first_due_ns"] - first_ns for part in asked)
    return min(silences, default=0)


def _merge_steps(parts: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[StepSummary, ...]:
    """Return each step's totals over the shares, which all have the same steps."""
    merged = []
    for steps in zip(*parts, strict=True):
        fields: dict[str, Any] = {"name": steps[0]["name"]}
        fields |= {
            key: sum(step[key] for step in steps) for key in ("due", "begun", "dropped", "ok", "failed")
        }
        fields |= {key: _add_maps([step[key] for step in steps]) for key in ("errors", "status")}
        merged.append(StepSummary(**fields))
    return tuple(merged)


def generator_costs(results: Sequence[ShareResult]) -> tuple[GeneratorSummary, ...]:
    """Return the cost of each share, summed over its threads (the longest loop pass is a maximum)."""
    costs = []
    for result in results:
        threads = result.summary.get("threads", [])
        costs.append(
            GeneratorSummary(
                share=result.share.name,
                cpu_ns=sum(thread["cpu_ns"] for thread in threads),
                wall_ns=max((thread["wall_ns"] for thread in threads), default=0),
                run_queue_ns=sum(thread["run_queue_ns"] for thread in threads),
                loop_pass_max_ns=max((thread["loop_pass_max_ns"] for thread in threads), default=0),
            )
        )
    return tuple(costs)


def _add_http2(parts: Sequence[Mapping[str, Any]]) -> Http2Summary:
    maps = ("resets", "goaways")
    added: dict[str, Any] = {key: _add_maps([part.get(key, {}) for part in parts]) for key in maps}
    for key in Http2Summary.model_fields.keys() - maps:
        added[key] = sum(part.get(key, 0) for part in parts)
    return Http2Summary(**added)


def _add_maps(maps: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in maps:
        for key, count in one.items():
            total[key] = total.get(key, 0) + count
    return total
