"""Temporary folders are removed when their process ends, however it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.bounds import HANG_S

from svload.host import passing_folder

HOLDS = """
import sys
from pathlib import Path
from svload.host import passing_folder

with passing_folder("load", Path(sys.argv[1])) as folder:
    (folder / "study.yaml").write_text("name: x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder(state: Path) -> tuple[subprocess.Popen[str], Path]:
    words = [sys.executable, "-c", HOLDS, str(state)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, Path(process.stdout.readline().strip())


def test_it_is_gone_afterwards(tmp_path: Path) -> None:
    with passing_folder("load", tmp_path) as folder:
        (folder / "inside").write_text("x")
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_a_killed_one_goes_with_the_next_and_a_living_one_stays(tmp_path: Path) -> None:
    killed, left = holder(tmp_path)
    living, kept = holder(tmp_path)
    killed.kill()
    killed.communicate(timeout=HANG_S)
    assert left.exists()
    with passing_folder("load", tmp_path):
        assert not left.exists()
        assert (kept / "study.yaml").exists()
    living.communicate("", timeout=HANG_S)
    assert living.returncode == 0
    assert not kept.exists()


def test_a_link_is_neither_followed_nor_swept(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("x")
    (tmp_path / "passing").mkdir()
    (tmp_path / "passing" / "load-x").symlink_to(elsewhere)
    with passing_folder("load", tmp_path):
        assert (elsewhere / "mine").exists()
