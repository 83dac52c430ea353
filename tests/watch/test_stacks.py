"""A service's stacks, sampled by perf through the real agent: the hot function of a program made here is
found."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.servers import wait_until

from svload.analysis.stacks import function_shares
from svload.host import Agent, start_agent
from svload.host.machine.linux import namespace_pids, process_stat
from svload.model.facts import ProcessFact, ServiceFacts
from svload.model.messages import Spawn
from svload.watch import stacks
from svload.watch.stacks import StackSampler, cpu_seconds, in_words, rate_hz

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not here")
SHORT_LIVED = """
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) double burn(long turns) { volatile double x = 1; for (long i = 0; i < turns; i++) x = x * 1.0000001 + 0.1; return x; }
int main(void) { for (;;) { if (fork() == 0) { burn(200000); _exit(0); } wait(0); } }
"""


def cpu_bound(folder: Path) -> Path:
    """Start a program whose children each live for less than a sampling period, and spend it in `burn`."""
    source, program = folder / "hot.c", folder / "hot"
    source.write_text(SHORT_LIVED)
    subprocess.run(["gcc", "-O2", "-o", str(program), str(source)], check=True)
    return program


@contextmanager
def served(folder: Path, *argv: str) -> Iterator[tuple[Agent, ServiceFacts]]:
    with start_agent(folder / "lab", "a test of sampling") as agent:
        (made,) = agent.prepare([Spawn(child="it", role="server", argv=argv, log=str(folder / "log"))])
        process = ProcessFact(name="it", pid=made["pid"], start_ticks=made["start_ticks"])
        yield agent, ServiceFacts(service="it", kit="command", version="1", processes=(process,))


def until_used(seconds: float, pid: int) -> Callable[[], bool]:
    """Return whether a process and its children have used this much CPU from now on."""

    def used() -> float:
        found = process_stat(pid)
        return found.cpu_seconds if found else 0.0

    before = used()
    return lambda: used() - before >= seconds


@pytest.mark.real
@needs_perf
def test_the_hot_function_of_processes_that_live_shortly_is_named(tmp_path: Path) -> None:
    with served(tmp_path, str(cpu_bound(tmp_path))) as (agent, facts):
        sampler = StackSampler(agent, agent.dir, facts, before_s=0.0)
        sampler.begin()
        assert sampler.problem is None, in_words(sampler.problem)
        from_ns = time.monotonic_ns()
        wait_until(until_used(1.0, facts.processes[0].pid))
        found = sampler.stacks(from_ns, time.monotonic_ns())
        assert agent.exited("stacks") is not None
        left = sorted(path.name for path in agent.dir.iterdir() if path.name.startswith("perf"))
    assert (found.why, left) == ("", [])
    shares = {one.name: one for one in function_shares(found.folded)}
    assert shares["burn"].own > 0.5 * found.samples > 20
    assert shares["main"].inclusive >= shares["burn"].own
    assert found.samples == sum(found.folded.values())
    assert found.samples / found.rate_hz < 2 * found.window_s
    assert 0 < found.sampler_cpu_s < found.window_s


@pytest.mark.real
@needs_perf
def test_a_service_that_uses_no_cpu_gives_no_profile_and_the_next_trial_can_have_one(tmp_path: Path) -> None:
    with served(tmp_path, "sleep", "600") as (agent, facts):
        for _ in range(2):
            sampler = StackSampler(agent, agent.dir, facts, before_s=0.0)
            sampler.begin()
            at_ns = time.monotonic_ns()
            found = sampler.stacks(at_ns, at_ns + 1)
            assert "no process of it used CPU" in found.why
            assert found.samples == 0


def test_without_perf_nothing_starts_and_its_errors_have_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "shutil", SimpleNamespace(which=lambda name: None))
    with served(tmp_path, "sleep", "600") as (agent, facts):
        sampler = StackSampler(agent, agent.dir, facts, before_s=0.0)
        sampler.begin()
        found = sampler.stacks(0, 1)
        denied = sampler._told("Error:\nAccess to performance monitoring: perf_event_paranoid setting is 4\n")
        odd = sampler._told("first\n  invalid or unsupported event\n")
    assert found.why == (
        "The profile of it is not measured: perf is not on this machine. As root: apt-get install linux-perf."
    )
    assert found.folded == {}
    assert "root" in in_words(denied) and "kernel.perf_event_paranoid=0" in in_words(denied)
    assert "perf failed: invalid or unsupported event." in in_words(odd)


def test_cpu_of_a_shells_children_is_counted() -> None:
    assert cpu_seconds("words\n0m0.000s 0m0.010s\n1m2.500s 0m0.250s\n") == pytest.approx(62.75)
    assert cpu_seconds("killed") is None


def test_many_cores_are_sampled_less_often_and_never_not_at_all() -> None:
    assert (rate_hz(1), rate_hz(2), rate_hz(64), rate_hz(10_000)) == (99, 99, 6, 1)


def test_a_process_has_another_number_in_a_namespace_below(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text("Name:\tit\nNSpid:\t7\t2\n")
    assert namespace_pids(7, str(tmp_path)) == [7, 2]
    assert namespace_pids(8, str(tmp_path)) == []
