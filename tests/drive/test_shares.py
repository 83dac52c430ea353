"""Shares divide the plan: for any number of generators the same VUs, places and arrivals are planned."""

from __future__ import annotations

import resource
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evolve import evolve
from tests.results import case_of, unpacked

from svload import _native
from svload.drive.places import RESERVE, places_of
from svload.drive.share.cut import build_shares
from svload.drive.share.request_spec import BodySpec, SecretPart, TextPart, ValuePart
from svload.drive.share.request_spec import FeederPart as FeederPiece
from svload.drive.share.request_spec import SizeLaw as Law
from svload.drive.share.requests import Taken
from svload.drive.share.spec import GroupSpec, Http2Spec, ShareSpec
from svload.drive.share.timeline import shortened, timeline
from svload.drive.share.warm import SLOTS, warm_share
from svload.drive.share.write import text_of
from svload.drive.totals import merge_summaries
from svload.host import connection_room
from svload.model.bounds import VUS
from svload.model.executors import (
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    RampingArrivalRate,
    SharedIterations,
    ThinkTime,
)
from svload.model.facts import Endpoint
from svload.model.plan import Room
from svload.model.results import GroupSummary, Http2Summary
from svload.model.stages import Stage
from svload.model.study import CaseConfig
from svload.model.traffic import Body, Feeder, FeederPart, Group, Request, SizeLaw, TakenPart, Text

REQUEST = Request(
    name="fetch", scheme="http", host="cache", path=(FeederPart(feeder="object", column="path"),)
)
ENDPOINTS = {
    f"http://{name}": Endpoint(scheme="http", address="127.0.0.1", port=port)
    for name, port in (("cache", 8080), ("backend", 9))
}


def config(executor: Executor, generators: int = 1, **group: Any) -> CaseConfig:
    first = Group(name="background", executor=executor, request=REQUEST, generators=generators, **group)
    pausing = ConstantVus(vus=2, think_time=ThinkTime(constant_ns=100_000_000))
    how = {"client": "curl", "connection": "new", "start_when": "background"}
    probe = Group(name="probe", executor=pausing, request=REQUEST, **how)
    return case_of(first, probe, feeders=(Feeder(name="object", table="objects"),))


def shares_of(case: CaseConfig) -> list[ShareSpec]:
    times = timeline(case, 20_000_000_000)
    return [share.spec for share in build_shares(case, 7, times, ENDPOINTS, ["127.0.0.0/8"])]


def background_of(case: CaseConfig) -> tuple[list[GroupSpec], list[Any]]:
    """Return the background group of each share that has it, and their executors, of any kind."""
    groups = [spec.groups[0] for spec in shares_of(case) if spec.groups[0].name == "background"]
    return groups, [group.executor for group in groups]


