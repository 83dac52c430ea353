"""The metric catalogue and its grammar: `[group.|service.]metric[.stat] OP value unit`; goodput takes a
limit, `goodput(200 ms)`, and a threshold may name a level, `… at 50 users`.

Thresholds, expect, check, compare, abort_if, query and JSON all use these names. Values are in base units (s,
bytes, ratio, 1/s).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from svload.model.units import Dimension, parse_quantity, show_level, written_dimension
from svload.model.visible import marks_as_letters

Source = Literal["traffic", "service", "feeder"]
STATS = ("mean", "min", "max", "p50", "p75", "p90", "p95", "p99", "p99.9")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Metric:
    """One metric: its owner, unit, definition in words, and the default stat (None: a scalar).

    One that `has_limit` is written with a time: `goodput(200 ms)`.
    """

    name: str
    source: Source
    dimension: Dimension
    definition: str
    default_stat: str | None = None
    better: Literal["lower", "higher", "neither"] = "neither"
    has_limit: bool = False
    monitored: bool = False
    """Whether a service's monitors read it: then it is not in the catalogue (svload.model.monitored)."""


def _metrics(*metrics: Metric) -> dict[tuple[Source, str], Metric]:
    return {(metric.source, metric.name): metric for metric in metrics}


CATALOGUE: dict[tuple[Source, str], Metric] = _metrics(
    # what the load saw
    Metric("response", "traffic", "time_s", "done − due, of the requests due in the kept window; failures rank above every limit", "p50", "lower"),
    Metric("ok_response", "traffic", "time_s", "response of the ok requests only: the survivors", "p50", "lower"),
    Metric("service", "traffic", "time_s", "done − begun of the ok requests", "p50", "lower"),
    Metric("server_time", "traffic", "time_s", "first byte − written of the ok requests", "p50", "lower"),
    Metric("generator_lag", "traffic", "time_s", "begun − ready: the generator's own delay", "p99", "lower"),
    Metric("slot_wait", "traffic", "time_s", "ready − due: waiting for a free VU or connection", "p99", "lower"),
    Metric("throughput", "traffic", "rate_rps", "completions in the kept window per second", None, "higher"),
    Metric("ok_throughput", "traffic", "rate_rps", "ok completions in the kept window per second", None, "higher"),
    Metric("goodput", "traffic", "rate_rps", "ok requests with a response within the limit, `goodput(200 ms)`, of those due in the kept window, per second of it", None, "higher", has_limit=True),
    Metric("success_rate", "traffic", "ratio", "ok over due, of the requests due in the kept window", None, "higher"),
    Metric("error_rate", "traffic", "ratio", "1 − success_rate", None, "lower"),
    Metric("requests", "traffic", "count", "requests begun in the whole trial"),
    Metric("failed", "traffic", "count", "requests that failed, or were cut unanswered, in the whole trial", None, "lower"),
    Metric("dropped", "traffic", "count", "arrivals that a full pool dropped (on_full: drop) in the whole trial", None, "lower"),
    Metric("connections", "traffic", "count", "connections opened in the whole trial"),
    Metric("bytes_received", "traffic", "size_bytes", "bytes received on the wire in the whole trial, TLS excluded"),
    Metric("connect", "traffic", "time_s", "curl's time_connect: start until TCP is connected", "p50", "lower"),
    Metric("appconnect", "traffic", "time_s", "curl's time_appconnect: start until TLS is up; 0 without TLS", "p50", "lower"),
    Metric("starttransfer", "traffic", "time_s", "curl's time_starttransfer: start until the first byte", "p50", "lower"),
    Metric("lookup", "traffic", "time_s", "curl's time_namelookup: start until the name is resolved", "p50", "lower"),
    Metric("pretransfer", "traffic", "time_s", "curl's time_pretransfer: start until the request can be sent", "p50", "lower"),
    Metric("redirect", "traffic", "time_s", "curl's time_redirect: all hops before the last", "p50", "lower"),
    Metric("total", "traffic", "time_s", "curl's time_total: start until the last byte", "p50", "lower"),
    Metric("request_size", "traffic", "size_bytes", "curl's size_request", "p50"),
    Metric("header_size", "traffic", "size_bytes", "curl's size_header", "p50"),
    Metric("body_size", "traffic", "size_bytes", "curl's size_download", "p50"),
    Metric("longest_silence", "traffic", "time_s", "the longest stretch of the window without a completion, from the first request that was due; also a later one without load", None, "lower"),
    Metric("recovery", "traffic", "time_s", "time from a planned fault until success and the median are back at their previous level for good; with several, the longest", None, "lower"),
    Metric("fault_errors", "traffic", "count", "requests due while a planned fault lasted, that were not ok", None, "lower"),
    Metric("fault_error_rate", "traffic", "ratio", "their share of the requests due while a planned fault lasted", None, "lower"),
    # what the servers counted, over the whole trial
    Metric("requests", "service", "count", "requests the server counted"),
    Metric("hits", "service", "count", "requests the cache answered from itself"),
    Metric("misses", "service", "count", "requests the cache had to fetch"),
    Metric("hit_ratio", "service", "ratio", "hits over hits + misses"),
    Metric("connections", "service", "count", "connections the server accepted"),
    Metric("tls_handshakes", "service", "count", "full TLS handshakes the server counted"),
    Metric("tls_resumed", "service", "count", "resumed TLS sessions the server counted"),
    Metric("bytes_out", "service", "size_bytes", "bytes of answers the server counted, TLS excluded"),
    Metric("cpu", "service", "ratio", "CPU of the service's processes over wall time (1 = one core)", "mean"),
    Metric("memory", "service", "size_bytes", "resident memory of the service's processes", "max"),
    # what was really asked
    Metric("early_repeats", "feeder", "count", "rows that a VU requested again before it had gone through the whole table"),
    Metric("repeated_share", "feeder", "ratio", "early_repeats over the requests after each user's first"),
    Metric("distinct", "feeder", "count", "distinct rows requested in the trial"),
    Metric("busiest_share", "feeder", "ratio", "share of requests for the most requested row"),
)  # fmt: skip

