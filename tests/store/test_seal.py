from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from svload.model.seals import Seal
from svload.store.layout import TrialDir
from svload.store.seal import seal_trial, verify_trial, write_text


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
def test_a_damaged_seal_is_found(sealed: Path, text: str) -> None:
    (sealed / "seal.json").write_text(text)
    assert verify_trial(sealed)


def test_no_seal_is_reported_and_two_are_refused(sealed: Path) -> None:
    with pytest.raises(FileExistsError):
        seal(sealed)
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
