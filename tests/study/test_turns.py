"""`order: turns`: what a study may not ask for beside it, which cases are sides of one set, and the order of blocks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from svload.analysis.contrasts import contrasts_of
from svload.model.errors import SvloadError
from svload.model.study import Lock
from svload.study import first_batch, load_study, resolve
from svload.study.order import sets_of_turns

STUDY = """\
name: sides
lab:
  web: {kit: stone, workers: "${build.workers}"}
factors:
  build: {old: {workers: 1}, new: {workers: 2}}
  path: [a, b]
before_trial:
  - {reset: [web]}
traffic:
  users: {executor: constant-vus, vus: 4, request: "GET http://web/${path}"}
measure: {duration: 5s, replicates: 3, order: turns}
compare:
  - {factor: build, baseline: old, metric: users.response.p50}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("before_trial:", "faults:\n  - {at: 1s, stop: web}\nbefore_trial:", "faults:", "a fault would meet"),
        ("{reset: [web]}", "{drop_cache: [web]}", "drop_cache", "the same page cache"),
        ("before_trial:", "profile: web\nbefore_trial:", "profile:", "slow its side alone"),
        ("path: [a, b]", "path: [a, b]\n  rate: {open: [1, 9]}", "open:", "the machine alone"),
        ("replicates: 3", "replicates: 3, bring_ups: 2", "bring_ups", "brings the servers up anyway"),
        (
            "traffic:",
            "traffic:\n  more: {executor: constant-vus, vus: 1, ramp_up: 1s, start_when: users.ramped, "
            'request: "GET http://web/"}',
            "start_when",
            "runs all the time",
        ),
        ("vus: 4,", "vus: 4, record: histogram,", "record:", "a histogram keeps none"),
        ("constant-vus, vus: 4", "shared-iterations, vus: 4, iterations: 9", "vus:", "stays the same"),
        (
            "constant-vus, vus: 4",
            "ramping-vus, start_vus: 1, stages: [{duration: 5s, target: 4}]",
            "stages:",
            "stays the same",
        ),
        ("compare:\n  - {factor: build, baseline: old, metric: users.response.p50}\n", "", "order:", "compares nothing"),
        (
            "users.response.p50}",
            "users.response.p50}\n  - {factor: path, baseline: a, metric: users.response.p50}",
            "factor: path",
            "build is compared already",
        ),
        ("metric: users.response.p50", "metric: web.cpu.mean", "metric:", "moments of its own"),
        ("{kit: stone,", "{kit: stone, port: 8080,", "port:", "only one of them can have this port"),
        ("{kit: stone,", "{kit: stone, on: servers,", "on:", "turns on one machine"),
        ("lab:", 'sysctl: {fs.file-max: "${build.workers}"}\nlab:', "sysctl:", "the machine has this setting once"),
    ],
)  # fmt: skip
def test_what_turns_cannot_do_is_told_at_its_line(
    tmp_path: Path, old: str, new: str, line: str, says: str
) -> None:
    assert STUDY.count(old) == 1
    text = STUDY.replace(old, new)
    (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SvloadError) as caught:
        load_study(tmp_path)
    (found,) = caught.value.problems
    assert says in str(found)
    assert "\n" not in str(found)
    assert line in text.splitlines()[int(found.place.rpartition(":")[2]) - 1]


def test_sides_that_differ_in_the_load_itself_are_told(tmp_path: Path) -> None:
    text = STUDY.replace("vus: 4", 'vus: "${build.workers}"')
    (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SvloadError) as caught:
        load_study(tmp_path)
    (found,) = caught.value.problems
    assert "differ in the load itself" in str(found)


def test_the_same_study_without_turns_may_ask_for_all_of_that(load: Callable[..., Lock]) -> None:
    text = STUDY.replace(", order: turns", "").replace("vus: 4,", "vus: 4, record: histogram,")
    assert load(text.replace("{reset: [web]}", "{drop_cache: [web]}")).measure.order == "randomised-blocks"


def test_the_sides_of_a_set_differ_in_the_compared_factor_alone(load: Callable[..., Lock]) -> None:
    lock = load(STUDY)
    batch = first_batch(lock)
    for block in (1, 2, 3):
        trials = [trial for trial in batch.trials if trial.block == block]
        sets = sets_of_turns(lock, trials)
        assert [[lock.case(one.case).levels["build"] for one in of_set] for of_set in sets] == [
            ["old", "new"]
        ] * 2
        assert sorted(lock.case(of_set[0].case).levels["path"] for of_set in sets) == ["a", "b"]
        assert [{one.whole_plot for one in of_set} for of_set in sets] == [
            {2 * block - 2},
            {2 * block - 1},
        ]
    assert [trial.restart for trial in batch.trials] == [False, False, *[True, False] * 5]
    assert "in turns" in batch.because


def test_servers_that_svload_does_not_start_are_not_brought_up_again(load: Callable[..., Lock]) -> None:
    text = STUDY.replace("{kit: stone, workers: ", '{at: "http://127.0.0.1:80').replace(
        ': "http://127.0.0.1:80"${build.workers}"', ': "http://127.0.0.1:80${build.workers}"'
    )
    text = text.replace("before_trial:\n  - {reset: [web]}\n", "")
    batch = first_batch(load(text))
    assert {(trial.restart, trial.whole_plot) for trial in batch.trials} == {(False, 0)}


def test_every_group_records_rows(load: Callable[..., Lock]) -> None:
    lock, without = load(STUDY), load(STUDY.replace(", order: turns", ""))
    for study, rows in ((lock, True), (without, False)):
        assert {group.keeps_rows for group in resolve(study, study.cases[0]).groups} == {rows}


def test_a_control_is_one_more_side_of_each_set(load: Callable[..., Lock]) -> None:
    lock = load(STUDY.replace("order: turns", "order: turns, control: true"))
    sets = sets_of_turns(lock, [trial for trial in first_batch(lock).trials if trial.block == 1])
    assert [[lock.case(one.case).levels["build"] for one in of_set] for of_set in sets] == [
        ["old", "new", "old-again"]
    ] * 2
    workers = {
        case.levels["build"]: resolve(lock, case).services[0].options["workers"] for case in lock.cases
    }
    assert workers == {"old": 1, "new": 2, "old-again": 1}
    assert [one.treatment for one in contrasts_of(lock)] == ["new"]
    assert {cell for one in contrasts_of(lock) for cell in one.control} == {
        (f"build-old_path-{path}", f"build-old-again_path-{path}") for path in "ab"
    }
    assert lock.comparisons[0].name == "build: new against old"


def test_a_level_with_the_name_of_the_control_is_told(tmp_path: Path) -> None:
    text = STUDY.replace("order: turns", "order: turns, control: true").replace("new", "old-again")
    (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SvloadError, match="the control is named old-again, and so is a level"):
        load_study(tmp_path)


def test_a_control_without_turns_is_told(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace("order: turns", "control: true"), encoding="utf-8")
    with pytest.raises(SvloadError, match=r"a control is one more side"):
        load_study(tmp_path)
