"""The questions of a new user on a machine that others use too:

    python -m benches.shared [--minutes 40] [--shares 20 35 50] [--times 10] [--only slower equal]

Beside strangers (processes outside svload's tree, busy in spells of half a second, so that together with what the
machine does anyway they have about 20, 35 or 50 % of it): a gate at 5 % on p50 with a build that is 15 % slower and
with equal builds, a pool of 4 against one of 8, the demo's three comparisons, the largest number of users for a
server whose capacity is arithmetic, and two thresholds far from the number. The servers have a pool of 4 and sleep.

Each run is kept under build/bench/shared, and a call makes those that are missing until --minutes are over. What is
there is judged by the code as it is now; when all is there the table goes to benches/shared.md. Exit: 0 all goals
are reached, 1 one is missed, 3 there is more to run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.command import KEPT, Clock
from benches.measure import core_times
from svload import api
from svload.model.results import Findings
from svload.store import RunDir

SHARES = (20, 35, 50)
"""Percent of the machine."""
SPELL_S = 0.5
"""Mean of a busy spell; of an idle one what leaves the share."""
BOUND_S = 1800.0
USERS, LIMIT_MS, SERVICE_MS, POOL = 47, 235, 20, 4
"""`USERS` at once wait USERS · SERVICE_MS / POOL = LIMIT_MS."""
ENOUGH = 0.5
"""Of each goal at 50 %."""
HOG = """
import os, random, sys, time
draw, share, spell = random.Random(int(sys.argv[1])), float(sys.argv[3]), float(sys.argv[4])
while os.getppid() == int(sys.argv[2]):
    end = time.monotonic() + draw.expovariate(1 / spell)
    while time.monotonic() < end:
        pass
    time.sleep(draw.expovariate(share / (1 - share) / spell))
"""
BUILDS = """\
name: {name}
question: Is the second build slower?
lab:
  api: {{kit: truth, role: store, workers: 4, service_time: {{exponential: "${{build.service}}"}}}}
factors:
  build: {{main: {{service: 20 ms}}, candidate: {{service: {candidate} ms}}}}
