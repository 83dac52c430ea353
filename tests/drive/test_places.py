"""Concurrent requests of an open loop: at most min(rate × timeout, descriptors − reserve) and the ports."""

from __future__ import annotations

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drive.test_shares import REQUEST, config, executor_of, shares_of
from tests.evolve import evolve

from svload.drive.places import RESERVE, places_of
from svload.host import connection_room
from svload.model.bounds import VUS
from svload.model.executors import ConstantArrivalRate, ConstantVus, Executor, RampingArrivalRate
from svload.model.plan import Room
from svload.model.stages import Stage
from svload.model.traffic import Group

ROOM, WIDE = Room(descriptors=20_000, local_ports=28_000), Room(descriptors=10**7, local_ports=10**7)
STAGES = (Stage(duration_ns=10**9, target=200), Stage(duration_ns=10**9, target=10))


@pytest.mark.parametrize(
    ("executor", "timeout_s", "generators", "room", "expected"),
    [
        (ConstantArrivalRate(rate_rps=500), 30, 1, ROOM, (15_000, "rate × timeout")),
        (ConstantArrivalRate(rate_rps=0.01), 1, 1, ROOM, (1, "rate × timeout")),
        (ConstantArrivalRate(rate_rps=0.01), 1, 3, ROOM, (3, "rate × timeout")),
        (ConstantArrivalRate(rate_rps=2_000), 30, 1, ROOM, (20_000 - RESERVE, "the generators' descriptors")),
        (ConstantArrivalRate(rate_rps=2_000), 30, 4, ROOM, (28_000 - RESERVE, "this machine's local ports")),
        (ConstantArrivalRate(rate_rps=1e6), 30, 1, WIDE, (VUS.most, "what the engine takes")),
        (RampingArrivalRate(stages=STAGES), 2, 1, Room(), (400, "rate × timeout")),
        (ConstantArrivalRate(rate_rps=500, max_vus=7), 30, 1, Room(), (7, "as the study says")),
        (ConstantVus(vus=4), 30, 1, Room(), None),
    ],
)
def test_fewest_places(
    executor: Executor, timeout_s: float, generators: int, room: Room, expected: tuple[int, str] | None
) -> None:
    """Stages need those of their highest rate; a closed loop has as many as users."""
    request = evolve(REQUEST, timeout_ns=round(timeout_s * 1e9))
    asked = Group(name="crowd", executor=executor, request=request, generators=generators)
    assert places_of(asked, room) == expected


@given(rate_rps=st.floats(0.1, 5_000), generators=st.integers(1, 12))
def test_shares_deal_all_places_out(rate_rps: float, generators: int) -> None:
    case = config(ConstantArrivalRate(rate_rps=rate_rps), generators)
    dealt = [executor_of(spec).max_vus for spec in shares_of(case) if spec.groups[0].name == "background"]
    places = places_of(case.groups[0], Room())
    assert sum(dealt) == places.most
    assert max(dealt) - min(dealt) <= 1


def test_this_machines_room_is_what_the_kernel_allows() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connection_room(hard).descriptors == hard
    assert connection_room(2**40).descriptors == hard, "nobody may have more than fs.nr_open"
    assert 1 <= connection_room(1).local_ports <= 65_535
