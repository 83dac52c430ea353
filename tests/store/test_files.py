"""The files of a run: journal, tables, seals, folders; damaged ones are reported, and reading never blocks."""

from __future__ import annotations

import os
import shutil
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.evolve import evolve
from tests.support import make_run

from svload.model.errors import SvloadError
from svload.model.events import Event
from svload.model.seals import Seal
from svload.model.study import Lock
from svload.store.find import find_run, last_run, unfinished_runs
from svload.store.journal import Journal, read_events
from svload.store.layout import RunDir, TrialDir, folder_name
from svload.store.raw import read_tables, write_tables
from svload.store.seal import seal_trial, verify_trial, write_text


def test_what_was_written_is_read_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "events.jsonl")
    for number in range(3):
        journal.write(Event("notice", {"text": f"{number} ü\n"}), sync=number == 2)
        assert [event.data["text"] for event in read_events(journal.path).events][-1] == f"{number} ü\n"
    journal.close()
    assert read_events(journal.path).dropped == ()


def test_a_line_torn_anywhere_is_dropped_and_reported_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path) as journal:
        journal.write(Event("notice", {"text": "first"}))
        journal.write(Event("notice", {"text": "second"}))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(first + 1, len(whole) - 1):
        path.write_bytes(whole[:length])
        torn = read_events(path)
        assert [event.data["text"] for event in torn.events] == ["first"]
        assert len(torn.dropped) == 1
        assert "torn last line" in torn.dropped[0]
        with Journal(path) as journal:
            journal.write(Event("notice", {"text": "third"}))
        again = read_events(path)
        assert [event.data["text"] for event in again.events] == ["first", "third"]
        assert len(again.dropped) == 1


@pytest.mark.parametrize("fits", [1, 60])
def test_a_line_after_one_that_a_full_disk_cut_is_whole(tmp_path: Path, fits: int) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path) as journal:
        whole = journal._file

        class Full:
            def write(self, data: bytes) -> int:
                whole.write(data[:fits])
                raise OSError(28, "No space left on device")

        journal._file = Full()
        with pytest.raises(OSError, match="No space") as caught:
            journal.write(Event("notice", {"text": "cut"}))
        assert caught.value.filename == str(path)
        journal._file = whole
        journal.write(Event("run-ended", {"text": "last"}))
    read = read_events(path)
    assert [event.text("text") for event in read.events] == ["last"]
    assert (len(read.dropped), read.damaged) == (1, ())


@pytest.mark.parametrize(
    "line", ["5", "[]", "null", '{"kind":"notice"}', '{"kind":1,"data":{},"wall":1,"monotonic_ns":1}',
             '{"kind":"trial-sealed","data":7,"wall":1.0,"monotonic_ns":1}', '{"kind":"notice","data":{},"wall":"x","monotonic_ns":1}',
             "[" * 100_000, '{"kind":"notice","data":' + '{"a":' * 100_000]
)  # fmt: skip
def test_json_that_is_no_event_is_a_damaged_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path) as journal:
        journal.write(Event("notice", {"text": "first"}))
    path.write_bytes(path.read_bytes() + line.encode() + b"\n")
    read = read_events(path)
    assert [event.text("text") for event in read.events] == ["first"]
    assert read.dropped == (f"events.jsonl:2: a damaged line was dropped ({len(line)} bytes)",)


NUMBERS = {"a": ("u64", array("Q", [1, 2**64 - 1]).tobytes()), "b": ("u16", array("H", [7, 65535]).tobytes())}


@given(rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text())))
def test_what_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]]) -> None:
    path = tmp_path_factory.mktemp("raw") / "t.raw"
    table = {"n": ("i64", array("q", [n for n, _ in rows]).tobytes()), "s": ("utf8", [s for _, s in rows])}
    write_tables(path, {"one": table, "two": NUMBERS, "none": {}})
    assert read_tables(path) == {"one": table, "two": NUMBERS, "none": {}}


