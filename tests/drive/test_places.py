"""How many requests of an open loop may be under way: min(rate × timeout, descriptors −
reserve), no more than there are ports."""

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


def group(executor: Executor, timeout_s: float = 30, generators: int = 1) -> Group:
    request = evolve(REQUEST, timeout_ns=round(timeout_s * 1e9))
    return Group(name="crowd", executor=executor, request=request, generators=generators)


@pytest.mark.parametrize(
    ("rate_rps", "timeout_s", "generators", "count", "because"),
    [
        (500, 30, 1, 15_000, "rate × timeout"),
        (0.01, 1, 1, 1, "rate × timeout"),
        (0.01, 1, 3, 3, "rate × timeout"),
        (2_000, 30, 1, 20_000 - RESERVE, "the generators' descriptors"),
        (2_000, 30, 4, 28_000 - RESERVE, "this machine's local ports"),
    ],
)
def test_fewest_places(rate_rps: float, timeout_s: float, generators: int, count: int, because: str) -> None:
    asked = group(ConstantArrivalRate(rate_rps=rate_rps), timeout_s, generators)
    assert places_of(asked, Room(descriptors=20_000, local_ports=28_000)) == (count, because)


def test_the_engine_takes_no_more_than_a_million() -> None:
    asked = group(ConstantArrivalRate(rate_rps=1e6))
    assert places_of(asked, Room(descriptors=10**7, local_ports=10**7)) == (VUS.most, "what the engine takes")


def test_stages_need_places_for_their_highest_rate() -> None:
    stages = (Stage(duration_ns=10**9, target=200), Stage(duration_ns=10**9, target=10))
    assert places_of(group(RampingArrivalRate(stages=stages), timeout_s=2), Room()) == (400, "rate × timeout")


def test_the_value_of_the_study_takes_precedence() -> None:
    assert places_of(group(ConstantArrivalRate(rate_rps=500, max_vus=7)), Room()) == (7, "as the study says")


def test_a_closed_loop_has_its_users() -> None:
    assert places_of(group(ConstantVus(vus=4)), Room()) is None


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
