"""svload's fleet beside Locust's, in one run on this machine: `python -m benches.locust [--rounds 3]`.

nginx serves 1 KiB on one core; on the other run a master and four workers of Locust (FastHttpUser), or
svload with four machines of an inventory that are this one: the same 64 users, without think time. Each
round has both, in random order, with a short and a long run each. Printed: requests per second and the
client's CPU per request (slope of the two runs, requests as nginx counted them), and the time from the
command's start until all users' connections are open.

Locust is searched for on PATH and in build/peers/locust (python -m venv build/peers/locust; its pip install
locust).
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from benches.figures import Slope, pair
from benches.harness import arguments
from benches.measure import Cost, adopt_orphans, run
from benches.servers import Server, free_ports, nginx

USERS, WORKERS = 64, 4
SPANS_S = (5, 20)
PATH = "/1k.bin"
_BOUND_S = 120.0
LOCUSTFILE = """\
from locust import FastHttpUser, constant, task

class Reader(FastHttpUser):
    wait_time = constant(0)

    @task
    def read(self):
        self.client.get({path!r})
"""
STUDY = """\
name: beside-locust
question: How fast is a fleet of four?
lab: {{web: {{at: "{url}"}}}}
traffic:
  readers:
    {{executor: constant-vus, vus: {users}, generators: {workers}, record: histogram,
     request: GET http://web{path}}}
measure: {{duration: {seconds}s, replicates: 1}}
"""
INVENTORY = "generators:\n  vars: {ansible_connection: local}\n  hosts:\n"


def locust() -> str | None:
    """Return the path of the program, if it is found."""
    own = Path("build/peers/locust/bin/locust")
    return str(own.resolve()) if own.exists() else shutil.which("locust")


def locust_command(program: str, folder: Path, server: Server, seconds: int) -> list[str]:
    """Return master and workers as one command; the master ends last."""
    (folder / "locustfile.py").write_text(LOCUSTFILE.format(path=PATH))
    (port,) = free_ports(1)
    common = f"{program} -f {folder}/locustfile.py --host {server.url('')}"
    worker = f"{common} --worker --master-host 127.0.0.1 --master-port {port} >/dev/null 2>&1 &"
    master = f"{common} --headless --master --master-bind-port {port} --expect-workers {WORKERS}"
    load = f"-u {USERS} -r {USERS} -t {seconds}s --only-summary --exit-code-on-error 0"
    return ["sh", "-c", " ".join([worker] * WORKERS) + f" {master} {load}; code=$?; wait; exit $code"]


def svload_command(folder: Path, server: Server, seconds: int) -> list[str]:
    """Return a run with an inventory whose four machines are this one."""
    study = STUDY.format(url=server.url(""), users=USERS, workers=WORKERS, path=PATH, seconds=seconds)
    (folder / "study.yaml").write_text(study)
    hosts = [f"    g{n}: {{svload_port: {port}}}\n" for n, port in enumerate(free_ports(WORKERS))]
    (folder / "hosts.yaml").write_text(INVENTORY + "".join(hosts))
    command = [sys.executable, "-m", "svload", "run", str(folder), "--inventory", str(folder / "hosts.yaml")]
    return [*command, "--out", str(folder / "runs")]


def once(command: Sequence[str], server: Server, out: Path) -> tuple[Cost, list[float]]:
    """Return the cost of one run, and when all users' connections were open (None: never)."""
    before, begun, over = server.requests(), time.monotonic(), threading.Event()
    at_s: list[float] = []

    def watch() -> None:
        while not at_s and not over.wait(0.05):
            with contextlib.suppress(OSError):
                if server.connections() >= USERS:
                    at_s.append(time.monotonic() - begun)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    cost = run(command, out, _BOUND_S, server.pids, codes=(0, 4))
    over.set()
    watcher.join(5)
    return replace(cost, requests=server.requests() - before), at_s


def main() -> int:
    """Print the table, without Locust if it is not installed."""
    asked = arguments(__doc__, rounds=3, seed=1)
    adopt_orphans()
    order, program = random.Random(asked.seed), locust()
    commands: dict[str, Callable[[Path, Server, int], list[str]]] = {"svload": svload_command}
    if program is None:
        print("locust is not here, see --help")
    else:
        commands["Locust"] = partial(locust_command, program)
    slopes: dict[str, list[Slope]] = {name: [] for name in commands}
    ready: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory(prefix="svload-bench-") as text, nginx(Path(text) / "nginx") as server:

        def ran(seconds: int, name: str) -> Cost:
            folder = Path(tempfile.mkdtemp(dir=text))
            cost, at_s = once(commands[name](folder, server, seconds), server, folder / "out")
            ready[name] += at_s
            return cost

        for _ in range(asked.rounds):
            for name in order.sample([*commands], len(commands)):
                slopes[name].append(pair(partial(ran, name=name), SPANS_S, order))
    print(f"{USERS} users, {WORKERS} workers on one core, nginx on the other, {asked.rounds} rounds: medians")
    for name, found in slopes.items():
        rate, cost_us = (median(getattr(one, what) for one in found) for what in ("rate_rps", "process_us"))
        when = f"{median(ready[name]):.1f} s" if ready[name] else "never seen"
        print(
            f"{name:8} {rate:10,.0f} requests/s {cost_us:8.1f} µs of CPU a request   users connected: {when}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
