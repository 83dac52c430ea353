"""The questions of a new user, on a machine that others also use:

    python -m benches.shared [--minutes 40] [--shares 20 35 50] [--times 10] [--only burn-equal burn-slower]

All run beside strangers (processes outside svload's tree, busy in spells of half a second, so that together
with everything else on the machine they have about 20, 35 or 50 % of it). First come gates at 5 % on p50 and
p95 together, by turns, on a server that burns CPU and one with a pool of four that sleeps: equal builds, one
15 % slower, and one at the margin; for comparison some of them by trials one after the other, from which
nothing is required but that they contradict the truth seldom. Then, with default settings: a pool of 4
against one of 8, the demo's three comparisons, the largest number of users for a server with a capacity known
by arithmetic, and two thresholds far from the number.

Each run is kept under build/bench/shared, and a call makes those that are missing; none starts after
--minutes. The existing runs are judged by the present code. Their answers go to benches/shared.csv, which
also holds those of runs made on other machines, and the table of all of them to benches/shared.md. Exit: 0
all goals are reached, 1 one is missed, 3 there is more to run.
"""

from __future__ import annotations

import csv
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import product
from math import exp, log
from pathlib import Path
from typing import Any

from benches.harness import KEPT, arguments, markdown, page, strangers
from svload.api.runs import judged
from svload.model.results import Findings
from svload.store import RunDir

ANSWERS = page(__file__).with_suffix(".csv")
"""The answers of all runs, also of those made on other machines."""
SHARES = (20, 35, 50)
"""Percent of the machine."""
BOUND_S = 1800.0
GATE_S = 480.0
"""The longest time until a gate on p50 and p95 has its answer."""
USERS, LIMIT_MS, SERVICE_MS, POOL = 47, 305, 20, 4
"""With exponential service times and N users, of whom none pauses, a response is the N − POOL departures
before it, at POOL / SERVICE_MS, and its own service: Gamma(N − POOL) + Exp. Its p95 is 302.3 ms with 47 users
and 307.9 ms with 48; the truth server's workers live in virtual time and add nothing (its rates over 60 s are
those of its draws within 0.1 %). Constant times have no such truth: at 45 users the p95 is 240 ms if all
workers begin together and 225 ms if they begin evenly apart."""
SLOWER, AT_THE_MARGIN = 1.15, 1.055
"""Service time of a candidate over main's. At the margin the whole response is 5 % slower if a tenth of it
does not depend on the build."""


KINDS = {"burn": (0.0026, 80, 8), "sleep": (0.02, 120, 16)}
"""A planted server's service time in s, and the rate per second and slots of the open loop that loads it."""
BUILDS = """\
name: {name}
question: Is the second build slower?
lab:
  api: {{run: "{python} planted.py {kind} ${{build.seconds}} --port ${{port}}", ready: GET /health}}
factors:
  build: {{main: {{seconds: {main}}}, candidate: {{seconds: {candidate}}}}}
traffic:
  people: {{executor: constant-arrival-rate, rate: {rate}/s, max_vus: {slots}, request: GET http://api/}}
measure: {{duration: 5s, replicates: 6, order: {order}}}
compare:
  - {{factor: build, baseline: main, metric: response.p50, fail_if: worse by more than 5 %}}
  - {{factor: build, baseline: main, metric: response.p95, fail_if: worse by more than 5 %}}
"""
POOLS = """\
name: pools
question: What does a second pool of four gain?
lab:
  api: {kit: truth, role: store, workers: "${pool}", service_time: {exponential: 20 ms}, seed: SEED}
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
  api: {kit: truth, role: store, workers: 4, service_time: {exponential: 20 ms}, seed: SEED}
traffic:
  people: {executor: constant-vus, vus: 4, request: {get: http://api/v1/a/c/o, expect_status: 404}}
measure: {duration: 5s, replicates: 3}
thresholds: [response.p95 < 600 ms, response.p95 < 30 ms]
"""
CAPACITY = f"""\
name: capacity
question: How many users wait at most {LIMIT_MS} ms?
lab:
  api: {{kit: truth, role: store, workers: {POOL}, service_time: {{exponential: {SERVICE_MS} ms}}, \
seed: SEED}}
factors:
  users: {{open: [1, 1000]}}
traffic:
  people: {{executor: constant-vus, vus: "${{users}}", \
request: {{get: http://api/v1/a/c/o, expect_status: 404}}}}
measure: {{duration: 5s, replicates: 3}}
"""
CAPACITY_OPTIONS = ("--that", f"p95 <= {LIMIT_MS} ms", "--for", "90s")


