"""report.xlsx: which sheets there are, in their order."""

from __future__ import annotations

from pathlib import Path

from svload import __version__
from svload.report.data.gather import Gathered
from svload.report.sheets.book import Book, clean
from svload.report.sheets.contrasts import fill_contrast
from svload.report.sheets.faults import NAME as FAULTS
from svload.report.sheets.faults import fill_faults, has_faults
from svload.report.sheets.functions import NAME as FUNCTIONS
from svload.report.sheets.functions import fill_functions, has_functions
from svload.report.sheets.generators import NAME as GENERATORS
from svload.report.sheets.generators import fill_generators, has_generators
from svload.report.sheets.guide import fill_counters, fill_guide, fill_verdicts
from svload.report.sheets.load_sheet import NAME as LOAD
from svload.report.sheets.load_sheet import fill_load, has_curves
from svload.report.sheets.own import fill_own
from svload.report.sheets.rows import LongTables
from svload.report.sheets.search_sheet import NAME as SEARCH
from svload.report.sheets.search_sheet import fill_search
from svload.report.sheets.stages import NAME as STAGES
from svload.report.sheets.stages import fill_stages, has_stages
from svload.report.sheets.summary import fill_response, fill_success, fill_summary, fill_usage
from svload.report.sheets.trials import fill_trials
from svload.report.told.own import own_note


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
    found = findings.capacity
    searched = [book.sheet(SEARCH)] if found is not None else []
    load = [book.sheet(LOAD)] if has_curves(gathered) else []
    stages = [book.sheet(STAGES)] if has_stages(gathered) else []
    parts = [book.sheet(GENERATORS)] if has_generators(gathered) else []
    faults = [book.sheet(FAULTS)] if has_faults(gathered) else []
    functions = [book.sheet(FUNCTIONS)] if has_functions(gathered) else []
    own = [(table, book.sheet(table.title)) for table in gathered.own.tables] if gathered.own else []
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
    for sheet in searched:
        assert found is not None
        fill_search(sheet, gathered, found)
    for sheet in load:
        fill_load(sheet, gathered)
    for sheet in stages:
        fill_stages(sheet, gathered)
    for sheet in parts:
        fill_generators(sheet, gathered)
    for sheet in faults:
        fill_faults(sheet, gathered)
    for sheet in functions:
        fill_functions(sheet, gathered)
    for own_table, sheet in own:
        fill_own(sheet, own_table, own_note(gathered.own, findings.sealed_trials) if gathered.own else "")
    fill_usage(usage, gathered, table)
    fill_verdicts(verdicts, gathered)
    fill_counters(counters, gathered)
    contents = [
        (
            summary.name,
            "One row a case: verdicts, median response with its interval, tail, throughput, success, and "
            "which checks its trials failed; a chart of the medians.",
        ),
        (success.name, "Success and miss rates by case and traffic group."),
        (
            response.name,
            "Response times by case and traffic group, with load model and longest silence (the longest time "
            "in which no request ended).",
        ),
        *(
            (
                sheet.name,
                f"{comparison.factor} against {comparison.baseline}: pairs of cases that differ in it alone, "
                f"their ratios, what may be claimed, and a chart.",
            )
            for comparison, sheet in contrasts
        ),
        *(
            (
                sheet.name,
                "The search for the largest load: the answer, every level with its verdict, charts, and "
                "every trial in the "
                "order they ran.",
            )
            for sheet in searched
        ),
        *(
            (
                sheet.name,
                "Throughput and response over each factor that is a load (users, rate, think time), with bounds, "
                "limits, demands and charts.",
            )
            for sheet in load
        ),
        *(
            (
                sheet.name,
                "Each ramp and level of loads in stages by itself, and which thresholds a level keeps.",
            )
            for sheet in stages
        ),
        *(
            (sheet.name, "Each generator's own results by case, before they are put together.")
            for sheet in parts
        ),
        *(
            (
                sheet.name,
                "What the study planned to do to its servers in each trial, when it was done, and how soon "
                "the load was back.",
            )
            for sheet in faults
        ),
        *(
            (sheet.name, "The functions of the sampled service that used most CPU, case by case.")
            for sheet in functions
        ),
        *((sheet.name, f"{own_table.title}: a table of the study’s own.") for own_table, sheet in own),
        (usage.name, "CPU and memory of each service in each case, with charts."),
        (
            trials.name,
            "One row a trial: its verdicts, its requests (due, ok, completed), and every headline number as "
            "a formula over its rows or buckets.",
        ),
        (
            verdicts.name,
            "Every check on every trial: value and limit in the check's own unit, what was found, what would help.",
        ),
        (counters.name, "What the client saw beside what the servers counted, trial by trial."),
        *((name, _LONG[kind]) for kind, name in long.sheets()),
    ]
    fill_guide(guide, gathered, contents, long)
    book.close()


_LONG = {
    "probe rows": "Every request of the groups that keep rows, with curl's eleven variables (size_ in bytes, "
    "speed_ in bytes per second, time_ in seconds); kept = 1 in the kept window.",
    "response times": "Response times of the ok requests of the kept window, in the order they were due, of "
    "trials beyond the first thousands of requests.",
    "bucket tables": "Response times of the ok requests of the kept window for groups too large for rows: "
    "each bucket's bounds and middle, its requests, and the sum up to it.",
}
