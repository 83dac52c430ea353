from __future__ import annotations

import os
import stat
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.support import SyntheticRun, make_run

from svload.model.errors import SvloadError
from svload.store import find_run, open_pack, pack, pack_run, query, read_trial, verify_run
from svload.store.journal import Journal
from svload.store.seal import sha256_file


@pytest.fixture
def run(tmp_path: Path) -> SyntheticRun:
    made = make_run(tmp_path / "runs", replicates=2, cases=2, faults={"TC0.r2": "unsealed"})
    kept = made.attempt("TC0.r1", 1)
    with Journal(kept.events):
        (kept.path / "server.log").write_text("a path of this host")
    made.derived.joinpath("report.html").write_text("<html>")
    return made


def test_a_pack_reads_as_its_run(run: SyntheticRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = pack_run(run)
    assert pack == run.path.parent / "synthetic-1.svload.zip"
    opened = open_pack(pack, tmp_path / "cache")
    assert (opened.name, opened.sealed_trials()) == (run.name, run.sealed_trials())
    assert verify_run(opened) == []
    assert read_trial(opened.trial("TC1.r1")).summary == read_trial(run.trial("TC1.r1")).summary
    sql = "select trial, count(*) from samples group by 1 order by 1"
    assert query(opened, sql) == query(run, sql)
    assert open_pack(pack, tmp_path / "cache").path == opened.path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert find_run(str(pack), tmp_path).sealed_trials() == run.sealed_trials()
    assert find_run(pack.name, pack.parent).path.is_relative_to(tmp_path / "xdg")


def test_an_unpacked_run_is_synced(run: SyntheticRun, tmp_path: Path, monkeypatch: Any) -> None:
    synced: set[Path] = set()
    pack, sync = pack_run(run), os.fsync

    def noted(descriptor: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    opened = open_pack(pack, tmp_path / "cache").path
    fresh = {path.relative_to(opened.parent).parts[1:] for path in synced}
    assert fresh == {path.relative_to(opened).parts for path in (opened, *opened.rglob("*"))}


def test_what_no_reader_needs_stays_out(run: SyntheticRun, tmp_path: Path) -> None:
    with zipfile.ZipFile(pack_run(run, tmp_path / "p.zip")) as archive:
        names = archive.namelist()
    assert "attempts/TC0.r1.a1/events.jsonl" in names
    assert not [name for name in names if name.endswith((".log", ".html", "truth.json")) or "TC0.r2" in name]


def test_the_same_run_gives_the_same_bytes(run: SyntheticRun, tmp_path: Path) -> None:
    first = pack_run(run, tmp_path / "a.zip").read_bytes()
    for path in run.path.rglob("*"):
        path.touch()
    assert pack_run(run, tmp_path / "b.zip").read_bytes() == first
    again = pack_run(open_pack(tmp_path / "a.zip", tmp_path / "cache"), tmp_path / "c.zip")
    assert again.read_bytes() == first


@pytest.mark.parametrize("kind", ["EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
def test_a_private_key_is_never_packed(kind: str, run: SyntheticRun, tmp_path: Path) -> None:
    padding = "x" * ((1 << 20) - 15)
    (run.inputs / "oops.pem").write_text(f"{padding}-----BEGIN {kind}-----\n")
    with pytest.raises(SvloadError, match="private key"):
        pack_run(run, tmp_path / "p.zip")
    assert list(tmp_path.glob("*p.zip*")) == []


PLACES = ("../evil", "/evil", "trials/../../evil", "plan/..\\evil", "other/evil", "C:/evil", "evil")


@pytest.mark.parametrize("name", [*PLACES, "trials/" + 64 * "evil"])
def test_no_path_leaves_its_folder(tmp_path: Path, name: str) -> None:
    assert_refused(packed(tmp_path, {LOCK: "{}", name: "evil"}), tmp_path)
    assert not [found for found in tmp_path.rglob("*") if "evil" in found.name]


def test_a_small_pack_of_repetitive_inputs_opens(tmp_path: Path) -> None:
    good = packed(tmp_path, {LOCK: "{}", "inputs/users.csv": "user\n" * (8 << 20)}, zipfile.ZIP_DEFLATED)
    assert (open_pack(good, tmp_path / "cache").inputs / "users.csv").stat().st_size == 5 * (8 << 20)


def test_links_bombs_doubles_and_rubbish_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "ALWAYS_BYTES", 1 << 20)
    link = zipfile.ZipInfo("inputs/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert_refused(packed(tmp_path, {LOCK: "{}", link: "/etc/passwd"}), tmp_path)
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED):
        assert_refused(packed(tmp_path, {LOCK: "{}", "inputs/bomb": bytes(16 << 20)}, method), tmp_path)
    assert_refused(packed(tmp_path, {"events.jsonl": ""}), tmp_path)
    path = packed(tmp_path, {LOCK: "{}"})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(LOCK, "{}")
    assert_refused(path, tmp_path)
    path.write_bytes(b"PK rubbish")
    assert_refused(path, tmp_path)


def test_a_truncated_or_flipped_pack_is_refused(run: SyntheticRun, tmp_path: Path) -> None:
    """Also one cut at its front: zipfile assumes that the files begin before the pack, and the kernel
    refuses to seek there."""
    pack = pack_run(run, tmp_path / "p.zip")
    whole = pack.read_bytes()
    end = whole.rindex(b"PK\x05\x06")
    directory = end - int.from_bytes(whole[end + 12 : end + 16], "little")
    cut = [whole[:length] for length in (10, len(whole) // 2, len(whole) - 10)]
    flipped_at = range(200, len(whole) // 2, len(whole) // 9)
    flipped = [whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :] for at in flipped_at]
    for data in (*cut, *flipped, whole[directory:]):
        pack.write_bytes(data)
        assert_refused(pack, tmp_path)


LOCK = "study.lock.json"


def packed(folder: Path, files: dict[Any, str | bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(folder / "bad.svload.zip", "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return folder / "bad.svload.zip"


def assert_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SvloadError, match=r"\[run-damaged\]"):
        open_pack(path, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.parametrize("name", ["..", ".", "", "a\x1b[31m b"])
def test_a_packs_name_is_no_place(tmp_path: Path, name: str) -> None:
    made = make_run(tmp_path / "runs", replicates=1, cases=1, duration_s=0.2)
    pack = pack_run(made, tmp_path / f"{name}.svload.zip")
    opened = open_pack(pack, tmp_path / "packs")
    assert opened.path.resolve().parent.parent == tmp_path / "packs"
    assert opened.lock() == made.lock()
    assert open_pack(pack, tmp_path / "packs") == opened


def test_what_a_killed_unpacking_left_goes_with_the_next(run: SyntheticRun, tmp_path: Path) -> None:
    pack = pack_run(run, tmp_path / "a.svload.zip")
    home = tmp_path / "cache" / sha256_file(pack)[:32]
    with subprocess.Popen(["true"]) as process:
        process.wait()
    gone, alive = home / f".unpack-{process.pid}-abc", home / f".unpack-{os.getppid()}-abc"
    for folder in (gone, alive):
        folder.mkdir(parents=True)
        (folder / "half").touch()
    open_pack(pack, tmp_path / "cache")
    assert not gone.exists()
    assert alive.exists()
