"""How much of each shown number the generator itself caused: Q(response) over Q(response − generator lag −
read lag); and whether the load's cores had spare capacity, or the load itself was the limit of a closed loop:
then its throughput is the generator's, not the server's (docs/method.md §3, §5).

Generator lag is known for every request. Read lag is known for those with a read timestamp: every request of
a group up to 1,000/s, a sample above. From these come two sets of values of the same requests, with and
without the delays, as rows or as two histograms.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, doubted, worst
from svload.analysis.quantiles import (
    Ranked,
    least_n_eff,
    moments,
    order_statistics,
    ranked_counts,
    ranked_values,
)
from svload.analysis.readings import mean_rate, of_monitor
from svload.analysis.view import (
    DELAYED,
    STAMPED_ALL,
    GroupView,
    Window,
    generator_delays_ns,
    kept_window,
    steps_of,
)
from svload.model.metrics import STATS, metric_name
from svload.model.results import CheckResult, Grade, Harm
from svload.model.study import CaseConfig
from svload.model.units import show_duration, show_percent
from svload.store import TrialData

_PERCENTILES = tuple(stat for stat in STATS if stat.startswith("p"))
"""All percentiles of the grammar: what a study asks for beside those that tables show is shown, too."""


class Figure(NamedTuple):
    """What the generator adds to one number of a group.

    `share` is Q over Q′ less one, `least` the lower end of its interval (the same where every request is
    known); `stamped` is how many requests with a read timestamp it rests on, 0 where it covers generator lag
    alone; the two values are in ns.
    """

    group: str
    stat: str
    share: float
    least: float
    with_ns: float
    without_ns: float
    stamped: int = 0

    @property
    def grade(self) -> Grade:
        """WEAK where the number is most likely off by more than the limit."""
        return "WEAK" if self.share > limits.HARM else "VALID"

    @property
    def what(self) -> str:
        """The name of the number, in words."""
        name = f"{self.group}.response"
        of = f"the mean {name}" if self.stat == "mean" else f"{name}.{self.stat}"
        return f"{of} of the {self.stamped:,} requests with a read timestamp" if self.stamped else of


class Missing(NamedTuple):
    """Percentiles of a group without known read lag, since too few requests have a timestamp."""

    group: str
    stats: tuple[str, ...]
    stamped: int


class GeneratorHarm(Check):
    """WEAK above 5 %, for each shown percentile and the mean separately.

    Where every request has a timestamp, harm is the actual effect on the number. Where they are a sample it
    has an interval, that of order statistics, read at the same rank with and without the delays; a percentile
    that the sample cannot support is not judged by it, and the result says so. The true value lies below the
    shown one, by that share.
    """

    name = "generator-harm"
    order = 20
    comparisons = "lag"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        views = [view for group in context.groups for view in (group, *steps_of(trial, group))]
        figures = [figure for view in views for figure in _figures(view, context)]
        if not figures:
            return self.result("VALID", "No percentile is shown, so the generator can't have distorted one.")
        most = max(figures, key=_severity)
        grade = worst(*(figure.grade for figure in figures))
        missing = [one for view in context.groups if (one := _missing(view, context)) is not None]
        result = self.result(
            grade,
            _sentence(most, grade, missing),
            most.share,
            limits.HARM,
            "Give the generator its own core, use more generators, or reduce the load.",
        )
        return result.model_copy(update={"harms": _harms(figures, context)})


def _severity(figure: Figure) -> tuple[bool, float]:
    return figure.grade == "WEAK", figure.share


def _sentence(most: Figure, grade: Grade, missing: list[Missing]) -> str:
    added = show_duration(max(most.with_ns - max(most.without_ns, 0.0), 0.0) / 1e9)
    head = "svload itself was late" if grade != "VALID" else "svload itself was hardly late"
    at_most = " at most" if grade == "VALID" and not missing else ""
    least = f", at least {show_percent(most.least)}" if most.least < most.share and grade != "VALID" else ""
    unknown = "".join(
        f"; the read lag of {one.group}'s {', '.join(one.stats)} is not measured, "
        + (
            f"since {one.stamped:,} requests with a read timestamp are too few"
            if one.stamped
            else "since no read has a timestamp"
        )
        for one in missing
    )
    shown = show_duration(most.with_ns / 1e9)
    return f"{head}: it added {show_percent(most.share)}{at_most}{least} ({added} of {shown}) to {most.what}{unknown}."


def _harms(figures: list[Figure], context: Context) -> tuple[Harm, ...]:
    found: dict[str, Figure] = {}
    for figure in sorted(figures, key=_severity):
        for metric in DELAYED:
            if (number := f"{figure.group}.{metric}.{figure.stat}") in context.metrics:
                found[number] = figure
    return tuple(
        Harm(number=number, grade=figure.grade, below=_below(figure)) for number, figure in found.items()
    )


def _below(figure: Figure) -> float:
    """Return how far the true value may lie below the shown one, as a share of that."""
    return min(max(1 - figure.without_ns / figure.with_ns, 0.0), 1.0) if figure.with_ns > 0 else 0.0


def _figures(view: GroupView, context: Context) -> Iterator[Figure]:
    shown = [stat for stat in _PERCENTILES if _is_shown(context, view, stat)]
    mean = _is_shown(context, view, "mean")
    yield from (_of_rows if view.rows is not None else _of_histograms)(view, shown, mean)


def _is_shown(context: Context, view: GroupView, stat: str) -> bool:
    shown = (context.metrics.get(f"{view.name}.{metric}.{stat}") for metric in DELAYED)
    return any(estimate is not None and estimate.value is not None for estimate in shown)


def _of_rows(view: GroupView, shown: list[str], mean: bool) -> Iterator[Figure]:
    rows = view.rows
    assert rows is not None
    ok = rows["ok"]
    delays = generator_delays_ns(rows)
    every = delays is not None
    response = rows["response_ns"][ok]
    clean = (rows["response_ns"] - (delays if every else rows["lag_ns"]))[ok]
    if not len(response):
        return
    yield from _percentiles(view, shown, ranked_values(response, view.due), ranked_values(clean, view.due))
    if mean:
        yield _figure(view, "mean", float(response.mean()), float(clean.mean()))
    if every:
        return
    read_lag = rows["read_lag_ns"][ok]
    sampled = read_lag >= 0
    stamped, without = response[sampled], (clean - read_lag)[sampled]
    total = _total(len(stamped), view, int(ok.sum()))
    yield from _sampled(view, shown, ranked_values(stamped, total), ranked_values(without, total))
    if mean and len(stamped) >= limits.LEAST_READ_LAGS:
        yield _sampled_mean(
            view, float(stamped.mean()), float(without.mean()), float((stamped - without).std()), len(stamped)
        )


def _of_histograms(view: GroupView, shown: list[str], mean: bool) -> Iterator[Figure]:
    response, lag = view.histogram("response"), view.histogram("generator_lag")
    if not response.any():
        return
    stamped, clean = view.histogram("sampled_response"), view.histogram("sampled_clean")
    read_lag = view.histogram("read_lag")
    every = stamped.sum() >= STAMPED_ALL * response.sum()
    # It excludes read lag, too, where there is a timestamp.
    without = view.histogram("response_without_lag")
    all_due = int(response.sum()) + max(view.due - view.ok, 0)
    yield from _percentiles(view, shown, ranked_counts(response, all_due), ranked_counts(without, all_due))
    mean_ns, deviation_ns = moments(lag)
    if mean:
        of_all = moments(response)[0]
        yield _figure(view, "mean", of_all, moments(without)[0] if every else of_all - mean_ns)
    if every:
        return
    total = _total(int(stamped.sum()), view, int(response.sum()))
    yield from _sampled(view, shown, ranked_counts(stamped, total), ranked_counts(clean, total))
    if not mean or read_lag.sum() < limits.LEAST_READ_LAGS:
        return
    # The deviation of a sum is at most the sum of the deviations. Older trials have no
    # pairs: there only the means are known.
    deviation_ns += moments(read_lag)[1]
    if stamped.sum() >= limits.LEAST_READ_LAGS:
        with_ns, without_ns = moments(stamped)[0], moments(clean)[0]
        yield _sampled_mean(view, with_ns, without_ns, deviation_ns, int(stamped.sum()))
    else:
        with_ns = moments(response)[0]
        without_ns = with_ns - mean_ns - moments(read_lag)[0]
        yield _sampled_mean(view, with_ns, without_ns, deviation_ns, int(read_lag.sum()))


def _total(stamped: int, view: GroupView, ok: int) -> int:
    """Return the size of a sample with the same share of failures on top as all requests have."""
    return round(stamped * max(view.due / ok, 1.0)) if ok else stamped


def _percentiles(view: GroupView, stats: list[str], response: Ranked, clean: Ranked) -> Iterator[Figure]:
    for stat in stats:
        p = float(stat[1:]) / 100
        with_ns, without_ns = response.quantile(p), clean.quantile(p)
        if with_ns is not None and without_ns is not None:
            yield _figure(view, stat, with_ns, without_ns)


def _sampled(view: GroupView, stats: list[str], response: Ranked, clean: Ranked) -> Iterator[Figure]:
    for stat in stats:
        if response.finite >= _needed(stat):
            yield from _sampled_percentile(view, stat, response, clean)


def _needed(stat: str) -> int:
    """Return the number of requests with a read timestamp that a percentile's harm needs."""
    return max(limits.LEAST_READ_LAGS, least_n_eff(float(stat[1:]) / 100))


