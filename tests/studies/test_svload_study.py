"""studies/001-svload: the paper's cases, sets and tables, and what the README says about its runs."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from tests.evolve import evolve
from tests.results import case_result, findings_of, trial_result
from tests.studies.scripts import check_readme, packed, script

from svload import api
from svload.lab import asks_trust, find_mistakes, kit_options
from svload.model.evidence import CaseEvidence, CaseLimit, CaseRefusal
from svload.model.results import Belief, CaseResult, Estimate, Findings, TrialResult
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
    """Return path of keys → value of everything that a mapping contains."""
    if not isinstance(value, dict):
        return {path: value}
    children = (leaves(child, (*path, key)) for key, child in value.items())
    return {place: one for child in children for place, one in child.items()}


def in_set(name: str) -> dict[tuple[str, ...], Any]:
    return leaves(yaml.safe_load((STUDY / f"sets/{name}.yaml").read_text()))


def in_paper(column: Callable[[dict[str, str]], str]) -> dict[tuple[str, ...], Any]:
    """Return place → value of the paper's parameters, each of the column that is chosen for its row, in
    svload's notation: CACHESIZE is KiB, times are bare seconds."""
    found = {}
    for row in csv.DictReader((STUDY / "reference/tuning.csv").open()):
        parameter, written = row["parameter"], row[column(row)]
        bare = written.removesuffix("s")
        value = int(bare) if bare.isdigit() else written
        if parameter == "CACHESIZE":
            value = f"{written.removesuffix('k')} KiB"
        found[*PLACES[row["layer"]], OPTIONS.get(parameter, parameter)] = value
    return found


@pytest.mark.parametrize("column", ["default", "intermediate", "final"])
def test_a_set_is_the_papers_column(column: str) -> None:
    assert in_set(column) == in_paper(lambda row: column)


@pytest.mark.parametrize("layer", ALONE)
def test_a_layer_alone_is_final_there_and_default_elsewhere(layer: str) -> None:
    wanted = in_paper(lambda row: "final" if ALONE[layer](row) else "default")
    assert in_set(f"{layer}-alone") == wanted
    assert wanted not in (in_set("default"), in_set("final"))


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


def test_the_campaign_is_complete(campaign: RunDir) -> None:
    """By the pack's findings; the README's example verifies it, a test below analyses it again."""
    findings = Findings.read(campaign.findings_path)
    assert (findings.complete, findings.sealed_trials) == (True, 320)
    cases = {case.case for case in findings.cases if case.excluded is None}
    assert len(cases) == 40
    assert all(case.endswith((".default", ".final")) for case in cases)


def test_what_fails_first_is_in_the_readme_as_tables_makes_it(first: RunDir, beside: ModuleType) -> None:
    assert verify_run(first) == []
    made = beside.tables(beside.sides([api.read_findings(first)]))
    check_readme(STUDY, *(one for one in made if one.title.startswith("What fails")))


def test_a_success_that_leaves_out_who_waited_is_refused(first: RunDir) -> None:
    """145 of 145 requests of the window were answered, but 3,772 of 4,145 of the load failed."""
    found = next(trial for trial in api.runs.read_findings(first).trials if trial.trial == "TC9.lab-final.r1")
    success = found.metrics["background.success_rate"]
    assert (success.value, success.belief.grade) == (1.0, "REFUSED")
    check = next(one for one in found.verdict.checks if one.check == "carried-over")
    assert check.grade == "REFUSED" and "3,772 of them failed" in check.sentence


PACKS = sorted(STUDY.glob("packs/*.svload.zip"))
STEPS = (0.98, 1.01, 1.0, 1.02, 0.99, 1.0)
"""Factors of a number by block."""


@pytest.fixture(scope="module")
def beside() -> ModuleType:
    return script(STUDY / "tables.py")


def known(value: float) -> Estimate:
    return Estimate(value=value, n=1)


