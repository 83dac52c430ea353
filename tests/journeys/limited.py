"""A real nginx whose limits are changed by planned faults under load: what each limit lets through, and
kill -9 with what is left after the next command."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.servers import wait_until

from svload.analysis.readings import Readings
from svload.host.machine import linux
from svload.host.machine.qdiscs import qdiscs
from svload.host.process import cgroups
from svload.store import RunDir, TrialData, read_trial

from .kills import journal
from .stalls import pause
from .world import Command, World, only_run

FILES, EACH_MIB = 48, 2
WORKERS = (2, 4)
SETTLED_S = 0.5
"""Left out at a limit's begin: a quota's period and a rate's burst still have an effect from before."""


class Held(NamedTuple):
    """A limit: its value at bring-up and as set by a fault (in the study's notation, and in its unit), and
    the metric of its use."""

    option: str
    setting: str
    given: Any
    lowered: Any
    before: float
    asked: float
    monitor: str
    metric: str


MB = 1_000_000
CORES = min(1.5, cgroups.cores_allowed() or 1.5)
HELD = (
    Held("cpus", "cpus", CORES, 0.2, CORES, 0.2, "quota", "group_cpu_seconds_total"),
    Held("memory", "memory_bytes", "64 MiB", "32 MiB", 64 << 20, 32 << 20, "quota", "group_memory_bytes"),
    Held("disk_rate", "disk_read_bytes_per_s", {"read": "2 GB/s"}, {"read": "10 MB/s"}, 2000 * MB, 10 * MB, "quota", "group_disk_read_bytes_total"),
    Held("link", "link_rate_bytes_per_s", {"rate": "1 GB/s"}, {"rate": "5 MB/s"}, 1000 * MB, 5 * MB, "link", "link_out_bytes_total"),
)  # fmt: skip


ASKERS = {"executor": "constant-vus", "vus": 8, "request": "GET http://site/small"}
LATENCY = Held("link", "link_latency_s", {"latency": "2 ms"}, {"latency": "40 ms"}, 0.002, 0.04, "", "")
"""Its use is the mean response of small answers, as users see it."""


