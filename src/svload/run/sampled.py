"""`profile`: the call stacks of a service, sampled beside the load of its case's first replicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from svload.host import Agent
from svload.model.facts import ServiceFacts
from svload.model.plan import TrialPlan
from svload.model.study import CaseConfig

if TYPE_CHECKING:
    from svload.watch.stacks import StackSampler

SAMPLED_REPLICATE = 1
"""Sampling costs the service some CPU, so it is done in only one trial of each case: the one that every plan,
and every load of a search, has."""


def what_is_lacking(configs: Iterable[CaseConfig]) -> list[str]:
    """Return a sentence for each service that is to be sampled and cannot be on this machine."""
    services = dict.fromkeys(config.profile for config in configs if config.profile)
    if not services:
        return []
    from svload.watch.stacks import in_words, lacks

    found = (lacks(service) for service in services)
    return [in_words(problem) for problem in found if problem is not None]


def sampling(
    agent: Agent,
    cores: tuple[int, ...] | None,
    facts: dict[str, ServiceFacts],
    config: CaseConfig,
    plan: TrialPlan,
    say: Callable[[str], None],
) -> AbstractContextManager[StackSampler | None]:
    """Return a context that samples while it is entered; it gives None if this trial is not sampled."""
    if not config.profile or plan.replicate != SAMPLED_REPLICATE or config.profile not in facts:
        return nullcontext()
    return _sampling(agent, cores, facts[config.profile], config.ramp_ns / 1e9, say)


@contextmanager
def _sampling(
    agent: Agent,
    cores: tuple[int, ...] | None,
    facts: ServiceFacts,
    before_s: float,
    say: Callable[[str], None],
) -> Iterator[StackSampler]:
    from svload.watch.stacks import StackSampler, in_words, lacks

    sampler = StackSampler(agent, agent.dir, facts, before_s, cores)
    try:
        sampler.begin()
        if sampler.problem is not None and lacks(facts.service) is None:  # reported when the run started
            say(in_words(sampler.problem))
        yield sampler
    finally:
        sampler.stop()
