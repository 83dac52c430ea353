"""What a stranger's run, or a file changed without the user's knowledge, may do in run and resume."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from tests.run.test_trust import study
from tests.support import make_run

from svload import api, run
from svload.api.trust import allowed_hosts, must_be_trusted
from svload.cli.output import choices
from svload.host.agent.journal import Journal
from svload.host.agent.settings import Settings
from svload.model.errors import SvloadError
from svload.model.facts import TrialLab
from svload.model.messages import HoldSysctls
from svload.model.results import TrialSummary
from svload.run.secrets import _without as without
from svload.run.trust import is_trusted, trust
from svload.store import RunDir, measured_programs, other_builds, seal_trial, write_artefact
from svload.store.pack import secret_columns
from svload.study import named_programs

BUILDS = {"build": {"a": {"dir": "builds/a"}, "b": {"dir": "builds/b"}}}


def written(folder: Path, command: str, **more: Any) -> Path:
    """Write a study that starts its own server by `command`, with programs, data and a log in its folder."""
    programs = ["server", "builds/a/server", "builds/b/server", "builds/a/lib.py", "app/main.py"]
    for name in (*programs, "settings.ini", "log/out", "state.db", "seen.json"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("rows\n" if path.suffix in (".db", ".json") else "#!/bin/sh\nexit 0\n")
        path.chmod(0o755 if path.name == "server" else 0o644)
    text = study({"run": command, "ready": "GET /"}) | more
    (folder / "study.yaml").write_text(json.dumps(text))
    return folder


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))


def begun(folder: Path, out: Path) -> RunDir:
    return run.begin(api.load_lock(str(folder), api.Choices(trusted=True)), out)


def asked(found: RunDir, **chosen: Any) -> str:
    """Return what `resume` asks for; empty: nothing."""
    try:
        allowed_hosts(found, found.lock(), **chosen)
    except SvloadError as error:
        return str(error)
    return ""


def variable(name: str, value: str) -> dict[str, Any]:
    return {"lab": {"app": {"run": "./server", "environment": {name: value}}}}


CHANGES = [
    ("./server --port 80", {}, "server", True),
    ("sh server", {}, "server", True),
    ("env A=1 ./server --config=settings.ini", {}, "settings.ini", True),
    ("sh -c 'exec ./builds/a/../../server'", {}, "server", True),
    ("${build.dir}/server", {"factors": BUILDS}, "builds/b/server", True),
    ("${build.dir}/server", {"factors": BUILDS}, "builds/a/lib.py", True),
    ("./server --log log", {}, "log/out", False),
    ("./server", {}, "settings.ini", False),
    ("python3 -m uvicorn app.main:app", {}, "app/main.py", True),
    ("sh ./seen.json", {}, "seen.json", True),
    ("./server --db state.db seen.json", {}, "state.db", False),
    ("./server --db=state.db seen.json", {}, "seen.json", False),
    ("./server", variable("DB", "state.db"), "state.db", False),
    ("./server", variable("RC", "settings.ini"), "settings.ini", True),
]
"""The command, other keys of the study, the file that changes, and whether that is part of what was
trusted."""


@pytest.mark.parametrize(("command", "more", "changed", "matters"), CHANGES)
def test_a_changed_program_is_asked_about(
    command: str, more: Any, changed: str, matters: bool, tmp_path: Path
) -> None:
    """A program or a setting that a command names is part of what was trusted; servers' data are not."""
    folder = written(tmp_path / "study", command, **more)
    found = begun(folder, tmp_path / "runs")
    assert is_trusted(folder / "study.yaml") and not asked(found)
    is_data = changed.endswith((".db", ".json")) and not matters
    (folder / changed).write_text("more rows\n" if is_data else "#!/bin/sh\nexec touch acted\n")
    assert is_trusted(folder / "study.yaml") != matters
    assert ("different programs" in asked(found)) == matters
    trust(folder / "study.yaml")
    assert is_trusted(folder / "study.yaml")


