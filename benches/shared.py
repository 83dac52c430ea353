"""The questions of a new user, on a machine that others also use:

    python -m benches.shared [--minutes 40] [--shares 20 35 50] [--times 10] [--only burn-equal burn-slower]

All run beside strangers (processes outside svload's tree, busy in spells of half a second, so that together
with everything else on the machine they have about 20, 35 or 50 % of it). First come gates at 5 % on p50 and
p95 together, by turns, on a server that burns CPU and one with a pool of four that sleeps: equal builds, one
15 % slower, and one at the margin. Then, with default settings: a pool of 4 against one of 8, the demo's
three comparisons, the largest number of users for a server with a capacity known by arithmetic, and two
thresholds far from the number.

Each run is kept under build/bench/shared, and a call makes those that are missing; none starts after
--minutes. The existing runs are judged by the present code; when all exist the table goes to
benches/shared.md. Exit: 0 all goals are reached, 1 one is missed, 3 there is more to run.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, log
from pathlib import Path
from typing import NamedTuple

from benches.harness import KEPT, MORE_TO_RUN, Clock, arguments, markdown, page, strangers
from svload.api.runs import judged
from svload.model.results import Findings
from svload.store import RunDir

SHARES = (20, 35, 50)
"""Percent of the machine."""
BOUND_S = 1800.0
GATE_S = 480.0
"""The longest time until a gate on p50 and p95 has its answer."""
USERS, LIMIT_MS, SERVICE_MS, POOL = 47, 235, 20, 4
"""`USERS` concurrent users wait USERS · SERVICE_MS / POOL = LIMIT_MS."""
SLOWER, AT_THE_MARGIN = 1.15, 1.055
"""Service time of a candidate over main's. At the margin the whole response is 5 % slower if a tenth of it
does not depend on the build."""


class Kind(NamedTuple):
    """A planted server's service time, and the open loop that loads it."""

    seconds: float
    rate_per_s: int
    slots: int


