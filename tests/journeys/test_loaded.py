"""A command in a process that has svload loaded is what it is in one of its own."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from .loaded import run_loaded
from .world import LONGER_THAN_ANY_WAIT, World

pytestmark = pytest.mark.truth


@pytest.mark.parametrize(
    "words", [["schema"], ["schema", "nope"], ["lab", "status", "--json"], ["verify"], []]
)
def test_it_comes_to_the_same(world: World, words: list[str]) -> None:
    ended, own = world.svload(*words), replace(world, anew=True).svload(*words)
    assert (ended.returncode, ended.stdout, ended.stderr) == (own.returncode, own.stdout, own.stderr)


def test_it_is_ended_at_its_bound(world: World, truth: dict[str, int]) -> None:
    words = ["load", f"http://127.0.0.1:{truth['http_port']}/", "-c", "1", "-d", LONGER_THAN_ANY_WAIT]
    with pytest.raises(subprocess.TimeoutExpired):
        run_loaded(words, world.env, world.root, 2.0)
    assert world.silent() == []
