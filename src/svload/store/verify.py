"""Checks that a run is as sealed: every seal, and the files behind it. Detects damage, not forgery."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import unquote

from svload.model.errors import Problem, SvloadError
from svload.model.plan import Batch
from svload.model.seals import Seal, Thinned
from svload.store.journal import read_events
from svload.store.layout import RunDir
from svload.store.seal import SEAL, damage, sha256_file, verify_trial


def verify_run(run: RunDir) -> list[Problem]:
    """Return all damage: lock, plan, inputs, certificates and journal against the seals, placement against
    the journal, each seal, and trials that are missing or not in any batch. Findings are derived from these,
    and are checked only in a thin copy. Unreadable files are reported, and do not hide other damage."""
    try:
        thinned = run.thinned()
    except SvloadError as why:  # what a copy changed is not known: nothing else can be checked against it
        return list(why.problems)
    unread, batches = _unread(run)
    planned = {trial.trial: trial for batch in batches for trial in batch.trials}
    whole = not any(problem.details.get("path") in (run.plan, *run.plan.glob("*")) for problem in unread)
    problems: list[Problem] = []
    under: dict[object, Problem] = {problem.details.get("path"): problem for problem in unread}
    for name in _sealed(run):
        trial = run.trial(name)
        problems += verify_trial(trial.path, thinned)
        if name not in planned and whole:
            problems.append(damage(trial.path, "no batch of the plan has this trial"))
        with contextlib.suppress(SvloadError):
            seal = Seal.read(trial.seal)
            if name in planned and (seal.trial, seal.case, seal.block) != (
                name,
                planned[name].case,
                planned[name].block,
            ):
                problems.append(damage(trial.seal, f"it is the seal of {seal.trial}"))
            for problem in _against_run(run, seal, thinned):  # one edit is reported once, not for every trial
                under.setdefault(problem.details["path"], problem)
    journal = _journal(run, thinned)
    return [
        *under.values(),
        *problems,
        *_against_journal(run),
        *journal,
        *(one for one in _placement(run, thinned) if one.details["path"] not in under),
        *_decided_from(run, batches),
    ]


def _unread(run: RunDir) -> tuple[list[Problem], list[Batch]]:
    """Return the problems of unreadable lock, placement and plan, and the readable batches."""
    problems: list[Problem] = []
    batches: list[Batch] = []
    for read in (run.lock, run.placement):
        try:
            read()
        except SvloadError as why:
            problems += why.problems
    for path in sorted(run.plan.glob("[0-9]*.json")):
        try:
            batches.append(Batch.read(path))
        except SvloadError as why:
            problems += why.problems
    return problems, batches


def _sealed(run: RunDir) -> list[str]:
    """Return `RunDir.sealed_trials`, even if the plan cannot be read."""
    try:
        return list(run.sealed_trials())
    except SvloadError:
        return [unquote(path.parent.name) for path in sorted(run.trials.glob(f"*/{SEAL}"))]


def changed_since_sealed(run: RunDir) -> list[Problem]:
    """Return changes of lock, plan and inputs since a trial was sealed: what follows would be another
    experiment. Also sealed trials or journal lines that are missing: unwanted results must not be measured
    again."""
    under: dict[object, Problem] = {}
    thinned = run.thinned()
    for name in run.sealed_trials():
        with contextlib.suppress(SvloadError):
            for problem in _against_run(run, Seal.read(run.trial(name).seal), thinned):
                under.setdefault(problem.details["path"], problem)
    return [*under.values(), *_against_journal(run), *_journal(run, thinned)]


def _against_run(run: RunDir, seal: Seal, thinned: Thinned | None) -> list[Problem]:
    problems = []
    wanted = {
        "study.lock.json": seal.facts.get("lock_sha256"),
        "certificates.json": seal.facts.get("certificates_sha256"),
    }
    for folder in ("plan", "inputs"):
        digests = seal.facts.get(f"{folder}_sha256")
        if isinstance(digests, dict):
            wanted |= {f"{folder}/{name}": digest for name, digest in digests.items()}
    for name, digest in wanted.items():
        path = run.path / name
        if digest and not path.is_file():
            problems.append(damage(path, f"{seal.trial} was sealed under it and it is missing"))
        elif digest and sha256_file(path) != _as_kept(name, digest, thinned):
            problems.append(damage(path, f"it changed after {seal.trial} was sealed"))
    return problems


def _as_kept(name: str, sealed: str, thinned: Thinned | None) -> str:
    """Return the digest that a file of the run has here: a thin copy's lock names no local folder."""
    known = thinned.files.get(name) if thinned is not None else None
    return known.kept if known is not None and known.sealed == sealed else sealed


