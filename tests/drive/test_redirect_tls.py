"""TLS verification of servers reached only by redirects: as the study sets it for its own."""

from __future__ import annotations

from typing import Any

import pytest

from svload.drive.share.cut import redirect_tls
from svload.model.errors import fail
from svload.model.executors import ConstantVus
from svload.model.facts import Endpoint
from svload.model.traffic import Group, Request


def found(follow: int, **endpoints: dict[str, Any]) -> tuple[str, bool] | None:
    """Return the authorities, and whether to verify, for a group that requests `w`; endpoints as `http_w`."""
    request = Request(name="get", scheme="http", host="w", path=(), follow_redirects=follow)
    known = {
        name.replace("_", "://"): Endpoint(scheme="http", address="127.0.0.1", port=1, **more)
        for name, more in endpoints.items()
    }
    tls = redirect_tls([Group(name="g", executor=ConstantVus(vus=1), request=request)], known)
    return tls and (tls.ca_pem, tls.verify)


@pytest.fixture(autouse=True)
def _system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svload.drive.share.cut.system_authorities", lambda: "SYSTEM")


def test_the_labs_authorities_and_the_systems_are_trusted() -> None:
    """A group that accepts any certificate does so after redirects; without these it needs no authority."""
    assert found(0, http_w={}) is None
    lab = {"ca_pem": "LAB"}
    assert found(1, http_w={}, https_w=lab, https_v=lab) == ("LABSYSTEM", True)
    assert found(1, http_w={"verify": False}, https_v={}) == (None, False)


def test_a_system_without_authorities_trusts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise fail("lab-failed", reason="none", hint="")

    monkeypatch.setattr("svload.drive.share.cut.system_authorities", none)
    assert found(1, http_w={}) is None
