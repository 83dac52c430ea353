"""Conversion of other load testers' files to a run: lock, plan, sealed trials, like svload's own, each marked
as imported."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np

from svload.model.certificates import Certificates
from svload.model.errors import SvloadError, fail
from svload.model.events import Event, EventKind
from svload.model.facts import TrialLab
from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.results import GeneratorSummary, GroupSummary, StepSummary, TrialSummary
from svload.model.study import Lock
from svload.model.summaries import Imported
from svload.store.foreign import jtl, jtl_xml, k6, locust
from svload.store.foreign.bounds import unreadable
from svload.store.foreign.gaps import one_run
from svload.store.foreign.lines import lines_of
from svload.store.foreign.tabulate import ALL, MOST_STEPS, Made, tabulate
from svload.store.journal import Journal
from svload.store.layout import RunDir
from svload.store.parquet import TABLES, Arrays, read_table, sum_by_key, write_trial_tables
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
    """Return the tool that a file is from, by its beginning: jtl, locust or k6; `table` for another CSV; None
    if unknown."""
    if jtl_xml.is_xml(path):
        return "jtl"
    _, first = next(lines_of(path), (1, ""))
    if k6.is_k6_json(first) or k6.is_k6_csv(first):
        return "k6"
    if locust.is_history(first):
        return "locust"
    if ("timeStamp" in first and "elapsed" in first) or jtl.headless(path):
        return "jtl"
    return "table" if any(sign in first for sign in ",;\t|") else None


def read_foreign(path: Path, form: str, whole: bool = False) -> Made:
    """Return the file's tables and totals, measured without ramps or as a `whole`. Raise SvloadError
    import-unreadable."""
    if form == "locust":
        return locust.read_history(path, whole)
    if form == "jtl":
        requests = jtl_xml.read_jtl_xml(path) if jtl_xml.is_xml(path) else jtl.read_jtl(path)
    else:
        _, first = next(lines_of(path), (1, ""))
        requests = k6.read_k6_csv(path) if k6.is_k6_csv(first) else k6.read_k6_json(path)
    try:
        return tabulate(one_run(path, requests), whole)
    except duckdb.ConversionException as why:
        hint = "See that its columns are under the right names."
        raise unreadable(path, None, "its times are beyond all sense: their sum is too large", hint) from why


def write_run(
    out: Path, name: str, factor: str, sources: Sequence[Source], form: str, emit: Emit, whole: bool = False
) -> RunDir:
    """Write a run in `out` with a sealed trial per file; several files of one level are its replicates, in
    the order given.

    Each is measured without its ramps, or as a `whole`.

    Raise SvloadError import-unreadable; OSError (disk full), and then leave no folder.
    """
    run = RunDir.create(out, name)
    try:
        return _write(run, name, factor, sources, form, emit, whole)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise


@dataclass(frozen=True)
class _Trial:
    """A file as a trial of the run. Its tables are on disk."""

    source: Source
    replicate: int
    read: Made
    sha256: str

    @property
    def name(self) -> str:
        return trial_name(self.source.level, self.replicate)

    @property
    def seconds(self) -> float:
        low, high = self.read.window_ns
        return (high - low) / 1e9


def _write(
    run: RunDir, name: str, factor: str, sources: Sequence[Source], form: str, emit: Emit, whole: bool
) -> RunDir:
    seen: Counter[str] = Counter()
    trials: list[_Trial] = []
    for source in sources:
        seen[source.level] += 1
        emit(Event("notice", {"text": f"reading {source.path}"}))
        read = read_foreign(source.path, form, whole)
        trial = _Trial(source, seen[source.level], replace(read, tables={}), sha256_file(source.path))
        write_trial_tables(run.trial(trial.name).path, read.tables)
        trials.append(trial)
    steps = _steps_of_all(trials)
    lock = _lock(run, name, factor, trials, steps)
    trials = sorted((_aligned(run, trial, steps) for trial in trials), key=lambda one: one.read.started_wall)
    write_artefact(run.lock_path, lock)
    write_artefact(run.batch_path(0), _plan(trials))
    write_artefact(run.certificates_path, Certificates())
    with Journal(run.events) as journal:

        def tell(kind: EventKind, **data: Any) -> None:
            journal.write(Event(kind, data))

        tell("run-started", study=lock.name, profile=None, trials=len(trials), seed=lock.seed, imported=True)
        previous: str | None = None
        for trial in trials:
            _seal(run, trial, form, previous, whole)
            previous = trial.source.level
            digest = sha256_file(run.trial(trial.name).seal)
            tell("trial-sealed", trial=trial.name, case=previous, seconds=trial.seconds, seal_sha256=digest)
        mark = journal_mark(run)
        tell("run-ended", exit_code=0, sealed=len(trials), complete=True, seconds=0.0, journal=mark)
    run.make_latest()
    return run


def _steps_of_all(trials: Sequence[_Trial]) -> dict[str, tuple[str, ...]]:
    """Return the steps of each traffic group in all files; too many to keep apart become one."""
    wanted: dict[str, dict[str, None]] = {}
    for trial in trials:
        for group, steps in trial.read.steps.items():
            wanted.setdefault(group, {}).update(dict.fromkeys(steps))
    return {group: tuple(steps) if len(steps) <= MOST_STEPS else (ALL,) for group, steps in wanted.items()}


def _aligned(run: RunDir, trial: _Trial, steps: Mapping[str, tuple[str, ...]]) -> _Trial:
    """Return the trial with the run's steps: a step is its index in its group, the same in all trials."""
    read = trial.read
    mine = {group: steps[group] for group in read.steps}
    if mine == dict(read.steps):
        return trial
    folder = run.trial(trial.name).path
    widest = max(len(one) for one in read.steps.values())
    places = np.zeros((len(read.groups), widest), dtype="<u2")
    for number, group in enumerate(read.groups):
        for place, step in enumerate(read.steps[group.name]):
            places[number, place] = mine[group.name].index(step) if step in mine[group.name] else 0
    tables: dict[str, Arrays] = {}
    for name in TABLES:
        cells = dict(read_table(folder / f"{name}.parquet"))
        if len(cells.get("step", ())):
            cells["step"] = places[cells["group"], np.minimum(cells["step"], widest - 1)]
        tables[name] = sum_by_key(name, [cells]) if name in ("intervals", "histograms") else cells
    write_trial_tables(folder, tables)
    groups = tuple(_with_steps(group, mine[group.name]) for group in read.groups)
    return replace(trial, read=replace(read, steps=mine, groups=groups))


