"""What commands print at their end: tables that fit 80 columns and sentences that can be read aloud. Of an
import what was read and what is missing; of a search its loads or steps in place of the cases, since each
level is a case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from svload.analysis.phases import TOTAL, WAITING, Outside, outside_load
from svload.model.capacity import CapacityResult
from svload.model.certificates import AaCertificate
from svload.model.errors import ExitCode
from svload.model.request_hints import HINTS
from svload.model.results import Estimate, Findings, Imported, TrialResult
from svload.model.units import rounded, show_duration, show_number, show_percent, show_size
from svload.model.visible import visible
from svload.report.terminal.casetable import CaseTable, case_table
from svload.report.terminal.console import MOST_LINES, console, height, number_table, plain_table
from svload.report.terminal.live import GRADE_STYLE, SEARCH_STYLES
from svload.report.wording.answer import Sentence, answer, headline, nothing_line
from svload.report.wording.claimed import GATE_MARKS, Claimed
from svload.report.wording.criteria import kept_lines
from svload.report.wording.doubts import COMMAND
from svload.report.wording.ending import exit_line
from svload.report.wording.search_rows import level_rows, nearest, step_rows
from svload.report.wording.spelling import (
    GRADE_MARK,
    count_words,
    instrument_line,
    instrument_words,
    list_words,
    load_line,
    main_group,
    number_words,
    show_value,
)

_STYLE = {**GRADE_STYLE, "no trial": "dim", "SATURATED": "yellow", "OVERLOADED": "red", "failures": "red"}
_WIDTH = 120
_GAP = 2
"""Space between two columns of a table."""
_LEAST_TEXT = 24
"""Minimum width of a longer cell, which is folded if the others need the space."""
_MANY = 4
"""Plans with this many equal lines, or more, print them once."""


def show_findings(
    findings: Findings, files: Mapping[str, Path], out: Console | None = None, *, code: ExitCode | None = None
) -> None:
    """Print the answer, one line per comparison; all doubts in one line; the cases; the files; last the exit
    code, if given, with its reason. On stdout, or on `out`.

    Takes at most `MOST_LINES` lines, apart from the table of cases, if the question and the load fit three.
    """
    out = out or console()
    width = min(out.width, _WIDTH)
    table = case_table(findings, width)
    head = [Text(visible(findings.question), style="italic")] if findings.question else []
    facts, paths = _facts(findings, out, width), _paths(files)
    remarks = table.notes if findings.capacity is None else ()
    notes = [Text(visible(note), style="dim") for note in remarks]
    end = [_exit_line(findings, code)] if code is not None else []
    spent = sum(height(out, line, width) for line in (*head, *notes, *facts, *end)) + len(paths)
    for line in (*head, *_answer_lines(findings, out, width, MOST_LINES - spent)):
        out.print(line, width=width)
    if findings.capacity is None:
        _show_cases(out, table)
    for shown in search_lines(findings):
        out.print(shown)
    for line in (*notes, *facts):
        out.print(line, width=width)
    for path in paths:
        out.print(path, soft_wrap=True)
    for line in end:
        out.print(line, width=width)


def _exit_line(findings: Findings, code: ExitCode) -> Text:
    styles = {ExitCode.DONE: "green", ExitCode.REFUSED: "yellow"}
    return Text(visible(exit_line(findings, code)), style=styles.get(code, "red"))


_GIVES_WAY = (
    ("sentences", 0), ("doubts", 2), ("first", 3), ("claims", 3), ("doubts", 1), ("first", 1), ("claims", 1), ("doubts", 0),
)  # fmt: skip
"""What is shortened in turn, and to how many lines, until the rest fits. Failed gates remain."""


@dataclass
class _Shown:
    """The lines of an answer, and how many of them are shown; failed gates are the first claims."""

    first: list[Text]
    claims: list[Claimed]
    sentences: list[Text]
    doubts: list[Text]
    always: tuple[list[Text], list[Text]]
    """lines before the claims, and before the doubts, that are always shown"""
    unshown: int
    """sentences that the answer itself has left out"""

    def __post_init__(self) -> None:
        self.claims.sort(key=lambda one: (not one.failed, one.outcome == "open"))
        self.gates = sum(one.failed for one in self.claims)
        self.shown = {name: len(getattr(self, name)) for name in ("first", "claims", "sentences", "doubts")}
        self.shown["claims"] = min(self.shown["claims"], max(_MOST_CLAIMS, self.gates))

    def lines(self) -> list[Text | Table]:
        """Return the shown lines in order, with a line for what is left out of each kind."""
        first, sentences, doubts = (
            getattr(self, name)[: self.shown[name]] for name in ("first", "sentences", "doubts")
        )
        claims = [*_claims(self.claims, self.shown["claims"])]
        caveats = (
            sum(len(getattr(self, name)) - self.shown[name] for name in ("first", "sentences")) + self.unshown
        )
        return [
            *first,
            *self.always[0],
            *claims,
            *_left_out(len(self.claims) - self.shown["claims"], "more comparison", "in the report"),
            *sentences,
            *_left_out(caveats, "more sentence", "in the report"),
            *self.always[1],
            *doubts,
            *_left_out(len(self.doubts) - self.shown["doubts"], "more doubt", f"in the report; {COMMAND}"),
        ]

    def fit(self, is_too_tall: Callable[[list[Text | Table]], bool]) -> list[Text | Table]:
        """Return as much as fits: at least a sentence or a claim of the answer, and every failed gate."""
        for name, least in _GIVES_WAY:
            floor = max(0 if least == 1 and self.first else least, self.gates) if name == "claims" else least
            while self.shown[name] > floor and is_too_tall(self.lines()):
                self.shown[name] -= 1
        return self.lines()


def _left_out(count: int, what: str, where: str) -> list[Text]:
    return [Text(f"{count_words(count, what)} {where}", style="dim")] if count > 0 else []


def _answer_lines(findings: Findings, out: Console, width: int, room: int) -> list[Text | Table]:
    """Return the answer in at most `room` lines if possible; what is left out is counted."""
    found = answer(findings)
    first = [_line(one) for one in found.first if found.nothing is None or findings.capacity is None]
    texts = [_line(one) for one in found.sentences]
    nothing = (
        [Text(visible(nothing_line(found.nothing)), style="bold red")] if found.nothing is not None else []
    )
    if not first and not texts and not found.claims and not nothing:
        first = [Text(visible(headline(findings)), style="bold")]
    planted = [*_kept(findings, out, width), *([_planted(found.planted)] if found.planted else [])]
    doubts = [Text(visible(_caveat_line(one)), style="yellow") for one in found.caveats]
    whole = _Shown(first, list(found.claims), texts, doubts, (nothing, planted), found.left_out)
    heights: dict[str, int] = {}

    def known(line: Text | Table) -> int:
        if isinstance(line, Table):
            return height(out, line, width)
        if line.plain not in heights:
            heights[line.plain] = height(out, line, width)
        return heights[line.plain]

    return whole.fit(lambda lines: sum(map(known, lines)) > room)


def _kept(findings: Findings, out: Console, width: int) -> list[Text]:
    """Return one line on the thresholds that hold, with their names if they fit."""
    lines = [Text(visible(f"✓ {line}"), style="green") for line in kept_lines(findings)]
    fitting = [line for line in lines if height(out, line, width) == 1]
    return (fitting or lines[-1:])[:1]


def _planted(faults: Sequence[str]) -> Text:
    more = f" And {len(faults) - 1} more." if len(faults) > 1 else ""
    return Text(visible(f"! {faults[0]}{more}"), style="magenta")


def _line(one: Sentence) -> Text:
    return Text(visible(f"{one.mark} {one.text}"), style="red" if one.mark == "✗" else "")


def _caveat_line(one: Sentence) -> str:
    """Return a doubt; if it has reasons, with the command that shows them."""
    return f"{one.mark} {one.text.rstrip('.')} – {COMMAND}" if one.reasons else f"{one.mark} {one.text}"


_OUTCOME_STYLE = {"decided": "bold", "no difference": "", "open": "yellow", "refused": "red"}
_MOST_CLAIMS, _LEAST_NAME, _LEAST_OUTCOME = 8, 18, 8


def _claims(claims: Sequence[Claimed], most: int) -> Iterator[Text | Table]:
    """Yield one line per comparison: mark, name (folded if narrow), effect with interval, outcome."""
    if not claims or not most:
        return
    keys = list(dict.fromkeys(one.key for one in claims))
    about = f" of {number_words(keys[0])}" if len(keys) == 1 else ""
    again = "; exploratory, since newer rules judged them" if claims[0].again else ""
    yield Text(visible(f"Comparisons{about}, with 95 % intervals{again}:"), style="dim")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", min_width=min(_LEAST_NAME, max(len(one.claim.name) for one in claims)))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", min_width=_LEAST_OUTCOME)
    for one in claims[:most]:
        gate = one.claim.gate
        cells = (
            one.sign,
            one.claim.name + (f", {number_words(one.key)}" if len(keys) > 1 else ""),
            one.effect_words or "no ratio",
            one.short + (f", {GATE_MARKS[gate.outcome]} gate" if gate else ""),
        )
        style = "red" if one.failed else _OUTCOME_STYLE[one.outcome]
        table.add_row(*(Text(visible(text), style=style) for text in cells))
    yield table
    for one in claims[:most]:
        if one.pooled:
            name = f"{one.claim.name}: " if len(claims) > 1 else ""
            itself = (
                f"; {one.claim.baseline} against itself: {one.against_itself}" if one.against_itself else ""
            )
            yield Text(
                visible(f"  {name}by turns; over all requests together {one.pooled}{itself}"), style="dim"
            )


_MOST_LOAD_LINES = 2


def _facts(findings: Findings, out: Console, width: int) -> list[Text]:
    """Return the load that was made, where the time went, the instrument's certificate."""
    lines = []
    for load in (load_line(findings), load_line(findings, main_group(findings))):
        text = Text(visible(load), style="dim")
        if load and height(out, text, width) <= _MOST_LOAD_LINES:
            lines.append(text)
            break
    if (outside := outside_load(findings.phases_s)) is not None:
        lines.append(Text(_outside_line(findings.phases_s, outside), style="dim"))
    return [*lines, Text(f"instrument certificate: {instrument_line(findings.instrument)}", style="dim")]


