"""What commands of one machine leave behind when one of their processes is killed: `python -m benches.kills_local`.

A load, a study with servers, limits and a link, a comparison by turns, a search for the capacity, an import
and a report, in turn (--kills 60, --seed 1, --only load). At a random moment of each, SIGKILL hits the
command itself or one of its processes. The bench runs in separate namespaces (processes, network, mounts with a
separate /tmp and /run/netns), so that everything new afterwards is a leftover. Checked:

- 10 s after: processes, network namespaces, control groups, links, mounts;
- after one more command: files under /tmp and folders of labs;
- and nothing is lost: what was sealed before is unchanged, and `svload verify` finds nothing.

The check itself is tested first: it must find one planted leftover of each sort. Root. The table is written
beside this file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers import serving
from tests.store.foreign_files import closed_loop, write_jtl

from benches.harness import arguments, markdown, page

ROOT = Path("/tmp/kills")
LEFT_AFTER_S, BOUND_S = 10.0, 120.0
STUDY = {
    "name": "small",
    "lab": {
        "web": {"kit": "truth", "role": "store", "cpus": 0.5, "link": {"latency": "1 ms"}},
        "other": {"kit": "truth", "role": "store", "memory": "256 MiB"},
    },
    "factors": {"size": [1, 2]},
    "traffic": {
        "users": {"executor": "constant-vus", "vus": "${size}", "request": "GET http://web/info"},
        "more": {"executor": "constant-vus", "vus": 1, "request": "GET http://other/info"},
    },
    "measure": {"duration": "0.4s", "replicates": 2},
}
TURNS = {
    "name": "turns",
    "lab": {"a": {"kit": "truth", "role": "store"}, "b": {"kit": "truth", "role": "store"}},
    "factors": {"side": ["a", "b"]},
    "traffic": {"users": {"executor": "constant-vus", "vus": 2, "request": "GET http://${side}/info"}},
    "measure": {"duration": "0.5s", "replicates": 1, "order": "turns"},
    "compare": [{"factor": "side", "baseline": "a", "metric": "response.p50"}],
}
KINDS: Mapping[str, Sequence[str]] = {
    "load": ("load", "URL", "-d", "1s", "-c", "2", "--out", "runs"),
    "study": ("run", "small", "--out", "runs"),
    "turns": ("run", "turns", "--out", "runs"),
    "capacity": ("capacity", "URL", "--that", "p95 <= 50 ms", "--to", "4", "-d", "0.3s", "--out", "runs"),
    "import": ("import", "a.jtl", "--out", "runs"),
    "report": ("report", "kept"),
}


@dataclass
class Case:
    """One kill, `after_s` the command began; `victim` is a process's command line."""

    kind: str
    victim: str
    after_s: float
    code: int
    left: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def environment() -> dict[str, str]:
    """Return the environment of every command: separate folders."""
    own = {"SVLOAD_STATE": str(ROOT / "state"), "SVLOAD_CACHE": str(ROOT / "cache"), "HOME": str(ROOT)}
    return {**os.environ, **own, "NO_COLOR": "1"}


