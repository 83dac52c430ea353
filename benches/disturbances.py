"""Planted disturbances held against undisturbed twins: `python -m benches.disturbances [--tenth] [--minutes 20]`.

Every disturbed trial has twins with the same arrivals (one seed) and the same service times (the truth
server's draws are a function of seed and arrival), but for the disturbance. So the twins' numbers are the
truth: it must lie within the range of the disturbed number in 95 % of the trials, of each kind, beyond what two
twins differ by themselves (docs/method.md §3).

200 trials of 8 s and their twins take 35 minutes. The run is kept under build/bench/disturbances, and a call
that ended, by --minutes or by a signal, is gone on with by the next one with the same options. What is there
is judged each time; when all is there the table is written to benches/disturbances.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from benches.command import KEPT, Clock
from svload import analysis, lab, run, study
from svload.analysis.criteria import is_broken, number_of, range_of
from svload.api.runs import judge_trial
from svload.host import split_cores
from svload.model.errors import SvloadError, fail
from svload.model.events import Event
from svload.model.metrics import parse_metric
from svload.model.plan import Batch, TrialPlan, trial_name
from svload.model.results import TrialResult
from svload.model.study import Lock
from svload.run.configs import case_configs
from svload.store import RunDir, read_trial
from svload.study.order import draw

NUMBERS = ("p50", "p90", "p95", "p99", "mean")
HELD, HALF_WIDTH = 0.95, 0.25
"""Share of the truths that must lie within the range, and the median half width that it may have."""
AFTER_START_S = 2.0
"""From the reading of the counters until the load has surely begun."""
SERVICE_S, WORKERS = 0.015, 4
TIMEOUT_S = 20.0
"""Of the study's requests."""
STUDY = """\
name: planted
question: How far off is a number when the machine beside the load is disturbed?
lab:
  api: {{kit: truth, role: store, workers: {workers}, seed: "${{draws}}", spin: 60us,
        service_time: {{uniform: [10 ms, 20 ms]}}}}
data:
  objects: {{in: api, count: 1, size: 1 KiB}}
feeders:
  object: {{from: objects, take: first}}
factors:
  draws: {draws}
  busy: {{{busy}}}
requests:
  fetch: {{get: "http://api${{object.path}}", timeout: 20s}}
traffic:
  load: {{executor: constant-arrival-rate, arrivals: poisson, rate: "${{busy.rate}}", request: fetch}}
measure: {{duration: {seconds}s, replicates: {replicates}, awake: true}}
compare: []
"""


@dataclass(frozen=True)
class Planted:
    """What is done to a trial: kind, how long after its counters were read, and for how long, s. A twin has none."""

    kind: str
    after_s: float
    for_s: float


