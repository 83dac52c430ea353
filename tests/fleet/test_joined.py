"""`svload run --scheduler`: a user's Dask cluster generates the load, and is left unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.servers import certified, completed, wait_until

from svload.fleet.joined import _must_have_svload, reaches_of, workers_of
from svload.host.machine import linux
from svload.host.machine.sock_diag import listening_sockets
from svload.model.errors import SvloadError
from svload.store import RunDir, read_trial
from svload.watch.proc import families

STUDY = """\
name: joined
question: Do a cluster's workers ask for the same as one machine?
lab: {web: {kit: truth, role: store, service_time: 1 ms, workers: 16}}
traffic:
  users:
    executor: constant-arrival-rate
    rate: 100/s
    generators: 2
    record: rows
    request: {get: http://web/v1/a/c/o, expect_status: 404, timeout: 2s}
measure: {duration: 2s, replicates: 1}
"""


@dataclass
class Cluster:
    """A scheduler and its workers, started as users start them."""

    folder: Path
    environment: dict[str, str]
    protocol: str
    address: str = ""
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def svload(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return completed(
            [sys.executable, "-m", "svload", *words], cwd=self.folder, env={**self.environment, **environment}
        )

    def start(self, stack: ExitStack, name: str, words: list[str], **more: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**self.environment, "SVLOAD_STATE": str(self.folder / name), **more},
            )  # fmt: skip
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)
        return process

    def worker(self, stack: ExitStack, name: str, *words: str, **more: str) -> None:
        place = ["--name", name, "--host", "127.0.0.1", "--local-directory", str(self.folder / "scratch")]
        program = ["distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-dashboard"]
        self.workers[name] = self.start(stack, name, [*program, *place, *words], **more)

    def processes(self) -> dict[int, list[str]]:
        """Return pid → command line of the workers and their descendants."""
        found = {}
        for pid in families([one.pid for one in self.workers.values()], linux.processes()):
            with suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return found

    def listening(self) -> set[int]:
        """Return the ports that they listen on."""
        held = set().union(*map(linux.descriptors, self.processes()))
        return {one.port for one in listening_sockets() if f"socket:[{one.inode}]" in held}


@contextmanager
def cluster(folder: Path, protocol: str = "tcp", **environment: str) -> Iterator[tuple[Cluster, ExitStack]]:
    """Start a scheduler on loopback; the test starts workers."""
    own = {f"SVLOAD_{name.upper()}": str(folder / name) for name in ("state", "cache", "lock")}
    made = Cluster(folder, {**os.environ, **own, **environment}, protocol)
    result = folder / "scheduler.json"
    words = (
        f"--host 127.0.0.1 --port 0 --protocol {protocol} --no-dashboard --scheduler-file {result}".split()
    )
    with ExitStack() as stack:
        made.start(stack, "scheduler", ["distributed.cli.dask_scheduler", *words])
        wait_until(lambda: result.exists() and result.read_text().endswith("}"))
        made.address = json.loads(result.read_text())["address"]
        yield made, stack


def certificates(folder: Path) -> dict[str, str]:
    """Make a cluster's own certificates, named as Dask's users name them."""
    issued = certified(folder / "ca.pem", "localhost")
    (folder / "own.pem").write_text(issued["key_pem"] + issued["cert_pem"])
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    own = {f"{prefix}{role}__CERT": str(folder / "own.pem") for role in ("SCHEDULER", "WORKER", "CLIENT")}
    return {f"{prefix}CA_FILE": str(folder / "ca.pem"), **own}


def ready(made: Cluster) -> bool:
    return all((made.folder / f"{name}.log").read_text().count("Registered to:") for name in made.workers)


@pytest.mark.truth
def test_a_clusters_workers_make_the_load_and_stay_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    with cluster(tmp_path, "tls", **certificates(tmp_path)) as (made, stack):
        made.worker(stack, "alpha")
        made.worker(stack, "beta", "--no-nanny")
        wait_until(lambda: ready(made))
        processes, ports = made.processes(), made.listening()
        done = made.svload("run", "study.yaml", "--scheduler", made.address, "--json")
        assert "Traceback" not in done.stderr, done.stderr
        assert "2 workers of the cluster are on 127.0.0.1" in done.stderr
        run = RunDir(tmp_path / json.loads(done.stdout)["run"])
        placement = run.placement()
        assert sorted(placement.machines) == ["alpha", "beta"]
        assert not placement.apart
        (trial,) = (read_trial(run.trial(name).path) for name in run.sealed_trials())
        (users,) = trial.summary.groups
        assert (users.due, users.ok) == (200, 200)
        places = {one.place: one.ok for one in trial.summary.places if one.kind == "machine"}
        assert places == {"alpha": 100, "beta": 100}
        wait_until(lambda: made.processes() == processes)
        wait_until(lambda: made.listening() == ports)
        assert not [path for name in made.workers for path in (tmp_path / name / "labs").glob("*")]
        again = made.svload("resume", str(run.path), "--scheduler", made.address, "--json")
        assert json.loads(again.stdout)["complete"], again.stderr


@pytest.mark.truth
def test_a_killed_svload_leaves_no_load_on_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace("duration: 2s", "duration: 30s"))
    with cluster(tmp_path) as (made, stack):
        made.worker(stack, "alpha")
        made.worker(stack, "beta", "--no-nanny")
        wait_until(lambda: ready(made))
        processes, ports = made.processes(), made.listening()
        words = [sys.executable, "-m", "svload", "run", "study.yaml", "--scheduler", made.address]
        with subprocess.Popen(
            words, cwd=tmp_path, env=made.environment, stderr=subprocess.DEVNULL
        ) as running:
            try:
                journals = "runs/*/trials/*/events.jsonl"
                wait_until(lambda: any('"progress"' in path.read_text() for path in tmp_path.glob(journals)))
            finally:
                running.kill()
        wait_until(lambda: not any("svload.drive.generator" in words for words in made.processes().values()))
        wait_until(lambda: made.processes() == processes and made.listening() == ports)
        assert not [path for name in made.workers for path in (tmp_path / name / "labs").glob("*")]


@pytest.mark.truth
def test_a_worker_must_have_this_svload(tmp_path: Path) -> None:
    for name, text in {"none": "raise ModuleNotFoundError('svload')", "old": "__version__ = '0.0.1'"}.items():
        (tmp_path / name / "svload").mkdir(parents=True)
        (tmp_path / name / "svload" / "__init__.py").write_text(text)
    (tmp_path / "study.yaml").write_text(STUDY)
    with cluster(tmp_path) as (made, stack):
        for name in ("none", "old"):
            made.worker(stack, f"with-{name}", "--no-nanny", PYTHONPATH=str(tmp_path / name))
        wait_until(lambda: ready(made))
        done = made.svload("run", "study.yaml", "--scheduler", made.address)
    assert done.returncode == 3
    assert "with-none has no svload, but this machine has svload " in done.stderr
    assert "with-old has svload 0.0.1, but this machine has svload " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.truth
def test_a_scheduler_without_workers_is_reported(tmp_path: Path) -> None:
    with cluster(tmp_path) as (made, _), pytest.raises(SvloadError) as caught:
        workers_of(made.address)
    assert "it has no worker" in str(caught.value)


def test_all_workers_of_a_large_cluster_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def scheduler_info(n_workers: int = 5) -> object:  # as in distributed 2025.5
        all_of_them = {f"tcp://192.0.2.{n}:1": {"name": f"w{n}"} for n in range(9)}
        return {"workers": dict(list(all_of_them.items())[: n_workers if n_workers >= 0 else None])}

    client = SimpleNamespace(close=lambda timeout: None, scheduler_info=scheduler_info)
    monkeypatch.setattr("distributed.Client", lambda *_, **__: client)
    monkeypatch.setattr("svload.fleet.joined._must_have_svload", lambda client, found: None)
    assert len(workers_of("tcp://192.0.2.99:8786")) == 9


def test_busy_workers_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, waits_s = 0.0, list[float]()

    def result(timeout: float) -> None:
        nonlocal now_s
        now_s += timeout
        waits_s.append(timeout)
        raise TimeoutError

    monkeypatch.setattr("svload.fleet.joined.time", SimpleNamespace(monotonic=lambda: now_s))
    client: Any = SimpleNamespace(submit=lambda *_, **__: SimpleNamespace(result=result))
    workers = reaches_of("tcp://192.0.2.1:8786", {f"tcp://192.0.2.{n}:1": f"w{n}" for n in range(3)})
    with pytest.raises(SvloadError) as caught:
        _must_have_svload(client, workers)
    assert [one.details["host"] for one in caught.value.problems] == ["w0", "w1", "w2"]
    assert waits_s == [30.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", "that is not a scheduler's address"),
        ("http://10.0.0.1:8786", "that is not a scheduler's address"),
        ("tcp://127.0.0.1:9", "can't be used"),
        ("tcp://127.0.0.1:none", "that is not a scheduler's address"),
    ],
)
def test_a_wrong_address_is_one_line(address: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svload.fleet.joined._SCHEDULER_WITHIN_S", 1.0)
    with pytest.raises(SvloadError) as caught:
        workers_of(address)
    assert caught.value.problems[0].code == "fleet-scheduler"
    assert expected in str(caught.value)


def test_workers_names_are_the_machines() -> None:
    names = {
        "tls://192.0.2.7:40001": "slurm/0 a",
        "tls://192.0.2.8:40002": "tls://192.0.2.8:40002",
        "tls://192.0.2.9:40003": "slurm-0-a",
        "tls://127.0.0.1:40004": "3",
    }
    found = reaches_of("tls://192.0.2.1:8786", names)
    assert [(one.name, one.address, one.here) for one in found] == [
        ("3", "127.0.0.1", True),
        ("slurm-0-a", "192.0.2.9", False),
        ("slurm-0-a-40001", "192.0.2.7", False),
        ("192.0.2.8:40002", "192.0.2.8", False),
    ]
    alike = {f"tcp://192.0.2.{host}:40001": name for host, name in enumerate(("a b", "a/b", "a-b"), 1)}
    assert len(reaches_of("tcp://192.0.2.1:8786", alike)) == 3
    with pytest.raises(SvloadError, match="which can't be reached"):
        reaches_of("tcp://192.0.2.1:8786", {"inproc://192.0.2.1/12/3": "0"})
