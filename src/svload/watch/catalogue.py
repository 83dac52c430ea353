"""What monitors can report: the names for criteria, and what is declared as a limit or a refusal."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from svload.model.declared import Declared
from svload.model.monitored import Monitored, meanings, monitored
from svload.watch.monitor import Monitor
from svload.watch.monitors import load_monitors, monitors_for

if TYPE_CHECKING:
    from svload.model.facts import ServiceFacts


def declarations(facts: Iterable[ServiceFacts]) -> tuple[Declared, ...]:
    """Return what the monitors of the machine and of these services declare, each once."""
    attached: dict[str, type[Monitor]] = {kind.name: kind for kind in monitors_for(None)}
    for one in facts:
        attached |= {kind.name: kind for kind in monitors_for(one.model_dump(mode="json"))}
    found = (attached[name].declared() for name in sorted(attached))
    return tuple(one for one in found if one.limits or one.refusals)


@cache
def monitored_names() -> dict[str, Monitored]:
    """Return every name by which a criterion may use a service's monitors: `throttled`, `threads_limited`,
    `fds`, `varnish.threads`."""
    kinds = [kind for kind in load_monitors() if not kind.reads(None)]
    meant = meanings({metric for kind in kinds for metric in kind.metrics})
    found: dict[str, Monitored] = {}
    for kind in kinds:
        for metric, meaning in kind.metrics.items():
            one = monitored(metric, meaning)
            for name in one.names:
                if name in meant and meant[name].metric == metric:
                    found.setdefault(name, one)
                found[f"{kind.name}.{name}"] = one
    return found