def _with_steps(group: GroupSummary, wanted: Sequence[str]) -> GroupSummary:
    """Return the group with these steps: zeros for one that it did not request, or the sum of all as one."""
    mine = {step.name: step for step in group.steps}
    if set(mine) <= set(wanted):
        steps = [
            mine.get(name) or StepSummary(name=name, due=0, begun=0, dropped=0, ok=0, failed=0)
            for name in wanted
        ]
    else:
        steps = [
            StepSummary(
                name=wanted[0], **group.model_dump(include=StepSummary.model_fields.keys() - {"name"})
            )
        ]
    return group.model_copy(update={"steps": tuple(steps)})


def _lock(
    run: RunDir, name: str, factor: str, trials: Sequence[_Trial], steps: Mapping[str, tuple[str, ...]]
) -> Lock:
    levels = list(dict.fromkeys(trial.source.level for trial in trials))
    text = imported_study(
        name,
        factor,
        [_case(level, [one for one in trials if one.source.level == level], steps) for level in levels],
        max(trial.replicate for trial in trials),
        percentiles=all(trial.read.single for trial in trials),
        case_names=_NAMES,
    )
    with TemporaryDirectory() as folder:
        file = Path(folder) / STUDY_FILE
        file.write_text(text, encoding="utf-8")
        with (Path(folder) / _NAMES).open("w", newline="", encoding="utf-8") as table:
            rows = csv.writer(table, lineterminator="\n")
            rows.writerow(("case", factor))
            rows.writerows((level, level) for level in levels)
        try:
            lock = load_study(file)
        except SvloadError as why:  # the user knows no such file
            raise SvloadError(*(replace(one, place="") for one in why.problems)) from why
    return lock.model_copy(update={"study_dir": str(trials[0].source.path.parent.absolute())})


