"""Values of options: durations, paths to write to, certificates."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from svload.model.errors import fail
from svload.model.pem import holds_certificate

MOST_S = 30 * 86400.0
"""Longest lease: after a month nobody remembers what is kept."""


def seconds(text: str, option: str) -> float:
    """Return `text`, how long something is kept, in seconds. Raises SvloadError usage, which names the
    option."""
    from svload.model.units import parse_quantity

    hint = "Write it like 10min or 2h."
    try:
        lasts_s = parse_quantity(text, "time_s")
    except ValueError as why:
        raise fail("usage", reason=f"{option} {text}: {why}", hint=hint) from why
    if not 0 < lasts_s <= MOST_S:
        raise fail("usage", reason=f"{option} {text} is not between 0 and 30 days", hint=hint)
    return lasts_s


def is_url(target: str) -> bool:
    """Return whether `target` is a URL, which has a scheme. Raises SvloadError usage for an address without
    one, such as 127.0.0.1:8080, unless a file or folder has that name."""
    from svload.study import url_of

    url = url_of(target)
    if url in (None, target.strip()):
        return url is not None
    if Path(target).exists():
        return False
    raise fail("usage", reason=f"{target} is not a URL without its scheme", hint=f"Write {url}.")


@contextmanager
def writing(to: Path) -> Iterator[None]:
    """Turn a failure to write to `to` into one sentence: it is the user's mistake, or their full disk. Raises
    SvloadError usage; an OSError that names a file elsewhere stays unchanged."""
    try:
        yield
    except OSError as why:
        if not _lies_in(why.filename, to):
            raise
        reason = f"{to} cannot be written: {why.strerror or why}"
        raise fail("usage", reason=reason, hint="Use another path, or free space.") from why


def _lies_in(name: object, to: Path) -> bool:
    """Return whether an error is about `to`: a file within it, a missing folder above it, a temporary file
    beside it, or no file."""
    if not isinstance(name, str | bytes | os.PathLike):
        return True
    path, place = Path(os.fsdecode(name)).absolute(), to.absolute()
    return path.is_relative_to(place) or place.is_relative_to(path) or path.name.startswith(f".{place.name}.")


def authority(pem: str, file: Path) -> str:
    """Return `pem`, the text of --cacert `file`. Raises SvloadError usage if it holds no certificate."""
    if not holds_certificate(pem):
        raise fail("usage", reason=f"--cacert {file} holds no certificate", hint="It is a PEM file.")
    return pem