def _paths(files: Mapping[str, Path]) -> list[Text]:
    """Return one line per folder with its files; the report's path last."""
    by_folder: dict[Path, list[str]] = {}
    for name, path in files.items():
        if name != "report.html":
            by_folder.setdefault(path.parent, []).append(path.name)
    lines = [
        Text(f"{_short(folder)}/: {', '.join(names)}", style="dim") for folder, names in by_folder.items()
    ]
    return [*lines, *([Text(_short(files["report.html"]))] if "report.html" in files else [])]


_PHASES = {
    WAITING: "waiting for another svload on this machine",
    "install": "installing what the kits need",
    "look": "looking at the machine",
    "up": "preparing the lab",
    "fill": "filling stores",
    "reset": "resetting servers",
    "restart": "restarting servers",
    "set-up": "setting trials up",
    "populate": "populating caches",
    "drop-cache": "dropping files from memory",
    "warm": "warming caches",
    "warm-up": "warming up each side",
    "count": "reading counters",
    "settle": "waiting for counters",
    "write": "writing trials",
    "analyse": "judging trials",
    "report": "writing the report",
}


def _outside_line(phases_s: Mapping[str, float], outside: Outside) -> str:
    """Return how long the run took, how much of it was load, and what took the most of the rest."""
    load_s = phases_s[TOTAL] - outside.seconds
    text = f"{show_duration(phases_s[TOTAL])} in all, {show_duration(load_s)} of it under load"
    parts = [(seconds, name) for name, seconds in phases_s.items() if name in _PHASES]
    seconds, name = max(parts, default=(0.0, ""))
    return f"{text}; {show_duration(seconds)} {_PHASES[name]}." if name and seconds >= 1 else f"{text}."


