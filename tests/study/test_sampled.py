"""`profile: SERVICE`: whose stacks are sampled, and what of it the plan refuses, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.lab import find_mistakes, kit_options
from svload.model.errors import SvloadError
from svload.study import load_study, resolve

STUDY = """\
name: sampled
lab:
  files: {run: "./serve ${port}"}
  store: {kit: truth, role: store}
  vm: {kit: machine, cpus: 2}
  far: {at: "http://127.0.0.1:9"}
factors: {whose: [files, store]}
profile: WHOSE
traffic: {users: {executor: constant-vus, vus: 1, request: GET http://files/}}
measure: {duration: 5s}
profiles:
  without: {profile: null}
  other: {profile: store}
"""


def profiles(folder: Path, whose: str, profile: str | None = None) -> list[str]:
    (folder / "study.yaml").write_text(STUDY.replace("WHOSE", whose))
    lock = load_study(folder, profile=profile, kits=kit_options(), check_lab=find_mistakes)
    return [resolve(lock, case).profile for case in lock.valid_cases]


def test_the_service_that_is_named_is_sampled(tmp_path: Path) -> None:
    assert profiles(tmp_path, "files") == ["files", "files"]


def test_a_level_may_say_whose_and_a_variant_of_the_study_may_leave_it_out(tmp_path: Path) -> None:
    assert profiles(tmp_path, "${whose}") == ["files", "store"]
    assert profiles(tmp_path, "files", "without") == ["", ""]
    assert profiles(tmp_path, "files", "other") == ["store", "store"]


@pytest.mark.parametrize(
    ("whose", "told"),
    [
        ("file", "no such service under lab: “file”. Did you mean “files”?"),
        ("far", "far runs already, and svload does not know its processes"),
        ("vm", "vm is a machine: it has no processes of its own"),
        ("{demo: {measure: {duration: 1s}}}", "expected a text"),
    ],
)
def test_what_cannot_be_sampled_is_told_with_its_line(tmp_path: Path, whose: str, told: str) -> None:
    with pytest.raises(SvloadError) as why:
        profiles(tmp_path, whose)
    (problem,) = why.value.problems
    assert told in str(problem)
    assert problem.place.endswith("study.yaml:8")
