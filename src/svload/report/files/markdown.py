"""summary.md: the findings for a CI job's page and for a pull request's comment, in GitHub's Markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from svload.model.results import Findings
from svload.model.visible import visible
from svload.report.terminal.casetable import case_table
from svload.report.wording.answer import LIMITS_TITLE, Sentence, answer, headline, nothing_line
from svload.report.wording.claimed import Claimed, details
from svload.report.wording.criteria import (
    OUTCOME_MARKS,
    STAGE_HEADINGS,
    criterion_words,
    kept,
    measured_words,
    open_or_failed,
    stage_rows,
)
from svload.report.wording.ending import ending
from svload.report.wording.numbers import Numbers
from svload.report.wording.search_rows import level_rows, search_title, step_rows
from svload.report.wording.spelling import GRADE_MARK, count_words, load_line, outcome_words

_UNCUT = 1000
_MOST_THRESHOLDS = 60
_MARKS = re.compile(r"[\\`*|]|~(?=\S)|\](?=[(\[:])|!(?=\[)|(?<!\w)_|_(?!\w)|(?<=\w)_(?=_)|^[>#+-]|^\d+[.)]")
_MENTION = re.compile(r"(?<!\w)@(?=\w)|#(?=\d)")
"""GitHub looks for mentions after Markdown's escapes are resolved: only an invisible character prevents them."""
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;"})


def plain(text: str) -> str:
    """Return `text` as one line of Markdown that shows only its own characters: no markup, no HTML, no table
    cell ends, no mention of a user or an issue."""
    return _MENTION.sub(
        r"\g<0>&#8203;", _MARKS.sub(_escaped, " ".join(visible(text).split())).translate(_HTML)
    )


def _escaped(found: re.Match[str]) -> str:
    return f"{found[0][:-1]}\\{found[0][-1]}" if found[0][0].isdigit() else f"\\{found[0]}"


def summary_markdown(findings: Findings) -> str:
    """Return verdict, answer, thresholds and cases, with the limitations folded. About ten KiB at most:
    GitHub accepts 1 MiB per step."""
    title = findings.study + (f" ({findings.profile})" if findings.profile else "")
    found = answer(findings)
    parts = [f"## {_mark(findings)} {plain(title)}"]
    if findings.question:
        parts.append(f"*{plain(findings.question)}*")
    if load := load_line(findings):
        parts.append(plain(load))
    lead = headline(findings)
    parts.append(f"**{plain(lead)}**")
    if (nothing := nothing_line(found.nothing)) != lead:
        parts.append(plain(nothing))
    parts.append(_counts(findings))
    if found.planted:
        parts.append(_list(Sentence(text, "planted on purpose") for text in found.planted))
    parts.append(_list(found.first))
    parts += _claims(findings, found.claims)
    parts.append(_list(found.sentences))
    parts += _search(findings)
    parts += _thresholds(findings)
    parts += _cases(findings)
    parts += _stages(findings)
    if found.caveats:
        parts.append(_folded(LIMITS_TITLE, _list(found.caveats)))
    parts.append(f"<sub>{plain(findings.floor)}. In brackets: the 95 % interval over replicates.</sub>")
    return "\n\n".join(part for part in parts if part) + "\n"


def _mark(findings: Findings) -> str:
    """Return one mark for the whole run, as for the exit code: failed before not judged."""
    found = ending(findings)
    if found.failed:
        return "✗"
    return "?" if found.open or not findings.complete else "✓"


def _counts(findings: Findings) -> str:
    grades = [trial.verdict.instrument for trial in findings.trials]
    texts = [f"{grades.count(grade)} {GRADE_MARK[grade]} {grade}" for grade in GRADE_MARK if grade in grades]
    sealed = f"{findings.sealed_trials} of {count_words(findings.planned_trials, 'trial')}"
    return " · ".join([sealed, *texts])


def _list(sentences: Iterable[Sentence]) -> str:
    return "\n".join(
        "\n".join(
            [f"- {plain(one.text)} *({plain(one.certainty)})*", *(f"  - {plain(why)}" for why in one.reasons)]
        )
        for one in sentences
    )


