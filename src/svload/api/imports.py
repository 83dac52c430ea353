"""Results of other load testers: imported as a run, or, for finished tables, checked for contradictions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from svload.api.runs import RUNS
from svload.api.typed import writing
from svload.model.errors import fail
from svload.model.events import Event

if TYPE_CHECKING:
    from svload.model.results import Findings, Imported
    from svload.store import RunDir
    from svload.tables.reading import Mark
    from svload.tables.table import TableCheckResult

Form = Literal["jtl", "locust", "k6", "table"]
Emit = Callable[[Event], None]
FACTOR = "file"
WHAT_CAN_BE_IMPORTED = (
    "JMeter: results.jtl (jmeter -l). Locust: NAME_stats_history.csv (--csv NAME). k6: --out json= or csv=. A table "
    "needs columns such as users, throughput_per_s, mean_response_ms; its .about.yaml can name them."
)
_LEVEL = re.compile(r"[A-Za-z0-9][\w.+-]{0,79}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class ImportedRun:
    """An imported run: its folder, its findings, the files that were written, and whether its blocks are
    separate in time."""

    run: RunDir
    imported: Mapping[str, Imported]
    findings: Findings
    files: Mapping[str, Path]
    interleaved: bool


def import_files(
    files: Sequence[str],
    form: Form | None = None,
    *,
    factor: str = FACTOR,
    name: str = "imported",
    out: Path = RUNS,
    emit: Emit = lambda event: None,
    whole: bool = False,
    write_report: bool = True,
) -> ImportedRun:
    """Import each file as a trial of one run: `FILE`, or `LEVEL=FILE`; several files of a level are its
    replicates, in the order given. Each is measured without its ramps, or as a `whole`.

    Raises SvloadError usage, import-unreadable with file and line. Tables are for `check_tables`.
    """
    from svload.api import runs
    from svload.model.results import TrialSummary
    from svload.store.foreign.run import Source, interleaved, must_be_read, write_run

    if not _NAME.fullmatch(factor):
        raise fail(
            "usage",
            reason=f"--factor takes a name, not “{factor}”",
            hint="A letter, then letters, digits, - and _.",
        )
    if factor in ("case", "valid"):
        reason = f"“{factor}” is a column of svload's own table of cases, so no factor can have this name"
        raise fail("usage", reason=reason, hint="Take another name.")
    sources = [Source(level, path) for level, path in levels_of(files)]
    forms = {must_be_read(source.path, form) for source in sources}
    if "table" in forms or len(forms) > 1:
        hint = "Import tables with --as table, and files of one tool at a time."
        raise fail(
            "usage",
            reason=f"these files are from different load testers ({', '.join(sorted(forms))})",
            hint=hint,
        )
    with writing(out):
        run = write_run(out, name, factor, sources, forms.pop(), emit, whole)
    findings, written = runs.report(run) if write_report else (runs.analyse(run), {})
    summaries = (TrialSummary.read(run.trial(trial).summary) for trial in run.sealed_trials())
    imported = {one.trial: one.imported for one in summaries if one.imported is not None}
    return ImportedRun(run, imported, findings, written, interleaved(run))


def levels_of(files: Sequence[str]) -> list[tuple[str, Path]]:
    """Return (level, path) of each `FILE` or `LEVEL=FILE`; the level of a bare file is its name. Raises
    SvloadError usage."""
    found: list[tuple[str, Path]] = []
    for text in files:
        level, equals, rest = text.partition("=")
        path = Path(text)
        if equals and not path.exists():
            if not _LEVEL.fullmatch(level):
                raise fail(
                    "usage",
                    reason=f"“{level}” is not a valid level name",
                    hint="Write it like before=before.jtl: letters, digits, and _ . + -.",
                )
            found.append((level, Path(rest)))
            continue
        plain = re.sub(r"[^\w.+-]+", "-", path.name.split(".")[0], flags=re.ASCII).strip("-._+")[:60]
        found.append((plain if _LEVEL.fullmatch(plain) else "load", path))
    return found


def check_tables(
    files: Sequence[str], given: Sequence[str] = (), decimal: Mark | None = None
) -> tuple[TableCheckResult, ...]:
    """Run every check of finished tables over these CSV files together. `given` are facts missing from the
    columns, such as `users=50`; `decimal` is the decimal mark if the cells don't show it.

    Raises SvloadError usage, import-unreadable with file and line.
    """
    from svload.store.foreign.bounds import shortened
    from svload.tables.checks import judge_tables
    from svload.tables.reading import read_table_file

    facts: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise fail(
                "usage", reason=f"--given {text} is not NAME=VALUE", hint="Write it like --given users=50."
            )
        facts[key] = value
    tables = [read_table_file(Path(file), facts, decimal) for file in files]
    results = judge_tables(tables)
    if not any(result.measured for result in results):
        names = shortened(", ".join(tables[0].columns))
        raise fail(
            "import-unreadable",
            place=files[0],
            path=Path(files[0]).name,
            reason=f"no check of tables knows a column of it ({names})",
            hint=WHAT_CAN_BE_IMPORTED,
        )
    return results


def better_files(files: Sequence[str]) -> list[str]:
    """Return, as sentences, which files hold more than these of the same tool."""
    from svload.store.foreign.locust import is_summary

    return [
        f"{Path(file).name} is Locust's summary, without users over time. Import "
        f"{Path(file).name.removesuffix('.csv')}_history.csv as well."
        for file in files
        if is_summary(Path(file))
    ]


def are_tables(files: Sequence[str]) -> bool:
    """Return whether all of these are CSV files of no known load tester. Raises SvloadError
    import-unreadable."""
    from svload.store.foreign.run import form_of

    return all(form_of(path) == "table" for _, path in levels_of(files))
