"""CPU limits that a load cannot reach, reported before anything runs: N users with think time Z send at most
N/Z requests a second (docs/method.md §4), and these may take less CPU than the quota."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from svload.analysis import limits
from svload.model.executors import ClosedLoop
from svload.model.results import CaseResult
from svload.model.study import CaseConfig, ServiceSpec
from svload.model.traffic import Group
from svload.model.units import show_duration, show_percent

LINES = 4
"""The number of sentences on this in a plan."""
NAMED = 3
"""The number of cases that a sentence names; the others are counted."""


@dataclass(frozen=True)
class Quota:
    """Cores that services may use together: a service's own quota, or that of all services within a
    machine."""

    name: str
    cores: float
    services: frozenset[str]


def unreached_limits(
    configs: Mapping[str, CaseConfig], last: Callable[[str], CaseResult | None]
) -> tuple[str, ...]:
    """Return the CPU limits that cannot act, one sentence for all cases with the same users and limit, at
    most `LINES`.

    `last`: a case as the last run found it. A case unknown to it is described by what its users ask for
    alone. Cases with several groups, open loops or users who never pause are left out: nothing bounds their
    requests.
    """
    used: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    unknown: dict[tuple[str, str], list[str]] = {}
    for case, config in configs.items():
        asked = _most_asked(config.groups)
        if asked is None:
            continue
        who, most_rps = asked
        [group] = config.groups
        for quota in quotas_of(config.services):
            demand_s = _demand_s(config, last(case), group.name, quota)
            if demand_s is None and group.hosts & quota.services:
                unknown.setdefault((who, quota.name), []).append(case)
            elif demand_s is not None and demand_s * most_rps < limits.LIMIT_ACTED * quota.cores:
                used.setdefault((who, quota.name), {})[case] = (
                    demand_s * most_rps / quota.cores,
                    quota.cores,
                )
    texts = [_known(who, name, cases) for (who, name), cases in used.items()]
    texts += [
        f"{who} in {_listed(cases)}: whether the CPU limit of {name} can act there is known after a run that measures it"
        for (who, name), cases in unknown.items()
    ]
    if len(texts) > LINES:
        texts[LINES - 1 :] = [f"{len(texts) - LINES + 1} more limits of the CPU, or loads, of this kind"]
    return tuple(texts)


def quotas_of(services: Sequence[ServiceSpec]) -> Iterator[Quota]:
    """Return every CPU limit of a case; replicas have one each."""
    for spec in services:
        written = spec.options.get("cpus")
        if isinstance(written, bool) or not isinstance(written, int | float | str):
            continue
        try:
            cores = float(written) * len(spec.servers)
        except ValueError:
            continue
        within = {one.name for one in services if one.options.get("within") == spec.name}
        if cores > 0:
            yield Quota(spec.name, cores, frozenset(within or {spec.name}))


def _most_asked(groups: Sequence[Group]) -> tuple[str, float] | None:
    """Return who sends, in words, and how many requests a second at most; None where nothing bounds it."""
    if len(groups) != 1 or not isinstance(executor := groups[0].executor, ClosedLoop):
        return None
    if executor.peak_rps is None:
        return None
    most_rps = executor.peak_rps * groups[0].longest_iteration
    pause = show_duration(executor.cycle_ns / 1e9)
    does = "begin again every" if executor.pacing_ns > executor.think_time.mean_ns else "think"
    return f"{executor.most_vus:,} users who {does} {pause} request at most {_rate(most_rps)}/s", most_rps


def _demand_s(config: CaseConfig, last: CaseResult | None, group: str, quota: Quota) -> float | None:
    """Return the CPU seconds that a request took of the quota's services in the last run; None: unknown."""
    if last is None or last.levels != config.case.levels:
        return None
    rate = last.metrics.get(f"{group}.throughput")
    found = [last.metrics.get(f"{service}.cpu.mean") for service in quota.services]
    cpu = [one.value for one in found if one is not None and one.value is not None]
    if rate is None or not rate.value or len(cpu) < len(found):
        return None
    return sum(cpu) / rate.value


def _known(who: str, name: str, cases: Mapping[str, tuple[float, float]]) -> str:
    shares = [
        show_percent(share, 2) if share >= 0.001 else "below 0.1 %" for share, _ in sorted(cases.values())
    ]
    quotas = {cores for _, cores in cases.values()}
    share = shares[0] if shares[0] == shares[-1] else f"{shares[0].removesuffix(' %')} to {shares[-1]}"
    of = "the cores" if len(quotas) > 1 else "the core" if quotas == {1.0} else f"the {min(quotas):g} cores"
    return f"{_listed(list(cases))}: {who}, {share} of {of} that {name} may use: the limit can't act, except in bursts"


def _rate(rate_rps: float) -> str:
    return f"{rate_rps:,.0f}" if rate_rps >= 100 else f"{rate_rps:.3g}"


def _listed(cases: Sequence[str]) -> str:
    """Return `A, B and C`; beyond `NAMED` the rest is counted."""
    if len(cases) > NAMED:
        return f"{', '.join(cases[:NAMED])} and {len(cases) - NAMED} more"
    return " and ".join(filter(None, (", ".join(cases[:-1]), cases[-1])))
