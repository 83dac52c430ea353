"""A run as one file: a zip with the same bytes for the same run, and only what a run's reader needs.

It contains sealed trials, lock, plan, inputs, placement, journals, findings.json and the study's own tables,
with all that feeders' files hold; logs, host folders and rendered reports are left out. Reading a pack is
reading a run: it is unpacked once, under the digest of its bytes, into the user's cache.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from svload.model.environment import cache_dir
from svload.model.errors import fail
from svload.model.outputs import output, sync
from svload.model.private import private_folder
from svload.store.layout import PACK_SUFFIX, RunDir, folder_name
from svload.store.leftovers import sweep, sweep_folders
from svload.store.seal import sha256_file

MOST_FILES = 200_000
MOST_BYTES = 16 << 30
MOST_BYTES_PER_PACKED_BYTE = 200
ALWAYS_BYTES = 1 << 30
"""A pack may unpack to so much, however well it is packed."""
_LONGEST_NAME_BYTES = 255
_TOP = {
    "study.lock.json",
    "placement.json",
    "certificates.json",
    "thinned.json",
    "events.jsonl",
    "inputs",
    "plan",
    "trials",
    "attempts",
    "derived",
}
_SECRET = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_TELLING = re.compile(r"(?i)passw|passphrase|pwd|secret|token|api.?key|credential|cookie|authorization")
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    ValueError,
    RuntimeError,
    FileExistsError,
    NotADirectoryError,
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


def pack_run(run: RunDir, out: Path | None = None) -> Path:
    """Write `run` as one file and return its path: `out`, or `<run>.svload.zip` beside it (or in `out`, if
    that is a folder).

    Raise SvloadError: run-not-found; run-damaged if a file holds a private key; OSError.
    """
    run.lock()
    target = run.path.with_name(run.name + PACK_SUFFIX) if out is None else out
    if target.is_dir():
        target = target / (run.name + PACK_SUFFIX)
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent, f"{target.name}.*")
    with output(target) as fresh, zipfile.ZipFile(fresh, "w") as archive:
        for path in packed_files(run):
            _add(archive, run, path)
    return target


def open_pack(path: Path, into: Path | None = None) -> RunDir:
    """Return the run in a pack, unpacked once below `into` (default: the user's cache) and found later by the
    pack's digest.

    Nothing leaves its folder: absolute names, `..`, links and special files are refused, and so is what would
    unpack to more than 16 GiB or 200,000 files, or to more than 1 GiB and 200 bytes per packed byte. Raise
    SvloadError: run-damaged; OSError if there is no room for it.
    """
    home = (into or cache_dir() / "packs") / sha256_file(path)[:32]
    name = path.name.removesuffix(PACK_SUFFIX).removesuffix(".zip") or "run"
    run = RunDir(home / folder_name(name))
    if run.lock_path.is_file():
        return run
    private_folder(home)
    sweep_folders(home, ".unpack-")
    fresh = Path(tempfile.mkdtemp(prefix=f".unpack-{os.getpid()}-", dir=home))
    try:
        _unpack(path, fresh)
        if not (fresh / "study.lock.json").is_file():
            raise fail("run-damaged", path=path, reason="it holds no run")
        for unpacked in (*fresh.rglob("*"), fresh):
            sync(unpacked)  # files that a power cut emptied after the rename would never be unpacked again
        try:
            fresh.rename(run.path)
        except OSError:
            if not run.lock_path.is_file():
                raise
    except _UNREADABLE as why:
        if isinstance(why, OSError) and why.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(why.errno, why.strerror, str(home)) from why
        raise fail("run-damaged", path=path, reason=f"it is not a readable pack ({why})") from why
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        with contextlib.suppress(OSError):
            home.rmdir()  # only where nothing was unpacked
    return run


def packed_files(run: RunDir) -> list[Path]:
    """Return the files of a pack, in a fixed order; links never."""
    found = [
        run.lock_path,
        run.placement_path,
        run.thinned_path,
        run.certificates_path,
        run.events,
        run.findings_path,
        run.findings_digest_path,
        run.tables_path,
        *run.plan.glob("*.json"),
    ]
    found += run.inputs.rglob("*")
    for name in run.sealed_trials():
        found += run.trial(name).path.rglob("*")
    found += [attempt.events for attempt in run.kept_attempts()]
    files = [path for path in found if path.is_file() and not path.is_symlink()]
    return sorted(files, key=lambda path: path.relative_to(run.path).as_posix())


def secret_columns(run: RunDir) -> list[str]:
    """Return columns of inputs/ whose names suggest passwords or keys, as `users.csv: password`."""
    found = []
    for path in sorted(run.inputs.glob("*.csv")):
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            names = next(csv.reader(file), [])
        found += [f"{path.name}: {name}" for name in names if _TELLING.search(name)]
    return found


def _add(archive: zipfile.ZipFile, run: RunDir, path: Path) -> None:
    entry = zipfile.ZipInfo(path.relative_to(run.path).as_posix(), _EPOCH)
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    entry.compress_type = zipfile.ZIP_STORED if path.suffix == ".parquet" else zipfile.ZIP_DEFLATED
    entry.file_size = path.stat().st_size
    with path.open("rb") as source, archive.open(entry, "w") as target:
        before = b""
        while chunk := source.read(1 << 20):
            if _SECRET.search(before + chunk):
                raise fail(
                    "run-damaged", path=path, reason="it holds a private key, which never belongs into a run"
                )
            before = chunk[-64:]
            target.write(chunk)


def _unpack(path: Path, into: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        size = sum(entry.file_size for entry in entries)
        bound = min(MOST_BYTES, max(ALWAYS_BYTES, MOST_BYTES_PER_PACKED_BYTE * path.stat().st_size))
        if len(entries) > MOST_FILES or size > bound:
            raise ValueError(f"it would unpack to {len(entries)} files and {size} bytes")
        if any(entry.header_offset < 0 for entry in entries):
            raise ValueError("its directory points before its beginning")
        for entry in entries:
            target = into / _safe(entry)
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, target.open("xb") as file:
                shutil.copyfileobj(source, file, 1 << 20)


def _safe(entry: zipfile.ZipInfo) -> PurePosixPath:
    name = PurePosixPath(entry.filename)
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if (
        not name.parts
        or name.is_absolute()
        or ".." in name.parts
        or "\\" in entry.filename
        or ":" in name.parts[0]
        or name.parts[0] not in _TOP
        or any(len(part.encode()) > _LONGEST_NAME_BYTES for part in name.parts)
        or kind not in (0, stat.S_IFREG)
        or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    ):
        raise ValueError(f"the entry {entry.filename!r} does not belong into a run")
    return name
