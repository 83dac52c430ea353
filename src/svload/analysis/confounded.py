"""Detection of a factor that changes a limit together with something else: no number of blocks can tell which
of the two had the effect (docs/method.md §2).

A parameter set is one treatment: what it changes counts as one thing, and a claim is about the set as a
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from svload.model.study import CaseConfig

LIMITS = frozenset({"cpus", "memory", "pids", "nofile", "nofile_hard", "link", "disk_rate"})
"""Options of every service that only say how much it may use."""
_PARTS = {
    "objects": "data",
    "tables": "tables",
    "feeders": "feeders",
    "set_up": "setup",
    "groups": "traffic",
    "before_trial": "before_trial",
}


def confounding(configs: Mapping[str, CaseConfig], pairs: Iterable[tuple[str, str]]) -> str:
    """Return why a limit's effect cannot be isolated, as a clause; empty where levels change only limits, or
    no limit."""
    for before, after in pairs:
        if before not in configs or after not in configs:
            continue
        changed = list(_changed(configs[before], configs[after]))
        if _is_of_sets(changed, configs[before], configs[after]):
            continue
        held = [name for name in changed if name.rpartition(".")[2] in LIMITS]
        others = [name for name in changed if name not in held]
        if held and others:
            changes = f"its levels change {', '.join(held)} and {', '.join(others)} at once"
            return f"{changes}, and whose doing a difference is can't be told"
    return ""


def _is_of_sets(changed: Iterable[str], before: CaseConfig, after: CaseConfig) -> bool:
    """Return whether two parameter sets make the whole difference."""
    return before.set_name != after.set_name and {*before.tuned, *after.tuned}.issuperset(changed)


def _changed(before: CaseConfig, after: CaseConfig) -> Iterator[str]:
    """Return what differs between two cases: `service.option`, else the part of the study."""
    old = {service.name: service for service in before.services}
    new = {service.name: service for service in after.services}
    for name in old.keys() | new.keys():
        if name not in old or name not in new or old[name].kit != new[name].kit:
            yield name
            continue
        options = (old[name].options, new[name].options)
        yield from sorted(
            f"{name}.{key}"
            for key in options[0].keys() | options[1].keys()
            if options[0].get(key) != options[1].get(key)
        )
    yield from (told for part, told in _PARTS.items() if getattr(before, part) != getattr(after, part))
