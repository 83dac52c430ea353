"""The page with a service's metrics in Prometheus' text format, as studies write and monitors get it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from svload.model.facts import ServiceFacts

_PATH = re.compile(r"/[!-~]*")
_HOSTS = ("127.0.0.1", "localhost", "::1")


def metrics_page(written: str) -> str:
    """Return the text if it is a path or a plain URL on this machine. Raises ValueError."""
    if _PATH.fullmatch(written):
        return written
    parts = urlsplit(written)
    if (
        parts.scheme != "http"
        or parts.hostname not in _HOSTS
        or parts.username
        or not _PATH.fullmatch(parts.path or "/")
    ):
        raise ValueError(
            "write a path such as /metrics, or a URL of this machine such as http://127.0.0.1:9113/metrics"
        )
    if not parts.port:
        raise ValueError("expected the port of the exporter")
    return written


def with_metrics_page(facts: ServiceFacts, written: str | None) -> ServiceFacts:
    """Return the facts with the page's address; unchanged if the study names no page, or only a path and the
    service has no plain HTTP.
    """
    if written is None:
        return facts
    url = written
    if written.startswith("/"):
        plain = next((end for end in facts.endpoints if end.scheme == "http" and end.port), None)
        if plain is None:
            return facts
        url = f"http://{plain.connects_to}{written}"
    return facts.model_copy(update={"admin": {**facts.admin, "prometheus": {"url": url}}})
