"""The collaboration cloud of studies/003-collaboration as a lab of svload."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.bounds import HANG_S
from tests.servers import completed, wait_until

from .world import World

STUDY = Path(__file__).parents[2] / "studies" / "003-collaboration"


@pytest.mark.truth
@pytest.mark.parametrize("lacking", [("java", "javac", "mvn"), ("javac",)])
def test_without_a_jdk_one_line_says_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacking: tuple[str, ...]
) -> None:
    path = tmp_path / "path"
    path.mkdir()
    for name in {"java", "javac", "mvn"} - set(lacking):
        (path / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(path))
    ended = World(world.root, anew=True).svload("lab", "up", str(STUDY), "--trust")
    assert ended.returncode == 3
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("svload: ")]
    assert "javac" in line
    assert "apt-get install default-jdk-headless" in line
    assert world.left() == []


@pytest.mark.real
@pytest.mark.maven
def test_a_lab_of_three_servers_answers_a_load(world: World, needs: Callable[..., None]) -> None:
    needs("root", "nsenter", "javac", "mvn")
    lab = world.json("lab", "up", str(STUDY), "--trust", "--for", "10min", bound_s=10 * HANG_S)
    balancer = lab["endpoints"]["http://balancer"]
    host = str(urlsplit(balancer).hostname)
    inside = ("nsenter", f"--net={lab['network']}", sys.executable, "-m", "svload")
    seen = f"import urllib.request; print(urllib.request.urlopen('{balancer}/health', timeout=5).read())"
    asked = ("nsenter", f"--net={lab['network']}", sys.executable, "-c", seen)
    wait_until(lambda: b'"servers":3' in subprocess.run(asked, capture_output=True, check=False).stdout)
    for page in ("/presence/ann", "/sessions"):
        how = ("--authorise", host, "--duration", "1s", "--vus", "4", "--json")
        load = (*inside, "load", balancer + page, *how)
        ended = completed(load, env=world.env)
        found = json.loads(ended.stdout)
        assert found["ok"] > 0, ended.stderr
        assert found["failed"] == 0
    world.succeed("lab", "down")