def _sampled_percentile(view: GroupView, stat: str, response: Ranked, clean: Ranked) -> Iterator[Figure]:
    p = float(stat[1:]) / 100
    with_ns, without_ns = response.quantile(p), clean.quantile(p)
    low, high = (int(rank) for rank in order_statistics(p, response.total))
    if with_ns is None or without_ns is None or low < 1:
        return
    ranks = np.arange(low, min(high, response.finite) + 1)
    both = [one.values[np.searchsorted(one.at_or_below, ranks)] for one in (response, clean)]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(both[1] > 0, both[0] / both[1] - 1, np.where(both[0] > 0, np.inf, 0.0))
    found = _figure(view, stat, with_ns, without_ns)
    least = min(float(shares.min()), found.share)
    yield found._replace(least=least, stamped=response.finite)


def _sampled_mean(
    view: GroupView, with_ns: float, without_ns: float, deviation_ns: float, stamped: int
) -> Figure:
    """Return the harm by the lower end of the delays' mean alone (normal, `TAIL` below it), at least 0: one
    late read among a few is not a mean."""
    added_ns = with_ns - without_ns + float(ndtri(limits.TAIL)) * deviation_ns / sqrt(stamped)
    return _figure(view, "mean", with_ns, with_ns - max(added_ns, 0.0))._replace(stamped=stamped)