@pytest.mark.parametrize("place", [".", "sub/..", "./"])
def test_a_lock_is_trusted_in_its_own_folder_alone(place: str, tmp_path: Path, monkeypatch: Any) -> None:
    """A relative path means another folder wherever the command is typed."""
    mine, theirs = written(tmp_path / "mine", "./server"), written(tmp_path / "theirs", "./server")
    for folder in (mine, theirs):
        (folder / "sub").mkdir()
    monkeypatch.chdir(mine)
    found = begun(Path(place), tmp_path / "runs")
    assert not asked(found)
    monkeypatch.chdir(theirs)
    assert not asked(found)
    assert Path(found.lock().study_dir).resolve() == mine.resolve()
    lock = json.loads(found.lock_path.read_text())
    for folder in (".", str(theirs)):
        copy = RunDir(Path(shutil.copytree(found.path, tmp_path / f"handed-over-{len(folder)}")))
        copy.lock_path.write_text(json.dumps(lock | {"study_dir": folder}))
        assert "was not made here by you" in asked(copy)


def test_no_two_runs_have_the_same_lock(tmp_path: Path) -> None:
    """A stranger who knows the public study and its seed can't predict what was trusted."""
    folder = written(tmp_path / "study", "./server")
    first, second = (begun(folder, tmp_path / "runs") for _ in range(2))
    assert first.lock_path.read_bytes() != second.lock_path.read_bytes()
    assert first.lock().nonce != second.lock().nonce
    forged = RunDir(Path(shutil.copytree(first.path, tmp_path / "forged")))
    lock = json.loads(forged.lock_path.read_text())
    forged.lock_path.write_text(json.dumps(lock | {"nonce": ""}))
    assert not asked(first) and asked(forged)


def test_a_moved_folder_is_asked_about(tmp_path: Path) -> None:
    folder = written(tmp_path / "study", "./server")
    found = begun(folder, tmp_path / "runs")
    folder.rename(tmp_path / "before")
    (tmp_path / "other").mkdir()
    written(tmp_path / "other" / "study", "./server")
    (tmp_path / "study").symlink_to(tmp_path / "other" / "study")
    assert "another folder" in asked(found)


@pytest.mark.parametrize("changed", [["server"], ["server", "study.yaml"]])
def test_run_names_what_changed(changed: list[str], tmp_path: Path) -> None:
    folder = written(tmp_path / "study", "./server --db state.db")
    trust(folder / "study.yaml")
    (folder / "state.db").write_text("more rows")
    assert is_trusted(folder / "study.yaml")
    for name in changed:
        with (folder / name).open("a") as file:
            file.write("\n")
    if "study.yaml" in changed:
        (folder / "study.yaml").write_text((folder / "study.yaml").read_text().replace('"1s"', '"2s"'))
    assert not is_trusted(folder / "study.yaml")
    with pytest.raises(SvloadError) as caught:
        must_be_trusted(api.load_lock(str(folder), api.Choices()), str(folder))
    assert f"{'; '.join(changed)} was edited after" in str(caught.value)


def measured(run_dir: RunDir, trial: str, programs: dict[str, str], block: int) -> None:
    """Return a sealed trial whose server was started from these programs."""
    folder = run_dir.trial(trial)
    folder.path.mkdir()
    service = {"service": "app", "kit": "command", "version": "", "programs": programs}
    fields = {"services": [service], "previous_case": None, "whole_plot": 1}
    fields |= {name: {} for name in ("reset", "before", "after", "phases_s")}
    write_artefact(folder.lab, TrialLab.model_validate(fields))
    seal_trial(folder, case="case-0", replicate=block, block=block, facts={})


