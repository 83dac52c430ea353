"""The summary of `svload load` as text: the request, the results and failures, both clocks, and both verdicts
with what to do."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from svload.model.load_summary import Lag, LoadSummary, Times
from svload.model.units import rounded, show_duration, show_size
from svload.model.visible import visible
from svload.report.terminal.console import MOST_LINES, console, height, number_table
from svload.report.terminal.live import GRADE_STYLE
from svload.report.wording.criteria import OPEN, OUTCOME_MARKS
from svload.report.wording.numbers import mark_of, meaning_of, short_why
from svload.report.wording.spelling import count_words, show_value

_STATS = ("mean", "p50", "p90", "p95", "p99", "p99_9", "max")
_KEPT = ("p50", "p99", "max", "p95", "mean", "p90", "p99.9")
_KEPT_OF_STAGES = ("p50", "p99", "ok", "completed", "p95", "from", "to")
"""Columns of numbers: on a narrow terminal the last ones are left out."""
_BAR, _LEAST_BARS = 40, 3
_SERVER_STYLE = {"STEADY": "green", "SATURATED": "yellow", "OVERLOADED": "red"}
_OUTCOME_STYLE = {"passed": "green", "failed": "red"} | dict.fromkeys(OPEN, "yellow")
_OTHERS = ("ok", "throughput_rps", "longest_silence_ms")
"""Numbers outside the table of times."""
_WIDTH = 100
_FAILED = (
    "failed: this percentile lies among the failed requests, so it has no time; in the mean, a failure "
    "counts with the time it took"
)


def show_load(summary: LoadSummary) -> None:
    """Print it on stdout, in at most `MOST_LINES` lines if the histogram's bars can be shortened enough."""
    out = console()
    width = min(out.width, _WIDTH)
    before = [Text(visible(f"{summary.url}: {summary.load} ({summary.model})"), style="bold")]
    for threshold in summary.thresholds:
        text = f"{OUTCOME_MARKS[threshold.outcome]} {threshold.sentence}"
        before.append(Text(visible(text), style=_OUTCOME_STYLE[threshold.outcome]))
    before += [Text(visible(line), style=style) for line, style in (*_success(summary), *_counts(summary))]
    styles = [style for _, style in _rows(summary).values()]
    tables = [*number_table(_clocks(summary), _KEPT, out.width, styles)]
    if summary.stages:
        tables.append(Text("all stages together; response in ms by stage:", style="dim"))
        styles = ["" if one.holds else "dim" for one in summary.stages]
        tables += number_table(_stages(summary), _KEPT_OF_STAGES, out.width, styles)
    notes = [Text(visible(line), style="dim") for line in _footnotes(summary)]
    end = _verdicts(summary)
    spent = sum(height(out, line, width) for line in (*before, *tables, *notes, *end))
    for line in (*before, *tables, *notes, *_histogram(summary, MOST_LINES - spent), *end):
        out.print(line, width=width if isinstance(line, Text) else None)
    if summary.run:
        out.print(Text(f"kept: {summary.run} (svload report {summary.run})"), soft_wrap=True)


def _stages(summary: LoadSummary) -> dict[str, list[str]]:
    """Return heading → cells of the table of stages."""
    columns: dict[str, list[str]] = {
        heading: [] for heading in ("stage", "from", "to", "p50", "p95", "p99", "completed", "ok")
    }
    for one in summary.stages:
        values = {name: estimate.value for name, estimate in one.metrics.items()}
        rate, share = values.get("throughput"), values.get("success_rate")
        times = (values.get(f"response.{stat}") for stat in ("p50", "p95", "p99"))
        cells = (
            one.label,
            f"{one.from_s:g} s",
            f"{one.to_s:g} s",
            *("–" if value is None else _ms(1000 * value) for value in times),
            "–" if rate is None else f"{rounded(rate, 4)}/s",
            show_value(share, "ratio"),
        )
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    return columns


