"""The guide, the verdicts and the counters: what stands where, what was found, and why it may be believed."""

from __future__ import annotations

from collections.abc import Sequence

from svload.report.data.gather import Gathered
from svload.report.page.ran import what_was_run
from svload.report.sheets.book import Sheet
from svload.report.sheets.layout import form_of_value, lines
from svload.report.sheets.rows import MOST_PROBE_ROWS, MOST_RESPONSES, LongTables
from svload.report.told.answer import LIMITS_TITLE, answer
from svload.report.told.causes import cause
from svload.report.told.spelling import count_words, load_line, outcome

_HEAD = 1
_NAMES, _TEXTS, _FOUND, _MEND = 30, 110, 82, 48


def fill_guide(
    sheet: Sheet, gathered: Gathered, contents: Sequence[tuple[str, str]], tables: LongTables
) -> None:
    """Question, answer, contents (sheet, what it holds), how numbers are made, and the run's facts."""
    findings = gathered.findings
    raw = sheet.raw
    raw.hide_gridlines(2)
    raw.set_column(0, 0, _NAMES)
    raw.set_column(1, 1, _TEXTS)
    sheet.page()
    whole = _NAMES + _TEXTS
    title = findings.question or findings.study
    sheet.across(0, 1, title, whole * 0.6, "title")
    raw.set_row(0, 22.0 * lines(title, whole * 0.6))
    if load_line(findings):
        sheet.across(1, 1, load_line(findings), whole, "told")
    row = 3
    found = answer(findings)
    if gathered.lock.plants:
        planted = ", ".join(f"{fault} in {case}" for case, fault in gathered.lock.plants.items())
        row = _pairs(sheet, row, "PLANTED FAULTS", [("spoiled on purpose", planted)])
    if found.nothing:
        said = [(line.certainty, line.text) for line in found.first]
        said.append(("nothing can be concluded", f"because {found.nothing}"))
        row = _pairs(sheet, row, "Answer", said)
    else:
        said = [(line.certainty, line.text) for line in found.first]
        said += [(one.certainty, f"{one.sentence} {one.needs}".strip()) for one in found.claims]
        said += [(line.certainty, line.text) for line in found.sentences]
        row = _pairs(sheet, row, "Answer", said)
    row = _pairs(sheet, row, LIMITS_TITLE, [(line.certainty, line.whole) for line in found.unsaid])
    row = _contents(sheet, row, contents)
    row = _pairs(sheet, row, "How the numbers are made", _HOW + _cap(tables))
    row = _pairs(sheet, row, "The run", what_was_run(gathered).facts)
    _pairs(sheet, row, "Not read", [("", note) for note in gathered.notes])


_HOW = [
    ("quantiles", "Nearest rank, failures above all: SMALL(response, ROUNDUP(p·n, 0)) over the rows of the kept window, or the same rank in a bucket table (buckets are at most 1/128 wide)."),
    ("to check one", "Click a number: its formula names the cells that it comes from. Summary, Response and comparisons name a case's rows of Trials; Trials names the rows of one trial."),
    ("units", "Seconds, bytes, requests per second (1/s), shares in percent; CPU in cores (1 is one core busy). A heading carries its unit; “probe: response p50, s” is probe.response.p50 of findings.json."),
    ("verdicts", "What each number is worth: VALID is off by 5 % at most; WEAK is rough, its range says how far it may be off; ✗ is REFUSED, of a broken trial: text, which no formula and no chart counts. The server: STEADY, SATURATED, OVERLOADED or UNKNOWN. An overloaded server is a finding."),
    ("n", "All requests that were due in the kept window. A failed request has an empty response cell and still counts in n."),
    ("a case", "GEOMEAN over its trials that count (of shares: AVERAGE), interval by Student's t over logarithms."),
    ("few", "A percentile that few independent requests carry: its interval lacks the end that none of them shows."),
    ("rows", "response_s has all nanoseconds; due_s and curl's variables are rounded to curl's own microseconds, speeds to four digits (probe.parquet has them whole)."),
    ("beside it", "probe.parquet, metrics.parquet and checks.parquet hold the long tables for programs, without a sheet's limit of rows."),
    ("values", "Every formula carries the value that svload computed; recalculating must not change it beyond rounding."),
]  # fmt: skip


def _cap(tables: LongTables) -> list[tuple[str, str]]:
    told = []
    if tables.shortened:
        text = (
            f"This workbook holds at most {MOST_PROBE_ROWS:,} whole requests. Of "
            f"{count_words(len(tables.shortened), 'more group')} of trials it holds the response times that "
            f"count; their other variables are in probe.parquet."
        )
        told.append(("left out", text))
    if tables.capped:
        text = (
            f"Bucket tables stand for {count_words(len(tables.capped), 'group')} of trials beyond "
            f"{MOST_RESPONSES:,} response times; their rows are in the run's samples.parquet."
        )
        told.append(("left out", text))
    return told