@pytest.mark.parametrize("changed", ["server", "app/main.py"])
def test_another_build_is_not_resumed(changed: str, tmp_path: Path) -> None:
    """Nor is it with --trust; --changed-build allows the programs, but not another folder."""
    folder = written(tmp_path / "study", "./server --app app.main:app --db state.db")
    found = begun(folder, tmp_path / "runs")
    case = found.planned_trials()[0].trial
    programs = named_programs(folder, "./server --app app.main:app --db state.db")
    assert set(programs) == {"server", "app/main.py"}
    measured(found, case, programs, 1)
    (folder / "state.db").write_text("more rows")
    assert not asked(found) and other_builds(found) == {}
    before = (folder / changed).read_text()
    (folder / changed).write_text(before + "exit 1\n")
    assert "build-changed" in asked(found) and f"{changed} changed after the first trials" in asked(found)
    assert "build-changed" in asked(found, trusted=True)
    assert asked(found, changed_build=True) == ""
    (folder / changed).write_text(before)
    assert not asked(found)


def test_trials_of_two_builds_are_named(tmp_path: Path) -> None:
    found = begun(written(tmp_path / "study", "./server"), tmp_path / "runs")
    for number, digest in enumerate("aabb", 1):
        measured(found, f"case-0.r{number}", {"server": digest, "kept.py": "c"}, number)
    assert other_builds(found) == {"case-0.r1": ["server"], "case-0.r2": ["server"]}
    assert measured_programs(found) == {"server": "b", "kept.py": "c"}


LOCKS: list[tuple[tuple[str | int, ...], Any]] = [
    (("source", "sysctl"), {"kernel.core_pattern": "1"}),
    (("source", "sysctl"), {"kernel.modprobe": "1"}),
    (("source", "sysctl"), {"fs.suid_dumpable": "1"}),
    (("source", "sysctl"), {"net.core/../../kernel/core_pattern": "1"}),
    (("cases", 0, "levels"), {}),
    (("cases", 0, "levels", "size"), "99"),
    (("factors", 0, "levels", 0, "value"), "../../../etc"),
    (("cases", 0, "name"), "../../elsewhere"),
    (("source", "traffic", "users", "vus"), 10**12),
    (("source", "lab", "app", "kit"), "no-such-kit"),
]
"""A place in the lock, and the value written there."""


