"""Who a named process is: user and command from the readings of monitor `others`."""

from __future__ import annotations

import numpy as np

from svload.analysis.checks.machine import User
from svload.analysis.whose import Whose, whose


def test_who_is_told_with_user_and_command() -> None:
    rows = [
        ("others", "", "cpu_seconds_total"),
        ("others", "tmux: server 11", "cpu_seconds"),
        ("others", "tmux: server 11 anna python3 crunch.py", "pid"),
        ("others", "python3 112", "cpu_seconds"),
        ("process", "python3 7", "cpu_seconds"),
    ]
    table = {
        name: np.array(column, dtype=object)
        for name, column in zip(("monitor", "entity", "metric"), zip(*rows, strict=True), strict=True)
    }
    found = whose(table)
    assert found == {
        "tmux: server 11": Whose("tmux: server", 11, "anna", "python3 crunch.py"),
        "python3 112": Whose("python3", 112),
    }
    assert str(found["tmux: server 11"]) == "tmux: server (process 11, anna, python3 crunch.py)"
    assert str(found["python3 112"]) == "python3 (process 112)"


def test_another_svload_is_not_the_one_that_measures() -> None:
    assert str(Whose("svload", 11, "anna", "svload run")) == "another svload (process 11, anna, svload run)"
    assert str(User("svload", "11", 1.5)) == "another svload (1.5 s of CPU, process 11)"
    assert str(User("svloader", "11", 1.5)) == "svloader (1.5 s of CPU, process 11)"