def _say(out: Console, line: str, style: str = "") -> None:
    out.print(Text(visible(line), style=style), width=min(out.width, _WIDTH))


def _show_cases(out: Console, cases: CaseTable) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in cases.columns:
        table.add_column(
            Text(column.heading),
            justify="right" if column.right else "left",
            no_wrap=column.folds is None,
            overflow="fold",
            max_width=column.folds,
        )
    for cells in zip(*(column.cells for column in cases.columns), strict=True):
        table.add_row(*(Text(cell.text, style=_STYLE.get(cell.kind, "")) for cell in cells))
    out.print(table)


def show_plan(planned: Mapping[str, Any]) -> None:
    """Print what would be run, how long it takes and what each comparison could decide."""
    out = console()
    if planned["question"]:
        out.print(Text(str(planned["question"]), style="italic"))
    factors = list(dict.fromkeys(name for case in planned["cases"] for name in case["levels"]))
    table = plain_table(("case", *factors, "run"))
    together = _left_out_together(planned["cases"])
    for case in planned["cases"]:
        if case["excluded"] in together:
            continue
        note = "yes" if case["excluded"] is None else Text(f"no: {case['excluded']}", style="dim")
        table.add_row(case["name"], *(case["levels"].get(factor, "") for factor in factors), note)
    out.print(table)
    for reason, names in together.items():
        _say(out, f"{len(names)} cases are not run: {reason} ({list_words(names, 4)})")
    outside = 1 - planned["estimated_load_s"] / planned["estimated_s"]
    out.print(
        f"{count_words(planned['trials'], 'trial')}, about {show_duration(planned['estimated_s'])}, {100 * outside:.0f} % of "
        f"it without load "
        f"({planned['estimated_from']}), about {show_size(planned['estimated_bytes'])} on disk, "
        f"{count_words(planned['restarts'], 'restart')}, seed {planned['seed']}"
    )
    if planned["turns"] is not None:
        _say(out, _turns_line(planned["turns"]))
    if planned["why_trials"]:
        _say(out, f"Trials run one after the other, not in turns, because {planned['why_trials']}.")
    if planned["most_trials"] > planned["trials"]:
        _say(out, _until_line(planned))
    for group in planned["open_groups"]:
        _say(out, _places_line(group, planned["cases"]))
    for fault in planned["faults"]:
        _say(out, _fault_line(fault, planned["cases"]))
    for text, decidable in _comparison_lines(planned["comparisons"]):
        out.print(Text(text, style="" if decidable else "yellow"))
    for text in planned["cautions"]:
        out.print(Text(visible(text), style="yellow"))
    for need in planned["trusted_needed"]:
        out.print(Text(f"needs --trust: {need}", style="magenta"))


