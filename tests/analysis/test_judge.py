"""Whole trials and runs: metrics compared with the planted truth, verdicts, cases, thresholds, findings."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import (
    Bench,
    bench_of,
    with_conditions,
    with_counter,
    with_group,
    with_readings,
    with_table,
)
from tests.analysis.queues import read
from tests.evolve import evolve
from tests.support import make_run
from tests.support.truth import SIGMA

from svload import analysis
from svload.analysis.cases import over_runs
from svload.analysis.criteria import metric_of
from svload.analysis.judge import judge_run, judge_trial
from svload.analysis.series import CaseCut
from svload.analysis.view import kept_window
from svload.model.results import Estimate, Findings, GroupSummary
from svload.store import TrialData


@pytest.fixture(scope="module")
def findings(closed: Bench) -> Findings:
    return judge_run(closed.lock, closed.configs, closed.trials())


def test_medians_are_the_planted_ones(closed: Bench, findings: Findings) -> None:
    truth = closed.run.truth
    for trial in findings.trials:
        planted = truth.median_ns[trial.case] * truth.noise[trial.trial] / 1e9
        for group in ("probe", "background"):
            measured = trial.metrics[f"{group}.response.p50"]
            assert measured.value == pytest.approx(planted, rel=0.08)
            assert measured.low * 0.93 < planted


def test_higher_percentiles_and_the_mean_are_the_lognormals(closed: Bench, findings: Findings) -> None:
    trial = next(one for one in findings.trials if one.trial == "TC1.r1")
    truth = closed.run.truth
    median = truth.median_ns["TC1"] * truth.noise["TC1.r1"] / 1e9
    mean = median * math.exp(SIGMA**2 / 2)
    value = {name.removeprefix("background."): one.value for name, one in trial.metrics.items()}
    for stat, z in (("p90", 1.2816), ("p95", 1.6449), ("p99", 2.3263)):
        assert value[f"response.{stat}"] == pytest.approx(median * math.exp(SIGMA * z), rel=0.05)
    assert value["response.mean"] == pytest.approx(mean, rel=0.03)
    assert value["throughput"] == pytest.approx(12 / mean, rel=0.04)


def test_servers_and_feeders_are_measured(findings: Findings) -> None:
    trial = next(one for one in findings.trials if one.trial == "TC5.r1")
    value = {name: one.value for name, one in trial.metrics.items()}
    assert (value["cache.hit_ratio"], value["object.early_repeats"]) == (0, 0)
    assert value["cache.misses"] == value["cache.requests"] == value["backend.requests"]
    assert value["object.distinct"] == pytest.approx(1600, rel=0.2)
    assert value["cache.cpu.mean"] is not None
    assert value["cache.memory.max"] == 96 << 20
    assert value["probe.appconnect.p50"] > 0
    assert "background.appconnect.p50" not in value


def test_every_name_is_the_catalogues(closed: Bench, findings: Findings) -> None:
    """Every measured name can be used in a threshold, and is parsed back to itself."""
    config = closed.configs["TC4"]
    for name in next(one for one in findings.trials if one.case == "TC4").metrics:
        assert str(metric_of(name, config)) == name


def test_clean_runs_are_believed(findings: Findings) -> None:
    assert {case.instrument for case in findings.cases} <= {"VALID", "WEAK"}
    assert findings.complete
    assert findings.floor == "the lab's own noise is not measured: exploratory"
    assert findings.analysis_version == analysis.ANALYSIS_VERSION
    assert Findings.model_validate_json(findings.to_json()) == findings
    assert [one.outcome for one in findings.thresholds] == ["passed"] * 6


def test_the_same_trials_give_the_same_findings(closed: Bench, findings: Findings) -> None:
    again = judge_run(closed.lock, closed.configs, iter(reversed(closed.trials())))
    assert again.to_json() == findings.to_json()


def test_tables_are_not_kept_once_their_case_is_judged(closed: Bench) -> None:
    trials = closed.trials()
    judge_run(closed.lock, closed.configs, trials)
    assert not any(trial.histograms._columns for trial in trials)


def test_failures_rank_on_top_and_a_mean_is_of_what_was_observed(tmp_path: Path) -> None:
    bench = bench_of(make_run(tmp_path, cases=1, replicates=1, faults={"TC0": "errors"}))
    trial = bench.trial("TC0.r1")
    metrics = judge_trial(trial, bench.configs["TC0"]).metrics
    group = trial.summary.groups[0]
    share = group.failed / group.begun
    assert 0.02 < share < 0.08
    assert metrics["background.success_rate"].value == pytest.approx(1 - share, abs=0.01)
    assert metrics["background.response.p99"].value is None
    assert metrics["background.response.p99"].reason.startswith("> timeout (")
    assert metrics["background.ok_response.p99"].value is not None
    mean, of_ok = (metrics[f"background.{name}.mean"].value for name in ("response", "ok_response"))
    assert of_ok is not None
    assert mean == pytest.approx(of_ok, rel=0.1), "what failed took no timeout of 20 s"
    assert metrics["background.response.max"].value is None


def test_overload_is_a_finding_and_no_refusal(open_loop: Bench) -> None:
    found = judge_run(open_loop.lock, open_loop.configs, open_loop.trials())
    clean, overloaded = (one for one in found.trials)
    assert (clean.verdict.server, overloaded.verdict.server) == ("STEADY", "OVERLOADED")
    assert overloaded.verdict.instrument != "REFUSED"
    assert overloaded.metrics["background.response.p50"].reason == "grows with run length"
    assert any("OVERLOADED" in one.sentence for one in found.findings)
    assert found.cases[1].load_model == {"background": "open loop", "probe": "closed loop"}


def test_an_overload_that_others_may_have_caused_is_unknown(open_loop: Bench) -> None:
    trial = open_loop.trial("TC1.r1")
    end_s = kept_window(trial.summary).high_ns / 1e9
    half = (np.array([0.0, end_s]), np.array([0.0, end_s / 2]))
    verdict = judge_trial(read(trial, end_s, others=half, waits=half), open_loop.config(trial)).verdict
    assert verdict.server == "UNKNOWN"
    assert "whether they would keep up without that is unknown" in " ".join(verdict.reasons), verdict.reasons


def test_a_bad_instrument_leaves_the_server_unknown(open_loop: Bench) -> None:
    trial = open_loop.trial("TC1.r1")
    broken = with_group(trial, "background", due=lambda n: n + 1)
    assert judge_trial(broken, open_loop.config(trial)).verdict.server == "UNKNOWN"


def test_too_few_trials_left_make_a_refused_case(tmp_path: Path) -> None:
    faults = {"TC0.r1": "no-hits", "TC0.r2": "no-hits", "TC1.r1": "no-hits"}
    bench = bench_of(make_run(tmp_path, cases=2, replicates=4, faults=faults))
    found = judge_run(bench.lock, bench.configs, bench.trials())
    gone, left = found.cases[:2]
    assert (gone.instrument, gone.refused) == ("REFUSED", ("TC0.r1", "TC0.r2"))
    assert left.instrument != "REFUSED"
    assert left.refused == ("TC1.r1",)
    assert left.metrics["probe.response.p50"].n == 3
    assert [one.outcome for one in found.thresholds] == ["refused", "passed"]


def test_a_case_is_the_geometric_mean_with_t_on_logs() -> None:
    runs = [
        {"g.response.p50": Estimate(value=value), "g.success_rate": Estimate(value=1.0)}
        for value in (1.0, 2.0, 4.0)
    ]
    found = over_runs(runs)
    middle = found["g.response.p50"]
    half = 4.3027 * math.log(2) / math.sqrt(3)
    assert (middle.value, middle.low) == pytest.approx((2.0, 2 * math.exp(-half)), rel=1e-3)
    assert (found["g.success_rate"].value, found["g.success_rate"].high) == (1.0, 1.0)


def test_a_number_missing_in_a_run_is_missing_in_the_case() -> None:
    late = Estimate(value=None, reason="> timeout (3 % failed)", why="time-out")
    runs = [{"g.response.p99": one} for one in (Estimate(value=1.0), late)]
    found, beyond = (over_runs(some)["g.response.p99"] for some in (runs, runs[1:]))
    assert (found.value, found.reason) == (None, "null in 1 of 2 runs: > timeout (3 % failed)")
    assert (beyond.why, beyond.reason.startswith("> timeout in 1 of 1 runs")) == ("time-out", True)


def test_an_incomplete_run_says_so(closed: Bench) -> None:
    found = judge_run(closed.lock, closed.configs, closed.trials()[:5], attempts=[{"attempt": "TC0.r1-1"}])
    assert (found.complete, found.sealed_trials, found.planned_trials) == (False, 5, 12)
    assert found.attempts == ({"attempt": "TC0.r1-1"},)
    assert judge_run(closed.lock, closed.configs, []).cases[0].instrument is None


def test_what_only_the_sum_of_effects_makes_weak_has_a_reason(closed: Bench) -> None:
    """The planted core is 3.5 % slower after the load, and the hypervisor takes 2 % of one; each alone leaves the
    number VALID."""
    trial = closed.trial("TC0.r1")
    config = evolve(closed.config(trial), thresholds=("background.response.p50 < 10 s",))
    stolen = with_readings(trial, "host", "steal_seconds_total", lambda at, _: 0.02 * at, "cpu1")
    slowed = with_conditions(trial, after={"calibration_ns": 41_400.0})
    both = with_conditions(stolen, after={"calibration_ns": 41_400.0})
    *alone, found = (judge_trial(one, config).verdict for one in (stolen, slowed, both))
    assert [(one.instrument, one.reasons) for one in alone] == [("VALID", ())] * 2
    assert (found.instrument, found.checks[-1].check) == ("WEAK", "combined")
    assert found.reasons == (found.checks[-1].sentence,)
    assert "(calibration, generator-harm, steal). The true background.response.p50" in found.reasons[0]


def test_the_remedy_of_the_worst_check_is_the_trials(closed: Bench) -> None:
    trial = with_counter(closed.trial("TC4.r1"), "cache", "misses", lambda _: 1e5)
    verdict = judge_trial(trial, closed.config(trial)).verdict
    assert verdict.instrument == "REFUSED"
    assert "expect" in verdict.remedy
    assert verdict.reasons[0].startswith("The factor did not take effect")


def empty(trial: TrialData) -> TrialData:
    """Nothing happened: all tables empty, all counts 0."""
    none = {name: 0 for name, field in GroupSummary.model_fields.items() if field.annotation is int}
    groups = tuple(GroupSummary(**none | {"name": one.name}) for one in trial.summary.groups)
    bare = evolve(trial, summary__groups=groups)
    for table in ("intervals", "histograms", "samples", "rows", "monitors"):
        columns = getattr(bare, table)
        bare = with_table(bare, table, **{name: columns[name][:0] for name in columns})
    return bare


def failing(trial: TrialData) -> TrialData:
    """Every request failed before anything was written."""
    rows, counts, found = trial.samples, trial.intervals, trial.histograms
    unsent = np.full_like(rows["done_ns"], -1)
    bare = with_table(trial, "samples", error=np.full_like(rows["error"], 1), first_byte_ns=unsent)
    bare = with_table(bare, "intervals", ok=counts["ok"] * 0, failed=counts["begun"])
    bare = with_table(bare, "histograms", **{name: found[name][found["metric"] == 1] for name in found})
    nothing: dict[str, Any] = dict.fromkeys(("ok", "connections_opened", "tls_full", "tls_resumed"), 0)
    for name in ("background", "probe"):
        bare = with_group(bare, name, **nothing, status={}, errors={"connect_refused": 9})
    return bare


@pytest.mark.parametrize("damage", [empty, failing])
@pytest.mark.parametrize("name", ["TC4.r1", "open"])
def test_a_trial_in_which_nothing_worked_is_judged_too(
    closed: Bench, open_loop: Bench, damage: Callable[[TrialData], TrialData], name: str
) -> None:
    bench = open_loop if name == "open" else closed
    trial = damage(bench.trial("TC0.r1" if name == "open" else name))
    result = judge_trial(trial, bench.config(trial))
    assert result.verdict.instrument == "REFUSED"
    assert result.metrics["probe.response.p50"].value is None
    none = "no request was ok" if damage is failing else "no request is due in the kept window"
    assert {result.metrics[f"probe.{name}"].reason for name in ("ok_response.p99", "service.mean")} == {none}
    assert analysis.headline(result)
    assert judge_run(bench.lock, bench.configs, [trial]).to_json()


def test_the_cut_of_the_case_grades_its_trials(closed: Bench) -> None:
    trial = closed.trial("TC4.r1")
    cut = CaseCut(100_000_000, "REFUSED", "Too short.")
    verdict = judge_trial(trial, closed.config(trial), lock=closed.lock, cut=cut).verdict
    assert (verdict.instrument, verdict.reasons[0]) == ("REFUSED", "Too short.")
    assert "duration" in verdict.remedy


def test_a_cut_that_leaves_nothing_leaves_no_number(closed: Bench) -> None:
    trial = closed.trial("TC4.r1")
    result = judge_trial(trial, closed.config(trial), cut=CaseCut(2_000_000_000, "REFUSED", "Too short."))
    assert result.metrics["probe.response.p50"].reason == "no request is due in the kept window"
    assert result.metrics["background.throughput"].value is None
