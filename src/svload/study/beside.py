"""Files that a study names: only files in its own folder are opened."""

from __future__ import annotations

from pathlib import Path

NO_FILE = "expected a file inside the study's folder", "Put it there, and write its path from that folder."
"""What is wrong with a file that `file_beside` does not find, and what to do."""


def file_beside(folder: Path, name: str) -> Path | None:
    """Return the plain file of that name inside the study's folder; None if there is none, or the name leads
    elsewhere or is invalid."""
    try:
        file = (folder / name).resolve()
        return file if folder.resolve() in file.parents and file.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def text_beside(file: Path, most_bytes: int) -> str:
    """Return its text. Raises ValueError that states what is wrong on which line, OSError."""
    if file.stat().st_size > most_bytes:
        raise ValueError(f"it is longer than {most_bytes:,} bytes")
    data = file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as why:
        raise ValueError(f"line {1 + data.count(10, 0, why.start)} is not UTF-8 text") from why
