"""The shares of set-up, and how the values it took are put into the load's requests."""

from __future__ import annotations

from typing import Any

import pytest
from tests.evolve import evolve
from tests.results import case_of

from svload.drive.share.cut import build_shares
from svload.drive.share.request_spec import FeederPart, TakeHeader, ValuePart
from svload.drive.share.requests import Taken
from svload.drive.share.set_up import taken_of, trial_set_up, vu_set_ups
from svload.drive.share.spec import FeederSpec, Http2Spec
from svload.drive.share.timeline import timeline
from svload.model.errors import SvloadError
from svload.model.executors import ConstantVus
from svload.model.facts import Endpoint
from svload.model.study import CaseConfig
from svload.model.traffic import Group, Http2, Request, SetUp, Take, TakenPart, Text

ENDPOINTS = {"http://web": Endpoint(scheme="http", address="127.0.0.1", port=8080)}
LOGIN = Request(name="login", method="POST", scheme="http", host="web", path=(Text(text="/login"),), take=(Take(name="token", header="X-T"),))  # fmt: skip
OWN = Request(name="own", scheme="http", host="web", path=(TakenPart(taken="token"),), take=(Take(name="key", regex="k=(.*)"),))  # fmt: skip
HEADERS = (("X-T", (TakenPart(taken="token"),)), ("X-K", (TakenPart(taken="key"),)))
READ = Request(name="read", scheme="http", host="web", path=(Text(text="/"),), headers=HEADERS)


def config() -> CaseConfig:
    group = Group(name="users", executor=ConstantVus(vus=3), request=READ, generators=2)
    set_up = (SetUp(request=LOGIN), SetUp(request=OWN, once="vu"))
    return case_of(group, set_up=set_up)


def test_the_trial_is_set_up_by_one_iteration_that_returns_its_variables() -> None:
    share = trial_set_up(config(), 7, ENDPOINTS, ["127.0.0.0/8"], Taken())
    (group,) = share.spec.groups
    executor: Any = group.executor
    assert (executor.kind, executor.iterations, executor.vus) == ("shared-iterations", 1, 1)
    assert group.report_taken is True
    (step,) = group.scenarios[0].steps
    assert step.request.take == (TakeHeader("token", "X-T"),)
    assert trial_set_up(evolve(config(), set_up=()), 7, ENDPOINTS, [], Taken()) is None


def test_each_vu_of_a_group_that_needs_it_is_set_up_with_what_the_trial_took() -> None:
    shares = vu_set_ups(config(), 7, ENDPOINTS, [], Taken({"token": "t0"}))
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
    case = config()
    groups = (evolve(case.groups[0], http2=spoken),)
    login = evolve(LOGIN, host="auth") if elsewhere else LOGIN
    set_up = (SetUp(request=login), SetUp(request=OWN, once="vu"))
    case = evolve(case, groups=groups, set_up=set_up)
    known = ENDPOINTS | {"http://auth": Endpoint(scheme="http", address="127.0.0.1", port=8081)}
    share = trial_set_up(case, 7, known, [], Taken())
    assert share.spec.groups[0].http2 == expected
    [each] = vu_set_ups(case, 7, known, [], Taken({"token": "t0"})).values()
    assert bool(each.share.spec.groups[0].http2) == bool(spoken)


def test_what_was_taken_goes_into_every_share_and_into_no_file() -> None:
    case = config()
    taken = Taken({"token": "t0"}, {"users": {"key": ["k0", "k1", "k2"]}})
    shares = build_shares(case, 7, timeline(case, 10**9), ENDPOINTS, [], taken=taken)
    assert len(shares) == 2
    for share in shares:
        (group,) = share.spec.groups
        assert group.request.headers == (("X-T", (ValuePart("t0"),)), ("X-K", (FeederPart("setup", "key"),)))
        assert group.feeders == {"setup": FeederSpec(table="setup.users", take="vu", vus_total=3)}
        assert share.values == {"setup.users": {"key": ["k0", "k1", "k2"]}}
        assert share.tables == ()


def summary(taken: list[dict[str, Any]], **step: Any) -> dict[str, Any]:
    found = {"name": "0", "failed": 0, "errors": {}, "status": {}} | step
    return {"groups": [{"taken": taken, "steps": [found], "checks_failed": {"0: body contains ok": 1}}]}


def test_values_are_in_the_order_of_vus() -> None:
    found = taken_of(summary([{"vu": 1, "values": {"token": "b"}}, {"vu": 0, "values": {"token": "a"}}]), [SetUp(request=LOGIN)], 2)  # fmt: skip
    assert found == {"token": ["a", "b"]}


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"failed": 1, "errors": {"status": 1}, "status": {"401": 1}}, "status 401"),
        ({"failed": 1, "errors": {"capture": 1}}, "not found in the answer"),
        ({"failed": 1, "errors": {"check": 1}}, "body contains ok"),
        ({"failed": 1, "errors": {"connect_refused": 1}}, "connect_refused"),
        ({}, "no answer came within 30 s"),
    ],
)
def test_a_set_up_that_fails_says_why(step: dict[str, Any], words: str) -> None:
    with pytest.raises(SvloadError, match=words) as caught:
        taken_of(summary([], **step), [SetUp(request=LOGIN)], 1)
    assert caught.value.problems[0].code == "set-up-failed"
    assert "login (POST)" in str(caught.value)
