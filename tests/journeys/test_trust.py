"""Studies and runs made by somebody else, on the real command line: nothing acts before it is trusted."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import program

from .world import World, checks_of, complete, only_run

pytestmark = pytest.mark.truth
SERVER = Path(__file__).parents[2] / "examples" / "two-builds" / "builds" / "main" / "server"
TRUTH = {"kit": "truth", "role": "store"}


def downloaded(world: World, lab: dict[str, Any], **more: Any) -> Path:
    folder = world.root / "downloaded"
    folder.mkdir()
    study = {
        "name": "downloaded",
        "lab": lab,
        "requests": {"get": {"get": "http://app/"}},
        "traffic": {"users": {"executor": "constant-vus", "vus": 1, "request": "get"}},
        "measure": {"duration": "1s", "replicates": 1},
    }
    (folder / "study.yaml").write_text(json.dumps(study | more))
    return folder


def labs(acted: Path) -> dict[str, dict[str, Any]]:
    """Labs that would write `acted`, or connect to the outside; all options of all kits:
    tests/conformance/test_kits.py."""
    return {
        "command": {"app": {"run": f"touch {acted}"}},
        "nginx": {"app": {"kit": "nginx", "tuning": {"error_log": str(acted)}}},
        "forwards": {"app": {"kit": "nginx", "of": "away"}, "away": {"at": "http://192.0.2.9:80"}},
    }  # fmt: skip


@pytest.mark.parametrize("kind", list(labs(Path("acted"))))
def test_a_downloaded_study_acts_nowhere(world: World, kind: str) -> None:
    acted = world.root / "acted"
    folder = downloaded(world, labs(acted)[kind])
    asked = "--authorise 192.0.2.9" if kind == "forwards" else "--trust"
    out = ("--out", str(world.runs))
    for command in (("run", str(folder), *out), ("lab", "up", str(folder)), ("aa", str(folder), *out)):
        ended = world.svload(*command)
        assert ended.returncode == 2, (command, ended.stderr)
        assert asked in ended.stderr
        assert ended.stderr.count("\n") == 1
        assert not acted.exists()
        assert list(world.runs.iterdir()) == []
    planned = world.svload("plan", str(folder))
    assert ("--trust" in planned.stdout) == (asked == "--trust")


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_without_a_umask_state_is_the_users_alone(world: World) -> None:
    folder = downloaded(world, {"app": TRUTH})
    alone = World(world.root, anew=True)
    up = alone.svload("lab", "up", str(folder), "--trust", "--for", "1min")
    try:
        assert up.returncode == 0, up.stderr
        state = world.root / "state"
        modes = {
            path: stat.S_IMODE(path.stat().st_mode)
            for path in (state, *state.rglob("*"))
            if not path.is_symlink()
        }
        assert [path for path, mode in modes.items() if path.is_dir() and mode & 0o022] == []
        assert modes[state] == 0o700
        names = ("keeper.sock", "agent.sock", "trusted.json")
        closed = {
            path.name: mode for path, mode in modes.items() if path.suffix == ".sock" or path.name in names
        }
        assert closed == dict.fromkeys(names, 0o600)
        alone.succeed("lab", "reset")
    finally:
        ended = alone.svload("lab", "down")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.usefixtures("no_umask")
def test_nobody_else_may_write_in_a_run(world: World) -> None:
    folder = downloaded(world, {"app": TRUTH})
    ended = World(world.root, anew=True).svload("run", str(folder), "--out", str(world.runs))
    run = only_run(world)
    complete(run, ended.stderr)
    files = (path for path in (run, *run.rglob("*")) if not path.is_symlink())
    assert [path for path in files if path.stat().st_mode & 0o022] == []
    assert run.stat().st_mode & 0o055 == 0o055, "a umask that lets others read still does"


def test_trials_of_another_build_are_left_out(world: World) -> None:
    """`resume` refuses to measure another build, `--changed-build` leaves out what was measured before,
    and `verify` reports it."""
    folder = downloaded(world, {"app": {"run": f"{sys.executable} ./server --port ${{port}}"}})
    shutil.copy2(SERVER, folder / "server")
    words = ("run", str(folder), "--trust", "--replicates", "3", "--duration", "1s", "--out", str(world.runs))
    with world.start(*words) as running:
        assert running.wait_for(lambda lines: any("[1/3]" in line for line in lines))
        running.process.terminate()
        assert running.end() == 130
    run = str(only_run(world))
    sealed = {path.parent.name for path in only_run(world).glob("trials/*/seal.json")}
    with (folder / "server").open("a") as file:
        file.write("\n# another build\n")
    for more in ((), ("--trust",)):
        refused = world.svload("resume", run, *more)
        assert refused.returncode == 2
        assert "server changed" in refused.stderr and "--changed-build" in refused.stderr
    trials = complete(only_run(world), world.svload("resume", run, "--changed-build").stderr)["trials"]
    assert len(trials) == 3
    assert {one["trial"] for one in trials if checks_of(one)["build"]["grade"] == "REFUSED"} == sealed
    verified = world.succeed("verify", run)
    assert "measured with a different build than later trials" in verified.stderr


DUMPS = program(before='json.dump(dict(os.environ), open("seen.json", "w"))')


@pytest.mark.parametrize("named", [False, True])
def test_a_server_inherits_named_secrets(world: World, named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("API_TOKEN", "hush"), ("OTHER_FILE", "/hush"), ("PLAIN", "seen")):
        monkeypatch.setenv(name, value)
    service = {"run": f"{sys.executable} server.py ${{port}}"} | ({"secrets": ["token"]} if named else {})
    folder = downloaded(world, {"app": service}, secrets={"token": "API_TOKEN", "other": "OTHER"})
    (folder / "server.py").write_text(DUMPS)
    world.succeed("lab", "up", str(folder), "--trust", "--for", "1min")
    world.succeed("lab", "down")
    seen = json.loads((folder / "seen.json").read_text())
    assert seen["PLAIN"] == "seen"
    assert "OTHER_FILE" not in seen
    assert seen.get("API_TOKEN") == ("hush" if named else None)
