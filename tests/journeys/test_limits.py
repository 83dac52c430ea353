"""Limits changed while nginx runs with 2 and with 4 workers apply to all of them; a kill -9 leaves none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svload.host.machine import fabric

from .limited import HELD, WORKERS, Moment, measure, play, write_study
from .world import World

pytestmark = pytest.mark.real


@pytest.mark.parametrize("phase_s", [0.4, pytest.param(3.0, marks=pytest.mark.timing)])
def test_limits_lowered_under_load_hold(world: World, needs: Callable[..., None], phase_s: float) -> None:
    """The kernel's limits are always checked; the use only if the machine leaves the servers their cores."""
    can_hold(needs)
    strict = phase_s == 3.0
    seen = measure(world, write_study(world.root / "limited", phase_s), used=strict)
    assert {(one.workers, one.held.option) for one in seen} == {
        (workers, held.option) for workers in WORKERS for held in HELD
    }
    for one in seen:
        assert one.is_set_and_back, one
        assert not strict or one.holds(1.7), one
    assert world.silent() == []


@pytest.mark.parametrize("moment", [Moment("all", 1, 0.2), Moment("controller", 2, 0.1)])
def test_kill_9_leaves_nothing(world: World, needs: Callable[..., None], moment: Moment) -> None:
    can_hold(needs)
    done = play(world, write_study(world.root / "limited", 0.6, together=True), moment)
    assert done.after == []
    assert moment.victim != "all" or done.undone > 0, "nobody else could do it"


def can_hold(needs: Callable[..., None]) -> None:
    needs("root", "nginx")
    if why := fabric.lacking(latency=True):
        pytest.skip(why)
