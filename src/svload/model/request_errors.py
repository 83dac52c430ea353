"""What each error of a request most likely means, and what to do: the hint that summaries print beside its name."""

from __future__ import annotations

from collections.abc import Mapping

HINTS: Mapping[str, str] = {
    "connect_refused": "nothing listens there, or its accept queue was full: look whether the server runs, then at ListenOverflows",
    "connect_timeout": "no answer to SYN: a firewall, a wrong address, or an accept queue that is full",
    "connect_reset": "the server or something before it resets new connections: look at its limit of connections",
    "connect_unreachable": "there is no route to that address from here",
    "emfile": "the generator has no descriptor left: fewer users, or a higher limit (ulimit -n)",
    "eaddrnotavail": "the generator has no local port left: keep connections alive, or ask for less",
    "enobufs": "the kernel has no socket memory left for the generator: ask for less",
    "tls_handshake": "the two could not agree on TLS: is this port HTTPS, and which versions does it speak?",
    "tls_certificate": "the certificate is not trusted, expired or of another name: --cacert FILE names its authority, --insecure takes any",
    "tls_timeout": "the TLS handshake took longer than the time-out",
    "write_reset": "the server closed while the request was being written: look at its limits of size and time",
    "read_reset": "the server closed before its answer was complete: look at its log",
    "stale_connection": "an idle connection was closed by the server just as it was used: its keep-alive time-out is short",
    "timeout_first_byte": "no answer within the time-out: the server is too slow for this load, or stalled",
    "timeout_body": "the answer began and did not end within the time-out",
    "malformed": "what came back is not HTTP: is this port another protocol (HTTPS?)",
    "header_too_large": "the answer's header is larger than any sane one",
    "short_body": "the connection ended before the answer's stated length",
    "unexpected_data": "bytes came that no request had asked for",
    "status": "a complete answer with a status outside 200–399: see the statuses",
    "check": "a complete answer that failed a check",
    "unauthorised_target": "a redirect led to a host that was not authorised; no packet was sent there",
    "too_many_redirects": "more redirects than are followed: --follow-redirects N",
    "lookup": "the host's name could not be resolved",
    "other": "an error without a name of its own: see the trial's events",
}  # fmt: skip

NEVER_ANSWERED = (
    "connect_refused",
    "connect_timeout",
    "connect_unreachable",
    "tls_handshake",
    "tls_certificate",
    "tls_timeout",
    "malformed",
    "lookup",
)
"""Where every request ends so, there is no server of the asked kind there, and nothing to measure."""
