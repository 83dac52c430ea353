"""The checks of docs/method.md §3: for each a planted case, one at the limit, and a clean one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import (
    Bench,
    Plant,
    Planted,
    check,
    planting,
    with_config,
    with_counter,
    with_group,
    with_table,
)
from tests.analysis.test_machine_checks import PLANTED as MACHINE
from tests.evolve import evolve

from svload.analysis.checks import all_checks
from svload.analysis.judge import judge_trial
from svload.model.columns import bucket
from svload.model.executors import ConstantVus
from svload.model.study import CaseConfig
from svload.model.traffic import Turn
from svload.store import TrialData


def named(groups: Iterable[Any], name: str) -> Any:
    return next(one for one in groups if one.name == name)


def group(name: str, **changes: Any) -> Plant:
    return lambda trial, config: (with_group(trial, name, **changes), config)


def opened(change: Callable[[int], int]) -> Plant:
    return group("background", connections_opened=change)


def counted(service: str, name: str, change: Callable[[float], float]) -> Plant:
    return lambda trial, config: (with_counter(trial, service, name, change), config)


def spec(name: str, **changes: Any) -> Plant:
    return lambda trial, config: (trial, with_config(config, name, **changes))


def expecting(*texts: str) -> Plant:
    return lambda trial, config: (trial, evolve(config, expects=texts))


@planting
def drawing(trial: TrialData, config: CaseConfig, repeated: float) -> Planted:
    """Plan a random feeder that is expected to be one; this share of each user's later rows are repeated."""
    users = {
        one.name: one.executor.most_vus for one in config.groups if isinstance(one.executor, ConstantVus)
    }
    for one in trial.summary.groups:
        again = round(repeated * (one.begun - users[one.name]))
        trial = with_group(trial, one.name, early_repeats=again)
    feeders = tuple(evolve(one, take="random") for one in config.feeders)
    config = evolve(config, feeders=feeders)
    return expecting("object.repeated_share < 90 %")(trial, config)


@planting
def late(trial: TrialData, config: CaseConfig, share: float, metric: str) -> Planted:
    """Make the generator late by `share` of every probe response: in beginning it, or (sampled on every
    read) in reading its end."""

    def response(table: dict[str, Any]) -> Any:
        return ((table["done_ns"] - table["due_ns"]) * share).astype(np.int64)

    if metric == "read_lag_ns":
        return with_table(trial, "samples", read_lag_ns=response), config
    return with_table(trial, "samples", ready_ns=lambda table: table["begun_ns"] - response(table)), config


def drifting(trial: TrialData, config: CaseConfig) -> Planted:
    """Let responses of the background grow by 60 % over the window."""
    low, high = trial.summary.window_ns

    def grown(table: dict[str, Any]) -> Any:
        at = (table["interval"] * trial.summary.interval_ns - low) / (high - low)
        return (table["response_sum_ns"] * np.where(table["group"] == 0, 1 + 0.6 * at, 1)).astype(np.uint64)

    return with_table(trial, "intervals", response_sum_ns=grown), config


def table(name: str, **columns: Any) -> Plant:
    return lambda trial, config: (with_table(trial, name, **columns), config)


@planting
def built(trial: TrialData, config: CaseConfig, **programs: str) -> Planted:
    """Start the first server from these programs of the study's folder, equal to `NEWEST` or not."""
    first, *rest = trial.lab.services
    services = (evolve(first, programs=programs), *rest)
    return evolve(trial, lab__services=services), config


NEWEST = {"server": "a", "other": "a"}
"""The programs of the run's last trials."""


def torn(trial: TrialData, config: CaseConfig) -> Planted:
    """Let 400 requests end in flight, of which the cache counted ten."""
    trial = with_group(trial, "background", errors={"read_reset": 400}, ok=lambda n: n - 400, failed=400)
    return with_counter(trial, "cache", "requests", lambda n: n - 390), config


def uncounted(trial: TrialData, config: CaseConfig) -> Planted:
    return evolve(trial, lab__before={}, lab__after={}), config


