"""A picture of the workbook's summary as printed: `workbook_picture.py report.xlsx OUT.png`. Needs soffice
and poppler's tools."""

from __future__ import annotations

import argparse
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TOOLS = ("soffice", "pdftotext", "pdftoppm")
_FIRST_PAGES = 12
"""The guide and the summary are within them; all pages would be thousands."""
_ONLY_THERE = "doubts: in how many trials"
_DPI, _MARGIN, _SHADES = 150, 12, 6


def can_be_made() -> bool:
    """Return whether this machine has the programs for it."""
    return all(shutil.which(tool) for tool in TOOLS)


def workbook_picture(book: Path, to: Path) -> None:
    """Write the summary's page without its empty rest. Raise ValueError if it is not among the first
    pages."""
    with tempfile.TemporaryDirectory() as folder:
        pages = f'pdf:calc_pdf_Export:{{"PageRange":{{"type":"string","value":"1-{_FIRST_PAGES}"}}}}'
        profile = f"-env:UserInstallation={(Path(folder) / 'profile').as_uri()}"
        _run("soffice", profile, "--headless", "--convert-to", pages, "--outdir", folder, str(book))
        pdf = Path(folder) / f"{book.stem}.pdf"
        texts = _run("pdftotext", str(pdf), "-").split("\f")
        page = next(
            (number for number, text in enumerate(texts, 1) if _ONLY_THERE in " ".join(text.split())), 0
        )
        if not page:
            raise ValueError(f"the first {_FIRST_PAGES} pages of {book} hold no summary")
        stem = Path(folder) / "page"
        _run(
            "pdftoppm", "-r", str(_DPI), "-f", str(page), "-l", str(page), "-singlefile", str(pdf), str(stem)
        )
        write_png(_cropped(read_ppm(stem.with_suffix(".ppm"))), to)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def read_ppm(path: Path) -> NDArray[np.uint8]:
    """Return rows × columns × RGB of a binary PPM as poppler writes it."""
    magic, size, most, pixels = path.read_bytes().split(b"\n", 3)
    if magic != b"P6" or most != b"255":
        raise ValueError(f"{path} is no PPM of bytes")
    width, height = map(int, size.split())
    return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)


def _cropped(page: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the page without the footer and without white margins."""
    inked = (page < 250).any(axis=2)
    inked[int(0.93 * len(inked)) :] = False
    rows, columns = (np.flatnonzero(inked.any(axis=axis)) for axis in (1, 0))
    return page[
        max(rows[0] - _MARGIN, 0) : rows[-1] + _MARGIN, max(columns[0] - _MARGIN, 0) : columns[-1] + _MARGIN
    ]


def write_png(pixels: NDArray[np.uint8], to: Path) -> None:
    """Write an indexed PNG of 216 colours: text stays sharp at a third of the bytes."""
    shades = (pixels.astype(np.int64) * (_SHADES - 1) + 127) // 255
    index = (shades @ np.array([_SHADES**2, _SHADES, 1])).astype(np.uint8)
    height, width = index.shape
    palette = bytes(255 * shade // (_SHADES - 1) for colour in np.ndindex((_SHADES,) * 3) for shade in colour)
    lines = b"".join(b"\0" + line.tobytes() for line in index)
    to.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + _chunk(b"PLTE", palette)
        + _chunk(b"IDAT", zlib.compress(lines, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("book", type=Path)
    parser.add_argument("to", type=Path)
    asked = parser.parse_args(words)
    if not can_be_made():
        sys.exit(f"needs {', '.join(TOOLS)}")
    workbook_picture(asked.book, asked.to)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
