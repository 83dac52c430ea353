"""Whether what a study names exists: in the study as written, and in each case with resolved levels.

Reads plain data that may be broken anywhere; the schema reports what is no mapping or text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from svload.study.mistakes import Mistake, bad_value, unknown_name
from svload.study.references import refers
from svload.study.tree import Path, dicts_of, mappings_of, section_of, sequence_of

_ON_SERVICES = {"reset": "restore any state of it", "restart": "restart it", "drop_cache": "know its files"}
"""Steps before a trial that name services → what cannot be done with a service that svload did not start."""


def target_mistakes(data: Mapping[str, Any]) -> Iterable[Mistake]:
    """Return services, sets of objects, feeders, requests and groups that are named and do not exist, and
    steps on servers that svload does not start. A name that contains a reference is skipped."""
    services, groups = section_of(data, "lab"), section_of(data, "traffic")

    def named(path: Path, name: Any, kind: str, known: Iterable[str]) -> Iterable[Mistake]:
        if isinstance(name, str) and name not in known and not refers(name):
            yield unknown_name(path, name, kind, known)

    for name, item in dicts_of(services):
        for place, secret in enumerate(sequence_of(item, "secrets")):
            yield from named(("lab", name, "secrets", place), secret, "secret", section_of(data, "secrets"))
    for name, item in dicts_of(section_of(data, "data")):
        yield from named(("data", name, "in"), item.get("in"), "service", services)
    for name, item in dicts_of(section_of(data, "feeders")):
        yield from named(
            ("feeders", name, "from"), item.get("from"), "set under data", section_of(data, "data")
        )
    for index, item in enumerate(sequence_of(data, "setup")):
        request = item.get("request") if isinstance(item, dict) else item
        if isinstance(request, str) and " " not in request.strip():
            yield from named(("setup", index), request, "request", section_of(data, "requests"))
    for index, step in mappings_of(data, "before_trial"):
        path: Path = ("before_trial", index)
        for kind, cannot in _ON_SERVICES.items():
            wanted = step.get(kind)
            for place, service in enumerate(wanted if isinstance(wanted, list) else [wanted]):
                at: Path = (*path, kind, place) if isinstance(wanted, list) else (*path, kind)
                yield from named(at, service, "service", services)
                if isinstance(service, str) and "at" in section_of(services, service):
                    reason = f"{service} is already running, so svload cannot {cannot}"
                    yield bad_value(at, reason, service, "Leave it out.")
        yield from named((*path, "populate"), step.get("populate"), "traffic group", groups)
        yield from named((*path, "warm"), step.get("warm"), "feeder", section_of(data, "feeders"))
        yield from named((*path, "through"), step.get("through"), "service", services)
    for name, group in dicts_of(groups):
        request = group.get("request")
        if isinstance(request, str) and " " not in request.strip():
            yield from named(("traffic", name, "request"), request, "request", section_of(data, "requests"))
        waits_for = group.get("start_when")
        if isinstance(waits_for, str) and not refers(waits_for):
            other, _, event = waits_for.partition(".")
            if event != "ramped" or other == name:
                hint = f"Write {other}.ramped." if other in groups and other != name else ""
                yield bad_value(
                    ("traffic", name, "start_when"), "expected GROUP.ramped of another group", waits_for, hint
                )
            else:
                yield from named(("traffic", name, "start_when"), other, "traffic group", groups)