@dataclass(frozen=True)
class Row:
    """One number of a disturbed trial beside its twins'."""

    planted: Planted
    busy: str
    number: str
    off: float
    """the truth over the number, less one"""
    below: float
    above: float
    noise: float


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if every limit is kept, 1 if one is missed."""
    parser = argparse.ArgumentParser(prog="python -m benches.disturbances", description=__doc__)
    parser.add_argument("--tenth", action="store_true", help="a tenth of the trials: does it work?")
    parser.add_argument("--trials", type=int, default=200, help="disturbed trials")
    parser.add_argument("--seconds", type=float, default=8, help="length of a trial")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="end this call after so long; the next one goes on")
    parser.add_argument("--keep", type=Path, default=KEPT / "disturbances", help="where the run is kept")
    parser.add_argument("--anew", action="store_true", help="drop what is kept")
    asked = parser.parse_args(arguments)
    trials = max(asked.trials // 10, 12) if asked.tenth else asked.trials
    options = Asked(trials, asked.seconds, asked.seed)
    folder = asked.keep / "tenth" if asked.tenth else asked.keep
    found, planted = measure(folder, options, Clock(asked.minutes), asked.anew)
    whole = found.is_complete()
    text, missed = table(judge(found, planted))
    sealed, all_of_them = len(found.sealed_trials()), len(planted)
    head = (
        f"`python -m benches.disturbances`: {trials} disturbed trials of {asked.seconds:g} s and "
        f"{all_of_them - trials} twins, seed {asked.seed}"
    )
    print(f"{head}; {sealed} of {all_of_them} are made.\n\n{text}", end="")
    if whole and not asked.tenth:
        title = "# Planted disturbances against undisturbed twins"
        (Path(__file__).parent / "disturbances.md").write_text(
            f"{title}\n\n{head}.\n\n{text}", encoding="utf-8"
        )
    return 1 if missed else 0 if whole else 3


@dataclass(frozen=True)
class Asked:
    """What the run is made of."""

    disturbed: int
    seconds: float
    seed: int


def measure(folder: Path, asked: Asked, clock: Clock, anew: bool) -> tuple[RunDir, dict[str, Planted | None]]:
    """One run with two twins of every case and the disturbed trials, in random order; what was planted in each.

    It goes on with the one that is kept for the same options; another's is dropped.
    """
    noted = folder / "asked.json"
    if anew or not noted.exists() or json.loads(noted.read_text()) != vars(asked):
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    noted.write_text(json.dumps(vars(asked)), encoding="utf-8")
    runs = sorted(folder.glob("planted-*"))
    lock = RunDir(runs[0]).lock() if runs else _lock(folder, asked.seconds, asked.disturbed, asked.seed)
    batch, planted = _plan(lock, asked.disturbed, asked.seconds, random.Random(asked.seed))
    begun = RunDir(runs[0]) if runs else run.begin(lock, folder, batch=batch)
    disturber = Disturber(planted, len(begun.sealed_trials()))

    def too_late(event: Event) -> SvloadError | None:
        over = event.kind == "trial-sealed" and clock.left_s <= 0
        return fail("usage", reason="its minutes are over", hint="Call it again to go on.") if over else None

    options = run.Options(emit=disturber.heard, judge=judge_trial, abort_if=too_late)
    outcome = run.execute(begun, options)
    disturber.wait()
    if not outcome.complete and clock.left_s > 0:
        raise SystemExit(f"the run did not end: {outcome.error}")
    return begun, planted


def _lock(folder: Path, seconds: float, disturbed: int, seed: int) -> Lock:
    busy = ", ".join(
        f"b{round(100 * share)}: {{rate: {share * WORKERS / SERVICE_S:.4g}/s}}"
        for share in (0.2, 0.4, 0.6, 0.8)
    )
    text = STUDY.format(
        workers=WORKERS,
        draws=[1, 2, 3],
        busy=busy,
        seconds=f"{seconds:g}",
        replicates=2 + -(-disturbed // 12),
    )
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    return study.load_study(folder, seed=seed, kits=lab.kit_options(), check_lab=lab.find_mistakes)


def _plan(
    lock: Lock, disturbed: int, seconds: float, dice: random.Random
) -> tuple[Batch, dict[str, Planted | None]]:
    """Trials in random order, never two with the same draws in a row: a change of the seed
    starts the server's draws anew."""
    cases = [case.name for case in lock.valid_cases]
    every = [trial_name(case, twin) for case in cases for twin in (1, 2)]
    planted: dict[str, Planted | None] = dict.fromkeys(every)
    lasting = ("hog on the load", "stopped generator", "throttled generator")
    kinds = ("hog on the load", "hog on the servers", "stopped generator", "throttled generator")
    for number in range(disturbed):
        name = trial_name(cases[number % len(cases)], 3 + number // len(cases))
        length_s = seconds if number % 10 == 9 else exp(dice.uniform(log(0.05), log(min(3.0, seconds / 2))))
        begin_s = 0.0 if length_s == seconds else dice.uniform(0.3, seconds - length_s - 0.3)
        kind = kinds[number % len(kinds)] if length_s < seconds else lasting[number // 10 % len(lasting)]
        if (kind, begin_s) == ("throttled generator", 0.0):
            # A hundredth of a core is too little to begin the load at all, and must be gone before the next trial.
            begin_s, length_s = AFTER_START_S, seconds - AFTER_START_S / 2
        planted[name] = Planted(kind, begin_s, length_s)
    draws = {case.name: case.levels["draws"] for case in lock.cases}
    order = _apart(list(planted), lambda name: draws[name.rpartition(".r")[0]], dice)
    trials = []
    for position, name in enumerate(order):
        case, _, replicate = name.rpartition(".r")
        same = draw(lock.seed, "twins", cases.index(case))
        trials.append(
            TrialPlan(
                trial=name,
                case=case,
                replicate=int(replicate),
                block=int(replicate),
                position=position,
                seed=same,
            )
        )
    # One block, so that they run in just this order.
    in_turn = tuple(trial.model_copy(update={"block": 1}) for trial in trials)
    return Batch(number=0, because="twins and disturbed trials, at random", trials=in_turn), planted


def _apart(names: list[str], key: Callable[[str], str], dice: random.Random) -> list[str]:
    """A random order in which no two neighbours have the same key."""
    dice.shuffle(names)
    left = names
    order: list[str] = []
    while left:
        fitting = [name for name in left if not order or key(name) != key(order[-1])]
        if not fitting:
            order.append(left.pop())
            continue
        counts = Counter(key(name) for name in left)
        chosen = max(fitting, key=lambda name: counts[key(name)] + dice.random())
        left.remove(chosen)
        order.append(chosen)
    return order


class Disturber:
    """Hears the run's events and does to each trial what is planted in it, in a thread of its own."""

    def __init__(self, planted: dict[str, Planted | None], done: int = 0) -> None:
        self._planted = planted
        self._threads: list[threading.Thread] = []
        self._done = done

    def heard(self, event: Event) -> None:
        """Counters are read just before the load starts."""
        if event.kind == "trial-sealed":
            self._done += 1
            print(f"\r{self._done} of {len(self._planted)} trials", end="", file=sys.stderr, flush=True)
        if event.kind != "trial-phase" or event.data.get("name") != "count":
            return
        planted = self._planted.get(str(event.data["trial"]))
        if planted is not None:
            thread = threading.Thread(target=_disturb, args=(planted,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def wait(self) -> None:
        """Until nothing is planted any more."""
        for thread in self._threads:
            thread.join(30)
        print(file=sys.stderr)


def _disturb(planted: Planted) -> None:
    time.sleep(planted.after_s)
    split = split_cores(os.sched_getaffinity(0))
    match planted.kind:
        case "hog on the load":
            _hog(split.load, planted.for_s)
        case "hog on the servers":
            _hog(split.servers, planted.for_s)
        case "stopped generator":
            _stop(planted.for_s)
        case _:
            with _throttled(_generators()):
                time.sleep(planted.for_s)


def _hog(cores: Sequence[int], for_s: float) -> None:
    """A thread a core that works for so long, as urgent as the load itself."""
    code = "import os,sys,time\nos.sched_setaffinity(0, {int(sys.argv[1])})\nos.setpriority(0, 0, -10)\n"
    code += "end = time.monotonic() + float(sys.argv[2])\nwhile time.monotonic() < end: pass\n"
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", code, str(core), str(for_s)]) for core in cores]
    for hog in hogs:
        hog.wait(for_s + 30)


def _stop(for_s: float) -> None:
    generators = _generators()
    for number, wait_s in ((signal.SIGSTOP, for_s), (signal.SIGCONT, 0.0)):
        for pid in generators:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(wait_s)


@contextmanager
def _throttled(pids: Sequence[int]) -> Iterator[None]:
    """The processes have a hundredth of a core, the least that the kernel gives (cgroup version 1)."""
    base = Path("/sys/fs/cgroup/cpu")
    group = base / f"svload-bench-{os.getpid()}"
    group.mkdir(exist_ok=True)
    (group / "cpu.cfs_period_us").write_text("100000")
    (group / "cpu.cfs_quota_us").write_text("1000")
    try:
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for pid in pids:
            with suppress(OSError):
                (base / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def _generators() -> list[int]:
    """The generators that descend from this process."""
    parents, names = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid = int(stat.parent.name)
            parents[pid] = int(stat.read_text().rpartition(")")[2].split()[1])
            names[pid] = (stat.parent / "cmdline").read_bytes()

    def ours(pid: int) -> bool:
        while pid > 1:
            if pid == os.getpid():
                return True
            pid = parents.get(pid, 0)
        return False

    return [pid for pid, name in names.items() if b"svload.drive.generator" in name and ours(pid)]


def judge(found: RunDir, planted: dict[str, Planted | None]) -> list[Row]:
    """Every number of each disturbed trial beside its twins'."""
    lock = found.lock()
    trials = [read_trial(found.trial(name).path) for name in found.sealed_trials()]
    results = {one.trial: one for one in analysis.judge_run(lock, case_configs(lock), trials).trials}
    rows: list[Row] = []
    for name, what in planted.items():
        case = name.rpartition(".r")[0]
        twins = [results[twin] for n in (1, 2) if (twin := trial_name(case, n)) in results]
        if what is not None and name in results and len(twins) == 2:
            rows += _rows(what, results[name], twins)
    return rows


def _rows(planted: Planted, trial: TrialResult, twins: Sequence[TrialResult]) -> Iterator[Row]:
    for number in (*(f"load.response.{stat}" for stat in NUMBERS), "load.throughput"):
        mine = trial.metrics.get(number)
        both = [twin.metrics.get(number) for twin in twins]
        truth = [one.value for one in both if one is not None and one.value]
        if mine is None or is_broken(mine) or len(truth) < 2:
            continue
        value, within = (
            number_of(mine),
            range_of(parse_metric(number, {"load": "traffic"}), mine, None, TIMEOUT_S),
        )
        if not value or within is None:
            continue
        # The range that a threshold uses: what is not known is the widest one, never none.
        below, above = 1 - within[0] / value, within[1] / value - 1
        off, noise = statistics.geometric_mean(truth) / value - 1, abs(log(truth[0] / truth[1]))
        yield Row(planted, trial.case, number, off, below, above, noise)


def table(rows: Sequence[Row]) -> tuple[str, bool]:
    """By number and by kind: how often the truth lies within the range, and how wide that is; whether a limit is
    missed. What is missed stands on stderr, one by one."""
    # What two twins differ by tells the noise of their difference to a third trial: 95 % of them.
    noise = {
        number: _quantile([row.noise for row in rows if row.number == number], 0.95)
        for number in _numbers(rows)
    }
    held = {row: -row.below - noise[row.number] <= row.off <= row.above + noise[row.number] for row in rows}
    lines = ["| of | trials | truth within the range | median half width |", "|---|---|---|---|"]
    missed = False
    groups = {number: [row for row in rows if row.number == number] for number in _numbers(rows)}
    for row in rows:
        groups.setdefault(row.planted.kind, []).append(row)
    for name, mine in groups.items():
        share = sum(held[row] for row in mine) / len(mine)
        half = statistics.median((row.below + row.above) / 2 for row in mine)
        missed |= share < HELD or half > HALF_WIDTH
        lines.append(f"| {name} | {len(mine)} | {100 * share:.1f} % | {100 * half:.2g} % |")
    for row in rows:
        if not held[row]:
            print(f"  {100 * row.off:+.1f} % off: {row.number}, {row.busy}, {row.planted}", file=sys.stderr)
    return "\n".join(lines) + "\n", missed


def _numbers(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.number for row in rows))


def _quantile(values: Sequence[float], p: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(p * len(ordered)))] if ordered else 0.0


if __name__ == "__main__":
    sys.exit(main())
