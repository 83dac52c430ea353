"""The plan says which thresholds no run could judge, since their load comes in stages; and nothing of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload import api

STUDY = """\
name: stages
lab: {api: {at: "http://127.0.0.1:9"}}
factors: {users: [1, 8]}
traffic:
  wave:
    when: {users: 8}
    executor: ramping-vus
    stages: [{duration: 1s, target: 8}]
    request: GET http://api/
  flat: {executor: constant-vus, vus: "${users}", request: GET http://api/}
measure: {duration: 1s, replicates: 1}
thresholds:
  - flat.response.p95 < 200 ms
  - %s
"""


def cautions(folder: Path, threshold: str) -> list[str]:
    (folder / "study.yaml").write_text(STUDY % threshold)
    told: list[str] = api.plan(str(folder), api.Choices(out=folder / "runs"))["cautions"]
    return told


@pytest.mark.parametrize(
    ("criterion", "number"),
    [
        ("wave.response.p95 < 200 ms", "response.p95"),
        ("wave.response < 200 ms", "response.p50"),
        ("wave.service.mean < 200 ms", "service.mean"),
        ("wave.throughput > 5/s", "throughput"),
        ("wave.goodput(200 ms) > 5/s", "goodput(200 ms)"),
    ],
)
def test_a_number_of_the_whole_is_told_with_its_line(folder: Path, criterion: str, number: str) -> None:
    [told] = cautions(folder, f"{{when: {{users: 8}}, that: {criterion}}}")
    assert told.startswith(
        f"{folder / 'study.yaml'}:14: “{criterion}” can't be judged in case-1: the load of wave comes in stages"
    )
    assert f"there is no {number} of the whole" in told
    assert "wave.response.max, success_rate or error_rate" in told


@pytest.mark.parametrize(
    "criterion",
    [
        "wave.response.max < 2 s",
        "wave.success_rate >= 99 %",
        "wave.error_rate < 1 %",
        "wave.failed == 0",
        "flat.response.p99 < 2 s",
        "flat.throughput > 1/s",
        "errors < 1 %",
    ],
)
def test_what_stages_have_is_no_matter(folder: Path, criterion: str) -> None:
    assert cautions(folder, f"{{when: {{users: 8}}, that: {criterion}}}") == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
