"""HTTP/2 groups divided into shares: users of one connection stay together, for any number of generators."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.results import case_of

from svload.drive.share.cut import build_shares
from svload.drive.share.spec import GroupSpec, Http2Spec
from svload.drive.share.timeline import timeline
from svload.drive.totals import merge_summaries
from svload.model.executors import ConstantArrivalRate, ConstantVus, Executor
from svload.model.facts import Endpoint
from svload.model.results import Http2Summary
from svload.model.traffic import Group, Request, Text

REQUEST = Request(name="get", scheme="http", host="web", path=(Text(text="/"),))
ENDPOINTS = {"http://web": Endpoint(scheme="http", address="127.0.0.1", port=8080)}


def groups_of(executor: Executor, generators: int, **group: Any) -> list[GroupSpec]:
    load = Group(name="load", executor=executor, request=REQUEST, generators=generators, **group)
    case = case_of(load)
    shares = build_shares(case, 7, timeline(case, 1_000_000_000), ENDPOINTS, ["127.0.0.0/8"])
    return [share.spec.groups[0] for share in shares]


@given(vus=st.integers(1, 300), streams=st.integers(1, 40), generators=st.integers(1, 9))
def test_no_connection_is_cut_and_no_user_lost(vus: int, streams: int, generators: int) -> None:
    connections = -(-vus // streams)
    groups = groups_of(ConstantVus(vus=vus), min(generators, connections), http2=True, streams=streams)
    options: list[Any] = [group.executor for group in groups]
    numbers = [own.vu_from + k * own.vu_step for own in options for k in range(own.vus)]
    assert sorted(numbers) == list(range(vus))
    assert sum(-(-own.vus // streams) for own in options) == connections
    assert all(group.http2 == Http2Spec(streams=streams) for group in groups)


def test_places_of_an_open_loop_are_whole_connections_too() -> None:
    groups = groups_of(ConstantArrivalRate(rate_rps=100, max_vus=64), 3, http2="preferred", streams=16)
    options: list[Any] = [group.executor for group in groups]
    assert [own.max_vus for own in options] == [32, 16, 16]
    assert [own.index_from for own in options] == [0, 1, 2]
    assert groups[0].http2 == Http2Spec(streams=16, fallback=True)


def test_without_it_nothing_is_reported() -> None:
    (group,) = groups_of(ConstantVus(vus=4), 1)
    assert group.http2 is None


def test_what_shares_counted_is_added() -> None:
    class Result:
        def __init__(self, http2: dict[str, Any]) -> None:
            self.share = type("Share", (), {"groups": (0,)})
            self.summary = {"groups": [{"name": "load", "http2": http2}]}

    counts = {"connections": 2, "requests": 9, "stream_waits": 1, "fallbacks": 0}
    one = counts | {"resets": {"CANCEL": 1}, "goaways": {}}
    two = one | {"resets": {"CANCEL": 2, "NO_ERROR": 1}, "goaways": {"NO_ERROR": 4}}
    (group,) = merge_summaries([Result(one), Result(two)], ["load"])
    ends = {"resets": {"CANCEL": 3, "NO_ERROR": 1}, "goaways": {"NO_ERROR": 4}}
    assert group.http2 == Http2Summary(connections=4, requests=18, stream_waits=2, **ends)
