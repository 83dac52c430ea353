"""Scenarios divided into shares: any number of generators sends the same steps, variables and rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.results import case_of, unpacked

from svload import _native
from svload.drive.share.cut import build_shares
from svload.drive.share.request_spec import TakenPart as TakenPiece
from svload.drive.share.request_spec import TextPart
from svload.drive.share.spec import ShareSpec
from svload.drive.share.timeline import timeline
from svload.drive.share.warm import warm_share
from svload.drive.share.write import text_of
from svload.model.executors import ConstantArrivalRate, ConstantVus, Executor, ThinkTime
from svload.model.facts import Endpoint
from svload.model.study import CaseConfig
from svload.model.traffic import Feeder, FeederPart, Group, Request, Scenario, Step, Take, TakenPart, Text

MS = 1_000_000
ENDPOINTS = {
    "http://shop": Endpoint(scheme="http", address="127.0.0.1", port=8080),
    "http://other": Endpoint(scheme="http", address="127.0.0.1", port=8081),
}
OBJECT = FeederPart(feeder="object", column="path")
LOGIN = Request(name="login", scheme="http", host="shop", path=(Text(text="/login"),), take=(Take(name="token", json_path="t"),))  # fmt: skip
LOOK = Request(name="look", scheme="http", host="shop", path=(OBJECT,), headers=(("X-T", (TakenPart(taken="token"),)), ("X", (Text(text="y"),))))  # fmt: skip
AWAY = Request(name="away", scheme="", host="", path=(), url=(TakenPart(taken="token"),))


def step(request: Request, mean_ns: int = 0) -> Step:
    think = ThinkTime(exponential_ns=mean_ns) if mean_ns else ThinkTime(constant_ns=0)
    return Step(name=request.name, request=request, think_time=think)


def config(
    executor: Executor, generators: int, think_ns: int = 3 * MS, last: Request = LOOK, **feeder: Any
) -> CaseConfig:
    visit = Scenario(name="visit", weight=2, steps=(step(LOGIN, think_ns), step(last)))
    scenarios = (visit, Scenario(name="login", steps=(step(LOGIN),)))
    group = Group(name="users", executor=executor, request=LOGIN, scenarios=scenarios, generators=generators)
    return case_of(group, feeders=(Feeder(name="object", table="objects", **feeder),))


def specs_of(case: CaseConfig) -> list[ShareSpec]:
    shares = build_shares(case, 7, timeline(case, 400 * MS), ENDPOINTS, ["127.0.0.0/8"])
    return [share.spec for share in shares]


def played(spec: ShareSpec, service_ns: int, rows: int = 30) -> list[tuple[int, int, int, int]]:
    """Return (due, vu, seq, step) of every request that a share begins."""
    inputs = {"objects": {"path": ("utf8", [f"/o/{row}" for row in range(rows)])}}
    table = unpacked(_native.rehearse(text_of(spec), inputs, service_ns)["users"])
    return sorted(zip(*(table[name] for name in ("due_ns", "vu", "seq", "step")), strict=True))


@given(st.integers(2, 5), st.integers(1 * MS, 30 * MS))
@settings(max_examples=15, deadline=None)
def test_open_scenarios_ask_the_same_from_any_number_of_generators(generators: int, think_ns: int) -> None:
    executor = ConstantArrivalRate(rate_rps=300.0, max_vus=2_000)

    def plan(count: int) -> list[tuple[int, int, int]]:
        begun = [one for spec in specs_of(config(executor, count, think_ns)) for one in played(spec, MS)]
        return sorted((due, seq, at) for due, _, seq, at in begun)

    whole = plan(1)
    assert {at for _, _, at in whole} == {0, 1, 2}
    assert plan(generators) == whole


@given(st.integers(1, 4), st.integers(2, 12))
@settings(max_examples=15, deadline=None)
def test_a_slow_server_only_shortens_sequences(generators: int, slower: int) -> None:
    executor = ConstantVus(vus=5, think_time=ThinkTime(constant_ns=2 * MS))

    def by_user(count: int, service_ns: int) -> dict[int, list[tuple[int, int]]]:
        users: dict[int, list[tuple[int, int]]] = {}
        for spec in specs_of(config(executor, count)):
            for _, vu, seq, at in played(spec, service_ns):
                users.setdefault(vu, []).append((seq, at))
        return users

    fast, slow = by_user(1, MS), by_user(generators, slower * MS)
    assert set(fast) == set(slow) == set(range(5))
    for user, steps in slow.items():
        assert steps == fast[user][: len(steps)]


@pytest.mark.parametrize("generators", [1, 3])
def test_a_feeder_that_stops_ends_iterations_at_its_last_row(generators: int) -> None:
    executor = ConstantVus(vus=4)
    for take in ("sequential", "unique"):
        case = config(executor, generators, take=take, when_exhausted="stop")
        begun = [one for spec in specs_of(case) for one in played(spec, MS)]
        assert len({(vu, seq) for _, vu, seq, _ in begun}) == 30


def test_what_variables_address_may_be_any_service() -> None:
    assert set(specs_of(config(ConstantVus(vus=1), 1))[0].endpoints) == {"http://shop"}
    (spec,) = specs_of(config(ConstantVus(vus=1), 1, last=AWAY))
    assert set(spec.endpoints) == set(ENDPOINTS)
    last = spec.groups[0].scenarios[0].steps[1].request
    assert last.url == (TakenPiece("token"),)
    assert (last.endpoint, last.path) == ("", ())


def test_a_warming_asks_as_the_step_does_without_what_only_the_scenario_knows() -> None:
    case = config(ConstantVus(vus=1), 1)
    share = build_shares(case, 7, timeline(case, 400 * MS), ENDPOINTS, [])[0]
    warm = warm_share(share, 0, "object", 30, "http://other", ENDPOINTS, ["127.0.0.0/8"])
    (group,) = warm.spec.groups
    assert group.request.endpoint == "http://other"
    assert group.request.headers == (("X", (TextPart("y"),)),)
    assert group.request.take == () and group.scenarios == ()
    inputs = {"objects": {"path": ("utf8", ["/o"] * 30)}}
    assert len(_native.rehearse(text_of(warm.spec), inputs, MS)["warm"]["due_ns"][1]) == 30 * 8
