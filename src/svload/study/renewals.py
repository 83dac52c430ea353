"""Set-up that is asked again while the load is made: a token that ends."""

from __future__ import annotations

from collections.abc import Sequence

from svload.model.traffic import Group, Scenario, SetUp, Step, TakenPart

RENEWAL = "renewal"
"""The scenario, and so the step, that asks again."""


def renewing(group: Group, set_up: Sequence[SetUp]) -> Group:
    """The group with a renewal of what its requests use, if the set-up says so."""
    used = {part.taken for request in group.requests for part in request.parts if isinstance(part, TakenPart)}
    asked = [part for part in set_up if part.renew_ns is not None and used & set(part.request.takes)]
    if not asked:
        return group
    alone = Scenario(name=group.request.name, steps=group.steps)
    step = Step(name=RENEWAL, request=asked[0].request)
    renewal = Scenario(name=RENEWAL, weight=0, renew_ns=asked[0].renew_ns, steps=(step,))
    return group.model_copy(update={"scenarios": (*(group.scenarios or (alone,)), renewal)})
