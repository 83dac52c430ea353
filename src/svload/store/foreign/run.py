"""Files of other load testers become a run: lock, plan, sealed trials, as svload's own, each marked as imported."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from svload.model.certificates import Certificates
from svload.model.errors import fail
from svload.model.events import Event
from svload.model.facts import TrialLab
from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.results import GeneratorSummary, TrialSummary
from svload.model.study import Lock
from svload.model.summaries import Imported
from svload.store.foreign import jtl, jtl_xml, k6, locust
from svload.store.foreign.gaps import one_run
from svload.store.foreign.lines import lines_of
from svload.store.foreign.steps import summed, with_steps
from svload.store.foreign.tabulate import ALL, MOST_STEPS, Made, tabulate
from svload.store.journal import Journal
from svload.store.layout import RunDir
from svload.store.parquet import TABLES, read_table, write_trial_tables
from svload.store.seal import journal_mark, seal_trial, sha256_file, write_artefact
from svload.study.imported import ImportedCase, imported_study
from svload.study.loading import STUDY_FILE, load_study

Emit = Callable[[Event], None]
FORMS = ("jtl", "locust", "k6")
_TOOLS = {"jtl": "JMeter", "locust": "Locust", "k6": "k6"}
_NAMES = "names.csv"


@dataclass(frozen=True)
class Source:
    """One file to import, and the level of the factor that it is a replicate of."""

    level: str
    path: Path


def form_of(path: Path) -> str | None:
    """Which tool's file it is, by how it begins: jtl, locust or k6; `table` for another CSV; None: none is known."""
    if jtl_xml.is_xml(path):
        return "jtl"
    _, first = next(lines_of(path), (1, ""))
    if k6.is_k6_json(first) or k6.is_k6_csv(first):
        return "k6"
    if locust.is_history(first):
        return "locust"
    if ("timeStamp" in first and "elapsed" in first) or jtl.is_headless(path):
        return "jtl"
    return "table" if "," in first else None


def read_foreign(path: Path, form: str, whole: bool = False) -> Made:
    """The file's tables and totals, measured without ramps or as a `whole`. Raises SvloadError import-unreadable."""
    if form == "locust":
        return locust.read_history(path, whole)
    if form == "jtl":
        requests = jtl_xml.read_jtl_xml(path) if jtl_xml.is_xml(path) else jtl.read_jtl(path)
    else:
        _, first = next(lines_of(path), (1, ""))
        requests = k6.read_k6_csv(path) if k6.is_k6_csv(first) else k6.read_k6_json(path)
    return tabulate(one_run(path, requests), whole)


def write_run(
    out: Path, name: str, factor: str, sources: Sequence[Source], form: str, emit: Emit, whole: bool = False
) -> RunDir:
    """A run in `out` with a trial a file, sealed; several files of one level are its replicates, in the order given.

    Each is measured without its ramps, or as a `whole`.

    Raises SvloadError import-unreadable; OSError (disk full), and leaves no folder then.
    """
    run = RunDir.create(out, name)
    try:
        return _write(run, name, factor, sources, form, emit, whole)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise


def _write(
    run: RunDir, name: str, factor: str, sources: Sequence[Source], form: str, emit: Emit, whole: bool
) -> RunDir:
    levels = list(dict.fromkeys(source.level for source in sources))
    seen: dict[str, int] = dict.fromkeys(levels, 0)
    made: list[tuple[Source, int, Made, str]] = []
    for source in sources:
        seen[source.level] += 1
        emit(Event("notice", {"text": f"reading {source.path}"}))
        read = read_foreign(source.path, form, whole)
        folder = run.trial(trial_name(source.level, seen[source.level])).path
        write_trial_tables(folder, read.tables)
        made.append((source, seen[source.level], _small(read), sha256_file(source.path)))
    made = _aligned(run, made)
    lock = _lock(run, name, factor, levels, made)
    write_artefact(run.lock_path, lock)
    write_artefact(run.batch_path(0), _plan(made))
    write_artefact(run.certificates_path, Certificates())
    with Journal(run.events) as journal:
        journal.write(
            Event(
                "run-started",
                {
                    "study": lock.name,
                    "profile": None,
                    "trials": len(made),
                    "seed": lock.seed,
                    "imported": True,
                },
            )
        )
        previous: str | None = None
        for source, replicate, read, digest in sorted(made, key=lambda one: one[2].started_wall):
            _seal(run, source, replicate, read, digest, form, previous)
            previous = source.level
            journal.write(
                Event(
                    "trial-sealed",
                    {
                        "trial": trial_name(source.level, replicate),
                        "case": source.level,
                        "seconds": _seconds(read),
                    },
                )
            )
        data: dict[str, Any] = {"exit_code": 0, "sealed": len(made), "complete": True, "seconds": 0.0}
        journal.write(Event("run-ended", data | {"journal": journal_mark(run)}))
    run.make_latest()
    return run


