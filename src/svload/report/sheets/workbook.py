"""report.xlsx: which sheets there are, in their order."""

from __future__ import annotations

from pathlib import Path

from svload import __version__
from svload.report.gather import Gathered
from svload.report.sheets.book import Book, clean
from svload.report.sheets.contrasts import fill_contrast
from svload.report.sheets.guide import fill_counters, fill_guide, fill_verdicts
from svload.report.sheets.rows import LongTables
from svload.report.sheets.summary import fill_response, fill_success, fill_summary, fill_usage
from svload.report.sheets.trials import fill_trials


def write_workbook(gathered: Gathered, path: Path) -> None:
    """Write the workbook. Raises OSError."""
    findings = gathered.findings
    book = Book(path, f"{findings.study} ({gathered.run.path.name})")
    book.workbook.set_properties(
        {
            "title": clean(findings.question or findings.study)[:255],
            "subject": clean(findings.study)[:255],
            "author": f"svload {__version__}",
        }
    )
    guide, summary, success, response = (
        book.sheet(name) for name in ("Guide", "Summary", "Success", "Response")
    )
    contrasts = [(comparison, book.sheet(comparison.name)) for comparison in gathered.lock.comparisons]
    usage, trials, verdicts, counters = (
        book.sheet(name) for name in ("CPU and memory", "Trials", "Verdicts", "Counters")
    )
    long = LongTables(book)
    long.add(gathered)
    table = fill_trials(trials, gathered, long)
    fill_summary(summary, gathered, table)
    fill_success(success, gathered, table)
    fill_response(response, gathered, table)
    for comparison, sheet in contrasts:
        fill_contrast(sheet, gathered, table, comparison)
    fill_usage(usage, gathered, table)
    fill_verdicts(verdicts, gathered)
    fill_counters(counters, gathered)
    contents = [
        (
            summary.name,
            "One row a case: verdicts, median response with its interval, tail, throughput, success, and which checks its trials failed; a chart of the medians.",
        ),
        (success.name, "Success and miss rates by case and traffic group."),
        (
            response.name,
            "Response times by case and traffic group, with load model and longest silence (the longest time in which no request ended).",
        ),
        *(
            (
                sheet.name,
                f"{comparison.factor} against {comparison.baseline}: pairs of cases that differ in it alone, their ratios, what may be claimed, and a chart.",
            )
            for comparison, sheet in contrasts
        ),
        (usage.name, "CPU and memory of each service in each case, with charts."),
        (
            trials.name,
            "One row a trial: its verdicts, its requests (due, ok, completed), and every headline number as a formula over its rows or buckets.",
        ),
        (
            verdicts.name,
            "Every check on every trial: value and limit in the check's own unit, what was found, what would mend it.",
        ),
        (counters.name, "What the client saw beside what the servers counted, trial by trial."),
        *((name, _LONG[kind]) for kind, name in long.sheets()),
    ]
    fill_guide(guide, gathered, contents, long)
    book.close()


_LONG = {
    "probe rows": "Every request of the groups that keep rows, with curl's eleven variables (size_ in bytes, speed_ in bytes per second, time_ in seconds); kept = 1 in the kept window.",
    "response times": "Response times of the ok requests of the kept window, in the order they were due, of trials beyond the first thousands of requests.",
    "bucket tables": "Response times of the ok requests of the kept window for groups too large for rows: each bucket's bounds and middle, its requests, and the sum up to it.",
}
