"""JPEG files of any size: valid, of exactly that size, equal for equal seed and path, otherwise different."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.evolve import evolve

from svload.lab.images import Images
from svload.lab.objects import LEAST_IMAGE_BYTES, fill_key, planned_objects
from svload.model.study import ObjectSet


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return Images(tmp_path_factory.mktemp("images"))


def segments(file: bytes) -> Iterator[tuple[int, bytes]]:
    """Return marker and content of each segment up to the scan. Raise AssertionError if it is no JPEG."""
    assert file[:2] == b"\xff\xd8"
    at = 2
    while True:
        assert file[at] == 0xFF, at
        marker, length = file[at + 1], int.from_bytes(file[at + 2 : at + 4], "big")
        yield marker, file[at + 4 : at + 2 + length]
        at += 2 + length
        if marker == 0xDA:
            break
    assert file.endswith(b"\xff\xd9")


def pixels(file: bytes) -> int:
    frame = next(content for marker, content in segments(file) if marker in (0xC0, 0xC1, 0xC2))
    return int.from_bytes(frame[1:3], "big") * int.from_bytes(frame[3:5], "big")


SIZES = [LEAST_IMAGE_BYTES, 1025, 1100, 4096, 40_960, 65_000, 409_600, 1_400_000, 2_500_003]


@pytest.mark.parametrize("size", SIZES)
def test_a_picture_has_exactly_its_size_and_is_whole(images: Images, size: int) -> None:
    file = images.content("/v1/a/c/o", size, 3)
    assert len(file) == size
    found = [marker for marker, _ in segments(file)]
    assert {0xDB, 0xC4, 0xDA} <= set(found), "tables and a scan"
    assert 0xFE in found


def test_every_length_of_comment_closes(images: Images) -> None:
    whole = [len(images.content("/o", size, 1)) for size in range(1500, 1600)]
    assert whole == list(range(1500, 1600))
    for extra in range(65_530, 65_550):  # about the most that one comment holds
        size = 2_000_000 + extra
        file = images.content("/o", size, 1)
        assert len(file) == size
        list(segments(file))


def test_larger_files_have_larger_pictures(images: Images) -> None:
    areas = [pixels(images.content("/o", size, 1)) for size in SIZES[:-1]]
    assert areas == sorted(areas)
    assert areas[-1] > 100 * areas[0]
    found = segments(images.content("/o", 40_960, 1))
    comments = sum(len(content) for marker, content in found if marker == 0xFE)
    assert comments < 0.4 * 40_960, "most of it is picture"


def test_seed_and_path_decide(images: Images) -> None:
    one = images.content("/v1/a/c/o1", 5000, 1)
    assert one == images.content("/v1/a/c/o1", 5000, 1)
    assert one == Images(images._home.parent).content("/v1/a/c/o1", 5000, 1), "kept, not drawn anew"
    assert one != images.content("/v1/a/c/o2", 5000, 1)
    assert one != images.content("/v1/a/c/o1", 5000, 2)


def test_what_is_too_small_is_no_picture(images: Images) -> None:
    with pytest.raises(ValueError, match="1024 at least"):
        images.content("/o", 600, 1)
    law = {"lognormal": {"median": 1500, "p99": 20_000}}
    few = ObjectSet(name="o", service="s", count=300, size=law, content="jpeg")
    assert min(one.size_bytes for one in planned_objects(few, 1)) == LEAST_IMAGE_BYTES
    raw = evolve(few, content="random")
    assert min(one.size_bytes for one in planned_objects(raw, 1)) < LEAST_IMAGE_BYTES
    assert fill_key([few], 1) != fill_key([raw], 1)
