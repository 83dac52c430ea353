"""Attempts at a trial that do not count: kept beside the trials, with the reason and the last log lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from string import Formatter

from svload.model.errors import Problem, SvloadError
from svload.model.events import Event
from svload.model.outputs import write_output
from svload.model.plan import TrialPlan
from svload.store import Journal, RunDir
from svload.store.leftovers import sweep

LOG_TAIL_BYTES = 64 * 1024


def keep_unfinished(run: RunDir, together: Iterable[Sequence[TrialPlan]] = ()) -> None:
    """Make an attempt of every trial that an earlier execution started and did not seal. Trials that are made
    `together` all become attempts unless all are sealed."""
    sealed = set(run.sealed_trials())
    for made in together:
        names = {one.trial for one in made}
        if not names <= sealed:
            for name in names & sealed:
                run.trial(name).seal.unlink()
    for name in run.unsealed_trials():
        keep_attempt(run, name, run.next_attempt(name), "interrupted")


def keep_attempt(run: RunDir, trial: str, attempt: int, why: str, sentence: str = "") -> None:
    """Move what exists of a trial, if anything, to the run's attempts; `sentence` says what happened."""
    source = run.trial(trial).path
    if not source.exists():
        return
    target = run.attempt(trial, attempt).path
    target.parent.mkdir(exist_ok=True)
    source.rename(target)
    sweep(target)
    for raw in target.glob("*.tables"):  # those of a share, which no command reads
        raw.unlink()
    text = sentence or f"this attempt was {why} and does not count"
    with Journal(target / "events.jsonl") as journal:
        record = {"trial": trial, "attempt": attempt, "why": why, "text": text}
        journal.write(Event("notice", record), sync=True)


def keep_logs(lab: Path, target: Path) -> Path:
    """Copy the last part of every log of a lab, whose folder will be removed; return `target`."""
    for log in sorted(lab.rglob("*.log")):
        kept = _kept_as(log, lab, target)
        try:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
                tail = file.read()
            if tail:
                write_output(kept, tail)
        except OSError:
            continue
    return target


def name_kept_logs(lab: Path, target: Path, error: SvloadError) -> None:
    """Where problems name files of a lab that will be removed, keep its logs in `target` and name those."""
    for problem in error.problems:
        for name, value in problem.details.items():
            if isinstance(value, Path | str) and str(lab) in str(value):
                keep_logs(lab, target)
                problem.details[name] = _named_there(str(value), lab, target)


def _named_there(text: str, lab: Path, target: Path) -> str:
    for log in sorted(lab.rglob("*.log"), reverse=True):
        kept = _kept_as(log, lab, target)
        if kept.is_file():
            text = text.replace(str(log), str(kept))
    return re.sub(re.escape(str(lab)) + r"[\w./-]*?(?=\.?(\s|$))", str(target), text)


def _kept_as(log: Path, lab: Path, target: Path) -> Path:
    return target / "-".join(log.relative_to(lab).parts)


def without_logs(problem: Problem, remedy: str) -> Problem:
    """Return the problem, with `remedy` if its own remedy names a log or run, since none was kept."""
    if {name for _, name, _, _ in Formatter().parse(problem.kind.remedy)} & {"run", "log"}:
        return replace(problem, details={**problem.details, "remedy": remedy})
    return problem