@pytest.mark.parametrize(
    "table",
    [{"a": ("u64", b"1234567")}, {"a": ("u64", bytes(8)), "b": ("u8", bytes(2))}, {"a": ("u128", bytes(16))}],
)
def test_a_torn_table_is_not_written(tmp_path: Path, table: dict[str, tuple[str, bytes]]) -> None:
    with pytest.raises(ValueError, match="a"):
        write_tables(tmp_path / "t", {"x": table})
    assert list(tmp_path.iterdir()) == []


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_tables(path, {"x": NUMBERS})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(SvloadError, match=r"\[run-damaged\]"):
            read_tables(path)


def test_a_newer_format_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_tables(path, {})
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":9'))
    with pytest.raises(SvloadError, match=r"\[format-newer\]"):
        read_tables(path)


@pytest.mark.parametrize("part", ["header", "cells"])
def test_what_is_nested_beyond_all_sense_is_damage(tmp_path: Path, part: str) -> None:
    path = tmp_path / "t"
    deep = b"[" * 100_000
    write_tables(path, {"x": {"s": ("utf8", ["a" * len(deep)])}})
    whole = path.read_bytes()
    if part == "header":
        path.write_bytes(deep + b"\n" + whole)
    else:
        at = whole.index(b"aaaa")
        path.write_bytes(whole[: at - 2] + deep + whole[at - 2 + len(deep) :])
    with pytest.raises(SvloadError, match=r"\[run-damaged\]"):
        read_tables(path)


def seal(trial: Path) -> Seal:
    return seal_trial(
        TrialDir(trial, trial.name), case="TC1", replicate=2, block=1, attempt=1, facts={"shares": 1}
    )


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    trial = tmp_path / "TC1.r2"
    (trial / "deep").mkdir(parents=True)
    (trial / "events.jsonl").write_text("{}\n")
    (trial / "summary.json").write_text("summary")
    (trial / "deep" / "x").write_bytes(os.urandom(70_000))
    made = seal(trial)
    assert set(made.files) == {"events.jsonl", "summary.json", "deep/x"}
    assert Seal.read(trial / "seal.json") == made
    return trial


