"""Starting a keeper: one that does not come up in time is ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.bounds import HANG_S

from svload.model.errors import SvloadError
from svload.run import kept


def test_a_keeper_that_does_not_come_up_in_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path))
    monkeypatch.setattr(kept, "UP_TIMEOUT_S", 0.1)
    monkeypatch.setattr(kept, "python", lambda *words: [sys.executable, "-c", "import time; time.sleep(60)"])
    started: list[subprocess.Popen[bytes]] = []

    def start(*args: Any, **how: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*args, **how))
        return started[-1]

    monkeypatch.setattr(kept, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    with pytest.raises(SvloadError, match=r"not up within 0\.1 s"):
        kept.keep(SimpleNamespace(name="labs", to_json=lambda: "{}"), 60.0)  # type: ignore[arg-type]
    assert started[0].wait(HANG_S) == -signal.SIGTERM
