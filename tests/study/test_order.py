"""The order of trials: blocks, whole plots, seeds, turns and bring-ups, by positions and never by names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evolve import evolve

from svload.analysis.contrasts import contrasts_of
from svload.model.plan import TrialPlan
from svload.model.study import Case, Factor, Level, Lock, Measure
from svload.study import Free, draw, first_batch, in_turns, leaves_order_open, resolve, why_not_side_by_side
from svload.study.order import sets_of_turns

from .conftest import SMALL, line_of, problems_of


def lock_of(
    sizes: list[int], changes: list[str], replicates: int, seed: int, last: int = 0, **measure: Any
) -> Lock:
    """Return a lock whose factors have `sizes` levels; every third combination is excluded. Names are
    numbered upwards, or downwards from `last`."""

    def name(kind: str, number: int) -> str:
        return f"{kind}{abs(last - number)}"

    def factor(n: int, size: int) -> Factor:
        levels = tuple(Level(name=name("l", k), value=k) for k in range(size))
        return Factor(name=name("f", n), levels=levels, change=changes[n])

    def case(n: int, numbers: tuple[int, ...]) -> Case:
        levels = {name("f", k): name("l", number) for k, number in enumerate(numbers)}
        return Case(name=name("c", n), levels=levels, excluded="so" if n % 3 == 2 else None)

    factors = tuple(factor(n, size) for n, size in enumerate(sizes))
    cases = tuple(case(n, numbers) for n, numbers in enumerate(product(*map(range, sizes))))
    measured = Measure(duration_ns=1, replicates=replicates, **measure)
    study = {"name": "x", "svload_version": "0", "study_sha256": "", "study_dir": ".", "source": {}}
    return Lock(seed=seed, factors=factors, cases=cases, measure=measured, **study)


designs = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["request", "live", "restart", "rebuild"])), min_size=1, max_size=4).map(
    lambda pairs: ([size for size, _ in pairs], [change for _, change in pairs])
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(designs, st.integers(1, 5), st.integers(0, 2**40))
def test_each_block_holds_every_case(design: tuple[list[int], list[str]], replicates: int, seed: int) -> None:
    lock = lock_of(*design, replicates, seed)
    batch = first_batch(lock)
    valid = [case.name for case in lock.valid_cases]
    assert [trial.position for trial in batch.trials] == list(range(len(valid) * replicates))
    blocks = [list(trials) for _, trials in groupby(batch.trials, key=lambda trial: trial.block)]
    assert len(blocks) == replicates
    for number, trials in enumerate(blocks, start=1):
        assert Counter(trial.case for trial in trials) == Counter(valid)
        assert {(trial.block, trial.replicate) for trial in trials} == {(number, number)}
    assert len({trial.seed for trial in batch.trials}) == len(batch.trials)
    assert all(trial.trial == f"{trial.case}.r{trial.replicate}" for trial in batch.trials)


@settings(max_examples=60, deadline=None)
@given(designs, st.integers(1, 4), st.integers(0, 2**40))
def test_restarts_make_whole_plots(design: tuple[list[int], list[str]], replicates: int, seed: int) -> None:
    lock = lock_of(*design, replicates, seed)
    hard = [factor.name for factor in lock.factors if factor.change in ("restart", "rebuild")]
    plots = [list(trials) for _, trials in groupby(first_batch(lock).trials, key=lambda one: one.whole_plot)]
    if not hard:
        assert len(plots) == 1
        assert not any(trial.restart for trial in plots[0])
        return
    kinds = {tuple(case.levels[name] for name in hard) for case in lock.valid_cases}
    assert len(plots) == len(kinds) * replicates
    for number, trials in enumerate(plots):
        assert {trial.whole_plot for trial in trials} == {number}
        assert [trial.restart for trial in trials] == [number > 0, *[False] * (len(trials) - 1)]
        assert len({tuple(lock.case(trial.case).levels[name] for name in hard) for trial in trials}) == 1
        assert len({trial.block for trial in trials}) == 1


def test_replicates_add_blocks_and_a_seed_changes_order_and_loads() -> None:
    few, many = (first_batch(lock_of([3, 3], ["request", "restart"], replicates, 7)) for replicates in (2, 5))
    assert many.trials[: len(few.trials)] == few.trials
    one, two = (first_batch(lock_of([3, 3, 3], ["request"] * 3, 4, seed)) for seed in (1, 2))
    assert [trial.case for trial in one.trials] != [trial.case for trial in two.trials]
    assert not {trial.seed for trial in one.trials} & {trial.seed for trial in two.trials}
    lock = lock_of([2, 2], ["request", "request"], 2, 1, order="as-listed")
    assert [trial.case for trial in first_batch(lock).trials] == [case.name for case in lock.valid_cases] * 2


def test_every_place_of_a_block_is_as_likely_for_every_case() -> None:
    """χ² over 600 blocks of 4 cases: 9 degrees of freedom, its 99.99 % quantile is 33.7."""
    seen: Counter[tuple[int, str]] = Counter()
    for trial in first_batch(lock_of([6], ["request"], 600, 5)).trials:
        seen[trial.position % 4, trial.case] += 1
    assert len(seen) == 16
    assert sum((count - 150) ** 2 / 150 for count in seen.values()) < 33.7


@given(designs, st.integers(0, 2**40))
def test_names_leave_the_order(design: tuple[list[int], list[str]], seed: int) -> None:
    """Even if the names sort the other way round."""
    ours, theirs = (lock_of(*design, 3, seed, last=last) for last in (0, 1000))
    names = {one.name: other.name for one, other in zip(ours.cases, theirs.cases, strict=True)}
    for one, renamed in zip(first_batch(ours).trials, first_batch(theirs).trials, strict=True):
        name = names[one.case]
        assert renamed == evolve(one, case=name, trial=f"{name}.r{one.replicate}")


@given(st.integers(0, 2**60), st.integers(0, 1000))
def test_seeds_are_exact_in_json_everywhere(seed: int, what: int) -> None:
    assert 0 <= draw(seed, "load", what) < 2**53
    assert draw(seed, "load", what) == draw(seed, "load", what)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("workers: 4", 'workers: "${users}"', "restart"),
        ("kit: stone", 'kit: "stone-${users}"', "restart"),
        ("count: 100", 'count: "${users}"', "rebuild"),
        ("timeout: 5s", 'timeout: "${users}s"', "request"),
        ("workers: 4", 'workers: "${scheme.n}"', "restart"),
    ],
)
def test_what_a_change_of_a_factor_costs(load: Callable[..., Lock], old: str, new: str, change: str) -> None:
    text = SMALL.replace(old, new).replace("[http, https]", '{http: {n: "${users}"}, https: {n: 1}}')
    costs = {factor.name: factor.change for factor in load(text).factors}
    assert costs["users"] == change
    assert costs["way"] == "request"


STUDY = """\
name: sides
lab:
  web: {kit: stone, workers: "${build.workers}"}