def _left_out_together(cases: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    by_reason: dict[str, list[str]] = {}
    for case in cases:
        if case["excluded"] is not None:
            by_reason.setdefault(case["excluded"], []).append(case["name"])
    return {reason: names for reason, names in by_reason.items() if len(names) >= _MANY}


def _comparison_lines(comparisons: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bool]]:
    """Yield (what a comparison can decide, whether it can); many equal ones once, followed by their names."""
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for one in comparisons:
        alike.setdefault(str(one["sentence"]).removeprefix(f"{one['name']}: "), []).append(one)
    for text, these in alike.items():
        decidable = these[0]["state"] == "decidable"
        if len(these) < _MANY:
            yield from ((f"• {one['sentence']}", decidable) for one in these)
            continue
        yield f"• {len(these)} comparisons, each: {text}", decidable
        yield from ((f"  {one['name']}", decidable) for one in these)


def _turns_line(turns: Mapping[str, Any]) -> str:
    """Return which sides take turns, and what decides how long a turn is."""
    sets = [list_words(one) for one in turns["sides"]]
    who = f"{sets[0]} are up at the same time and take turns"
    more = f"; so do {'; '.join(sets[1:4])}" if sets[1:] else ""
    others = f" and {len(sets) - 4} more sets" if sets[4:] else ""
    return (
        f"{who}{more}{others}. A turn is as long as the longest of {show_duration(turns['least_turn_s'])}, "
        f"{turns['times_p99']:g} × the p99 of the slower side's warm-up, and the time for {turns['holds']} "
        f"requests: at least {turns['rounds']} turns a side, so {show_duration(turns['block_s'])} a block "
        "beside the "
        "warm-up. With `order: trials` they would run one after the other."
    )


def _until_line(planned: Mapping[str, Any]) -> str:
    """Return how much blocks that are added until an interval is narrow enough may add to the estimate."""
    most, each_s = planned["most_trials"], planned["estimated_s"] / planned["trials"]
    return f"Blocks are added until the intervals are narrow enough: at most {most} trials, about {show_duration(most * each_s)}."


