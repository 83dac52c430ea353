"""Scenarios and set-up divided into shares: any number of generators sends the same steps and variables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evolve import evolve
from tests.results import case_of, unpacked

from svload import _native
from svload.drive.share.cut import build_shares
from svload.drive.share.request_spec import TakenPart as TakenPiece
from svload.drive.share.request_spec import TextPart, ValuePart
from svload.drive.share.requests import Taken
from svload.drive.share.set_up import taken_of, trial_set_up, vu_set_ups
from svload.drive.share.spec import Http2Spec, ShareSpec
from svload.drive.share.timeline import timeline
from svload.drive.share.warm import warm_share
from svload.drive.share.write import text_of
from svload.model.errors import SvloadError
from svload.model.executors import ConstantArrivalRate, ConstantVus, Executor, ThinkTime
from svload.model.facts import Endpoint
from svload.model.study import CaseConfig
from svload.model.traffic import (
    Feeder,
    FeederPart,
    Group,
    Http2,
    Request,
    Scenario,
    SetUp,
    Step,
    Take,
    TakenPart,
    Text,
)

MS = 1_000_000
ENDPOINTS = {
    "http://shop": Endpoint(scheme="http", address="127.0.0.1", port=8080),
    "http://other": Endpoint(scheme="http", address="127.0.0.1", port=8081),
}
OBJECT = FeederPart(feeder="object", column="path")
TOKEN = TakenPart(taken="token")
HTTP = {"scheme": "http", "host": "shop"}
LOGIN = Request(name="login", path=(Text(text="/login"),), take=(Take(name="token", json_path="t"),), **HTTP)
LOOK = Request(name="look", path=(OBJECT,), headers=(("X-T", (TOKEN,)), ("X", (Text(text="y"),))), **HTTP)
AWAY = Request(name="away", scheme="", host="", path=(), url=(TOKEN,))


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


SIGN_IN = evolve(LOGIN, method="POST", take=(Take(name="token", header="X-T"),))
OWN = Request(name="own", path=(TOKEN,), take=(Take(name="key", regex="k=(.*)"),), **HTTP)
READ = Request(name="read", path=(), headers=(("X-T", (TOKEN,)), ("X-K", (TakenPart(taken="key"),))), **HTTP)
SET_UP = case_of(
    Group(name="users", executor=ConstantVus(vus=3), request=READ, generators=2),
    set_up=(SetUp(request=SIGN_IN), SetUp(request=OWN, once="vu")),
)


def test_each_vu_of_a_group_that_needs_it_is_set_up_with_what_the_trial_took() -> None:
    shares = vu_set_ups(SET_UP, 7, ENDPOINTS, [], Taken({"token": "t0"}))
    assert list(shares) == ["users"]
    (group,) = shares["users"].share.spec.groups
    executor: Any = group.executor
    assert (executor.kind, executor.vus, shares["users"].vus) == ("per-vu-iterations", 3, 3)
    assert executor.spread_ns == 2_000_000  # a thousand VUs a second
    assert group.scenarios[0].steps[0].request.path == (ValuePart("t0"),)


@pytest.mark.parametrize(("spoken", "elsewhere", "expected"), [
    (False, False, None),
    (True, False, Http2Spec(streams=1)),
    ("preferred", False, Http2Spec(streams=1, fallback=True)),
    (True, True, None),
])  # fmt: skip
def test_set_up_speaks_http2_like_the_groups(spoken: Http2, elsewhere: bool, expected: Any) -> None:
    first = SetUp(request=evolve(SIGN_IN, host="other" if elsewhere else "shop"))
    groups = (evolve(SET_UP.groups[0], http2=spoken),)
    case = evolve(SET_UP, groups=groups, set_up=(first, SET_UP.set_up[1]))
    share = trial_set_up(case, 7, ENDPOINTS, [], Taken())
    assert share.spec.groups[0].http2 == expected
    [each] = vu_set_ups(case, 7, ENDPOINTS, [], Taken({"token": "t0"})).values()
    assert bool(each.share.spec.groups[0].http2) == bool(spoken)


def summary(taken: list[dict[str, Any]], **step: Any) -> dict[str, Any]:
    found = {"name": "0", "failed": 0, "errors": {}, "status": {}} | step
    return {"groups": [{"taken": taken, "steps": [found], "checks_failed": {"0: body contains ok": 1}}]}


def test_values_are_in_the_order_of_vus() -> None:
    taken = [{"vu": 1, "values": {"token": "b"}}, {"vu": 0, "values": {"token": "a"}}]
    assert taken_of(summary(taken), [SetUp(request=SIGN_IN)], 2) == {"token": ["a", "b"]}


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"failed": 1, "errors": {"status": 1}, "status": {"401": 1}}, "status 401"),
        ({"failed": 1, "errors": {"capture": 1}}, "the response lacks the value"),
        ({"failed": 1, "errors": {"check": 1}}, "body contains ok"),
        ({"failed": 1, "errors": {"connect_refused": 1}}, "connect_refused"),
        ({}, "no answer came within 30 s"),
    ],
)
def test_a_set_up_that_fails_says_why(step: dict[str, Any], words: str) -> None:
    with pytest.raises(SvloadError, match=words) as caught:
        taken_of(summary([], **step), [SetUp(request=SIGN_IN)], 1)
    assert caught.value.problems[0].code == "set-up-failed"
    assert "login (POST)" in str(caught.value)
