"""What is left when a part of a fleet's run is killed: `python -m benches.kills [--rounds 5] [--only sshd]
[--seed 1]`.

Ten machines (namespaces with a separate sshd, process table, clock and /tmp) make a load. At a seeded random
moment one of them loses its generator, its Dask worker or its SSH session, or the scheduler or svload itself
is killed (always by SIGKILL). Then comes `svload resume`. Checked for each:

- nothing is sent twice: every request carries `${request.id}`, and a server that svload did not start records
  each with its time. Within an attempt (the journal has its begin) no identity may occur twice; for a trial
  that counts, the server saw as many as the trial has rows, and as were due. The other requests belong, by
  their time, to attempts that do not count (the rows of a killed generator are lost): no more than were due.
- nothing is left 10 s later: processes, ports, control groups, labs' folders and temporary files, on every
  machine. svload itself may still write its report, so the commanding machine is checked when the run has
  ended, and the machines of a run that continues 10 s after its end.
- the load ends within 5 s: the last request of the attempt, and the last generator process.

Results are kept under build/bench; when all are there the table is written beside this file. Root.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.fleet.fabric import NETWORK, Fabric, Host, fabric, processes
from tests.servers import wait_until

from benches.fleet import MACHINES, in_middle, inventory, machines
from benches.harness import KEPT, Kept, arguments, markdown, page
from svload.store import RunDir, read_trial

VICTIMS = {
    "generator": "svload.drive.generator",
    "worker": "svload.host.machines.worker",
    "sshd": "",
    "scheduler": "svload.host.machines.scheduler",
    "controller": "",
}
RATE, SECONDS, TRIALS = 200, 2, 2
DUE = RATE * SECONDS
FIRST_S, LAST_S = 1.0, 8.0
"""A kill comes this long after the first trial began: within both trials' loads or between them."""
LEFT_AFTER_S, LOAD_ENDS_S = 10.0, 5.0
SERVER, PORT = f"{NETWORK}.254", 8080
_BOUND_S = 120.0
STUDY = f"""\
name: kills
question: What is left of a load when a part of it dies?
lab:
  web: {{at: "http://{SERVER}:{PORT}"}}
  side: {{kit: truth, role: store, cpus: 0.5}}
traffic:
  users:
    executor: constant-arrival-rate
    rate: {RATE}/s
    generators: {MACHINES}
    record: rows
    request: {{get: "http://web/${{request.id}}", timeout: 2s}}
  other:
    executor: constant-arrival-rate
    rate: 10/s
    request: {{get: "http://side/v1/a/c/o", expect_status: 404, timeout: 2s}}
measure: {{duration: {SECONDS}s, replicates: {TRIALS}}}
"""


@dataclass
class Case:
    """One kill. `after_s`: since the first trial began. Seconds since the kill: `last_request_s`,
    `load_gone_s` (0: no load at that time; the second is null if the run continues)."""

    victim: str
    host: str
    after_s: float
    last_request_s: float
    load_gone_s: float | None
    left: list[str]
    seen: int
    rows: int
    uncounted: int
    twice: int
    attempts: int
    resume_s: float
    complete: bool
    wrong: list[str]

    @property
    def is_kept(self) -> bool:
        """Return whether everything promised was kept."""
        ends = max(self.last_request_s, self.load_gone_s or 0.0) <= LOAD_ENDS_S
        return self.complete and ends and not (self.left or self.twice or self.wrong)