def _journal(run: RunDir, thinned: Thinned | None) -> list[Problem]:
    """Check that events.jsonl begins as it did when each trial was sealed and when each execution ended, and
    that each of its lines can be read, except those torn by a crash."""
    if thinned is not None:
        return _as_thinned(run.events, run, thinned)
    marks = []
    for name in _sealed(run):
        with contextlib.suppress(SvloadError):
            marks.append((Seal.read(run.trial(name).seal).facts.get("journal"), f"{name} was sealed"))
    journal = read_events(run.events)
    marks += [
        (event.data.get("journal"), "the run ended") for event in journal.events if event.kind == "run-ended"
    ]
    data = run.events.read_bytes() if run.events.is_file() else b""
    known = [(mark["bytes"], mark["sha256"], when) for mark, when in marks if _is_mark(mark)]
    digest, at = hashlib.sha256(), 0
    for size, wanted, when in sorted(known):
        digest.update(data[at:size])
        at = size
        if size > len(data):
            return [damage(run.events, f"it is shorter than it was when {when}")]
        if digest.hexdigest() != wanted:
            return [damage(run.events, f"what it held when {when} has changed")]
    if journal.damaged:
        first, others = journal.damaged[0], len(journal.damaged) - 1
        and_others = f" (nor {others} of its other lines)" if others else ""
        return [damage(run.events, f"line {first} can't be read as an event{and_others}")]
    return []


def _is_mark(mark: Any) -> TypeGuard[dict[str, Any]]:
    return (
        isinstance(mark, dict) and isinstance(mark.get("bytes"), int) and isinstance(mark.get("sha256"), str)
    )


def _placement(run: RunDir, thinned: Thinned | None) -> list[Problem]:
    """Check that placement.json is one that the journal saw written; older svloads recorded none."""
    path = run.placement_path
    if thinned is not None:
        return _as_thinned(path, run, thinned)
    hashes = [
        event.data.get("sha256") for event in read_events(run.events).events if event.kind == "placement"
    ]
    if hashes and not path.is_file():
        return [damage(path, "the run's journal saw it written and it is missing")] if _sealed(run) else []
    if hashes and sha256_file(path) not in hashes:
        return [damage(path, "its hash is not in the run's journal")]
    return []


def _as_thinned(path: Path, run: RunDir, thinned: Thinned) -> list[Problem]:
    known = thinned.files.get(path.relative_to(run.path).as_posix())
    if known is None:
        return []
    if not path.is_file():
        return [damage(path, "the thin copy held it and it is missing")]
    return [damage(path, "it changed after the copy was made")] if sha256_file(path) != known.kept else []


def _against_journal(run: RunDir) -> list[Problem]:
    """Return trials that were sealed according to the run's journal, and now have no seal or another one."""
    events = {
        trial: event.text("seal_sha256")
        for event in read_events(run.events).events
        if event.kind == "trial-sealed" and (trial := event.text("trial"))
    }
    problems = []
    for name, digest in events.items():
        seal = run.trial(name).seal
        if not seal.is_file():
            problems.append(damage(seal, "the run's journal saw it sealed and it is missing"))
        elif digest and sha256_file(seal) != digest:
            problems.append(damage(seal, "it is not the seal that the run's journal saw"))
    return problems


def _decided_from(run: RunDir, batches: Iterable[Batch]) -> list[Problem]:
    problems = []
    for batch in batches:
        for name, digest in batch.decided_from.items():
            seal = run.trial(name).seal
            if not seal.is_file() or sha256_file(seal) != digest:
                problems.append(
                    damage(run.batch_path(batch.number), f"it was decided from another seal of {name}")
                )
    return problems
