"""Planned faults on the servers of a running lab, and that everything is restored."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.evolve import evolve
from tests.servers import program, wait_until

from svload.host import Agent
from svload.host.process import cgroups
from svload.lab import all_kits
from svload.lab.lab import Lab
from svload.model.errors import SvloadError
from svload.model.study import ObjectSet

from .conftest import gone, settings_of, spec

pytestmark = pytest.mark.truth
SERVER = program(
    "self.answer(str(os.getpid()).encode())",
    before="""
    if os.path.exists("fails"):
        sys.exit("it was told to fail")
    while os.fork() == 0:  # a worker of its own session, as servers have them
        os.setsid()
        time.sleep(600)
    """,
)
WEB = spec("web", "command", run=f"{sys.executable} server.py ${{port}}", ready="GET /", replicas=2)


@pytest.fixture
def make(tmp_path: Path, up: Callable[..., Lab], needs: Callable[..., None]) -> Callable[..., Lab]:
    needs("root")
    (tmp_path / "server.py").write_text(SERVER)
    return up


def ports(lab: Lab) -> list[int]:
    return [one.port for one in lab.facts()["web"].endpoints]


def answered(port: int, within_s: float = 5.0) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=within_s) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


@pytest.mark.parametrize("do", ["stop", "kill"])
def test_one_replica_ends_and_starts_again_at_the_same_port(make: Callable[..., Lab], do: Any) -> None:
    lab = make(WEB)
    first, second = ports(lab)
    before = answered(second)
    lab.faults.act(do, "web[2]", "", {})
    assert (answered(second), answered(first)) != (None, None)
    assert answered(second) is None
    assert lab.alive() == [], "what was planned is no failure of the lab"
    assert (lab.faults.is_down("web[2]"), lab.faults.is_down("web[1]")) == (True, False)
    assert lab.counters() == {}
    pids = [one.pid for one in lab.facts()["web"].processes]
    lab.faults.act("start", "web[2]", "", {})
    assert answered(second) not in (None, before)
    assert ports(lab) == [first, second]
    now = [one.pid for one in lab.facts()["web"].processes]
    assert (now[0], now[1] != pids[1]) == (pids[0], True)
    assert lab.faults.was_ended("web[2]"), "until all is healed"
    assert lab.faults.heal() == []
    assert not lab.faults.was_ended("web[2]")


def test_a_pause_holds_all_its_processes_and_heal_lets_them_go(make: Callable[..., Lab], host: Agent) -> None:
    lab = make(WEB)
    first, second = ports(lab)
    lab.faults.act("pause", "web[2]", "", {})
    assert answered(second, 0.3) is None
    assert answered(first) is not None
    assert lab.alive() == []
    assert lab.faults.heal() == ["web[2]"]
    assert answered(second) is not None
    lab.faults.act("kill", "web[2]", "", {})
    host.stop(["web[1].server"], now=True)
    unplanned = [problem.details["service"] for problem in lab.alive()]
    assert unplanned == ["web[1].server"], "an end that nobody planned stays a failure"


def test_limits_change_while_it_runs_and_are_put_back(make: Callable[..., Lab]) -> None:
    limited = evolve(WEB, options={**WEB.options, "pids": 60})
    lab = make(limited, live_limits={"web": ("cpus", "pids")})
    groups = {one.name: one.paths for one in lab.facts()["web"].groups}
    assert cgroups.read_back(groups["web[2]"]) == {"pids": 60}
    assert lab.faults.act("limit", "web[2]", "", {"cpus": 0.2, "pids": 40.0}) == {"cpus": 0.2, "pids": 40}
    assert cgroups.read_back(groups["web[2]"]) == {"cpus": 0.2, "pids": 40}
    assert cgroups.read_back(groups["web[1]"]) == {"pids": 60}
    lab.faults.act("restore", "web[2]", "", {"cpus": 0.2})
    assert cgroups.read_back(groups["web[2]"]) == {"pids": 40}
    assert lab.faults.heal() == ["web[2]"]
    assert cgroups.read_back(groups["web[2]"]) == {"pids": 60}


def test_heal_and_a_new_bring_up_undo_faults(make: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make(WEB)
    lab.faults.act("stop", "web[1]", "", {})
    lab.faults.act("kill", "web[2]", "", {})
    assert sorted(lab.faults.heal()) == ["web[1]", "web[2]"]
    assert None not in map(answered, ports(lab))
    lab.faults.act("kill", "web[2]", "", {})
    lab.apply(lab.specs, restart=True)
    assert not lab.faults.is_down("web[2]")
    assert None not in map(answered, ports(lab))
    lab.faults.act("stop", "web[2]", "", {})
    (tmp_path / "fails").touch()
    with pytest.raises(SvloadError, match=r"web\[2\]\.server exited unexpectedly"):
        lab.faults.act("start", "web[2]", "", {})
    assert lab.faults.is_down("web[2]"), "it is to be healed still"


def test_a_store_that_holds_its_objects_in_memory_has_them_again(make: Callable[..., Lab]) -> None:
    lab = make(spec("store", "truth", role="store"))
    objects = ObjectSet(name="things", service="store", count=5, containers=1, size={"constant": 100})
    before = lab.stores.fill(objects, 1).table.columns()
    lab.faults.act("kill", "store", "", {})
    lab.faults.act("start", "store", "", {})
    assert lab.stores.listed(objects).columns() == before


@pytest.mark.parametrize(
    ("kit", "options", "changed", "setting"),
    [
        ("truth", {"role": "store"}, {"rate_limit": "1 MiB/s"}, ("rate_limit", str(1 << 20))),
        ("redis", {}, {"connections": 50}, ("maxclients", "50")),
        ("varnish", {"of": "site"}, {"tuning": {"send_timeout": 77}}, ("send_timeout", "77")),
    ],
)
def test_what_was_set_while_it_ran_is_set_again(
    up: Any, needs: Any, kit: str, options: Any, changed: Any, setting: tuple[str, str]
) -> None:
    needs(*all_kits()[kit].programs)
    site = spec("site", "truth", role="store")
    lab = up(site, spec("web", kit, **options))
    assert lab.apply([site, spec("web", kit, **options, **changed)]) == []
    assert setting in settings_of(lab.facts()["web"]).items()
    lab.faults.act("kill", "web", "", {})
    lab.faults.act("start", "web", "", {})
    assert setting in settings_of(lab.facts()["web"]).items()


def test_its_tls_front_goes_with_it(make: Callable[..., Lab], needs: Callable[..., None]) -> None:
    needs("hitch")
    lab = make(evolve(WEB, options={**WEB.options, "replicas": None, "tls": "hitch"}))
    pids = {one.name: one.pid for one in lab.facts()["web"].processes}
    lab.faults.act("stop", "web", "", {})
    wait_until(lambda: gone([*pids.values()]))
    lab.faults.act("start", "web", "", {})
    now = {one.name: one.pid for one in lab.facts()["web"].processes}
    assert now.keys() == pids.keys()
    assert not set(now.values()) & set(pids.values())
    assert lab.alive() == []
