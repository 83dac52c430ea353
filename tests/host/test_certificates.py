"""Certificates are reused only where they are valid: for the same host, kernel, engine and settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evolve import evolve

from svload.host.machine import kept_certificates
from svload.model import certificates
from svload.model.certificates import AaCertificate, Certificates, InstrumentLevel, Place

PLACE = Place(host="a", kernel="b", engine="c")
OF_STUDY = {"study": "x", "cases": ("TC0",), "pairs": 20, "restarts": False, "floors": ()}
AA = AaCertificate(place=PLACE, settings="s", made_wall=1.76e9, **OF_STUDY)
TRUTH = {"truth_p50_ns": 1_001_000, "truth_p99_ns": 1_020_000}
SEEN = {"seen_p50_ns": 1_031_000, "seen_p99_ns": 1_090_000}
LEVEL = InstrumentLevel(service_ns=10**6, n=600, **TRUTH, **SEEN)
INSTRUMENT = certificates.InstrumentCertificate(place=PLACE, made_wall=1.76e9, levels=(LEVEL,))


def test_both_are_found_only_where_they_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_certificates, "place", lambda: PLACE)
    assert kept_certificates.held("s", tmp_path) == Certificates()
    kept_certificates.keep(AA, tmp_path)
    path = kept_certificates.keep(INSTRUMENT, tmp_path)
    assert kept_certificates.held("s", tmp_path) == Certificates(instrument=INSTRUMENT, aa=AA)
    assert kept_certificates.held("other settings", tmp_path) == Certificates(instrument=INSTRUMENT)
    for change in ("host", "kernel", "engine"):
        elsewhere = evolve(PLACE, **{change: "else"})
        monkeypatch.setattr(kept_certificates, "place", lambda elsewhere=elsewhere: elsewhere)
        assert kept_certificates.held("s", tmp_path) == Certificates()
    path.write_text("{")
    assert kept_certificates.instrument(tmp_path) is None


def test_this_place_is_named_without_the_hosts_name(monkeypatch: pytest.MonkeyPatch) -> None:
    here = kept_certificates.place()
    assert here == kept_certificates.place()
    assert len(here.engine) == 64
    monkeypatch.setattr("platform.node", lambda: "secret-name")
    there = kept_certificates.place()
    assert there.host != here.host
    assert "secret-name" not in there.host
