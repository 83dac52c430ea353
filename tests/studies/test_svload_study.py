"""studies/001-svload: the paper's cases and sets, and what the README says about its runs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.studies.scripts import packed

from svload import api
from svload.api import OwnTable
from svload.lab import asks_trust, find_mistakes, kit_options
from svload.model.results import Findings
from svload.model.study import Lock
from svload.store import RunDir, verify_run
from svload.study import find_study, load_study, needs_trust, resolve
from svload.watch import monitored_names

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "studies/001-svload"
PLACES = {"varnish": ("lab", "cache", "tuning"), "kernel": ("sysctl",), "network": ("sysctl",)}
PLACES |= dict.fromkeys(("memcached", "swift"), ("lab", "backend"))
"""The paper's layer → the place in a set."""
OPTIONS = {"MAXCONN": "memcached_connections", "CACHESIZE": "memcached_memory"}
OPTIONS |= {"ulimit -Sn": "nofile", "ulimit -Hn": "nofile_hard"}
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


def lock(profile: str | None) -> Lock:
    known = {"kits": kit_options(), "check_lab": find_mistakes, "monitored": monitored_names}
    return load_study(STUDY, profile=profile, **known)


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
    """Return it in svload's notation: CACHESIZE is KiB, times are bare seconds."""
    if parameter == "CACHESIZE":
        return f"{written.removesuffix('k')} KiB"
    bare = written.removesuffix("s")
    return int(bare) if bare.isdigit() else written


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


@pytest.mark.parametrize("profile", [None, "demo", "real", "paper"])
def test_its_cases_are_those_of_the_papers_table_in_its_order(profile: str | None) -> None:
    made = lock(profile)
    rows = list(csv.DictReader((STUDY / "reference/test-cases.csv").open()))
    assert [case.name for case in made.cases] == [row["case"] for row in rows]
    for case, row in zip(made.cases, rows, strict=True):
        assert case.levels == {name: row[name] for name in ("protocol", "url", "load", "server")}
        assert (case.excluded is None) == (row["valid"] == "yes")
    assert {factor.change for factor in made.factors} == {"request"}, "no level restarts a server"
    assert needs_trust(made, asks_trust) == []


EXPECTED = {
    "backend": "cache.requests == 0",
    "cache-hit": "cache.hit_ratio >= 99 %",
    "cache-miss": "cache.hit_ratio <= 1 %",
}


def test_every_case_does_what_its_levels_say() -> None:
    made = lock(None)
    for case in made.valid_cases:
        config, levels = resolve(made, case), case.levels
        loaded, hit = levels["load"] == "with", levels["server"] == "cache-hit"
        assert [group.name for group in config.groups] == ["background", "probe"][not loaded :]
        for group in config.groups:
            service = levels["server"].partition("-")[0]
            assert group.request.endpoint == f"{levels['protocol']}://{service}"
            assert bool(group.request.headers) == (levels["server"] == "cache-miss")
        assert config.groups[-1].start_when == ("background" if loaded else None)
        assert [one.take for one in config.feeders] == ["first" if levels["url"] == "same" else "walk"]
        resets = [step.reset for step in config.before_trial if step.reset]
        assert resets == [("cache",) if hit else ("cache", "backend")]
        assert any(step.warm for step in config.before_trial) == hit
        assert config.expects[-1] == EXPECTED[levels["server"]]


def test_it_is_found_by_name_as_packed_with_the_package() -> None:
    assert find_study("001-svload").read_text() == (STUDY / "study.yaml").read_text()


campaign = packed(STUDY / "packs/campaign.svload.zip")


first = packed(STUDY / "packs/first.svload.zip")


def table(run: RunDir, title: str) -> OwnTable:
    return next(one for one in api.read_tables(run.tables_path) if one.title.startswith(title))


def rows(run: RunDir, title: str) -> dict[tuple[str, ...], dict[str, str]]:
    """Return by its first two cells each row as column → text."""
    found = table(run, title)
    return {row[:2]: dict(zip(found.head, row, strict=True)) for row in found.rows}


def test_the_campaign_is_complete(campaign: RunDir) -> None:
    """By the pack's findings; the README's example verifies it, test_svload_tables.py analyses it again."""
    findings = Findings.read(campaign.findings_path)
    assert findings.complete
    assert findings.sealed_trials == 320
    cases = {case.case for case in findings.cases if case.excluded is None}
    assert len(cases) == 40
    assert all(case.endswith((".default", ".final")) for case in cases)


def test_what_fails_first_is_in_the_readme_as_its_table_has_it(first: RunDir) -> None:
    assert verify_run(first) == []
    found = table(first, "What fails first")
    text = (STUDY / "README.md").read_text(encoding="utf-8")
    for line in found.markdown().splitlines():
        if line.startswith("|"):
            assert line in text, "make the README's table anew by tables.py"


def test_a_success_that_leaves_out_who_waited_is_refused(first: RunDir) -> None:
    """145 of 145 requests of the window were answered, but 3,772 of 4,145 of the load failed."""
    found = next(trial for trial in api.runs.read_findings(first).trials if trial.trial == "TC9.lab-final.r1")
    success = found.metrics["background.success_rate"]
    assert success.value == 1.0
    assert success.belief.grade == "REFUSED"
    check = next(one for one in found.verdict.checks if one.check == "carried-over")
    assert check.grade == "REFUSED"
    assert "3,772 of them failed" in check.sentence