OF_FAULTS = frozenset({"recovery", "fault_errors", "fault_error_rate"})
"""Metrics that only trials with planned faults have."""
_NAMES = frozenset(name for _, name in CATALOGUE)
_LIMITED = "|".join(metric.name for metric in CATALOGUE.values() if metric.has_limit)
_WITH_LIMIT = re.compile(rf"(?<![\w-])({_LIMITED})\(([^()]*)\)")
_CRITERION = re.compile(r"^\s*([^\W\d][\w\-.()]*(?:\([^()<>=!]*\))?)\s*(<=|>=|==|!=|<|>)\s*(.+?)\s*$")
_TIMING = frozenset(
    name for (_, name), metric in CATALOGUE.items() if metric.dimension in ("time_s", "rate_rps")
) | {"cpu"}
_K6 = {"http_req_duration": "response", "http_req_failed": "error_rate", "http_reqs": "throughput"}
_SHORT = {"errors": "error_rate", "success": "success_rate"}
"""Only for traffic: a service's monitors may use these names themselves."""
_MONITORED = re.compile(
    rf"((?:[a-z][a-z0-9_]*\.)??[a-z][a-z0-9_]*?)(?:\.({'|'.join(map(re.escape, sorted(STATS, key=len, reverse=True)))}))?"
)
_AT_LEVEL = re.compile(r"(.*\S)\s+at\s+(\S.*?)\s*", re.DOTALL)
_LEVEL = re.compile(r"(\d+(?:\.\d+)?)\s*(users?|VUs?|/s|rps)", re.IGNORECASE)
_OF_WHOLE_TRIAL = OF_FAULTS | {
    "requests",
    "failed",
    "dropped",
    "connections",
    "bytes_received",
    "longest_silence",
}
"""Metrics of traffic that only a whole trial has, not a part of it."""
_READ = "what its monitors read"
_K6_STAT = re.compile(r"^p\((\d+(?:\.\d+)?)\)$")


@dataclass(frozen=True)
class MetricRef:
    """`[owner.]metric[.stat]`. `owner` is a traffic group, a service or a feeder; empty: the study's main
    group.

    `limit_ns` is the limit of a metric that has one.
    """

    owner: str
    metric: Metric
    stat: str | None
    limit_ns: int | None = None

    @property
    def name(self) -> str:
        """Return the metric with its limit, without its owner."""
        return (
            self.metric.name if self.limit_ns is None else f"{self.metric.name}({_limit_text(self.limit_ns)})"
        )

    def __str__(self) -> str:
        return ".".join(part for part in (self.owner, self.name, self.stat) if part)