class Maker:
    """Makes findings of a campaign with given numbers: TC7.default=(time, success, …)."""

    def __init__(self) -> None:
        self.cases: list[CaseResult] = []
        self.trials: list[TrialResult] = []

    def add(
        self, name: str, tuning: str, time_s: float, success: float = 1.0, spread: float = 1.0, **more: float
    ) -> Maker:
        case = f"{name}.{tuning}" if tuning else name
        rates = ("background.success_rate", "probe.success_rate")
        numbers = {"probe.response.mean": time_s} | dict.fromkeys(rates, success)
        numbers |= {key.replace("__", "."): value for key, value in more.items()}
        for block, step in enumerate(STEPS, 1):
            factor = 1 + (step - 1) * spread
            metrics = {key: known(value * factor) for key, value in numbers.items()}
            metrics |= dict.fromkeys(rates, known(min(success * factor, 1.0) if success < 1 else success))
            self.trials.append(trial_result(case, block, metrics))
        known_numbers = {key: known(value) for key, value in numbers.items()}
        levels = {"tuning": tuning} if tuning else {}
        self.cases.append(case_result(case, levels=levels, metrics=known_numbers))
        return self

    def findings(self) -> Findings:
        cases, trials = tuple(self.cases), tuple(self.trials)
        return findings_of(study="svload", profile="campaign", cases=cases, trials=trials)


def row(table: Any, *names: str) -> dict[str, str]:
    return next(
        dict(zip(table.head, cells, strict=True)) for cells in table.rows if cells[: len(names)] == names
    )


def test_time_is_not_ranked_where_success_differs(beside: ModuleType) -> None:
    made = Maker()
    for name, before, after in (("TC13", 0.27, 1.83), ("TC7", 1.2, 0.47), ("TC2", 0.05, 0.07)):
        made.add(name, "default", before, 0.57 if name == "TC13" else 1.0).add(name, "final", after)
    table = beside.times(beside.sides([made.findings()]))
    planted = row(table, "TC13")
    assert planted["direction"].startswith("not ranked: success 57.0% and 100.0%")
    assert planted["paper's improvement"] == planted["improvement"] == "-85%", "of 6.8 times"
    assert planted["paper after / before"] == "6.78"
    assert row(table, "TC7")["after / before"].startswith("0.39 (")
    directions = [row(table, name)["direction"] for name in ("TC7", "TC2", "TC0")]
    assert directions == ["agrees", "opposite", "not measured"]


def test_a_difference_that_blocks_cannot_distinguish_has_no_direction(beside: ModuleType) -> None:
    """Noise that both sides of a block share cancels; noise of one side does not, nor of two separate runs."""
    shared, apart = (
        [Maker().add("TC7", "default", 1.0, spread=20).add("TC7", "final", 0.95, spread=spread).findings()]
        for spread in (20, -20)
    )
    runs = [Maker().add("TC7", "", time_s, spread=20).findings() for time_s in (1.0, 0.95)]
    found = [row(beside.times(beside.sides(one)), "TC7")["direction"] for one in (shared, apart, runs)]
    assert found == ["agrees", "ours not distinguishable", "ours not distinguishable"]


def refused(trial: TrialResult) -> TrialResult:
    """Return the trial with each of its numbers refused."""
    no = Belief(grade="REFUSED")
    return evolve(trial, metrics={key: evolve(one, belief=no) for key, one in trial.metrics.items()})


def test_a_refused_number_takes_its_pair_with_it(beside: ModuleType) -> None:
    made = Maker().add("TC7", "default", 1.0).add("TC7", "final", 0.5).findings()
    made = evolve(made, trials=(*map(refused, made.trials[:4]), *made.trials[4:]))
    assert row(beside.times(beside.sides([made])), "TC7")["direction"] == "not measured", "two pairs are left"