def _success(summary: LoadSummary) -> Iterator[tuple[str, str]]:
    """Yield how many were ok; then what failed, how often, what it means and how long it took."""
    for text in summary.made_again:
        yield f"made again, since an earlier load failed: {text}", "yellow"
    for text in summary.gone:
        yield f"✗ {text}", "bold red"
    if any("until the end" in text for text in summary.gone):
        yield "  times and rates below cover the time before", ""
    style = "bold red" if summary.failed or not summary.ok else ""
    share = f" ({show_value(summary.ok / summary.requests, 'ratio')})" if summary.requests else ""
    failed = f", {summary.failed:,} failed" if summary.failed else ""
    yield f"{summary.ok:,} of {summary.requests:,} requests ok{share}{failed}{_mark(summary, 'ok')}", style
    for error in summary.error_hints:
        yield f"{error.count:,} × {error.name}: {error.hint}", "red"
    yield from ((line, "red") for line in _first_failure(summary))
    if summary.failed_response_ms is not None:
        took = summary.failed_response_ms
        texts = [
            f"{stat} {_ms(value)}"
            for stat in ("p50", "p99", "max")
            if (value := getattr(took, stat)) is not None
        ]
        yield f"failures took {', '.join(texts)} ms", "red"
    status = ", ".join(f"{count:,} × {code}" for code, count in sorted(summary.status.items()))
    yield f"status {status or 'none'}", "red" if summary.failed else ""


def _counts(summary: LoadSummary) -> Iterator[tuple[str, str]]:
    asked = f"due {_rate(summary.rate_asked_rps)}, " if summary.rate_asked_rps is not None else ""
    stopped = " (stopped)" if summary.interrupted else ""
    yield (
        f"{show_duration(summary.duration_s)}{stopped}: {asked}sent {_rate(summary.begun_rps)}, completed "
        f"{_rate(summary.throughput_rps)}{_mark(summary, 'throughput_rps')}; "
        f"{summary.in_flight:,} in flight and {summary.waiting:,} waiting at the end, {summary.dropped:,} dropped",
        "",
    )
    opened = summary.connections
    tls = (
        f" (TLS: {opened.tls_full:,} full handshakes, {opened.tls_resumed:,} resumed)"
        if opened.tls_full + opened.tls_resumed
        else ""
    )
    yield f"sent {show_size(summary.bytes_sent)}, received {show_size(summary.bytes_received)} · {count_words(opened.opened, 'connection')}{tls}", ""  # fmt: skip


def _ms(value: float) -> str:
    return f"{value:.3f}" if value < 1000 else f"{value:,.0f}"


def _rate(rate_rps: float | None) -> str:
    return "–" if rate_rps is None else f"{rate_rps:,.0f}/s" if rate_rps >= 100 else f"{rate_rps:.3g}/s"


def _clocks(summary: LoadSummary) -> dict[str, list[str]]:
    """Return heading → cells of the table of times."""
    rows = _rows(summary)
    cells = {stat.replace("_", "."): [_cell(summary, field, stat) for field in rows] for stat in _STATS}
    return {"ms": [label for label, _ in rows.values()]} | cells


def _rows(summary: LoadSummary) -> dict[str, tuple[str, str]]:
    rows = {"response_ms": ("response (from due)", "bold")}
    if summary.ok and summary.failed:
        rows["ok_response_ms"] = ("response, ok only", "")
    if summary.ok:
        rows["service_ms"] = ("service (from sent)", "")
    return rows | {"slot_wait_ms": ("slot wait", "dim"), "generator_lag_ms": ("generator lag", "dim")}


def _cell(summary: LoadSummary, field: str, stat: str) -> str:
    times: Times | Lag = getattr(summary, field)
    if stat not in type(times).model_fields:
        return ""
    value: float | None = getattr(times, stat)
    path = f"{field}.{stat.replace('_', '.')}"
    return short_why(summary.whys.get(path, "")) if value is None else f"{_ms(value)}{_mark(summary, path)}"


def _mark(summary: LoadSummary, path: str) -> str:
    """Return a number's mark as in the table of cases, with a space before it; "" for a valid one."""
    thin = path in summary.weak or summary.whys.get(path) == "grows"
    mark = mark_of(summary.grades.get(path, "VALID"), thin)
    return f" {mark}" if mark else ""


def _legend(summary: LoadSummary) -> str:
    """Return the meaning of the marks beside shown numbers; "" without any."""
    shown = [_cell(summary, field, stat) for field in _rows(summary) for stat in _STATS]
    shown += [_mark(summary, path) for path in _OTHERS]
    return meaning_of((text.rpartition(" ")[2] for text in shown), "grows" in summary.whys.values())