factors:
  build: {old: {workers: 1}, new: {workers: 2}}
  path: [a, b]
before_trial:
  - {reset: [web]}
traffic:
  users: {executor: constant-vus, vus: 4, request: "GET http://web/${path}"}
measure: {duration: 5s, replicates: 3, order: turns}
compare:
  - {factor: build, baseline: old, metric: users.response.p50}
"""
LATER = """\
traffic:
  more: {executor: constant-vus, vus: 1, ramp_up: 1s, start_when: users.ramped, request: "GET http://web/"}"""
COMPARE = "{name: the front, factor: way, baseline: direct, metric: guest.response.p50}"
BY_PATH = "- {factor: path, baseline: a, metric: users.response.p50}"


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("before_trial:", "faults:\n  - {at: 1s, stop: web}\nbefore_trial:", "faults:", "a fault would hit"),
        ("{reset: [web]}", "{drop_cache: [web]}", "drop_cache", "the same page cache"),
        ("before_trial:", "profile: web\nbefore_trial:", "profile:", "slow only its side"),
        ("path: [a, b]", "path: [a, b]\n  rate: {open: [1, 9]}", "open:", "the machine to itself"),
        ("replicates: 3", "replicates: 3, bring_ups: 2", "bring_ups", "brings the servers up anyway"),
        ("traffic:", LATER, "start_when", "runs all the time"),
        ("vus: 4,", "vus: 4, record: histogram,", "record:", "a histogram keeps no single"),
        ("constant-vus, vus: 4", "shared-iterations, vus: 4, iterations: 9", "vus:", "stays the same"),
        ("constant-vus, vus: 4", "ramping-vus, stages: [{duration: 5s, target: 4}]", "stages:", "stays the same"),
        ("compare:\n  - {factor: build, baseline: old, metric: users.response.p50}\n", "", "order:", "compares nothing"),
        ("compare:", f"compare:\n  {BY_PATH}", "factor: build", "path is compared already"),
        ("metric: users.response.p50", "metric: web.cpu.mean", "metric:", "its own interval"),
        ("{kit: stone,", "{kit: stone, port: 8080,", "port:", "only one of them can have this port"),
        ("{kit: stone,", "{kit: stone, on: servers,", "on:", "turns on one machine"),
        ("vus: 4", 'vus: "${build.workers}"', "", "differ in the load itself"),
        ("order: turns", "control: true", "control", "a control is one more side"),
        ("lab:", 'sysctl: {fs.file-max: "${build.workers}"}\nlab:', "sysctl:", "only one such setting"),
        (COMPARE, COMPARE.replace("}", ", by: schem}"), "the front", "“scheme”"),
        (COMPARE, COMPARE.replace("}", ", by: way}"), "the front", "another factor"),
        (COMPARE, COMPARE.replace("}", ", by: users, when: {users: 1}}"), "the front", "one level"),
        ("2s, replicates: 3", "2s, replicates: 3, bring_ups: 4", "bring_ups", "a block has at most one bring-up"),
    ],
)  # fmt: skip
def test_what_an_order_cannot_do_is_reported_at_its_line(
    tmp_path: Path, old: str, new: str, line: str, says: str
) -> None:
    study = STUDY if old in STUDY else SMALL
    assert study.count(old) == 1
    text = study.replace(old, new)
    (found,) = problems_of(tmp_path, text)
    assert says in str(found)
    assert "\n" not in str(found)
    assert line in text.splitlines()[line_of(found) - 1]


def test_a_level_may_be_called_open(load: Callable[..., Lock]) -> None:
    assert load(STUDY.replace("path: [a, b]", "path: {open: {n: 1}, closed: {n: 2}}")).cases


def builds(lock: Lock, sets: list[list[TrialPlan]]) -> list[list[str]]:
    return [[lock.case(one.case).levels["build"] for one in of_set] for of_set in sets]


def test_the_sides_of_a_set_differ_in_the_compared_factor_alone(load: Callable[..., Lock]) -> None:
    lock = load(STUDY)
    batch = first_batch(lock)
    for block in (1, 2, 3):
        trials = [trial for trial in batch.trials if trial.block == block]
        sets = sets_of_turns(lock, trials)
        assert builds(lock, sets) == [["old", "new"]] * 2
        assert sorted(lock.case(of_set[0].case).levels["path"] for of_set in sets) == ["a", "b"]
        assert [{one.whole_plot for one in of_set} for of_set in sets] == [{2 * block - 2}, {2 * block - 1}]
    assert [trial.restart for trial in batch.trials] == [False, False, *[True, False] * 5]
    assert "in turns" in batch.because


def test_a_control_is_one_more_side_of_each_set(folder: Path, load: Callable[..., Lock]) -> None:
    text = STUDY.replace("order: turns", "order: turns, control: true")
    named = " ".join(map(str, problems_of(folder, text.replace("new", "old-again"))))
    assert "the control is named old-again, and so is a level" in named
    lock = load(text)
    sets = sets_of_turns(lock, [trial for trial in first_batch(lock).trials if trial.block == 1])
    assert builds(lock, sets) == [["old", "new", "old-again"]] * 2
    options = {case.levels["build"]: resolve(lock, case).services[0].options for case in lock.cases}
    workers = {build: of_web["workers"] for build, of_web in options.items()}
    assert workers == {"old": 1, "new": 2, "old-again": 1}
    assert [one.treatment for one in contrasts_of(lock)] == ["new"]
    assert {cell for one in contrasts_of(lock) for cell in one.control} == {
        (f"build-old_path-{path}", f"build-old-again_path-{path}") for path in "ab"
    }
    assert lock.comparisons[0].name == "build: new against old"


def test_no_two_comparisons_have_one_name(folder: Path, load: Callable[..., Lock]) -> None:
    text = f"{STUDY}  - {{factor: build, baseline: old, metric: users.response.p95}}\n"
    assert [one.name.rpartition(".")[2] for one in contrasts_of(load(text))] == ["p50", "p95"]
    found = problems_of(folder, text.replace("{factor: build", "{name: x, factor: build"))
    assert [str(one).count("another comparison has this name") for one in found] == [1, 1]


@pytest.mark.parametrize("number", [1, 3])
def test_there_are_at_most_as_many_bring_ups_as_blocks(load: Callable[..., Lock], number: int) -> None:
    text = SMALL.replace("replicates: 3", f"replicates: 3, bring_ups: {number}")
    assert load(text).measure.bring_ups == number


def test_an_external_server_has_no_bring_ups(folder: Path, load: Callable[..., Lock]) -> None:
    text = MIXED.replace("kit: stone", "at: http://127.0.0.1:9").replace(COMPARED, "side, baseline: a")
    assert load(text).measure.bring_ups == 1
    (found,) = problems_of(folder, text.replace("replicates: 6", "replicates: 6, bring_ups: 2"))
    assert ("svload starts no service" in str(found), line_of(found)) == (True, 12)


COMPARED = "FACTOR, baseline: BASELINE"
MIXED = """\
name: mixed
lab:
  web: {kit: stone}
