"""The offset between two clocks: its bound holds whatever the network delays; and a real answerer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.servers import accepts, completed, wait_until

from svload.host.clock import answerer, exchange
from svload.host.clock.offset import WIDEST_NS, Exchange, Offset, estimate, over
from svload.host.machine.linux import processes

TRUE_NS = 987_654_321_000
WORD = "an-unguessed-word"


def went(sent_ns: int, there_ns: int, held_ns: int, back_ns: int, offset_ns: int = TRUE_NS) -> Exchange:
    """Return an exchange with these delays, with a clock that is `offset_ns` ahead."""
    received = sent_ns + there_ns + offset_ns
    return Exchange(sent_ns, received, received + held_ns, sent_ns + there_ns + held_ns + back_ns)


delays, offsets = some.integers(1, 50_000_000), some.integers(-(10**15), 10**15)


@given(some.lists(some.tuples(delays, delays, delays), min_size=1, max_size=30), offsets)
def test_the_bound_holds_whatever_the_delays(ways: list[tuple[int, int, int]], offset_ns: int) -> None:
    at, made = 10**12, []
    for there, held, back in ways:
        made.append(went(at, there, held, back, offset_ns))
        at = made[-1].back_ns + 1
    found = estimate(made, most_drift=0.0)
    assert abs(found.offset_ns - offset_ns) <= found.bound_ns
    assert found.bound_ns <= min(one.round_trip_ns for one in made) // 2 + 1
    assert found.round_trip_ns == min(one.round_trip_ns for one in made)


@given(some.lists(some.tuples(delays, delays), min_size=2, max_size=30), some.floats(-4e-4, 4e-4))
def test_the_bound_holds_under_drift(ways: list[tuple[int, int]], drift: float) -> None:
    at, made = 0, []
    for there, back in ways:
        arrives = at + there
        theirs = arrives + round(arrives * drift)
        made.append(Exchange(at, theirs, theirs, arrives + back))
        at = made[-1].back_ns + 1_000_000
    found = estimate(made)
    assert abs(found.offset_ns - found.at_ns * drift) <= found.bound_ns + 2


def test_quick_ways_of_both_directions_bound_it_better_than_either() -> None:
    quick_there = went(0, 10_000, 0, 900_000)
    quick_back = went(2_000_000, 900_000, 0, 10_000)
    apart = [estimate([one]).bound_ns for one in (quick_there, quick_back)]
    assert estimate([quick_there, quick_back]).bound_ns < 20_000 < min(apart)
    with pytest.raises(ValueError, match="was set"):
        estimate([went(0, 1_000, 0, 1_000), went(1_000_000, 1_000, 0, 1_000, TRUE_NS + 50_000)])
    with pytest.raises(ValueError, match="no exchange"):
        estimate([])


def test_one_offset_for_a_whole_trial_holds_both_ends() -> None:
    before, after = Offset(1_000, 100, 0, 200), Offset(1_900, 50, 10**9, 90)
    both = over(before, after)
    for end in (before, after):
        assert abs(both.offset_ns - end.offset_ns) + end.bound_ns <= both.bound_ns
    assert both.round_trip_ns == 90
    assert both.here(both.there(7_000)) == 7_000 == Offset(-5_000, 10, 0, 20).here(2_000)


def started(port: int, seconds: int, wrap: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the answerer's first output: its port, or the problem with which it ends."""
    program = Path(answerer.__file__).read_text(encoding="utf-8")
    words = [*wrap, sys.executable, "-I", "-c", answerer.STARTER, str(port), str(seconds)]
    done = completed(words, input=f"{WORD}\n{program}")
    said: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == ("problem" in said), done.stderr
    return said


@contextmanager
def answering(seconds: int = 20, wrap: tuple[str, ...] = ()) -> Iterator[int]:
    """Start the answerer as `fleet check` does, from standard input; yield the port that it prints."""
    port = int(started(0, seconds, wrap)["port"])
    try:
        yield port
    finally:
        exchange.tell_to_end("127.0.0.1", port, WORD)
        wait_until(lambda: not accepts(port))


@pytest.mark.parametrize("ahead_s", [0, 1000])
def test_the_offset_of_a_monotonic_clock_is_found(needs: Any, ahead_s: int) -> None:
    """A time namespace simulates a machine whose monotonic clock is 1,000 s ahead."""
    wrap = ("unshare", "--time", "--monotonic", str(ahead_s), "--fork") if ahead_s else ()
    if ahead_s:
        needs("root", "unshare")
    with answering(wrap=wrap) as port, exchange.connect("127.0.0.1", port, WORD) as connection:
        stamps = exchange.ping_pong(connection)
    assert len(stamps.monotonic) == len(stamps.wall) == exchange.EXCHANGES
    for exchanges, offset_ns in ((stamps.monotonic, ahead_s * 10**9), (stamps.wall, 0)):
        found = estimate(exchanges)
        assert abs(found.offset_ns - offset_ns) <= found.bound_ns
        assert ahead_s or found.bound_ns <= WIDEST_NS


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_link_is_measured_both_ways(address: str) -> None:
    with answering() as port:
        link = exchange.measure_link(address, port, WORD, milliseconds=50)
    assert min(link) > 1_000_000


def test_who_does_not_know_the_word_gets_no_answer_and_a_taken_port_is_reported() -> None:
    with answering() as port:
        with exchange.connect("127.0.0.1", port, "a-guess") as connection, pytest.raises(ConnectionError):
            exchange.ping_pong(connection)
        exchange.tell_to_end("127.0.0.1", port, "a-guess")
        assert accepts(port)
        assert started(port, 5)["problem"] == "fleet-port-taken"


def test_nobody_sees_the_word_of_an_answerer() -> None:
    seen = []
    with answering():
        for one in processes():
            with suppress(OSError):
                folder = Path(f"/proc/{one.pid}")
                seen.append((folder / "cmdline").read_bytes() + (folder / "environ").read_bytes())
    (own,) = [text for text in seen if answerer.STARTER.encode() in text]
    assert WORD.encode() not in own


def test_a_client_that_is_gone_again_ends_no_answerer() -> None:
    errors = [ConnectionAbortedError(), OSError("closed")]

    def accept() -> None:
        raise errors.pop(0)

    answerer.serve(cast(Any, SimpleNamespace(accept=accept)), WORD.encode())
    assert not errors


def test_it_ends_by_itself() -> None:
    with answering(seconds=1) as port:
        wait_until(lambda: not accepts(port))
