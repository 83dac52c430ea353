"""Executors in stages and of a fixed amount of work, and bodies, as a study says them;
and every slip in them is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.model.executors import (
    ConstantVus,
    PerVuIterations,
    RampingArrivalRate,
    RampingVus,
    SharedIterations,
    ThinkTime,
)
from svload.model.stages import Stage
from svload.model.traffic import Body, FeederPart, Group, SizeLaw, Text, VarPart
from svload.study import load_study, resolve

S = 1_000_000_000
STUDY = """\
name: t
lab: {{web: {{kit: stone}}}}
data: {{o: {{in: web, count: 5, size: 1 KiB}}}}
feeders: {{thing: {{from: o}}}}
factors: {{how: [shared-iterations, per-vu-iterations]}}
requests:
  page: {request}
traffic:
  g: {group}
measure: {{duration: 60s}}
"""
GET = "{get: http://web/}"
Made = Callable[..., Group]


@pytest.fixture
def study(folder: Path) -> Made:
    def made(group: str = "{executor: constant-vus, vus: 4, request: page}", request: str = GET) -> Group:
        (folder / "study.yaml").write_text(STUDY.format(request=request, group=group))
        lock = load_study(folder)
        return resolve(lock, lock.cases[-1]).groups[0]

    return made


@pytest.mark.parametrize(
    ("written", "executor"),
    [
        (
            "executor: ramping-vus, start_vus: 2, stages: [{duration: 30s, target: 10}, {duration: 0s, "
            "target: 0}], hold_for: 5s, pacing: 1s",
            RampingVus(
                start_vus=2,
                stages=(
                    Stage(duration_ns=30 * S, target=10),
                    Stage(duration_ns=0, target=0),
                    Stage(duration_ns=5 * S, target=0),
                ),
                pacing_ns=S,
            ),
        ),
        (
            "executor: ramping-arrival-rate, start_rate: 10/s, stages: [{duration: 1min, target: 500/s}], "
            "max_vus: 8, on_full: drop, arrivals: poisson",
            RampingArrivalRate(
                start_rate_rps=10,
                stages=(Stage(duration_ns=60 * S, target=500),),
                max_vus=8,
                on_full="drop",
                arrivals="poisson",
            ),
        ),
        ("executor: shared-iterations, vus: 3, iterations: 100", SharedIterations(vus=3, iterations=100)),
        (
            "executor: per-vu-iterations, iterations: 7, start: together, think_time: {lognormal: {median: "
            "1s, p99: 3s}}",
            PerVuIterations(
                vus=1, iterations=7, start="together", think_time=ThinkTime(lognormal_ns=(S, 3 * S))
            ),
        ),
        ("executor: '${how}', vus: 2, iterations: 9", PerVuIterations(vus=2, iterations=9)),
        ("executor: constant-vus, vus: 2, pacing: 0.5s", ConstantVus(vus=2, pacing_ns=S // 2)),
    ],
)
def test_executors(study: Made, written: str, executor: object) -> None:
    assert study(f"{{{written}, request: page}}").executor == executor


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("executor: ramping-vus, stages: []", "at least one entry"),
        ("executor: ramping-vus", "stages"),
        ("executor: ramping-vus, stages: [{duration: 61s, target: 3}]", "longer than measure.duration"),
        (
            "executor: ramping-vus, stages: [{duration: 50s, target: 3}], hold_for: 11s",
            "longer than measure.duration",
        ),
        ("executor: ramping-vus, stages: [{duration: 0s, target: 3}]", "longer than 0s"),
        ("executor: ramping-vus, stages: [{duration: 5s, target: 0}]", "above 0"),
        ("executor: ramping-vus, stages: [{duration: 5s, target: 2.5}]", "stages"),
        ("executor: ramping-vus, stages: [{length: 5s, target: 2}]", "length"),
        ("executor: ramping-vus, ramp_up: 3s, stages: [{duration: 5s, target: 2}]", "ramp_up"),
        ("executor: ramping-vus, generators: 3, stages: [{duration: 5s, target: 2}]", "only 2 VUs"),
        ("executor: ramping-arrival-rate, stages: [{duration: 5s, target: -2/s}]", "negative"),
        ("executor: ramping-arrival-rate, stages: [{duration: 5s, target: 0}]", "above 0"),
        ("executor: shared-iterations, vus: 3", "iterations"),
        ("executor: shared-iterations, vus: 3, iterations: 2", "iterations ≥ vus"),
        ("executor: per-vu-iterations, vus: 3, iterations: 0", "at least 1"),
        ("executor: per-vu-iteration, vus: 3, iterations: 5", "per-vu-iterations"),
        ("executor: constant-vus, vus: 3, think_time: {lognormal: {median: 2s, p99: 1s}}", "p99"),
        ("executor: constant-vus, vus: 3, pacing: -1s", "negative"),
    ],
)
def test_slips_in_executors(study: Made, written: str, told: str) -> None:
    with pytest.raises(SvloadError) as wrong:
        study(f"{{{written}, request: page}}")
    assert told in str(wrong.value)


def test_graceful_stop(study: Made) -> None:
    assert study().graceful_stop_ns is None
    assert study("{executor: constant-vus, vus: 1, graceful_stop: 0s, request: page}").graceful_stop_ns == 0


@pytest.mark.parametrize(
    ("written", "body"),
    [
        ("body: hello", Body(text=(Text(text="hello"),))),
        (
            "body: {text: 'id=${request.id}&path=${thing.path}'}",
            Body(
                text=(
                    Text(text="id="),
                    VarPart(var="request.id"),
                    Text(text="&path="),
                    FeederPart(feeder="thing", column="path"),
                )
            ),
        ),
        ("body: {random: 500 MB}, expect_continue: true", Body(random=SizeLaw(constant=500_000_000))),
        (
            "body: {random: {lognormal: {median: 1 KiB, p99: 1 MiB}}}",
            Body(random=SizeLaw(lognormal=(1024, 1 << 20))),
        ),
        ("body: {random: {uniform: [1 kB, 2 kB]}}", Body(random=SizeLaw(uniform=(1000, 2000)))),
    ],
)
def test_bodies(study: Made, written: str, body: Body) -> None:
    for method in ("post", "put", "patch"):
        request = study(request=f"{{{method}: http://web/, {written}}}").request
        assert (request.method, request.body) == (method.upper(), body)
        assert request.expect_continue == ("expect" in written)


def test_a_file_beside_the_study_is_a_body(study: Made, folder: Path) -> None:
    (folder / "load.bin").write_bytes(b"x" * 9)
    body = study(request="{put: http://web/, body: {file: load.bin}}").request.body
    assert body.file == str((folder / "load.bin").absolute())


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("get: http://web/, body: x", "not to get"),
        ("put: http://web/, body: {random: 0}", "above 0"),
        ("put: http://web/, body: {text: a, random: 1 KiB}", "one of text, random, file"),
        ("put: http://web/, body: {file: nowhere.bin}", "inside the study's folder"),
        ("put: http://web/, body: {file: ../study.yaml}", "inside the study's folder"),
        ("put: http://web/, body: x, expect_continue: true", "random or file"),
        ("put: http://web/, body: {random: 1 KiB}, headers: {Content-Length: 3}", "follows from the body"),
        ("put: http://web/, body: 'id=${thing.colour}'", "colour"),
    ],
)
def test_slips_in_bodies(study: Made, written: str, told: str) -> None:
    with pytest.raises(SvloadError) as wrong:
        study(request=f"{{{written}}}")
    assert told in str(wrong.value)


WAVE = "{executor: ramping-vus, stages: [{duration: 1s, target: 9}, {duration: 1s, target: 9}, {duration: 1s, target: 0}], request: page}"


@pytest.mark.parametrize(
    ("section", "that", "group", "told"),
    [
        ("thresholds", "response.p95 < 1 s at 9 users", WAVE, ""),
        ("thresholds", "p(95)<1000 at 9 users", WAVE, ""),
        ("thresholds", "response.p95 < 1 s at 8 users", WAVE, "g does not stay at 8 users, only at 9 users"),
        ("thresholds", "response.p95 < 1 s at noon", WAVE, "“noon” is not a level"),
        ("thresholds", "web.cpu < 1 at 9 users", WAVE, "only what the load saw is known for each level"),
        ("thresholds", "failed == 0 at 9 users", WAVE, "failed is of the whole trial"),
        ("thresholds", "response.p95 < 1 s at 4 users", "{executor: constant-vus, vus: 4, request: page}", "g has no stage that stays at one level"),
        ("abort_if", "response.p95 > 2 s at 9 users", WAVE, "only a threshold can be about one level"),
    ],
)  # fmt: skip
def test_a_threshold_names_a_level_at_which_the_load_stays(
    folder: Path, section: str, that: str, group: str, told: str
) -> None:
    text = STUDY.format(request=GET, group=group) + f"{section}: ['{that}']\n"
    (folder / "study.yaml").write_text(text)
    try:
        load_study(folder)
        said = ""
    except SvloadError as why:
        said = str(why)
    assert told in said
    assert bool(told) == bool(said)