class Scene:
    """The machines, the counting server, and what existed before any run."""

    def __init__(self, made: Fabric) -> None:
        self.made = made
        self.names = {made.middle: "controller", **{made.namespace(host): host.name for host in made.hosts}}
        (made.folder / "study").mkdir()
        (made.folder / "study" / "study.yaml").write_text(STUDY)
        (made.folder / "tmp").mkdir()
        self.inventory = inventory(made, made.hosts)
        self.before = {name: processes(name) for name in self.names}
        self.ports_before = self.ports()

    def svload(self, *words: str) -> subprocess.Popen[str]:
        """Start svload in the middle, with a folder of its own for temporary files."""
        words = (*words, "-i", self.inventory, "--authorise", SERVER, "--json")
        return in_middle(self.made, *words, TMPDIR=str(self.made.folder / "tmp"))

    def started(self, name: str) -> dict[int, list[str]]:
        """Return pid → command line of the processes on a machine that did not exist before any run."""
        return {pid: words for pid, words in processes(name).items() if pid not in self.before[name]}

    def ports(self) -> set[str]:
        """Return everything that listens, as seen by a process on each machine that stays."""
        return {
            f"{name}: port {words[1]}"
            for namespace, name in self.names.items()
            for kind in ("tcp", "tcp6")
            for line in Path(f"/proc/{max(self.before[namespace])}/net/{kind}").read_text().splitlines()[1:]
            if (words := line.split())[3] == "0A"
        }

    def left(self, groups: set[Path], *, middle: bool) -> list[str]:
        """Return what exists that did not exist before the run."""
        found = [
            f"{name}: {' '.join(words)[:60]}"
            for namespace, name in self.names.items()
            for words in self.started(namespace).values()
        ]
        found += [*(self.ports() - self.ports_before), *(f"group {path}" for path in groups if path.exists())]
        own = self.made.folder
        folders = [("controller", own / "state/labs"), ("controller", own / "tmp")]
        for host in self.made.hosts:
            folders.append((host.name, self.made.home(host) / ".local/state/svload/labs"))
            folders.append((host.name, self.made.temporary(host)))
        for name, folder in folders:
            found += [f"{name}: {path.name}" for path in folder.glob("*") if path.name != own.name]
        return [one for one in found if middle or not one.startswith(("controller", "group"))]

    def groups(self) -> set[Path]:
        """Return control groups that svload made and that its processes here are in."""
        found = set()
        for pid in (pid for name in self.names for pid in processes(name)):
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
                    _, kinds, place = line.split(":", 2)
                    path = Path("/sys/fs/cgroup", kinds.removeprefix("name="), place.lstrip("/"))
                    if "svload" in place and path.exists():
                        found.add(path)
        return found

    def pids(self, victim: str, host: Host, running: subprocess.Popen[str]) -> list[int]:
        """Return the processes to kill."""
        if victim == "controller":
            return [running.pid]
        own = self.started(self.made.middle if victim == "scheduler" else self.made.namespace(host))
        if victim == "sshd":
            return [pid for pid, words in own.items() if words[0].startswith(("sshd:", "sshd-session:"))]
        return [pid for pid, words in own.items() if VICTIMS[victim] in words]

    def loads(self) -> bool:
        """Return whether a generator is alive on any machine."""
        return any(VICTIMS["generator"] in words for name in self.names for words in processes(name).values())


@contextlib.contextmanager
def scene() -> Iterator[Scene]:
    """Run ten machines and the server until the block ends."""
    with fabric(machines(own_tmp=True)) as made:
        words = ["nsenter", f"--net=/run/netns/{made.middle}", sys.executable, "-m", "benches.kills"]
        words += ["--serve", str(made.folder / "seen")]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                server.stdout.readline()
                yield Scene(made)
            finally:
                server.kill()


async def serve(seen: Path) -> None:
    """Serve until the process is killed; print a line when it listens. Each request is recorded as it
    arrives: a line with its moment (CLOCK_MONOTONIC ns) and its path. The answer is an empty 204."""
    log = os.open(seen, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                os.write(log, b"%d %s\n" % (time.monotonic_ns(), head.split(b" ", 2)[1]))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "", PORT)
    print("listening", flush=True)
    await server.serve_forever()


