"""A few fixed cases of each fuzzer in every test run; `make test-fuzz` continues from there."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.bounds import HANG_S
from tests.fuzz import answers, imports, packs, pages, studies
from tests.fuzz.__main__ import READY
from tests.fuzz.oracle import Case, Fuzzer, command, fuzz

from svload.model.errors import fail

SEED = 20_240_229
SECONDS = HANG_S


@pytest.mark.parametrize(
    ("kind", "one", "most"),
    [
        ("studies", studies.one, 40),
        ("answers", answers.one, 25),
        ("pages", pages.one, 25),
        pytest.param("packs", packs.one, 10, marks=pytest.mark.truth),
        pytest.param("imports", imports.one, 40, marks=pytest.mark.truth),
    ],
)
def test_nothing_breaks(kind: str, one: Fuzzer, most: int) -> None:
    READY.get(kind, lambda: None)()
    tally = fuzz(kind, one, SEED, SECONDS, most=most)
    assert not tally.failures, "\n".join([f"seed {SEED}", *tally.failures])
    assert tally.ended.total() > 3, "they are hardly played"


def test_the_same_seed_makes_the_same_studies() -> None:
    for make in (studies._made, studies._mutated, studies._struck):
        assert make(Random("x 1 2")) == make(Random("x 1 2"))


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (ZeroDivisionError(), ("ZeroDivisionError", "--only studies --seed 1 --case 0")),
        (fail("usage", reason="x", hint="y" * 5_000), ("a message of",)),
    ],
)
def test_a_failure_is_seen(monkeypatch: pytest.MonkeyPatch, why: Exception, words: tuple[str, ...]) -> None:
    def broken(*_: object, **__: object) -> object:
        raise why

    monkeypatch.setattr("svload.api.plan", broken)
    [failure] = fuzz("studies", studies.one, 1, SECONDS, most=1).failures
    assert all(one in failure for one in words)


@pytest.mark.parametrize(
    ("breach", "words"),
    [
        ("raise ValueError('x')", "internal error"),
        ("sys.exit(77)", "exit 77"),
        ("os.kill(os.getpid(), 9)", "signal 9"),
    ],
)
def test_a_broken_command(breach: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert command(["verify", "nowhere"], tmp_path) == Case("exit 2"), "a refusal is no failure"

    def broken(*_: object, **__: object) -> None:
        exec(f"import os, sys\n{breach}")

    monkeypatch.setattr("svload.api.verify", broken)
    assert words in command(["verify", "x"], tmp_path).wrong


def test_an_identity_that_is_broken_is_seen() -> None:
    sound = {"begun": 3, "ok": 2, "failed": 1, "in_flight": 0, "due": 4, "dropped": 1, "waiting": 0}
    assert not answers._broken(sound | {"errors": {"malformed": 1}})
    assert answers._broken(sound | {"errors": {"malformed": 2}})
    assert answers._broken(sound | {"errors": {"unheard_of": 1}})
    assert answers._broken(sound | {"ok": 3, "errors": {"malformed": 1}})