@dataclass(frozen=True)
class Answer:
    """A part of a run's answer, a line of benches/shared.csv: what the run was and the commit that judged it;
    how many comparisons of `of` are right, and how many contradict the truth. `took_s` is without waits for
    other loads, `read` the mean share of strangers that svload read, `ratio` that of two builds."""

    share: int
    question: str
    number: int
    exit: int
    took_s: float
    read: float | None
    commit: str
    part: str
    right: int
    wrong: int
    word: str
    of: int = 1
    ratio: float | None = None

    @property
    def run(self) -> tuple[int, str, int]:
        """Return what identifies the run."""
        return self.share, self.question, self.number


Parts = dict[str, tuple[Any, ...]]
"""Part of a question → the last fields of its answer, from `right` on."""


@dataclass(frozen=True)
class Goal:
    """The lowest share of right answers at each share of strangers, and the highest of wrong ones.
    `together`: over all shares of strangers."""

    right: Mapping[int, float]
    wrong: float = 1 / 20
    together: bool = False


@dataclass(frozen=True)
class Question:
    """A command, its study, the answers in its findings by part, and each part's goal. `bound_s`: the
    longest that a run may take. `half_from`: from this share of strangers on, half as many runs are made."""

    name: str
    command: str
    options: tuple[str, ...]
    study: str
    answered: Callable[[Findings], Parts]
    goals: Mapping[str, Goal]
    bound_s: float = BOUND_S
    half_from: int = 50

    def wanted(self, share: int, times: int) -> int:
        """Return the number of runs wanted beside this share of strangers."""
        return times // 2 if share >= self.half_from else times


def _gates(right: Sequence[str], wrong: str) -> Callable[[Findings], Parts]:
    def answered(found: Findings) -> Parts:
        parts: Parts = {}
        for claim in found.claims:
            word = claim.gate.outcome if claim.gate else "no gate"
            answer = (int(word in right), int(word == wrong), word, 1, claim.ratio.value)
            parts[claim.metric.removeprefix("response.")] = answer
        return parts

    return answered


def _directions(*less: bool) -> Callable[[Findings], Parts]:
    """Return a judge of claims in the study's order, given if the treatment's number is the lower one."""

    def answered(found: Findings) -> Parts:
        right = wrong = 0
        for claim, lower in zip(found.claims, less, strict=True):
            decided = claim.outcome == "decided"
            as_known = ((claim.ratio.value or 1.0) < 1) == lower
            right += decided and as_known
            wrong += (decided and not as_known) or claim.outcome == "no difference"
        return {"": (right, wrong, "/".join(claim.outcome for claim in found.claims), len(less))}

    return answered


def _capacity(found: Findings) -> Parts:
    one = found.capacity
    assert one is not None
    if one.state != "found" or one.limit is None or one.low is None or one.high is None:
        return {"": (0, 0, one.state)}
    held = one.low <= USERS <= one.high
    word = f"{one.limit:.0f} ({one.low} to {one.high})"
    return {"": (int(held and 40 <= one.limit <= 55), int(not held), word)}


def _thresholds(found: Findings) -> Parts:
    words = [one.outcome for one in found.thresholds]
    right = (words[0] == "passed") + (words[1] == "failed")
    return {"": (right, (words[0] == "failed") + (words[1] == "passed"), "/".join(words), 2)}


