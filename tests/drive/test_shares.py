"""Shares divide the plan: for any number of generators the same VUs and arrivals are planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evolve import evolve
from tests.results import case_of, unpacked

from svload import _native
from svload.drive.share.cut import build_shares
from svload.drive.share.request_spec import BodySpec, SecretPart, TextPart, ValuePart
from svload.drive.share.request_spec import FeederPart as FeederPiece
from svload.drive.share.request_spec import SizeLaw as Law
from svload.drive.share.requests import Taken
from svload.drive.share.spec import EndpointSpec, ShareSpec
from svload.drive.share.timeline import shortened, timeline
from svload.drive.share.warm import SLOTS, warm_share
from svload.drive.share.write import text_of
from svload.model.executors import (
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    PerVuIterations,
    RampingArrivalRate,
    RampingVus,
    SharedIterations,
    ThinkTime,
)
from svload.model.facts import Endpoint
from svload.model.results import GroupSummary
from svload.model.stages import Stage
from svload.model.study import CaseConfig
from svload.model.traffic import Body, Feeder, FeederPart, Group, Request, SizeLaw, TakenPart, Text

REQUEST = Request(
    name="fetch", scheme="http", host="cache", path=(FeederPart(feeder="object", column="path"),)
)
ENDPOINTS = {"http://cache": Endpoint(scheme="http", address="127.0.0.1", port=8080)}


def config(executor: Executor, generators: int = 1, **group: Any) -> CaseConfig:
    first = Group(name="background", executor=executor, request=REQUEST, generators=generators, **group)
    pausing = ConstantVus(vus=2, think_time=ThinkTime(constant_ns=100_000_000))
    how = {"client": "curl", "connection": "new", "start_when": "background"}
    probe = Group(name="probe", executor=pausing, request=REQUEST, **how)
    return case_of(first, probe, feeders=(Feeder(name="object", table="objects"),))


def shares_of(case: CaseConfig) -> list[ShareSpec]:
    times = timeline(case, 20_000_000_000)
    return [share.spec for share in build_shares(case, 7, times, ENDPOINTS, ["127.0.0.0/8"])]


def executor_of(spec: ShareSpec) -> Any:
    """Return the executor of its first group, of any kind."""
    return spec.groups[0].executor


@given(vus=st.integers(1, 200), generators=st.integers(1, 12))
def test_every_vu_is_in_exactly_one_share(vus: int, generators: int):
    case = config(ConstantVus(vus=vus), min(generators, vus))
    own = [executor_of(spec) for spec in shares_of(case) if spec.groups[0].name == "background"]
    numbers = [one.vu_from + k * one.vu_step for one in own for k in range(one.vus)]
    assert sorted(numbers) == list(range(vus))


def test_arrivals_are_cut_by_index():
    case = config(ConstantArrivalRate(rate_rps=500, max_vus=64), 4)
    cut: list[Any] = [spec.groups[0].executor for spec in shares_of(case)[:4]]
    assert [(part.index_from, part.index_step) for part in cut] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert sum(part.max_vus for part in cut) == 64


def test_ramps_come_before_the_window_and_the_probe_waits_for_them():
    case = config(ConstantVus(vus=10, ramp_up_ns=3_000_000_000))
    background, probe = shares_of(case)
    assert background.window_ns == (3_000_000_000, 23_000_000_000)
    assert probe.groups[0].start_offset_ns == 3_000_000_000
    assert {spec.groups[0].stop_offset_ns for spec in (background, probe)} == {23_000_000_000}


def test_ramps_one_after_another_all_come_before_the_window():
    case = config(ConstantVus(vus=10, ramp_up_ns=3_000_000_000))
    more = Group(
        name="more",
        executor=ConstantVus(vus=1, ramp_up_ns=2_000_000_000),
        request=REQUEST,
        start_when="background",
    )
    first, probe = case.groups
    waiting = probe.model_copy(update={"start_when": "more"})
    shares = shares_of(case_of(first, more, waiting, feeders=case.feeders))
    groups = {group.name: group.start_offset_ns for share in shares for group in share.groups}
    assert groups == {"background": 0, "more": 3_000_000_000, "probe": 5_000_000_000}
    assert {share.window_ns for share in shares} == {(5_000_000_000, 25_000_000_000)}


def test_six_hundred_intervals_of_at_most_a_second():
    assert timeline(config(ConstantVus(vus=1)), 1_200_000_000).interval_ns == 2_000_000
    assert timeline(config(ConstantVus(vus=1)), 7_200_000_000_000).interval_ns == 1_000_000_000


def test_rows_are_kept_for_curl_and_for_slow_groups_only():
    background, probe = config(ConstantVus(vus=64)).groups
    assert not background.keeps_rows and probe.keeps_rows
    assert config(ConstantArrivalRate(rate_rps=1000)).groups[0].keeps_rows
    assert not config(ConstantArrivalRate(rate_rps=1001)).groups[0].keeps_rows


def warmed(rows: int, **feeder: Any) -> tuple[ShareSpec, list[tuple[int, int]]]:
    """Return the share that warms this many rows, and (user, index among the user's) of each request."""
    case = config(ConstantVus(vus=4))
    case = evolve(case, feeders=(Feeder(name="object", table="objects", **feeder),))
    template = build_shares(case, 7, timeline(case, 1_000_000_000), ENDPOINTS, ["127.0.0.0/8"])[0]
    assert template.spec.groups[0].name == "background"
    asked = 1 if feeder.get("take") == "first" else rows
    spec = warm_share(template, 0, "object", asked, "http://cache", ENDPOINTS, ["127.0.0.0/8"]).spec
    inputs = {"objects": {"path": ("utf8", [f"/{row}" for row in range(rows)])}}
    made = unpacked(_native.rehearse(text_of(spec), inputs, 10_000_000)["warm"])
    return spec, sorted(zip(made["vu"], made["seq"], strict=True))


@pytest.mark.parametrize("rows", [1, 5, 32, 33, 2000])
@pytest.mark.parametrize("feeder", [{}, {"offset": 400}, {"take": "random"}, {"take": "zipf", "skew": 1.2}])
def test_warming_asks_for_each_row_once_and_through_the_cache(rows: int, feeder: dict[str, Any]):
    """Each user has successive rows; what rows share is looked up once, by the first user who needs it."""
    spec, made = warmed(rows, **feeder)
    group = spec.groups[0]
    assert group.request.endpoint == "http://cache"
    assert (group.feeders["object"].take, group.feeders["object"].when_exhausted) == ("unique", "stop")
    users = min(SLOTS, rows)
    parts = [range(rows * user // users, rows * (user + 1) // users) for user in range(users)]
    assert made == [(user, seq) for user, part in enumerate(parts) for seq in range(len(part))]


def test_a_warming_of_the_first_row_asks_for_it_once():
    spec, made = warmed(2000, take="first")
    assert made == [(0, 0)]
    assert spec.groups[0].feeders["object"].take == "first"


def test_a_warming_has_time_for_all_its_rows():
    """The store answers 60 requests a second."""
    assert warmed(55_000)[0].groups[0].stop_offset_ns > 55_000 / 60 * 1e9
    assert warmed(1)[0].groups[0].stop_offset_ns > 100e9


def test_only_the_groups_own_target_is_in_its_share():
    more = ENDPOINTS | {"http://backend": Endpoint(scheme="http", address="127.0.0.1", port=9)}
    case = config(ConstantVus(vus=1))
    shares = build_shares(case, 7, timeline(case, 10**9), more, [])
    assert set(shares[0].spec.endpoints) == {"http://cache"}


STAGES = (Stage(duration_ns=4_000_000_000, target=9), Stage(duration_ns=6_000_000_000, target=2))


@pytest.mark.parametrize(
    ("executor", "stop_ns"),
    [
        (RampingVus(start_vus=3, stages=STAGES), 10_000_000_000),
        (RampingArrivalRate(stages=STAGES, max_vus=9), 10_000_000_000),
        (SharedIterations(vus=9, iterations=100), 20_000_000_000),
        (PerVuIterations(vus=9, iterations=100), 20_000_000_000),
    ],
)
def test_every_executor_is_cut_and_stops_where_its_stages_end(executor: Executor, stop_ns: int):
    case = config(executor, 4)
    cut = [spec.groups[0] for spec in shares_of(case) if spec.groups[0].name == "background"]
    assert {group.stop_offset_ns for group in cut} == {stop_ns}
    assert {group.executor.kind for group in cut} == {executor.kind}
    own: list[Any] = [group.executor for group in cut]
    assert sum(one.max_vus if hasattr(one, "max_vus") else one.vus for one in own) == 9
    for group, spec in zip(cut, shares_of(case), strict=False):
        # The engine reads what is written here.
        sure = replace(spec, endpoints={"http://cache": EndpointSpec(address="127.0.0.1:1")})
        table = {"path": ("utf8", ["/a", "/b"])}
        assert group.executor.kind == executor.kind
        assert set(_native.rehearse(text_of(sure), {"objects": table}, 5_000_000)) == {"background"}


def test_bodies_and_graceful_stops_are_reported():
    law = SizeLaw(lognormal=(1000, 9000))
    column, piece = FeederPart(feeder="object", column="digest"), FeederPiece("object", "digest")
    for body, found in (
        (Body(random=law), BodySpec(random=Law(lognormal=(1000, 9000)))),
        (Body(random=SizeLaw(constant=5)), BodySpec(random=Law(bytes=5))),
        (Body(random=SizeLaw(uniform=(1, 2))), BodySpec(random=Law(uniform=(1, 2)))),
        (Body(file="/f"), BodySpec(file="/f")),
        (Body(text=(column,)), BodySpec(text=(piece,))),
    ):
        request = Request(name="up", method="PUT", scheme="http", host="cache", path=(), body=body)
        case = config(ConstantVus(vus=1))
        group = evolve(case.groups[0], request=request, graceful_stop_ns=7)
        share = shares_of(evolve(case, groups=(group,)))[0].groups[0]
        assert share.request.body == found
        assert share.graceful_stop_ns == 7
        assert list(share.feeders) == (["object"] if body.text else [])


def test_work_that_is_done_ends_the_window():
    case = config(SharedIterations(vus=2, iterations=10))
    alone = evolve(case, groups=case.groups[:1])
    times = timeline(alone, 600_000_000_000)
    assert times.interval_ns == 100_000_000
    ten = dict.fromkeys(("due", "begun", "ok", "written", "completed_in_window", "ok_in_window"), 10)
    none = dict.fromkeys(("waiting", "dropped", "failed", "in_flight"), 0)
    times_ns = {"last_done_ns": 230_000_000, "in_flight_mean": 0.001}
    group = GroupSummary(name="background", plan_done=True, **ten, **none, **times_ns)
    window_ns, (short,) = shortened(times, [group])
    assert window_ns == (0, 300_000_000)
    assert short.in_flight_mean * 0.3 == pytest.approx(0.001 * 600)
    assert shortened(times, [evolve(group, plan_done=False), group])[0] == (0, times.end_ns)
    assert shortened(timeline(case, 5), [group])[0] == (0, 5)


def test_a_secret_is_distinguished_from_other_texts() -> None:
    """A secret is marked in a share, so that no redirect passes it on; other responses' values are texts."""
    found = {"secret.t": "hush", "token": "given"}
    parts = (Text(text="a "), TakenPart(taken="secret.t"), TakenPart(taken="token"))
    request = evolve(REQUEST, headers=(("X-T", parts),), body=Body(text=parts), method="POST")
    written = Taken(found).writer("g").request(request, {"http://cache": "http://cache"})
    result = (TextPart("a "), SecretPart("hush"), ValuePart("given"))
    assert written.headers == (("X-T", result),)
    assert written.body == BodySpec(text=result)