@given(vus=st.integers(1, 300), streams=st.just(0) | st.integers(1, 40), generators=st.integers(1, 12))
def test_no_user_is_lost_and_no_connection_is_cut(vus: int, streams: int, generators: int):
    """The users of one HTTP/2 connection stay together; without streams each user has its own."""
    connections = -(-vus // (streams or 1))
    http2 = {"http2": True, "streams": streams} if streams else {}
    groups, cut = background_of(config(ConstantVus(vus=vus), min(generators, connections), **http2))
    assert sorted(one.vu_from + k * one.vu_step for one in cut for k in range(one.vus)) == list(range(vus))
    assert sum(-(-one.vus // (streams or 1)) for one in cut) == connections
    assert all(group.http2 == (Http2Spec(streams=streams) if streams else None) for group in groups)


@pytest.mark.parametrize(
    ("generators", "http2", "places"),
    [(4, {}, [16, 16, 16, 16]), (3, {"http2": "preferred", "streams": 16}, [32, 16, 16])],
    ids=["HTTP/1.1", "whole connections of HTTP/2"],
)
def test_arrivals_are_cut_by_index(generators: int, http2: dict[str, Any], places: list[int]):
    case = config(ConstantArrivalRate(rate_rps=500, max_vus=64), generators, **http2)
    groups, cut = background_of(case)
    assert [(one.index_from, one.index_step) for one in cut] == [(at, generators) for at in range(generators)]
    assert [one.max_vus for one in cut] == places
    assert groups[0].http2 == (Http2Spec(streams=16, fallback=True) if http2 else None)
    assert set(shares_of(case)[0].endpoints) == {"http://cache"}, "only the group's own target"


def test_ramps_one_after_another_all_come_before_the_window():
    first, probe = config(ConstantVus(vus=10, ramp_up_ns=3_000_000_000)).groups
    second = ConstantVus(vus=1, ramp_up_ns=2_000_000_000)
    more = Group(name="more", executor=second, request=REQUEST, start_when="background")
    feeders = (Feeder(name="object", table="objects"),)
    shares = shares_of(case_of(first, more, evolve(probe, start_when="more"), feeders=feeders))
    groups = {group.name: group for share in shares for group in share.groups}
    starts_ns = {"background": 0, "more": 3_000_000_000, "probe": 5_000_000_000}
    assert {name: group.start_offset_ns for name, group in groups.items()} == starts_ns
    assert {group.stop_offset_ns for group in groups.values()} == {25_000_000_000}
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


ROOM, WIDE = Room(descriptors=20_000, local_ports=28_000), Room(descriptors=10**7, local_ports=10**7)
TO_200 = (Stage(duration_ns=10**9, target=200), Stage(duration_ns=10**9, target=10))


@pytest.mark.parametrize(
    ("executor", "timeout_s", "generators", "room", "expected"),
    [
        (ConstantArrivalRate(rate_rps=500), 30, 1, ROOM, (15_000, "rate × timeout")),
        (ConstantArrivalRate(rate_rps=0.01), 1, 1, ROOM, (1, "rate × timeout")),
        (ConstantArrivalRate(rate_rps=0.01), 1, 3, ROOM, (3, "rate × timeout")),
        (ConstantArrivalRate(rate_rps=2_000), 30, 1, ROOM, (20_000 - RESERVE, "the generators' descriptors")),
        (ConstantArrivalRate(rate_rps=2_000), 30, 4, ROOM, (28_000 - RESERVE, "this machine's local ports")),
        (ConstantArrivalRate(rate_rps=1e6), 30, 1, WIDE, (VUS.most, "the engine's maximum")),
        (RampingArrivalRate(stages=TO_200), 2, 1, Room(), (400, "rate × timeout")),
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
    dealt = [one.max_vus for one in background_of(case)[1]]
    places = places_of(case.groups[0], Room())
    assert sum(dealt) == places.most
    assert max(dealt) - min(dealt) <= 1


def test_this_machines_room_is_what_the_kernel_allows() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connection_room(hard).descriptors == hard
    assert connection_room(2**40).descriptors == hard, "nobody may have more than fs.nr_open"
    assert 1 <= connection_room(1).local_ports <= 65_535


def test_what_shares_counted_is_added() -> None:
    class Result:
        def __init__(self, http2: dict[str, Any], due_ns: int, silence_ns: int) -> None:
            self.share = type("Share", (), {"groups": (0,)})
            self.summary = {
                "groups": [{"http2": http2, "first_due_ns": due_ns, "longest_silence_ns": silence_ns}]
            }

    counts = {"connections": 2, "requests": 9, "stream_waits": 1, "fallbacks": 0}
    one = counts | {"resets": {"CANCEL": 1}, "goaways": {}}
    two = one | {"resets": {"CANCEL": 2, "NO_ERROR": 1}, "goaways": {"NO_ERROR": 4}}
    results = [Result(one, 5, 100), Result(two, 55, 20), Result({}, -1, 0)]
    (group,) = merge_summaries(results, ["load"])
    ends = {"resets": {"CANCEL": 3, "NO_ERROR": 1}, "goaways": {"NO_ERROR": 4}}
    assert group.http2 == Http2Summary(connections=4, requests=18, stream_waits=2, **ends)
    assert group.longest_silence_ns == 70, "the second share was also silent before its first request"