KINDS = {"burn": Kind(0.0026, 80, 8), "sleep": Kind(0.02, 120, 16)}
BUILDS = """\
name: {name}
question: Is the second build slower?
lab:
  api: {{run: "{python} planted.py {kind} ${{build.seconds}} --port ${{port}}", ready: GET /health}}
factors:
  build: {{main: {{seconds: {main}}}, candidate: {{seconds: {candidate}}}}}
traffic:
  people: {{executor: constant-arrival-rate, rate: {rate}/s, max_vus: {slots}, request: GET http://api/}}
measure: {{duration: 5s, replicates: {blocks}, order: {order}}}
compare:
  - {{factor: build, baseline: main, metric: response.p50{gate}}}
  - {{factor: build, baseline: main, metric: response.p95{gate}}}
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
CAPACITY_OPTIONS = ("--that", f"p95 <= {LIMIT_MS} ms", "--for", "90s")


@dataclass(frozen=True)
class Answer:
    """The answers of one run: how many are right, how many contradict the truth, and a summary. `ratio`: of
    the two builds, as measured."""

    right: int
    wrong: int
    word: str
    of: int = 1
    ratio: float | None = None


@dataclass(frozen=True)
class Goal:
    """The lowest share of right answers at each share of strangers, and the highest of wrong ones.
    `together`: over all shares of strangers."""

    right: Mapping[int, float]
    wrong: float = 1 / 20
    together: bool = False


@dataclass(frozen=True)
class Question:
    """A command, its study, the answers in its findings by part, and each part's goal. `planted`: the study
    needs the planted server. `bound_s`: the longest that a run may take."""

    name: str
    command: str
    options: tuple[str, ...]
    study: str
    answered: Callable[[Findings], dict[str, Answer]]
    goals: Mapping[str, Goal]
    bound_s: float = BOUND_S


def builds(name: str, kind: str, ratio: float, order: str, blocks: int, gate: str = "") -> str:
    """Return a study of two builds, the second slower by `ratio`."""
    server = KINDS[kind]
    return BUILDS.format(
        name=name, python=sys.executable, kind=kind, main=server.seconds, candidate=f"{server.seconds * ratio:.6g}",
        rate=server.rate_per_s, slots=server.slots, order=order, blocks=blocks, gate=gate,
    )  # fmt: skip


def _gates(right: Sequence[str], wrong: str) -> Callable[[Findings], dict[str, Answer]]:
    def answered(found: Findings) -> dict[str, Answer]:
        answers = {}
        for claim in found.claims:
            word = claim.gate.outcome if claim.gate else "no gate"
            answers[claim.metric.removeprefix("response.")] = Answer(
                word in right, word == wrong, word, ratio=claim.ratio.value
            )
        return answers

    return answered


def _directions(*less: bool) -> Callable[[Findings], dict[str, Answer]]:
    """Return a judge of claims in the study's order, given if the treatment's number is the lower one."""

    def answered(found: Findings) -> dict[str, Answer]:
        right = wrong = 0
        for claim, lower in zip(found.claims, less, strict=True):
            decided = claim.outcome == "decided"
            as_known = ((claim.ratio.value or 1.0) < 1) == lower
            right += decided and as_known
            wrong += (decided and not as_known) or claim.outcome == "no difference"
        return {"": Answer(right, wrong, "/".join(claim.outcome for claim in found.claims), len(less))}

    return answered


def _capacity(found: Findings) -> dict[str, Answer]:
    assert found.capacity is not None
    limit, low, high = found.capacity.limit, found.capacity.low, found.capacity.high
    if found.capacity.state != "found" or limit is None or low is None or high is None:
        return {"": Answer(0, 0, found.capacity.state)}
    held = low <= USERS <= high
    return {"": Answer(held and 40 <= limit <= 55, not held, f"{limit:.0f} ({low} to {high})")}


def _thresholds(found: Findings) -> dict[str, Answer]:
    words = [one.outcome for one in found.thresholds]
    right = (words[0] == "passed") + (words[1] == "failed")
    return {"": Answer(right, (words[0] == "failed") + (words[1] == "passed"), "/".join(words), 2)}


DECIDES = {
    "p50": Goal({20: 0.9, 35: 0.9, 50: 0.9}),
    "p95": Goal({20: 0.8, 35: 0.8, 50: 0.7}),
}
HARDLY_PASSES = Goal(dict.fromkeys(SHARES, 0.0), wrong=2 / 30, together=True)


def _of_builds() -> Iterator[Question]:
    at_margin = dict.fromkeys(DECIDES, HARDLY_PASSES)
    for kind in KINDS:
        for what, ratio, answered, goals in (
            ("slower", SLOWER, _gates(["fail"], "pass"), DECIDES),
            ("equal", 1.0, _gates(["pass"], "fail"), DECIDES),
            ("margin", AT_THE_MARGIN, _gates(["fail", "open"], "pass"), at_margin),
        ):
            name = f"{kind}-{what}"
            study = builds(name, kind, ratio, "turns", 6, ", fail_if: worse by more than 5 %")
            options = ("--for", f"{GATE_S - 30:.0f}s")
            yield Question(name, "run", options, study, answered, goals, GATE_S)


def _goal(share: float) -> dict[str, Goal]:
    """Return goals with this share, and half of it beside 50 % strangers."""
    return {"": Goal({20: share, 35: share, 50: share / 2})}


QUESTIONS = (
    *_of_builds(),
    Question("pools", "run", (), POOLS, _directions(True), _goal(1.0)),
    Question("limits", "run", (), LIMITS, _thresholds, _goal(1.0)),
    Question("capacity", "capacity", CAPACITY_OPTIONS, CAPACITY, _capacity, _goal(0.9)),
    Question("demo", "demo", (), "", _directions(True, False, False), _goal(0.8)),
)


def main(given: Sequence[str] | None = None) -> int:
    """Run what is missing, judge all runs, print the table."""
    names = [one.name for one in QUESTIONS]
    asked = arguments(
        __doc__, given, shares=list(SHARES), times=10, minutes=float, only=names, keep=KEPT / "shared"
    )
    clock = Clock(asked.minutes)
    questions = [one for one in QUESTIONS if one.name in asked.only]
    for number, share, question in product(range(asked.times), asked.shares, questions):
        place = asked.keep / str(share) / question.name / str(number)
        if not (place / "ended.json").exists() and clock.left_s > 0:
            make(question, share, place)
    rows = [row for one in questions for row in rows_of(one, asked.shares, asked.keep, asked.times)]
    text = table(rows)
    print(text, end="")
    if any(len(one.runs) < one.wanted for one in rows):
        print("there is more to run: call it again", file=sys.stderr)
        return MORE_TO_RUN
    if asked.only == names and asked.shares == list(SHARES):
        title = f"# On a busy machine\n\n`python -m benches.shared --times {asked.times}`\n\n"
        page(__file__).write_text(title + text, encoding="utf-8")
    return 1 if any(one.missed for one in rows) else 0


def make(question: Question, share: int, place: Path) -> None:
    """Make one run beside strangers and keep it in `place`. Raise SystemExit if it makes no findings."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    seed = random.Random(f"{share} {question.name} {place.name}").randrange(2**31)
    words = [sys.executable, "-m", "svload", question.command]
    if question.study:
        folder = place / "study" / question.name
        folder.mkdir(parents=True)
        (folder / "study.yaml").write_text(question.study, encoding="utf-8")
        shutil.copy(Path(__file__).with_name("planted.py"), folder)
        words += ["--trust", str(folder)]
    words += [*question.options, "--seed", str(seed), "--out", str(place)]
    with strangers(share / 100, seed):
        begun = time.monotonic()
        code, errors = _ended(words)
    took_s = time.monotonic() - begun
    if not runs_in(place):
        raise SystemExit(f"{question.name}: exit {code}\n{errors[-2000:]}")
    took_s -= waited_s(runs_in(place)[0])
    (place / "ended.json").write_text(json.dumps({"exit": code, "took_s": took_s}))
    print(f"{share} % {question.name}: {took_s:.0f} s, exit {code}", file=sys.stderr, flush=True)


