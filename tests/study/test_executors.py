"""Executors, bodies, scenarios, set-up and feeders as a study writes them; every mistake is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow.parquet import write_table

from svload.model.executors import (
    ConstantVus,
    PerVuIterations,
    RampingArrivalRate,
    RampingVus,
    SharedIterations,
    ThinkTime,
)
from svload.model.stages import Stage
from svload.model.study import CaseConfig
from svload.model.traffic import Body, FeederPart, SizeLaw, TakenPart, Text, VarPart
from svload.study.feeders import read_file
from svload.study.steps import raw_scenarios

from .conftest import page_of, problems_of, refusal

S = 1_000_000_000
Case = Callable[..., CaseConfig]


def study(
    group: str = "executor: constant-vus, vus: 4", request: str = "get: http://web/", more: str = ""
) -> str:
    return page_of(f"{{{request}}}", f"{{{group}, request: page}}", more=more)


def stages(*pairs: tuple[int, float]) -> tuple[Stage, ...]:
    return tuple(Stage(duration_ns=seconds * S, target=target) for seconds, target in pairs)


PARTS = (VarPart(var="request.id"), Text(text="&path="), FeederPart(feeder="thing", column="path"))
LOGNORMAL = SizeLaw(lognormal=(1000, 4000))
WAVES, RATES = "[{duration: 30s, target: 10}, {duration: 0s, target: 0}]", "[{duration: 1min, target: 500/s}]"
WAVING = RampingVus(start_vus=2, stages=stages((30, 10), (0, 0), (5, 0)), pacing_ns=S)
RATED = RampingArrivalRate(start_rate_rps=10, stages=stages((60, 500)), max_vus=8, on_full="drop")
THINKING = PerVuIterations(vus=1, iterations=7, think_time=ThinkTime(lognormal_ns=(S, 3 * S)))
TOGETHER = PerVuIterations(vus=1, iterations=7, start="together")


@pytest.mark.parametrize(
    ("written", "executor"),
    [
        (f"ramping-vus, start_vus: 2, stages: {WAVES}, hold_for: 5s, pacing: 1s", WAVING),
        (f"ramping-arrival-rate, start_rate: 10/s, stages: {RATES}, max_vus: 8, on_full: drop", RATED),
        ("shared-iterations, vus: 3, iterations: 100", SharedIterations(vus=3, iterations=100)),
        ("per-vu-iterations, iterations: 7, think_time: {lognormal: {median: 1s, p99: 3s}}", THINKING),
        ("per-vu-iterations, iterations: 7, start: together", TOGETHER),
        ("'${how}', vus: 2, iterations: 9", PerVuIterations(vus=2, iterations=9)),
        ("constant-vus, vus: 2, pacing: 0.5s", ConstantVus(vus=2, pacing_ns=S // 2)),
    ],
)
def test_executors(case: Case, written: str, executor: object) -> None:
    assert case(study(f"executor: {written}"), -1).groups[0].executor == executor


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("executor: ramping-vus, stages: []", "at least one entry"),
        ("executor: ramping-vus", "stages"),
        ("executor: ramping-vus, stages: [{duration: 61s, target: 3}]", "longer than measure.duration"),
        ("executor: ramping-vus, stages: [{duration: 50s, target: 3}], hold_for: 11s", "longer than measure"),
        ("executor: ramping-vus, stages: [{duration: 0s, target: 3}]", "longer than 0s"),
        ("executor: ramping-vus, stages: [{duration: 5s, target: 0}]", "above 0"),
        ("executor: ramping-vus, stages: [{duration: 5s, target: 2.5}]", "stages"),
        ("executor: ramping-vus, generators: 3, stages: [{duration: 5s, target: 2}]", "only 2 VUs"),
        ("executor: ramping-arrival-rate, stages: [{duration: 5s, target: -2/s}]", "negative"),
        ("executor: ramping-arrival-rate, stages: [{duration: 5s, target: 0}]", "above 0"),
        ("executor: shared-iterations, vus: 3", "iterations"),
        ("executor: shared-iterations, vus: 3, iterations: 2", "iterations ≥ vus"),
        ("executor: per-vu-iterations, vus: 3, iterations: 0", "at least 1"),
        ("executor: per-vu-iteration, vus: 3, iterations: 5", "per-vu-iterations"),
        ("executor: constant-vus, vus: 3, pacing: -1s", "negative"),
        ("get: http://web/, body: x", "not to get"),
        ("put: http://web/, body: {random: 0}", "above 0"),
        ("put: http://web/, body: {text: a, random: 1 KiB}", "one of text, random, file"),
        ("put: http://web/, body: {file: nowhere.bin}", "inside the study's folder"),
        ("put: http://web/, body: x, expect_continue: true", "random or file"),
        ("put: http://web/, body: {random: 1 KiB}, headers: {Content-Length: 3}", "follows from the body"),
        ("put: http://web/, body: 'id=${thing.colour}'", "colour"),
    ],
)
def test_mistakes_in_executors_and_bodies(folder: Path, written: str, found: str) -> None:
    text = study(written) if "executor" in written else study(request=written)
    assert found in refusal(folder, text)


@pytest.mark.parametrize(
    ("written", "body"),
    [
        ("body: hello", Body(text=(Text(text="hello"),))),
        ("body: {text: '${request.id}&path=${thing.path}'}", Body(text=PARTS)),
        ("body: {random: 500 MB}, expect_continue: true", Body(random=SizeLaw(constant=500_000_000))),
        ("body: {random: {lognormal: {median: 1 kB, p99: 4 kB}}}", Body(random=LOGNORMAL)),
        ("body: {random: {uniform: [1 kB, 2 kB]}}", Body(random=SizeLaw(uniform=(1000, 2000)))),
    ],
)
def test_bodies(case: Case, written: str, body: Body) -> None:
    for method in ("post", "put", "patch"):
        request = case(study(request=f"{method}: http://web/, {written}")).groups[0].request
        assert (request.method, request.body) == (method.upper(), body)
        assert request.expect_continue == ("expect" in written)


WAVE = "executor: ramping-vus, stages: [{duration: 1s, target: 9}, {duration: 1s, target: 9}, {duration: 1s, target: 0}]"


@pytest.mark.parametrize(
    ("that", "found"),
    [
        ("response.p95 < 1 s at 9 users", ""),
        ("p(95)<1000 at 9 users", ""),
        ("response.p95 < 1 s at 8000 users", "g does not stay at 8000 users, only at 9 users"),
        ("response.p95 < 1 s at noon", "“noon” is not a level"),
        ("web.cpu < 1 at 9 users", "only the load's own numbers are known for each level"),
        ("failed == 0 at 9 users", "failed covers the whole trial"),
    ],
)
def test_a_threshold_names_a_level(folder: Path, that: str, found: str) -> None:
    reply = refusal(folder, study(WAVE, more=f"thresholds: ['{that}']"))
    assert found in reply if found else reply == ""


def test_only_a_threshold_over_stages_names_a_level(folder: Path) -> None:
    steady = study(more="thresholds: ['response.p95 < 1 s at 4 users']")
    assert "g has no stage that stays at one level" in refusal(folder, steady)
    ended = study(WAVE, more="abort_if: ['response.p95 > 2 s at 9 users']")
    assert "only a threshold can name one level" in refusal(folder, ended)


SCENARIOS = """\
name: t
lab: {{web: {{kit: stone}}}}
feeders: {feeders}
factors: {{size: [1, 2]}}
requests:
  login: {{post: http://web/login, take: {{token: {{header: X-Auth-Token}}, base: {{json: "urls[0].base"}}}}}}
  read: {{get: "http://web/${{number.value}}", headers: {{Authorization: "Bearer ${{token}}"}}}}
  away: {{get: "${{base}}/more?size=${{size}}"}}
  plain: {{get: http://web/}}
scenarios:
  visit: [{{request: login, think_time: 2s}}, read, {{request: GET http://web/last, think_time: {{exponential: 1s}}}}, away]
setup: {setup}
traffic:
  g: {group}
measure: {{duration: 60s}}
{more}
"""
FEEDERS = "{number: {range: [1, 9], take: sequential}}"
VISIT = "{executor: constant-vus, vus: 4, scenario: visit}"


def visited(group: str = VISIT, feeders: str = FEEDERS, setup: str = "[]", more: str = "") -> str:
    return SCENARIOS.format(group=group, feeders=feeders, setup=setup, more=more)


def test_a_scenario_is_its_steps_in_order(case: Case) -> None:
    group = case(visited(), -1).groups[0]
    assert [(one.name, one.weight) for one in group.scenarios] == [("visit", 1)]
    assert [step.name for step in group.steps] == ["login", "read", "step3", "away"]
    thinks = [ThinkTime(constant_ns=2 * S), ThinkTime(constant_ns=0), ThinkTime(exponential_ns=S)]
    assert [step.think_time for step in group.steps[:3]] == thinks
    login, read, last, away = group.requests
    takes = [("token", "X-Auth-Token", None), ("base", None, "urls[0].base")]
    assert [(take.name, take.header, take.json_path) for take in login.take] == takes
    assert read.path == (Text(text="/"), FeederPart(feeder="number", column="value"))
    assert read.headers[0][1] == (Text(text="Bearer "), TakenPart(taken="token"))
    assert (last.method, last.path) == ("GET", (Text(text="/last"),))
    assert away.url == (TakenPart(taken="base"), Text(text="/more?size=2"))
    assert (away.host, group.hosts, group.endpoints) == ("", {"web", ""}, ("http://web",))
    assert group.longest_timeout_ns == 30 * S


def test_a_mix_weighs_scenarios_and_requests(case: Case) -> None:
    mix = "{executor: constant-vus, vus: 4, mix: {visit: 3, plain: 1, login: 2}}"
    group = case(visited(mix), -1).groups[0]
    weights = {"visit": 3, "plain": 1, "login": 2}
    assert {scenario.name: scenario.weight for scenario in group.scenarios} == weights
    assert [step.name for step in group.steps] == ["login", "read", "step3", "away", "plain", "login-2"]


def test_steps_may_stand_in_the_group_and_metrics_name_them(case: Case) -> None:
    group = "{executor: constant-vus, vus: 4, scenario: [plain, {get: http://web/two, timeout: 45s}]}"
    more = "thresholds: [g.plain.response.p95 < 1 s, g.step2.success_rate >= 99 %, g.response.p50 < 1 s]"
    (found,) = case(visited(group, more=more)).groups
    assert ([step.name for step in found.steps], found.longest_timeout_ns) == (["plain", "step2"], 45 * S)


def test_a_step_whose_request_a_level_names_has_one_name_in_all_cases() -> None:
    (scenario,) = raw_scenarios({"scenario": ["${page.ask}", "plain"]}, ("traffic", "g"), {})
    assert [step.name for step in scenario.steps] == ["step1", "plain"]


def test_a_parquet_files_columns_are_known(case: Case, folder: Path) -> None:
    text = visited(
        "{executor: constant-vus, vus: 2, scenario: [login, read]}", "{number: {parquet: rows.parquet}}"
    )
    write_table(pyarrow.table({"value": [1, 2]}), folder / "rows.parquet")
    assert [table.parquet for table in case(text).tables] == [str(folder / "rows.parquet")]
    write_table(pyarrow.table({"valeu": [1, 2]}), folder / "rows.parquet")
    (problem,) = problems_of(folder, text)
    assert "number.valeu" in str(problem)


def bombs() -> dict[str, object]:
    """Return columns of a few KiB that decode to far more than a table may take."""
    rows = 3_000
    of = pyarrow.DictionaryArray.from_arrays
    return {
        "one-text": of(pyarrow.array([0] * rows, "int32"), pyarrow.array(["x" * 100_000])),
        "two-texts": of(pyarrow.array([0, 1] * rows, "int32"), pyarrow.array(["x" * 100_000, "y"])),
        "bytes": pyarrow.array([b"x" * 100_000] * rows, pyarrow.binary(100_000)),
        "lists": pyarrow.array([[7] * 100_000] * 10),
    }


@pytest.mark.parametrize("name", ["one-text", "two-texts", "bytes", "lists"])
def test_a_parquet_file_is_bounded_by_what_it_decodes_to(name: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    write_table(pyarrow.table({"value": bombs()[name]}), file, compression="zstd")
    assert file.stat().st_size < 1 << 20
    with pytest.raises(ValueError, match=r"67,108,864 bytes at most|more than one value a row"):
        read_file("parquet", file)


def test_a_parquet_file_with_a_dictionary_is_read_as_it_is(tmp_path: Path) -> None:
    table = {"value": ["a", "ü", "a"], "fixed": [b"xy", b"zw", b"xy"], "size_bytes": [1, 2, 1]}
    columns = {**table, "value": pyarrow.array(table["value"]).dictionary_encode()}
    write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    assert read_file("parquet", tmp_path / "rows.parquet") == table


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"group": "{executor: constant-vus, vus: 2, " "request: plain, " "scenario: visit}"}, ["one of request, scenario, mix"]),
        ({"group": "{executor: constant-vus, vus: 2, scenario: vist}"}, ["vist", "visit"]),
        ({"group": "{executor: constant-vus, vus: 2, mix: {visit: 1, plian: 2}}"}, ["plian", "plain"]),
        ({"group": "{client: curl, executor: constant-vus, vus: 2, scenario: visit}"}, ["client: curl"]),
        ({"group": "{executor: constant-vus, vus: 2, scenario: [read, login]}"}, ["${token}", "no earlier step"]),
        ({"group": "{executor: constant-vus, vus: 2, request: read}"}, ["${token}", "setup"]),
        ({"setup": "[login]"}, ["setup takes this variable already"]),
        ({"group": "{executor: constant-arrival-rate, " "rate: 5/s, " "request: read}", "setup": "[{request: login, once: vu}]"}, ["open loop"]),
        ({"setup": "[logni]"}, ["logni", "login"]),
        ({"feeders": "{number: {range: [1, 9], values: [a]}}"}, ["one of from, csv"]),
        ({"feeders": "{number: {range: [9, 1]}}"}, ["range"]),
        ({"feeders": "{number: {range: [1, 9], take: random, when_exhausted: stop}}"}, ["no last row"]),
        ({"feeders": "{number: {range: [1, 9], take: random, offset: 2}}"}, ["offset"]),
        ({"feeders": "{token: {range: [1, 9]}, number: {range: [1, 9]}}"}, ["variable of that name"]),
    ],
)  # fmt: skip
def test_mistakes_are_reported(folder: Path, parts: dict[str, str], words: list[str]) -> None:
    problems = list(map(str, problems_of(folder, visited(**parts))))
    assert any(all(word in problem for word in words) for problem in problems), problems


@pytest.mark.parametrize("text", ["value\n", "", "value,value\n1,2\n", "value,\n1,2\n"])
def test_an_unclear_table_is_reported(folder: Path, text: str) -> None:
    (folder / "rows.csv").write_text(text)
    assert "expected a table" in refusal(folder, visited(feeders="{number: {csv: rows.csv}}"))
