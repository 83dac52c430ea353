"""What is wrong in a case is told beside what is wrong in the text, and no mistake is told for another one's sake."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.study import load_study

SOUND = {
    "at": "http://127.0.0.1:1",
    "limit": "200 ms",
    "stages": "[{duration: 30s, target: 8}]",
    "group": "{executor: constant-vus, vus: 4, request: GET http://api/}",
    "duration": "60s",
    "fault": "{at: 1s, pause: own, for: 1s}",
    "criterion": "errors < 1 %",
    "gate": "worse by more than 5 %",
}
STUDY = """\
name: at-once
lab:
  api: {{at: "{at}"}}
  own: {{run: "./server ${{port}}"}}
factors:
  page: {{small: {{within: {limit}}}, large: {{within: 1 s}}}}
traffic:
  wave: {{executor: ramping-vus, stages: {stages}, request: GET http://own/}}
  users: {group}
measure: {{duration: {duration}}}
faults: [{fault}]
thresholds:
  - "users.response.p95 < ${{page.within}}"
  - {criterion}
compare:
  - {{factor: page, baseline: small, metric: users.response.p50, fail_if: {gate}}}
"""


def lines_of(folder: Path, text: str) -> list[int]:
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SvloadError) as told:
        load_study(folder)
    return [int(problem.place.rpartition(":")[2]) for problem in told.value.problems]


WRONG = {
    "a reference's value, known in its case": ("limit", "2 parsec", [13]),
    "a scheme that the server does not speak": ("at", "https://127.0.0.1:1", [9]),
    "a field, and what no field tells": ("group", "{executor: constant-vus, vus: four}", [9, 9]),
    "a missing executor, and a field": ("group", "{vus: 4, think_time: 5, request: GET http://api/}", [9, 9]),
    "a time without a unit": ("duration", "60", [10]),
    "a fault of no service": ("fault", "{at: 1s, pause: owm}", [11]),
    "a criterion in k6's words": ("criterion", "iteration_duration: p(95)<5", [14]),
    "a gate": ("gate", "worse than 5", [16]),
    "stages without a unit": ("stages", "[{duration: 30, target: 8}]", [8]),
}


def test_it_is_sound(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.format(**SOUND))
    assert len(load_study(tmp_path).cases) == 2


@pytest.mark.parametrize("name", WRONG)
def test_each_alone(tmp_path: Path, name: str) -> None:
    part, written, lines = WRONG[name]
    assert lines_of(tmp_path, STUDY.format(**SOUND | {part: written})) == lines


@pytest.mark.parametrize("first", WRONG)
@pytest.mark.parametrize("second", WRONG)
def test_any_two_together(tmp_path: Path, first: str, second: str) -> None:
    (one, text, lines), (other, text_too, lines_too) = WRONG[first], WRONG[second]
    if one == other:
        return
    expected = [*lines, *lines_too]
    if {"at", "group"} == {one, other}:
        expected.remove(9)  # the group that asks by the wrong scheme is broken itself
    told = lines_of(tmp_path, STUDY.format(**SOUND | {one: text, other: text_too}))
    assert told == sorted(expected)


def test_all_together(tmp_path: Path) -> None:
    whole = {part: written for part, written, _ in WRONG.values()} | {"at": SOUND["at"]}
    told = lines_of(tmp_path, STUDY.format(**whole))
    assert told == [8, 9, 9, 10, 11, 13, 14, 16]


def test_a_broken_measured_time_makes_no_stages_too_long(tmp_path: Path) -> None:
    for duration in ("60", "sixty seconds"):
        assert lines_of(tmp_path, STUDY.format(**SOUND | {"duration": duration})) == [10]
    assert lines_of(tmp_path, STUDY.format(**SOUND | {"duration": "20s"})) == [8]
