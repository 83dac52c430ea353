"""studies/001-svload, the loop: its sets are the paper's tables, its profiles can be planned, and its
small questions ask what they say."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml

from svload import api
from svload.lab import asks_trust, find_mistakes, kit_options
from svload.model.study import CaseConfig, Lock
from svload.study import load_study, needs_trust, resolve
from svload.watch import monitored_names

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "studies/001-svload"
PLACES = {
    "varnish": ("lab", "cache", "tuning"),
    "memcached": ("lab", "backend"),
    "swift": ("lab", "backend"),
    "kernel": ("sysctl",),
    "network": ("sysctl",),
}
"""The paper's layer → where a set says it."""
OPTIONS = {
    "MAXCONN": "memcached_connections",
    "CACHESIZE": "memcached_memory",
    "ulimit -Sn": "nofile",
    "ulimit -Hn": "nofile_hard",
}
ALONE = {
    "varnish": lambda row: row["layer"] == "varnish",
    "swift": lambda row: row["layer"] in ("memcached", "swift", "kernel"),
    "network": lambda row: row["layer"] == "network",
    "pool": lambda row: row["parameter"].startswith("thread_pool_"),
    "queue": lambda row: row["parameter"] == "thread_queue_limit",
    "listen": lambda row: row["parameter"] == "listen_depth",
    "descriptors": lambda row: row["layer"] in ("swift", "kernel"),
    "memcached": lambda row: row["layer"] == "memcached",
}
LOOPS = ("campaign", "campaign-short", "crowd", "layers", "parameters", "network")
MOST_RPS = 8_000
"""Of a background whose answers come at once: the load's own core is asked for no more."""


def lock(profile: str | None, file: str = "study.yaml") -> Lock:
    return load_study(
        STUDY / file, profile=profile, kits=kit_options(), check_lab=find_mistakes, monitored=monitored_names
    )


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if isinstance(value, dict):
        return {
            place: one for key, child in value.items() for place, one in leaves(child, (*path, key)).items()
        }
    return {path: value}


def said(name: str) -> dict[tuple[str, ...], Any]:
    return leaves(yaml.safe_load((STUDY / f"sets/{name}.yaml").read_text()))


def paper() -> list[dict[str, str]]:
    with (STUDY / "reference/tuning.csv").open() as file:
        return list(csv.DictReader(file))


def place(row: dict[str, str]) -> tuple[str, ...]:
    return (*PLACES[row["layer"]], OPTIONS.get(row["parameter"], row["parameter"]))


def plain(parameter: str, written: str) -> Any:
    """As svload writes it: CACHESIZE is KiB, times are bare seconds."""
    if parameter == "CACHESIZE":
        return f"{written.removesuffix('k')} KiB"
    bare = written.removesuffix("s")
    return int(bare) if bare.isdigit() else written


# sets


@pytest.mark.parametrize("column", ["default", "intermediate", "final"])
def test_a_set_is_the_papers_column(column: str) -> None:
    assert said(column) == {place(row): plain(row["parameter"], row[column]) for row in paper()}


@pytest.mark.parametrize("layer", ALONE)
def test_a_layer_alone_is_final_there_and_default_elsewhere(layer: str) -> None:
    wanted = {
        place(row): plain(row["parameter"], row["final" if ALONE[layer](row) else "default"])
        for row in paper()
    }
    assert said(f"{layer}-alone") == wanted
    assert wanted not in (said("default"), said("final"))


@pytest.mark.parametrize(
    ("name", "files", "queue"), [("default", (1024, 4096), 128), ("final", (20_000, 20_000), 4096)]
)
def test_a_set_as_it_was_by_hand_is_the_papers_with_what_stood_beside_it(
    name: str, files: tuple[int, int], queue: int
) -> None:
    beside = {
        ("lab", "cache", "nofile"): files[0],
        ("lab", "cache", "nofile_hard"): files[1],
        ("lab", "backend", "memcached_memory"): "64 MiB",
        ("sysctl", "net.core.somaxconn"): queue,
    }
    assert said(f"lab-{name}") == said(name) | beside


def test_every_set_is_asked_by_some_profile_and_stock_sets_nothing() -> None:
    levels = [
        level.name
        for profile in (*LOOPS, "first")
        for factor in lock(profile).factors
        if factor.name == "tuning"
        for level in factor.levels
    ]
    assert set(levels) == {path.stem for path in (STUDY / "sets").iterdir()}
    assert said("stock") == {("lab",): {}} or not said("stock")


