"""Targets that a study names itself: authorised, looked up once, asked by their own host."""

from __future__ import annotations

import socket

import pytest
from tests.results import case_of

from svload.drive.share.cut import build_shares
from svload.drive.share.timeline import timeline
from svload.model.errors import SvloadError
from svload.model.executors import ConstantVus
from svload.model.facts import Endpoint
from svload.model.study import CaseConfig, ServiceSpec
from svload.model.traffic import Group, Request, Text
from svload.run.targets import case_endpoints, named_targets, permitted_targets, unasked_addresses

OUTSIDE = "http://192.0.2.7:8080"


def config(at: str, host: str = "shop", scheme: str = "http") -> CaseConfig:
    request = Request(name="get", scheme=scheme, host=host, path=(Text(text="/"),))
    return case_of(
        Group(name="users", executor=ConstantVus(vus=1), request=request),
        services=(ServiceSpec(name="shop", kit="external", options={"at": at}),),
    )


def test_a_server_that_a_study_names_needs_its_users_permission():
    with pytest.raises(SvloadError) as caught:
        permitted_targets([config(OUTSIDE), config("http://198.51.100.9")], [])
    assert [problem.code for problem in caught.value.problems] == ["unauthorised-target"] * 2
    assert "--authorise 192.0.2.7" in str(caught.value)
    found = permitted_targets([config(OUTSIDE)], ["192.0.2.7"])
    assert [(at.address, at.port) for at in found.values()] == [("192.0.2.7", 8080)]


def test_a_name_with_several_addresses_is_told_with_the_one_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses = ["2001:db8::7", "192.0.2.7", "192.0.2.8", "192.0.2.7"]

    def known(host: str, port: int, *_words: object, **_more: object) -> list[tuple[object, ...]]:
        mine = addresses if host == "shop.example" else addresses[1:2]
        return [(socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, port)) for one in mine]

    monkeypatch.setattr(socket, "getaddrinfo", known)
    names = ("shop.example", "one.example", "127.0.0.1")
    found = permitted_targets([config(f"http://{name}:8080") for name in names], names)
    told = "shop.example has 3 addresses; all requests go to 192.0.2.7"
    assert list(unasked_addresses(found)) == [told]


def test_so_does_an_address_in_a_url():
    with pytest.raises(SvloadError) as caught:
        permitted_targets([config("http://127.0.0.1:80", host="192.0.2.7")], [])
    assert caught.value.problems[0].code == "unauthorised-target"
    assert list(named_targets(config("http://127.0.0.1:80", host="192.0.2.7"))) == [
        "http://shop",
        "http://192.0.2.7",
    ]


def test_it_is_asked_by_its_own_host_and_verified_by_it():
    case = config("https://localhost:8443", scheme="https")
    permitted = permitted_targets([case], [])
    lab = {"https://shop": Endpoint(scheme="https", address="localhost", port=8443, ca_pem="PEM")}
    endpoints = case_endpoints(case, lab, permitted)
    assert endpoints["https://shop"].ca_pem == "PEM"
    spec = build_shares(case, 1, timeline(case, 10**9), endpoints, ["127.0.0.0/8"])[0].spec
    assert list(spec.endpoints) == ["https://localhost:8443"]
    request, tls = spec.groups[0].request, spec.endpoints["https://localhost:8443"].tls
    assert request.endpoint == "https://localhost:8443"
    assert tls.server_name == "localhost"
    assert spec.endpoints["https://localhost:8443"].address.startswith("127.0.0.1:")


def test_without_an_authority_of_its_own_the_systems_are_asked():
    case = config("https://127.0.0.1:8443", scheme="https")
    lab = {"https://shop": Endpoint(scheme="https", address="127.0.0.1", port=8443)}
    found = case_endpoints(case, lab, permitted_targets([case], []))["https://shop"]
    assert found.ca_pem.count("BEGIN CERTIFICATE") > 10
