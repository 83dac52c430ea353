"""Numbers, checks and verdicts in words, spelt the same in terminal, page and sheets; where newer rules judge
a run again, each trial's grade at sealing time beside its grade now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import chain
from math import floor, log10
from typing import Any

from svload.model.certificates import InstrumentCertificate
from svload.model.metrics import CATALOGUE, STATS, canonical_limit, without_limit
from svload.model.results import CheckResult, Estimate, Findings, TrialResult
from svload.model.units import Dimension, rounded, show_duration, show_percent, show_size

NOT_MEASURED = "not measured"
FEW_MARK = "°"
"""Mark of a number that few requests support, or that grows with the run's length."""
GRADE_MARK = {"VALID": "✓", "WEAK": "~", "REFUSED": "✗", NOT_MEASURED: "–"}
NONE = "–"
_CURL: Mapping[str, Dimension] = {
    "lookup": "time_s",
    "pretransfer": "time_s",
    "redirect": "time_s",
    "total": "time_s",
    "request_size": "size_bytes",
    "header_size": "size_bytes",
    "body_size": "size_bytes",
}
_DIMENSIONS: dict[str, Dimension] = {
    **{name: metric.dimension for (_, name), metric in CATALOGUE.items()},
    **_CURL,
}
_SERVICE_METRICS = tuple(name for (source, name) in CATALOGUE if source == "service")


@cache
def _monitored() -> dict[str, Dimension]:
    """Return what a study may ask of the services' monitors, by each of its names."""
    from svload.watch import monitored_names

    return {name: one.dimension for name, one in monitored_names().items()}


@lru_cache(maxsize=4096)
def split_metric(key: str) -> tuple[str, str, str]:
    """Return (owner, metric with its limit, stat) of a full metric name; the owner may contain dots; all
    parts are empty if the name is no metric."""
    head, _, last = key.rpartition(".")
    if last in STATS or (last.startswith("p") and last[1:].isdigit()):
        return _owner_and_name(head, last)
    if last == "9" and head.endswith(".p99"):
        return _owner_and_name(head[: -len(".p99")], "p99.9")
    return _owner_and_name(key, "")


def _owner_and_name(text: str, stat: str) -> tuple[str, str, str]:
    owner, dot, name = text.rpartition(".")
    if without_limit(name) in _DIMENSIONS:
        return (owner if dot else ""), name, stat
    for at in range(text.count(".")):
        owner, name = ".".join(text.split(".")[: at + 1]), ".".join(text.split(".")[at + 1 :])
        if name in _monitored():
            return owner, name, stat
    return "", "", ""


def dimension_of(key: str) -> Dimension:
    """Return the dimension of a full metric name; a count if unknown."""
    name = without_limit(split_metric(key)[1])
    return _DIMENSIONS.get(name) or _monitored().get(name, "count")


def show_value(value: float | None, dimension: Dimension) -> str:
    """Return a value in base units as text with three or four significant digits; a dash for None."""
    if value is None:
        return NONE
    match dimension:
        case "time_s":
            return show_duration(value)
        case "size_bytes":
            return show_size(value)
        case "ratio":
            return show_share(value)
        case "rate_rps":
            return f"{_plain(value)}/s"
    return _plain(value)


def show_share(share: float, figures: int = 4) -> str:
    """Return a share in percent with these significant figures, or more if less would read `100 %`."""
    return f"{_less_than_all(100 * share, rounded(100 * share, figures))} %"


def _less_than_all(percent: float, text: str) -> str:
    """Return a percentage's text; if a smaller one was rounded to 100, with as many decimals as it needs: a
    single failure is not rounded away."""
    if text == "100" and round(percent, 7) < 100:
        return f"{percent:.{-floor(log10(100 - percent))}f}"
    return text


def _plain(value: float) -> str:
    if abs(value) >= 1000 or (float(value).is_integer() and abs(value) >= 100):
        return f"{value:,.0f}"
    return rounded(value, 3)


def show_interval(estimate: Estimate, dimension: Dimension) -> str:
    """Return `2.1 ms [2.0, 2.3]`: value and interval in one unit."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return show_value(estimate.value, dimension)
    unit, factor = unit_for(estimate.value, dimension)
    text = f"{_plain(estimate.value / factor)}{' ' if unit and not unit.startswith('/') else ''}{unit}"
    return f"{text} {show_bracket(estimate, dimension)}".rstrip()


def show_bracket(estimate: Estimate, dimension: Dimension) -> str:
    """Return `[2.0, 2.3]`, the interval in the value's unit; "" without one, or if it equals the value."""
    if (
        estimate.value is None
        or estimate.low is None
        or estimate.high is None
        or estimate.low == estimate.high
    ):
        return ""
    _, factor = unit_for(estimate.value, dimension)
    return f"[{_plain(estimate.low / factor)}, {_plain(estimate.high / factor)}]"


_TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
_SIZE_UNITS = (("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0), ("B", 1.0))


def unit_for(value: float, dimension: Dimension) -> tuple[str, float]:
    """Return (unit, its size in base units) in which `value` is easiest to read."""
    match dimension:
        case "time_s":
            return next((pair for pair in _TIME_UNITS if abs(value) >= pair[1]), _TIME_UNITS[-1])
        case "size_bytes":
            return next((pair for pair in _SIZE_UNITS if abs(value) >= pair[1]), _SIZE_UNITS[-1])
        case "ratio":
            return "%", 0.01
        case "rate_rps":
            return "/s", 1.0
    return "", 1.0


def metric_label(key: str) -> str:
    """Return a full metric name in words: `probe.response.p50` → `probe: response, p50`."""
    owner, name, stat = split_metric(key)
    words = name_words(name) or key
    if stat:
        words += f", {stat}"
    return f"{owner}: {words}" if owner else words


MOST_PERCENT = 10.0
"""Shares above this (1,000 %) are not shown in percent."""


def percent_words(share: float) -> str:
    """Return a share with two significant digits: `12 %`, `600 %`; above 1,000 % `a factor of 620`."""
    if share > MOST_PERCENT:
        return f"a factor of {rounded(1 + share, 2)}"
    return show_percent(share, 2)


def show_ratio(value: float) -> str:
    """Return a ratio as a change: `−12 %`, `+3.4 %`, from threefold on `×3.2`."""
    if value >= 3 or value <= 0:
        return f"×{_plain(value)}"
    change = 100 * (value - 1)
    return f"{'+' if change >= 0 else '−'}{_less_than_all(abs(change), rounded(abs(change), 3))} %"


def show_time(wall: float) -> str:
    """Return a moment in UTC: `2026-03-01 12:00:05 UTC`."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def factor_levels(findings: Findings) -> dict[str, list[str]]:
    """Return each factor's levels, in the order in which the cases name them."""
    levels: dict[str, list[str]] = {}
    for case in findings.cases:
        for factor, level in case.levels.items():
            known = levels.setdefault(factor, [])
            if level not in known:
                known.append(level)
    return levels


def traffic_groups(findings: Findings) -> list[str]:
    """Return every traffic group measured in any case, in order of appearance."""
    return [owner for owner in traffic_owners(findings) if "." not in owner]


def traffic_owners(findings: Findings) -> list[str]:
    """Return every traffic group measured in any case, and the steps of its scenarios as `group.step`, in
    order of appearance."""
    owners = (split_metric(key)[0] for key in _metric_keys(findings) if key.endswith(".success_rate"))
    return list(dict.fromkeys(owners))


def services_of(findings: Findings) -> list[str]:
    """Return every service measured in any case, in order of appearance."""
    groups = set(traffic_owners(findings))
    found: dict[str, None] = {}
    for key in _metric_keys(findings):
        owner, name, _ = split_metric(key)
        if owner and owner not in groups and (name in _SERVICE_METRICS or name in _monitored()):
            found[owner] = None
    return list(found)


def _metric_keys(findings: Findings) -> dict[str, None]:
    every = (*(case.metrics for case in findings.cases), *(trial.metrics for trial in findings.trials))
    return dict.fromkeys(chain.from_iterable(every))


def main_group(findings: Findings) -> str:
    """Return the group that claims are about (the first that names one); else the curl-like probe, else the
    last group. "load" without any."""
    groups = traffic_groups(findings)
    for claim in findings.claims:
        owner = split_metric(claim.metric)[0]
        if owner in groups:
            return owner
    probes = [
        group for group in groups if any(f"{group}.connect.p50" in case.metrics for case in findings.cases)
    ]
    return (probes[:1] or groups[-1:] or ["load"])[0]


def full_metric(findings: Findings, text: str) -> str:
    """Return a metric, as a study spells it, with its owner and stat: the main group if it names none, the
    default stat if there is one."""
    owner, name, stat = split_metric(canonical_limit(text))
    if not name:
        return text
    known = services_of(findings)
    metric = CATALOGUE.get(("service" if owner in known else "traffic", without_limit(name)))
    stat = stat or (metric.default_stat if metric and metric.default_stat else "")
    return ".".join(part for part in (owner or main_group(findings), name, stat) if part)


def load_line(findings: Findings, alone: str = "") -> str:
    """Return the load of this run in one line (`alone`: only that group's, the others counted); "" if
    unknown.

    A profile may make less load than the question states.
    """
    if not findings.load:
        return ""
    which = f"This run (profile {findings.profile})" if findings.profile else "This run"
    loads = {alone: findings.load[alone]} if alone in findings.load else findings.load
    more = (
        f"; {len(findings.load) - len(loads)} more in the report" if len(loads) < len(findings.load) else ""
    )
    return f"{which}: " + "; ".join(f"{name} – {words}" for name, words in loads.items()) + f"{more}."


def list_words(words: Sequence[str], most: int = 6) -> str:
    """Return `a, b and c`; beyond `most` words the rest is counted."""
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} and {len(words) - most + 1} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def outcome_words(outcome: str) -> str:
    """Return the outcome of a comparison, a gate or a threshold in words; files for programs use `open`."""
    return "undecided" if outcome == "open" else outcome


def count_words(number: int, one: str, many: str | None = None) -> str:
    """Return `1 trial`, `4,000 trials`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def unique(texts: Iterable[str]) -> list[str]:
    """Return the texts without repetition, in order."""
    return list(dict.fromkeys(text for text in texts if text))


def change_interval(ratio: Estimate, dimension: Dimension) -> str:
    """Return the interval in the wording of its value: `68 to 70 %`, `1.93 to 2.16`, `−2 to +4 %`; `up to 137 %`
    where it begins at no change, as that of a decided claim may; "" without one."""
    if ratio.value is None or ratio.low is None or ratio.high is None:
        return ""
    change = _Change.of(ratio.value, dimension)
    from_none = (ratio.low == 1) != (ratio.high == 1)
    if ratio.high - 1 > MOST_PERCENT and not change.times:
        return f"{'up' if from_none else _plain(ratio.low)} to {_plain(ratio.high)} times"
    low, high = (_Change.of(bound, dimension, change.times) for bound in (ratio.low, ratio.high))
    if from_none:
        return f"up to {(high if ratio.low == 1 else low).text}{change.unit}"
    if low.words == high.words == change.words:
        first, last = sorted((low, high), key=lambda one: one.number)
        return f"{first.text} to {last.text}{change.unit}"
    return f"{_signed(ratio.low)} to {_signed(ratio.high)} %"


def _signed(ratio: float) -> str:
    change = 100 * (ratio - 1)
    return f"{'−' if change < 0 else '+'}{_less_than_all(abs(change), _plain(abs(change)))}"


def change_words(ratio: float, dimension: Dimension) -> str:
    """Return a ratio without an interval: `69 % shorter`, `3.2 times as long`."""
    return _Change.of(ratio, dimension).whole


_TIMES_FROM = 2.0


@dataclass(frozen=True)
class _Change:
    """A ratio as a number with its unit and words."""

    number: float
    unit: str
    words: str
    times: bool = False

    @classmethod
    def of(cls, ratio: float, dimension: Dimension, times: bool | None = None) -> _Change:
        """Return a multiple from 2 on, else percent; `times` forces either form, so that an interval is
        worded like its value."""
        less, more, as_much = ("shorter", "longer", "as long") if dimension == "time_s" else ("lower", "higher", "as high")  # fmt: skip
        if ratio >= _TIMES_FROM if times is None else times:
            return cls(ratio, "", f"times {as_much}", True)
        return cls(100 * abs(ratio - 1), " %", less if ratio < 1 else more)

    @property
    def text(self) -> str:
        text = _plain(self.number)
        return text if self.times else _less_than_all(self.number, text)

    @property
    def whole(self) -> str:
        return f"{self.text}{self.unit} {self.words}"


_SHORT_NAMES = {"throughput": "rate", "success_rate": "ok", "hit_ratio": "hits"}


@lru_cache(maxsize=4096)
def number_words(key: str) -> str:
    """Return a number's name in a few letters, for a list: `p50`, `rate`, `service p99`, `cache cpu`."""
    owner, name, stat = split_metric(key)
    if not name:
        return key
    if name == "response":
        return f"{owner} {stat}".strip()
    short = _SHORT_NAMES.get(name, name.replace("_", " "))
    if name in ("cpu", "memory"):
        return f"{owner} {short}".strip()
    return " ".join(part for part in (owner, short, stat) if part)


_STAT_WORDS = {"p50": "median", "mean": "mean", "min": "smallest", "max": "largest"}


def name_words(name: str) -> str:
    """Return a name in words: `ok_response` → `ok response`, `goodput(200 ms)` → `goodput within 200 ms`."""
    return name.replace("_", " ").replace("(", " within ").removesuffix(")")


def metric_words(key: str) -> str:
    """Return a metric's name inside a sentence: `probe.response.p50` → `the median response of probe`."""
    owner, name, stat = split_metric(key)
    if not name:
        return key
    words = f"{_STAT_WORDS.get(stat, stat)} {name_words(name)}".strip()
    return f"the {words} of {owner}" if owner else f"the {words}"


def outcome(check: CheckResult) -> str:
    """Return a check's grade, or that the trial lacks the facts for it."""
    return check.grade if check.measured else NOT_MEASURED


_CAUSES = {
    # disturbed: the number has a wider range
    "generator-harm": "svload itself was late",
    "others-cpu": "other programs used the machine",
    "hiccups": "the machine stalled",
    "run-queue": "svload waited for a core",
    "steal": "the hypervisor gave CPU time to other virtual machines",
    "calibration": "the machine changed speed",
    "clocks": "the clock was set or is too coarse",
    "tcp-loss": "TCP segments were lost",
    "steadiness": "the numbers drifted during the load",
    "combined": "several small effects add up",
    "imported-instrument": "the other tool's own delays are unknown",
    # broken: the load or the instrument was not what the study asked for
    "accounting": "the load was not as requested, or its counts do not add up",
    "warm-up": "the load was too short to settle",
    "carried-over": "requests from before the measurement dominate it",
    "generator-cpu": "svload's CPU was full",
    "imported-little": "the other tool's numbers contradict each other",
    "reconciliation": "the servers counted different requests than were sent",
    "manipulation": "the factor did not take effect",
    "build": "the server was a different build",
    # reported, but no number has a wider range
    "surroundings": "something unusual besides the load",
    "limits-acted": "a limit that the study sets was never reached",
    "worker-spread": "the users are spread unevenly over the workers",
}


def cause(check: str) -> str:
    """Return a clause for a check's name: `other programs used the machine`."""
    return _CAUSES.get(check, check.replace("-", " "))


def program(who: str) -> str:
    """Return only the program's name of `stress-ng (1.2 s of CPU, process 4711)`."""
    return who.partition(" (")[0]


def graded_again(findings: Findings | None, trial: TrialResult) -> bool:
    """Return whether the trial had another grade by the rules of its time."""
    own = findings.own_verdicts if findings is not None else None
    now = trial.verdict.instrument
    return own is not None and own.trials.get(trial.trial, now) != now


def grade_words(findings: Findings | None, trial: TrialResult) -> str:
    """Return the trial's grade, preceded by its earlier one if that differs: `VALID, then REFUSED`."""
    now = trial.verdict.instrument
    if findings is None or findings.own_verdicts is None or not graded_again(findings, trial):
        return now
    return f"{findings.own_verdicts.trials[trial.trial]}, then {now}"


def judged_again_words(findings: Findings) -> str:
    """Return `judged again by newer rules (6 instead of 5)`; "" by the rules of the run's time."""
    own = findings.own_verdicts
    return (
        f"judged again by newer rules ({findings.analysis_version} instead of {own.version})" if own else ""
    )


_NO_INSTRUMENT = "none; “svload doctor --certify” measures how far the instrument is off"


def instrument_words(certificate: InstrumentCertificate | dict[str, Any] | None) -> Iterator[str]:
    """Yield when and where the instrument was measured, and its bias at each service time, one line each."""
    if certificate is None:
        yield f"instrument certificate: {_NO_INSTRUMENT}"
        return
    found = InstrumentCertificate.model_validate(certificate)
    yield f"instrument certificate: {_day(found.made_wall)}, {found.place}"
    for level in found.levels:
        yield (
            f"  at {show_duration(level.service_ns / 1e9)}: p50 {_signed_ns(level.bias_p50_ns)}, p99 "
            f"{_signed_ns(level.bias_p99_ns)} from what the server did ({level.n:,} requests)"
        )


def instrument_line(certificate: InstrumentCertificate | None) -> str:
    """Return the same in one line, for tables of facts."""
    if certificate is None:
        return _NO_INSTRUMENT
    text = "; ".join(
        f"{show_duration(level.service_ns / 1e9)}: {_signed_ns(level.bias_p50_ns)} at p50, "
        f"{_signed_ns(level.bias_p99_ns)} at p99"
        for level in certificate.levels
    )
    return f"{_day(certificate.made_wall)}, seen less done at a service time of {text}"


def _signed_ns(ns: int) -> str:
    return f"{'+' if ns >= 0 else '−'}{show_duration(abs(ns) / 1e9)}"


def _day(wall: float) -> str:
    return show_time(wall)[:10]