def once(at: Scene, victim: str, draw: random.Random) -> Case:
    """Make one run, one kill, one resume."""
    host, after_s = draw.choice(at.made.hosts), draw.uniform(FIRST_S, LAST_S)
    runs, log = at.made.folder / "runs", at.made.folder / "seen"
    had = {*runs.glob("kills-*")}
    log.write_bytes(b"")
    running = at.svload("run", str(at.made.folder / "study"))
    try:
        wait_until(lambda: {*runs.glob("kills-*")} > had, 60)
        run = RunDir(({*runs.glob("kills-*")} - had).pop())
        wait_until(lambda: bool(starts(run)), 60)
        wait_until(lambda: time.monotonic() - starts(run)[0][0] / 1e9 >= after_s, 60)
        wait_until(lambda: bool(at.pids(victim, host, running)), 10)
        groups, pids = at.groups(), at.pids(victim, host, running)
        killed_s = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        gone_s, left = None, []
        if victim != "generator":
            while at.loads() and time.monotonic() < killed_s + 20:
                time.sleep(0.1)
            gone_s = round(time.monotonic() - killed_s, 2)
            time.sleep(max(0.0, killed_s + LEFT_AFTER_S - time.monotonic()))
            left = at.left(groups, middle=victim == "controller")
        reply = running.communicate(timeout=_BOUND_S)[1]
    except AssertionError:
        running.kill()
        print(running.communicate(timeout=10)[1], file=sys.stderr)
        raise
    finally:
        running.kill()
        running.wait()
    if victim != "controller":
        until = time.monotonic() + (LEFT_AFTER_S if victim == "generator" else 0)
        while (found := at.left(groups, middle=True)) and time.monotonic() < until:
            time.sleep(0.5)
        left += [one for one in found if one not in left]
    ended_s = time.monotonic()
    out, more = at.svload("resume", str(run.path)).communicate(timeout=_BOUND_S)
    resume_s = time.monotonic() - ended_s
    wrong = ["a traceback"] * ("Traceback" in reply + more)
    answer = json.loads(out) if out.startswith("{") else {}
    complete = bool(answer.get("complete")) and answer.get("sealed") == TRIALS
    if not complete:
        print(more, file=sys.stderr)
        wrong.append((more.strip().splitlines() or ["no word"])[-1][:200])
    return Case(
        victim=victim, host="" if victim in ("scheduler", "controller") else host.name,
        after_s=round(after_s, 2), load_gone_s=gone_s, left=left, resume_s=round(resume_s, 1),
        complete=complete, **counted(run, log, round(1e9 * killed_s), round(1e9 * ended_s), wrong),
    )  # fmt: skip


def starts(run: RunDir) -> list[tuple[int, str]]:
    """Return (when, trial) of every attempt, from the journal."""
    found = []
    for line in run.events.read_text().splitlines() if run.events.exists() else ():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if event["kind"] == "trial-started":
                found.append((event["monotonic_ns"], event["data"]["trial"]))
    return found


def counted(run: RunDir, log: Path, killed_ns: int, ended_ns: int, wrong: list[str]) -> dict[str, Any]:
    """Compare the requests that the server saw with those that the run reports."""
    seen = [(int(words[0]), words[1]) for line in log.read_text().splitlines() if (words := line.split())]
    attempts = starts(run)
    ends = [*(when for when, _ in attempts[1:]), time.monotonic_ns()]
    spans = [(begun, end) for (begun, _), end in zip(attempts, ends, strict=True)]
    of = [[identity for when, identity in seen if begun <= when < end] for begun, end in spans]
    twice = sum(len(own) - len(set(own)) for own in of)
    last = {trial: number for number, (_, trial) in enumerate(attempts)}
    sealed, rows = run.sealed_trials(), 0
    for trial in sealed:
        data = read_trial(run.trial(trial).path)
        users = next(at for at, group in enumerate(data.summary.groups) if group.name == "users")
        own = int((data.samples["group"] == users).sum())
        rows += own
        if not own == len(of[last[trial]]) == data.summary.groups[users].due == DUE:
            wrong.append(f"{trial}: {own} rows, the server saw {len(of[last[trial]])}, {DUE} were due")
    sealed_at = {last[trial] for trial in sealed}
    uncounted = sum(len(own) for number, own in enumerate(of) if number not in sealed_at)
    wrong += [f"an attempt of {len(own)} requests, {DUE} were due" for own in of if len(own) > DUE]
    if len(seen) != rows + uncounted:
        wrong.append(f"{len(seen) - rows - uncounted} requests belong to no attempt")
    hit = max((number for number, (when, _) in enumerate(attempts) if when <= killed_ns), default=0)
    until = min(ends[hit], ended_ns)
    late = [when for when, _ in seen if killed_ns < when < until]
    return {
        "last_request_s": round((max(late) - killed_ns) / 1e9, 3) if late else 0.0,
        "seen": len(seen), "rows": rows, "uncounted": uncounted, "twice": twice, "attempts": len(attempts),
        "wrong": wrong,
    }  # fmt: skip


