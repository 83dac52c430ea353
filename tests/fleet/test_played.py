"""Parsing of Ansible's events: each failure becomes one error of the catalogue, which states what to do."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from svload.fleet import actions
from svload.fleet.ansible import PLAYS
from svload.fleet.inventory import Fleet, Member
from svload.fleet.played import NO_PYTHON, understand


def event(kind: str, task: str, host: str = "h1", **res: Any) -> dict[str, Any]:
    return {"event": f"runner_on_{kind}", "event_data": {"host": host, "task": task, "res": res}}


def test_output_and_changes_of_a_step() -> None:
    ignored = event("failed", "x", msg="no")
    ignored["event_data"]["ignore_errors"] = True
    events = [
        event("ok", "read the machine", stdout=json.dumps({"cores": 2}), changed=False),
        event("ok", "copy", changed=True),
        event("ok", "loud", stdout="no object", changed=True),
        event("ok", "copy", host="stranger", changed=True),
        {"event": "verbose", "event_data": {}},
        ignored,
    ]
    found = understand(events, ["h1", "h2"])
    assert found["h1"].answers == {"read the machine": {"cores": 2}}
    assert (found["h1"].changed, found["h1"].problems) == (2, []), "what a play ignores is no failure"
    assert (found["h2"].changed, found["h2"].answers) == (0, {})


SSH = "Failed to connect to the host via ssh: "
INDEX, STRANGE = (
    json.dumps({"problem": name, "reason": "no rich"}) for name in ("fleet-no-index", "none-of-ours")
)
ITEMS = [{"failed": False}, {"failed": True, "msg": "No file"}]
LOST, BROKEN = (partial(event, kind) for kind in ("unreachable", "failed"))


@pytest.mark.parametrize(
    ("failed", "code", "says"),
    [
        (LOST("x", msg=f"{SSH}ssh: connect to host h port 22: Connection refused"), "unreachable", "refused"),
        (LOST("x", msg=f"{SSH}root@h1: Permission denied (publickey)."), "unreachable", "ssh-copy-id"),
        (LOST("x", msg="Failed to create temporary directory."), "step", "no permission, or no space"),
        (
            BROKEN("find Python", rc=NO_PYTHON, stdout="python3: Python 3.9.2\r\n"),
            "no-python",
            "Python 3.9.2",
        ),
        (BROKEN("install the package", rc=1, stdout=INDEX), "no-index", "--wheelhouse"),
        (
            BROKEN("copy", msg="OSError: [Errno 28] No space left on device", dest="/opt/x"),
            "disk-full",
            "/opt/x",
        ),
        (BROKEN("copy", msg="it broke.\nBadly."), "step", "at “copy”: Badly."),
        (BROKEN("x", rc=1, stdout=STRANGE, msg="odd"), "step", "odd"),
        (BROKEN("copy", msg="One or more items failed", results=ITEMS), "step", "at “copy”: No file"),
    ],
)
def test_failures(failed: dict[str, Any], code: str, says: str) -> None:
    (problem,) = understand([failed], ["h1"])["h1"].problems
    text = str(problem)
    assert problem.code == f"fleet-{code}"
    assert says in text and "h1" in text and "\n" not in text
    assert problem.remedy


def test_an_interrupted_check_frees_the_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    members = tuple(Member(f"h{at}", f"192.0.2.{at}", True, False, "", 17700) for at in range(3))
    ended: list[str] = []
    monkeypatch.setattr(actions, "_fleet", lambda inventory: Fleet("", members))
    monkeypatch.setattr(actions.exchange, "tell_to_end", lambda address, port, word: ended.append(address))

    def interrupt(*_: Any, svload_seconds: int, **__: Any) -> None:
        assert svload_seconds > 300, "more for each machine, since they are measured in turn"
        raise KeyboardInterrupt

    monkeypatch.setattr(actions, "_play", interrupt)
    with pytest.raises(KeyboardInterrupt):
        actions.check(Path("hosts.yaml"), lambda host, step: None)
    assert sorted(ended) == [one.address for one in members]


def test_copies_are_removed_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, wheel, copies = tmp_path / "study", tmp_path / "svload-1.whl", list[Path]()
    study.mkdir()
    for file in (study / "study.yaml", wheel):
        file.write_text("")
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(actions, "_fleet", lambda inventory: Fleet("", ()))
    monkeypatch.setattr(actions, "_play", lambda *_, svload_study, **__: copies.append(Path(svload_study)))
    actions.install(Path("hosts.yaml"), actions.Package(wheel), lambda host, step: None, study)
    assert copies[0].parents[1] == tmp_path / "state" / "passing", "which later commands clear"
    assert not copies[0].parent.exists()


@pytest.mark.parametrize("file", sorted(PLAYS.rglob("*.yaml")), ids=lambda file: file.stem)
def test_programs_on_machines_import_nothing_from_a_home_folder(file: Path) -> None:
    for play in yaml.safe_load(file.read_text(encoding="utf-8")):
        for task in play.get("tasks", [play]):
            words = task.get("ansible.builtin.command", {}).get("argv", [])
            if isinstance(words, list) and "-" in words:
                assert words[1:3] == ["-I", "-"], task["name"]
