"""The load that a machine can generate, computed from its facts, and the problems found in them."""

from __future__ import annotations

from typing import Any

import pytest

from svload.fleet.inventory import Member
from svload.fleet.machines import LEAST_FREE_BYTES, MOST_WALL_OFF_NS, against, load_capacity, notes
from svload.host.clock.exchange import Link
from svload.host.clock.offset import WIDEST_NS, Offset

MEMBER = Member("h1", "192.0.2.1", True, False, "", 17700)
FACTS: dict[str, Any] = {
    "home": "/opt/svload", "cores": 8, "open_files": 1_000_000, "local_ports": 28_232, "free_bytes": 10**11,
    "writable": True, "installed": None, "clock_source": "tsc",
}  # fmt: skip


def test_ports_or_descriptors_bound_it() -> None:
    by_ports = load_capacity(FACTS, Link(1e9, 2e9))
    assert (by_ports.connections, by_ports.bound_by, by_ports.cores) == (28_232, "ports", 2)
    assert (by_ports.to_bytes_per_s, by_ports.back_bytes_per_s) == (1e9, 2e9)
    by_files = load_capacity(FACTS | {"open_files": 1024}, None)
    assert (by_files.connections, by_files.bound_by) == (960, "descriptors")


def wall(offset_ns: int) -> Offset:
    return Offset(offset_ns, 1_000, 0, 2_000)


@pytest.mark.parametrize(
    ("facts", "offset_ns", "codes"),
    [
        ({}, 0, []),
        ({}, MOST_WALL_OFF_NS, []),
        ({}, MOST_WALL_OFF_NS + 2_000, ["fleet-clock"]),
        ({}, -MOST_WALL_OFF_NS - 2_000, ["fleet-clock"]),
        ({"free_bytes": LEAST_FREE_BYTES - 1}, 0, ["fleet-disk-full"]),
        ({"free_bytes": LEAST_FREE_BYTES - 1, "installed": "a digest"}, 0, []),
        ({"writable": False}, 0, ["fleet-folder"]),
    ],
)
def test_what_speaks_against_it(facts: dict[str, Any], offset_ns: int, codes: list[str]) -> None:
    assert [one.code for one in against(MEMBER, FACTS | facts, wall(offset_ns))] == codes


def test_the_side_of_a_wrong_clock_is_reported() -> None:
    (ahead,) = against(MEMBER, FACTS, wall(90 * 10**9))
    (behind,) = against(MEMBER, FACTS, wall(-90 * 10**9))
    assert "ahead" in str(ahead) and "behind" in str(behind)


@pytest.mark.parametrize(
    ("facts", "bound_ns", "text", "words"),
    [
        ({}, WIDEST_NS, {}, None),
        ({}, WIDEST_NS + 1, {}, "one-way times"),
        ({"clock_source": "hpet"}, 0, {}, "hpet"),
        ({"open_files": 1024}, 0, {}, "descriptors bound it"),
        ({}, 0, {"refused": ["net.core.somaxconn"]}, "net.core.somaxconn"),
    ],
)
def test_notes(facts: dict[str, Any], bound_ns: int, text: dict[str, Any], words: str | None) -> None:
    found = notes(FACTS | facts, Offset(0, bound_ns, 0, 0), text)
    assert len(found) == (words is not None)
    assert words is None or words in found[0]
