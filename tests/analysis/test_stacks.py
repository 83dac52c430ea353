"""What folded stacks say, by arithmetic: own and inclusive samples, the tree, what is drawn of it."""

from __future__ import annotations

from svload.analysis.stacks import call_tree, function_shares, most_inclusive
from svload.model.stacks import Stacks

FOLDED = {"s;main;a": 6, "s;main;b;a": 3, "s;main;b;b": 4, "s;main;b;x_[k]": 5, "t;b": 2}


def stacks(folded: dict[str, int]) -> Stacks:
    return Stacks(service="s", rate_hz=99, window_s=1.0, samples=sum(folded.values()), folded=folded)


def test_what_ran_itself_and_what_was_under_way_are_told_apart() -> None:
    shares = {one.name: (one.own, one.inclusive) for one in function_shares(FOLDED)}
    assert shares == {"a": (9, 9), "b": (6, 14), "x_[k]": (5, 5), "main": (0, 18)}
    assert [one.name for one in function_shares(FOLDED)] == ["a", "b", "x_[k]", "main"]


def test_a_functions_own_samples_add_up_to_all() -> None:
    assert sum(one.own for one in function_shares(FOLDED)) == 20
    assert sum(frame_own(call_tree(FOLDED))) == 20


def frame_own(frame) -> list[int]:
    return [frame.own, *(own for called in frame.called.values() for own in frame_own(called))]


def test_what_begins_each_thread_and_the_kernel_are_not_named_as_the_most_inclusive() -> None:
    begun = {f"s;clone3;start_thread;{stack.partition(';')[2]}": count for stack, count in FOLDED.items()}
    assert [one.name for one in most_inclusive(function_shares(begun), 5)] == ["b", "a"]
    assert [one.name for one in most_inclusive(function_shares(begun), 1)] == ["b"]


def test_a_function_without_samples_of_its_own_has_none_in_the_tree() -> None:
    root = call_tree(FOLDED)
    assert (root.samples, root.called["s"].samples, root.called["s"].called["main"].own) == (20, 18, 0)


def test_samples_stand_for_seconds_of_cpu() -> None:
    assert stacks(FOLDED).cpu_s == 20 / 99
