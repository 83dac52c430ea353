"""What a run from elsewhere may do: only what this user has allowed on this machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svload import api, run
from svload.api.trust import allowed_hosts, may_administer, must_be_trusted
from svload.model.errors import ExitCode, Problem, SvloadError
from svload.run.trust import trust
from svload.store import RunDir, pack_run

HARMLESS = {"kit": "truth", "role": "store"}
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


@pytest.mark.parametrize("packed", [False, True])
def test_a_run_from_elsewhere_runs_no_command(elsewhere: Make, packed: bool) -> None:
    found = elsewhere({"run": "touch acted"})
    assert found.lock().trusted, "it says so itself"
    told = refused(pack_run(found) if packed else found)
    assert "lab.app.run: touch acted" in told and "--trust" in told


def test_a_run_from_elsewhere_authorises_no_host(elsewhere: Make) -> None:
    found = elsewhere({"at": "http://192.0.2.9/"}, authorised=("192.0.2.9",))
    assert found.lock().authorised == ("192.0.2.9",)
    for trusted in (False, True):
        assert "--authorise 192.0.2.9" in refused(found, "unauthorised-target", trusted=trusted)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"requests": {"get": {"post": "http://app/", "body": {"file": "body"}}}}, "study/body"),
        ({"feeders": {"rows": {"csv": "body", "take": "walk"}}}, "study/body"),
        ({"secrets": {"token": "HOME"}}, "the variable HOME"),
    ],
)
def test_a_run_from_elsewhere_reads_nothing_of_mine(elsewhere: Make, more: Any, expected: str) -> None:
    assert expected in refused(elsewhere(HARMLESS, **more))


def test_names_of_a_lock_from_elsewhere_lead_to_no_folder(elsewhere: Make) -> None:
    found = elsewhere(HARMLESS)
    text = found.lock_path.read_text().replace("http://app/", "http://127.0.0.1:9/")
    found.lock_path.write_text(text.replace('"app": {', '"../../../app": {'))
    assert "../app" in found.lock_path.read_text()
    refused(found, "run-damaged", trusted=True)


def test_a_lock_from_elsewhere_administers_no_server(elsewhere: Make) -> None:
    found = elsewhere(HARMLESS)
    assert found.lock().trusted, "it says so itself"
    assert allowed_hosts(found, found.lock()) == ()
    assert not may_administer(found, found.lock(), trusted=False)
    assert may_administer(found, found.lock(), trusted=True)
    mine = run.begin(found.lock(), Path(found.lock().study_dir))
    assert may_administer(mine, mine.lock(), trusted=False)


def test_once_allowed_is_remembered_for_that_lock_alone(elsewhere: Make, tmp_path: Path) -> None:
    found = elsewhere({"run": "true", "ready": "GET /"}, authorised=("192.0.2.9",))
    assert allowed_hosts(found, found.lock(), trusted=True, authorised=("192.0.2.9",)) == ("192.0.2.9",)
    assert allowed_hosts(found, found.lock()) == ("192.0.2.9",)
    copy = RunDir(Path(shutil.copytree(found.path, tmp_path / "copy")))
    assert allowed_hosts(copy, copy.lock()) == ("192.0.2.9",)
    copy.lock_path.write_text(copy.lock_path.read_text().replace('"true"', '"false"'))
    refused(copy)


def test_hosts_alone_make_no_trust(elsewhere: Make) -> None:
    found = elsewhere({"run": "true"})
    refused(found, authorised=("192.0.2.9",))
    for authorised in (("192.0.2.9",), ()):
        with pytest.raises(SvloadError, match="run-untrusted"):
            allowed_hosts(found, found.lock(), authorised=authorised)


def test_what_was_begun_here_is_not_asked_about(elsewhere: Make) -> None:
    lock = elsewhere({"run": "true"}, authorised=("192.0.2.9",)).lock()
    mine = run.begin(lock, Path(lock.study_dir))
    assert allowed_hosts(mine, mine.lock()) == ("192.0.2.9",)


def test_a_lock_that_names_no_readable_study_is_no_defect(elsewhere: Make) -> None:
    found = elsewhere({"run": "true"})
    found.lock_path.write_text(found.lock_path.read_text().replace(found.lock().study_dir, "/bin/sh"))
    refused(found)


def test_of_much_that_asks_for_trust_some_is_named(elsewhere: Make) -> None:
    secrets = {f"s{n}": f"S{n}" for n in range(50)}
    found = elsewhere({"run": "true", "environment": {"A": "b" * 5000}}, secrets=secrets)
    result = refused(found)
    assert "lab.app.run: true; lab.app.environment: {'A': 'bbb" in result
    assert "and 47 more" in result
    assert len(result) < 1000


@pytest.mark.parametrize("change", [{"case": "nope"}, {"case": "../.."}])
def test_a_plan_of_other_cases_than_the_locks_is_refused(elsewhere: Make, change: dict[str, str]) -> None:
    found = elsewhere(HARMLESS)
    batch = json.loads(found.batch_path(0).read_text())
    batch["trials"][0] |= change
    found.batch_path(0).write_text(json.dumps(batch))
    refused(found, "run-damaged")


@pytest.mark.parametrize("variable", ["GITHUB_TOKEN", "PGPASSFILE", "SSH_KEY"])
def test_what_a_study_reads_of_the_environment_is_asked_for_once(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`plan` names it, `run` asks for it, and neither reads it before; what the user typed needs no trust."""
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
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
def test_an_edited_study_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
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


def test_refusals_before_a_run_are_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    found = study({"run": "touch acted"})
    found["lab"]["away"] = {"at": "http://192.0.2.9/"}
    found["factors"] = {"way": ["app", "away"]}
    found["requests"] = {"get": {"get": "http://${way}/"}}
    gate = {"metric": "response.p50", "fail_if": "worse by more than 5 %"}
    found["compare"] = [{"factor": "way", "baseline": "app", **gate}]
    (tmp_path / "study.yaml").write_text(json.dumps(found))
    codes = [problem.code for problem in refused_run(tmp_path)]
    assert codes == ["study-untrusted", "study-undecidable", "unauthorised-target"]
