"""Any server or exporter with Prometheus' text format at the URL in a service's `metrics`."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from svload.model.declared import Limit
from svload.watch.http import AdminConnection
from svload.watch.monitor import ConnectedMonitor, Reading

MOST_SERIES = 300
"""Further series are left out, in the order of the page, and counted."""
_MOST_LETTERS = 120
"""Longer labels are cut, and end in a checksum that keeps the series apart."""
_LONGEST_LINE = 10_000
"""Characters of a series with its labels, which a regular expression finds; longer ones are left out."""
_LINE = re.compile(
    r"\s*([A-Za-z_:][A-Za-z0-9_:]*)"
    r'(?:\s*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s+(\S+)(?:\s+-?[\d.]+(?:[eE][+-]?\d+)?)?\s*(?:# .*)?"
)
"""A sample; in OpenMetrics, its time may be a fraction or have an exponent, and an exemplar may follow."""
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_PARTS = ("_bucket", "_sum", "_count", "_created")


class PrometheusMonitor(ConnectedMonitor):
    """GET of admin["prometheus"]["url"], of services with `metrics` or whose kit names such a page. The
    entity is the series' labels; buckets and quantiles are left out."""

    name = "prometheus"
    summary = "what a server or its exporter reports in Prometheus' text format"
    metrics: ClassVar[Mapping[str, str]] = {
        "series_left_out": f"number of series beyond {MOST_SERIES}, which are not read",
        "process_open_fds": "number of open descriptors, as its client library reports; further series have "
        "the page's own names, a counter's ending in _total and a gauge's without it",
        "process_max_fds": "number of descriptors that it may have, as its client library reports",
    }
    limits = (
        Limit("descriptors, as it reports", "descriptors", "process_open_fds", "process_max_fds", brief=True),
    )
    interval_s = 1.0
    cpu_share = 0.005
    attaches = ("prometheus", "url")
    example = {"prometheus": {"url": "http://127.0.0.1:9/metrics"}}

    def connect(self) -> AdminConnection:
        return AdminConnection(str(self.where["url"]))

    def ask(self, line: AdminConnection) -> str:
        return line.get().decode("utf-8", "replace")

    def parsed(self, answer: str) -> list[Reading]:
        return parse_page(answer)


class Sample(NamedTuple):
    """A line of the page: the unchanged name, its labels as one text, its value."""

    name: str
    labels: str
    value: float


def parse_page(text: str) -> list[Reading]:
    """Return the page as readings. Raise OSError if no line is a sample."""
    kinds: dict[str, str] = {}
    readings: list[Reading] = []
    left_out = 0
    for line in text.split("\n"):  # a label may hold other line separators
        if line.startswith("# TYPE "):
            _, _, name, kind = [*line.split(None, 3), "", ""][:4]
            kinds[name] = kind.strip()
        elif len(line) > _LONGEST_LINE:
            left_out += 1
        elif line and not line.startswith("#") and (found := _sample(line)) is not None:
            for reading in _readings(found, kinds):
                if len(readings) < MOST_SERIES:
                    readings.append(reading)
                else:
                    left_out += 1
    if not readings:
        raise OSError("this is not a page in Prometheus' text format")
    return [*readings, Reading("", "series_left_out", left_out)]


def _sample(line: str) -> Sample | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    try:
        value = float(match[3])
    except ValueError:
        return None
    labels = " ".join(f"{name}={value}" for name, value in sorted(_LABEL.findall(match[2] or "")))
    if len(labels) > _MOST_LETTERS:
        labels = f"{labels[:_MOST_LETTERS]}…{zlib.crc32(labels.encode()):08x}"
    return Sample(match[1], labels, value) if math.isfinite(value) else None


def _readings(one: Sample, kinds: Mapping[str, str]) -> Iterator[Reading]:
    """Yield readings: a counter's name ends in `_total`; the count and sum of a histogram or summary are
    counters, the rest of it is left out."""
    whole = next((one.name.removesuffix(part) for part in _PARTS if one.name.endswith(part)), one.name)
    kind = kinds.get(one.name) or kinds.get(whole) or kinds.get(one.name.removesuffix("_total")) or "untyped"
    name = one.name.lower().replace(":", "_")
    if kind in ("histogram", "summary"):
        if one.name.endswith(("_sum", "_count")):
            yield Reading(one.labels, f"{name}_total", one.value)
    elif one.name.endswith("_created"):
        return
    elif kind == "counter" and not name.endswith("_total"):
        yield Reading(one.labels, f"{name}_total", one.value)
    else:
        yield Reading(one.labels, name.removesuffix("_total") if kind == "gauge" else name, one.value)