def config_of(profile: str, name: str) -> CaseConfig:
    made = lock(profile)
    return resolve(made, made.case(name))


def test_a_case_has_its_set_in_all_layers() -> None:
    final = config_of("campaign", "TC13.final")
    backend, cache = (
        {one.name: one.options for one in final.services}[name] for name in ("backend", "cache")
    )
    assert (backend["nofile"], backend["nofile_hard"], backend["memcached_memory"]) == (
        100_000,
        400_000,
        "4096 KiB",
    )
    assert cache["tuning"]["thread_pool_min"] == 400
    assert (final.sysctl["net.core.rmem_max"], final.sysctl["fs.file-max"]) == ("4194304", "2097192")
    made = lock("layers")
    [stock] = [resolve(made, case) for case in made.valid_cases if case.levels["tuning"] == "stock"][:1]
    assert not stock.sysctl
    assert not any(one.options.get("tuning") for one in stock.services)


# profiles


CASES = {
    "campaign": 40,
    "campaign-short": 24,
    "crowd": 20,
    "layers": 18,
    "parameters": 18,
    "network": 6,
    "first": 10,
}


@pytest.mark.parametrize("profile", [None, "demo", "real", "paper", "full", "burst", "first", *LOOPS])
def test_every_profile_can_be_planned(profile: str | None) -> None:
    made = lock(profile)
    for case in made.valid_cases:
        assert resolve(made, case).groups
    assert CASES.get(profile or "", 20) == len(made.valid_cases)
    assert needs_trust(made, asks_trust) == []


@pytest.mark.parametrize(("profile", "plots"), [(name, 8 if name == "campaign" else 6) for name in LOOPS])
def test_a_set_is_a_whole_plot_in_each_block(profile: str, plots: int) -> None:
    """What the blocks attain is told beforehand, and a set is one treatment, limits among its parameters or not."""
    told = api.plan(str(STUDY), api.Choices(profile=profile))
    [tuning] = [factor for factor in told["factors"] if factor["name"] == "tuning"]
    assert tuning["change"] == "restart"
    assert told["restarts"] >= plots * len(tuning["levels"]) - 1
    assert {one["state"] for one in told["comparisons"]} == {"decidable"}
    assert all(one["units"] == plots for one in told["comparisons"])


@pytest.mark.parametrize(
    ("profile", "least_min", "most_min"),
    [
        ("campaign", 50, 75),
        ("campaign-short", 25, 42),
        ("crowd", 40, 60),
        ("layers", 35, 60),
        ("parameters", 35, 60),
        ("network", 10, 25),
        ("first", 5, 20),
    ],
)
def test_each_part_of_the_loop_fits_into_about_an_hour(
    profile: str, least_min: float, most_min: float
) -> None:
    told = api.plan(str(STUDY), api.Choices(profile=profile))
    assert least_min * 60 < told["estimated_s"] < most_min * 60


@pytest.mark.parametrize("profile", LOOPS)
def test_a_background_of_hits_is_bounded_by_its_users_own_pauses(profile: str) -> None:
    """Users who never think ask a cache for as much as one core can make, and the load is then its own limit."""
    made = lock(profile)
    for case in made.valid_cases:
        for group in resolve(made, case).groups:
            assert 0 < (group.executor.peak_rps or 0) <= MOST_RPS


def test_idle_cases_of_the_campaign_are_shorter() -> None:
    made = lock("campaign")
    for case in made.valid_cases:
        measured_ns = resolve(made, case).measure.duration_ns
        assert measured_ns == (4e9 if case.levels["load"] == "without" else 8e9)


