"""Steps before a trial on a user's own servers: populate, restart, drop_cache, in the study's order and
not part of what is measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.servers import program

from svload import api
from svload.model.errors import SvloadError
from svload.store import RunDir, read_trial

from .world import World, only_run

pytestmark = pytest.mark.truth
SERVER = program(
    """
    if kind == "web":
        with urllib.request.urlopen("http://127.0.0.1:" + os.environ["STORE_PORT"] + self.path) as answer:
            told = answer.read()
    else:
        if self.path.startswith("/put/"):
            held.append(self.path)
        told = str(len(held)).encode()
    self.answer(told)
    """,
    before="import urllib.request\nkind, held = sys.argv[2], []",
)
STUDY = """\
name: steps
lab:
  store: {build: {make: target}, run: "${build}/server ${port} store", files: {1kB: 1 kB}}
  web: {build: {make: target}, run: "${build}/server ${port} web", environment: {STORE_PORT: "${store.port}"}, replicas: "${web}"}
  front: {kit: nginx, of: web, files: {/x: 1 B}}
factors:
  web: [1, 2]
feeders:
  number: {range: [1, 30], take: sequential}
before_trial:
  - restart: store
  - drop_cache: store
  - populate: filling
traffic:
  filling: {executor: shared-iterations, vus: 3, iterations: 30, request: {get: "http://front/put/${number.value}", check: [status == 200]}}
  readers: {executor: constant-vus, vus: 2, think_time: 20 ms, request: {get: http://front/held, check: ["body matches ^30$"]}}
measure: {duration: 0.2s, replicates: 2}
thresholds: [readers.success_rate >= 99 %]
"""


@pytest.fixture
def study(world: World) -> Path:
    """Write a study with two servers of a user's own, built by make."""
    target = world.root / "target"
    target.mkdir()
    (target / "server").write_text(SERVER)
    (target / "server").chmod(0o755)
    (target / "Makefile").write_text("all:\n\t@true\n")
    return world.root / world.study(STUDY)


def test_a_store_is_started_again_and_filled_before_each_trial(world: World, study: Path) -> None:
    world.run(study, "--trust")
    run = RunDir(only_run(world))
    assert len(run.sealed_trials()) == 4
    pids = set()
    for name in run.sealed_trials():
        trial = read_trial(run.trial(name).path)
        (readers,) = trial.summary.groups
        assert readers.failed == 0, "each answer says that all 30 were stored, in a store that began empty"
        assert readers.ok > 0
        (filling,) = trial.summary.populated
        assert (filling.name, filling.due, filling.ok) == ("filling", 30, 30)
        proof = trial.lab.reset["store"]
        assert (proof["files_bytes"], proof["restarted"][0]) == (1000, "store")
        pids.add(tuple(proof["pids"]))
        assert {"restart", "drop-cache", "populate"} <= set(trial.lab.phases_s)
        levels = run.lock().case(trial.summary.case).levels
        web = next(facts for facts in trial.lab.services if facts.service == "web")
        assert len(web.processes) == int(levels["web"])
    assert len(pids) == 4


def test_a_population_that_fails_is_no_trial(world: World, study: Path) -> None:
    study.write_text(STUDY.replace("http://front/put/${number.value}\", check: [status == 200]", "http://front/put/${number.value}\", expect_status: 404"))  # fmt: skip
    done = world.svload("run", str(study), "--trust", "--only", "web-1", "--json")
    assert done.returncode == 3
    assert "0 of 30 requests of filling were ok" in done.stderr + done.stdout
    assert not RunDir(only_run(world)).sealed_trials()


SLIPS = [
    ("populate: filling", "populate: filing", "no such traffic group"),
    ("executor: shared-iterations, vus: 3, iterations: 30,", "executor: constant-vus, vus: 3,", "needs a duration"),
    ("readers: {executor: constant-vus, vus: 2,", "readers: {when: {web: 1}, executor: constant-vus, vus: 2,", "no traffic group is left where web: 2"),
    ("[readers.success_rate", "[filling.success_rate", "filling"),
    ("replicas: \"${web}\"", "replicas: 2, port: 9000", "cannot listen on one port"),
    ("http://front/held", "http://web/held", "a connection goes to one of them"),
    ("  - drop_cache: store", "  - {drop_cache: store, lasts: 3s}", "lasts belongs to populate"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), SLIPS)
def test_a_mistake_is_reported_before_the_start(study: Path, old: str, new: str, says: str) -> None:
    assert STUDY.count(old) == 1, old
    study.write_text(STUDY.replace(old, new))
    with pytest.raises(SvloadError, match=re.escape(says)):
        api.plan(str(study), api.Choices())
