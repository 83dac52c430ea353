"""What a stranger's run, or a file changed without the user's knowledge, may do; secrets and targets."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from tests.results import case_of
from tests.support import make_run

from svload import api, run
from svload.api.trust import allowed_hosts, may_administer, must_be_trusted
from svload.cli.output import choices
from svload.host.agent.journal import Journal
from svload.host.agent.settings import Settings
from svload.model.errors import ExitCode, Problem, SvloadError
from svload.model.executors import ConstantVus
from svload.model.facts import TrialLab
from svload.model.messages import HoldSysctls
from svload.model.results import TrialSummary
from svload.model.study import CaseConfig, ServiceSpec
from svload.model.traffic import Group, Request, Text
from svload.run import secret_values
from svload.run.secrets import _without as without
from svload.run.targets import named_targets, permitted_targets, several_addresses
from svload.run.trust import is_trusted, trust
from svload.store import RunDir, measured_programs, other_builds, pack_run, seal_trial, write_artefact
from svload.store.pack import secret_columns
from svload.study import named_programs

HARMLESS = {"kit": "truth", "role": "store"}
HOST = ("192.0.2.9",)
Make = Callable[..., RunDir]


def study(lab: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "mine",
        "lab": {"app": lab},
        "requests": {"get": {"get": "http://app/"}},
        "traffic": {"users": {"executor": "constant-vus", "vus": 1, "request": "get"}},
        "measure": {"duration": "1s", "replicates": 1},
    } | more


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a run that was begun under another user's state; from then on this user's state is in force."""
    monkeypatch.setenv("SVLOAD_CACHE", str(tmp_path / "cache"))

    def make(lab: dict[str, Any], authorised: tuple[str, ...] = (), **more: Any) -> RunDir:
        folder = tmp_path / "study"
        folder.mkdir()
        (folder / "body").write_text("id\nmine\n")
        (folder / "study.yaml").write_text(json.dumps(study(lab, **more)))
        monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "theirs"))
        chosen = api.Choices(trusted=True, authorised=authorised)
        begun = run.begin(api.load_lock(str(folder), chosen), tmp_path / "runs")
        monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
        return begun

    return make


def refused(found: RunDir | Path, code: str = "run-untrusted", **chosen: Any) -> str:
    """Return the error of `resume` before anything is started."""
    path = found if isinstance(found, Path) else found.path
    with pytest.raises(SvloadError) as caught:
        api.resume(str(path), api.Choices(out=path.parent, **chosen), lambda event: pytest.fail(event.kind))
    assert caught.value.exit_code is ExitCode.USAGE
    assert [problem.code for problem in caught.value.problems] == [code]
    return str(caught.value)


def asked(found: RunDir, **chosen: Any) -> str:
    """Return what `resume` asks for; empty: nothing."""
    try:
        allowed_hosts(found, found.lock(), **chosen)
    except SvloadError as error:
        return str(error)
    return ""


def test_a_run_from_elsewhere_authorises_no_host(elsewhere: Make) -> None:
    found = elsewhere({"at": "http://192.0.2.9/"}, authorised=("192.0.2.9",))
    assert found.lock().authorised == ("192.0.2.9",)
    for trusted in (False, True):
        assert "--authorise 192.0.2.9" in refused(found, "unauthorised-target", trusted=trusted)


@pytest.mark.parametrize(
    ("lab", "more", "expected"),
    [
        ({"run": "touch acted"}, {}, "lab.app.run: touch acted"),
        (HARMLESS, {"requests": {"get": {"post": "http://app/", "body": {"file": "body"}}}}, "study/body"),
        (HARMLESS, {"feeders": {"rows": {"csv": "body", "take": "walk"}}}, "study/body"),
        (HARMLESS, {"secrets": {"token": "HOME"}}, "the variable HOME"),
    ],
)
def test_a_run_from_elsewhere_acts_and_reads_nothing(
    elsewhere: Make, lab: Any, more: Any, expected: str
) -> None:
    found = elsewhere(lab, **more)
    assert found.lock().trusted, "it says so itself"
    for one in (found, pack_run(found)):
        told = refused(one)
        assert expected in told and "--trust" in told


def test_a_lock_from_elsewhere_administers_no_server_and_leads_to_no_folder(elsewhere: Make) -> None:
    found = elsewhere(HARMLESS)
    assert found.lock().trusted, "it says so itself"
    assert asked(found) == ""
    assert not may_administer(found, found.lock(), trusted=False)
    assert may_administer(found, found.lock(), trusted=True)
    mine = run.begin(found.lock(), Path(found.lock().study_dir))
    assert may_administer(mine, mine.lock(), trusted=False)
    text = found.lock_path.read_text().replace("http://app/", "http://127.0.0.1:9/")
    found.lock_path.write_text(text.replace('"app": {', '"../../../app": {'))
    assert "../app" in found.lock_path.read_text()
    refused(found, "run-damaged", trusted=True)


