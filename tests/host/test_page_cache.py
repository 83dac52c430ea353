"""What of a folder's files lies in the page cache is told."""

from __future__ import annotations

import mmap
from pathlib import Path

from svload.host.machine.page_cache import Resident, in_page_cache


def test_what_was_written_is_resident_and_what_was_never_touched_is_not(tmp_path: Path) -> None:
    assert in_page_cache(tmp_path) is None
    assert in_page_cache(tmp_path / "nothing") is None
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "empty").touch()
    whole = 64 * mmap.PAGESIZE
    with (tmp_path / "below" / "half").open("wb") as file:
        file.write(b"x" * (whole // 2))
        file.flush()
        file.truncate(whole)  # the rest is a hole that nobody has read
    assert in_page_cache(tmp_path) == Resident(whole, whole // 2)
    (tmp_path / "odd").write_bytes(b"x" * 100)
    assert in_page_cache(tmp_path) == Resident(whole + 100, whole // 2 + 100)
