"""A controller to be killed: a lab of Varnish before a store, to which the sets of studies/001-svload
are applied in turn. Not a test.

argv: folder, cache, "own" | "machine": a network of the lab's own, or the machine's (this process is
then in one that no other has).
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import yaml

from svload.host import start_agent
from svload.host.machine import linux
from svload.lab import Lab
from svload.model.study import ServiceSpec

SETS = Path(__file__).parents[2] / "studies/001-svload/sets"
TURN = ("default", "final", "stock", "intermediate")


def read_set(name: str) -> tuple[list[ServiceSpec], dict[str, str]]:
    """Services and settings of the kernel under a set.

    Without those of the whole machine, which is not this test's alone; with the longest accept queue,
    which every network has for itself.
    """
    said: dict[str, Any] = yaml.safe_load((SETS / f"{name}.yaml").read_text())
    cache = said["lab"].get("cache", {})
    nofile = {key: value for key, value in said["lab"].get("backend", {}).items() if key.startswith("nofile")}
    services = [
        ServiceSpec(name="backend", kit="truth", options={"role": "store", **nofile}),
        ServiceSpec(name="cache", kit="varnish", options={"of": "backend", "storage": "16 MiB", **cache}),
    ]
    sysctl = {key: str(value) for key, value in said.get("sysctl", {}).items() if key.startswith("net.")}
    if depth := cache.get("tuning", {}).get("listen_depth"):
        sysctl["net.core.somaxconn"] = str(depth + 1)
    return services, sysctl


def main(folder: Path, cache: Path, own: bool) -> None:
    linux.unshare(linux.CLONE_NEWNET)
    linux.raise_loopback()
    agent = start_agent(folder, "to be killed", own_network=own)
    services, sysctl = read_set(TURN[0])
    with agent.joined():
        lab = Lab(services, agent, agent.dir, cache, sysctl=sysctl, host_settings=True)
        lab.up()
        print(agent.pid, flush=True)
        for name in itertools.cycle((*TURN[1:], TURN[0])):
            services, sysctl = read_set(name)
            lab.apply(services, restart=True, sysctl=sysctl)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "own")