def _write(
    folder: Path, name: str, phase_s: float, site: Mapping[str, Any], lowered: Sequence[Any], **more: Any
) -> Path:
    """Write a study of an nginx whose limits are lowered for one phase after another, with a free phase
    before each and after the last."""
    study = {
        "name": name,
        "lab": {"site": {"kit": "nginx", "workers": "${workers}", **site}},
        "factors": {"workers": list(WORKERS)},
        "faults": [
            {"at": f"{(2 * place + 1) * phase_s:g}s", "limit": {"site": limits}, "for": f"{phase_s:g}s"}
            for place, limits in enumerate(lowered)
        ],
        "measure": {"duration": f"{(2 * len(lowered) + 1) * phase_s:g}s", "replicates": 1},
        **more,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(json.dumps(study))
    return folder


def write_latency_study(folder: Path, phase_s: float) -> Path:
    """Write a study in which a fault gives a site's link a longer latency for the middle of three phases."""
    site = {"files": {"/small": "1 KiB"}, LATENCY.option: LATENCY.given}
    return _write(
        folder, "delayed", phase_s, site, [{LATENCY.option: LATENCY.lowered}], traffic={"askers": ASKERS}
    )


def write_study(folder: Path, phase_s: float, together: bool = False) -> Path:
    """Write a study that reads more files than its memory holds in turn, so that each read is one of the
    disk. Every limit is lowered on its own; `together`: all at once, including the link's latency, three
    times."""
    files = {f"/f{number}": f"{EACH_MIB} MiB" for number in range(FILES)}
    given = {held.option: held.given for held in HELD}
    whole = {held.option: held.lowered for held in HELD}
    if together:
        given["link"], whole["link"] = given["link"] | LATENCY.given, whole["link"] | LATENCY.lowered
    lowered = [whole] * 3 if together else [{held.option: held.lowered} for held in HELD]
    readers = {"executor": "constant-vus", "vus": 4, "request": "GET http://site${files.path}"}
    more = {
        "before_trial": [{"drop_cache": ["site"]}],
        "feeders": {"files": {"csv": "files.csv", "take": "sequential"}},
        "traffic": {"readers": readers, "askers": ASKERS},
    }
    _write(folder, "limited", phase_s, {"files": {**files, "/small": "1 KiB"}, **given}, lowered, **more)
    (folder / "files.csv").write_text("path\n" + "".join(f"{path}\n" for path in files))
    return folder


# what a limit lets through


class Seen(NamedTuple):
    """One limit in one trial: the value asked for, what the kernel held while it was lowered and after it
    was restored, and what the service used without it and with it."""

    workers: int
    held: Held
    found: float
    restored: float
    without: float
    with_it: float

    @property
    def is_set_and_back(self) -> bool:
        """Return whether the kernel held the right value both times."""
        return (self.found, self.restored) == (self.held.asked, self.held.before)

    def holds(self, most: float) -> bool:
        """Return whether its use was at most `most` of what was asked, and more without it; latencies:
        reversed."""
        with_it, without = self.with_it / self.held.asked, self.without / self.held.asked
        return without < 1 <= with_it <= most if self.held is LATENCY else with_it <= most < without


def measure(world: World, study: Path, *, used: bool = True) -> list[Seen]:
    """Run the study to its end; return every limit of every trial. The service's use is of all its processes;
    without `used` it is nan, because phases shorter than a second have no readings of it."""
    found = world.run(study, "--trust")
    folder = RunDir(only_run(world))
    rows: list[Seen] = []
    levels = {one["case"]: int(one["levels"]["workers"]) for one in found["cases"]}
    for name in folder.sealed_trials():
        trial = read_trial(folder.trial(name).path)
        kinds = {kind for event in trial.lab.faults for kind in event.limits}
        limits = [held for held in (*HELD, LATENCY) if held.setting in kinds]
        rows += [_seen(trial, held, levels[trial.case], used) for held in limits]
    return rows


def _seen(trial: TrialData, held: Held, workers: int, used: bool) -> Seen:
    events = [event for event in trial.lab.faults if held.setting in (*event.limits, *event.found)]
    [limit] = [event for event in events if event.do == "limit" and held.setting in event.limits]
    [restore] = [event for event in events if event.do == "restore" and event.place == limit.place]
    assert limit.begun_s is not None and limit.done_s is not None and restore.begun_s is not None
    before_s = max([0.0, *(one.done_s or 0.0 for one in trial.lab.faults if one.place < limit.place)])
    use = _response if held is LATENCY else _use
    without = with_it = math.nan
    if used:
        without = use(trial, held, before_s + SETTLED_S, limit.begun_s)
        with_it = use(trial, held, limit.done_s + SETTLED_S, restore.begun_s)
    return Seen(workers, held, limit.found[held.setting], restore.found[held.setting], without, with_it)


def _response(trial: TrialData, held: Held, from_s: float, to_s: float) -> float:
    """Return the mean response of the intervals in between."""
    table, step_s = trial.intervals, trial.summary.interval_ns / 1e9
    inside = (table["interval"] * step_s >= from_s) & ((table["interval"] + 1) * step_s <= to_s)
    ended = table["ok"][inside].sum() + table["failed"][inside].sum()
    return float(table["response_sum_ns"][inside].sum() / ended / 1e9)


def _use(trial: TrialData, held: Held, from_s: float, to_s: float) -> float:
    [series] = Readings(trial.monitors).of("site", held.monitor, held.metric).values()
    inside = (series.at >= from_s * 1e9) & (series.at <= to_s * 1e9)
    at, values = series.at[inside], series.values[inside]
    assert len(at) >= 2, f"{held.metric} was read {len(at)} times from {from_s:.1f} to {to_s:.1f} s"
    if held.setting == "memory_bytes":  # a level, not a flow
        return float(values.max())
    return float(np.ptp(values) / np.ptp(at) * 1e9)


# kill -9


class Moment(NamedTuple):
    """`victim` is killed `delay_s` after the `told`th fault was carried out (0: after the command's
    start): the command itself (controller); the lower process of the agent (agent); the one above it
    (keeper); all three at once, so that no process is left to undo anything (all)."""

    victim: str
    told: int
    delay_s: float


def play(world: World, study: Path, moment: Moment) -> tuple[int, list[str]]:
    """Run the study, kill, let the next command clean up what is left; return how many things that one
    restored, and what was left after it."""
    before = _interfaces()
    with world.start("run", str(study), "--trust", "--out", str(world.runs)) as command:
        assert command.wait_for(lambda lines: len(_acts(lines)) >= moment.told), command.lines[-5:]
        pause(moment.delay_s)
        traces = Traces.of(world)
        _kill(world, command, moment.victim)
        traces = traces | Traces.of(world)
        command.end()
    ended = world.svload("lab", "reset")
    assert ended.returncode == 2, ended.stderr  # without a lab to reset, what was left was reported before
    with suppress(AssertionError):
        wait_until(lambda: not traces.left(world))
    changed = _interfaces() ^ before
    left = traces.left(world) + [str(one) for one in sorted(changed, key=str)]
    return ended.stderr.count("now restored"), left


def _acts(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if "site was limited" in line or "site was given" in line]


def _kill(world: World, command: Command, victim: str) -> None:
    agents = world.processes("svload.host.agent")
    pids = {
        "controller": [command.process.pid],
        "keeper": agents[:1],
        "agent": agents[1:],
        "all": [command.process.pid, *agents],
    }[victim]
    for pid in pids or [command.process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _interfaces() -> set[tuple[Any, str]]:
    """Return the machine's interfaces and queueing disciplines."""
    return {*socket.if_nameindex(), *((one.interface, one.kind) for one in qdiscs())}


@dataclass(frozen=True)
class Traces:
    """What a run has made so far that is not in its own files: folders of control groups (by its journal),
    and network namespaces (by their inodes)."""

    groups: frozenset[str]
    networks: frozenset[int]

    @classmethod
    def of(cls, world: World) -> Traces:
        """Find those of the labs that exist now."""
        groups = {path for entry in _entries(world) for path in entry.get("paths", {}).values()}
        networks = {one for pid in world.processes() if (one := _network(pid)) is not None}
        return cls(frozenset(groups), frozenset(networks - {_network(os.getpid())}))

    def __or__(self, other: Traces) -> Traces:
        return Traces(self.groups | other.groups, self.networks | other.networks)

    def left(self, world: World) -> list[str]:
        """Return what still exists, one line each, and all processes, groups and journals of the labs
        here."""
        marks = {str(entry["mark"]) for entry in _entries(world) if "mark" in entry}
        groups = {path for path in self.groups if os.path.isdir(path)}
        groups |= {str(path) for mark in marks for path in _groups_of(mark)}
        inside = [one.pid for one in linux.processes() if _network(one.pid) in self.networks]
        return [
            *(f"group {path}" for path in sorted(groups)),
            *(f"process {pid}" for pid in world.processes()),
            *(f"process {pid} in a network of the lab" for pid in inside),
            *(f"journal {path.name}" for path in world.labs()),
        ]


def _entries(world: World) -> Iterator[Mapping[str, Any]]:
    for lab in world.labs():
        yield from journal(lab / "journal.jsonl")


def _groups_of(mark: str) -> Iterator[Path]:
    """Return a lab's folder in every hierarchy."""
    for point, _ in cgroups._mounts().values():
        yield from Path(point).glob(f"**/svload/{mark}")


def _network(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None
