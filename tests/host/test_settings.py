"""Kernel settings of a lab or of the machine: reported, restored, and never left half done."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from svload.cli.app import app
from svload.host.agent import journal, settings
from svload.host.agent.journal import Journal
from svload.host.agent.settings import Settings
from svload.host.machine import linux
from svload.model.errors import SvloadError
from svload.model.messages import HoldSysctls

NETWORK, MACHINE = "net.ipv4.tcp_fin_timeout", "fs.file-max"


def in_files(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    for module in (settings, journal):
        monkeypatch.setattr(module, "sysctl_path", lambda name: root / name)
    monkeypatch.setattr(linux, "namespace", lambda kind: "net:[1]")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a machine's /proc/sys of ordinary files."""
    root = tmp_path / "sys"
    in_files(monkeypatch, root)
    root.mkdir()
    (root / NETWORK).write_text("60\n")
    (root / MACHINE).write_text("1000\n")
    return root


def ask(held: Settings, host: bool = True, **values: str) -> dict[str, dict[str, Any]]:
    names = {"network": NETWORK, "machine": MACHINE, "none": "net.core.no_such"}
    order = HoldSysctls(values={names[key]: value for key, value in values.items()}, host=host)
    return {one["name"]: one for one in held.hold(order)["settings"]}


def test_what_is_asked_no_more_gets_its_old_value_again(proc: Path, log: Journal) -> None:
    held = Settings(log, None)
    assert ask(held, network="37", machine="2000")[NETWORK]["found"] == "37"
    assert (proc / MACHINE).read_text() == "2000"
    ask(held, network="38")
    assert ((proc / NETWORK).read_text(), (proc / MACHINE).read_text()) == ("38", "1000")
    ask(held)
    assert (proc / NETWORK).read_text() == "60", "what it was before svload, not the value in between"
    ask(held, network="37", machine="2000")
    (proc / MACHINE).write_text("3000\n")
    held.release()
    found = ((proc / NETWORK).read_text(), (proc / MACHINE).read_text())
    assert found == ("60", "3000\n"), "a value that someone else set meanwhile is theirs"


@pytest.mark.parametrize("killed", [False, True])
def test_the_ratio_that_an_amount_replaced_is_in_use_again(
    proc: Path, log: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    amount, ratio = proc / "vm.dirty_bytes", proc / "vm.dirty_ratio"
    amount.write_text("0\n")
    ratio.write_text("20\n")
    written = Path.write_text

    def write(path: Path, text: str, **more: Any) -> int:
        if path == amount and text == "0":
            raise OSError(22, "Invalid argument")
        if path in (amount, ratio):
            written(ratio if path == amount else amount, "0\n")
        return written(path, text, **more)

    monkeypatch.setattr(Path, "write_text", write)
    held = Settings(log, None)
    for value in ("8192", "16384"):
        held.hold(HoldSysctls(values={"vm.dirty_bytes": value}, host=True))
    assert (amount.read_text(), ratio.read_text()) == ("16384", "0\n")
    if killed:
        assert journal.undo(tmp_path / "lab").lines == ["put vm.dirty_ratio back to 20"]
    else:
        held.release()
    assert (amount.read_text(), ratio.read_text()) == ("0\n", "20")


def test_a_setting_of_the_machine_needs_the_users_word(proc: Path, log: Journal) -> None:
    found = ask(Settings(log, None), host=False, machine="2000")[MACHINE]
    assert (found["found"], found["layer"]) == ("1000", "machine")
    takes = {
        name
        for name, command in typer.main.get_command(app).commands.items()
        if any("--host-settings" in one.opts for one in command.params)
    }
    assert set(re.findall("“(?:svload )?([a-z]+)”", found["why"])) == takes
    assert "--host-settings" in found["why"]
    assert (proc / MACHINE).read_text() == "1000\n"
    assert ask(Settings(log, None), host=False, machine="1000")[MACHINE]["why"] == "", "as it is already"


def test_kernel_refusal(proc: Path, log: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Path.write_text

    def refuse(path: Path, text: str, **more: Any) -> int:
        if path == proc / NETWORK and text == "-1":
            raise OSError(22, "Invalid argument")
        return written(path, "4096" if text == "9999" else text, **more)

    monkeypatch.setattr(Path, "write_text", refuse)
    held = Settings(log, None)
    found = ask(held, network="-1", none="1", machine="9999")
    assert {name: (one["found"], one["why"]) for name, one in found.items()} == {
        NETWORK: ("60", "the kernel refused it (Invalid argument)"),
        "net.core.no_such": (None, "this kernel has no such setting"),
        MACHINE: ("4096", "the kernel took another value"),
    }
    held.release()
    assert (proc / MACHINE).read_text() == "1000"
    assert not [one for one in journal.read_entries(tmp_path / "lab") if not one["done"]]


def test_all_or_none_is_set(proc: Path, log: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Settings(log, None)
    ask(held, network="37")
    announce, calls = log.announce, iter(range(9))

    def full(kind: str, **what: object) -> int:
        if next(calls) == 1:
            raise OSError(28, "No space left on device")
        return announce(kind, **what)

    monkeypatch.setattr(log, "announce", full)
    with pytest.raises(SvloadError, match="No space left"):
        ask(held, network="38", machine="2000")
    assert ((proc / NETWORK).read_text(), (proc / MACHINE).read_text()) == ("37", "1000\n")


@pytest.mark.parametrize("cut", range(4))
def test_whoever_dies_in_the_middle_leaves_a_journal_that_puts_back(
    proc: Path, tmp_path: Path, log: Journal, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Killed before the write, after it, after its read-back, or between two changes of the same setting."""
    held = Settings(log, None)
    if cut == 3:
        ask(held, network="50")

    class Killed(BaseException):
        pass

    read_back = log.found

    def die(*words: Any, **what: Any) -> None:
        if cut == 2:
            read_back(*words, **what)
        raise Killed

    where: list[tuple[Any, str]] = [(Path, "write_text"), (log, "found"), (log, "found"), (log, "done")]
    monkeypatch.setattr(*where[cut], die)
    with pytest.raises(Killed):
        ask(held, network="37")
    monkeypatch.undo()
    in_files(monkeypatch, proc)
    outcome = journal.undo(tmp_path / "lab")
    assert outcome.failures == []
    assert cut or outcome.lines == [], "nothing was changed"
    assert (proc / NETWORK).read_text().strip() == "60"


def test_settings_survive(proc: Path, log: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of a lab with its own network must leave it to the keeper."""
    held = Settings(log, None)
    for value in ("50", "37"):
        ask(held, network=value)
    monkeypatch.setattr(linux, "namespace", lambda kind: "net:[2]")
    assert journal.undo(tmp_path / "lab").failures
    monkeypatch.setattr(linux, "namespace", lambda kind: "net:[1]")
    assert journal.undo(tmp_path / "lab").failures == []
    assert (proc / NETWORK).read_text() == "60", "what it was before svload, not the value in between"
    assert json.loads((tmp_path / "lab" / "journal.jsonl").read_text().splitlines()[0])["layer"] == "machine"
