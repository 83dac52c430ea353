"""A service's stacks, sampled by perf through the real agent, and the folding of perf's output."""

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
from svload.model.stacks import KERNEL
from svload.watch import stacks
from svload.watch.folding import MOST_STACKS, OTHER, fold, short_name
from svload.watch.stacks import StackSampler, cpu_seconds, in_words, rate_hz

needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not here")
SHORT_LIVED = """
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) double burn(long turns) { volatile double x = 1; for (long i = 0; i < turns; i++) x = x * 1.0000001 + 0.1; return x; }
int main(void) { for (;;) { if (fork() == 0) { burn(200000); _exit(0); } wait(0); } }
"""


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
    """Each lives for less than a sampling period, and spends it in `burn`."""
    (tmp_path / "hot.c").write_text(SHORT_LIVED)
    subprocess.run(["gcc", "-O2", "-o", "hot", "hot.c"], cwd=tmp_path, check=True)
    with served(tmp_path, str(tmp_path / "hot")) as (agent, facts):
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


def test_errors_of_perf_have_remedies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "shutil", SimpleNamespace(which=lambda name: None))
    with served(tmp_path, "sleep", "600") as (agent, facts):
        sampler = StackSampler(agent, agent.dir, facts, before_s=0.0)
        sampler.begin()
        found = sampler.stacks(0, 1)
        denied = sampler._problem_of(
            "Error:\nAccess to performance monitoring: perf_event_paranoid setting is 4\n"
        )
        odd = sampler._problem_of("first\n  invalid or unsupported event\n")
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


# folding of perf's output: the service's own processes, in the window, functions by short names


SECOND = 1_000_000_000
PRINTED = """\
         swapper     0/0         0.000000000: PERF_RECORD_FORK(7:7):(1:1)
          server     7/7         0.000000000: PERF_RECORD_COMM: server:7/7
server     7/7        10.000000001:
\t            1215 (anonymous namespace)::answer (/opt/a b/server)
\t            10d5 main (/opt/a b/server)

server     7/9        11.500000000:
\tffffffff81a01234 tcp_sendmsg ([kernel.kallsyms])
\tffffffff81a01000 [unknown] ([unknown])
\t            1215 (anonymous namespace)::send_file (/opt/a b/server)
\t           271ca [unknown] (/usr/lib/libc.so.6)

          server     7/7        12.000000000: PERF_RECORD_FORK(20:20):(7:7)
with space 1  20/20       12.100000000:
\t            1215 checked (/opt/a b/server)

stranger    30/30       12.200000000:
\t            1215 main (/opt/other)

          server     7/7        12.300000000: PERF_RECORD_LOST lost 5
server     7/7        13.000000000:
\t            1215 late (/opt/a b/server)
""".splitlines()


def test_the_services_stacks_of_the_window_are_folded_from_the_outermost() -> None:
    found = fold(PRINTED, {7}, 10 * SECOND, 13 * SECOND)
    assert found.stacks == {
        "server;main;answer": 1,
        f"server;[libc.so.6];send_file;[kernel]{KERNEL};tcp_sendmsg{KERNEL}": 1,
        "with space 1;checked": 1,
    }
    assert (found.samples, found.lost) == (3, 5)
    window = {(1, 1): 4, (2, 0): 2}  # it begins with its first nanosecond and ends before its last
    for (later_ns, longer_ns), samples in window.items():
        assert fold(PRINTED, {7}, 10 * SECOND + later_ns, 13 * SECOND + longer_ns).samples == samples


def test_another_process_with_the_pid_of_an_ended_one_does_not_belong_to_the_service() -> None:
    assert fold(PRINTED, {30}, 0, 20 * SECOND).stacks == {"stranger;main": 1}
    again = ["stranger 30/30 12.400000000: PERF_RECORD_FORK(20:20):(30:30)"]
    again += ["stranger 20/20 12.500000000: ", "\t 1215 main (/opt/other)"]
    assert fold([*PRINTED, *again], {7}, 12 * SECOND, 13 * SECOND).stacks == {"with space 1;checked": 1}


def test_a_thread_that_has_ended_bears_its_process_s_name() -> None:
    text = [
        "          server     7/7         0.000000000: PERF_RECORD_COMM: a server:7/7",
        "          server     7/7        1.000000000: PERF_RECORD_FORK(20:20):(7:7)",
        ":-1     7/-1        2.000000000: ",
        "\t ffffffff81a01234 do_exit ([kernel.kallsyms])",
        "",
        ":20    20/20        2.000000000: ",
        "\t 1215 main (/opt/server)",
    ]
    assert fold(text, {7}, 0, 9 * SECOND).stacks == {f"a server;do_exit{KERNEL}": 1, "a server;main": 1}


def sample(*functions: str) -> list[str]:
    """Return perf's lines of one sample: its functions from the innermost, in one file."""
    return ["server 7/7 1.000000000: ", *(f"\t 1215 {name} (/opt/server)" for name in functions), ""]


def test_whatever_perf_prints_is_folded() -> None:
    for text in ([], ["", "Warning: nonsense", "\t zz (", "server 7/7 1.0:", ":8 8/8 2.0: ", ""]):
        assert fold(text, {7}, 0, 9 * SECOND).samples == 0
    deep = sample("leaf", *["again"] * 500, "main")
    ((stack, _),) = fold(deep, {7}, 0, 9 * SECOND).stacks.items()
    assert stack.endswith(";again;leaf"), "a deep recursion keeps what ran"
    assert stack.count(";") == 100
    last = MOST_STACKS + 9
    many = [line for number in range(last + 1) for line in sample(f"f{number}") * (1 + (number == last))]
    found = fold(many, {7}, 0, 9 * SECOND)
    assert found.samples == sum(found.stacks.values()) == MOST_STACKS + 11, "no sample is lost"
    assert found.stacks[f"server;f{last}"] == 2, "the frequent ones are kept"
    assert found.stacks[f"server;{OTHER}"] == 10


@pytest.mark.parametrize(
    ("symbol", "short"),
    [
        ("(anonymous namespace)::send_file", "send_file"),
        ("(anonymous namespace)::send_file(int, int, long)", "send_file"),
        ("std::vector<int (*)(char)>::push_back(int const&)", "std::vector<int (*)(char)>::push_back"),
        ("answer [clone .isra.0]", "answer"),
        ("do_syscall_64", "do_syscall_64"),
        ("rest.constprop.0", "rest"),
        ("operator new(unsigned long)", "operator new"),
    ],
)
def test_a_name_is_short_but_whole(symbol: str, short: str) -> None:
    assert short_name(symbol) == short
