"""Certificates in the state folder, one file per place (and settings), found only where they are valid."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
from functools import cache
from pathlib import Path
from typing import TypeVar

from svload.host.machine.facts import processor
from svload.model.certificates import AaCertificate, Certificates, InstrumentCertificate, Place
from svload.model.environment import state_dir
from svload.model.errors import SvloadError
from svload.model.private import write_private

Kind = TypeVar("Kind", InstrumentCertificate, AaCertificate)


def place() -> Place:
    """Return the place: the processor and a digest of the host's name (packs contain no names), the kernel,
    and the native engine's digest."""
    name = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
    return Place(host=f"{processor()} #{name}", kernel=platform.release(), engine=_engine_digest())


def held(settings: str, state: Path | None = None) -> Certificates:
    """Return the certificates valid here now; `settings` is the study's digest (`settings_digest`)."""
    return Certificates(instrument=instrument(state), aa=aa(settings, state))


def instrument(state: Path | None = None) -> InstrumentCertificate | None:
    """Return the instrument's certificate for this place."""
    return _held(InstrumentCertificate, "instrument", "", state)


def aa(settings: str, state: Path | None = None) -> AaCertificate | None:
    """Return the A/A certificate for this place and these settings."""
    found = _held(AaCertificate, "aa", settings, state)
    return found if found is not None and found.settings == settings else None


def keep(certificate: InstrumentCertificate | AaCertificate, state: Path | None = None) -> Path:
    """Write it atomically, replacing an older one of the same place; return its path. Raises OSError."""
    kind, settings = (
        ("aa", certificate.settings) if isinstance(certificate, AaCertificate) else ("instrument", "")
    )
    path = _path(kind, certificate.place, settings, state)
    write_private(path, certificate.to_json())
    return path


def _held(kind: type[Kind], name: str, settings: str, state: Path | None) -> Kind | None:
    if not any(
        _folder(state).glob(f"{name}-*.json")
    ):  # determining the place requires reading the whole engine (30 ms)
        return None
    here = place()
    found = _read(kind, _path(name, here, settings, state))
    return found if found is not None and found.place == here else None


def _folder(state: Path | None) -> Path:
    return (state or state_dir()) / "certificates"


def _path(kind: str, where: Place, settings: str, state: Path | None) -> Path:
    key = hashlib.sha256(f"{where.model_dump_json()} {settings}".encode()).hexdigest()[:16]
    return _folder(state) / f"{kind}-{key}.json"


def _read(kind: type[Kind], path: Path) -> Kind | None:
    try:
        return kind.read(path)
    except (OSError, SvloadError):
        return None


@cache
def _engine_digest() -> str:
    found = importlib.util.find_spec("svload._native")
    if found is None or found.origin is None:
        return "none"
    with open(found.origin, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
