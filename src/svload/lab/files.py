"""Files of given sizes that a server sends, made once and kept in the cache by their content."""

from __future__ import annotations

import fcntl
import hashlib
import json
import random
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from svload.model.bounds import FILES_BYTES
from svload.model.private import private_folder
from svload.model.units import size_bytes
from svload.study.mistakes import shortened

MOST_FILES = 100_000
CHUNK_BYTES = 1 << 20
BUILT = "${build}/"
_FOLDER = re.compile(r"(?:\$\{build\}/)?[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def read_files(written: Any) -> Any:
    """Return `files` of a command as its kit has it: a folder, or name → bytes. Raises ValueError."""
    if isinstance(written, str):
        if not _FOLDER.fullmatch(written) or ".." in written.split("/"):
            raise ValueError(
                f"“{shortened(written, 60)}” is neither a folder next to the study nor one in ${{build}}"
            )
        return written
    if not isinstance(written, Mapping):
        raise ValueError("expected a folder, or name: size of each file")
    if not written or len(written) > MOST_FILES:
        raise ValueError(f"expected 1 to {MOST_FILES:,} files")
    found = {str(name): size_bytes(size) for name, size in written.items()}
    for name in found:
        if not _NAME.fullmatch(name):
            raise ValueError(f"“{shortened(name, 60)}” is not a plain file name such as 1KB")
    if sum(found.values()) > FILES_BYTES.most:
        raise ValueError(FILES_BYTES.text)
    return found


def made_files(files: Mapping[str, int], cache: Path) -> Path:
    """Return the folder with these files under `cache`, made if missing, with the same bytes everywhere."""
    text = json.dumps(sorted(files.items()))
    folder = cache / "files" / hashlib.sha256(text.encode()).hexdigest()[:24]

    def make(beside: Path) -> None:
        for name, size in files.items():
            _write(beside / name, size)

    return made_once(folder, make)


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder, filled by `make` if missing; threads and processes that need it at the same time
    wait for the first one."""
    if folder.is_dir():
        return folder
    private_folder(folder.parent)
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            beside = folder.with_name(f".{folder.name}.new")
            shutil.rmtree(beside, ignore_errors=True)  # of a killed process
            beside.mkdir()
            make(beside)
            beside.rename(folder)
    return folder


def _write(path: Path, size: int) -> None:
    chunk = random.Random(f"svload file {path.name}").randbytes(min(size, CHUNK_BYTES))
    with path.open("wb") as file:
        for at in range(0, size, CHUNK_BYTES):
            file.write(chunk[: size - at])
