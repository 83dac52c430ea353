"""Seals: a trial without one does not count; nothing sealed is edited. They detect damage, not forgery."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import svload
from svload.model.base import Artefact
from svload.model.errors import Problem, SvloadError
from svload.model.outputs import write_output
from svload.model.seals import Seal, Thinned
from svload.store.layout import RunDir, TrialDir

SEAL = "seal.json"


def write_artefact(path: Path, artefact: Artefact, *, synced: bool = True) -> None:
    """Write an artefact atomically, and return when it is on the disk (temporary file, fsync, rename, fsync
    of the folder). Without `synced` only a seal brings it to the disk."""
    write_output(path, artefact.to_json(), synced=synced)


def write_text(path: Path, text: str) -> None:
    """Write plain text (UTF-8) as `write_artefact` does. Create parent folders. Raise OSError (disk full) and
    then keep the old file."""
    write_whole(path, text.encode("utf-8", "backslashreplace"))


def write_whole(path: Path, data: bytes) -> None:
    """As `write_text`, for bytes."""
    write_output(path, data, synced=True)


def write_findings(run: RunDir, findings: Artefact) -> None:
    """Write findings.json, then its digest. Raises OSError."""
    write_artefact(run.findings_path, findings)
    write_text(run.findings_digest_path, sha256_file(run.findings_path) + "\n")


def findings_are_as_written(run: RunDir) -> bool:
    """Return whether findings.json exists and is as an analysis wrote it or a thin copy brought it; if not,
    it must be made again."""
    try:
        digest = sha256_file(run.findings_path)
        if run.findings_digest_path.is_file():
            return run.findings_digest_path.read_text(encoding="utf-8").strip() == digest
    except (OSError, ValueError):
        return False
    thinned = run.thinned()
    known = thinned.files.get(run.findings_path.relative_to(run.path).as_posix()) if thinned else None
    return known is not None and known.kept == digest


def write_report_digests(run: RunDir, files: Iterable[Path]) -> None:
    """Write the digests of files that a report has just written into derived/. Raise OSError."""
    lines = [f"{sha256_file(path)}  {path.name}\n" for path in files]
    write_text(run.report_digests_path, "".join(lines))


def altered_reports(run: RunDir) -> list[Path]:
    """Return the files of the last report that exist and were changed. A deleted file misleads nobody."""
    try:
        lines = run.report_digests_path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    wanted = {Path(name).name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    files = [run.derived / name for name in wanted if name]
    return [path for path in files if path.is_file() and sha256_file(path) != wanted[path.name]]


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal_trial(
    trial: TrialDir,
    *,
    case: str,
    replicate: int,
    block: int,
    attempt: int = 1,
    facts: Mapping[str, Any],
    svload_version: str = svload.__version__,
) -> Seal:
    """Seal a trial: hash every file, bring all to the disk, then write seal.json last.

    `facts` are plain JSON without a verdict; the digests of the run's lock, plan and inputs are added, which
    ties the trial to its run. Raise OSError; FileExistsError if it is sealed.
    """
    directory = trial.path
    if trial.seal.exists():
        raise FileExistsError(f"{directory} is sealed already")
    files = {}
    for path in _files(directory):
        with path.open("rb") as file:
            files[path.relative_to(directory).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
    for folder in {directory.joinpath(name).parent for name in files} | {directory, directory.parent}:
        _sync_folder(folder)
    seal = Seal(
        trial=trial.name,
        case=case,
        replicate=replicate,
        block=block,
        attempt=attempt,
        svload_version=svload_version,
        sealed_wall=time.time(),
        files=files,
        facts={**facts, **_run_facts(RunDir(directory.parent.parent))},
    )
    write_artefact(trial.seal, seal)
    return seal


def _run_facts(run: RunDir) -> dict[str, Any]:
    if not run.lock_path.is_file():
        return {}
    plans = sorted(run.plan.glob("[0-9]*.json"))
    tables = sorted(run.inputs.glob("*.csv"))
    certificates = run.certificates_path
    return {
        "lock_sha256": sha256_file(run.lock_path),
        "certificates_sha256": sha256_file(certificates) if certificates.is_file() else None,
        "journal": journal_mark(run),
        "plan_sha256": {path.name: sha256_file(path) for path in plans},
        "inputs_sha256": {path.name: sha256_file(path) for path in tables},
    }


def journal_mark(run: RunDir) -> dict[str, Any]:
    """Return a mark of the run's journal: it only grows, so the part up to now never changes."""
    data = run.events.read_bytes() if run.events.is_file() else b""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def verify_trial(directory: Path, thinned: Thinned | None = None) -> list[Problem]:
    """Return what is wrong with a sealed trial: files missing, changed or added, or a damaged seal. Empty if
    it is unchanged.

    A file in `thinned` must have been sealed with the digest given there, and be as the thin copy had it.
    """
    try:
        seal = Seal.read(directory / SEAL)
    except SvloadError as why:
        return list(why.problems)
    except FileNotFoundError:
        return [damage(directory, "it has no seal")]
    found = {path.relative_to(directory).as_posix(): path for path in _files(directory)}
    problems = [
        damage(directory / name, "it was sealed and is missing")
        for name in sorted(seal.files.keys() - found.keys())
    ]
    problems += [
        damage(directory / name, "it was added after the trial was sealed")
        for name in sorted(found.keys() - seal.files.keys())
    ]
    for name in sorted(found.keys() & seal.files.keys()):
        if found[name].is_symlink():
            problems.append(damage(directory / name, "it is a link instead of the sealed file"))
        elif not _is_as_sealed(found[name], seal.files[name], thinned):
            problems.append(damage(directory / name, "it changed after the trial was sealed"))
    return problems


def _is_as_sealed(path: Path, sealed: str, thinned: Thinned | None) -> bool:
    known = thinned.files.get(f"trials/{path.parent.name}/{path.name}") if thinned is not None else None
    if known is not None and known.sealed == sealed:
        return sha256_file(path) == known.kept
    return sha256_file(path) == sealed


def damage(path: Path, reason: str) -> Problem:
    """Return run-damaged for a file or folder of a run."""
    return Problem("run-damaged", {"path": path, "reason": reason})


def _files(directory: Path) -> list[Path]:
    """Return every file below `directory` but its seal, sorted; links count as files and are not followed."""
    found = []
    for folder, folders, names in os.walk(directory):
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        found += [Path(folder) / name for name in names + links]
    return sorted(path for path in found if path != directory / SEAL)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