def test_tables_ix_and_x_say_which_means_they_use_and_where_the_effect_turns(beside: ModuleType) -> None:
    made = Maker()
    times_s = {"TC7": (1.2, 0.4), "TC11": (0.8, 0.8), "TC0": (0.1, 0.02), "TC12": (0.3, 0.24)}
    for name, (before, after) in times_s.items():
        made.add(name, "default", before).add(name, "final", after)
    found = {table.title: table for table in beside.tables(beside.sides([made.findings()]))}
    nine, ten = found["Table IX: cache over backend"], found["Table X: HTTP over HTTPS"]
    assert "before the tuning" in nine.note
    assert "after the tuning" in ten.note
    shown = ("improvement", "paper's", "direction", "reverses")
    pairs = row(nine, "TC7", "TC11"), row(ten, "TC12", "TC0")
    assert [pairs[0][name] for name in shown] == ["+33%", "34 %", "agrees", "yes"]
    assert [pairs[1][name] for name in shown] == ["+92%", "91 %", "agrees", "no"]


def test_a_miss_is_called_a_failed_request(beside: ModuleType) -> None:
    made = Maker().add("TC13", "default", 0.3, 0.57).add("TC13", "final", 0.3, 1.0)
    made.add("TC1", "default", 0.3, 1.0).add("TC1", "final", 0.3, 1.0)
    table = beside.success(beside.sides([made.findings()]))
    assert "failed request" in table.note
    assert not any("miss" in word for word in table.head)
    found = row(table, "TC13")
    assert (found["failed before"], found["failed after"], found["direction"]) == ("43.0%", "0.0%", "agrees")
    assert found["change"].startswith("+43.0 points (")
    assert row(table, "TC1")["direction"] == "no", "alike on both sides, and no number in the paper's table"


def test_goodput_counts_what_came_in_time(beside: ModuleType) -> None:
    made = Maker()
    for name, before, after in (("TC1", 100.0, 300.0), ("TC3", 100.0, 100.0)):
        for tuning, good in (("default", before), ("final", after)):
            made.add(name, tuning, 0.3, **{"background__goodput(1 s)": good})
    table = beside.goodput(beside.sides([made.findings()]))
    assert "within 1 s" in table.title
    assert row(table, "TC1")["distinguishable"] == "rises"
    assert row(table, "TC3")["distinguishable"] == "no"


@pytest.mark.parametrize(
    ("after", "spread", "text"),
    [(1.23, 1.0, "yes: any difference is below"), (1.8, 1.0, "no: it rises"), (1.2, -12.0, "open")],
)
def test_almost_the_same_is_tested(beside: ModuleType, after: float, spread: float, text: str) -> None:
    made = Maker().add("TC1", "default", 0.3, backend__cpu__mean=1.2)
    made.add("TC1", "final", 0.3, spread=spread, backend__cpu__mean=after)
    both = beside.sides([made.findings()])
    assert row(beside.usage_of_all(both), "backend", "CPU")["almost the same"].startswith(text)
    assert row(beside.usage_of_all(both), "cache", "memory")["almost the same"] == "not measured"
    assert row(beside.usage(both), "TC1")["of"] == "backend cpu.mean"


OVERFLOWS = CaseRefusal(
    service="backend", monitor="sockets", counter="listen_overflows_total", resource="accept queue", entity="", kind="refused",
    means="connections refused for a full accept queue", count=9.0, moved=6, trials=6, first_s=1.0,
)  # fmt: skip


def full(name: str, resource: Any, first_s: float) -> CaseLimit:
    return CaseLimit(
        service="backend", monitor="m", name=name, resource=resource, entity="", used=1.0, limit=1.0, share=1.0, peak_share=1.0,
        state="reached", reached=6, trials=6, first_s=first_s,
    )  # fmt: skip


CORE = full("busiest core", "cpu", 0.2)
WORKER = full("connections of a worker", "connections", 1.5)


def with_evidence(made: Maker, *evidence: CaseEvidence) -> Findings:
    """Give the cases, in the order in which they were added, this evidence."""
    found = made.findings()
    cases = tuple(evolve(case, evidence=one) for case, one in zip(found.cases, evidence, strict=True))
    return evolve(found, cases=cases)


