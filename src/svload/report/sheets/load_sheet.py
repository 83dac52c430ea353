"""The workbook's sheet of load curves: a row a level, with bounds; limits and demands below; native charts."""

from __future__ import annotations

from svload.model.load_curve import LoadCurve
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Sheet
from svload.report.sheets.drawn import CHART_ROWS, scatter_chart
from svload.report.told.curve_rows import demand_rows, limit_dimension, limit_rows, title_of, told_curves

NAME = "Load"
_HEAD = 2
_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("at", "at (users, 1/s or s)", "General"),
    ("think_s", "think time, s", "time_s"),
    ("throughput_rps", "throughput, 1/s", "rate_rps"),
    ("throughput_low", "throughput low, 1/s", "rate_rps"),
    ("throughput_high", "throughput high, 1/s", "rate_rps"),
    ("most_rps", "bound of throughput, 1/s", "rate_rps"),
    ("response_s", "mean response, s", "time_s"),
    ("response_low", "response low, s", "time_s"),
    ("response_high", "response high, s", "time_s"),
    ("least_s", "bound of response, s", "time_s"),
    ("accounted", "X·(R + Z) / N", "times"),
)
_PLACE = {name: 4 + number for number, (name, *_) in enumerate(_COLUMNS)}


def has_curves(gathered: Gathered) -> bool:
    """Whether some factor is a load."""
    return bool(told_curves(gathered.findings.curves))


def fill_load(sheet: Sheet, gathered: Gathered) -> None:
    """Every curve's levels as one table, then for each its limits, its demands and two charts."""
    curves = told_curves(gathered.findings.curves)
    rows = [(curve, point) for curve in curves for point in curve.points]
    sheet.text(
        0,
        0,
        "Throughput and response over each factor that is a load: means over trials with 95 % intervals, and the "
        "asymptotic bounds.",
        "note",
    )
    headers = ("curve", "case", "level", "trials", *(title for _, title, _ in _COLUMNS))
    sheet.table(_HEAD, headers, len(rows), [24, 12, 12, 8, *[13] * len(_COLUMNS)], freeze=(_HEAD + 1, 2))
    first: dict[int, int] = {}
    for number, (curve, point) in enumerate(rows, _HEAD + 1):
        first.setdefault(id(curve), number)
        for column, text in enumerate((title_of(curve), point.case, point.level)):
            sheet.text(number, column, text)
        sheet.number(number, 3, len(point.runs), "count")
        for name, _, form in _COLUMNS:
            sheet.number(number, _PLACE[name], getattr(point, name), form if form != "General" else "", "–")
    row = _HEAD + len(rows) + 3
    for curve in curves:
        row = _about(sheet, row, curve)
        row = _charts(sheet, row, curve, first[id(curve)])


def _about(sheet: Sheet, row: int, curve: LoadCurve) -> int:
    """Limits and demands of one curve from `row` on; the row after them."""
    sheet.text(row, 0, title_of(curve), "bold")
    row += 1
    for limit, words in zip(curve.limits, limit_rows(curve), strict=True):
        sheet.text(row, 0, limit.name)
        for column, value in enumerate((limit.value, limit.low, limit.high), 1):
            dimension = limit_dimension(limit.name)
            sheet.number(row, column, value, "times" if dimension == "count" else dimension)
        sheet.text(row, 4, f"{words.meaning}: {words.told}", "note")
        row += 1
    for demand, shown, capacity in demand_rows(curve):
        sheet.text(row, 0, demand.resource)
        for column, value in enumerate((demand.demand_s, demand.low, demand.high), 1):
            sheet.number(row, column, value, "time_s")
        full = "full first; " if demand.bottleneck else ""
        sheet.text(row, 4, f"{full}{shown} a request, of {capacity}", "note")
        row += 1
    return row + 1


def _charts(sheet: Sheet, row: int, curve: LoadCurve, first: int) -> int:
    last = first + len(curve.points) - 1
    for title, names, unit in (
        ("throughput", ("throughput_rps", "most_rps"), "1/s"),
        ("mean response", ("response_s", "least_s"), "s"),
    ):
        series = [
            (name, sheet.range(first, _PLACE["at"], last), sheet.range(first, _PLACE[column], last))
            for name, column in zip((title, "asymptotic bound"), names, strict=True)
            if any(getattr(point, column) is not None for point in curve.points)
        ]
        scatter_chart(sheet, f"{title}: {title_of(curve)}", (curve.factor, unit), series, (row, 1))
        row += CHART_ROWS
    return row + 1
