"""The ten-line study that `svload init` writes for a URL or a command. Pure."""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

from svload.model.errors import fail

_TEXT = """\
name: {name}
question: How fast does it answer 16 users?
lab:
  server: {server}
traffic:
  users: {{executor: constant-vus, vus: 16, think_time: 0.1s, request: {request}}}
measure: {{duration: 10s, replicates: 6}}
thresholds: ["response.p95 < 200 ms", "success_rate >= 99.9 %"]
{note}# Next: factors: {{vus: [1, 4, 16, 64]}} and vus: "${{vus}}" above make a sweep of four cases.
"""

# Names that mean something else, and what YAML does not read as a text.
_NO_NAMES = {"localhost", "true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def init_study(target: str, note: str = "") -> str:
    """Return the text of a study of `target`: an http(s) URL of a running server, or a command with `{port}`;
    `note` becomes a comment.

    Raises SvloadError: url-bad for another scheme or no host, usage for an empty target.
    """
    target = target.strip()
    if not target:
        raise fail("usage", reason="Expected a URL or a command", hint="Write http://127.0.0.1:8080, or \"./server --port {port}\".")  # fmt: skip
    if (url := url_of(target)) is not None:
        return _for_url(url, url.partition("://")[0].lower(), note)
    command = with_port(target)
    program = command.split()[0].rpartition("/")[2]
    server = f"{{run: {_quoted(command)}}}"
    return _TEXT.format(name=_name(program), server=server, request="GET http://server/", note=_comment(note))


def with_port(command: str) -> str:
    """Return `command` with its `{port}` written as in a study, `${port}`."""
    return re.sub(r"(?<!\$)\{port\}", "${port}", command)


def url_of(target: str) -> str | None:
    """Return `target` as a URL with a scheme; None: it is a command."""
    target = target.strip()
    if re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", target):
        return target
    if re.fullmatch(r"(localhost|\[[0-9A-Fa-f:.]+\]|[\w-]+(\.[\w-]+)+):[0-9]+(/\S*)?", target):
        return f"http://{target}"
    return None


def _comment(note: str) -> str:
    return f"# {''.join(sign if sign.isprintable() else ' ' for sign in note)}\n" if note else ""


def path_of(url: str) -> str:
    """Return the part of a URL that a request sends to its server."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _for_url(url: str, scheme: str, note: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as why:
        raise fail("url-bad", url=url, reason=str(why)) from why
    if scheme not in ("http", "https"):
        raise fail("url-bad", url=url, reason="its scheme is neither http nor https")
    if not host or parts.username is not None:
        raise fail(
            "url-bad", url=url, reason="it names no host" if not host else "a user does not belong there"
        )
    path = path_of(url)
    server = f"{{at: {_quoted(f'{scheme}://{parts.netloc}')}}}"
    request = f"GET {scheme}://server{path.replace('${', '$${')}"
    return _TEXT.format(name=_name(host), server=server, request=_quoted(request), note=_comment(note))


def _name(text: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
    named = words[:1].isalpha() and words.lower() not in _NO_NAMES
    return words if named else "my-server"


def _quoted(text: str) -> str:
    """Return a YAML double-quoted scalar (JSON texts are valid; YAML accepts fewer characters unescaped)."""
    written = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in written)
