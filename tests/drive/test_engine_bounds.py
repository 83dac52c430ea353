"""The engine takes what a study may ask for: every word, and the largest value, but not the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from svload import _native
from svload.drive.share import executor_spec as executor
from svload.drive.share.request_spec import BodySpec, RequestSpec, SizeLaw, TextPart
from svload.drive.share.spec import (
    EndpointSpec,
    FeederSpec,
    GroupSpec,
    Http2Spec,
    ScenarioSpec,
    ShareSpec,
    StepSpec,
    TlsSpec,
)
from svload.drive.share.write import text_of
from svload.model import bounds
from svload.model.bounds import Bound

ORIGIN = "http://web"
REQUEST = RequestSpec(name="get", method="GET", endpoint=ORIGIN, path=(TextPart("/"),), timeout_ns=1)
USERS = executor.ConstantVus(vus=1)
GROUP = GroupSpec(name="load", record="histogram", stop_offset_ns=1, executor=USERS, request=REQUEST)
HERE = {ORIGIN: EndpointSpec(address="127.0.0.1:1")}
LOAD = {"id": "load.0", "seed": 1, "interval_ns": 1, "window_ns": (0, 1)}
SHARE = ShareSpec(endpoints=HERE, allowed=(), groups=(GROUP,), **LOAD)
Make = Callable[[int], ShareSpec]


def with_group(**changed: object) -> ShareSpec:
    return replace(SHARE, groups=(replace(GROUP, **changed),))


def with_executor(one: executor.ClosedSpec | executor.OpenSpec) -> ShareSpec:
    return with_group(executor=one)


def with_body(size_bytes: int) -> ShareSpec:
    body = BodySpec(random=SizeLaw(bytes=size_bytes))
    return with_group(request=replace(REQUEST, method="PUT", body=body))


def with_steps(count: int) -> ShareSpec:
    scenario = ScenarioSpec(steps=(StepSpec(request=REQUEST),) * count)
    return with_group(request=None, scenarios=(scenario,))


BOUNDS: dict[str, tuple[Bound, Make]] = {
    "spin": (bounds.SPIN_NS, lambda n: replace(SHARE, spin_ns=n)),
    "pacing quantum": (bounds.QUANTUM_NS, lambda n: with_group(pacing_quantum_ns=n)),
    "users": (bounds.VUS, lambda n: with_executor(executor.ConstantVus(vus=n))),
    "places": (bounds.VUS, lambda n: with_executor(executor.ConstantArrivalRate(rate_rps=1, max_vus=n))),
    "rate": (bounds.RATE_RPS, lambda n: with_executor(executor.ConstantArrivalRate(rate_rps=n, max_vus=1))),
    "streams": (bounds.STREAMS, lambda n: with_group(http2=Http2Spec(streams=n))),
    "steps": (bounds.STEPS, with_steps),
    "body": (bounds.SIZE_BYTES, with_body),
    "iterations": (
        bounds.ITERATIONS,
        lambda n: with_executor(executor.SharedIterations(vus=1, iterations=n)),
    ),
    "iterations of each": (
        bounds.ITERATIONS,
        lambda n: with_executor(executor.PerVuIterations(vus=1, iterations=n)),
    ),
    "generators": (
        bounds.GENERATORS,
        lambda n: with_executor(executor.ConstantVus(vus=1, vu_step=n, vus_total=n)),
    ),
    "redirects": (bounds.REDIRECTS, lambda n: with_group(follow_redirects=n)),
    "think time": (
        bounds.TIME_NS,
        lambda n: with_executor(executor.ConstantVus(vus=1, think_time=executor.ThinkTime(constant_ns=n))),
    ),
}
WIDER = ("iterations", "iterations of each", "generators", "redirects", "think time")
"""Bounds of the engine that are wider than any study's; the others are equal."""


def fault(share: ShareSpec) -> Any:
    return _native.share_fault(text_of(share), {})


@pytest.mark.parametrize("name", BOUNDS)
def test_the_engine_takes_as_much_as_a_study_may_ask_for_and_no_more(name: str) -> None:
    bound, made = BOUNDS[name]
    assert fault(made(bound.most)) is None
    assert name in WIDER or fault(made(bound.most + 1)) is not None


ROW = {"table": "t", "take": "walk"}
NAMED: dict[str, Any] = {"server_name": "web", "ca_pem": None}
RATE = {"rate_rps": 1, "max_vus": 1}
WORDED: dict[type, Callable[..., ShareSpec]] = {
    GroupSpec: with_group,
    FeederSpec: lambda **word: with_group(feeders={"row": FeederSpec(**ROW | word)}),
    TlsSpec: lambda **word: replace(
        SHARE, endpoints={ORIGIN: EndpointSpec(address="a:1", tls=TlsSpec(**NAMED | word))}
    ),
    executor.ConstantArrivalRate: lambda **word: with_executor(executor.ConstantArrivalRate(**RATE | word)),
}


@pytest.mark.parametrize("kind", WORDED)
def test_the_engine_knows_every_word(kind: type) -> None:
    for field, words in get_type_hints(kind).items():
        if get_origin(words) is Literal and field != "kind":
            found = {one: fault(WORDED[kind](**{field: one})) for one in (*get_args(words), "?")}
            assert [one for one, why in found.items() if "unknown variant" in str(why)] == ["?"], field


def test_turns_hold_the_whole_load() -> None:
    """The load ends in the turn in which it is stopped; turns that are too short or overlap are refused,
    and an empty list is not written."""
    turns_ns = ((10, 12), (20, 22))
    share = replace(with_group(stop_offset_ns=3, graceful_stop_ns=7), turns_ns=turns_ns)
    assert fault(share) is None
    assert share.end_ns == 21 + 7
    assert fault(replace(share, turns_ns=turns_ns[:1]))[0] == "share.turns_ns"
    assert fault(replace(share, turns_ns=((10, 12), (11, 13))))[0] == "share.turns_ns[1]"
    assert "turns_ns" not in text_of(SHARE)