def start(words: Sequence[str], url: str) -> subprocess.Popen[str]:
    """Start a svload command."""
    typed = [url if word == "URL" else word for word in words]
    return subprocess.Popen(
        [sys.executable, "-m", "svload", *typed],
        cwd=ROOT,
        env=environment(),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def processes() -> dict[int, str]:
    """Return pid → command line of all processes here except this one."""
    found = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and int(folder.name) not in (1, os.getpid()):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                words = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                if state not in "ZX":
                    found[int(folder.name)] = words.strip()
    return found


def groups() -> set[str]:
    """Return control groups of labs, without those of others' runs, which have the names of other labs."""
    return {str(path) for path in Path("/sys/fs/cgroup").rglob("*svload*") if path.is_dir()}


def standing() -> set[str]:
    """Return everything but files that a command may leave."""
    mounts = {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}
    return {
        *(f"process {words[:90]}" for words in processes().values()),
        *(f"namespace {path.name}" for path in Path("/run/netns").glob("*")),
        *(f"link {name}" for _, name in socket.if_nameindex()),
        *(f"mount {where}" for where in mounts),
        *(f"group {path}" for path in groups() if any(lab in path for lab in LABS)),
    }


LABS: set[str] = {"kills-planted"}
"""Names of the labs that were seen here, whose control groups are ours."""


def files() -> set[str]:
    """Return temporary files, and folders of labs."""
    kept = {ROOT.name}
    labs = (ROOT / "state" / "labs").glob("*")
    return {
        *(f"file {path}" for path in Path("/tmp").iterdir() if path.name not in kept),
        *(f"lab {path.name}" for path in labs if path.is_dir()),
    }


def sealed(runs: Path) -> dict[str, str]:
    """Return each sealed trial's files, as a digest."""
    found = {}
    for seal in runs.glob("*/trials/*/seal.json"):
        whole = hashlib.sha256()
        for path in sorted(seal.parent.iterdir()):
            whole.update(path.name.encode() + path.read_bytes())
        found[str(seal.parent)] = whole.hexdigest()
    return found


def succeed(*commands: str) -> None:
    """Run commands of the system."""
    for command in commands:
        subprocess.run(command.split(), check=True)


def planted() -> list[str]:
    """Return the sorts of leftovers that the check misses when there is one of each."""
    before, had = standing(), files()
    sleeper = subprocess.Popen(["sleep", "60"])
    group = (
        Path("/sys/fs/cgroup")
        / ("cpu" if Path("/sys/fs/cgroup/cpu").is_dir() else "")
        / "svload-kills-planted"
    )
    mounted, file = ROOT / "planted", Path("/tmp/planted")
    mounted.mkdir()
    group.mkdir()
    file.touch()
    succeed("ip netns add planted", "ip link add planted type veth", f"mount -t tmpfs none {mounted}")
    seen = {one.split()[0] for one in (standing() - before) | (files() - had)}
    succeed(f"umount {mounted}", "ip link del planted", "ip netns del planted")
    sleeper.kill()
    sleeper.wait()
    group.rmdir()
    mounted.rmdir()
    file.unlink()
    return sorted({"process", "namespace", "link", "mount", "group", "file"} - seen)


def watch_labs(stop: threading.Event) -> None:
    """Collect the names of labs while they exist."""
    while not stop.wait(0.05):
        LABS.update(path.name for path in (ROOT / "state" / "labs").glob("*"))


def once(kind: str, url: str, lasts_s: float, draw: random.Random) -> Case:
    """Run a command with one kill; return what is left. If it ended before the kill, repeat with another."""
    before, had = standing(), files()
    after_s = draw.uniform(0.0, lasts_s)
    running = start(KINDS[kind], url)
    begun = time.monotonic()
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(after_s)
    if running.poll() is not None:
        running.communicate()
        shutil.rmtree(ROOT / "runs", ignore_errors=True)
        return once(kind, url, 0.7 * lasts_s, draw)
    seals = sealed(ROOT / "runs")
    own = {pid: words for pid, words in processes().items() if f"process {words[:90]}" not in before}
    others = [pid for pid in own if pid != running.pid]
    pid = draw.choice(others) if others and draw.random() < 0.5 else running.pid
    victim = "command" if pid == running.pid else own[pid].partition(" -m ")[2][:40] or own[pid][:40]
    case = Case(kind, victim, round(time.monotonic() - begun, 2), 0)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if pid != running.pid:
        try:
            running.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            case.left.append(f"the command goes on {BOUND_S:.0f} s after")
            running.kill()
    said = running.communicate()[1]
    case.code = running.returncode
    if "Traceback" in said or "[internal]" in said:
        case.lost.append(said.strip().splitlines()[-1][:200])
    until = time.monotonic() + LEFT_AFTER_S
    while (left := standing() - before) and time.monotonic() < until:
        time.sleep(0.2)
    case.left += sorted(left)
    start(("load", "URL", "-n", "1", "-c", "1"), url).communicate(timeout=BOUND_S)
    case.left += sorted((standing() - before) | (files() - had))
    now = sealed(ROOT / "runs")
    case.lost += [
        f"{trial} was sealed, and is another now" for trial in seals if now.get(trial) != seals[trial]
    ]
    for run in (ROOT / "runs").glob("*/study.lock.json"):
        checked = start(("verify", str(run.parent)), url)
        told = checked.communicate(timeout=BOUND_S)[1]
        if checked.returncode:
            case.lost.append(f"verify {run.parent.name}: {told.strip().splitlines()[-1][:200]}")
    shutil.rmtree(ROOT / "runs", ignore_errors=True)
    return case


def table(cases: Sequence[Case], seed: int) -> str:
    """Return the page beside this file."""
    clean = sum(not (case.left or case.lost) for case in cases)
    commands = sum(case.victim == "command" for case in cases)
    rows = []
    for kind in dict.fromkeys(case.kind for case in cases):
        mine = [case for case in cases if case.kind == kind]
        left, lost = ({one for case in mine for one in getattr(case, what)} for what in ("left", "lost"))
        times = [case.after_s for case in mine]
        said = ("; ".join(sorted(found)) or "nothing" for found in (left, lost))
        rows.append((kind, len(mine), f"{min(times):.2f} to {max(times):.2f}", *said))
    return (
        "# What is left when a command on one machine is killed\n\n"
        f"`python -m benches.kills_local`, seed {seed}: SIGKILL at a random moment, {commands} times to the\n"
        f"command itself and {len(cases) - commands} times to one of its processes.\n"
        f"{clean} of {len(cases)} kills left nothing behind and lost nothing.\n"
        "The check detected a planted process, namespace, link, mount, control group and file.\n\n"
        + markdown("kind|kills|after s|left|lost", rows)
    )


@contextlib.contextmanager
def scene() -> Iterator[str]:
    """Yield the URL of a server, in a folder with its studies."""
    ROOT.mkdir(parents=True)
    for study in (STUDY, TURNS):
        (ROOT / str(study["name"])).mkdir()
        (ROOT / str(study["name"]) / "study.yaml").write_text(json.dumps(study))
    write_jtl(ROOT / "a.jtl", closed_loop(lasts=20_000))
    stop = threading.Event()
    with serving() as port:
        threading.Thread(target=watch_labs, args=(stop,), daemon=True).start()
        yield f"http://127.0.0.1:{port}/"
        stop.set()


def inside(kills: int, seed: int, only: Sequence[str]) -> int:
    """In the namespaces: make all kills, and the table."""
    Path("/run/netns").mkdir(exist_ok=True)
    succeed("ip link set lo up", "mount -t tmpfs none /tmp", "mount -t tmpfs none /run/netns")
    with scene() as url:
        if unseen := planted():
            print(f"the check does not see a planted {', '.join(unseen)}", file=sys.stderr)
            return 1
        start(("run", "small", "--out", "whole"), url).communicate(timeout=BOUND_S)
        (run,) = (ROOT / "whole").glob("small-*")
        run.rename(ROOT / "kept")
        shutil.rmtree(ROOT / "whole")
        lasts = {}
        for kind in only:
            begun = time.monotonic()
            whole = start(KINDS[kind], url)
            told = whole.communicate(timeout=BOUND_S)[1]
            lasts[kind] = time.monotonic() - begun
            if whole.returncode not in (0, 1, 4):
                print(f"{kind} does not run: {told}", file=sys.stderr)
                return 1
            shutil.rmtree(ROOT / "runs", ignore_errors=True)
        cases = []
        for number in range(kills):
            kind = only[number % len(only)]
            cases.append(once(kind, url, lasts[kind], random.Random(f"{seed}-{kind}-{number}")))
            print(f"{number + 1} {cases[-1]}", flush=True)
            page(__file__).write_text(table(cases, seed), encoding="utf-8")
    return int(any(case.left or case.lost for case in cases))


def main() -> int:
    """Make the namespaces, and continue in them."""
    told = arguments(__doc__, kills=60, seed=1, only=list(KINDS), inside=False)
    if told.inside:
        return inside(told.kills, told.seed, told.only)
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    own = [sys.executable, "-m", "benches.kills_local", "--inside", *sys.argv[1:]]
    return subprocess.run([*words, *own], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
