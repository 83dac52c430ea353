"""How a request can fail: the engine's stable error names in code order, what each means, and which of them
leave the outcome in doubt."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "connect_refused": "nobody listens at the address",
    "connect_timeout": "the timeout passed before TCP was connected",
    "connect_reset": "reset while TCP was set up",
    "connect_unreachable": "no route to the address, or access is prohibited",
    "emfile": "the generator's machine has no descriptor left",
    "eaddrnotavail": "the generator's machine has no local port left",
    "enobufs": "the generator's machine has no socket memory left",
    "tls_handshake": "the TLS handshake failed for a reason that is not listed here",
    "tls_certificate": "the certificate is refused for a reason without a name of its own, or a message of "
    "the handshake (its chain) is larger than 64 KiB",
    "tls_timeout": "the timeout passed in the TLS handshake",
    "write_reset": "reset while the request was written",
    "read_reset": "reset while the answer was awaited or read",
    "stale_connection": "a reused connection ended before any byte of the answer: it had been closed while idle",
    "timeout_first_byte": "the timeout passed after the request was sent and before any byte of the answer",
    "timeout_body": "the timeout passed in the answer's body",
    "malformed": "what came is not an HTTP/1 response (no status line, or a status that makes no sense), or no "
    "reply of the protocol that was spoken",
    "header_too_large": "the answer's heads, or its trailers, are larger than 64 KiB or 2,048 fields",
    "short_body": "the stream ended in the body",
    "unexpected_data": "unsolicited bytes came with the answer, or before the request",
    "status": "a complete answer with a status that was not expected",
    "check": "a complete answer that failed a check",
    "unauthorised_target": "the address is not authorised; no packet was sent",
    "too_many_redirects": "more redirects than are followed",
    "lookup": "the name was not found",
    "other": "any other failure",
    "timeout_send": "the timeout passed before the whole request was sent",
    "timeout_head": "the timeout passed in the answer's head, or after interim answers",
    "malformed_header": "a header line that breaks the grammar",
    "malformed_length": "a Content-Length that is not a number, or two that differ",
    "malformed_chunk": "a chunk or a trailer that breaks the grammar",
    "short_head": "the stream ended in the answer's head",
    "empty_answer": "a new connection ended before any byte of the answer",
    "bad_redirect": "a redirect without a Location, or with one that makes no sense",
    "tls_expired": "the certificate has expired",
    "tls_not_yet_valid": "the certificate is not valid yet",
    "tls_wrong_name": "the certificate is for another name",
    "tls_untrusted": "the certificate is signed by itself or by an authority that is not trusted",
    "tls_incompatible": "no TLS version or cipher in common",
    "tls_alert": "the server ended TLS with an alert",
    "tls_malformed": "the received data is not TLS, or was altered",
    "tls_closed": "the connection ended in the TLS handshake",
    "capture": "a complete answer that lacks what was to be taken from it, or a taken value that cannot stand "
    "where the request puts it",
    "no_match": "what a dialogue waited for was not in the 64 KiB that came",
    "http2_not_negotiated": "the server speaks HTTP/1.1, but HTTP/2 was requested",
    "http2_goaway": "the server closed the connection (GOAWAY) without accepting the request",
    "http2_refused_stream": "the server refused the request unprocessed (RST_STREAM, REFUSED_STREAM)",
    "http2_reset_cancel": "the server cancelled the answer (RST_STREAM, CANCEL)",
    "http2_reset_protocol_error": "the server aborted the answer (RST_STREAM, PROTOCOL_ERROR)",
    "http2_reset_internal_error": "the server aborted the answer (RST_STREAM, INTERNAL_ERROR)",
    "http2_reset_flow_control_error": "the server aborted the answer (RST_STREAM, FLOW_CONTROL_ERROR)",
    "http2_reset_enhance_your_calm": "the server aborted the answer (RST_STREAM, ENHANCE_YOUR_CALM)",
    "http2_reset": "the server aborted the answer (RST_STREAM with any other code; the summary counts them "
    "by name)",
    "http2_protocol": "the server broke a rule of HTTP/2",
    "http2_flow_control": "the server sent more than a window, or opened one beyond its limit",
    "http2_frame_size": "a frame that is too large, or of a wrong length",
    "http2_compression": "header fields that can't be read",
    "http2_flood": "endless frames that belong to no answer",
    "http2_malformed": "an answer that breaks HTTP/2's rules: forbidden header fields, no status, a "
    "body before its head",
    "tls_unfit": "the certificate could be a server's under no authority: it has no names, is of X.509 "
    "version 1, or an authority's own",
    "reply_error": "a complete reply that reports an error (Redis: it begins with -; memcached: ERROR, "
    "CLIENT_ERROR "
    "or SERVER_ERROR)",
    "no_row": "there was no written object to request; nothing was sent",
    "secret_redirect": "a redirect to another host would have carried a secret there; it was not followed",
}
"""Error name → what happened, in the engine's code order (1, 2, …)."""

ERRORS: tuple[str, ...] = ("", *MEANINGS)
"""Error code → name; a conformance test checks that it equals the engine's `error_names()`."""

GENERATOR_LIMITS = ("emfile", "eaddrnotavail", "enobufs")
"""Limits of the generator's own machine."""

BEFORE_TLS = (
    *(name for name in MEANINGS if name.startswith("tls_")),
    "connect_refused",
    "connect_timeout",
    "connect_reset",
)
"""Errors on connections that never had a TLS session, or may have lost it."""

IN_DOUBT = (
    "write_reset",
    "read_reset",
    "stale_connection",
    "timeout_send",
    "timeout_first_byte",
    "timeout_head",
    "timeout_body",
    "malformed",
    "malformed_header",
    "malformed_length",
    "malformed_chunk",
    "header_too_large",
    "short_head",
    "short_body",
    "empty_answer",
    "unexpected_data",
    "no_match",
    *(name for name in MEANINGS if name.startswith("http2_") and name != "http2_not_negotiated"),
)
"""Errors after which a server may or may not have counted a request, or counted bytes that never arrived."""