def _ended(words: Sequence[str]) -> tuple[int, str]:
    """Return the exit code and errors of a command, which ends with this process even if it is terminated."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        try:
            errors = child.communicate(timeout=BOUND_S)[1]
        except BaseException:
            child.terminate()
            raise
    return child.returncode, errors


def waited_s(run: RunDir) -> float:
    """Return how long the run waited for other loads on this machine, which do not count as its strangers."""
    events = map(json.loads, run.events.read_text(encoding="utf-8").splitlines())
    phases = [event["data"] for event in events if event["kind"] == "phase"]
    return sum(float(one["seconds"]) for one in phases if one["name"] == "waiting" and one["state"] == "end")


def runs_in(place: Path) -> list[RunDir]:
    """Return the runs that have findings."""
    return [RunDir(path.parents[1]) for path in sorted(place.glob("*/derived/findings.json"))]


class Run(NamedTuple):
    """A run that was judged: its answers by part, how long it took, and the shares of strangers that it read."""

    answers: dict[str, Answer]
    took_s: float
    read: list[float]


@dataclass(frozen=True)
class Row:
    """A part of a question at some shares of strangers: `runs` of the `wanted` ones."""

    question: Question
    part: str
    shares: Sequence[int]
    wanted: int
    runs: Sequence[Run]

    def count(self, what: str) -> int:
        """Return the sum of this field of the answers."""
        return sum(getattr(run.answers[self.part], what) for run in self.runs)

    @property
    def least_right(self) -> float:
        """The lowest share of right answers."""
        right = self.question.goals[self.part].right
        return right.get(self.shares[0], max(right.values()))

    @property
    def missed(self) -> bool:
        """Return whether there are too few right answers, too many wrong ones, or a run took too long."""
        answers, late = self.count("of"), any(run.took_s > self.question.bound_s for run in self.runs)
        most_wrong = self.question.goals[self.part].wrong * answers + 1e-9
        return (
            late
            or self.count("right") < self.least_right * answers - 1e-9
            or self.count("wrong") > most_wrong
        )

    def cells(self) -> list[object]:
        """Return its line of the table."""
        answers, goal = [run.answers[self.part] for run in self.runs], self.question.goals[self.part]
        read = [share for run in self.runs for share in run.read]
        logs, took_s = [log(one.ratio) for one in answers if one.ratio], [run.took_s for run in self.runs]
        return [
            f"{self.question.name} {self.part}".strip(),
            " ".join(f"{share} %" for share in self.shares),
            f"{100 * statistics.fmean(read):.0f} %" if read else "–",
            len(self.runs),
            f"{self.count('right')} of {self.count('of')}{', MISSED' if self.missed else ''}",
            f"≥ {self.least_right:.0%} right" if self.least_right else f"≤ {goal.wrong:.0%} wrong",
            self.count("wrong"),
            f"{exp(statistics.fmean(logs)):.3f}" if logs else "–",
            f"{statistics.fmean(took_s):.0f} ({max(took_s):.0f})" if took_s else "–",
            ", ".join(one.word for one in answers),
        ]


def rows_of(question: Question, shares: Sequence[int], keep: Path, times: int) -> Iterator[Row]:
    """Judge the existing runs with the present code."""
    found: dict[int, list[Run]] = {share: [] for share in shares}
    for share, number in product(shares, range(times)):
        place = keep / str(share) / question.name / str(number)
        if (place / "ended.json").exists():
            findings = judged(runs_in(place)[0])
            took_s = json.loads((place / "ended.json").read_text())["took_s"]
            read = [one.strangers for one in findings.trials if one.strangers is not None]
            found[share].append(Run(question.answered(findings), took_s, read))
    for part, goal in question.goals.items():
        for some in [shares] if goal.together else [[share] for share in shares]:
            runs = [run for share in some for run in found[share]]
            yield Row(question, part, some, times * len(some), runs)


def table(rows: Sequence[Row]) -> str:
    """Return the table in Markdown."""
    columns = "question|share asked|share read|runs|right|goal|wrong|ratio read|s a run (most)|answers"
    return markdown(columns, [row.cells() for row in rows])


if __name__ == "__main__":
    sys.exit(main())
