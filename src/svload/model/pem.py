"""Certificates as text."""

from __future__ import annotations


def holds_certificate(pem: str) -> bool:
    """Whether a PEM text holds a certificate that can be verified against."""
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        return False
    return True