def test_what_fails_first_is_asked_as_it_was_by_hand() -> None:
    """Five cells, 4,000 connections in two seconds, nobody thinks, 500 objects of 100 KiB."""
    made = lock("first")
    names = {case.name for case in made.valid_cases}
    sets = ("lab-default", "lab-final")
    assert names == {f"TC{number}.{name}" for number in (7, 9, 11, 19, 23) for name in sets}
    paper_names = {row["case"]: row for row in csv.DictReader((STUDY / "reference/test-cases.csv").open())}
    by_hand = {(row["case"], row["tuning"]) for row in csv.DictReader((STUDY / "reference/a8.csv").open())}
    assert {f"{case}.lab-{name}" for case, name in by_hand} == names
    for case in made.valid_cases:
        row = paper_names[case.name.partition(".")[0]]
        assert all(case.levels[name] == row[name] for name in ("protocol", "url", "load", "server"))
        config = resolve(made, case)
        background = config.groups[0]
        assert (background.executor.most_vus, background.generators) == (4000, 10)
        assert background.executor.ramp_up_ns == 2_000_000_000
        assert background.executor.peak_rps is None
        assert background.connect_timeout_ns == 10_000_000_000
        assert (config.objects[0].count, config.measure.duration_ns) == (500, 12_000_000_000)
        cache = next(one for one in config.services if one.name == "cache")
        nofile, queue = (1024, "128") if case.levels["tuning"] == "lab-default" else (20_000, "4096")
        assert (cache.options["nofile"], config.sysctl["net.core.somaxconn"]) == (nofile, queue)


def test_the_campaign_asks_for_interactions_and_names_the_papers_cases() -> None:
    made = lock("campaign")
    assert {one.by for one in made.comparisons} == {None, "load", "server"}
    names = [case.name for case in made.cases]
    assert names[:2] == ["TC0.default", "TC0.final"]
    assert len([name for name in names if name.startswith("TC")]) == 48


def test_a_burst_is_all_users_at_one_moment() -> None:
    config = config_of("burst", "TC1")
    [background] = [group for group in config.groups if group.name == "background"]
    assert background.executor.ramp_up_ns == 0
    assert background.executor.spread_ns == 0
    assert (background.executor.most_vus, background.generators) == (4000, 10)
    assert background.executor.pacing_ns == 10_000_000_000


# the small questions


@pytest.mark.parametrize("profile", [None, "demo"])
def test_one_to_ten_threads_of_ten_machines(profile: str | None) -> None:
    made = lock(profile, "threads.yaml")
    found = []
    for case in made.valid_cases:
        config = resolve(made, case)
        [users] = config.groups
        assert users.generators == 10
        assert config.feeders[0].take == "first"
        assert 0 < (users.executor.peak_rps or 0) <= MOST_RPS
        found.append((int(case.levels["threads"]), users.executor.most_vus))
    assert sorted(set(found)) == [(threads, 10 * threads) for threads in range(1, 11)]
    per_case = [one for one in made.comparisons if one.per == "case"]
    assert [(one.factor, one.baseline) for one in per_case] == [("server", "backend")]


def test_users_ask_for_one_url_at_one_moment() -> None:
    made = lock(None, "one-url.yaml")
    keys = set()
    for case in made.valid_cases:
        config = resolve(made, case)
        [users], [feeder], [objects] = config.groups, config.feeders, config.objects
        assert users.executor.spread_ns == 0
        assert users.executor.pacing_ns == 2_000_000_000
        assert feeder.take == "walk"
        assert feeder.offset == objects.count, "all walk from the first row"
        assert users.request.endpoint == f"{case.levels['protocol']}://cache"
        resets = [step.reset for step in config.before_trial if step.reset]
        assert resets == [("cache",) if case.levels["url"] == "warm" else ("cache", "backend")]
        keys.add((case.levels["url"], case.levels["key"], bool(users.request.headers)))
    assert keys == {("warm", "shared", False), ("cold", "shared", False), ("cold", "own", True)}
    assert [case.excluded for case in made.cases if case.excluded] == ["a key of its own is never warm"] * 4
    forced = [case.name for case in made.valid_cases if case.levels["key"] == "own"]
    assert forced == ["N10.http.own", "N200.http.own", "N10.https.own", "N200.https.own"], "the paper's four"


def test_one_url_fits_into_twenty_minutes() -> None:
    told = api.plan(str(STUDY / "one-url.yaml"), api.Choices())
    assert told["estimated_s"] < 20 * 60
    assert lock(None, "one-url.yaml").measure.replicates >= 6, "fewer blocks make no claim"


@pytest.mark.parametrize("file", ["threads.yaml", "one-url.yaml"])
def test_what_they_compare_can_be_decided(file: str) -> None:
    told = api.plan(str(STUDY / file), api.Choices())
    assert told["comparisons"]
    for one in told["comparisons"]:
        assert one["state"] == "decidable", one["sentence"]