@pytest.mark.parametrize("forge", [None, *LOCKS])
@pytest.mark.parametrize("trusted", [False, True])
def test_a_lock_may_say_what_a_study_may(
    forge: tuple[tuple[str, ...], Any] | None, trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run made elsewhere, with --trust too: --trust does not allow what no study may contain."""
    more = {"lab": {"app": {"kit": "truth", "role": "store"}}, "factors": {"size": ["1", "2"]}}
    folder = written(tmp_path / "study", "", **more, requests={"get": {"get": "http://app/bytes/${size}"}})
    found = begun(folder, tmp_path / "runs")
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "another user's"))
    if forge is None:
        assert allowed_hosts(found, found.lock(), trusted) == ()
        return
    lock = json.loads(found.lock_path.read_text())
    (*way, last), value = forge
    place = lock
    for step in way:
        place = place[step]
    place[last] = value
    found.lock_path.write_text(json.dumps(lock))
    with pytest.raises(SvloadError) as caught:
        allowed_hosts(found, found.lock(), trusted)
    assert [problem.code for problem in caught.value.problems] == ["run-damaged"]


@pytest.mark.parametrize("name", ["kernel.core_pattern", "kernel.modprobe", "fs.protected_symlinks"])
def test_the_agent_refuses_what_no_study_may_set(name: str, tmp_path: Path) -> None:
    """Whoever asks it: the rule is enforced on the host too."""
    with pytest.raises(SvloadError, match="not a setting that a study may change"):
        Settings(Journal(tmp_path), None).hold(HoldSysctls(values={name: "1"}, host=True))


SECRET = 'tök"en/with+signs&16'
LETTERS = base64.b64encode(b"admin-7:p4ss word").decode()
TOLD = [
    SECRET.upper(),
    SECRET[:6] + " \n" + SECRET[6:],
    quote(SECRET),
    quote_plus(SECRET),
    json.dumps(SECRET),
    html.escape(SECRET),
    SECRET.encode().hex().upper(),
    SECRET.encode().hex(":"),
    *(base64.b64encode(before + SECRET.encode() + b"!").decode() for before in (b"", b"u", b"me", b"user:")),
    base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "s3cr3t-TOKEN",
    quote("s3cr3t-token", safe=""),
    json.dumps({"got": "s3cr3t-token"}),
    b"s3cr3t-token".hex(),
    base64.b64encode(b"<s3cr3t-token>").decode(),
    "s3cr3t-",
    LETTERS,
    "admin-7",
    "p4ss word",
    b"p4ss word".hex(),
    "s=0a1b2c3d4e",
]
"""Forms of a secret, or of one of its parts, at the end of a response."""
HELD = (SECRET, "ab s3cr3t-token", f"Basic {LETTERS}", "id=0a1b2c3d4e; theme=x")
PLAIN = re.compile("s3cr3t-|token|admin-7|p4ss|0a1b2c3d4e|tök", re.IGNORECASE)


@pytest.mark.parametrize("expected", TOLD)
def test_a_secret_is_kept_out_of_the_record(expected: str) -> None:
    """In common encodings, and each of its words alone."""
    left = without(f"you sent: {expected}", HELD)
    assert left == "" or ("…" in left and left.startswith("you sent: "))
    assert not PLAIN.search(left) and expected not in left


KEPT = ["", "no such object", "dG9r", "404 not found: /with signs 16", "Basic or Bearer token, id=, theme=x"]


@pytest.mark.parametrize("expected", KEPT)
def test_other_answers_are_kept(expected: str) -> None:
    assert without(expected, HELD) == expected


@pytest.mark.parametrize("target", ["../private", "/etc/hostname"])
def test_a_study_that_is_a_link_elsewhere_is_not_shown(target: str, tmp_path: Path) -> None:
    """A mistake would print its lines."""
    (tmp_path / "private").write_text("root:hush\n")
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "study.yaml").symlink_to(target)
    for named in (folder, folder / "study.yaml"):
        with pytest.raises(SvloadError) as caught:
            api.load_lock(str(named), api.Choices())
        assert [problem.code for problem in caught.value.problems] == ["study-linked"]
        assert "hush" not in str(caught.value)
    (folder / "study.yaml").unlink()
    written(folder, "./server")
    (folder / "study.yaml").rename(folder / "small.yaml")
    (folder / "study.yaml").symlink_to("small.yaml")
    assert api.load_lock(str(folder), api.Choices()).name == "mine"


@pytest.mark.parametrize("target", [".", "../elsewhere"])
def test_runs_go_through_a_link_that_was_named_alone(target: str, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "here" / "runs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    assert choices().out == Path("runs")
    Path("runs").rmdir()
    assert choices().out == Path("runs")
    Path("runs").symlink_to(target)
    with pytest.raises(SvloadError, match=r"runs is a symbolic link to .*--out"):
        choices()
    assert choices(out=Path("runs")).out == Path("runs")


def test_a_window_without_end_is_damage(tmp_path: Path) -> None:
    """`report` used to end for lack of memory."""
    found = make_run(tmp_path, cases=1, replicates=1)
    path = found.trial(found.sealed_trials()[0]).summary
    sound = json.loads(path.read_text()) | {"window_ns": [0, 10**9]}
    for changed in ({"window_ns": [0, 10**18]}, {"interval_ns": 1}, {"interval_ns": 0}):
        path.write_text(json.dumps(sound | changed))
        with pytest.raises(SvloadError, match="run-damaged"):
            TrialSummary.read(path)
    path.write_text(json.dumps(sound))
    assert TrialSummary.read(path).window_ns == (0, 10**9)


def test_a_pack_says_which_columns_may_be_secret(tmp_path: Path) -> None:
    found = RunDir.create(tmp_path, "mine")
    (found.inputs / "users.csv").write_text("name,Password\nann,hush\n")
    (found.inputs / "keys.csv").write_text("id,api_key,accessToken\n1,a,b\n")
    (found.inputs / "objects.csv").write_text("path,size_bytes,digest\n/a,1,x\n")
    assert secret_columns(found) == ["keys.csv: api_key", "keys.csv: accessToken", "users.csv: Password"]
