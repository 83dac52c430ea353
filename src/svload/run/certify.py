"""The instrument's certificate (docs/method.md §2): the truth server at known service times, and how the load
measured them. Only acts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svload.drive.generators import Generators
from svload.drive.share.cut import build_shares
from svload.drive.share.timeline import Timeline
from svload.drive.targets import allowed_blocks
from svload.host import cache_dir, labs_dir, machine_lock, split_cores, start_agent
from svload.host.machine.kept_certificates import place
from svload.lab import Lab
from svload.lab.web import call
from svload.model.certificates import InstrumentCertificate, InstrumentLevel
from svload.model.errors import fail
from svload.model.events import Event
from svload.model.study import CaseConfig, Lock
from svload.model.units import duration_ns
from svload.run.configs import case_configs
from svload.run.leftovers import put_back
from svload.store import read_tables
from svload.store.parquet import as_arrays

Emit = Callable[[Event], None]
SECONDS = {"100 us": 3.0, "1 ms": 3.0, "10 ms": 5.0, "100 ms": 10.0}
"""Service time → length of its load: at least 400 requests each, enough for a 99th percentile."""
RATES_RPS = {"100 us": 400, "1 ms": 200, "10 ms": 80, "100 ms": 40}
NOT_FOUND = 404
"""The requested objects do not exist: the server spends its service time on this answer as on any other, so
no store needs filling."""
_LOG_ROWS = 50_000


def certificate_study() -> str:
    """Return the certificate's study: one truth server that spins for the last 60 µs and logs what it did,
    with its service time as factor."""
    levels = {name.replace(" ", ""): {"time": name, "rate": f"{RATES_RPS[name]}/s"} for name in SECONDS}
    return json.dumps(
        {
            "name": "certificate",
            "question": "How far is what the load sees from what the server did?",
            "lab": {
                "truth": {
                    "kit": "truth", "role": "store", "service_time": "${time.time}", "workers": 64, "spin": "60 us", "log": True,
                }
            },
            "factors": {"time": levels},
            "requests": {"get": {"get": "http://truth/nothing"}},
            "traffic": {"load": {"executor": "constant-arrival-rate", "rate": "${time.rate}", "request": "get"}},
            "measure": {"duration": "3s", "replicates": 1},
        },
        indent=1,
    )  # fmt: skip


def certify_instrument(
    lock: Lock, folder: Path, emit: Emit, wait_s: float | None = None
) -> InstrumentCertificate:
    """Measure every level of `certificate_study`'s lock; scratch files go to `folder`.
    About 25 s. Raises SvloadError."""
    asked = case_configs(lock)
    configs = {case.levels["time"]: asked[case.name] for case in lock.valid_cases}
    with _bench(next(iter(configs.values())), lock, emit, wait_s) as (lab, generators):
        levels = [
            _level(name, configs[name.replace(" ", "")], lock.seed, lab, generators, folder)
            for name in SECONDS
        ]
    return InstrumentCertificate(place=place(), made_wall=time.time(), levels=tuple(levels))


@contextmanager
def _bench(
    first: CaseConfig, lock: Lock, emit: Emit, wait_s: float | None
) -> Iterator[tuple[Lab, Generators]]:
    def waiting(owner: str) -> None:
        text = f"waiting: another load runs on this machine ({owner})"
        emit(Event("notice", {"text": text, "waiting": owner}))

    owner = "svload doctor --certify"
    with ExitStack() as stack:
        stack.enter_context(machine_lock(owner, wait_s, waiting))
        put_back(emit)
        agent = stack.enter_context(start_agent(labs_dir() / f"certificate-{os.getpid()}", owner))
        cores = split_cores(agent.cores)
        lab = Lab(first.services, agent, agent.dir, cache_dir(), cores.servers if cores.pinned else None, emit,
                  study_dir=Path(lock.study_dir))  # fmt: skip
        try:
            lab.up()
            yield lab, Generators(agent, agent.dir, cores.load if cores.pinned else None)
        finally:
            lab.down()


def _level(
    name: str, config: CaseConfig, seed: int, lab: Lab, generators: Generators, folder: Path
) -> InstrumentLevel:
    lab.apply(config.services, restart=False)
    lab.reset([config.services[0].name])
    known = lab.endpoints()
    times = Timeline(0, round(SECONDS[name] * 1e9))
    shares = build_shares(config, seed, times, known, allowed_blocks(known.values()))
    load = generators.load(shares, {}, folder)
    rows = as_arrays(read_tables(load.results[0].tables)["samples"])
    load.results[0].tables.unlink(missing_ok=True)
    seen = (rows["done_ns"] - rows["due_ns"])[rows["status"] == NOT_FOUND]
    did = _did(str(next(iter(lab.facts().values())).admin["truth"]["url"]))
    if not len(seen) or len(seen) != len(did):
        reason = f"{len(seen)} answers were seen and {len(did)} were logged at {name}"
        raise fail("lab-failed", reason=reason, hint="Run svload doctor --certify again.")
    return InstrumentLevel(
        service_ns=duration_ns(name),
        n=len(seen),
        truth_p50_ns=_quantile(did, 0.5),
        truth_p99_ns=_quantile(did, 0.99),
        seen_p50_ns=_quantile(seen, 0.5),
        seen_p99_ns=_quantile(seen, 0.99),
    )


def _did(admin: str) -> NDArray[Any]:
    """From receiving a request to writing its answer, ns, of all that the server logged."""
    spent: list[int] = []
    for page in count():
        status, data = call(f"{admin}/log?from={page * _LOG_ROWS}&limit={_LOG_ROWS}")
        lines = data.splitlines() if status == 200 else []
        for line in lines:
            _seq, received_ns, answered_ns, *_ = json.loads(line)
            if answered_ns >= 0:
                spent.append(answered_ns - received_ns)
        if len(lines) < _LOG_ROWS:
            return np.array(spent, dtype=np.int64)
    raise AssertionError("unreachable")


def _quantile(values: NDArray[Any], p: float) -> int:
    return int(np.sort(values)[max(int(np.ceil(p * len(values))) - 1, 0)])