def _case(level: str, trials: Sequence[_Trial], steps: Mapping[str, tuple[str, ...]]) -> ImportedCase:
    users: dict[str, int] = {}
    for trial in trials:
        for group, count in trial.read.vus.items():
            users[group] = max(users.get(group, 0), count)
    return ImportedCase(
        level=level,
        users=users,
        steps={group: steps[group] for trial in trials for group in trial.read.steps},
        window_s=max(trial.seconds for trial in trials),
        longest_s=max(trial.read.longest_ns for trial in trials) / 1e9,
    )


def _plan(trials: Sequence[_Trial]) -> Batch:
    """Return the trials in the order in which they started; the i-th of each level make block i."""
    return Batch(
        number=0,
        because="imported: the order is that of the files' first requests, and nobody drew it",
        trials=tuple(
            TrialPlan(
                trial=trial.name,
                case=trial.source.level,
                replicate=trial.replicate,
                block=trial.replicate,
                position=position,
                seed=0,
            )
            for position, trial in enumerate(trials)
        ),
    )


def _seal(run: RunDir, imported: _Trial, form: str, previous: str | None, whole: bool) -> None:
    trial, case, read = run.trial(imported.name), imported.source.level, imported.read
    file = {"file": imported.source.path.name, "sha256": imported.sha256}
    generator = GeneratorSummary(
        share="imported", cpu_ns=0, wall_ns=read.window_ns[1], run_queue_ns=0, loop_pass_max_ns=0
    )
    summary = TrialSummary(
        trial=trial.name,
        case=case,
        started_wall=read.started_wall,
        start_at_ns=round(read.started_wall * 1e9),
        window_ns=read.window_ns,
        interval_ns=read.interval_ns,
        groups=read.groups,
        generators=(generator,),
        imported=Imported(
            tool=_TOOLS[form],  # type: ignore[arg-type]
            **file,
            clock_ns=read.clock_ns,
            requests=read.requests,
            single=read.single,
            users=dict(read.users),
            groups=dict(read.group_names),
            labels=dict(read.labels),
            notes=read.notes,
            whole=whole,
        ),
    )
    write_artefact(trial.summary, summary)
    lab = TrialLab(
        services=(), previous_case=previous, whole_plot=0, reset={}, before={}, after={}, phases_s={}
    )
    write_artefact(trial.lab, lab)
    with Journal(trial.events) as journal:
        begun = {"trial": trial.name, "case": case, "position": 0, "attempt": 1}
        journal.write(Event("trial-started", begun))
    seal_trial(
        trial,
        case=case,
        replicate=imported.replicate,
        block=imported.replicate,
        attempt=1,
        facts={"imported": file, "shares": 1},
    )


def interleaved(run: RunDir) -> bool:
    """Return whether each block ended before the next began, so that a drift of the machine affects all
    levels alike."""
    planned = run.planned_trials()
    blocks = [trial.block for trial in planned]
    return blocks == sorted(blocks)


def must_be_read(path: Path, form: str | None) -> str:
    """Return the form of a file if it was not given. Raise SvloadError import-unreadable if it cannot be
    recognised."""
    found = form or form_of(path)
    if found is None:
        hint = "Name it with --as jtl, --as locust (its NAME_stats_history.csv), --as k6 or --as table."
        raise fail(
            "import-unreadable",
            place=str(path),
            path=path.name or path,
            reason="its first line matches no known format",
            hint=hint,
        )
    return found
