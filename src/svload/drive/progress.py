"""Generators' progress reports during a load, merged for display. Pure."""

from __future__ import annotations

from typing import Any

PERCENTILES = ("response_p50_ns", "response_p95_ns", "response_p99_ns")


def continued(before: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    """Merge a share's progress with an earlier report that was not shown; `last` is since the one before."""
    for group, earlier in zip(now["groups"], before["groups"] if before else (), strict=False):
        last, unseen = group.get("last", {}), earlier.get("last", {})
        for key in ("ok", "failed"):
            last[key] = last.get(key, 0) + unseen.get(key, 0)
        for key in PERCENTILES:
            last[key] = max(last.get(key) or 0, unseen.get(key) or 0)
        group["last"] = last
    return now


def merge_progress(parts: Any) -> dict[str, Any]:
    """Return the progress of several shares as one: counts added by group, the latest offset, the worst
    percentiles (for display only).

    `cpu_s` is the CPU time that the generators' processes have used since they started.
    """
    groups: dict[str, dict[str, Any]] = {}
    offset_ns, cpu_s = 0, 0.0
    for part in parts:
        offset_ns = max(offset_ns, part["offset_ns"])
        cpu_s += part.get("cpu_s", 0.0)
        for group in part["groups"]:
            merged = groups.setdefault(group["name"], {"name": group["name"], "errors": {}, "last": {}})
            for key in ("due", "begun", "ok", "failed", "redirects", "in_flight", "active_vus"):
                merged[key] = merged.get(key, 0) + group.get(key, 0)
            for name, count in group.get("errors", {}).items():
                merged["errors"][name] = merged["errors"].get(name, 0) + count
            last = group.get("last", {})
            for key in ("ok", "failed"):
                merged["last"][key] = merged["last"].get(key, 0) + last.get(key, 0)
            for key in PERCENTILES:
                merged["last"][key] = max(merged["last"].get(key, 0), last.get(key) or 0)
    return {"offset_ns": offset_ns, "groups": list(groups.values()), "cpu_s": cpu_s}