def _aligned(
    run: RunDir, made: Sequence[tuple[Source, int, Made, str]]
) -> list[tuple[Source, int, Made, str]]:
    """Every trial with the steps of all files in one order, since a step is its place; of more than
    can be kept apart one is made."""
    wanted: dict[str, dict[str, None]] = {}
    for _, _, read, _ in made:
        for group, steps in read.steps.items():
            wanted.setdefault(group, {}).update(dict.fromkeys(steps))
    steps_of = {
        group: tuple(steps) if len(steps) <= MOST_STEPS else (ALL,) for group, steps in wanted.items()
    }
    found = []
    for source, replicate, read, digest in made:
        mine = {group: steps_of[group] for group in read.steps}
        if mine != dict(read.steps):
            folder = run.trial(trial_name(source.level, replicate)).path
            tables = {name: read_table(folder / f"{name}.parquet") for name in TABLES}
            write_trial_tables(folder, with_steps(tables, read, mine))
            read = replace(
                read, steps=mine, groups=tuple(summed(group, mine[group.name]) for group in read.groups)
            )
        found.append((source, replicate, read, digest))
    return found


def _small(made: Made) -> Made:
    """The same without its tables, which lie on disk."""
    return replace(made, tables={})


def _lock(
    run: RunDir, name: str, factor: str, levels: Sequence[str], made: Sequence[tuple[Source, int, Made, str]]
) -> Lock:
    cases = [_case(level, [read for source, _, read, _ in made if source.level == level]) for level in levels]
    percentiles = all(read.single for _, _, read, _ in made)
    text = imported_study(
        name,
        factor,
        cases,
        max(number for _, number, _, _ in made),
        percentiles=percentiles,
        case_names=_NAMES,
    )
    with TemporaryDirectory() as folder:
        file = Path(folder) / STUDY_FILE
        file.write_text(text, encoding="utf-8")
        with (Path(folder) / _NAMES).open("w", newline="", encoding="utf-8") as table:
            rows = csv.writer(table, lineterminator="\n")
            rows.writerow(("case", factor))
            rows.writerows((level, level) for level in levels)
        lock = load_study(file)
    where = made[0][0].path.parent
    return lock.model_copy(update={"study_dir": str(where)})


def _case(level: str, reads: Sequence[Made]) -> ImportedCase:
    users: dict[str, int] = {}
    steps: dict[str, dict[str, None]] = {}
    for read in reads:
        for group, count in read.vus.items():
            users[group] = max(users.get(group, 0), count)
        for group, names in read.steps.items():
            steps.setdefault(group, {}).update(dict.fromkeys(names))
    return ImportedCase(
        level=level,
        users=users,
        steps={group: tuple(names) for group, names in steps.items()},
        window_s=max(_seconds(read) for read in reads),
        longest_s=max(read.longest_ns for read in reads) / 1e9,
    )


def _seconds(read: Made) -> float:
    return (read.window_ns[1] - read.window_ns[0]) / 1e9


def _plan(made: Sequence[tuple[Source, int, Made, str]]) -> Batch:
    """The trials in the order in which they were begun; the i-th of each level make block i."""
    order = sorted(made, key=lambda one: one[2].started_wall)
    trials = tuple(
        TrialPlan(
            trial=trial_name(source.level, replicate),
            case=source.level,
            replicate=replicate,
            block=replicate,
            position=position,
            seed=0,
        )
        for position, (source, replicate, _, _) in enumerate(order)
    )
    return Batch(
        number=0,
        because="imported: the order is that of the files' first requests, and nobody drew it",
        trials=trials,
    )


def _seal(
    run: RunDir, source: Source, replicate: int, read: Made, digest: str, form: str, previous: str | None
) -> None:
    trial = run.trial(trial_name(source.level, replicate))
    length = read.window_ns[1]
    write_artefact(
        trial.summary,
        TrialSummary(
            trial=trial.name,
            case=source.level,
            started_wall=read.started_wall,
            start_at_ns=round(read.started_wall * 1e9),
            window_ns=read.window_ns,
            interval_ns=read.interval_ns,
            groups=read.groups,
            generators=(
                GeneratorSummary(
                    share="imported", cpu_ns=0, wall_ns=length, run_queue_ns=0, loop_pass_max_ns=0
                ),
            ),
            imported=Imported(
                tool=_TOOLS[form],  # type: ignore[arg-type]
                file=source.path.name,
                sha256=digest,
                clock_ns=read.clock_ns,
                requests=read.requests,
                single=read.single,
                users=dict(read.users),
                groups=dict(read.group_names),
                labels=dict(read.labels),
                notes=read.notes,
            ),
        ),
    )
    write_artefact(
        trial.lab,
        TrialLab(
            services=(),
            previous_case=previous,
            whole_plot=0,
            reset={},
            before={},
            after={},
            phases_s={},
        ),
    )
    with Journal(trial.events) as journal:
        journal.write(
            Event("trial-started", {"trial": trial.name, "case": source.level, "position": 0, "attempt": 1})
        )
    facts: Mapping[str, Any] = {"imported": {"file": source.path.name, "sha256": digest}, "shares": 1}
    seal_trial(trial, case=source.level, replicate=replicate, block=replicate, attempt=1, facts=facts)


def interleaved(run: RunDir) -> bool:
    """Whether each block ended before the next began, so that a drift of the machine hits all levels alike."""
    planned = run.planned_trials()
    blocks = [trial.block for trial in planned]
    return blocks == sorted(blocks)


def must_be_read(path: Path, form: str | None) -> str:
    """The form of a file that was not told. Raises SvloadError import-unreadable where it can't be seen."""
    found = form or form_of(path)
    if found is None:
        hint = "Name it with --as jtl, --as locust (its NAME_stats_history.csv), --as k6 or --as table."
        raise fail(
            "import-unreadable",
            place=str(path),
            path=path.name,
            reason="its first line is none that is known",
            hint=hint,
        )
    return found