def together(trial: TrialData, config: CaseConfig) -> Planted:
    """Plan users without a ramp."""
    executor = evolve(named(config.groups, "probe").executor, start="together")
    return spec("probe", executor=executor)(trial, config)


def slow_users(trial: TrialData, config: CaseConfig) -> Planted:
    """Keep the first request of each connection of the probe: its users are slower than the trial is long."""
    once, probe = trial.samples["seq"] == 0, trial.intervals["group"] == 1
    trial = with_table(trial, "samples", **{name: one[once] for name, one in trial.samples.items()})
    return with_table(
        trial, "intervals", **{name: one[probe] for name, one in trial.intervals.items()}
    ), config


def more(extra: int) -> Callable[[int], int]:
    return lambda value: value + extra


def times(factor: float) -> Callable[[Any], Any]:
    return lambda value: type(value)(value * factor)


PLANTED: dict[str, list[tuple[Plant, str, str] | tuple[Plant, str, str, str]]] = {
    # check: plant, grade, words of its sentence, and the trial if it is not TC4.r1
    "accounting": [
        (group("background", begun=more(1), due=more(1)), "REFUSED", "background"),
        (group("probe", due=more(-1)), "REFUSED", "due, but"),
        (group("background", request_ns=times(1.0062)), "REFUSED", "broken"),
        (group("background", request_ns=times(1.0045)), "VALID", "holds"),
        (group("background", active_ns=times(0.9988)), "WEAK", "99.88 %"),
        (group("background", active_ns=times(0.9992)), "VALID", "99.92 %"),
        (group("background", active_ns=times(0.992)), "WEAK", "99.2 %"),
        (group("background", active_ns=times(0.989)), "REFUSED", "98.9 %"),
        (group("probe", errors={"emfile": 1}), "REFUSED", "descriptor"),
        (group("probe", errors={"eaddrnotavail": 2}), "REFUSED", "port"),
        (group("probe", errors={"connect_refused": 2}), "VALID", "none"),
        (together, "REFUSED", "of the planned time of 10 users was active"),
    ],
    "generator-harm": [
        (late(0.04, "ready_ns"), "VALID", "it added 4"),
        (late(0.06, "ready_ns"), "WEAK", "probe.response"),
        (late(0.10, "read_lag_ns"), "WEAK", "with a read timestamp"),
    ],
    "manipulation": [
        (counted("cache", "misses", lambda _: 1e4), "REFUSED", "cache.hit_ratio >= 99 %"),
        (counted("cache", "hits", lambda _: 1e4), "REFUSED", "cache.hit_ratio <= 1 %", "TC5.r1"),
        (counted("cache", "requests", lambda _: 1), "REFUSED", "got 1", "TC3.r1"),
        (expecting("cache.hit_ratio >= 99 %"), "REFUSED", "could not be read", "TC3.r1"),
        (expecting("object.early_repeats == 0", "probe.success_rate >= 99 %"), "VALID", "it was 100 %"),
        (expecting("object.distinct < 10"), "REFUSED", "object.distinct"),
        # the same row every time, as the paper's code draws it; as many draws as there are rows; no row twice
        (drawing(1.0), "REFUSED", "got 100 %"),
        (drawing(0.37), "VALID", "it was 37 %"),
        (drawing(0.0), "VALID", "it was 0 %"),
        (group("probe", early_repeats=1), "REFUSED", "probe 1 times"),
        (uncounted, "REFUSED", "could not be read"),
        (group("probe", tls_resumed=times(0.9)), "REFUSED", "probe opened"),
        (table("samples", tls=lambda old: np.zeros_like(old["tls"])), "REFUSED", "without a TLS session"),
        (spec("probe", tls_resumption=False), "REFUSED", "although it should not"),
        # 547 sessions
        (counted("cache", "tls_handshakes", lambda n: n + 8), "VALID", "cache counted 555"),
        (counted("cache", "tls_handshakes", lambda n: n + 13), "REFUSED", "sessions against"),
        (group("probe", tls_full=1), "REFUSED", "asks for http", "TC1.r1"),
        (group("probe", connections_opened=times(0.95)), "REFUSED", "probe opened"),
        # what a server ends affects its users: reported, whatever the share
        (opened(times(3)), "VALID", "as planned", "TC1.r1"),
        # 7,088 requests
        (opened(more(106)), "VALID", "were used as planned", "TC1.r1"),
        (opened(more(177)), "VALID", "were used not as planned", "TC1.r1"),
        (opened(times(50)), "VALID", "not as planned: background opened 600", "TC1.r1"),
        (opened(times(1000)), "VALID", "the server closes each after its response", "TC1.r1"),
    ],
    "build": [
        (built(server="a", other="b"), "REFUSED", "than later trials: other changed"),
        (built(server="a"), "VALID", "the same build"),
        (built(kept="0"), "VALID", "the same build"),
    ],
    "reconciliation": [
        (counted("cache", "requests", times(1.004)), "VALID", "against"),
        (counted("cache", "requests", times(1.006)), "WEAK", "cache requests"),
        (counted("cache", "requests", times(1.018)), "WEAK", "cache requests"),
        (counted("cache", "requests", times(0.979)), "REFUSED", "cache requests"),
        (counted("cache", "body_bytes_out", times(1.03)), "REFUSED", "body bytes"),
        (counted("cache", "status.200", times(0.95)), "REFUSED", "status 200"),
        (uncounted, "VALID", "cache doesn't count requests"),
        (torn, "VALID", "± 400 in flight"),
    ],
    "steadiness": [(drifting, "WEAK", "background.response")],
    "warm-up": [(slow_users, "REFUSED", "Too short")],
}


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, rows in PLANTED.items() for row in rows])
def test_planted(closed: Bench, name: str, row: tuple[Any, ...]) -> None:
    plant, grade, words, *elsewhere = row
    trial = closed.trial(*(elsewhere or ["TC4.r1"]))
    planted, config = plant(trial, closed.config(trial))
    found = check(planted, config, name, NEWEST)
    assert (found.grade, words.lower() in found.sentence.lower()) == (grade, True), found.sentence
    assert bool(found.remedy) == (grade != "VALID")


