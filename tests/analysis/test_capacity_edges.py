"""What a search does at its edges: first looks, too few requests, overload, limits outside the range, the gate."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log

import pytest

from svload.analysis.capacity.gate import gate_of
from svload.analysis.capacity.level import (
    LEAST,
    MOST,
    Margin,
    Replicate,
    Share,
    judge_level,
    requests_without_failure,
)
from svload.analysis.capacity.replicates import FARTHEST, KEEPS_UP, replicate_of, value_at, why_no_limit
from svload.analysis.capacity.scouting import scouted
from svload.analysis.capacity.search import GROWTH, Answer, Search, Step, ends_after, levels_after, next_step
from svload.model.capacity import CapacityResult, CapacityWay, SearchState
from svload.model.metrics import Criterion, parse_criterion
from svload.model.results import Belief, Estimate, TrialResult, Verdict

Server = Callable[[int, int | None], Replicate]
P95 = "p95"


def at(load: int, distance: float, after: int | None = None) -> Replicate:
    return Replicate(load, {P95: Margin(distance, distance, distance)}, after=after)


def breaks_above(limit: int) -> Server:
    return lambda load, after: at(load, 0.3 if load <= limit else -0.3, after)


def run(search: Search, server: Server, most: int = 300) -> tuple[Answer, list[Replicate], list[Step]]:
    seen: list[Replicate] = []
    steps: list[Step] = []
    while len(seen) < most:
        step = next_step(search, seen)
        if isinstance(step, Answer):
            return step, seen, steps
        steps.append(step)
        for load in step.loads:
            seen.append(server(load, seen[-1].load if seen else None))
    raise AssertionError("no answer")


# first looks


def test_first_looks_are_single_and_double_until_one_breaks() -> None:
    _, seen, steps = run(Search(1, 10_000, 8), breaks_above(100))
    looks = [step.loads for step in steps if len(step.loads) == 1]
    assert looks[:5] == [(8,), (16,), (32,), (64,), (128,)]
    assert scouted(Search(1, 10_000, 8), seen, GROWTH).trials == 5
    assert steps[5].loads == (64,) * LEAST


def test_first_looks_go_down_where_the_first_breaks() -> None:
    _, _, steps = run(Search(1, 10_000, 512), breaks_above(100))
    assert [step.loads for step in steps[:4]] == [(512,), (256,), (128,), (64,)]
    assert steps[4].loads == (64,) * LEAST


def test_a_first_look_counts_for_no_level() -> None:
    """Each level's replicates are those after the looks: one that was chosen for its look
    would be kept too often by it."""
    search = Search(1, 10_000, 8)
    _, seen, _ = run(search, breaks_above(100))
    looks = scouted(search, seen, GROWTH).trials
    for load, level in levels_after(search, seen).items():
        assert LEAST <= level.replicates <= sum(one.load == load for one in seen[looks:])
    assert 8 not in levels_after(search, seen)
    assert ends_after(search, seen[:looks]) == (None, None)


def test_a_look_that_a_later_verdict_turns_does_not_confuse_the_search() -> None:
    search = Search(1, 10_000, 8)
    _, seen, _ = run(search, breaks_above(100))
    turned = [at(16, -0.01), *seen[2:]]
    answer = next_step(search, [seen[0], *turned])
    assert isinstance(answer, (Answer, Step))
    if isinstance(answer, Step):
        assert all(search.least <= load <= search.most for load in answer.loads)


def test_looks_that_say_nothing_are_passed_by() -> None:
    def silent_at_start(load: int, after: int | None) -> Replicate:
        return Replicate(load, {P95: None}, after=after) if load == 8 else breaks_above(100)(load, after)

    answer, _, _ = run(Search(1, 10_000, 8), silent_at_start)
    assert answer.kept is not None
    assert answer.broken is not None
    assert answer.kept <= 100 < answer.broken


# too few requests


def few_below(load_with_enough: int, limit: int) -> Server:
    def measure(load: int, after: int | None) -> Replicate:
        if load < load_with_enough:
            return Replicate(
                load, {P95: None}, after=after, lacks={P95: "too few: 40 effective requests"}, too_few=True
            )
        return breaks_above(limit)(load, after)

    return measure


def test_too_few_requests_lead_upwards_and_cost_no_repeats() -> None:
    answer, seen, _ = run(Search(1, 10_000, 8), few_below(60, 500))
    assert answer.kept is not None
    assert answer.broken is not None
    assert answer.kept <= 500 < answer.broken
    assert sum(one.load < 60 for one in seen) <= 3, "a look each"


def test_a_level_with_too_few_requests_is_open_after_three_and_says_why() -> None:
    level = judge_level([few_below(60, 500)(8, None)] * LEAST)
    assert (level.outcome, level.too_few, level.by) == ("open", True, P95)
    assert "effective requests" in level.why
    refused = judge_level([Replicate(8, {P95: None}, lacks={P95: "REFUSED (steal)"})] * LEAST)
    assert refused.outcome == "more", "a REFUSED number is measured again"


def test_where_all_have_too_few_it_is_said() -> None:
    answer, _, _ = run(Search(1, 50, 8), few_below(60, 500))
    assert (answer.kept, answer.broken) == (None, None)
    assert "too few" in answer.why_wide


def test_a_share_that_its_requests_cannot_show_is_open_at_once() -> None:
    def level(n: int) -> str:
        return judge_level([Replicate(8, {}, {"success": Share(0, n, 0.001)})] * LEAST).outcome

    assert requests_without_failure(0.001) == 2_995
    assert level(40) == "open", "12 replicates of 40 requests never show 99.9 %"
    assert level(250) == "more", "12 of 250 do"
    assert level(1_000) == "kept"


@pytest.mark.parametrize("text", ["people.success_rate >= 99 %", "people.error_rate <= 1 %"])
@pytest.mark.parametrize(("off", "outcome"), [(0.0, "kept"), (0.004, "kept"), (0.04, "open")])
def test_a_share_is_kept_if_its_bounds_are(text: str, off: float, outcome: str) -> None:
    """Nobody failed, and success may be so much lower: none of 0 errors is a share of them."""
    belief = Belief(grade="VALID", below=off, above=0.0)
    one = judged("STEADY")
    success, errors = Estimate(value=1.0, n=5_000, belief=belief), Estimate(value=0.0, n=5_000)
    metrics = {"people.success_rate": success, "people.error_rate": errors}
    replicate = replicate_of(one.model_copy(update={"metrics": metrics}), [criterion(text)], 8, None, 30.0)
    found = judge_level([replicate] * MOST)
    assert found.outcome == outcome
    assert ("bounds" in found.why) is (outcome == "open")


def test_a_share_is_broken_if_its_bounds_are() -> None:
    bad = [Share(60, 1_000, 0.05, within) for within in (None, (58, 90), (40, 90))]
    assert [judge_level([Replicate(8, {}, {"success": one})] * MOST).outcome for one in bad] == [
        "broken",
        "broken",
        "open",
    ]


# overload


def judged(
    server: str, value: float | None = 0.1, grade: str = "VALID", reason: str = "", why: str = ""
) -> TrialResult:
    belief = (
        Belief(grade="REFUSED", below=None, above=None, doubts=("steal",)) if grade == "REFUSED" else None
    )
    metrics = {
        "people.response.p95": Estimate(value=value, n=500, reason=reason, why=why, belief=belief),  # type: ignore[arg-type]
        "people.success_rate": Estimate(value=1.0, n=5_000),
    }
    verdict = Verdict(trial="users-8.r1", instrument="VALID", server=server, reasons=(), checks=())  # type: ignore[arg-type]
    return TrialResult(
        trial="users-8.r1", case="users-8", replicate=1, block=1, verdict=verdict, metrics=metrics
    )


def criterion(text: str) -> Criterion:
    return parse_criterion(text, {"people": "traffic"})


LIMIT, SUCCESS = criterion("people.response.p95 <= 200 ms"), criterion("people.success_rate >= 99.9 %")


def test_an_overloaded_server_breaks_any_criterion() -> None:
    for criteria in ([LIMIT], [SUCCESS], [LIMIT, SUCCESS]):
        steady, overloaded = (
            replicate_of(judged(state), criteria, 8, None, 30.0) for state in ("STEADY", "OVERLOADED")
        )
        assert steady.holds is True
        assert overloaded.holds is False
        assert judge_level([overloaded] * LEAST).outcome == "broken"
        assert judge_level([overloaded] * LEAST).by == KEEPS_UP
    unknown = replicate_of(judged("OVERLOADED", None), [LIMIT, SUCCESS], 8, None, 30.0)
    assert judge_level([unknown] * LEAST).outcome == "broken", "its number is beside the point"


def test_why_a_trial_has_no_number_is_kept() -> None:
    few = replicate_of(
        judged("STEADY", None, reason="too few: 9 effective requests", why="too few"), [LIMIT], 8, None, 30.0
    )
    assert (few.too_few, few.holds) == (True, None)
    refused = replicate_of(judged("STEADY", grade="REFUSED"), [LIMIT], 8, None, 30.0)
    assert (refused.too_few, refused.holds) == (False, None)
    assert refused.lacks[LIMIT.text] == "REFUSED (steal)"
    beyond = replicate_of(
        judged("STEADY", None, reason="> time-out (7 % failed)", why="time-out"), [LIMIT], 8, None, 30.0
    )
    assert beyond.holds is False


def test_a_margin_is_its_value() -> None:
    assert value_at(LIMIT, 0.0) == pytest.approx(0.2)
    assert value_at(LIMIT, log(2)) == pytest.approx(0.1)
    assert value_at(SUCCESS, 0.0) == pytest.approx(0.999)
    assert value_at(criterion("people.error_rate <= 1 %"), log(2)) == pytest.approx(0.005)
    assert value_at(LIMIT, FARTHEST) < 1e-6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("people.response.p95 == 200 ms", "<= or >="),
        ("people.throughput >= 500/s", "grows with the load"),
        ("people.goodput(200 ms) >= 500/s", "grows with the load"),
        ("people.success_rate >= 100 %", "99.9 %"),
        ("people.error_rate <= 0 %", "99.9 %"),
        ("people.success_rate <= 50 %", "does not break it"),
        ("people.response.p95 <= 0 ms", "not above 0"),
    ],
)
def test_what_no_search_can_ask_is_refused(text: str, words: str) -> None:
    assert words in why_no_limit(criterion(text))


def test_what_a_search_can_ask_is_not() -> None:
    for text in ("people.response.p95 <= 200 ms", "people.success_rate >= 99.9 %", "people.error_rate < 1 %"):
        assert why_no_limit(criterion(text)) == ""


# hysteresis


def test_a_server_that_overload_has_broken_for_a_while_is_told_apart_from_noise() -> None:
    """Its kept end, reached from above, breaks every time; from below it holds."""
    answer, _, _ = run(
        Search(1, 200, 8),
        lambda load, after: at(load, -0.3 if load > 60 or (load > 30 and (after or 0) > 60) else 0.3, after),
    )
    assert answer.hysteresis == (answer.kept,)
    assert answer.kept is not None
    assert 57 <= answer.kept <= 60
    assert not run(Search(1, 200, 8), breaks_above(60))[0].hysteresis


def test_the_kept_end_is_measured_again_from_both_sides() -> None:
    answer, seen, _ = run(Search(1, 10_000, 8), breaks_above(100))
    assert {way: level.outcome for way, level in answer.confirmed.items()} == {
        "from above": "kept",
        "from below": "kept",
    }
    for wanted in (lambda before: before > 100, lambda before: before < (answer.kept or 0)):
        assert (
            sum(one.load == answer.kept and one.after is not None and wanted(one.after) for one in seen)
            >= LEAST
        )


# the gate

FROM_ABOVE = CapacityWay(way="from above", outcome="kept", replicates=3)


def found(state: SearchState, kept: int | None, broken: int | None, **more: object) -> CapacityResult:
    return CapacityResult(
        over="users",
        that=("p95 <= 200 ms",),
        state=state,
        kept=kept,
        broken=broken,
        sentence="",
        ended=state != "searching",
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("at_least", "result", "outcome"),
    [
        (100, found("bracketed", 100, 105), "pass"),
        (101, found("bracketed", 100, 105), "open"),
        (105, found("bracketed", 100, 105), "fail"),
        (200, found("bracketed", 100, 105), "fail"),
        (100, found("above", 500, None), "pass"),
        (100, found("below", None, 4), "fail"),
        (100, found("undecided", None, None), "open"),
        (100, found("undecided", 120, None), "pass"),
        (100, found("undecided", 64, None), "open"),
        (100, found("searching", 120, 140), "open"),
        (100, found("bracketed", 120, 126, hysteresis=(120,)), "open"),
        (100, found("bracketed", 120, 126, hysteresis=(90,), confirmed=(FROM_ABOVE,)), "pass"),
    ],
)
def test_the_gate_has_three_answers(at_least: int, result: CapacityResult, outcome: str) -> None:
    gate = gate_of(at_least, result)
    assert gate is not None
    assert gate.outcome == outcome
    assert f"{at_least:,}" in gate.sentence
    assert gate_of(None, result) is None


def test_an_infinite_margin_has_no_mean() -> None:
    level = judge_level([Replicate(8, {P95: Margin(-inf, -inf, -inf)})] * LEAST)
    assert (level.outcome, level.mean) == ("broken", -inf)
