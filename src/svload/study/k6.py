"""Thresholds in k6's notation, converted to a study's: `p(99)<200ms` is `response.p99 < 200 ms`. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from svload.model.errors import fail
from svload.model.metrics import STATS, parse_criterion, split_level
from svload.model.units import Dimension, show_percent

_EXPRESSION = re.compile(r"\s*(?:(?P<of>[A-Za-z_]\w*)\s*(?P<tags>\{[^{}]*\})?\s*:)?\s*(?P<what>\w+\([^()]*\)|[^<>=!\s]+)\s*(?P<op><=|>=|===|==|!=|<|>)\s*(?P<value>\S.*?)\s*")  # fmt: skip
_PERCENTILE = re.compile(r"p\(?(\d+(?:\.\d+)?)\)?")
_BARE = re.compile(r"\d+(?:\.\d+)?")
_TIMES = {"avg": "mean", "mean": "mean", "max": "max", "min": "min", "med": "p50", "median": "p50"}
_OK_ONLY = "{expected_response:true}"
_SCALARS: dict[str, tuple[str, Dimension]] = {
    "rate": ("throughput", "rate_rps"),
    "errors": ("error_rate", "ratio"),
    "success": ("success_rate", "ratio"),
}
WORDS = "p(N), avg, med, min, max, rate, errors, success, goodput(200ms)"


@dataclass(frozen=True)
class K6Metric:
    """The equivalent of a k6 metric: as a time, and as a number for each word (`rate`, `count`).

    `apart`: why ours is not quite the same; a threshold on it is rejected, with ours as the nearest.
    """

    time: str = ""
    numbers: Mapping[str, tuple[str, Dimension]] = field(default_factory=dict)
    apart: str = ""


_NO_ITERATIONS = "svload records times of requests, not of whole iterations"
_NO_PART = "svload has no metric of this part of a request"
_ASKED = "the study sets the number of users"
METRICS: dict[str, K6Metric] = {
    "http_req_duration": K6Metric(time="response"),
    "http_req_failed": K6Metric(numbers={"rate": ("error_rate", "ratio")}),
    "http_reqs": K6Metric(numbers={"rate": ("throughput", "rate_rps"), "count": ("requests", "count")}),
    "dropped_iterations": K6Metric(numbers={"count": ("dropped", "count")}),
    "iteration_duration": K6Metric(time="response", apart=_NO_ITERATIONS),
    "group_duration": K6Metric(time="response", apart=_NO_ITERATIONS),
    "iterations": K6Metric(
        numbers={"rate": ("throughput", "rate_rps"), "count": ("requests", "count")},
        apart="svload counts requests, not iterations",
    ),
    "checks": K6Metric(
        numbers={"rate": ("success_rate", "ratio")}, apart="here a request whose check fails is not ok"
    ),
    "http_req_waiting": K6Metric(time="server_time", apart="svload records it for ok requests only"),
    "http_req_blocked": K6Metric(time="slot_wait", apart="svload records the wait for a free user or "
    "connection"),
    "http_req_connecting": K6Metric(time="connect", apart="svload keeps curl's times, from the start on"),
    "http_req_tls_handshaking": K6Metric(time="appconnect", apart="svload keeps curl's times, from the start on"),
    "http_req_sending": K6Metric(apart=_NO_PART),
    "http_req_receiving": K6Metric(apart=_NO_PART),
    "data_received": K6Metric(
        numbers={"count": ("bytes_received", "size_bytes")}, apart="svload counts it without TLS"
    ),
    "data_sent": K6Metric(apart="svload has no metric of what was sent"),
    "vus": K6Metric(apart=_ASKED),
    "vus_max": K6Metric(apart=_ASKED),
}  # fmt: skip
"""k6's built-in metrics."""
_OURS: dict[str, K6Metric] = {"response": K6Metric(time="response"), "service": K6Metric(time="service")}
"""Metrics of svload that may also stand before k6's expression."""


