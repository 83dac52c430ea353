"""A command typed in one folder, rewritten for a study in another, where it runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

from svload.model.errors import fail

_PLAIN = re.compile(r"[\w@%+=:,./${}-]+", re.ASCII)


def moved(command: str, here: Path, folder: Path) -> str:
    """Return `command`, typed in `here`, with paths relative to `folder`: `./a b.yaml` → `../a ../b.yaml`.

    A word is a path if something exists there: the program, a file (`x.py`, `--config=x.yaml`), a folder that
    is written as one or follows an option. A program on the PATH, an absolute path and everything else stay
    unchanged. Raises SvloadError usage.
    """
    try:
        words = shlex.split(command)
    except ValueError as why:
        raise fail("usage", reason=f"The command “{command}” cannot be split into words ({why})", hint="Close its quotes.") from why  # fmt: skip
    if not words:
        return command
    first, *rest = words
    if here.resolve() != folder.resolve():
        rest = [_argument(word, before, here, folder) for before, word in zip(words, rest, strict=False)]
    found = [_programme(first, here, folder), *rest]
    return command if found == words else " ".join(_quoted(word) for word in found)


def _programme(word: str, here: Path, folder: Path) -> str:
    if "/" not in word and shutil.which(word):
        return word
    if (here / os.path.expanduser(word)).is_file():
        path = _path(word, here, folder)
        return path if "/" in path else f"./{path}"
    if "/" in word and not (folder / word).is_file():
        raise fail("usage", reason=f"There is no file {word}, neither here nor in {folder}", hint="Write the command as you start it here.")  # fmt: skip
    return word


def _argument(word: str, before: str, here: Path, folder: Path) -> str:
    option, sign, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if not value or (word.startswith("-") and not sign) or before == "-m":
        return word
    at = here / os.path.expanduser(value)
    is_folder = at.is_dir() and ("/" in value or value in (".", "..") or bool(sign) or before.startswith("-"))
    return f"{option}{sign}{_path(value, here, folder)}" if at.is_file() or is_folder else word


def _path(word: str, here: Path, folder: Path) -> str:
    """Return the path relative to `folder`. Its last part is not resolved: a virtual environment's python is
    a link that must be called by its name."""
    expanded = os.path.expanduser(word)
    if os.path.isabs(expanded):
        return expanded
    head, tail = os.path.split((here / expanded).as_posix())
    whole = os.path.join(os.path.realpath(head), tail) if tail not in ("", ".", "..") else os.path.realpath(here / expanded)  # fmt: skip
    return os.path.relpath(whole, os.path.realpath(folder))


def _quoted(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else shlex.quote(word)