def table(cases: Sequence[Case], seed: int) -> str:
    """Return the page beside this file."""
    kept = sum(case.is_kept for case in cases)
    head = f"""\
# What is left when something dies

`python -m benches.kills`, seed {seed}: {MACHINES} machines (namespaces of one guest with \
{os.cpu_count()} cores), {RATE} requests/s for {SECONDS} s, {TRIALS} trials.
Each kill is a SIGKILL at a random moment, followed by `svload resume`. {kept} of {len(cases)} kills \
kept all guarantees:

- no request ID twice in an attempt
- for each trial that counts, as many requests at the server as rows
- nothing left after 10 s
- the load ended within {LOAD_ENDS_S:g} s
- the plan complete

Longest time to the last request: {max(case.last_request_s for case in cases):.2f} s; \
to the end of the last generator: {max(case.load_gone_s or 0 for case in cases):.2f} s.

"""
    lines = []
    for case in cases:
        gone = "goes on" if case.load_gone_s is None else f"{case.load_gone_s:.2f}"
        complete = f"yes, {case.resume_s:.0f} s" if case.complete else "**no**"
        complete += f" **{'; '.join(case.wrong)}**" if case.wrong else ""
        left = f"**{'; '.join(case.left[:3])}**" if case.left else "nothing"
        ends = (f"{case.after_s:.1f}", f"{case.last_request_s:.2f}", gone, left)
        counts = (case.seen, case.rows, case.uncounted, case.twice)
        lines.append([case.victim, case.host or "–", *ends, *counts, complete])
    columns = (
        "killed|on|after s|last request s|generators gone s|left after 10 s|server saw|rows that count|"
        "of attempts that do not|twice|complete after resume"
    )
    return head + markdown(columns, lines)


def main() -> int:
    """Run what is missing; return 0 if all promises are kept, else 1."""
    asked = arguments(__doc__, rounds=5, only=list(VICTIMS), seed=1, anew=False, serve=Path)
    if asked.serve is not None:
        asyncio.run(serve(asked.serve))
    kept = Kept.at(KEPT / "kills.json", {"seed": asked.seed}, asked.anew)
    wanted = {f"{victim}-{number}": victim for number in range(asked.rounds) for victim in asked.only}
    with scene() as at:
        for name, victim in wanted.items():
            if name not in kept.results:
                case = once(at, victim, random.Random(f"{asked.seed}-{name}"))
                kept.keep(name, asdict(case))
                print(f"{name}: {'kept' if case.is_kept else 'NOT KEPT'} {case}", flush=True)
    cases = {name: Case(**found) for name, found in kept.results.items()}
    every = [f"{victim}-{number}" for victim in VICTIMS for number in range(asked.rounds)]
    if cases.keys() >= set(every):
        page(__file__).write_text(table([cases[name] for name in every], asked.seed), encoding="utf-8")
    good = sum(cases[name].is_kept for name in wanted)
    print(f"{good} of {len(wanted)} kept")
    return 0 if good == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
