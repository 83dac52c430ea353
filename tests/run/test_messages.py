"""A full disk, a limit, a killed helper: the message names the missing resource and logs that still exist."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svload.api.typed import writing
from svload.drive import generator
from svload.drive.generators import Load, ended_server
from svload.drive.share.timeline import Timeline
from svload.model.errors import ExitCode, Problem, SvloadError, error_line, error_of, fail
from svload.model.messages import Notice
from svload.run.attempts import name_kept_logs, without_logs
from svload.run.trial import TrialRun
from svload.watch.sampler import Sampler, _obey

FULL = OSError(errno.ENOSPC, "No space left on device")
TOLD: dict[str, tuple[Exception, str]] = {
    "full disk": (FULL, "The system refused access to the.tables (No space left on device)."),
    "quota of another file": (OSError(errno.EDQUOT, "Disk quota exceeded", "/x/y"), "The system refused access to /x/y (Disk quota exceeded)."),
    "file limit": (OSError(errno.EFBIG, "File too large"), "The system refused access to the.tables (File too large)."),
    "no descriptors": (OSError(errno.EMFILE, "Too many open files", b"/z"), "The system refused access to /z (Too many open files)."),
    "another": (ValueError("no such table"), "A load generator failed: load.0: ValueError: no such table."),
    "without a number": (OSError("cut off"), "A load generator failed: load.0: OSError: cut off."),
}  # fmt: skip


@pytest.mark.parametrize(("why", "text"), TOLD.values(), ids=TOLD)
def test_a_processs_report_of_a_failure_names_the_file(why: Exception, text: str) -> None:
    line = json.loads(json.dumps(error_line(why, "the.tables")))
    assert error_of("load.0", line["error"]).problems[0].sentence == text


def test_a_generator_that_cannot_write_its_tables_names_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def full(path: Path, tables: Any) -> None:
        raise FULL

    monkeypatch.setattr(generator, "begun", lambda *_: "")
    monkeypatch.setattr(generator._native, "run_share", lambda *_: {"summary": {"json": (0, ["{}"])}})
    monkeypatch.setattr(generator, "write_tables", full)
    read, write = os.pipe()
    generator._load({"share": {}, "inputs": {}, "out": tmp_path / "load.tables"}, 0, read, write)
    [problem] = error_of("load.0", json.loads(capsys.readouterr().out)["error"]).problems
    assert (problem.code, problem.details["path"]) == ("file-refused", str(tmp_path / "load.tables"))


def test_a_load_that_was_cut_and_handed_over_nothing_has_failed(tmp_path: Path) -> None:
    bench: Any = SimpleNamespace(overdue=True, should_stop=lambda: False)
    trial = TrialRun(bench, *[Any] * 3, 1, None)  # type: ignore[arg-type]
    with pytest.raises(SvloadError, match="no generator handed over its results"):
        trial._keep(Load(0, [], stopped_ns=1), Timeline(0, 9))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EIO])
def test_a_sampler_that_cannot_write_says_so_when_it_is_asked(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(number, "no")

    sampler = Sampler()
    sampler.prepare([], 0.05, tmp_path / "monitors.jsonl")
    monkeypatch.setattr(sampler._series, "flush", refuse)
    sampler.tick()
    assert sampler.due_ns == 0, "it does not try again and again"
    [problem] = error_of("sampler", _obey(sampler, b'{"sample": true}')["error"]).problems
    assert (problem.code, problem.details["path"]) == ("file-refused", str(tmp_path / "monitors.jsonl"))
    sampler.close()


@pytest.mark.parametrize(
    ("child", "code", "what"),
    [
        ("cache.delay-line", "link-died", "delay line of cache's link"),
        ("cache.server", "service-died", "service cache"),
    ],
)
def test_a_link_that_is_cut_is_not_its_service(child: str, code: str, what: str) -> None:
    data = {"exit": -9, "role": "server", "tail": ""}
    ended = Notice(number=1, monotonic_ns=5, child=child, kind="exit", data=data)
    error = ended_server(ended, 0, lambda service, offset: False)
    [problem] = error.problems
    assert problem.code == code
    assert f"The {what} exited unexpectedly (exit -9)" in problem.sentence


OUT = Path("/data/runs")


@pytest.mark.parametrize("name", ["/srv/u/.local/state/svload/labs/x", "/data/runs2/x", "/etc/x.csv"])
def test_a_file_elsewhere_is_not_called_the_place_to_write_to(name: str) -> None:
    with pytest.raises(OSError, match="No space") as caught, writing(OUT):
        raise OSError(errno.ENOSPC, "No space left on device", name)
    assert caught.value.filename == name


@pytest.mark.parametrize("name", [None, "/data/runs", b"/data/runs/a/lock", "/data", "/data/.runs.17.x1"])
def test_what_cannot_be_written_there_is_the_users_place(name: Any) -> None:
    with pytest.raises(SvloadError, match="/data/runs cannot be written: No space") as caught, writing(OUT):
        raise OSError(errno.ENOSPC, "No space left on device", name)
    assert caught.value.exit_code == ExitCode.USAGE


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    folder = tmp_path / "labs" / "a run 1"
    (folder / "cache").mkdir(parents=True)
    (folder / "cache" / "server.log").write_text("no such option\n")
    (folder / "agent.log").write_text("")
    return folder


NAMED = {
    "a log": ("service-died", {"service": "cache", "log": "{lab}/cache/server.log"}, "See {kept}/cache-server.log;"),
    "a log in a hint": ("lab-failed", {"hint": "See {lab}/cache/server.log."}, "See {kept}/cache-server.log. ["),
    "a folder in a hint": ("lab-failed", {"hint": "See {lab}/cache."}, "See {kept}. ["),
    "a log that is empty": ("reset-failed", {"service": "cache", "log": "{lab}/agent.log"}, "See {kept};"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "details", "words"), NAMED.values(), ids=NAMED)
def test_kept_lab_log(code: str, details: dict[str, str], words: str, lab: Path, tmp_path: Path) -> None:
    kept = tmp_path / "run" / "logs"
    error = fail(code, **{name: text.format(lab=lab) for name, text in details.items()})
    name_kept_logs(lab, kept, error)
    [found] = map(str, error.problems)
    assert words.format(kept=kept) in found and str(lab) not in found
    assert (kept / "cache-server.log").read_text() == "no such option\n"


@pytest.mark.parametrize(
    ("code", "others"), [("service-died", True), ("link-died", True), ("port-taken", False)]
)
def test_a_log_that_nobody_keeps_is_not_named(code: str, others: bool, lab: Path, tmp_path: Path) -> None:
    before = Problem(code, {"log": "/gone", "run": "/gone"})
    after = without_logs(before, "Keep it.")
    assert (after.remedy == "Keep it.") is others
    assert "/gone" not in str(after)
    error = SvloadError(Problem("port-taken", {"port": 80, "service": "cache", "holder": "x"}))
    name_kept_logs(lab, tmp_path / "logs", error)
    assert not (tmp_path / "logs").exists()
