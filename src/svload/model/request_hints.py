"""What each error of a request most likely means, and what to do: the hint that summaries print beside its name."""

from __future__ import annotations

from collections.abc import Mapping

_CLIENT_CERTIFICATE = "it may want a client certificate, and svload has none"

HINTS: Mapping[str, str] = {
    "connect_refused": "nothing listens there, or its accept queue was full: look whether the server runs, "
    "then at ListenOverflows",
    "connect_timeout": "no answer to SYN: a firewall, a wrong address, or an accept queue that is full",
    "connect_reset": "the server or something before it resets new connections: look at its limit of connections",
    "connect_unreachable": "there is no route to that address from here",
    "emfile": "the generator has no descriptor left: fewer users, or a higher limit (ulimit -n)",
    "eaddrnotavail": "the generator has no local port left: keep connections alive, or ask for less",
    "enobufs": "the kernel has no socket memory left for the generator: ask for less",
    "tls_handshake": "the two could not agree on TLS: is this port HTTPS, and which versions does it speak?",
    "tls_certificate": "the certificate is not trusted, expired or of another name: --cacert FILE names its "
    "authority, --insecure takes any",
    "tls_untrusted": "the certificate's authority is not trusted: --cacert FILE names it, --insecure takes any",
    "tls_expired": "the certificate has expired: renew it, or --insecure",
    "tls_not_yet_valid": "the certificate is not valid yet: look at both clocks, or --insecure",
    "tls_wrong_name": "the certificate is of another name: ask for the server by its own, or --insecure",
    "tls_incompatible": "the two have no TLS version or cipher in common",
    "tls_alert": f"the server ended the handshake: its log says why; {_CLIENT_CERTIFICATE}",
    "tls_malformed": "what came back is no TLS: is this port plain HTTP?",
    "tls_closed": f"the connection ended in the TLS handshake: is this port HTTPS? If it is, {_CLIENT_CERTIFICATE}",
    "tls_timeout": "the TLS handshake took longer than the time-out",
    "write_reset": "the server closed while the request was being written: look at its limits of size and time",
    "read_reset": "the server closed before its answer was complete: look at its log",
    "stale_connection": "an idle connection was closed by the server just as it was used: its keep-alive "
    "time-out is short",
    "empty_answer": "the server closed without a word: is this port HTTP, and not HTTPS? An HTTPS server closes so, too: "
    f"{_CLIENT_CERTIFICATE}",
    "timeout_send": "the request could not be sent within the time-out: the server does not read",
    "timeout_first_byte": "no answer within the time-out: the server is too slow for this load, or stalled",
    "timeout_head": "the answer's head did not end within the time-out",
    "timeout_body": "the answer began and did not end within the time-out",
    "malformed": "what came back is not the protocol that was spoken: is this port another one (HTTPS?)",
    "malformed_header": "a header of the answer breaks HTTP's grammar",
    "malformed_length": "the answer's Content-Length is none, or there are two",
    "malformed_chunk": "a chunk or a trailer of the answer breaks HTTP's grammar",
    "header_too_large": "the answer's header is larger than any sane one",
    "short_head": "the connection ended in the answer's head: look at the server's log",
    "short_body": "the connection ended before the answer's stated length",
    "unexpected_data": "bytes came that no request had asked for",
    "status": "a complete answer with a status outside 200–399: see the statuses",
    "check": "a complete answer that failed a check",
    "capture": "a complete answer lacked what a later step needs, or what it took is no URL or JSON value: "
    "look at the step's take",
    "no_match": "what the dialogue expects did not come: hold it by hand once and compare",
    "reply_error": "a command was answered by an error: send it by hand once and read the reply (redis-cli, telnet)",
    "no_row": "the set of written objects was empty: let more be written, or begin with rows (from)",
    "http2_not_negotiated": "the server speaks HTTP/1.1 there: leave --http2 out, or switch HTTP/2 on",
    "http2_goaway": "the server ends connections after so many requests or so long: raise its limit (nginx: "
    "keepalive_requests)",
    "http2_refused_stream": "the server takes fewer streams at once: fewer --streams, or raise its limit",
    "http2_reset_cancel": "the server gave the answer up: look at its log",
    "http2_reset_protocol_error": "the server did not like the request: look at its log",
    "http2_reset_internal_error": "the server failed while it answered: look at its log",
    "http2_reset_flow_control_error": "the server says that a window was overrun: look at its log",
    "http2_reset_enhance_your_calm": "the server thinks that it is flooded: look at its limits against abuse",
    "http2_reset": "the server gave the answer up: summary.json has its codes under http2.resets",
    "http2_protocol": "the server breaks HTTP/2: is this port HTTP/2?",
    "http2_flow_control": "the server breaks HTTP/2's flow control",
    "http2_frame_size": "the server sends frames of a wrong size: is this port HTTP/2?",
    "http2_compression": "the server's header fields can't be read",
    "http2_flood": "the server sends frames without end that answer nothing",
    "http2_malformed": "the server's answer breaks HTTP/2's rules: look at the header fields that it, or "
    "something before it, adds",
    "tls_unfit": "no authority could make this certificate a server's: make one with names and no CA "
    "(openssl req -x509 -addext subjectAltName=DNS:HOST -addext basicConstraints=CA:FALSE), or --insecure",
    "secret_redirect": "a redirect leads to another host with a secret in its address, or in the body that goes with it",
    "bad_redirect": "a redirect that leads nowhere",
    "unauthorised_target": "a redirect led to a host that was not authorised; no packet was sent there",
    "too_many_redirects": "more redirects than are followed: --follow-redirects N",
    "lookup": "the host's name could not be resolved",
    "other": "an error without a name of its own: see the trial's events",
}

_NO_SERVER = ("connect_", "tls_", "empty_answer", "lookup", "http2_not_negotiated")


def no_server(name: str) -> bool:
    """Whether an error means that no server of the asked kind answered. Where every request ends
    so, there is nothing to measure."""
    return name.startswith(_NO_SERVER)


_NO_ANSWER = (
    "write_reset", "read_reset", "stale_connection", "timeout_send", "timeout_first_byte", "timeout_head", "short_head",
    "http2_goaway", "http2_refused_stream",
)  # fmt: skip


def no_answer(name: str) -> bool:
    """Whether an error means that no whole head of an answer came."""
    return no_server(name) or name in _NO_ANSWER or name.startswith("malformed")
