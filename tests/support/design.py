"""The study of a synthetic run: factors, cases, a hand-made lock, the plan, each case's true population."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import Any

from tests.evolve import evolve

import svload
from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.study import Case, Comparison, Factor, Level, Lock, Measure, Threshold
from svload.study.order import control_level

PROTOCOL, SERVER, USERS = "protocol", "server", "users"
SERVERS: Mapping[str, tuple[str, float, dict[str, Any]]] = {
    "backend": ("direct", 1.0, {"host": "backend", "expect": "cache.requests == 0"}),
    "cache-hit": ("hit", 0.25, {"host": "cache", "expect": "cache.hit_ratio >= 99 %"}),
    "cache-miss": (
        "miss",
        1.125,
        {"host": "cache", "cold": "${request.id}", "expect": "cache.hit_ratio <= 1 %"},
    ),
}
"""Server level → (role, factor on the median, fields of the level)."""
AGAIN = control_level("http")
PROTOCOLS = {"http": 1.0, "https": 1.2}
HOSTILE = (
    "<script>alert(1)</script>",
    '=HYPERLINK("x",1)',
    "../../etc/passwd",
    'a,b;"c"\n#',
    "&amp;<b>&",
    "Ω≈ç√ 漢字 \u202e",
    "+1",
    "x" * 300,
)
Weights = Mapping[str, float]
Levels = Mapping[str, Sequence[str]]
_NOT_ASKED = "the study asks for fewer cases"
COMPARE = [
    {"name": name, "factor": factor, "baseline": baseline, "metric": "probe.response.p50"}
    for name, factor, baseline in (
        ("cache against backend", SERVER, "backend"),
        ("HTTPS against HTTP", PROTOCOL, "http"),
    )
]


@dataclass(frozen=True)
class Design:
    """A synthetic study. `factor` names are as written; `effects` multiply the medians."""

    lock: Lock
    roles: dict[str, str]
    factors_on_median: dict[str, float]


def design(
    *,
    cases: int | None,
    replicates: int,
    extra: Mapping[str, Sequence[str]],
    effects: Mapping[str, Mapping[str, float]],
    excluded: Mapping[str, str],
    duration_ns: int,
    traffic: Mapping[str, Mapping[str, Any]],
    seed: int,
    hostile: bool,
    turns: bool,
    control: bool,
) -> Design:
    """Return a design whose cases are all combinations of `extra`, protocol and server; if a number of cases
    is given, a factor `variant` is added until there are enough."""
    levels: dict[str, list[str]] = {name: list(values) for name, values in extra.items()}
    base = prod(len(values) for values in levels.values()) * len(PROTOCOLS) * len(SERVERS)
    if cases is not None and cases > base:
        levels["variant"] = [f"v{number}" for number in range(ceil(cases / base))]
    levels |= {PROTOCOL: [*PROTOCOLS, *([AGAIN] if control else [])], SERVER: list(SERVERS)}
    shown = dict(levels)
    for name in extra if hostile else ():
        shown[name] = [f"{HOSTILE[number % len(HOSTILE)]}{one}" for number, one in enumerate(levels[name])]
    weights = _weights(levels, effects)
    made, roles, on_median = [], {}, {}
    for number, combination in enumerate(product(*(range(len(values)) for values in levels.values()))):
        chosen = {name: levels[name][at] for name, at in zip(levels, combination, strict=True)}
        name = f"{HOSTILE[number % len(HOSTILE)]}{number}" if hostile else f"TC{number}"
        reason = excluded.get(name) or (_NOT_ASKED if cases is not None and number >= cases else None)
        visible = {factor: shown[factor][at] for factor, at in zip(levels, combination, strict=True)}
        made.append(Case(name=name, levels=visible, excluded=reason))
        roles[name] = SERVERS[chosen[SERVER]][0]
        on_median[name] = prod(weights[factor][level] for factor, level in chosen.items())
    source = _source(made, shown, replicates, duration_ns, traffic, hostile)
    lock = _lock(made, shown, Measure(duration_ns=duration_ns, replicates=replicates), seed, source)
    return Design(_in_turns(lock, control) if turns else lock, roles, on_median)


def _in_turns(lock: Lock, control: bool) -> Lock:
    """Return the study with protocols that take turns, under a gate."""
    gate = {"name": "gate", "factor": PROTOCOL, "baseline": "http", "metric": "probe.response.p50"}
    gate["fail_if"] = "worse by more than 5 %"
    measure = {**lock.source["measure"], "order": "turns"}
    return evolve(
        lock,
        measure__order="turns",
        measure__control=control,
        comparisons=(Comparison.model_validate(gate),),
        source={**lock.source, "measure": measure, "compare": [gate]},
    )


def _weights(levels: Mapping[str, Sequence[str]], effects: Mapping[str, Weights]) -> dict[str, Weights]:
    known = {PROTOCOL: PROTOCOLS, SERVER: {name: weight for name, (_, weight, _) in SERVERS.items()}}
    found = {}
    for factor, values in levels.items():
        own = {**known.get(factor, {}), **effects.get(factor, {})}
        found[factor] = {level: own.get(level, 1.0) for level in values}
    return found


def _lock(cases: list[Case], levels: Levels, measure: Measure, seed: int, source: dict[str, Any]) -> Lock:
    each = {name: tuple(_level(name, value) for value in values) for name, values in levels.items()}
    factors = [Factor(name=name, levels=values) for name, values in each.items()]
    return Lock(
        name=source["name"],
        question=source["question"],
        profile="synthetic",
        seed=seed,
        svload_version=svload.__version__,
        study_sha256="0" * 64,
        study_dir="studies/synthetic",
        factors=tuple(factors),
        cases=tuple(cases),
        measure=measure,
        comparisons=tuple(map(Comparison.model_validate, COMPARE)),
        thresholds=(Threshold(that="probe.success_rate >= 99 %"),),
        source=source,
    )


def _level(factor: str, name: str) -> Level:
    if factor != SERVER:
        return Level(name=name, value=int(name) if factor == USERS else "http" if name == AGAIN else name)
    fields = dict(SERVERS[name][2])
    return Level(name=name, fields=fields, expect=(fields.pop("expect"),))


def _source(
    cases: list[Case],
    levels: Mapping[str, Sequence[str]],
    replicates: int,
    duration_ns: int,
    traffic: Mapping[str, Mapping[str, Any]],
    hostile: bool,
) -> dict[str, Any]:
    """Return the study in the study language: resolving it gives the same cases and groups."""
    factors: dict[str, Any] = {name: list(values) for name, values in levels.items() if name != SERVER}
    factors[SERVER] = {name: SERVERS[name][2] for name in levels[SERVER]}
    if USERS in factors:
        factors[USERS] = [int(name) for name in factors[USERS]]
    exclude = [{"when": dict(case.levels), "because": case.excluded} for case in cases if case.excluded]
    return {
        "name": f"synthetic {HOSTILE[0]}" if hostile else "synthetic",
        "question": f"{HOSTILE[0]}{HOSTILE[1]}?" if hostile else "Does analysis find what was planted?",
        "lab": {
            "backend": {"kit": "truth", "role": "store", "workers": 8, "tls": True},
            "cache": {"kit": "truth", "role": "cache", "of": "backend", "workers": 8, "tls": True},
        },
        "data": {"objects": {"in": "backend", "containers": 20, "count": 2000, "size": "4 KiB"}},
        "factors": factors,
        **({"exclude": exclude} if exclude else {}),
        "feeders": {"object": {"from": "objects", "take": "walk", "when_exhausted": "repeat"}},
        "before_trial": [{"reset": ["cache", "backend"]}],
        "requests": {
            "fetch": {
                "get": "${protocol}://${server.host}${object.path}",
                "headers": {"X-Cold": "${server.cold}"},
                "timeout": "20s",
                "check": ["status == 200", "size_bytes == ${object.size_bytes}"],
            }
        },
        "traffic": {name: {**group, "request": "fetch"} for name, group in traffic.items()},
        "measure": {
            "duration": f"{duration_ns / 1e9:g}s",
            "replicates": replicates,
            "order": "randomised-blocks",
        },
        "compare": COMPARE,
        "thresholds": ["probe.success_rate >= 99 %"],
    }


def randomised_blocks(lock: Lock) -> Batch:
    """Return one batch: every block holds each valid case once, in its own order."""
    rng = random.Random(lock.seed)
    trials: list[TrialPlan] = []
    for block in range(lock.measure.replicates):
        order = list(lock.valid_cases)
        rng.shuffle(order)
        for case in order:
            place = {"replicate": block + 1, "block": block, "position": len(trials)}
            name, seed = trial_name(case.name, block + 1), rng.getrandbits(62)
            trials.append(TrialPlan(trial=name, case=case.name, seed=seed, **place))
    return Batch(number=0, because="all trials of a static study", trials=tuple(trials))
