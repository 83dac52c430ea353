"""What a look at a machine says: each kind of disturbance is told, and a quiet machine says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from svload.analysis.quiet import Look, disturbances
from svload.analysis.whose import Whose

BURN = Whose("python3", 123, "bob", "python3 burn.py")
QUIET: dict[str, Any] = {
    "cores": 2,
    "stolen": {"cpu0": 0.0, "cpu1": 0.01},
    "waited": 0.02,
    "others": [(BURN, 0.1)],
}


def look(**changes: Any) -> Look:
    return Look(**(QUIET | changes))


def test_a_quiet_machine_says_nothing() -> None:
    assert disturbances(look()) == ()
    assert disturbances(look(stolen={}, waited=None, others=[])) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"others": [(BURN, 0.11)]}, "other processes use 0.11 of 2 cores: " "python3 " "(process " "123, bob, " "python3 burn.py)"),
        ({"others": [(BURN, 0.06), (Whose("cargo", 7), 0.05)]}, "python3 (process 123, bob, python3 " "burn.py), cargo " "(process 7)"),
        ({"stolen": {"cpu0": 0.0, "cpu1": 0.02}}, "the hypervisor gives 2 % of cpu1 to other guests"),
        ({"waited": 0.06}, "can't be seen from here wait for a core 6 % of the time"),
    ],
)  # fmt: skip
def test_each_disturbance_is_told(changes: dict[str, Any], words: str) -> None:
    (told,) = disturbances(look(**changes))
    assert words in told


def test_waiting_is_told_alone_where_nothing_explains_it() -> None:
    told = disturbances(look(others=[(BURN, 1.9)], stolen={"cpu0": 0.3}, waited=0.9))
    assert [words.split(" ")[0] for words in told] == ["other", "the"]
