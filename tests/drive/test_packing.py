"""Packing of groups into generator processes, one per core for load; requests don't depend on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evolve import evolve
from tests.results import case_of, unpacked

from svload import _native
from svload.drive.packing import MANY_CORES, Part, name_of, packed
from svload.drive.share.cut import Share, asks_for, build_shares
from svload.drive.share.requests import Taken
from svload.drive.share.timeline import timeline
from svload.drive.share.write import text_of
from svload.model.executors import ConstantVus, ThinkTime
from svload.model.facts import Endpoint
from svload.model.study import CaseConfig
from svload.model.traffic import Feeder, FeederPart, Group, Request, TakenPart

SECOND = 1_000_000_000
OBJECT = FeederPart(feeder="object", column="path")
REQUEST = Request(name="fetch", scheme="https", host="cache", path=(OBJECT,))
TLS = Endpoint(scheme="https", address="127.0.0.1", port=8443, ca_pem="PEM")
INPUTS = {"objects": {"path": ("utf8", [f"/o/{row}" for row in range(30)])}}


def config(generators: int = 1, request: Request = REQUEST, **probe: Any) -> CaseConfig:
    many, three = (ConstantVus(vus=vus, think_time=ThinkTime(constant_ns=SECOND // 10)) for vus in (12, 3))
    return case_of(
        Group(name="background", executor=many, request=request, generators=generators),
        Group(name="probe", client="curl", executor=three, request=request, **probe),
        feeders=(Feeder(name="object", table="objects"),),
    )


def shares_of(case: CaseConfig, cores: int, taken: Taken | None = None) -> list[Share]:
    times = timeline(case, SECOND)
    return build_shares(case, 7, times, {"https://cache": TLS}, ["127.0.0.0/8"], taken=taken, cores=cores)


def asked(shares: list[Share]) -> dict[str, list[bytes]]:
    """Return by group its rehearsed requests, as bytes, in order of their VU."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for spec in (replace(share.spec, groups=(group,)) for share in shares for group in share.spec.groups):
        for name, table in _native.rehearse(text_of(spec), INPUTS, 1_000_000).items():
            columns = unpacked(table)
            rows = zip(*(columns[key] for key in ("vu", "seq", "due_ns")), strict=True)
            found.setdefault(name, []).extend(rows)
    return {name: sorted(requests) for name, requests in found.items()}


@given(generators=st.integers(1, 12), cores=st.integers(0, 14))
def test_every_part_has_one_process_and_there_are_no_more_than_cores(generators: int, cores: int):
    case = config(generators)
    processes = packed(case, cores)
    parts = [part for process in processes for part in process]
    assert sorted(parts) == [Part(0, k) for k in range(case.groups[0].generators)] + [Part(1, 0)]
    assert len(processes) == max(1, min(cores, len(parts)))
    assert max(map(len, processes)) - min(map(len, processes)) <= 1, "dealt evenly"
    assert len({name_of(case, process) for process in processes}) == len(processes)


def test_one_core_has_one_process_and_cores_enough_one_for_each():
    case = config()
    assert [share.name for share in shares_of(case, 1)] == ["background.0+probe.0"]
    assert [share.name for share in shares_of(case, MANY_CORES)] == ["background.0", "probe.0"]
    assert [share.groups for share in shares_of(config(2), 2)] == [(0, 1), (0,)]
    assert [share.groups for share in shares_of(config(3), 1)] == [(0, 0, 0, 1)]


def test_the_same_is_asked_however_it_is_packed():
    alone = asked(shares_of(config(), MANY_CORES))
    assert set(alone) == {"background", "probe"} and len(alone["background"]) > 100
    for generators, cores in ((1, 1), (2, 2), (10, 1), (10, 3)):
        assert asked(shares_of(config(generators), cores)) == alone, (generators, cores)


@pytest.mark.parametrize("cores", [1, 2])
def test_a_process_spins_as_its_most_impatient_group_and_tls_sessions_are_each_groups(cores: int):
    shares = shares_of(config(tls_resumption=False, spin_ns=60_000), cores)
    assert [share.spec.spin_ns for share in shares][-1] == 60_000
    found = {group.name: group.tls_resumption for share in shares for group in share.spec.groups}
    assert found == {"background": True, "probe": False}


def test_each_group_has_its_own_variables_of_set_up():
    token = Request(name="fetch", scheme="https", host="cache", path=(OBJECT, TakenPart(taken="token")))
    vus = {"background": {"token": ["b"] * 12}, "probe": {"token": ["p"] * 3}}
    [share] = shares_of(config(request=token), 1, Taken({}, vus))
    for group in share.spec.groups:
        [own] = [feeder for name, feeder in group.feeders.items() if name != "object"]
        assert share.values[own.table] == vus[group.name]


def test_many_groups_make_no_long_name_and_the_first_that_needs_a_feeder_is_named():
    case = config()
    many = evolve(case, groups=tuple(evolve(case.groups[0], name=f"group-{k}") for k in range(60)))
    [share] = shares_of(many, 1)
    assert share.name == "group-0.0+59 more"
    assert (asks_for(share, "object"), asks_for(share, "other")) == (0, None)