_MOST_CLAIMS = 20


def _claims(findings: Findings, claims: Sequence[Claimed]) -> list[str]:
    """Return one row per comparison, then the details of each, folded."""
    if not claims:
        return []
    shown = claims[: max(_MOST_CLAIMS, sum(one.failed for one in claims))]
    rows = [
        (
            f"{one.sign} {one.claim.name}",
            one.effect_words or "no ratio",
            f"{one.sure} (exploratory)" if one.again else one.sure,
            one.gate,
        )
        for one in shown
    ]
    gated = any(row[3] for row in rows)
    headings = ("comparison", "effect (95 % interval)", "outcome", "gate")[: 4 if gated else 3]
    table = _table(headings, [row[: len(headings)] for row in rows])
    behind = "\n".join(
        f"- {plain(one.claim.name)}: "
        + plain("; ".join(f"{name} {text}" for name, text in details(findings, one).items()))
        for one in shown
    )
    more = len(claims) - len(rows)
    left = [f"{count_words(more, 'more comparison')} in the report."] if more > 0 else []
    return [table, *left, _folded("What is behind the comparisons", behind)]


def _search(findings: Findings) -> list[str]:
    """Return the question of the search, and one row per level or step."""
    found = findings.capacity
    if found is None:
        return []
    if found.gain is not None:
        steps = [row.cells for row in step_rows(found)]
        return [
            f"Sought: {plain(search_title(found))}",
            _table(("from", "to", "gain", "throughput"), steps, (True, True)),
        ]
    levels = [row.cells for row in level_rows(findings)]
    headings = (found.over, "verdict", "by", "measured", "throughput", "trials")
    return [f"Sought: {plain(search_title(found))}", _table(headings, levels, (True,))]


def _thresholds(findings: Findings) -> list[str]:
    """Return failed or undecided thresholds one by one, then one line per criterion that holds."""
    numbers = Numbers(findings)
    rows = [
        (
            f"{OUTCOME_MARKS[one.outcome]} {outcome_words(one.outcome)}",
            one.case,
            criterion_words(one.that),
            measured_words(numbers, one),
        )
        for one in open_or_failed(findings)
    ]
    parts = []
    if rows:
        parts.append(_table(("threshold", "case", "that", "measured"), rows[:_MOST_THRESHOLDS]))
    lines = kept(findings)
    if lines:
        parts.append("\n".join(f"- ✓ {plain(one.text)}" for one in lines[:_MOST_THRESHOLDS]))
    left = sum(max(0, len(shown) - _MOST_THRESHOLDS) for shown in (rows, lines))
    return [*parts, *([f"{count_words(left, 'more threshold')} in findings.json."] if left else [])]


def _cases(findings: Findings) -> list[str]:
    cases = case_table(findings, _UNCUT)
    if not cases.columns[0].cells:
        return []
    rows = zip(*((cell.text for cell in column.cells) for column in cases.columns), strict=True)
    right = [column.right for column in cases.columns]
    table = _table([column.heading for column in cases.columns], list(rows), right)
    return [table, *(f"<sub>{plain(note)}</sub>" for note in cases.notes)]


_MOST_STAGES = 40


def _stages(findings: Findings) -> list[str]:
    rows = stage_rows(findings)
    if not rows:
        return []
    table = _table(STAGE_HEADINGS, [row.cells for row in rows[:_MOST_STAGES]], (False,) * 3 + (True,) * 7)
    left = len(rows) - _MOST_STAGES
    return [
        "Numbers of a case in stages are over all of them; each by itself:",
        table,
        *([f"{count_words(left, 'more stage')} in the report."] if left > 0 else []),
    ]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool] = ()) -> str:
    rule = ["--:" if at < len(right) and right[at] else "---" for at in range(len(headings))]
    lines = [
        [plain(text) for text in headings],
        rule,
        *([plain(text) or " " for text in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{inside}\n\n</details>"
