"""The likely meaning of each error of a request, and what to do: the hint that summaries print beside its
name."""

from __future__ import annotations

from collections.abc import Mapping

_CLIENT_CERTIFICATE = "it may require a client certificate, which svload doesn't support"

HINTS: Mapping[str, str] = {
    "connect_refused": "nothing listens there, or its accept queue was full: check that the server runs, "
    "then check ListenOverflows",
    "connect_timeout": "no answer to SYN: a firewall, a wrong address, or a full accept queue",
    "connect_reset": "the server or something in front of it resets new connections: check its connection limit",
    "connect_unreachable": "no route to that address from here",
    "emfile": "the generator ran out of file descriptors: use fewer users, or raise the limit (ulimit -n)",
    "eaddrnotavail": "the generator ran out of local ports: keep connections alive, or reduce the load",
    "enobufs": "the kernel ran out of socket memory for the generator: reduce the load",
    "tls_handshake": "client and server could not agree on TLS: is this port HTTPS, and which versions does it support?",
    "tls_certificate": "the certificate is refused, or its chain is larger than 64 KiB, the most that svload reads: look "
    "at it with openssl s_client -showcerts",
    "tls_untrusted": "the certificate's CA is not trusted: name it with --cacert FILE, or use --insecure",
    "tls_expired": "the certificate has expired: renew it, or use --insecure",
    "tls_not_yet_valid": "the certificate is not valid yet: check both clocks, or use --insecure",
    "tls_wrong_name": "the certificate is for another name: use that name in the URL, or use --insecure",
    "tls_incompatible": "client and server have no TLS version or cipher in common",
    "tls_alert": f"the server ended the handshake: check its log; {_CLIENT_CERTIFICATE}",
    "tls_malformed": "the response is not TLS: is this port plain HTTP?",
    "tls_closed": f"the connection closed during the TLS handshake: is this port HTTPS? If so, {_CLIENT_CERTIFICATE}",
    "tls_timeout": "the TLS handshake was not complete within the timeout: is this port HTTPS? If so, the "
    "server is too slow for this many new connections",
    "write_reset": "the server closed the connection during the request: check its size and time limits",
    "read_reset": "the server closed the connection before the response was complete: check its log, and, "
    "if it never answers, whether this port is HTTPS",
    "stale_connection": "the server closed an idle connection just as it was used: its keep-alive timeout is short",
    "empty_answer": "the server closed without a response: is this port HTTP, not HTTPS? An HTTPS server may do this too: "
    f"{_CLIENT_CERTIFICATE}",
    "timeout_send": "the request could not be sent within the timeout: the server doesn't read it, or "
    "accepts no further stream",
    "timeout_first_byte": "no response within the timeout: the server is too slow for this load, or stalled",
    "timeout_head": "the response headers were not complete within the timeout",
    "timeout_body": "the response was not complete within the timeout",
    "malformed": "the response is not HTTP: does this port use another protocol (HTTPS?)",
    "malformed_header": "a response header is not valid HTTP",
    "malformed_length": "the response's Content-Length is invalid or repeated",
    "malformed_chunk": "a chunk or trailer of the response is not valid HTTP",
    "header_too_large": "the response headers are too large",
    "short_head": "the connection closed during the response headers: check the server's log",
    "short_body": "the connection closed before the whole body (Content-Length) arrived",
    "unexpected_data": "the server sent bytes that belong to no request",
    "status": "a complete response with a status outside 200–399",
    "check": "a complete response that failed a check",
    "capture": "the response lacked a value that a later step needs, or the value is not a URL or JSON value: "
    "check the step's take",
    "no_match": "the response was not what the dialogue expects: run the dialogue by hand and compare",
    "reply_error": "the server answered a command with an error: send it by hand and read the reply (redis-cli, telnet)",
    "no_row": "the set of written objects was empty: write more objects, or start with rows (from)",
    "http2_not_negotiated": "the server uses HTTP/1.1 there: leave --http2 out, or enable HTTP/2",
    "http2_goaway": "the server closes connections after a number of requests or a time: raise its limit (nginx: "
    "keepalive_requests)",
    "http2_refused_stream": "the server allows fewer concurrent streams: use fewer --streams, or raise its limit",
    "http2_reset_cancel": "the server cancelled the response: check its log",
    "http2_reset_protocol_error": "the server rejected the request as a protocol error: check its log",
    "http2_reset_internal_error": "the server failed while responding: check its log",
    "http2_reset_flow_control_error": "the server reports a flow control violation: check its log",
    "http2_reset_enhance_your_calm": "the server regards the load as abuse: check its limits",
    "http2_reset": "the server reset the stream: summary.json has the codes under http2.resets",
    "http2_protocol": "the server violates HTTP/2: is this port HTTP/2?",
    "http2_flow_control": "the server violates HTTP/2's flow control",
    "http2_frame_size": "the server sends frames of the wrong size: is this port HTTP/2?",
    "http2_compression": "the server's headers can't be decoded",
    "http2_flood": "the server sends endless frames that belong to no response",
    "http2_malformed": "the response violates HTTP/2: check the headers that the server, or something in front of "
    "it, adds",
    "tls_unfit": "no CA could make this a valid server certificate: create one with names and without CA "
    "(openssl req -x509 -addext subjectAltName=DNS:HOST -addext basicConstraints=CA:FALSE), or --insecure",
    "secret_redirect": "a redirect would send a secret, in the URL or the body, to another host",
    "bad_redirect": "an invalid redirect",
    "unauthorised_target": "a redirect to a host that is not authorised; no packet was sent there",
    "too_many_redirects": "more redirects than allowed: --follow-redirects N",
    "lookup": "the host's name could not be resolved",
    "other": "another error: see the trial's events",
}

_NOTHING_SENT = ("connect_", "tls_", "lookup", "http2_not_negotiated")


def nothing_sent(name: str) -> bool:
    """Return whether an error means that no request could be sent: there was no connection of the requested
    kind.

    If every request ends like this, no server was measured (exit 3). A server that accepts requests and
    completes no response failed (exit 1).
    """
    return name.startswith(_NOTHING_SENT)


_NO_ANSWER = (
    "empty_answer", "write_reset", "read_reset", "stale_connection", "timeout_send", "timeout_first_byte",
    "timeout_head", "short_head", "http2_goaway", "http2_refused_stream",
)  # fmt: skip


def no_answer(name: str) -> bool:
    """Return whether an error means that no complete head of an answer arrived."""
    return nothing_sent(name) or name in _NO_ANSWER or name.startswith("malformed")