@pytest.mark.parametrize("case", ["nope", "../.."])
def test_a_plan_of_other_cases_than_the_locks_is_refused(elsewhere: Make, case: str) -> None:
    found = elsewhere(HARMLESS)
    batch = json.loads(found.batch_path(0).read_text())
    batch["trials"][0]["case"] = case
    found.batch_path(0).write_text(json.dumps(batch))
    refused(found, "run-damaged")


def test_once_allowed_is_remembered_for_that_lock_alone(elsewhere: Make, tmp_path: Path) -> None:
    found = elsewhere({"run": "true", "ready": "GET /"}, authorised=HOST)
    for authorised in (HOST, ()):
        assert "run-untrusted" in asked(found, authorised=authorised), "hosts alone make no trust"
    refused(found, authorised=HOST)
    mine = run.begin(found.lock(), Path(found.lock().study_dir))
    assert allowed_hosts(mine, mine.lock()) == HOST, "what was begun here is not asked about"
    assert allowed_hosts(found, found.lock(), trusted=True, authorised=HOST) == HOST
    assert allowed_hosts(found, found.lock()) == HOST
    copy = RunDir(Path(shutil.copytree(found.path, tmp_path / "copy")))
    assert allowed_hosts(copy, copy.lock()) == HOST
    text = copy.lock_path.read_text()
    copy.lock_path.write_text(text.replace('"true"', '"false"'))
    refused(copy)
    copy.lock_path.write_text(text.replace(copy.lock().study_dir, "/bin/sh"))
    refused(copy)