def test_what_gives_way_first_is_reported_for_both_sides_and_apart_from_cpu(beside: ModuleType) -> None:
    """A core that is full first does not hide a queue."""
    made = Maker().add("TC1", "default", 0.3).add("TC1", "final", 0.3)
    before = CaseEvidence(limits=(WORKER, CORE), refusals=(OVERFLOWS,))
    findings = with_evidence(made, before, CaseEvidence(limits=(CORE,)))
    found = row(beside.gives_way(beside.sides([findings])), "TC1")
    assert found["before: queue, limit or counter"] == (
        "backend: connections refused for a full accept queue; then the connections of a worker of backend were full"
    )
    assert found["before: CPU"] == found["after: CPU"] == "the busiest core of backend was full"
    assert found["after: queue, limit or counter"] == "nothing"


def test_what_fails_first_stands_beside_what_was_measured_by_hand(beside: ModuleType) -> None:
    """Success is of the whole load: all of the window's few requests may be answered, and the number refused."""
    made = Maker()
    for name, before, after in (("TC7", 0.2, 0.7), ("TC9", 0.6, 0.4), ("TC11", 0.995, 1.0)):
        for tuning, success in (("lab-default", before), ("lab-final", after)):
            load = {"background__requests": 4000.0, "background__failed": 4000 * (1 - success)}
            made.add(name, tuning, 3.0, success, spread=0, background__ok_throughput=190.0, **load)
    evidence = CaseEvidence(limits=(CORE, WORKER))
    found = with_evidence(made, *[evidence] * 6)
    both = beside.sides([evolve(found, trials=tuple(map(refused, found.trials)))])
    table = next(one for one in beside.tables(both) if one.title.startswith("What fails first"))
    cells = row(table, "TC7", "final")
    assert (cells["A8: success"], cells["A8: errors"]) == ("74.2 %", "read timeout 1,687")
    assert (cells["ours: success"], cells["ours: right answers"]) == ("70.0%", "190/s")
    assert cells["ours: first queue, limit or counter"] == "the connections of a worker of backend were full"
    assert cells["ours: CPU"] == "the busiest core of backend was full"
    assert row(table, "TC7", "default")["direction"] == ""
    directions = [row(table, name, "final")["direction"] for name in ("TC7", "TC9", "TC11", "TC23")]
    assert directions == ["agrees", "opposite", "ours does not move", "not measured"]
    assert row(table, "TC23", "final")["ours: success"] == "–"


@pytest.fixture(scope="module")
def mistakes(beside: ModuleType) -> list[str]:
    """Return the names of the mistakes in the paper's tables (their reports: test_reference_tables.py)."""
    names = sorted({row[0] for row in beside.mistakes().rows})
    assert len(names) == 9
    return names


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.name)
def test_a_committed_campaign_contains_all_of_it(
    beside: ModuleType, mistakes: list[str], pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert beside.main([str(pack)]) == 0
    found = capsys.readouterr().out
    titles = ("Table VII", "Table VIII", "Table IX", "Table X", "Fig. 5", "Goodput", "by server and by load")
    assert [words for words in (*titles, *(f"| {check} |" for check in mistakes)) if words not in found] == []


@pytest.mark.long
@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.name)
def test_the_report_of_a_committed_pack_names_the_papers_mistakes(
    mistakes: list[str], pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own tables are in the pack, so they need not be made first."""
    monkeypatch.setenv("SVLOAD_CACHE", str(tmp_path))
    run = api.find_run(str(pack))
    assert run.path.is_relative_to(tmp_path)
    page = api.report(run)[1]["report.html"].read_text(encoding="utf-8")
    own = page[page.index('<section id="own"') : page.index('<section id="anatomy"')]
    assert "They are out of date" not in own
    titles = ("Table VII", "What gives way first", "before: queue, limit or counter")
    assert [words for words in (*mistakes, *titles) if words not in own] == []
