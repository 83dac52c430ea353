"""studies/001-svload: the paper's 24 cases under every profile, and what each level means to servers and load."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from svload.lab import asks_trust
from svload.model.study import CaseConfig, Lock
from svload.model.traffic import FeederPart, VarPart
from svload.study import find_study, first_batch, load_study, needs_trust, resolve
from svload.study.check import owners_of

STUDY = Path(__file__).resolve().parents[2] / "studies" / "001-svload"
PROFILES = (None, "demo", "real", "paper")


@pytest.fixture(scope="module", params=PROFILES)
def lock(request: pytest.FixtureRequest) -> Lock:
    return load_study(STUDY, profile=request.param)


def config(lock: Lock, name: str) -> CaseConfig:
    return resolve(lock, lock.case(name))


def test_its_cases_are_those_of_the_papers_table_in_its_order(lock: Lock) -> None:
    rows = list(csv.DictReader((STUDY / "reference" / "test-cases.csv").open()))
    assert [case.name for case in lock.cases] == [f"TC{number}" for number in range(24)]
    for case, row in zip(lock.cases, rows, strict=True):
        assert case.levels == {name: row[name] for name in ("protocol", "url", "load", "server")}
        assert (case.excluded is None) == (row["valid"] == "yes")
    assert {case.excluded for case in lock.cases} == {None, "the same URL can be missed only once"}
    assert [case.name for case in lock.cases if case.excluded] == ["TC4", "TC5", "TC16", "TC17"]
    assert (lock.case("TC8").levels["server"], lock.case("TC10").levels["server"]) == (
        "cache-miss",
        "cache-hit",
    )


def test_every_case_means_what_its_levels_say(lock: Lock) -> None:
    for case in lock.valid_cases:
        resolved = resolve(lock, case)
        levels = case.levels
        for group in resolved.groups:
            request = group.request
            assert (
                request.endpoint
                == f"{levels['protocol']}://{'backend' if levels['server'] == 'backend' else 'cache'}"
            )
            assert request.path == (FeederPart(feeder="object", column="path"),)
            cold = (("X-Cold", (VarPart(var="request.id"),)),)
            assert request.headers == (cold if levels["server"] == "cache-miss" else ())
        assert [feeder.take for feeder in resolved.feeders] == [
            "first" if levels["url"] == "same" else "walk"
        ]
        assert [group.name for group in resolved.groups] == ["background", "probe"][
            levels["load"] == "without" :
        ]
        probe = resolved.groups[-1]
        assert (probe.client, probe.connection) == ("curl", "new")
        assert probe.start_when == ("background" if levels["load"] == "with" else None)
        hit = levels["server"] == "cache-hit"
        assert [step.reset for step in resolved.before_trial if step.reset] == [
            ("cache",) if hit else ("cache", "backend")
        ]
        assert resolved.before_trial[0].reset, "before anything is warmed"
        assert any(step.warm for step in resolved.before_trial) == hit
        wanted = {
            "backend": "cache.requests == 0",
            "cache-hit": "cache.hit_ratio >= 99 %",
            "cache-miss": "cache.hit_ratio <= 1 %",
        }
        repeats = ("object.early_repeats == 0",) if levels["url"] == "different" else ()
        assert resolved.expects == (*repeats, wanted[levels["server"]])
        assert resolved.thresholds == (("probe.success_rate >= 99 %",) if levels["load"] == "without" else ())


@pytest.mark.parametrize(
    ("profile", "kits", "vus", "duration_s", "trials"),
    [
        (None, ("swift", "varnish"), 4000, 60, 120),
        ("demo", ("truth", "truth"), 200, 1.2, 80),
        ("real", ("swift", "varnish"), 200, 15, 120),
        ("paper", ("swift", "varnish"), 4000, 7200, 120),
    ],
)
def test_profiles(
    profile: str | None, kits: tuple[str, str], vus: int, duration_s: float, trials: int
) -> None:
    lock = load_study(STUDY, profile=profile)
    resolved = config(lock, "TC1")
    assert tuple(service.kit for service in resolved.services) == kits
    assert resolved.groups[0].executor.vus == vus
    assert lock.measure.duration_ns == duration_s * 1e9
    assert len(first_batch(lock).trials) == trials
    assert needs_trust(lock, asks_trust) == []


def test_a_service_whose_kit_changes_is_replaced_whole() -> None:
    cache = config(load_study(STUDY, profile="demo"), "TC0").services[1]
    assert "storage" not in cache.options
    assert cache.options["of"] == "backend"


def test_the_papers_size() -> None:
    objects = config(load_study(STUDY, profile="paper"), "TC0").objects[0]
    assert (objects.accounts, objects.containers, objects.count) == (10_000, 10_000, 55_000)
    assert objects.size == {"lognormal": {"median": 40 * 1024, "p99": 400 * 1024}}


def test_no_factor_needs_a_restart(lock: Lock) -> None:
    assert {factor.change for factor in lock.factors} == {"request"}


def test_owners_of_its_metrics(lock: Lock) -> None:
    assert owners_of(lock.source) == {
        "backend": "service",
        "cache": "service",
        "object": "feeder",
        "background": "traffic",
        "probe": "traffic",
    }


def test_it_is_found_by_name_as_packed_with_the_package() -> None:
    assert find_study("001-svload").read_text() == (STUDY / "study.yaml").read_text()