class NoCriterion(ValueError):
    """Why a threshold in k6's notation is not a criterion; `hint` says what to write instead, if known."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def study_criterion(text: str) -> str:
    """Return a threshold of the command line in the metric grammar, from k6's notation or the grammar itself.

    A time without a unit is ms, as in k6; `rate` is completions per second, `errors` and `success` are shares
    (1 % or 0.01), and a k6 metric may stand before (`METRICS`). Raises SvloadError usage.
    """
    try:
        return _criterion(text)
    except NoCriterion as why:
        general = f"Write 'p(99)<200ms', 'avg<50ms', 'rate>500', 'errors<1%' (known: {WORDS})."
        hint = " ".join(filter(None, (why.hint, general)))
        raise fail("usage", reason=f"--threshold {text}: {why}", hint=hint) from why


def from_k6(text: str) -> str | None:
    """Return the criterion for a threshold in k6's notation; None for any other text. Raises NoCriterion.

    Its value may be a `${…}`.
    """
    match = _EXPRESSION.fullmatch(split_level(text)[0])
    if not match:
        return None
    of, what = match["of"], match["what"]
    if of is None and not (what in _TIMES or what in _SCALARS or _PERCENTILE.fullmatch(what)):
        return None
    return _criterion(text) if of is None or of in _OURS or is_k6(of) else None


def is_k6(name: str) -> bool:
    """Return whether a metric's name, with or without tags, is k6's, or a misspelt one."""
    bare = name.partition("{")[0].strip()
    return bare in METRICS or bare.startswith("http_req")


def _criterion(text: str) -> str:
    that, level = split_level(text)
    match = _EXPRESSION.fullmatch(that)
    if not match:
        raise NoCriterion("it has no metric, comparison and value")
    of, what, op, value = match["of"], match["what"], match["op"].replace("===", "=="), match["value"]
    metric, dimension, apart = _metric(of, what)
    if dimension == "time_s" and _BARE.fullmatch(value):
        value += " ms"
    if dimension == "size_bytes" and _BARE.fullmatch(value):
        value += " B"
    criterion = f"{metric} {op} {value}" + (f" at {level}" if level else "")
    if apart:
        raise NoCriterion(
            f"{of} has no exact equivalent: {apart}", f"Write {criterion}, which is the closest."
        )
    if match["tags"]:
        if (of, "".join(match["tags"].split())) != ("http_req_duration", _OK_ONLY):
            hint = f"Write GROUP.{criterion} for a group under traffic, GROUP.STEP.{criterion} for a step."
            raise NoCriterion("svload has groups and steps instead of tags", hint)
        criterion = f"ok_{criterion}"
    if "${" in value:
        return criterion
    if dimension == "ratio" and _BARE.fullmatch(value) and float(value) >= 1 and op in ("<", "<="):
        raise NoCriterion(f"as a share {value} is {show_percent(float(value), 6)}, which always holds")
    try:
        parse_criterion(criterion, {})
    except ValueError as why:
        raise NoCriterion(str(why)) from why
    return criterion


def _metric(of: str | None, what: str) -> tuple[str, Dimension, str]:
    """Return (metric with its stat, its dimension, why it is not quite the same) for one word."""
    if of is None and what in _SCALARS:
        return *_SCALARS[what], ""
    known = _OURS | METRICS
    if of is not None and of not in known:
        near = difflib.get_close_matches(of, known, n=1, cutoff=0.7)
        names = ", ".join(name for name, one in known.items() if not one.apart)
        hint = f"; did you mean “{near[0]}”" if near else f" (known: {names})"
        raise NoCriterion(f"“{of}” is not a metric{hint}")
    metric = known[of or "response"]
    if what in metric.numbers:
        return *metric.numbers[what], metric.apart
    stat = _stat(what)
    if metric.time and stat:
        return f"{metric.time}.{stat}", "time_s", metric.apart
    if metric.apart and not metric.time and not metric.numbers:
        raise NoCriterion(f"{of} has no equivalent: {metric.apart}", "Leave it out.")
    if of is None:
        return what, "count", ""
    has = f"a {' and a '.join(metric.numbers)}" if metric.numbers else "avg, min, med, max and p(N)"
    raise NoCriterion(f"{of} has {has}, and no “{what}”")


def _stat(what: str) -> str:
    """Return our word for a k6 statistic, or "". Raises NoCriterion for a percentile that is not kept."""
    if found := _PERCENTILE.fullmatch(what):
        if (stat := f"p{found[1]}") in STATS:
            return stat
        kept = ", ".join(f"p({one[1:]})" for one in STATS if one.startswith("p"))
        raise NoCriterion(f"“{what}” is not among the percentiles that are kept ({kept})")
    return _TIMES.get(what, "")
