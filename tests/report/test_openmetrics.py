"""Output for other programs: OpenMetrics checked by a strict parser, findings.json by its schema."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.report.conftest import Reporter
from tests.support import make_run

from svload import api
from svload.model.errors import SvloadError
from svload.model.events import Event
from svload.report.files.openmetrics import _labels, openmetrics
from svload.store import Journal, RunDir


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.parametrize("name", ["plain", "mixed", "hostile", "overloaded", "unmeasured"])
@pytest.mark.parametrize("stamps", [False, True])
def test_a_parser_of_others_takes_it(reported: Reporter, name: str, stamps: bool) -> None:
    found = reported(name)
    text = openmetrics(found.run, found.findings, stamps)
    parsed = families(text)
    assert text.endswith("# EOF\n")
    assert {"svload_run", "svload_case", "svload_trials"} <= set(parsed)
    stamped = [sample.timestamp is not None for family in parsed.values() for sample in family.samples]
    assert all(stamped) if stamps else not any(stamped)


def test_every_judged_number_of_a_case_is_in_it(reported: Reporter) -> None:
    found = reported("plain")
    parsed = families(openmetrics(found.run, found.findings))
    names = ("case", "group", "stat", "bound")
    samples = parsed["svload_traffic_response_seconds"].samples
    response = {tuple(one.labels[name] for name in names): one.value for one in samples}
    for case in found.findings.cases:
        for stat in ("p50", "p99", "mean"):
            estimate = case.metrics.get(f"probe.response.{stat}")
            low, high = estimate.within if estimate else (None, None)
            value = estimate.value if estimate else None
            for bound, wanted in (("value", value), ("low", low), ("high", high)):
                assert response.get((case.case, "probe", stat, bound)) == wanted
    assert parsed["svload_traffic_response_seconds"].unit == "seconds"


def test_factors_that_differ_in_one_sign_keep_a_label_each() -> None:
    assert _labels(["a-b", "a_b", "case", "größe"]) == ["a_b", "a_b_", "factor_case", "gr__e"]


@pytest.fixture
def running(tmp_path: Path) -> tuple[RunDir, str]:
    """Return a run in its second trial: one is sealed, one under load, nothing is judged."""
    made = make_run(tmp_path, cases=2, replicates=1, duration_s=0.3)
    first, second = (plan.trial for plan in made.planned_trials())
    shutil.rmtree(made.trial(second).path)
    made.events.unlink()
    with Journal(made.events) as journal:
        journal.write(Event("run-started", {"trials": 2, "sealed": 0}))
        journal.write(Event("trial-sealed", {"trial": first, "instrument": "WEAK", "server": "STEADY"}))
    group = {"name": "probe", "due": 12, "begun": 11, "ok": 7, "failed": 3, "in_flight": 1, "active_vus": 4, "errors": {"status": 3},
             "last": {"ok": 5, "failed": 1, "response_p50_ns": 2_000_000, "response_p99_ns": 9_000_000}}  # fmt: skip
    idle = group | {"name": "idle", "last": {"ok": 0, "failed": 0, "response_p50_ns": None, "response_p99_ns": 0}}  # fmt: skip
    with Journal(made.trial(second).events) as journal:
        journal.write(Event("progress", {"trial": second, "offset_s": 1.0, "groups": [group | {"ok": 1}], "generator_cpu_s": 0.2}))  # fmt: skip
        journal.write(Event("progress", {"trial": second, "offset_s": 2.0, "groups": [group, idle], "service_cores": {"cache": 0.5}}))  # fmt: skip
    return made, second


def test_a_running_trial_is_reported_from_its_journal_unjudged(running: tuple[RunDir, str]) -> None:
    run, trial = running
    parsed = families(api.openmetrics(str(run.path)))
    requests = {sample.labels["state"]: sample.value for sample in parsed["svload_running_requests"].samples}
    assert requests == {"due": 12, "begun": 11, "ok": 7, "failed": 3}
    assert {sample.labels["trial"] for sample in parsed["svload_running_requests"].samples} == {trial}
    error, _ = parsed["svload_running_errors"].samples
    assert (error.labels["error"], error.value) == ("status", 3)
    assert [sample.value for sample in parsed["svload_running_response_seconds"].samples] == [0.002, 0.009]
    assert [(s.labels["service"], s.value) for s in parsed["svload_running_service_cores"].samples] == [("cache", 0.5)]  # fmt: skip
    weak = [s for s in parsed["svload_trial_instrument"].samples if s.labels["svload_trial_instrument"] == "WEAK"]  # fmt: skip
    assert [sample.value for sample in weak] == [1]
    states = {s.labels["state"]: s.value for s in parsed["svload_trials"].samples}
    assert states == {"planned": 2, "sealed": 1}
    assert not run.findings_path.exists()


def test_it_is_written_completely_or_the_error_says_why(reported: Reporter, tmp_path: Path) -> None:
    found = reported("one")
    text = api.openmetrics(str(found.run.path), tmp_path / "svload.om")
    assert (tmp_path / "svload.om").read_text(encoding="utf-8") == text
    (tmp_path / "file").write_text("")
    with pytest.raises(SvloadError, match=r"file/x\.om cannot be written.*\[usage\]"):
        api.openmetrics(str(found.run.path), tmp_path / "file" / "x.om")


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = api.findings_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("name", ["plain", "mixed", "refused", "one", "hostile", "overloaded", "unmeasured"])
def test_real_findings_are_valid(validator: Draft202012Validator, reported: Reporter, name: str) -> None:
    raw = json.loads(reported(name).run.findings_path.read_text(encoding="utf-8"))
    assert [error.message for error in validator.iter_errors(raw)] == []