DECIDES = {"p50": Goal({20: 0.9, 35: 0.9, 50: 0.9}), "p95": Goal({20: 0.8, 35: 0.8, 50: 0.7})}
AT_MARGIN = dict.fromkeys(DECIDES, Goal(dict.fromkeys(SHARES, 0.0), wrong=2 / 30, together=True))
BY_TRIALS = dict.fromkeys(DECIDES, Goal(dict.fromkeys(SHARES, 0.0), together=True))


def _of_builds() -> Iterator[Question]:
    slower, equal = (SLOWER, _gates(["fail"], "pass")), (1.0, _gates(["pass"], "fail"))
    at_margin = AT_THE_MARGIN, _gates(["fail", "open"], "pass")
    for name, (ratio, answered), order, goals in (
        ("burn-slower", slower, "turns", DECIDES),
        ("burn-equal", equal, "turns", DECIDES),
        ("burn-margin", at_margin, "turns", AT_MARGIN),
        ("sleep-slower", slower, "turns", DECIDES),
        ("sleep-equal", equal, "turns", DECIDES),
        ("sleep-margin", at_margin, "turns", AT_MARGIN),
        ("burn-slower-trials", slower, "randomised-blocks", BY_TRIALS),
        ("burn-equal-trials", equal, "randomised-blocks", BY_TRIALS),
        ("sleep-slower-trials", slower, "randomised-blocks", BY_TRIALS),
    ):
        kind = name.partition("-")[0]
        seconds, rate, slots = KINDS[kind]
        study = BUILDS.format(
            name=name, python=sys.executable, kind=kind, main=seconds, candidate=f"{seconds * ratio:.6g}",
            rate=rate, slots=slots, order=order,
        )  # fmt: skip
        options = ("--for", f"{GATE_S - 30:.0f}s")
        half_from = 100 if order == "turns" else 0
        yield Question(name, "run", options, study, answered, goals, GATE_S, half_from)


def _goal(share: float) -> dict[str, Goal]:
    """Return goals with this share of right answers, and half of it beside 50 % strangers."""
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
    options = {"shares": list(SHARES), "times": 10, "minutes": 1e9, "only": names, "keep": KEPT / "shared"}
    asked = arguments(__doc__, given, **options)
    until = time.monotonic() + 60 * asked.minutes
    questions = [one for one in QUESTIONS if one.name in asked.only]
    known = update(asked.keep, QUESTIONS)
    for number, share, question in product(range(asked.times), asked.shares, questions):
        is_known = any(one.run == (share, question.name, number) for one in known)
        if not is_known and number < question.wanted(share, asked.times) and time.monotonic() < until:
            make(question, share, asked.keep / str(share) / question.name / str(number))
            known = update(asked.keep, [question])
    rows = [row for one in QUESTIONS for row in rows_of(one, known, asked.times)]
    title = f"# On a busy machine\n\n`python -m benches.shared --times {asked.times}`\n\n"
    page(__file__).write_text(title + table(rows), encoding="utf-8")
    rows = [one for one in rows if one.question in questions and set(one.shares) <= set(asked.shares)]
    print(table(rows), end="")
    if any(one.lacks_runs for one in rows):
        print("there is more to run: call it again", file=sys.stderr)
        return 3
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
        study = question.study.replace("SEED", str(seed % 10**9))
        (folder / "study.yaml").write_text(study, encoding="utf-8")
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