@dataclass(frozen=True)
class Criterion:
    """A metric, a comparison and a value in base units. `text` is what the user wrote.

    `level` is the label of a stage, for a load in stages; empty: all of the load.
    """

    ref: MetricRef
    op: str
    value: float
    text: str
    level: str = ""

    def holds(self, measured: float) -> bool:
        """Return whether `measured` (base units) satisfies it."""
        return _OPERATORS[self.op](measured, self.value)


def parse_metric(text: str, owners: dict[str, Source], dimension: Dimension = "count") -> MetricRef:
    """Return the metric that `text` names; `owners` maps the study's groups, services and feeders to their
    source.

    For a service any other plain name is a reading of its monitors, in the `dimension` of its value; whether
    one of them reads it must be checked where the monitors are known. Raises ValueError that states what was
    expected and names the nearest valid word.
    """
    limit = _WITH_LIMIT.search(text)
    if limit:
        text = text[: limit.end(1)] + text[limit.end() :]
    owner, rest = "", _K6.get(text, text)
    words = rest.split(".")
    for length in (2, 1):
        # A step is named by its group and its own name.
        head = ".".join(words[:length])
        if head in owners and len(words) > length:
            owner, rest = head, ".".join(words[length:])
            break
    source: Source = owners.get(owner, "traffic") if owner else "traffic"
    name, _, stat = rest.partition(".")
    name = _K6.get(name, name)
    if source == "traffic":
        name = _SHORT.get(name, name)
    metric = CATALOGUE.get((source, name))
    of_others = limit is not None or name in _NAMES
    if metric is None and source == "service" and not of_others and (found := _MONITORED.fullmatch(rest)):
        return MetricRef(owner, Metric(found[1], "service", dimension, _READ, monitored=True), found[2])
    if metric is None and source == "traffic" and name in STATS:
        meant = ".".join(filter(None, (owner, "response", name)))
        raise ValueError(f"“{name}” is a statistic of a metric; did you mean “{meant}”?")
    if metric is None:
        known = sorted(known_name for (known_source, known_name) in CATALOGUE if known_source == source)
        raise ValueError(
            f"“{name}” is not a metric of {_WHOSE[source]}{_nearest(name, known + sorted(owners))}"
        )
    limit_ns = _limit_ns(metric, limit[2] if limit else None)
    if matched := _K6_STAT.match(stat):
        stat = f"p{matched[1]}"
    if not stat:
        return MetricRef(owner, metric, metric.default_stat, limit_ns)
    if metric.default_stat is None:
        raise ValueError(f"{metric.name} is one number and has no “.{stat}”")
    if stat not in STATS:
        raise ValueError(f"“{stat}” is not a statistic{_nearest(stat, list(STATS))}")
    return MetricRef(owner, metric, stat)


def _limit_ns(metric: Metric, text: str | None) -> int | None:
    """Return the limit written with a metric. Raises ValueError if it is missing or not a time."""
    if not metric.has_limit:
        return None
    if text is None:
        raise ValueError(f"{metric.name} needs a limit, such as {metric.name}(200 ms)")
    limit_ns = round(parse_quantity(text, "time_s") * 1e9)
    if limit_ns <= 0:
        raise ValueError(f"the limit of {metric.name} is a time above 0, not “{text.strip()}”")
    return limit_ns


def _limit_text(limit_ns: int) -> str:
    """Return a limit in the largest unit that needs no decimal point, which would end a name: `200 ms`, `1500
    ms`, `2 s`."""
    units = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1))
    return next(f"{limit_ns // ns} {unit}" for unit, ns in units if limit_ns % ns == 0)


def canonical_limit(text: str) -> str:
    """Return a metric or criterion with its limit in canonical spelling: `users.goodput(0.2s)` →
    `users.goodput(200 ms)`."""

    def respelt(found: re.Match[str]) -> str:
        try:
            return f"{found[1]}({_limit_text(round(parse_quantity(found[2], 'time_s') * 1e9))})"
        except ValueError:
            return found[0]

    return _WITH_LIMIT.sub(respelt, text)


