"""Targets that a study names itself: authorised, looked up once, sent their own host name."""

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
from svload.run.targets import case_endpoints, named_targets, permitted_targets, several_addresses

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


LISTENS, CLOSED, LISTENS_TOO = "127.0.0.7", "127.0.0.6", "127.0.0.8"
INSTEAD = "all requests go to 127.0.0.7, because 127.0.0.6 accepts no connection"


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["::1", LISTENS, LISTENS_TOO], "3 addresses; all requests go to 127.0.0.7"),
        (["::1", CLOSED, LISTENS, LISTENS_TOO, CLOSED], f"4 addresses; {INSTEAD}"),
        ([CLOSED, "::1"], "2 addresses; all requests go to 127.0.0.6"),
    ],
)
def test_of_several_addresses_all_requests_go_to_the_first_that_accepts_a_connection(
    addresses: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def known(host: str, port: int, *words: object, **more: object) -> list[tuple[object, ...]]:
        """Answer like a name server whose every answer begins with another address."""
        if host != "shop.example":
            return real(host, port, *words, **more)  # type: ignore[arg-type,return-value]
        addresses.append(addresses.pop(0))
        families = {"::1": socket.AF_INET6}
        return [(families.get(one, socket.AF_INET), 1, 6, "", (one, port)) for one in addresses]

    addresses.insert(0, addresses.pop())
    monkeypatch.setattr(socket, "getaddrinfo", known)
    looked_up: dict[str, list[str]] = {}
    with socket.create_server((LISTENS, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_server((LISTENS_TOO, port)):
            asked = [f"{host}:{port}{path}" for host in ("shop.example", LISTENS) for path in ("/a", "/b")]
            cases = [config(f"http://{one}") for one in asked]
            found = permitted_targets(cases, ["shop.example"], looked_up)
    assert list(several_addresses(found, looked_up)) == [f"shop.example has {expected}"]
    first, second, *others = (at.address for at in found.values())
    assert first == second and f"go to {first}" in expected
    assert others == [LISTENS, LISTENS]


def test_so_does_an_address_in_a_url():
    with pytest.raises(SvloadError) as caught:
        permitted_targets([config("http://127.0.0.1:80", host="192.0.2.7")], [])
    assert caught.value.problems[0].code == "unauthorised-target"
    named = named_targets(config("http://127.0.0.1:80", host="192.0.2.7"))
    assert list(named) == ["http://shop", "http://192.0.2.7"]


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
