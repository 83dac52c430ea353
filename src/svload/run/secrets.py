"""A study's secrets: values that come from the environment when the run begins, and reach requests alone."""

from __future__ import annotations

import os
from pathlib import Path

from svload.model.errors import SvloadError, fail
from svload.model.study import CaseConfig


def secret_values(config: CaseConfig) -> dict[str, str]:
    """What requests call each secret → its value. Raises SvloadError secret-missing."""
    return {secret: _value(secret, variable) for secret, variable in config.secrets.items()}


def _value(secret: str, variable: str) -> str:
    value = os.environ.get(variable)
    named = os.environ.get(f"{variable}_FILE")
    if value is None and named is not None:
        try:
            value = Path(named).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as why:
            reason = why.strerror if isinstance(why, OSError) else "it is no UTF-8 text"
            raise _missing(secret, variable, f"{named} cannot be read: {reason}") from why
    if not value:
        raise _missing(secret, variable, f"{variable} is {'not set' if value is None else 'empty'}")
    if any(sign in value for sign in "\r\n\0"):
        raise _missing(secret, variable, "it is more than one line")
    return value


def _missing(secret: str, variable: str, reason: str) -> SvloadError:
    return fail("secret-missing", secret=secret, variable=variable, reason=reason)
