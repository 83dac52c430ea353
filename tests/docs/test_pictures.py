"""The gallery's picture of the workbook: small, sharp, and its writer is exact."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from workbook_picture import read_ppm, write_png  # noqa: E402


def test_the_workbook_s_picture_is_small_and_wide_enough_to_read() -> None:
    data = (ROOT / "docs" / "gallery" / "workbook.png").read_bytes()
    assert len(data) <= 150 * 1024
    width, height = struct.unpack(">II", data[16:24])
    assert width >= 1400
    assert height >= 500


def test_a_picture_keeps_its_colours_and_its_size(tmp_path: Path) -> None:
    pixels = np.array([[[0, 0, 0], [255, 255, 255]], [[255, 0, 51], [100, 150, 200]]], np.uint8)
    (tmp_path / "a.ppm").write_bytes(b"P6\n2 2\n255\n" + pixels.tobytes())
    write_png(read_ppm(tmp_path / "a.ppm"), tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (2, 2)
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        chunks[kind], at = body, at + 12 + size
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    index = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(2, 3)[:, 1:]
    assert np.abs(palette[index].astype(int) - pixels).max() <= 26
    assert palette[index][0, 1].tolist() == [255, 255, 255]


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ppm").write_bytes(b"P5\n1 1\n255\nx")
    with pytest.raises(ValueError, match="no PPM"):
        read_ppm(tmp_path / "a.ppm")