factors:
  side: [a, b]
  loop:
    closed: {}
    open: {}
traffic:
  users: {when: {loop: closed}, executor: constant-vus, vus: 1, request: GET http://web/}
  arrivals: {when: {loop: open}, executor: constant-arrival-rate, rate: 5/s, request: GET http://web/}
measure: {duration: 1s, replicates: 6}
compare:
  - {factor: FACTOR, baseline: BASELINE, metric: response.p50}
"""


@pytest.mark.parametrize("compare", ["loop, baseline: closed", "side, by: loop, baseline: a"])
def test_loops_do_not_mix(folder: Path, compare: str) -> None:
    (found,) = problems_of(folder, MIXED.replace(COMPARED, compare))
    assert ("closed and open loops are never compared" in str(found), line_of(found)) == (True, 14)


@pytest.mark.parametrize(
    ("replicates", "bring_ups", "sizes"),
    [(6, 1, [6]), (6, 2, [3, 3]), (7, 2, [4, 3]), (7, 3, [3, 2, 2]), (6, 6, [1] * 6)],
)
def test_blocks_are_spread_evenly_over_bring_ups(replicates: int, bring_ups: int, sizes: list[int]) -> None:
    trials = first_batch(lock_of([2, 2], ["request"] * 2, replicates, 3, bring_ups=bring_ups)).trials
    blocks = [len({one.block for one in trials if one.whole_plot == plot}) for plot in range(bring_ups)]
    assert blocks == sizes
    restarts = [one for one in trials if one.restart]
    assert len(restarts) == bring_ups - 1
    for one in restarts:
        assert one == next(other for other in trials if other.whole_plot == one.whole_plot)
    assert [one.whole_plot for one in trials] == sorted(one.whole_plot for one in trials)
    plain = first_batch(lock_of([2, 2], ["request"] * 2, replicates, 3)).trials
    assert [one.case for one in trials] == [one.case for one in plain], "bring-ups change no order"
    own, both = (first_batch(lock_of([2, 2], ["restart", "request"], 6, 3, bring_ups=n)) for n in (1, 2))
    assert own.trials == both.trials, "a factor that restarts has bring-ups of its own"


GATE = STUDY.replace("replicates: 3, order: turns", "replicates: 6").replace(
    "response.p50}", "response.p50, fail_if: worse by more than 5 %}"
)
FREE = Free(memory=8 << 30, disk=8 << 30)


def test_a_gate_between_builds_takes_turns(load: Callable[..., Lock]) -> None:
    lock = load(GATE)
    assert leaves_order_open(lock)
    assert why_not_side_by_side(lock, FREE) == ""
    turned = in_turns(lock)
    assert turned.measure.order == "turns"
    assert not leaves_order_open(turned), "the lock holds what was decided"
    assert resolve(turned, turned.cases[0]).groups[0].keeps_rows
    block = [trial for trial in first_batch(turned).trials if trial.block == 1]
    assert [len(one) for one in sets_of_turns(turned, block)] == [2, 2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("replicates: 6", "replicates: 6, order: trials"),
        ("replicates: 6", "replicates: 6, order: turns"),
        ("replicates: 6", "replicates: 6, order: as-listed"),
        (", fail_if: worse by more than 5 %", ""),
    ],
)
def test_what_is_chosen_and_what_is_no_gate_stays(load: Callable[..., Lock], old: str, new: str) -> None:
    assert not leaves_order_open(load(GATE.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{kit: stone,", "{kit: stone, port: 8080,", "only one of them can have this port (lab.web.port)"),
        ("traffic:", "faults: [{at: 1s, stop: web}]\ntraffic:", "a fault would hit"),
        ("lab:", 'lab:\n  db: {at: "http://127.0.0.1:80"}', "db is already running"),
        (
            "factor: build, baseline: old",
            "factor: path, baseline: a",
            "path changes the requests, not a server",
        ),
        ("{kit: stone,", "{kit: stone, memory: 5 GiB,", "2 sides declare 10 GiB of memory"),
        ("traffic:", "data: {things: {in: web, count: 1000, size: 5 MiB}}\ntraffic:", "2 sides declare 9.77 GiB of data"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_reported(load: Callable[..., Lock], old: str, new: str, why: str) -> None:
    assert GATE.count(old) == 1
    lock = load(GATE.replace(old, new))
    assert leaves_order_open(lock)
    assert why in why_not_side_by_side(lock, FREE)


@pytest.mark.parametrize(("memory", "fits"), [("3.4 GiB", True), ("3.5 GiB", False)])
def test_a_quarter_of_the_free_memory_is_left(load: Callable[..., Lock], memory: str, fits: bool) -> None:
    """Of 8 GiB: x ≤ ¾ (8 − x) holds up to 3.43 GiB."""
    lock = load(GATE.replace("{kit: stone,", f"{{kit: stone, memory: {memory},"))
    assert (why_not_side_by_side(lock, FREE) == "") == fits
