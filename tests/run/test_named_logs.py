"""A log that a message names still exists when the user reads the message."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.model.errors import Problem, SvloadError, fail
from svload.run.attempts import name_kept_logs, without_logs


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


def test_where_no_log_is_named_none_is_kept(lab: Path, tmp_path: Path) -> None:
    error = SvloadError(Problem("port-taken", {"port": 80, "service": "cache", "holder": "x"}))
    name_kept_logs(lab, tmp_path / "logs", error)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("code", "others"), [("service-died", True), ("link-died", True), ("port-taken", False)]
)
def test_a_log_that_nobody_keeps_is_not_named(code: str, others: bool) -> None:
    before = Problem(code, {"log": "/gone", "run": "/gone"})
    after = without_logs(before, "Keep it.")
    assert (after.remedy == "Keep it.") is others
    assert "/gone" not in str(after)
