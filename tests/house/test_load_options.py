"""The flags of `svload load`: none means two things, and the page for users of other tools names each short one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import typer

from svload.cli.app import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "load.md"


def flags() -> list[str]:
    command = typer.main.get_command(app).commands["load"]
    return [
        flag for option in command.params for flag in (*option.opts, *option.secondary_opts) if flag[0] == "-"
    ]


def test_no_flag_is_given_twice() -> None:
    assert [flag for flag, count in Counter(flags()).items() if count > 1] == []


def test_every_short_flag_is_in_the_table_for_users_of_peers() -> None:
    text = PAGE.read_text(encoding="utf-8")
    ours = " ".join(line.rsplit("|", 2)[1] for line in text.splitlines() if line.startswith("| "))
    missing = [flag for flag in flags() if not flag.startswith("--") and f"`{flag}`" not in ours]
    short_with_a_value = [flag for flag in missing if f"`{flag} " not in ours]
    assert short_with_a_value == []
