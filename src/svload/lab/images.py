"""JPEG files of any size from 1 KiB: a series of pictures, drawn once and kept, each padded with comments.

Every picture is complete and can be decoded. Its comments (COM segments), drawn from seed and path, make each
object unique.
"""

from __future__ import annotations

import bisect
import hashlib
import random
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from svload.lab.files import made_once
from svload.lab.objects import LEAST_IMAGE_BYTES

if TYPE_CHECKING:
    from PIL.Image import Image

DRAWN_VERSION = 2
"""Increased when the pictures change."""
QUALITY = 85
GRAIN = 20.0
"""Standard deviation of the grain, in levels of 256."""
LEAST_COMMENT_BYTES, MOST_COMMENT_BYTES = 4, 65_537
"""The largest COM segment, marker and length included."""
LEAST_OWN_BYTES = 16
"""The minimum of unique bytes in each object, besides its picture."""
_EDGE_PX, _NEXT_EDGE, _LAST_EDGE_PX = 8.0, 1.15, 1100.0
"""Each picture is a third larger than the one before, up to a megabyte; larger objects have more comments."""


class Images:
    """The pictures of a folder, drawn when first needed. The same path, size, seed and folder give the same content."""

    def __init__(self, folder: Path) -> None:
        self._home = folder / f"{DRAWN_VERSION}-{version('pillow')}"

    def content(self, path: str, size: int, seed: int) -> bytes:
        """Return a JPEG file of exactly `size` bytes (≥ LEAST_IMAGE_BYTES)."""
        sizes = [len(one) for one in self._pictures]
        at = bisect.bisect_right(sizes, size - LEAST_COMMENT_BYTES - LEAST_OWN_BYTES) - 1
        if at < 0:
            raise ValueError(f"no JPEG of {size} bytes is made: {LEAST_IMAGE_BYTES} at least")
        picture = self._pictures[at]
        own = hashlib.shake_128(f"svload image {seed} {path}".encode()).digest(size - len(picture))
        begin = _after_header(picture)
        return picture[:begin] + _comments(own) + picture[begin:]

    @cached_property
    def _pictures(self) -> tuple[bytes, ...]:
        """Return the pictures by size, smallest first."""
        home = made_once(self._home, _draw)
        return tuple(sorted((file.read_bytes() for file in home.glob("*.jpg")), key=len))


def _draw(folder: Path) -> None:
    for number, edge in enumerate(_edges()):
        _picture(number, edge).save(folder / f"{number:02d}.jpg", quality=QUALITY)


def _edges() -> list[int]:
    found, edge = [], _EDGE_PX
    while edge < _LAST_EDGE_PX:
        found.append(round(edge))
        edge *= _NEXT_EDGE
    return found


def _picture(number: int, edge: int) -> Image:
    """Return a picture of a sky, a few discs, and grain, which is what makes a photograph large."""
    import numpy as np
    from PIL import Image, ImageDraw

    draw = random.Random(f"svload picture {number}")

    def colour() -> tuple[int, int, int]:
        return draw.randrange(256), draw.randrange(256), draw.randrange(256)

    top, bottom = np.array(colour()), np.array(colour())
    down = np.linspace(0.0, 1.0, edge)[:, None, None]
    sky = np.broadcast_to(top + (bottom - top) * down, (edge, edge, 3))
    picture = Image.fromarray(sky.astype(np.uint8))
    pencil = ImageDraw.Draw(picture)
    for _ in range(6):
        x, y, radius = (draw.random() * edge * most for most in (1, 1, 1 / 3))
        pencil.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour())
    grain = np.random.default_rng(number).normal(0.0, GRAIN, (edge, edge, 3))
    return Image.fromarray(np.clip(np.asarray(picture) + grain, 0, 255).astype(np.uint8))


def _after_header(picture: bytes) -> int:
    """Return where comments may begin: after the start marker and the JFIF segment, which must be first."""
    begin = 2
    while picture[begin] == 0xFF and 0xE0 <= picture[begin + 1] <= 0xEF:
        begin += 2 + int.from_bytes(picture[begin + 2 : begin + 4], "big")
    return begin


def _comments(own: bytes) -> bytes:
    """Return COM segments as long as `own`, with its bytes except where the segments' headers are."""
    parts, left = [], len(own)
    while left:
        take = min(left, MOST_COMMENT_BYTES)
        if 0 < left - take < LEAST_COMMENT_BYTES:
            take -= LEAST_COMMENT_BYTES
        parts.append(b"\xff\xfe" + (take - 2).to_bytes(2, "big") + own[left - take + 4 : left])
        left -= take
    return b"".join(parts)