def update(keep: Path, questions: Sequence[Question]) -> list[Answer]:
    """Judge the kept runs of these questions with the present code; return their answers with those of all
    other runs, and write all of them to benches/shared.csv."""
    words = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    found: list[Answer] = []
    for question in questions:
        for ended in keep.glob(f"*/{question.name}/*/ended.json"):
            findings = judged(runs_in(ended.parent)[0])
            read = [one.strangers for one in findings.trials if one.strangers is not None]
            mean = round(statistics.fmean(read), 4) if read else None
            kept = json.loads(ended.read_text())
            about = (int(ended.parts[-4]), question.name, int(ended.parts[-2]), kept["exit"])
            more = (round(kept["took_s"], 1), mean, commit)
            found += (Answer(*about, *more, part, *one) for part, one in question.answered(findings).items())
    mine = {one.run for one in found}
    found = sorted([*found, *(one for one in read_answers() if one.run not in mine)], key=lambda one: one.run)
    with ANSWERS.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(one.name for one in fields(Answer))
        lines.writerows(map(astuple, found))
    return found


def read_answers() -> Iterator[Answer]:
    """Yield the answers of benches/shared.csv."""
    numbers: dict[str, Callable[[str], float]] = {"took_s": float, "read": float, "ratio": float}
    numbers |= dict.fromkeys(("share", "number", "exit", "right", "wrong", "of"), int)
    with ANSWERS.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            values: dict[str, Any] = dict(line)
            values |= {name: kind(line[name]) if line[name] else None for name, kind in numbers.items()}
            yield Answer(**values)


@dataclass(frozen=True)
class Row:
    """A part of a question at some shares of strangers: the answers of the `wanted` runs that were made."""

    question: Question
    part: str
    shares: Sequence[int]
    wanted: int
    answers: Sequence[Answer]

    @property
    def lacks_runs(self) -> bool:
        return len(self.answers) < self.wanted

    def count(self, what: str) -> int:
        """Return the sum of this field of the answers."""
        return sum(getattr(one, what) for one in self.answers)

    @property
    def least_right(self) -> float:
        """Return the lowest share of right answers."""
        right = self.question.goals[self.part].right
        return right.get(self.shares[0], max(right.values()))

    @property
    def missed(self) -> bool:
        """Return whether there are too few right answers, too many wrong ones, or a run took too long."""
        of, goal = self.count("of"), self.question.goals[self.part]
        late = any(one.took_s > self.question.bound_s for one in self.answers)
        few = self.count("right") < self.least_right * of - 1e-9
        return late or few or self.count("wrong") > goal.wrong * of + 1e-9

    def cells(self) -> list[object]:
        """Return its line of the table."""
        read = [one.read for one in self.answers if one.read is not None]
        logs, took_s = (
            [log(one.ratio) for one in self.answers if one.ratio],
            [one.took_s for one in self.answers],
        )
        goal = self.question.goals[self.part]
        return [
            f"{self.question.name} {self.part}".strip(),
            " ".join(f"{share} %" for share in self.shares),
            f"{100 * statistics.fmean(read):.0f} %" if read else "–",
            f"{len(self.answers)} of {self.wanted}",
            f"{self.count('right')} of {self.count('of')}{', MISSED' if self.missed else ''}",
            f"≥ {self.least_right:.0%} right" if self.least_right else f"≤ {goal.wrong:.0%} wrong",
            self.count("wrong"),
            f"{exp(statistics.fmean(logs)):.3f}" if logs else "–",
            f"{statistics.fmean(took_s):.0f} ({max(took_s):.0f})" if took_s else "–",
            ", ".join(one.word for one in self.answers),
        ]


def rows_of(question: Question, known: Sequence[Answer], times: int) -> Iterator[Row]:
    """Yield its rows: a part at a share of strangers, or over all shares."""
    for part, goal in question.goals.items():
        for some in [SHARES] if goal.together else [(share,) for share in SHARES]:
            runs = [(share, question.name, n) for share in some for n in range(question.wanted(share, times))]
            yield Row(
                question,
                part,
                some,
                len(runs),
                [one for one in known if one.part == part and one.run in runs],
            )


def table(rows: Sequence[Row]) -> str:
    """Return the table in Markdown."""
    columns = "question|share asked|share read|runs|right|goal|wrong|ratio read|s a run (most)|answers"
    return markdown(columns, [row.cells() for row in rows])


if __name__ == "__main__":
    sys.exit(main())
