"""A study's secrets: values from the environment at the start of the run, used only in requests."""

from __future__ import annotations

import contextlib
import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote, quote_plus

from svload.model.errors import SvloadError, fail
from svload.model.study import CaseConfig
from svload.model.summaries import GroupSummary


def secret_values(config: CaseConfig) -> dict[str, str]:
    """Return the name of each secret in requests → its value. Raise SvloadError secret-missing."""
    return {secret: _value(secret, variable) for secret, variable in config.secrets.items()}


def _value(secret: str, variable: str) -> str:
    value = os.environ.get(variable)
    named = os.environ.get(f"{variable}_FILE")
    if value is None and named is not None:
        try:
            value = Path(named).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as why:
            reason = why.strerror if isinstance(why, OSError) else "it is not UTF-8 text"
            raise _missing(secret, variable, f"{named} cannot be read: {reason}") from why
    if not value:
        raise _missing(secret, variable, f"{variable} is {'not set' if value is None else 'empty'}")
    if any(sign in value for sign in "\r\n\0"):
        raise _missing(secret, variable, "it is more than one line")
    return value


def _missing(secret: str, variable: str, reason: str) -> SvloadError:
    return fail("secret-missing", secret=secret, variable=variable, reason=reason)


def _without(body: str, secrets: Collection[str]) -> str:
    """Replace each secret, and each part of one, by “…”; return an empty text if it holds a secret in another
    form, or one cut off at the end."""
    parts = dict.fromkeys(part for value in secrets for part in (value, *_parts(value)))
    for part in sorted(parts, key=len, reverse=True):
        body = re.sub(re.escape(part), "…", body, flags=re.IGNORECASE)
        cut = any(body.endswith(part[:length]) for length in range(4, len(part)))
        if cut or _repeats(body, part):
            return ""
    return body


_SCHEMES = frozenset(("basic", "bearer", "digest", "negotiate", "ntlm", "hoba", "token", "apikey", "realm"))
"""Words in credentials that are not secret."""


def _parts(value: str) -> Iterator[str]:
    """Yield the parts of a secret that reveal it: its words, what follows `name=`, both sides of
    `user:password`, and those of parts that are text in base64 (`Basic …`)."""
    for word in re.split(r"[\s;,]+", value):
        named = word.partition("=")[2].strip('"=') or word
        for secret in (named, *_decoded(named)):
            yield from (
                one
                for one in (secret, *secret.split(":"))
                if len(one) >= 4 and one.casefold() not in _SCHEMES
            )


def _decoded(word: str) -> Iterator[str]:
    with contextlib.suppress(ValueError):
        text = b64decode(word + "=" * (-len(word) % 4), validate=True).decode("utf-8")
        if text.isprintable():
            yield text


def _repeats(body: str, value: str) -> bool:
    """Return whether a text contains a value in another case, with other characters between its letters, or
    in a common encoding: that of URLs, JSON or HTML, hex, or base64 at any offset of the encoded bytes."""
    if len(value) < 4:
        return False
    data = value.encode("utf-8")
    forms = [
        value,
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        json.dumps(value)[1:-1],
        escape(value),
        data.hex(),
    ]
    for before in range(
        3
    ):  # base64 writes three bytes as four letters; those that neighbours share are left out
        first, last = -(-before * 4 // 3), (before + len(data)) * 4 // 3
        forms.append(b64encode(b"\0" * before + data + b"\0\0").decode()[first:last])
    text = _letters(body)
    return any(len(one) > 3 and one in text for one in map(_letters, forms))


def _letters(text: str) -> str:
    """Return only the letters and digits, in lower case."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def without_secrets(group: GroupSummary, config: CaseConfig) -> GroupSummary:
    """Return the totals without a secret repeated by the first failing answer; without its body if requests
    carry values from other answers."""
    first = group.first_failure
    if first is None or not first.body:
        return group
    body = _without(first.body, secret_values(config).values())
    takes = config.set_up or any(request.take for one in config.groups for request in one.requests)
    return group.model_copy(
        update={"first_failure": first.model_copy(update={"body": "" if takes else body})}
    )