@pytest.mark.parametrize("variable", ["GITHUB_TOKEN", "PGPASSFILE", "SSH_KEY"])
def test_what_a_study_reads_of_the_environment_is_asked_for_once(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`plan` names it, `run` asks for it, and neither reads it before; what the user typed needs no trust."""
    monkeypatch.setattr(run, "secret_values", lambda config: pytest.fail("read"))
    file = tmp_path / "study.yaml"
    for secrets, asks in (({"t": variable}, True), ({}, False)):
        file.write_text(json.dumps(study(HARMLESS, secrets=secrets)))
        needed = api.plan(str(tmp_path), api.Choices())["trusted_needed"]
        assert [variable in one and f"{variable}_FILE" in one for one in needed] == [True] * asks
        refuse = trusted_or_refused(tmp_path)
        assert ("read your files and secrets" in refuse and variable in refuse) == asks
    file.write_text(json.dumps(study(HARMLESS, secrets={"t": variable})))
    assert trusted_or_refused(tmp_path, own=True) == ""
    assert trusted_or_refused(tmp_path) != ""
    assert trusted_or_refused(tmp_path, trusted=True) == ""
    assert trusted_or_refused(tmp_path) == ""


def trusted_or_refused(folder: Path, **chosen: Any) -> str:
    """Return how an untrusted study is refused; empty: it may run."""
    try:
        must_be_trusted(api.load_lock(str(folder), api.Choices(**chosen)), str(folder))
    except SvloadError as error:
        return str(error)
    return ""


def refused_run(folder: Path) -> tuple[Problem, ...]:
    with pytest.raises(SvloadError) as caught:
        api.run_study(str(folder), api.Choices(out=folder / "runs"), lambda event: pytest.fail(event.kind))
    assert not (folder / "acted").exists()
    return caught.value.problems


@pytest.mark.parametrize("known", [True, False])
def test_an_edited_study_is_reported(tmp_path: Path, known: bool) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(json.dumps(study({"run": "touch acted"})))
    if known:
        trust(file)
        assert api.load_lock(str(tmp_path), api.Choices()).trusted
    file.write_text(json.dumps(study({"run": "touch acted"}, question="edited")))
    (problem,) = refused_run(tmp_path)
    assert problem.code == "study-untrusted"
    edited = "was edited after svload init wrote it or you allowed it with --trust. Check what changed, then add --trust"
    assert (edited in str(problem)) == known
    assert ("and you have not allowed that. Read it, then add --trust to run it." in str(problem)) != known


def test_refusals_before_a_run_are_reported_at_once(tmp_path: Path) -> None:
    found = study({"run": "touch acted"})
    found["lab"]["away"] = {"at": "http://192.0.2.9/"}
    found["factors"] = {"way": ["app", "away"]}
    found["requests"] = {"get": {"get": "http://${way}/"}}
    gate = {"metric": "response.p50", "fail_if": "worse by more than 5 %"}
    found["compare"] = [{"factor": "way", "baseline": "app", **gate}]
    (tmp_path / "study.yaml").write_text(json.dumps(found))
    codes = [problem.code for problem in refused_run(tmp_path)]
    assert codes == ["study-untrusted", "study-undecidable", "unauthorised-target"]


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


VARIABLE = {"lab": {"app": {"run": "./server", "environment": {"RC": "settings.ini", "DB": "state.db"}}}}
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
    ("./server", VARIABLE, "state.db", False),
    ("./server", VARIABLE, "settings.ini", True),
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
        text = (folder / name).read_text().replace('"1s"', '"2s"')
        (folder / name).write_text(f"{text}\n")
    assert not is_trusted(folder / "study.yaml")
    assert f"{'; '.join(changed)} was edited after" in trusted_or_refused(folder)


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
    *(SECRET.upper(), SECRET[:6] + " \n" + SECRET[6:], quote(SECRET), quote_plus(SECRET)),
    *(json.dumps(SECRET), html.escape(SECRET), SECRET.encode().hex().upper(), SECRET.encode().hex(":")),
    *(base64.b64encode(before + SECRET.encode() + b"!").decode() for before in (b"", b"u", b"me", b"user:")),
    base64.urlsafe_b64encode(SECRET.encode()).decode(),
    *("s3cr3t-TOKEN", quote("s3cr3t-token", safe=""), json.dumps({"got": "s3cr3t-token"})),
    *(b"s3cr3t-token".hex(), base64.b64encode(b"<s3cr3t-token>").decode(), "s3cr3t-"),
    *(LETTERS, "admin-7", "p4ss word", b"p4ss word".hex(), "s=0a1b2c3d4e"),
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


CONFIG = CaseConfig.model_construct(secrets={"secret.token": "API_TOKEN"})


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "API_TOKEN is not set"),
        ({"API_TOKEN": ""}, "API_TOKEN is empty"),
        ({"API_TOKEN": "hush\r\nX-More: hush"}, "more than one line"),
        ({"API_TOKEN_FILE": "nowhere"}, "nowhere cannot be read: No such file"),
    ],
)
def test_a_secret_is_the_variables_or_its_files(
    environment: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SvloadError) as why:
        secret_values(CONFIG)
    text = str(why.value)
    assert "${secret.token} has no value" in text
    assert expected in text
    assert "Set API_TOKEN to the value, or API_TOKEN_FILE" in text
    assert "hush" not in text
    (tmp_path / "token").write_text("from a file\n")
    monkeypatch.delenv("API_TOKEN", raising=False)
    monkeypatch.setenv("API_TOKEN_FILE", str(tmp_path / "token"))
    assert secret_values(CONFIG) == {"secret.token": "from a file"}
    monkeypatch.setenv("API_TOKEN", "its own")
    assert secret_values(CONFIG) == {"secret.token": "its own"}
    assert secret_values(CaseConfig.model_construct(secrets={})) == {}


OUTSIDE = "http://192.0.2.7:8080"


def config(at: str, host: str = "shop", scheme: str = "http") -> CaseConfig:
    request = Request(name="get", scheme=scheme, host=host, path=(Text(text="/"),))
    return case_of(
        Group(name="users", executor=ConstantVus(vus=1), request=request),
        services=(ServiceSpec(name="shop", kit="external", options={"at": at}),),
    )


def test_a_server_that_a_study_or_a_url_names_needs_its_users_permission():
    by_url = config("http://127.0.0.1:80", host="192.0.2.7")
    assert list(named_targets(by_url)) == ["http://shop", "http://192.0.2.7"]
    with pytest.raises(SvloadError) as caught:
        permitted_targets([config(OUTSIDE), config("http://198.51.100.9"), by_url], [])
    assert [problem.code for problem in caught.value.problems] == ["unauthorised-target"] * 3
    assert "--authorise 192.0.2.7" in str(caught.value)
    found = permitted_targets([config(OUTSIDE)], ["192.0.2.7"])
    assert [(at.address, at.port) for at in found.values()] == [("192.0.2.7", 8080)]


LISTENS, CLOSED, LISTENS_TOO = "127.0.0.7", "127.0.0.6", "127.0.0.8"
INSTEAD = "all requests go to 127.0.0.7, because 127.0.0.6 accepts no connection"


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["::1", LISTENS, LISTENS_TOO], "3 addresses; all requests go to 127.0.0.7"),
        (["::1", CLOSED, LISTENS, LISTENS_TOO, CLOSED], f"4 addresses; {INSTEAD}"),
        ([CLOSED, "::1"], "2 addresses; all requests go to 127.0.0.6"),
    ],
)
def test_of_several_addresses_all_requests_go_to_the_first_that_accepts_a_connection(
    addresses: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def known(host: str, port: int, *words: object, **more: object) -> list[tuple[object, ...]]:
        """Answer like a name server whose every answer begins with another address."""
        if host != "shop.example":
            return real(host, port, *words, **more)  # type: ignore[arg-type,return-value]
        addresses.append(addresses.pop(0))
        families = {"::1": socket.AF_INET6}
        return [(families.get(one, socket.AF_INET), 1, 6, "", (one, port)) for one in addresses]

    addresses.insert(0, addresses.pop())
    monkeypatch.setattr(socket, "getaddrinfo", known)
    looked_up: dict[str, list[str]] = {}
    with socket.create_server((LISTENS, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_server((LISTENS_TOO, port)):
            asked = [f"{host}:{port}{path}" for host in ("shop.example", LISTENS) for path in ("/a", "/b")]
            cases = [config(f"http://{one}") for one in asked]
            found = permitted_targets(cases, ["shop.example"], looked_up)
    assert list(several_addresses(found, looked_up)) == [f"shop.example has {expected}"]
    first, second, *others = (at.address for at in found.values())
    assert first == second and f"go to {first}" in expected
    assert others == [LISTENS, LISTENS]