def canonical_metric(text: str, owners: dict[str, Source]) -> str:
    """Return a metric in the catalogue's words: `users.http_req_duration.p(95)` → `users.response.p95`; a stat
    that is left out stays so. Raises ValueError."""
    ref = parse_metric(text, owners)
    stat = ref.stat or ""
    written = text.rstrip().endswith((f".{stat}", f".p({stat[1:]})"))
    return ".".join(part for part in (ref.owner, ref.name, stat if written else "") if part)


def limit_of(name: str) -> int | None:
    """Return the limit in ns in a metric's name, as in `goodput(200 ms)`; None without one. Raises ValueError
    if it is not a time."""
    found = _WITH_LIMIT.search(name)
    return round(parse_quantity(found[2], "time_s") * 1e9) if found else None


def without_limit(name: str) -> str:
    """Return the catalogue's name: `goodput(200 ms)` → `goodput`."""
    return _WITH_LIMIT.sub(r"\1", name)


def metric_name(key: str) -> str:
    """Return the metric of a full name: `probe.response.p50` → `response`; the owner may be a step."""
    words = without_limit(key).split(".")
    return next((word for word in words[2:0:-1] if word in _NAMES), words[len(words) > 1])


def is_timing(key: str) -> bool:
    """Return whether a full name is of a time, a rate or CPU use, which disturbances of the machine can harm.
    They cannot harm counts, shares and sizes."""
    return metric_name(key) in _TIMING


_WHILE_LOADING = ("success_rate", "error_rate", "failed", "throughput", "ok_throughput")


def why_not_live(ref: MetricRef) -> str:
    """Return why `abort_if` can't use it while load is made; empty: it can."""
    if ref.metric.monitored:
        return ""
    if ref.metric.source == "traffic" and (
        (ref.metric.name == "response" and ref.stat in ("p50", "p95", "p99"))
        or ref.metric.name in _WHILE_LOADING
    ):
        return ""
    return (
        "abort_if is checked during the load: it can use what a service's monitors read (app.rss > 2 GiB) "
        f"and, of the load, response.p50, p95 and p99, {', '.join(_WHILE_LOADING)}"
    )


def parse_criterion(text: str, owners: dict[str, Source]) -> Criterion:
    """Parse `probe.response.p50 < 200 ms`, or `… at 50 users` for one level of a load in stages; raises
    ValueError that states what is wrong."""
    that, level = split_level(text)
    match = _CRITERION.match(marks_as_letters(that))
    if not match:
        equals = re.search(r"[^=!<>]=[^=]", that)
        raise ValueError("equality is ==" if equals else "it has no metric, comparison and value")
    ref = parse_metric(that[slice(*match.span(1))], owners, written_dimension(match[3]) or "count")
    if level and (why := why_not_by_level(ref)):
        raise ValueError(why)
    return Criterion(
        ref,
        match[2],
        parse_quantity(match[3], ref.metric.dimension),
        text,
        _level_label(level) if level else "",
    )


def split_level(text: str) -> tuple[str, str]:
    """Split a criterion from the level after `at`: `p95 < 200 ms at 50 users`; "" if it names none."""
    found = _AT_LEVEL.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")


def why_not_by_level(ref: MetricRef) -> str:
    """Return why the levels of a load in stages have no such number; empty: they have."""
    if ref.metric.source != "traffic":
        return "only the load's own numbers are known for each level, not what a server or a feeder counted"
    if ref.metric.name in _OF_WHOLE_TRIAL:
        return f"{ref.metric.name} covers the whole trial and is not known for each level"
    if "." in ref.owner:
        return "a step of a scenario has no numbers for each level, only its group has"
    return ""


def _level_label(text: str) -> str:
    """Return the label of a level's stage, `50 users` or `300/s`. Raises ValueError."""
    found = _LEVEL.fullmatch(text)
    if not found:
        raise ValueError(f"“{text}” is not a level: write 50 users, or 300/s")
    return show_level(float(found[1]), is_rate=found[2].lower() in ("/s", "rps"))


_WHOSE: dict[Source, str] = {"traffic": "traffic", "service": "a service", "feeder": "a feeder"}


def _nearest(word: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean “{near[0]}”?" if near else f" (known: {', '.join(known)})"
