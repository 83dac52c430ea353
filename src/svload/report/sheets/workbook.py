"""report.xlsx: its sheets in order, and the guide that names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from svload import __version__
from svload.report.data.gather import Gathered
from svload.report.page.ran import what_was_run
from svload.report.sheets.book import Book, Sheet, clean, lines
from svload.report.sheets.contrasts import fill_contrast, fill_rounds
from svload.report.sheets.data import MOST_PROBE_ROWS, fill_data
from svload.report.sheets.data import NAME as DATA
from svload.report.sheets.summary import fill_cases, fill_generators, fill_own, fill_summary, fill_trials, ran
from svload.report.wording.answer import LIMITS_TITLE, answer
from svload.report.wording.spelling import count_words, load_line

_NAMES, _TEXTS = 30, 110


def write_workbook(gathered: Gathered, path: Path) -> None:
    """Write the workbook. Raises OSError."""
    findings = gathered.findings
    book = Book(path, f"{findings.study} ({gathered.run.path.name})")
    titles = {
        "title": clean(findings.question or findings.study)[:255],
        "subject": clean(findings.study)[:255],
    }
    book.workbook.set_properties(titles | {"author": f"svload {__version__}"})
    guide, summary = book.sheet("Guide"), book.sheet("Summary")
    contrasts = [(one, book.sheet(one.name)) for one in gathered.lock.comparisons]
    turned = [claim for claim in findings.claims if claim.turns is not None]
    rounds = book.sheet("Rounds") if turned else None
    cases = book.sheet("Cases")
    parts = book.sheet("By generator") if any(case.generators for case in ran(gathered)) else None
    own = gathered.own or {"note": "", "tables": []}
    own_sheets = [(one, book.sheet(one["title"])) for one in own["tables"]]
    trials = book.sheet("Trials")
    table = fill_trials(trials, gathered)
    fill_summary(summary, gathered, table)
    for comparison, sheet in contrasts:
        fill_contrast(sheet, gathered, table, comparison)
    if rounds:
        fill_rounds(rounds, turned)
    fill_cases(cases, gathered, table)
    if parts:
        fill_generators(parts, gathered)
    for own_table, sheet in own_sheets:
        fill_own(sheet, own_table, own["note"])
    left_out = fill_data(book, gathered)
    contents = [
        (summary.name, "One row per case: verdicts, the main group's numbers with their interval, doubts; a chart of the medians."),
        *((sheet.name, f"{one.factor} against {one.baseline}: pairs of cases, their ratios, what may be claimed, a chart.") for one, sheet in contrasts),
        *((sheet.name, "One row per round of sides that took turns: both numbers, their ratio, what other programs used.") for sheet in (rounds,) if sheet),
        (cases.name, "Every number of every case: success, throughput, response times, CPU and memory."),
        *((sheet.name, "Each generator's own results by case, before they are put together.") for sheet in (parts,) if sheet),
        *((sheet.name, f"{one['title']}: a table of the study’s own.") for one, sheet in own_sheets),
        (trials.name, "One row per trial: its verdicts, its requests (due, ok, completed) and its numbers."),
        *((DATA, "Requests of the groups that keep rows, with curl's eleven variables; kept = 1 in the kept window.") for name in book.names if name == DATA),
    ]  # fmt: skip
    _fill_guide(guide, gathered, contents, left_out)
    book.close()


def _fill_guide(
    sheet: Sheet, gathered: Gathered, contents: Sequence[tuple[str, str]], left_out: Sequence[str]
) -> None:
    """Write question, answer, contents (sheet, what it holds), how numbers are made, and the run's facts."""
    findings, raw, whole = gathered.findings, sheet.raw, _NAMES + _TEXTS
    raw.hide_gridlines(2)
    raw.set_column(0, 0, _NAMES)
    raw.set_column(1, 1, _TEXTS)
    sheet.page()
    title = findings.question or findings.study
    sheet.across(0, 1, title, whole * 0.6, "title")
    raw.set_row(0, 22.0 * lines(title, whole * 0.6))
    if load_line(findings):
        sheet.across(1, 1, load_line(findings), whole, "paragraph")
    found, row = answer(findings), 3
    if gathered.lock.plants:
        planted = ", ".join(f"{fault} in {case}" for case, fault in gathered.lock.plants.items())
        row = _pairs(sheet, row, "PLANTED FAULTS", [("spoiled on purpose", planted)])
    texts = [(line.certainty, line.text) for line in found.first]
    if found.nothing:
        texts.append(("nothing can be concluded", f"because {found.nothing}"))
    else:
        texts += [(one.certainty, f"{one.sentence} {one.needs}".strip()) for one in found.claims]
        texts += [(line.certainty, line.text) for line in found.sentences]
    row = _pairs(sheet, row, "Answer", texts)
    row = _pairs(sheet, row, LIMITS_TITLE, [(line.certainty, line.whole) for line in found.caveats])
    row = _pairs(sheet, row, "Sheets", contents)
    more = f"This workbook holds at most {MOST_PROBE_ROWS:,} requests. probe.parquet has those of {count_words(len(left_out), 'more group')} of trials."
    row = _pairs(sheet, row, "How the numbers are made", [*_HOW, *([("left out", more)] if left_out else [])])
    row = _pairs(sheet, row, "The run", what_was_run(gathered).facts)
    _pairs(sheet, row, "Not read", [("", note) for note in gathered.notes])


_HOW = [
    ("units", "Seconds, bytes, requests per second (1/s), shares in percent; CPU in cores (1 is one core busy). A heading carries its unit; “probe: response p50, s” is probe.response.p50 of findings.json."),
    ("verdicts", "What each number is worth: VALID is off by 5 % at most; WEAK is rough, its range says how far it may be off; ✗ is REFUSED, of a broken trial: text, which no formula and no chart counts. The server: STEADY, SATURATED, OVERLOADED or UNKNOWN. An overloaded server is a finding."),
    ("a trial", "Of all requests that were due in the kept window. Percentiles rank failures above all others; they and intervals are numbers as svload computed them, shares and rates are formulas."),
    ("a case", "GEOMEAN over its trials that count (of shares and counts: AVERAGE), interval by Student's t over logarithms. Where that is not how svload computed it, the cell holds the number alone."),
    ("beside it", "probe.parquet, metrics.parquet and checks.parquet hold the long tables for programs; report.html has every check, load curve, search and stage."),
]  # fmt: skip


def _pairs(sheet: Sheet, row: int, title: str, pairs: Sequence[tuple[str, str]]) -> int:
    """Write a heading and (name, text) below it; a sheet's name is a link. Return the next free row."""
    if not pairs:
        return row
    sheet.text(row, 0, title, "bold")
    for number, (name, text) in enumerate(pairs, row + 1):
        place = "internal:'" + name.replace("'", "''") + "'!A1"
        if title != "Sheets" or sheet.raw.write_url(number, 0, place, None, name) != 0:
            sheet.text(number, 0, name, "wrap")
        sheet.text(number, 1, text, "wrap")
        sheet.lines(number, [(name, _NAMES), (text, _TEXTS)])
    return row + len(pairs) + 2
