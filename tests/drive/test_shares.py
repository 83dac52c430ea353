"""Shares are a cut of the plan: however many generators there are, the same VUs and arrivals are asked for."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from svload.drive.shares import build_shares, timeline, warm_share
from svload.model.facts import Endpoint
from svload.model.study import Case, CaseConfig
from svload.model.traffic import (
    ConstantArrivalRate,
    ConstantVus,
    Executor,
    Feeder,
    FeederPart,
    Group,
    Request,
    ThinkTime,
)

REQUEST = Request(
    name="fetch", scheme="http", host="cache", path=(FeederPart(feeder="object", column="path"),)
)
ENDPOINTS = {"http://cache": Endpoint(scheme="http", address="127.0.0.1", port=8080)}


def config(executor: Executor, generators: int = 1, **group: Any) -> CaseConfig:
    first = Group(name="background", executor=executor, request=REQUEST, generators=generators, **group)
    probe = Group(
        name="probe",
        client="curl",
        connection="new",
        executor=ConstantVus(vus=2, think_time=ThinkTime(constant_ns=100_000_000)),
        request=REQUEST,
        start_when="background",
    )
    return CaseConfig(
        case=Case(name="c", levels={}),
        services=(),
        feeders=(Feeder(name="object", table="objects"),),
        groups=(first, probe),
    )


def shares_of(case: CaseConfig) -> list[dict[str, Any]]:
    times = timeline(case, 20_000_000_000)
    return [share.spec for share in build_shares(case, 7, times, ENDPOINTS, ["127.0.0.0/8"])]


@given(vus=st.integers(1, 200), generators=st.integers(1, 12))
def test_every_vu_is_in_exactly_one_share(vus: int, generators: int):
    case = config(ConstantVus(vus=vus), min(generators, vus))
    numbers = [
        spec["groups"][0]["executor"]["vu_from"] + k * spec["groups"][0]["executor"]["vu_step"]
        for spec in shares_of(case)
        if spec["groups"][0]["name"] == "background"
        for k in range(spec["groups"][0]["executor"]["vus"])
    ]
    assert sorted(numbers) == list(range(vus))


def test_arrivals_are_cut_by_index():
    case = config(ConstantArrivalRate(rate_rps=500, max_vus=64), 4)
    cut = [spec["groups"][0]["executor"] for spec in shares_of(case)[:4]]
    assert [(part["index_from"], part["index_step"]) for part in cut] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert sum(part["max_vus"] for part in cut) == 64


def test_ramps_come_before_the_window_and_the_probe_waits_for_them():
    case = config(ConstantVus(vus=10, ramp_up_ns=3_000_000_000))
    background, probe = shares_of(case)
    assert background["window_ns"] == [3_000_000_000, 23_000_000_000]
    assert probe["groups"][0]["start_offset_ns"] == 3_000_000_000
    assert {group["groups"][0]["stop_offset_ns"] for group in (background, probe)} == {23_000_000_000}


def test_six_hundred_intervals_of_at_most_a_second():
    assert timeline(config(ConstantVus(vus=1)), 1_200_000_000).interval_ns == 2_000_000
    assert timeline(config(ConstantVus(vus=1)), 7_200_000_000_000).interval_ns == 1_000_000_000


def test_rows_are_kept_for_curl_and_for_slow_groups_only():
    background, probe = config(ConstantVus(vus=64)).groups
    assert not background.keeps_rows and probe.keeps_rows
    assert config(ConstantArrivalRate(rate_rps=1000)).groups[0].keeps_rows
    assert not config(ConstantArrivalRate(rate_rps=1001)).groups[0].keeps_rows


def test_warming_asks_for_each_row_once_and_through_the_cache():
    case = config(ConstantVus(vus=4))
    times = timeline(case, 1_000_000_000)
    template = build_shares(case, 7, times, ENDPOINTS, [])[0]
    share = warm_share(template, "object", 2000, "http://cache", ENDPOINTS, [])
    executor = share.spec["groups"][0]["executor"]
    assert (executor["limit"], executor["on_full"]) == (2000, "wait")
    assert share.spec["groups"][0]["request"]["endpoint"] == "http://cache"
    assert template.spec["groups"][0]["name"] == "background"


def test_only_the_groups_own_target_is_in_its_share():
    more = ENDPOINTS | {"http://backend": Endpoint(scheme="http", address="127.0.0.1", port=9)}
    case = config(ConstantVus(vus=1))
    shares = build_shares(case, 7, timeline(case, 10**9), more, [])
    assert set(shares[0].spec["endpoints"]) == {"http://cache"}
