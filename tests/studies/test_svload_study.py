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
    "threads": lambda row: row["parameter"].startswith(("thread_", "workspace_thread")),
    "listen": lambda row: row["parameter"] == "listen_depth",
    "descriptors": lambda row: row["layer"] in ("swift", "kernel"),
    "memcached": lambda row: row["layer"] == "memcached",
}
LOOPS = ("campaign", "campaign-short", "crowd", "layers", "parameters")


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


def test_every_set_is_asked_by_some_profile_and_stock_sets_nothing() -> None:
    levels = [
        level.name
        for profile in LOOPS
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


CASES = {"campaign": 40, "campaign-short": 24, "crowd": 20, "layers": 21, "parameters": 18}


@pytest.mark.parametrize("profile", [None, "demo", "real", "paper", "full", "burst", *LOOPS])
def test_every_profile_can_be_planned(profile: str | None) -> None:
    made = lock(profile)
    for case in made.valid_cases:
        assert resolve(made, case).groups
    assert CASES.get(profile or "", 20) == len(made.valid_cases)
    assert needs_trust(made, asks_trust) == []


@pytest.mark.parametrize(
    ("profile", "plots"), [("campaign", 8), ("campaign-short", 6), ("layers", 8), ("crowd", 8)]
)
def test_a_set_is_a_whole_plot_in_each_block(profile: str, plots: int) -> None:
    """What the blocks attain is told beforehand, and a set is one treatment, limits among its parameters or not."""
    told = api.plan(str(STUDY), api.Choices(profile=profile))
    [tuning] = [factor for factor in told["factors"] if factor["name"] == "tuning"]
    assert tuning["change"] == "restart"
    assert told["restarts"] >= plots * len(tuning["levels"]) - 1
    assert {one["state"] for one in told["comparisons"]} == {"decidable"}
    assert all(one["units"] == plots and "reach p =" in one["sentence"] for one in told["comparisons"])


def test_the_short_campaign_fits_into_forty_minutes() -> None:
    told = api.plan(str(STUDY), api.Choices(profile="campaign-short"))
    assert 25 * 60 < told["estimated_s"] < 42 * 60


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
        keys.add((case.levels["url"], case.levels["key"], bool(users.request.headers)))
    assert keys == {("warm", "shared", False), ("cold", "shared", False), ("cold", "own", True)}
    assert [case.excluded for case in made.cases if case.excluded] == ["a key of its own is never warm"] * 2


@pytest.mark.parametrize("file", ["threads.yaml", "one-url.yaml"])
def test_what_they_compare_can_be_decided(file: str) -> None:
    told = api.plan(str(STUDY / file), api.Choices())
    assert told["comparisons"]
    for one in told["comparisons"]:
        assert one["state"] == "decidable", one["sentence"]
