"""A sampled profile in words: which functions ran most, how it was sampled, and what that cost."""

from __future__ import annotations

from collections.abc import Sequence

from svload.analysis.stacks import FunctionShare, function_shares, most_inclusive
from svload.model.stacks import KERNEL, Stacks
from svload.model.units import show_duration
from svload.report.told.spelling import count_words

MOST_NAMED = 5
MOST_LISTED = 10


def function_name(name: str) -> str:
    """As sentences and tables name it."""
    return f"{name.removesuffix(KERNEL)} (kernel)" if name.endswith(KERNEL) else name


def named(stacks: Stacks) -> str:
    """The functions that took most, by themselves and with what they called."""
    shares = function_shares(stacks.folded)
    own = [one for one in shares if one.own][:MOST_NAMED]
    under_way = most_inclusive(shares, MOST_NAMED)
    text = f"Most CPU by itself: {_listed([(one.name, one.own) for one in own], stacks.samples)}."
    if under_way:
        text += f" With what it called: {_listed([(one.name, one.inclusive) for one in under_way], stacks.samples)}."
    return text


def _listed(parts: Sequence[tuple[str, int]], samples: int) -> str:
    return ", ".join(f"{function_name(name)} {100 * count / samples:.0f} %" for name, count in parts)


def sampled_how(stacks: Stacks, trial: str) -> str:
    """Where, how often and for how much CPU; what sampling cost."""
    text = (
        f"{count_words(stacks.samples, 'sample')} of {stacks.service} in {trial} alone, {stacks.rate_hz} a second of "
        f"CPU: {show_duration(stacks.cpu_s)} of CPU in {show_duration(stacks.window_s)}. Waiting takes no CPU and is "
        "not in it."
    )
    if stacks.sampler_cpu_s is not None:
        text += (
            f" perf itself took {show_duration(stacks.sampler_cpu_s)} of CPU beside the load; what its interrupts "
            "took is in the service's own."
        )
    if stacks.lost:
        text += f" Of the whole machine's samples {stacks.lost} got lost."
    return text


def not_measured(stacks: Stacks) -> str:
    """Why there is no flame graph."""
    return stacks.why or f"The profile of {stacks.service} is not measured."


def top_functions(stacks: Stacks, count: int = MOST_LISTED) -> list[FunctionShare]:
    """The functions that ran most themselves."""
    return [one for one in function_shares(stacks.folded) if one.own][:count]