def _pairs(sheet: Sheet, row: int, title: str, pairs: Sequence[tuple[str, str]]) -> int:
    if not pairs:
        return row
    sheet.text(row, 0, title, "bold")
    for number, (name, text) in enumerate(pairs, 1):
        sheet.text(row + number, 0, name, "wrap")
        sheet.text(row + number, 1, text, "wrap")
        sheet.lines(row + number, [(name, _NAMES), (text, _TEXTS)])
    return row + len(pairs) + 2


def _contents(sheet: Sheet, row: int, contents: Sequence[tuple[str, str]]) -> int:
    sheet.text(row, 0, "Sheets", "bold")
    for number, (name, text) in enumerate(contents, 1):
        place = "internal:'" + name.replace("'", "''") + "'!A1"
        if sheet.raw.write_url(row + number, 0, place, None, name) != 0:
            sheet.text(row + number, 0, name)
        sheet.text(row + number, 1, text, "wrap")
        sheet.lines(row + number, [(name, _NAMES), (text, _TEXTS)])
    return row + len(contents) + 2


def fill_verdicts(sheet: Sheet, gathered: Gathered) -> None:
    """Every check on every trial, passed ones too."""
    rows = [(trial, check) for trial in gathered.findings.trials for check in trial.verdict.checks]
    sheet.text(0, 0, "May a trial be believed? Every check, in its own unit.", "note")
    headers = (
        *("case", "trial", "what could be wrong", "grade", "value", "limit", "what was found"),
        *("what would help", "in svload query"),
    )
    sheet.table(_HEAD, headers, len(rows), (9, 11, 40, 12, 12, 12, _FOUND, _MEND, 20), freeze=(_HEAD + 1, 3))
    for number, (trial, check) in enumerate(rows, _HEAD + 1):
        for column, text in (
            (0, trial.case),
            (1, trial.trial),
            (2, cause(check.check)),
            (8, check.check),
        ):
            sheet.text(number, column, text)
        sheet.text(number, 6, check.sentence, "beside")
        sheet.text(number, 7, check.remedy, "beside")
        sheet.lines(number, [(check.sentence, _FOUND - 2), (check.remedy, _MEND - 2)])
        sheet.text(number, 3, outcome(check), check.grade)
        sheet.number(number, 4, check.value, form_of_value(check.value))
        sheet.number(number, 5, check.limit, form_of_value(check.limit))


_COUNTERS = (
    "requests",
    "answers",
    "hits",
    "misses",
    "connections",
    "tls_handshakes",
    "tls_resumed",
    "body_bytes_out",
)


def fill_counters(sheet: Sheet, gathered: Gathered) -> None:
    """What the client wrote beside what each service counted over the load, trial by trial."""
    services = list(
        dict.fromkeys(facts.service for one in gathered.digests.values() for facts in one.lab.services)
    )
    offered = [
        (service, name)
        for service in services
        for name in _COUNTERS
        if any(
            name in one.lab.after[service].values
            for one in gathered.digests.values()
            if service in one.lab.after
        )
    ]
    client = ("written", "ok", "failed", "connections_opened", "tls_full", "tls_resumed", "body_bytes")
    headers = [
        "case",
        "trial",
        *(f"client: {name.replace('_', ' ')}" for name in client),
        *(f"{service}: {name.replace('_', ' ')}" for service, name in offered),
    ]
    sheet.text(
        0,
        0,
        "Counted over the load: by the generators (client), and by the servers themselves (after − before). "
        "Bodies in bytes.",
        "note",
    )
    sheet.table(
        _HEAD, headers, len(gathered.digests), [10, 11, *[13] * (len(headers) - 2)], freeze=(_HEAD + 1, 2)
    )
    for row, one in enumerate(gathered.digests.values(), _HEAD + 1):
        sheet.text(row, 0, one.case)
        sheet.text(row, 1, one.name)
        for column, name in enumerate(client, 2):
            sheet.number(
                row, column, sum(getattr(group.summary, name) for group in one.groups.values()), "count"
            )
        for column, (service, name) in enumerate(offered, 2 + len(client)):
            before, after = one.lab.before.get(service), one.lab.after.get(service)
            known = before is not None and after is not None and name in after.values
            value = after.values[name] - before.values.get(name, 0.0) if known and before and after else None
            sheet.number(row, column, value, "count", "not offered")