@pytest.mark.parametrize("trial", ["TC0.r1", "TC1.r2", "TC2.r1", "TC4.r1", "TC5.r2"])
def test_clean_trials_are_valid(closed: Bench, trial: str) -> None:
    verdict = judge_trial(closed.trial(trial), closed.configs[trial.split(".")[0]]).verdict
    for one in verdict.checks:
        assert one.grade == "VALID" or (one.grade, one.check) == ("WEAK", "steadiness"), one.sentence
        assert one.measured
        assert one.sentence.endswith((".", ")"))


def test_every_check_is_planted() -> None:
    checks = all_checks()
    elsewhere = {row[0] for row in MACHINE} | {"surroundings", "tcp-loss"}
    elsewhere |= {"imported-instrument", "imported-little"}  # test_imported.py
    assert {one.name for one in checks} == set(PLANTED) | elsewhere
    assert checks[0].name == "accounting"


def test_a_dialogue_is_reconciled_by_what_its_server_counts(closed: Bench) -> None:
    trial = closed.trial("TC4.r1")
    config = closed.config(trial)
    turns = (Turn(send=()), Turn(match="x"), Turn(send=()), Turn(match="y"))
    spoken = evolve(named(config.groups, "background").request, dialogue=turns, counts_as=2)
    raw = with_config(config, "background", request=spoken)
    asked = named(trial.summary.groups, "background").written
    twice = with_counter(trial, "cache", "requests", lambda n: n + asked)
    found = check(twice, raw, "reconciliation")
    assert (found.grade, "cache requests" in found.sentence) == ("VALID", True), found.sentence
    assert "bytes of these requests separately" in found.sentence
    assert check(trial, raw, "reconciliation").grade == "REFUSED"
    # A command that ended early may have sent one command or two.
    short = with_group(twice, "background", errors={"no_match": 400}, ok=lambda n: n - 400, failed=400)
    short = with_counter(short, "cache", "requests", lambda n: n - 790)
    assert check(short, raw, "reconciliation").grade == "VALID"
    whole = with_group(short, "background", errors={"check": 400})
    assert check(whole, raw, "reconciliation").grade != "VALID"


