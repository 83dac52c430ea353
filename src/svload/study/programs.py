"""Which files of a study's folder are executed: programs and settings that its commands name, never data."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from svload.study.tree import section_of

CODE_FOLDERS = ("kits", "monitors", "checks", "reporters")
MOST_FILES, MOST_BYTES = 20_000, 200 << 20
"""Bounds for files that a study's commands name; of further files only the sizes and times count."""
_ENDINGS = (
    "py sh bash rb pl js mjs cjs ts php lua jar war class so wasm go rs c h cc cpp hpp java kt scala cs r sql mk vcl "
    "conf cfg ini toml yaml yml xml properties env"
)
_CODE = frozenset(_ENDINGS.split())
"""File name endings of programs, sources, and settings that may name commands. Other files count if they are
executable, begin with #!, have no ending, or are the first that a command names: an interpreter's program."""
_CODE_NAMES = frozenset(("makefile", "dockerfile", "requirements.txt", "go.mod", "cargo.lock"))
_NO_CODE = frozenset((".git", "__pycache__", ".venv", "node_modules", "runs"))


def study_programs(folder: Path, data: Any) -> dict[str, str]:
    """Return `named_programs` of all servers that a study may start, and of its code for svload."""
    parts = [data, *section_of(data, "profiles").values()]
    sections = [
        part.get(name) for part in parts if isinstance(part, dict) for name in ("lab", "factors", "sets")
    ]
    digests = _Digests()
    own = [path for kind in CODE_FOLDERS for path in sorted((folder / kind).glob("*.py"))]
    return named_programs(folder, sections, digests) | {_name(path, folder): digests.of(path) for path in own}


def named_programs(folder: Path, options: Any, digests: _Digests | None = None) -> dict[str, str]:
    """Return file or folder, relative to the study's folder → SHA-256 of the program, or of all programs in
    it, for each that a word of a server's options names.

    Files that no word names, and data (a database, a log, a table), are left out: servers write these.
    """
    digests = digests or _Digests()
    found: dict[str, str] = {}
    for command in _commands(options):
        given = len(command) > 1
        for word in command:
            for path in _named(folder, word):
                name = _name(path, folder)
                if path.is_dir():
                    if name not in found and (
                        inside := {_name(one, path): digests.of(one) for one in _inside(path)}
                    ):
                        found[f"{name}/"] = digest_of(inside)
                    continue
                if name not in found and ((given and "=" not in word) or _is_code(path)):
                    found[name] = digests.of(path)
                given = False
    return found


def digest_of(found: Mapping[str, str]) -> str:
    """Return one digest of all of them."""
    text = "".join(f"{name}\0{digest}\0" for name, digest in sorted(found.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class _Digests:
    """Digests of files; their sizes and times once there are too many or too large ones."""

    def __init__(self) -> None:
        self.files, self.bytes = MOST_FILES, MOST_BYTES

    def of(self, path: Path) -> str:
        try:
            found = path.stat()
            self.files, self.bytes = self.files - 1, self.bytes - found.st_size
            if self.files < 0 or self.bytes < 0:
                return f"{found.st_size} {found.st_mtime_ns}"
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as why:
            return why.strerror or "unreadable"


def _commands(value: Any) -> Iterator[list[str]]:
    """Return the words of each text; texts in a list are one command."""
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        value = " ".join(value)
    if isinstance(value, str):
        yield [word for word in re.split(r"[\s\"';|&<>()]+", value) if word]
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _commands(one)


def _named(folder: Path, word: str) -> Iterator[Path]:
    """Return paths in the folder that a word names: itself, after “=”, or as a module (`app.main:app`)."""
    module = word.partition(":")[0]
    for name in dict.fromkeys((word, word.partition("=")[2], module, module.replace(".", "/") + ".py")):
        if name and "\0" not in name and len(name) <= 1000:
            path = Path(os.path.normpath(folder / name))
            if path != folder and path.is_relative_to(folder) and path.exists():
                yield path


def _inside(folder: Path) -> Iterator[Path]:
    """Return the programs in a folder that a command names."""
    for where, names, files in os.walk(folder):
        names[:] = sorted(set(names) - _NO_CODE)
        for name in sorted(files):
            if name.lower() in _CODE_NAMES or _ending(name) in _CODE or _can_be_run(Path(where, name)):
                yield Path(where, name)


def _is_code(path: Path) -> bool:
    if path.name.lower() in _CODE_NAMES or _ending(path.name) in _CODE | {""} or _can_be_run(path):
        return True
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _can_be_run(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _ending(name: str) -> str:
    return name.lstrip(".").rpartition(".")[2].lower() if "." in name.lstrip(".") else ""


def _name(path: Path, folder: Path) -> str:
    return os.path.relpath(path, folder)
