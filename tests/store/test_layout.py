from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support import make_run

from svload.model.errors import SvloadError
from svload.model.plan import Batch, TrialPlan
from svload.model.study import Case, Lock, Measure
from svload.store import write_artefact
from svload.store.find import find_run, last_run, unfinished_runs
from svload.store.layout import RunDir, folder_name


@given(st.text(min_size=1), st.text(min_size=1))
@example("../../etc", "..")
@example("a/b", "a%2Fb")
@example("x" * 300, "x" * 301)
@example(".", "%2E")
def test_a_name_is_one_safe_component_and_stays_itself(one: str, other: str) -> None:
    name = folder_name(one)
    assert name not in ("", ".", "..")
    assert "/" not in name
    assert "\0" not in name
    assert not name.startswith(".")
    assert len(name.encode()) <= 255
    assert (folder_name(other) == name) == (one == other)


def test_plain_names_stay_readable() -> None:
    assert folder_name("TC7.r3") == "TC7.r3"
    assert folder_name("größe-1") == "größe-1"


def test_runs_are_numbered_in_order(tmp_path: Path) -> None:
    names = [RunDir.create(tmp_path, "svload", "demo").name for _ in range(3)]
    assert names == ["svload-demo-1", "svload-demo-2", "svload-demo-3"]
    assert RunDir.create(tmp_path, "svload").name == "svload-1"
    (tmp_path / "svload-demo-11").mkdir()
    assert RunDir.create(tmp_path, "svload", "demo").name == "svload-demo-12"


def test_two_that_create_at_once_get_two_runs(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: RunDir.create(tmp_path, "s", "p"), range(24)))
    assert len({run.path for run in runs}) == 24


def test_latest_moves_and_is_found(tmp_path: Path) -> None:
    runs = [RunDir.create(tmp_path, "s", None) for _ in range(2)]
    for run in runs:
        run.lock_path.write_text("{}")
        run.make_latest()
        assert find_run("latest", tmp_path).path == run.path.resolve()
    assert (tmp_path / "latest").readlink() == Path(runs[1].name)
    assert find_run(runs[0].name, tmp_path).path == runs[0].path.resolve()
    assert find_run(str(runs[0].path), Path("/nowhere")).path == runs[0].path.resolve()


@pytest.mark.parametrize("text", ["latest", "nothing", "../nothing"])
def test_no_run_is_reported(tmp_path: Path, text: str) -> None:
    with pytest.raises(SvloadError, match=r"\[run-not-found\]"):
        find_run(text, tmp_path)


def test_attempts_are_numbered_and_keep_their_trial(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "s", None)
    for number in (1, 2):
        assert run.next_attempt("a/b.r1") == number
        run.attempt("a/b.r1", number).path.mkdir()
    run.attempt("a/b.r11", 7).path.mkdir()
    assert run.next_attempt("a/b.r1") == 3
    assert [attempt.name for attempt in run.kept_attempts()] == ["a/b.r1", "a/b.r1", "a/b.r11"]


def finished(parent: Path, study: str, profile: str | None, sealed: bool = True) -> RunDir:
    run = RunDir.create(parent, study, profile)
    nothing = {"svload_version": "0", "study_sha256": "", "study_dir": ".", "factors": (), "source": {}}
    case, measure = Case(name="TC0", levels={}), Measure(duration_ns=1, replicates=1)
    lock = Lock(name=study, profile=profile, seed=1, cases=(case,), measure=measure, **nothing)
    write_artefact(run.lock_path, lock)
    trial = TrialPlan(trial="TC0.r1", case="TC0", replicate=1, block=1, position=0, seed=1)
    write_artefact(run.batch_path(0), Batch(number=0, because="a test", trials=(trial,)))
    run.trial("TC0.r1").path.mkdir()
    if sealed:
        run.trial("TC0.r1").seal.write_text("{}")
    return run


def test_the_last_run_is_the_newest_finished_one_of_its_study_and_profile(tmp_path: Path) -> None:
    assert last_run(tmp_path / "none", "s", "demo") is None
    runs = [finished(tmp_path, "s", "demo") for _ in range(11)]
    finished(tmp_path, "s", "demo", sealed=False)
    finished(tmp_path, "s", "real")
    (tmp_path / "s-demo-13").mkdir()
    found = last_run(tmp_path, "s", "demo")
    assert found.path == runs[-1].path
    assert last_run(tmp_path, "s", "paper") is None
    other = finished(tmp_path, "s-demo", None)
    assert other.name == "s-demo-14"
    assert last_run(tmp_path, "s", "demo") == found, "the study named so is another one"


@pytest.mark.parametrize("place", ["trials", "trials/TC0.r1", "trials/TC0.r1/events.jsonl", "derived/more"])
def test_a_run_that_reaches_out_of_its_folder_is_no_run(tmp_path: Path, place: str) -> None:
    """Files set aside or written through a link would be somebody else's: `trials` once led to /etc."""
    run = make_run(tmp_path / "runs", cases=1, replicates=1, faults={"*": "unsealed"})
    assert find_run(str(run.path), tmp_path).path == run.path.resolve()
    assert [found.path for found in unfinished_runs(tmp_path / "runs")] == [run.path.resolve()]
    (tmp_path / "elsewhere").mkdir()
    link = run.path / place
    if link.exists():
        link.rename(tmp_path / "moved")
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SvloadError) as why:
        find_run(str(run.path), tmp_path)
    assert why.value.problems[0].code == "run-linked"
    assert str(link) in str(why.value)
    assert unfinished_runs(tmp_path / "runs") == []


def test_what_no_plan_names_is_not_set_aside(tmp_path: Path) -> None:
    run = make_run(tmp_path, cases=2, replicates=1, faults={"TC0.r1": "unsealed"})
    (run.trials / "somebody's").mkdir()
    assert run.unsealed_trials() == ("TC0.r1",)
