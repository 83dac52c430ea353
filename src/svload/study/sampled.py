"""`profile`: the service whose call stacks are sampled, and what cannot be. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from svload.model.study import ServiceSpec
from svload.study.mistakes import Mistake, bad_value, unknown_name

PROFILE = ("profile",)
_WITHOUT_PROCESSES = {
    "external": "{name} runs already, and svload does not know its processes",
    "machine": "{name} is a machine: it has no processes of its own",
}


def sampling_mistakes(
    name: str, known: Collection[str], services: Sequence[ServiceSpec]
) -> Iterator[Mistake]:
    """Why the stacks of that service cannot be sampled; nothing where none are asked for."""
    if not name:
        return
    if name not in known:
        yield unknown_name(PROFILE, name, "service under lab", known)
        return
    kit = next((spec.kit for spec in services if spec.name == name), "")
    if told := _WITHOUT_PROCESSES.get(kit):
        yield bad_value(PROFILE, told.format(name=name), name, "Name a service that svload starts.")