def test_every_flipped_byte_is_found(sealed: Path) -> None:
    for name in ("events.jsonl", "summary.json"):
        whole = (sealed / name).read_bytes()
        for at in range(len(whole)):
            (sealed / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert [problem.details["path"] for problem in verify_trial(sealed)] == [sealed / name]
        (sealed / name).write_bytes(whole)
    assert verify_trial(sealed) == []


def test_missing_added_and_linked_files_are_found(sealed: Path) -> None:
    shutil.copytree(sealed, sealed.parent / "copy")
    (sealed / "deep" / "x").unlink()
    (sealed / "new").write_text("")
    (sealed / "events.jsonl").unlink()
    (sealed / "events.jsonl").symlink_to(sealed.parent / "copy" / "events.jsonl")
    (sealed / "away").symlink_to(sealed.parent / "copy")
    reasons = {problem.details["path"].name: problem.details["reason"] for problem in verify_trial(sealed)}
    assert reasons == {
        "x": "it was sealed and is missing",
        "new": "it was added after the trial was sealed",
        "away": "it was added after the trial was sealed",
        "events.jsonl": "it is a link instead of the sealed file",
    }


@pytest.mark.parametrize("text", ["", "{", "{}", '{"format": 99}', "\x00"])
def test_a_damaged_or_missing_seal_is_found_and_a_second_refused(sealed: Path, text: str) -> None:
    with pytest.raises(FileExistsError):
        seal(sealed)
    (sealed / "seal.json").write_text(text)
    assert verify_trial(sealed)
    (sealed / "seal.json").unlink()
    assert [problem.details["reason"] for problem in verify_trial(sealed)] == ["it has no seal"]


def test_the_seal_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of writes to the disk guarantees that a cut at any point leaves either no seal or a whole
    trial."""
    trial = tmp_path / "t"
    trial.mkdir()
    for name in ("a", "b"):
        (trial / name).write_text(name)
    steps: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(descriptor: int) -> None:
        steps.append("sync " + Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real_sync(descriptor)

    def replace(source: Path, target: Path) -> None:
        steps.append("rename " + Path(target).name)
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    seal(trial)
    renamed = steps.index("rename seal.json")
    assert {"sync a", "sync b", "sync t"} <= set(steps[:renamed])
    assert steps[renamed - 1].startswith("sync .seal.json")
    assert steps[renamed + 1 :] == ["sync t"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "a.json", "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_text(tmp_path / "a.json", "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@given(st.text(min_size=1), st.text(min_size=1))
@example("../../etc", "..")
@example("a/b", "a%2Fb")
@example("x" * 300, "x" * 301)
@example(".", "%2E")
def test_a_name_is_one_safe_component_and_stays_itself(one: str, other: str) -> None:
    name = folder_name(one)
    assert name not in ("", ".", "..")
    assert not {"/", "\0"} & set(name)
    assert not name.startswith(".")
    assert len(name.encode()) <= 255
    assert (folder_name(other) == name) == (one == other)
    assert (folder_name("TC7.r3"), folder_name("größe-1")) == ("TC7.r3", "größe-1")


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


def copied(base: RunDir, parent: Path, study: str, profile: str | None) -> RunDir:
    """Return a copy of the run as the next one of this study and profile."""
    run = RunDir.create(parent, study, profile)
    shutil.copytree(base.path, run.path, dirs_exist_ok=True)
    run.lock_path.write_text(evolve(base.lock(), name=study, profile=profile).to_json())
    return run


def test_the_last_run_is_the_newest_finished_one_of_its_study_and_profile(tmp_path: Path) -> None:
    assert last_run(tmp_path / "none", "s", "demo") is None
    base = make_run(tmp_path / "base", cases=1, replicates=1, duration_s=0.2)
    runs = [copied(base, tmp_path, "s", "demo") for _ in range(11)]
    copied(base, tmp_path, "s", "demo").trial("TC0.r1").seal.unlink()
    copied(base, tmp_path, "s", "real")
    (tmp_path / "s-demo-13").mkdir()
    found = last_run(tmp_path, "s", "demo")
    assert found.path == runs[-1].path
    assert last_run(tmp_path, "s", "paper") is None
    other = copied(base, tmp_path, "s-demo", None)
    assert other.name == "s-demo-14"
    assert last_run(tmp_path, "s", "demo") == found, "the study named so is another one"


@pytest.mark.parametrize("place", ["trials", "trials/TC0.r1", "trials/TC0.r1/events.jsonl", "derived/more"])
def test_a_run_that_reaches_out_of_its_folder_is_no_run(tmp_path: Path, place: str) -> None:
    """Files set aside or written through a link would be somebody else's: `trials` once led to /etc."""
    run = make_run(tmp_path / "runs", cases=1, replicates=1, faults={"*": "unsealed"})
    (run.trials / "somebody's").mkdir()
    assert run.unsealed_trials() == ("TC0.r1",), "what no plan names is not set aside"
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


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format": 1, "source": ' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "}",
        '{"format": 1e999}',
        '{"format": ' + "9" * 5_000 + "}",
        '{"format": 1, "name": {"' + "x" * 9_000 + '": 1}}',
        "[]",
        "",
        '{"format": 1, "' + "x" * 9_000 + '": 1}',
        None,
    ],
    ids=["deep list", "deep source", "infinite", "digits", "long", "list", "empty", "long key", "pipe"],
)
def test_an_invalid_lock(text: str | None, tmp_path: Path) -> None:
    """A pipe is not waited for."""
    lock = tmp_path / "study.lock.json"
    lock.write_text(text) if text is not None else os.mkfifo(lock)
    with pytest.raises(SvloadError) as found:
        Lock.read(lock)
    (problem,) = found.value.problems
    assert problem.code == "run-damaged"
    assert len(problem.sentence) < 600
    assert text is not None or "not a regular file" in str(problem)


@pytest.mark.parametrize(
    ("pipe", "says"), [("study.lock.json", "There is no run at"), ("plan/000.json", "not a regular file")]
)
def test_a_pipe_in_a_run_is_not_waited_for(tmp_path: Path, pipe: str, says: str) -> None:
    run = tmp_path / "x-1"
    (run / "plan").mkdir(parents=True)
    if pipe != "study.lock.json":
        (run / "study.lock.json").write_text("{}")
    os.mkfifo(run / pipe)
    with pytest.raises(SvloadError, match=says):
        find_run("x-1", tmp_path)
    assert unfinished_runs(tmp_path) == []