traffic:
  people: {{executor: constant-vus, vus: 8, request: {{get: http://api/v1/a/c/o, expect_status: 404}}}}
measure: {{duration: 5s, replicates: 6}}
compare:
  - {{factor: build, baseline: main, metric: response.p50, fail_if: worse by more than 5 %}}
"""
POOLS = """\
name: pools
question: What does a second pool of four gain?
lab:
  api: {kit: truth, role: store, workers: "${pool}", service_time: {exponential: 20 ms}}
factors:
  pool: [4, 8]
traffic:
  people: {executor: constant-vus, vus: 12, request: {get: http://api/v1/a/c/o, expect_status: 404}}
measure: {duration: 5s, replicates: 6}
compare:
  - {factor: pool, baseline: 4, metric: response.p95}
"""
LIMITS = """\
name: limits
question: Does it answer in time?
lab:
  api: {kit: truth, role: store, workers: 4, service_time: {exponential: 20 ms}}
traffic:
  people: {executor: constant-vus, vus: 4, request: {get: http://api/v1/a/c/o, expect_status: 404}}
measure: {duration: 5s, replicates: 3}
thresholds: [response.p95 < 600 ms, response.p95 < 30 ms]
"""
CAPACITY = f"""\
name: capacity
question: How many users wait at most {LIMIT_MS} ms?
lab:
  api: {{kit: truth, role: store, workers: {POOL}, service_time: {SERVICE_MS} ms}}
factors:
  users: {{open: [1, 1000]}}
traffic:
  people: {{executor: constant-vus, vus: "${{users}}", request: {{get: http://api/v1/a/c/o, expect_status: 404}}}}
measure: {{duration: 2s, replicates: 3}}
"""


@dataclass(frozen=True)
class Answer:
    """What one run said: right, wrong (against the truth), or neither; and in a word what."""

    right: int
    wrong: int
    word: str
    of: int = 1


@dataclass(frozen=True)
class Question:
    """A command, the study that it is given, what its findings answer, and the share of the answers that must be right."""

    name: str
    command: str
    options: tuple[str, ...]
    study: str
    answered: Callable[[Findings], Answer]
    goal: float


def _gate(truth: str) -> Callable[[Findings], Answer]:
    def answered(found: Findings) -> Answer:
        [claim] = found.claims
        word = claim.gate.outcome if claim.gate else "no gate"
        return Answer(word == truth, word not in (truth, "open"), word)

    return answered


def _directions(*less: bool) -> Callable[[Findings], Answer]:
    """Claims in the study's order; whether the treatment's number is the lower one."""

    def answered(found: Findings) -> Answer:
        right = wrong = 0
        for claim, lower in zip(found.claims, less, strict=True):
            decided = claim.outcome == "decided"
            as_known = ((claim.ratio.value or 1.0) < 1) == lower
            right += decided and as_known
            wrong += (decided and not as_known) or claim.outcome == "no difference"
        return Answer(right, wrong, "/".join(claim.outcome for claim in found.claims), len(less))

    return answered


def _capacity(found: Findings) -> Answer:
    assert found.capacity is not None
    limit, low, high = found.capacity.limit, found.capacity.low, found.capacity.high
    if found.capacity.state != "found" or limit is None or low is None or high is None:
        return Answer(0, 0, found.capacity.state)
    held = low <= USERS <= high
    return Answer(held and 40 <= limit <= 55, not held, f"{limit:.0f} ({low} to {high})")


def _thresholds(found: Findings) -> Answer:
    words = [one.outcome for one in found.thresholds]
    right = (words[0] == "passed") + (words[1] == "failed")
    return Answer(right, (words[0] == "failed") + (words[1] == "passed"), "/".join(words), 2)


QUESTIONS = (
    Question("slower", "run", (), BUILDS.format(name="slower", candidate=23), _gate("fail"), 0.9),
    Question("equal", "run", (), BUILDS.format(name="equal", candidate=20), _gate("pass"), 0.7),
    Question("pools", "run", (), POOLS, _directions(True), 1.0),
    Question("limits", "run", (), LIMITS, _thresholds, 1.0),
    Question(
        "capacity", "capacity", ("--that", f"p95 <= {LIMIT_MS} ms", "--for", "90s"), CAPACITY, _capacity, 0.9
    ),
    Question("demo", "demo", (), "", _directions(True, False, False), 0.8),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, judge what is there, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benches.shared", description=__doc__)
    parser.add_argument("--shares", type=int, nargs="+", default=list(SHARES), help="of the machine, %%")
    parser.add_argument("--times", type=int, default=10, help="runs of each question at each share")
    parser.add_argument("--minutes", type=float, help="begin no run after that; the next call goes on")
    parser.add_argument("--only", nargs="+", default=[one.name for one in QUESTIONS], metavar="QUESTION")
    parser.add_argument("--keep", type=Path, default=KEPT / "shared", help="where the runs are kept")
    asked = parser.parse_args(arguments)
    clock = Clock(asked.minutes)
    questions = [one for one in QUESTIONS if one.name in asked.only]
    for time_ in range(asked.times):
        for share in asked.shares:
            for question in questions:
                place = asked.keep / str(share) / question.name / str(time_)
                if not (place / "ended.json").exists() and clock.left_s > 0:
                    make(question, share, place)
    rows = [row(one, share, asked.keep, asked.times) for share in asked.shares for one in questions]
    text = table(rows)
    print(text, end="")
    if any(one.runs < asked.times for one in rows):
        print("there is more to run: call it again", file=sys.stderr)
        return 3
    if asked.only == [one.name for one in QUESTIONS]:
        title = f"# Beside strangers\n\n`python -m benches.shared --times {asked.times}`\n\n"
        (Path(__file__).parent / "shared.md").write_text(title + text, encoding="utf-8")
    return 1 if any(one.missed for one in rows) else 0


def make(question: Question, share: int, place: Path) -> None:
    """One run beside strangers, kept in `place`. Raises SystemExit where it makes no findings."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    seed = random.Random(f"{place}").randrange(2**31)
    words = [sys.executable, "-m", "svload", question.command]
    if question.study:
        folder = place / "study" / question.name
        folder.mkdir(parents=True)
        (folder / "study.yaml").write_text(question.study, encoding="utf-8")
        words.append(str(folder))
    words += [*question.options, "--seed", str(seed), "--out", str(place)]
    with strangers(share / 100, seed):
        begun = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND_S, check=False)
    took_s = time.monotonic() - begun
    if not _runs(place):
        raise SystemExit(f"{question.name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    (place / "ended.json").write_text(json.dumps({"exit": done.returncode, "took_s": took_s}))
    said = [line for line in done.stdout.splitlines() if line.startswith("exit ")]
    print(f"{share} % {question.name}: {took_s:.0f} s: {' '.join(said)}", file=sys.stderr, flush=True)


def _runs(place: Path) -> list[Path]:
    return [path.parents[1] for path in sorted(place.glob("*/derived/findings.json"))]


@contextmanager
def strangers(share: float, seed: int) -> Iterator[None]:
    """One busy process for each core, so that with what runs anyway they have this share; they end with this one."""
    cores = sorted(os.sched_getaffinity(0))
    others = busy_share(2.0)
    left = min(max((share - others) / max(1 - others, 0.01), 0.01), 0.99)
    hogs = [
        subprocess.Popen(
            [sys.executable, "-c", HOG, str(seed + core), str(os.getpid()), str(left), str(SPELL_S)]
        )
        for core in cores
    ]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def busy_share(for_s: float) -> float:
    """Share of the machine that is busy for so long."""
    before = core_times()
    time.sleep(for_s)
    spent = [
        {state: seconds - before[core][state] for state, seconds in states.items()}
        for core, states in core_times().items()
    ]
    whole = sum(sum(one.values()) for one in spent)
    return 1 - sum(one["idle"] + one["iowait"] for one in spent) / max(whole, 1e-9)


@dataclass(frozen=True)
class Row:
    """A question at a share of strangers. `goal`: the least number of right answers."""

    question: str
    share: int
    runs: int
    answers: int
    right: int
    wrong: int
    goal: float
    read: float | None
    took_s: tuple[float, ...]
    words: tuple[str, ...]

    @property
    def missed(self) -> bool:
        """Too few right answers; or a wrong one, which may be one in twenty."""
        return self.right < self.goal * self.answers or self.wrong > self.answers / 20


def row(question: Question, share: int, keep: Path, times: int) -> Row:
    """What the runs that are there say by the code as it is now."""
    found, took, read = [], [], []
    for number in range(times):
        place = keep / str(share) / question.name / str(number)
        if not (place / "ended.json").exists():
            continue
        findings = api.analyse(RunDir(_runs(place)[0]))
        found.append(question.answered(findings))
        took.append(json.loads((place / "ended.json").read_text())["took_s"])
        read += [one.strangers for one in findings.trials if one.strangers is not None]
    goal = question.goal * (ENOUGH if share >= 50 else 1)
    return Row(
        question.name,
        share,
        len(found),
        sum(one.of for one in found),
        sum(one.right for one in found),
        sum(one.wrong for one in found),
        goal,
        statistics.fmean(read) if read else None,
        tuple(took),
        tuple(one.word for one in found),
    )


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    lines = [
        "| share asked | question | share read | runs | right | goal | wrong | s a run (most) | answers |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        read = "—" if one.read is None else f"{100 * one.read:.0f} %"
        took = f"{statistics.fmean(one.took_s):.0f} ({max(one.took_s):.0f})" if one.took_s else "—"
        lines.append(
            f"| {one.share} % | {one.question} | {read} | {one.runs} | {one.right} of {one.answers}{', MISSED' if one.missed else ''} "
            f"| {one.goal:.0%} | {one.wrong} | {took} | {', '.join(one.words)} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
