"""The known-truth server as a process: ready line, end by a signal, errors in one line. Its service and its
counters are tested in engine/truth."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import HANG_S
from tests.servers import completed, wait_until

from svload.host.process.readable import readable
from svload.truth import __main__ as door

pytestmark = pytest.mark.truth


def truth(folder: Path, *words: str, **config: Any) -> list[str]:
    file = folder / "truth.json"
    file.write_text(json.dumps({"http_port": 0, "admin_port": 0, "role": "store", **config}))
    return [sys.executable, "-m", "svload.truth", "--config", str(file), *words]


def counters(port: int) -> dict[str, int]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
    connection.request("GET", "/counters")
    found: dict[str, int] = json.loads(connection.getresponse().read())
    connection.close()
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_by_a_signal_at_once_with_a_request_under_way(tmp_path: Path, number: signal.Signals) -> None:
    """Its ready line goes to the descriptor that was asked for."""
    told, writable = os.pipe()
    hour = {"constant_ns": 3_600_000_000_000}
    command = truth(tmp_path, "--verbose", "--ready-fd", str(writable), service_time=hour)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "pass_fds": [writable]}
    with subprocess.Popen(command, text=True, **pipes) as process:
        os.close(writable)
        assert readable(told, HANG_S), "no ready line"
        with os.fdopen(told) as lines:
            ready = json.loads(lines.readline())
        connection = http.client.HTTPConnection("127.0.0.1", ready["http_port"], timeout=HANG_S)
        connection.request("GET", "/v1/a/c/o")
        wait_until(lambda: counters(ready["admin_port"])["in_service"] == 1)
        process.send_signal(number)
        out, found = process.communicate(timeout=HANG_S)
        connection.close()
        assert (process.returncode, out) == (0, "")
        final = json.loads(found)
        assert (final["requests"], final["unfinished"], final["answers"]) == (1, 1, 0)


def test_a_bad_configuration_names_the_field(tmp_path: Path) -> None:
    done = completed(truth(tmp_path, workers=0))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "workers" in done.stderr


def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert door.main(["--config", str(tmp_path / "gone.json")]) == 2
    assert "gone.json" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "svload._native", None)
    assert door.main(truth(tmp_path)[3:]) == 2
    assert "make setup" in capsys.readouterr().err