def _footnotes(summary: LoadSummary) -> Iterator[str]:
    if legend := _legend(summary):
        yield legend
    yield from summary.notes
    response = [path for path in summary.reasons if path.startswith("response_ms.")]
    if any(summary.whys.get(path) == "time-out" for path in response):
        yield _FAILED
    reasons = {summary.reasons[path] for path in response if summary.whys.get(path) != "time-out"}
    yield from sorted(reasons) if summary.ok else ()
    if summary.warm_up:
        slowest = summary.warm_up.slowest_ms
        held = "" if slowest is None else f" (slowest response there: {slowest:,.1f} ms)"
        yield f"times above exclude the first {show_duration(summary.warm_up.cut_s)} as warm-up{held}"
    silence = f"longest silence {summary.longest_silence_ms:,.1f} ms{_mark(summary, 'longest_silence_ms')}"
    if summary.model == "closed loop" and not summary.ok:
        yield silence
    elif summary.model == "closed loop":
        yield (
            f"{silence}. These users wait for each response, so a stall delays later requests unseen; for a fixed rate "
            f"use --rate {_offered(summary)}"
        )
    else:
        yield silence


def _offered(summary: LoadSummary) -> str:
    """Return a rate of four fifths of what the closed loop completed, which the server can sustain."""
    rate_rps = 0.8 * (summary.throughput_rps or 0)
    return f"{rate_rps:.2g}" if 0 < rate_rps < 10 else str(round(rate_rps, -1 if rate_rps >= 100 else 0) or 1).removesuffix(".0")  # fmt: skip


def _histogram(summary: LoadSummary, room: int) -> Iterator[Text]:
    """Yield one line per bar; neighbours share one if there is no room for all."""
    whole = [bar for bar in summary.histogram if bar.count]
    if not whole:
        return
    bars = summary.histogram[summary.histogram.index(whole[0]) : summary.histogram.index(whole[-1]) + 1]
    together = -(-len(bars) // max(room, _LEAST_BARS))
    joined = [bars[at : at + together] for at in range(0, len(bars), together)]
    counts = [sum(bar.count for bar in same) for same in joined]
    for same, count in zip(joined, counts, strict=True):
        length = -(-count * _BAR // max(counts))
        span = f"{same[0].from_ms:11.3f} … {same[-1].to_ms:11.3f} ms {count:>9,} "
        yield Text(span, style="").append("█" * length, style="cyan")


def _first_failure(summary: LoadSummary) -> Iterator[str]:
    """Yield what failed first, the server's answer to it, and the period in which requests failed."""
    first = summary.first_failure
    if first is None or summary.failed_s is None:
        return
    begin_s, end_s = summary.failed_s
    when = (
        f"after {show_duration(begin_s)}"
        if begin_s == end_s
        else f"failures from {begin_s:.2f} s to {end_s:.2f} s"
    )
    status = f", status {first.status}" if first.status else ""
    yield f"first failure: {first.error}{status}; {when} of the load"
    if first.body:
        yield f"  its response began: {first.body}"


def _verdicts(summary: LoadSummary) -> list[Text]:
    grade, state = summary.instrument.grade, summary.server.state
    lines = [Text.assemble((grade, GRADE_STYLE[grade]), _believed(summary))]
    lines += [Text(visible(f"  {reason}")) for reason in summary.instrument.reasons]
    if summary.instrument.remedy:
        lines.append(Text(visible(f"  → {summary.instrument.remedy}")))
    lines.append(Text.assemble("server ", (state, _SERVER_STYLE.get(state, ""))))
    lines += [Text(visible(f"  {reason}")) for reason in summary.server.reasons]
    if summary.measurable_rps and summary.ok:
        most = _rate(summary.measurable_rps)
        lines.append(
            Text(
                f"this machine could generate about {most} of this load with the same generators", style="dim"
            )
        )
    return lines


def _believed(summary: LoadSummary) -> str:
    if summary.instrument.grade == "VALID":
        rough = "WEAK" in summary.grades.values()
        return f": {'numbers' if not rough else 'numbers without ~'} are off by at most 5 %"
    return {"WEAK": ": numbers marked ~ are rough", "REFUSED": ": do not use these numbers"}[
        summary.instrument.grade
    ]