def _missing(view: GroupView, context: Context) -> Missing | None:
    """Return the shown percentiles of a group that were judged without read lag."""
    if view.rows is not None:
        ok = int(view.rows["ok"].sum())
        stamped = int((view.rows["ok"] & (view.rows["read_lag_ns"] >= 0)).sum())
    else:
        ok = int(view.histogram("response").sum())
        stamped = int(view.histogram("sampled_response").sum())
    if stamped >= STAMPED_ALL * ok:
        return None
    stats = tuple(stat for stat in _PERCENTILES if _is_shown(context, view, stat) and stamped < _needed(stat))
    return Missing(view.name, stats, stamped) if stats else None


def _figure(view: GroupView, stat: str, with_ns: float, without_ns: float) -> Figure:
    share = with_ns / without_ns - 1 if without_ns > 0 else (0.0 if with_ns <= 0 else float("inf"))
    return Figure(view.name, stat, share, share, with_ns, without_ns)


class LoadCpu(NamedTuple):
    """CPU of the load's threads over a window, in cores, without spinning."""

    together: float
    busiest: float
    thread: str
    cores: int | None

    @property
    def share(self) -> float:
        """The larger of two shares: the busiest thread of its core, or all threads of the available cores."""
        return max(self.busiest, self.together / self.cores if self.cores else 0.0)


def load_cpu(trial: TrialData, window: Window) -> LoadCpu | None:
    """Return the load's CPU over the window; None where no witness read it."""
    used = of_monitor(trial.monitors, "generator", "cpu_seconds_total")
    rates = {
        thread: rate for thread, series in used.items() if (rate := mean_rate(series, window)) is not None
    }
    if not rates:
        return None
    conditions = trial.lab.conditions
    cores = conditions.machine.load_cores if conditions and conditions.machine else None
    thread, busiest = max(rates.items(), key=lambda one: one[1])
    return LoadCpu(sum(rates.values()), busiest, thread, cores)


_RATES = ("throughput", "ok_throughput", "goodput")


class GeneratorCpu(Check):
    """REFUSED, throughput and goodput of closed loops, where the load's CPU is above 90 % and none of the
    servers' own limits was reached: users who wait for their own load send only what it can handle. Closed
    loops share the load's cores.

    The same applies where no limit of a server was read: then it is unknown which was the limit. How a
    full core affected times is measured request by request.
    """

    name = "generator-cpu"
    order = 23
    comparisons = "lost"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        cpu = load_cpu(trial, kept_window(trial.summary, context.cut.cut_ns))
        if cpu is None:
            return self.unmeasured("nothing measured the CPU of the load's threads")
        cores = f"of {cpu.cores} " if cpu.cores else ""
        used = (
            f"The load used {cpu.together:.2g} {cores}cores; its busiest thread {show_percent(cpu.busiest)} of one "
            f"({cpu.thread})"
        )
        closed = [group.name for group in context.groups if group.closed]
        if cpu.share <= limits.GENERATOR_CPU or not closed:
            return self.result("VALID", f"{used}.", cpu.share, limits.GENERATOR_CPU)
        if context.at_limit:
            text = f"{used}, and a server reached a limit of its own: {context.at_limit[0]}."
            return self.result("VALID", text, cpu.share, limits.GENERATOR_CPU)
        heads = tuple(f"{name}." for name in closed)
        rates = [name for name in context.metrics if name.startswith(heads) and metric_name(name) in _RATES]
        known = "read" if context.at_limit is None else "reached"
        return self.result(
            "REFUSED",
            f"{used}, and no limit of a server's own was {known}: the throughput of {', '.join(closed)} is "
            "what the load can generate, not what the server can serve.",
            cpu.share,
            limits.GENERATOR_CPU,
            "Use more generators on more cores, so that the server reaches a limit first.",
            doubted(rates, "REFUSED"),
        )
