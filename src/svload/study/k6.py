"""Thresholds as k6's users write them, in the words of a study: `p(99)<200ms` is `response.p99 < 200 ms`. Pure."""

from __future__ import annotations

import re

from svload.model.errors import SvloadError, fail
from svload.model.metrics import STATS, parse_criterion
from svload.model.units import Dimension

_EXPRESSION = re.compile(r"\s*(?:(?P<of>[A-Za-z_]\w*)\s*:)?\s*(?P<what>\w+\([^()]*\)|[^<>=!\s]+)\s*(?P<op><=|>=|===|==|!=|<|>)\s*(?P<value>\S.*?)\s*")  # fmt: skip
_PERCENTILE = re.compile(r"p\(?(\d+(?:\.\d+)?)\)?")
_TIMES = {"avg": "mean", "mean": "mean", "max": "max", "min": "min", "med": "p50", "median": "p50"}
_TIME_OF = {"response": "response", "service": "service", "http_req_duration": "response"}
_SCALARS: dict[str, tuple[str, Dimension]] = {
    "rate": ("throughput", "rate_rps"),
    "errors": ("error_rate", "ratio"),
    "success": ("success_rate", "ratio"),
}
_RATE_OF: dict[str, tuple[str, Dimension]] = {
    "http_req_failed": ("error_rate", "ratio"),
    "http_reqs": ("throughput", "rate_rps"),
}
WORDS = "p(N), avg, med, min, max, rate, errors, success, goodput(200ms)"


def study_criterion(text: str) -> str:
    """A threshold in the metric grammar: what k6's users write, or the grammar itself.

    A time without a unit is ms, as in k6; `rate` is completions a second, `errors` and `success` are
    shares (1 % or 0.01), and `http_req_duration:`, `http_req_failed:` and `http_reqs:` may stand
    before. Raises SvloadError usage.
    """
    match = _EXPRESSION.fullmatch(text)
    if not match:
        raise _wrong(text, "it has no metric, comparison and value")
    of, what, op, value = match["of"], match["what"], match["op"].replace("===", "=="), match["value"]
    metric, dimension = _metric(text, of, what)
    if dimension == "time_s" and re.fullmatch(r"[\d.]+", value):
        value += " ms"
    if dimension == "ratio" and re.fullmatch(r"[\d.]+", value) and float(value) >= 1 and op in ("<", "<="):
        raise _wrong(text, f"as a share {value} is {float(value) * 100:g} %, which always holds")
    criterion = f"{metric} {op} {value}"
    try:
        parse_criterion(criterion, {})
    except ValueError as why:
        raise _wrong(text, str(why)) from why
    return criterion


def _metric(text: str, of: str | None, what: str) -> tuple[str, Dimension]:
    """(metric with its stat, its dimension) of one word."""
    if of is not None and of not in _TIME_OF and of not in _RATE_OF:
        raise _wrong(text, f"“{of}” is no metric (known: {', '.join((*_TIME_OF, *_RATE_OF))})")
    if of in _RATE_OF:
        if what not in ("rate", "count"):
            raise _wrong(text, f"{of} has a rate, and no “{what}”")
        return _RATE_OF[of]
    times = _TIME_OF[of or "response"]
    if found := _PERCENTILE.fullmatch(what):
        stat = f"p{found[1]}"
        if stat not in STATS:
            known = ", ".join(f"p({one[1:]})" for one in STATS if one.startswith("p"))
            raise _wrong(text, f"“{what}” is not among the percentiles that are kept ({known})")
        return f"{times}.{stat}", "time_s"
    if what in _TIMES:
        return f"{times}.{_TIMES[what]}", "time_s"
    if what in _SCALARS and of is None:
        return _SCALARS[what]
    return what, "count"


def _wrong(text: str, reason: str) -> SvloadError:
    hint = f"Write 'p(99)<200ms', 'avg<50ms', 'rate>500', 'errors<1%' (known: {WORDS})."
    return fail("usage", reason=f"--threshold {text}: {reason}", hint=hint)