def _places_line(group: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> str:
    """Return `shoppers: at most 15,000 requests in flight (rate × timeout)`, with its cases."""
    where = _where(group["cases"], cases)
    return f"{group['group']}: at most {group['max_vus']:,} requests in flight{where} ({group['because']})"


def _fault_line(fault: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> str:
    """Return `planned fault: stop web[1], 10 s into measuring`."""
    return (
        f"planned fault: {fault['do']} {fault['target']}, {show_duration(fault['at_s'])} into "
        f"measuring{_where(fault['cases'], cases)}"
    )


def _where(mine: Sequence[str], cases: Sequence[Mapping[str, Any]]) -> str:
    """Return ` in TC1 and TC2`; nothing if these are all that are run."""
    everywhere = len(mine) == sum(case["excluded"] is None for case in cases)
    return "" if everywhere else f" in {list_words(list(mine))}"


def show_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a query's answer as a table of the columns that fit; then which ones do not."""
    out = console()
    cells = [[visible(_cell(cell)) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    left = out.width + _GAP
    shown = 0
    for name, *column in zip(map(visible, names), *cells, strict=True):
        least = min(max(map(cell_len, (name, *column))), _LEAST_TEXT, out.width)
        left -= least + _GAP
        if shown and left < 0:
            break
        shown += 1
        table.add_column(name, overflow="fold", min_width=least)
    for row in cells:
        table.add_row(*row[:shown])
    out.print(table)
    if beyond := [visible(name) for name in names[shown:]]:
        text = f"{len(beyond)} of {len(names)} columns do not fit: {', '.join(beyond)}"
        out.print(f"{text}. Select them by name, or use --json.")


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def show_comparison(rows: Sequence[Mapping[str, Any]], page: Path) -> None:
    """Print two runs, case by case; last the page that shows them."""
    out = console()
    if not rows:
        out.print("the two runs have no case in common")
    table = plain_table(("case", "metric", "ratio", ""))
    for row in rows:
        ratio = "–" if row["ratio"] is None else rounded(row["ratio"], 3)
        table.add_row(str(row["case"]), str(row["metric"]), ratio, str(row["note"]))
    if rows:
        out.print(table)
    out.print(Text(_short(page)), soft_wrap=True)


def show_probe(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print curl's variables: of one transfer as a list, of several as medians."""
    out = console()
    if len(rows) == 1:
        for name, value in rows[0].items():
            out.print(f"{name:20} {value:.6f}" if isinstance(value, float) else f"{name:20} {value}")
        _show_hints(out, rows)
        return
    names = [name for name, value in rows[0].items() if isinstance(value, (int, float))]
    in_order = [sorted(row[name] for row in rows) for name in names]
    columns = {"variable": names} | {
        heading: [show_number(values[at]) for values in in_order]
        for heading, at in (("min", 0), ("median", (len(rows) - 1) // 2), ("max", -1))
    }
    for part in number_table(columns, ("median", "max", "min"), out.width):
        out.print(part)
    failed = sum(1 for row in rows if row["error"])
    out.print(f"{len(rows)} transfers, {failed} failed")
    _show_hints(out, rows)


def _show_hints(out: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    for name in dict.fromkeys(str(row["error"]) for row in rows if row["error"]):
        out.print(Text(f"{name}: {HINTS[name]}", style="red"))


def show_doctor(found: Mapping[str, Any]) -> None:
    """Print the machine's facts, then what is missing."""
    out = console()
    for name, value in found["machine"].items():
        out.print(f"{name:24} {value}")
    for line in instrument_words(found["instrument"]):
        out.print(line)
    for problem in found["problems"]:
        out.print(Text(problem, style="red"))
    if not found["problems"]:
        out.print(Text("nothing is missing", style="green"))


def show_aa(certificate: AaCertificate | None, run: Path) -> None:
    """Print the floors of an A/A run, by load and metric, or that none were made."""
    out = console()
    if certificate is None:
        out.print(f"No certificate: too few usable pairs, or the run is incomplete. Its trials: {run}")
        return
    out.print(
        f"{certificate.pairs} pairs of {', '.join(certificate.cases)}"
        + (", restarted before each trial" if certificate.restarts else "")
        + "; the floor is larger than the effect in 95 % of the pairs"
    )
    shown = (".p50", ".p95", ".p99", ".mean", ".throughput")
    floors = [floor for floor in certificate.floors if floor.metric.endswith(shown)]
    columns = {
        "metric": [floor.metric for floor in floors],
        "floor": [show_percent(exp(floor.floor) - 1) for floor in floors],
        "sd of a pair": [show_percent(exp(floor.sd) - 1) for floor in floors],
    }
    for part in number_table(columns, ("floor", "sd of a pair"), out.width):
        out.print(part)
    out.print(f"The floor applies to these settings on {certificate.place}. Its trials: {run}")


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


_MOST_LEVELS = 14


def search_lines(findings: Findings) -> Iterator[Text | Table]:
    """Yield the table, and the number of levels left out; nothing if the run is no search."""
    found = findings.capacity
    if found is None:
        return
    yield _search_steps(found) if found.gain is not None else _search_levels(findings, found)
    left = len(found.levels) - _MOST_LEVELS
    if left > 0:
        yield Text(f"{count_words(left, 'more load')} in the report", style="dim")


def _search_levels(findings: Findings, found: CapacityResult) -> Table:
    rows = nearest(level_rows(findings), found, _MOST_LEVELS)
    servers = {case.case: case.server or "" for case in findings.cases}
    criteria = list(dict.fromkeys(row.by for row in rows if row.by))
    one = len(criteria) == 1  # then it is the heading
    measured = (criteria[0],) if one else ("measured", "by")
    table = _search_table((found.over, "", *measured, "throughput", "server", "trials"))
    for row in rows:
        load, outcome, by, number, throughput, trials = map(visible, row.cells)
        server = visible(servers.get(row.level.case, ""))
        text = Text(outcome, style=SEARCH_STYLES[row.level.outcome])
        table.add_row(load, text, number, *([] if one else [by]), throughput, server, trials)
    return table


def _search_steps(found: CapacityResult) -> Table:
    table = _search_table((found.over, "to", "gain", "throughput"))
    for row in sorted(step_rows(found), key=lambda one: one.step.low_load)[:_MOST_LEVELS]:
        table.add_row(*row.cells)
    return table


def _search_table(headings: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, heading in enumerate(headings):
        table.add_column(Text(visible(heading)), justify="right" if at == 0 else "left", overflow="fold")
    return table


_SHOWN_TIMES = ("p50", "p95", "p99", "mean")


def show_import(
    findings: Findings,
    imported: Mapping[str, Imported],
    files: Mapping[str, Path],
    interleaved: bool,
    code: ExitCode,
) -> None:
    """Print a few lines per trial, then the findings as for any run."""
    out = console()
    for result in findings.trials:
        imported_trial = imported.get(result.trial)
        if imported_trial is not None:
            _imported_trial(out, result, imported_trial)
    if len(findings.trials) > 1 and not interleaved:
        out.print(
            "The levels were not interleaved: drift is inside every difference between them.", style="yellow"
        )
    show_findings(findings, files, code=code)


def _imported_trial(out: Any, result: TrialResult, imported: Imported) -> None:
    users = ", ".join(
        f"{count} users of {imported.groups.get(group, group)}" for group, count in imported.users.items()
    )
    out.print(
        f"{result.trial}: {imported.requests:,} requests from {imported.tool} ({imported.file}){': ' + users if users else ''}"
    )
    for group in imported.groups or {"load": ""}:
        numbers = _shown_times(result, f"{group}.response")
        rate, success = _value_of(result, f"{group}.throughput"), _value_of(result, f"{group}.success_rate")
        head = [f"{rounded(rate, 4)}/s"] if rate is not None else []
        head += [f"{show_value(success, 'ratio')} ok"] if success is not None else []
        out.print(f"  {group}: {', '.join([*head, *numbers])}")
        if success not in (None, 1.0) and (times := _shown_times(result, f"{group}.ok_response")):
            out.print(f"  {group}, ok only: {', '.join(times)}")
    for check in result.verdict.checks:
        if check.measured and check.check in ("imported-little", "imported-instrument", "warm-up"):
            out.print(
                Text(
                    f"  {GRADE_MARK[check.grade]} {check.sentence}",
                    style="dim" if check.grade == "VALID" else "",
                )
            )


def _shown_times(result: TrialResult, metric: str) -> list[str]:
    """Return the shown statistics of a time, those that have a value."""
    values = {stat: _value_of(result, f"{metric}.{stat}") for stat in _SHOWN_TIMES}
    return [f"{stat} {show_duration(value)}" for stat, value in values.items() if value is not None]


def _value_of(result: TrialResult, name: str) -> float | None:
    estimate: Estimate | None = result.metrics.get(name)
    return estimate.value if estimate is not None else None


def show_tables(results: Sequence[Mapping[str, Any]]) -> None:
    """Print every finding with its place, by its check's name; then the checks without findings, and what was
    not measured."""
    out = console()
    for result in results:
        for finding in result["findings"]:
            out.print(Text(result["check"], style="bold"), Text(f"({finding['place']})", style="dim"))
            out.print(f"  {finding['sentence']}")
            out.print(Text(f"  svload: {finding['instead']}", style="dim"))
    quiet = [result["check"] for result in results if result["measured"] and not result["findings"]]
    if quiet:
        out.print(f"{count_words(len(quiet), 'check')} found nothing: {', '.join(quiet)}.")
    if lacking := sum(not result["measured"] for result in results):
        out.print(
            Text(
                f"{count_words(lacking, 'more check')} had no column to read (--json names them).",
                style="dim",
            )
        )
