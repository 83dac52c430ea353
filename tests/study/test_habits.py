"""What users of other load testers write by habit is answered with the form that a study has, at its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from svload.model.errors import Problem, SvloadError
from svload.model.study import Lock
from svload.study import load_study

STUDY = """\
name: habits
lab: {{api: {{at: "http://127.0.0.1:8080"}}}}
factors: {{build: [a, b]}}
requests: {{one: GET http://api/a, two: GET http://api/b}}
scenarios:
  buy: {scenario}
traffic:
  users: {group}
  others: {{executor: constant-vus, vus: 1, scenario: buy}}
measure: {{duration: 60s}}
compare:
  - {{factor: build, baseline: a, metric: response.p50, fail_if: {gate}}}
"""
SOUND = {
    "scenario": "[{request: one, think_time: 1s}, two]",
    "group": "{executor: constant-vus, vus: 4, request: one}",
    "gate": "worse by more than 5 %",
}
LINES = {"scenario": 6, "group": 8, "gate": 12}
ALL = "constant-vus, ramping-vus, shared-iterations, per-vu-iterations, constant-arrival-rate, ramping-arrival-rate"
STAGES = "With stages write executor: ramping-vus, whose targets are users ({duration: 30s, target: 100}), or ramping-arrival-rate, whose targets are rates"  # fmt: skip


def problems_of(folder: Path, text: str) -> tuple[Problem, ...]:
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SvloadError) as told:
        load_study(folder)
    return told.value.problems


@pytest.mark.parametrize(
    ("part", "written", "says"),
    [
        ("group", "{stages: [{duration: 30s, target: 20}], request: one}", f"traffic.users needs “executor”. {STAGES}"),
        ("group", "{stages: [{duration: 30s, target: 50/s}], request: one}", STAGES),
        ("group", "{executor: constant-vus, stages: [{duration: 30s, target: 20}], request: one}", f"Unknown key “stages” in traffic.users. {STAGES}"),
        ("group", "{executor: constant-vus, vus: 4, stages: [{duration: 30s, target: 20}], request: one}", STAGES),
        ("group", "{vus: 4, request: one}", f"needs “executor”. Write executor: constant-vus, or another one of {ALL}."),
        ("group", "{rate: 5/s, request: one}", "Write executor: constant-arrival-rate, or another one of"),
        ("group", "{request: one}", f"traffic.users needs “executor”. Write one of {ALL}."),
        ("group", "{executor: constant-arrival-rate, rate: 5/s, sleep: 1s, request: one}", "Unknown key “sleep” in traffic.users. “think_time” goes with executor: constant-vus or ramping-vus or"),
        ("group", "{executor: constant-vus, rate: 5/s, request: one}", "“rate” goes with executor: constant-arrival-rate."),
        ("group", "{executor: constant-arrival-rate, rate: 5/s, timeUnit: 1s, request: one}", "Write it with the rate: rate: 50/s"),
        ("group", "{executor: constant-vus, vus: 4, duration: 30s, request: one}", "How long is measured stands at the top: measure: {duration: 30s}."),
        ("group", "{executor: constant-vus, vus: 4, request: one, sleep: 1s}", "Unknown key “sleep” in traffic.users. Did you mean “think_time”?"),
        ("group", "{executor: ramping-vus, startVUs: 4, stages: [{duration: 30s, target: 20}], request: one}", "Did you mean “start_vus”?"),
        ("group", "{executor: constant-vus, vus: 4}", "traffic.users.request: expected one of request, scenario, mix, found nothing. Write request: GET http://service/path."),
        ("scenario", "[one, {sleep: 1s}, two]", "scenarios.buy[1]: a pause is not a step; use the step's think_time, found {sleep: 1s}. Write the pause at the step before it: {request: NAME, think_time: 2s}."),
        ("scenario", "[one, sleep 1s, two]", "a pause is not a step"),
        ("scenario", "[one, {think_time: 1s}, two]", "a pause is not a step"),
        ("scenario", "[{request: one, sleep: 1s}, two]", "Did you mean “think_time”?"),
        ("gate", "worse than 10%", "compare[0].fail_if: expected worse, better or different by more than so many percent, found worse than 10%. Write worse by more than 10 %."),
        ("gate", "slower", "Write worse by more than 5 %."),
        ("gate", "different by 2.5 %", "Write different by more than 2.5 %."),
        ("gate", f"worse by {'9' * 5000} %", "Write worse by more than 5 %."),
    ],
)  # fmt: skip
def test_the_message_says_the_form(folder: Path, part: str, written: str, says: str) -> None:
    (problem,) = problems_of(folder, STUDY.format(**SOUND | {part: written}))
    assert problem.place == f"{folder / 'study.yaml'}:{LINES[part]}"
    assert says in str(problem)


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ("group", "{executor: ramping-vus, stages: [{duration: 30s, target: 20}], request: one}"),
        ("group", "{executor: ramping-arrival-rate, stages: [{duration: 30s, target: 20/s}], request: one}"),
        ("group", "{executor: constant-vus, vus: 4, think_time: 1s, scenario: buy}"),
        ("scenario", "[{request: one, think_time: 1s}, GET http://api/sleep]"),
        ("gate", "different by more than 2.5%"),
    ],
)
def test_the_forms_are_sound(load: Callable[..., Lock], part: str, written: str) -> None:
    assert len(load(STUDY.format(**SOUND | {part: written})).cases) == 2
