"""How servers are verified that only redirects lead to: as the study says of its own."""

from __future__ import annotations

import pytest

from svload.drive.share.cut import redirect_tls
from svload.model.errors import fail
from svload.model.executors import ConstantVus
from svload.model.facts import Endpoint
from svload.model.traffic import Group, Request


def group(follow: int, host: str = "w") -> Group:
    request = Request(name="get", scheme="http", host=host, path=(), follow_redirects=follow)
    return Group(name="g", executor=ConstantVus(vus=1), request=request)


def endpoint(**text: object) -> Endpoint:
    return Endpoint(scheme="http", address="127.0.0.1", port=1, **text)


@pytest.fixture(autouse=True)
def _system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svload.drive.share.cut.system_authorities", lambda: "SYSTEM")


def test_who_follows_nothing_needs_nothing() -> None:
    assert redirect_tls([group(0)], {"http://w": endpoint()}) is None


def test_the_labs_authorities_and_the_systems_are_trusted() -> None:
    known = {"http://w": endpoint(), "https://w": endpoint(ca_pem="LAB"), "https://v": endpoint(ca_pem="LAB")}
    tls = redirect_tls([group(1)], known)
    assert (tls.ca_pem, tls.verify) == ("LABSYSTEM", True)


def test_who_takes_any_certificate_of_its_target_takes_any_behind_it() -> None:
    tls = redirect_tls([group(1)], {"http://w": endpoint(verify=False), "https://v": endpoint()})
    assert tls.verify is False


def test_a_system_without_authorities_trusts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise fail("lab-failed", reason="none", hint="")

    monkeypatch.setattr("svload.drive.share.cut.system_authorities", none)
    assert redirect_tls([group(1)], {"http://w": endpoint()}) is None
