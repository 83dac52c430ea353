#!/usr/bin/env python3
"""make_files.py FOLDER NAME=BYTES[*COUNT] …: files in FOLDER, each from a place of its own in the same random bytes.

`1KB=1000` is the file 1KB, `1KB=1000*3` the files 1KB-0, 1KB-1 and 1KB-2.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

BLOCK = 1 << 20
STEP = 4099  # a prime: files of one size begin at different places


def write(path: Path, size_bytes: int, block: bytes, begin: int) -> None:
    """One file."""
    with path.open("wb") as file:
        left, at = size_bytes, begin % BLOCK
        while left:
            piece = block[at : at + min(left, BLOCK)]
            file.write(piece)
            left, at = left - len(piece), 0


def wanted(words: list[str]) -> dict[str, int]:
    """File → its size in bytes."""
    files: dict[str, int] = {}
    for word in words:
        name, _, text = word.partition("=")
        size_bytes, _, count = text.partition("*")
        names = [f"{name}-{number}" for number in range(int(count))] if count else [name]
        files |= dict.fromkeys(names, int(size_bytes))
    return files


def main(folder: Path, words: list[str]) -> None:
    """Make them."""
    folder.mkdir(parents=True, exist_ok=True)
    block = os.urandom(BLOCK)
    for number, (name, size_bytes) in enumerate(wanted(words).items()):
        write(folder / name, size_bytes, block, number * STEP)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