def test_a_service_behind_another_is_judged_with_its_fetches(closed: Bench) -> None:
    trial = closed.trial("TC5.r1")
    config = closed.config(trial)
    direct = evolve(named(config.groups, "probe").request, host="backend")
    both = with_config(config, "probe", request=direct)
    asked, cached = (named(trial.summary.groups, name).written for name in ("probe", "background"))
    of_cache = dict.fromkeys(("requests", "misses", "status.200"), cached) | {"body_bytes_out": 4096 * cached}
    planted = with_counter(trial, "backend", "requests", lambda _: asked + cached)
    for name, count in of_cache.items():
        planted = with_counter(planted, "cache", name, lambda _, count=count: count)
    assert "backend requests" in check(planted, both, "reconciliation").sentence
    more_asked = with_counter(planted, "backend", "requests", lambda n: n * 1.1)
    assert check(more_asked, both, "reconciliation").grade == "REFUSED"


@planting
def made(trial: TrialData, config: CaseConfig, share: float) -> Planted:
    """Begin only this share of an open loop's 11,046 arrivals, with no sign that more were planned."""
    executor = named(config.groups, "background").executor
    config = with_config(config, "background", executor=evolve(executor, rate_rps=10 * executor.rate_rps))
    return group("background", **dict.fromkeys(("due", "begun", "ok"), round(share * 11_046)))(trial, config)


@pytest.mark.parametrize(
    ("plant", "grade"),
    [
        (group("background", in_flight_mean=times(1.019)), "VALID"),
        (group("background", in_flight_mean=times(1.023)), "REFUSED"),
        (made(0.9992), "VALID"),
        (made(0.9988), "WEAK"),
        (made(0.996), "WEAK"),
        (made(0.994), "REFUSED"),
    ],
)
def test_planted_in_an_open_loop(open_loop: Bench, plant: Plant, grade: str) -> None:
    trial = open_loop.trial("TC0.r1")
    planted, config = plant(trial, open_loop.config(trial))
    found = check(planted, config, "accounting")
    assert found.grade == grade, found.sentence


@pytest.mark.parametrize(("share", "state"), [(0.4, "STEADY"), (0.6, "SATURATED")])
def test_waiting_for_slots_is_saturation(open_loop: Bench, share: float, state: str) -> None:
    trial = open_loop.trial("TC0.r1")
    median_ns = judge_trial(trial, open_loop.config(trial)).metrics["background.response.p50"].value or 0.0

    def waiting(table: dict[str, Any]) -> Any:
        mine = (table["metric"] == 4) & (table["group"] == 0)
        return np.where(mine, bucket(round(share * median_ns * 1e9)), table["bucket"]).astype(np.uint32)

    planted = with_table(trial, "histograms", bucket=waiting)
    assert judge_trial(planted, open_loop.config(trial)).verdict.server == state


def test_reuse_that_is_compared_must_be_what_the_level_says(closed: Bench) -> None:
    """The clean study keeps connections everywhere; in the planted one a factor sets how they are used."""
    clean, config = closed.trial("TC1.r1"), closed.configs["TC1"]
    trial = with_group(clean, "background", connections_opened=times(50))
    source = closed.lock.source
    reused = {**source["traffic"]["background"], "connection": "${reuse}"}
    traffic = {**source["traffic"], "background": reused}
    for varied, grade in ((source, "VALID"), ({**source, "traffic": traffic}, "REFUSED")):
        lock = evolve(closed.lock, source=varied)
        checks = judge_trial(trial, config, lock=lock).verdict.checks
        assert next(one for one in checks if one.check == "manipulation").grade == grade
