"""The questions of a new user, on a machine that others also use:

    python -m benches.shared [--minutes 40] [--shares 20 35 50] [--times 10] [--only burn-equal burn-slower]

All run beside strangers (processes outside svload's tree, busy in spells of half a second, so that together
with everything else on the machine they have about 20, 35 or 50 % of it). First come gates at 5 % on p50 and
p95 together, by turns, on a server that burns CPU and one with a pool of four that sleeps: equal builds, one
15 % slower, and one at the margin. Then, with default settings: a pool of 4 against one of 8, the demo's
three comparisons, the largest number of users for a server with a capacity known by arithmetic, and two
thresholds far from the number.

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
from contextlib import nullcontext
from dataclasses import astuple, dataclass, fields
from itertools import product
from math import exp, log
from pathlib import Path
from typing import NamedTuple

from benches.harness import KEPT, arguments, markdown, more_to_run, page, strangers
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


class Kind(NamedTuple):
    """A planted server's service time, and the open loop that loads it."""

    seconds: float
    load: str


OPEN = "executor: constant-arrival-rate, rate: {rate:.0f}/s, max_vus: {slots}"
KINDS = {
    "burn": Kind(0.0026, OPEN.format(rate=120, slots=8)),
    "sleep": Kind(0.02, OPEN.format(rate=120, slots=16)),
}
BUILDS = """\
name: {name}
question: Is the second build slower?
lab:
  api: {{{lab}}}
factors:
  build: {{main: {{cost: {main}}}, candidate: {{cost: {candidate}}}}}
traffic:
  people: {{{load}, request: GET http://api/page}}
measure: {{duration: {seconds}s, replicates: {blocks}, order: {order}}}
compare:
  - {{factor: build, baseline: main, metric: response.p50{gate}}}
  - {{factor: build, baseline: main, metric: response.p95{gate}}}
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
    """A command, its study, the answers in its findings by part, and each part's goal. `bound_s`: the
    longest that a run may take. `half_from`: from this share of strangers on, half as many runs are made."""

    name: str
    command: str
    options: tuple[str, ...]
    study: str
    answered: Callable[[Findings], dict[str, Answer]]
    goals: Mapping[str, Goal]
    bound_s: float = BOUND_S
    half_from: int = 100

    def wanted(self, share: int, times: int) -> int:
        """Return the number of runs wanted beside this share of strangers."""
        return times // 2 if share >= self.half_from else times


def command(words: str) -> str:
    """Return a service by its command, which gets the build's cost and the port."""
    return f'run: "{words} ${{build.cost}} --port ${{port}}", ready: GET /health'


def planted(kind: str) -> str:
    """Return a server of benches/planted.py as a service."""
    return command(f"{sys.executable} planted.py {kind}")


def builds(main: float, ratio: float, gate: str = "", **known: object) -> str:
    """Return a study of two builds, the second costlier than `main` by `ratio`. `known`: name, lab, load,
    order, and the blocks and the seconds of a side in each."""
    return BUILDS.format(main=main, candidate=f"{main * ratio:.6g}", gate=gate, **known)


def _gates(right: Sequence[str], wrong: str) -> Callable[[Findings], dict[str, Answer]]:
    def answered(found: Findings) -> dict[str, Answer]:
        answers = {}
        for claim in found.claims:
            word = claim.gate.outcome if claim.gate else "no gate"
            part = claim.metric.removeprefix("response.")
            answers[part] = Answer(int(word in right), int(word == wrong), word, ratio=claim.ratio.value)
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
    one = found.capacity
    assert one is not None
    if one.state != "found" or one.limit is None or one.low is None or one.high is None:
        return {"": Answer(0, 0, one.state)}
    held = one.low <= USERS <= one.high
    word = f"{one.limit:.0f} ({one.low} to {one.high})"
    return {"": Answer(int(held and 40 <= one.limit <= 55), int(not held), word)}


def _thresholds(found: Findings) -> dict[str, Answer]:
    words = [one.outcome for one in found.thresholds]
    right = (words[0] == "passed") + (words[1] == "failed")
    return {"": Answer(right, (words[0] == "failed") + (words[1] == "passed"), "/".join(words), 2)}


DECIDES = {"p50": Goal({20: 0.9, 35: 0.9, 50: 0.9}), "p95": Goal({20: 0.8, 35: 0.8, 50: 0.7})}
HARDLY_PASSES = Goal(dict.fromkeys(SHARES, 0.0), wrong=2 / 30, together=True)


def _of_builds() -> Iterator[Question]:
    at_margin = dict.fromkeys(DECIDES, HARDLY_PASSES)
    for kind, server in KINDS.items():
        for what, ratio, answered, goals in (
            ("slower", SLOWER, _gates(["fail"], "pass"), DECIDES),
            ("equal", 1.0, _gates(["pass"], "fail"), DECIDES),
            ("margin", AT_THE_MARGIN, _gates(["fail", "open"], "pass"), at_margin),
        ):
            name = f"{kind}-{what}"
            study = builds(
                server.seconds, ratio, ", fail_if: worse by more than 5 %", name=name, lab=planted(kind),
                load=server.load, order="turns", seconds=5, blocks=6,
            )  # fmt: skip
            options = ("--for", f"{GATE_S - 30:.0f}s")
            yield Question(name, "run", options, study, answered, goals, GATE_S)


def _goal(share: float, wrong: float = 1 / 20) -> dict[str, Goal]:
    """Return goals with this share of right answers, and half of it beside 50 % strangers."""
    return {"": Goal({20: share, 35: share, 50: share / 2}, wrong)}


QUESTIONS = (
    *_of_builds(),
    Question("pools", "run", (), POOLS, _directions(True), _goal(1.0), half_from=50),
    Question("limits", "run", (), LIMITS, _thresholds, _goal(1.0), half_from=50),
    Question("capacity", "capacity", CAPACITY_OPTIONS, CAPACITY, _capacity, _goal(0.9, 1 / 10), half_from=50),
    Question("demo", "demo", (), "", _directions(True, False, False), _goal(0.8), half_from=50),
)


def main(given: Sequence[str] | None = None) -> int:
    """Run what is missing, judge all runs, print the table."""
    names = [one.name for one in QUESTIONS]
    options = {"shares": list(SHARES), "times": 10, "minutes": 1e9, "only": names, "keep": KEPT / "shared"}
    asked = arguments(__doc__, given, **options)
    until = time.monotonic() + 60 * asked.minutes
    known = read_answers()
    questions = [one for one in QUESTIONS if one.name in asked.only]
    for number, share, question in product(range(asked.times), asked.shares, questions):
        place = asked.keep / str(share) / question.name / str(number)
        made = (place / "ended.json").exists() or (share, question.name, number) in known
        if not made and number < question.wanted(share, asked.times) and time.monotonic() < until:
            make(question, share, place)
            known |= answers_in(asked.keep, [question])
            write_answers(known)
    known |= answers_in(asked.keep, QUESTIONS)
    write_answers(known)
    rows = [row for one in QUESTIONS for row in rows_of(one, known, asked.times)]
    title = f"# On a busy machine\n\n`python -m benches.shared --times {asked.times}`\n\n"
    page(__file__).write_text(title + table(rows), encoding="utf-8")
    rows = [one for one in rows if one.question in questions and set(one.shares) <= set(asked.shares)]
    print(table(rows), end="")
    if any(len(one.runs) < one.wanted for one in rows):
        return more_to_run()
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
        (folder / "study.yaml").write_text(
            question.study.replace("SEED", str(seed % 10**9)), encoding="utf-8"
        )
        for server in ("planted.py", "Planted.java"):
            shutil.copy(Path(__file__).with_name(server), folder)
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


@dataclass(frozen=True)
class Run:
    """A run that was judged: its answers by part, its exit code, how long it took, the mean share of
    strangers that it read, and the commit that judged it."""

    answers: dict[str, Answer]
    exit: int
    took_s: float
    read: float | None
    commit: str


Key = tuple[int, str, int]
"""Share of strangers in percent, question, number."""


def answers_in(keep: Path, questions: Sequence[Question]) -> dict[Key, Run]:
    """Judge the existing runs of these questions with the present code."""
    words = ["git", "rev-parse", "--short=8", "HEAD"]
    head = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    found = {}
    for question in questions:
        for ended in sorted(keep.glob(f"*/{question.name}/*/ended.json")):
            share, number = int(ended.parts[-4]), int(ended.parts[-2])
            findings = judged(runs_in(ended.parent)[0])
            read = [one.strangers for one in findings.trials if one.strangers is not None]
            mean = round(statistics.fmean(read), 4) if read else None
            known = json.loads(ended.read_text())
            found[share, question.name, number] = Run(
                question.answered(findings), **known, read=mean, commit=head
            )
    return found


def write_answers(known: Mapping[Key, Run]) -> None:
    """Write benches/shared.csv, a line for each part of each run."""
    names = ["share", "question", "number", "exit", "took_s", "read", "commit", "part"]
    with ANSWERS.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([*names, *(one.name for one in fields(Answer))])
        for key, run in sorted(known.items()):
            about = [run.exit, round(run.took_s, 1), run.read, run.commit]
            for part, answer in run.answers.items():
                lines.writerow([*key, *about, part, *astuple(answer)])


def read_answers() -> dict[Key, Run]:
    """Return the runs of benches/shared.csv."""
    known: dict[Key, Run] = {}
    with ANSWERS.open(encoding="utf-8", newline="") if ANSWERS.exists() else nullcontext([]) as file:
        for line in csv.DictReader(file):
            key = int(line["share"]), line["question"], int(line["number"])
            read, ratio = (float(line[name]) if line[name] else None for name in ("read", "ratio"))
            run = Run({}, int(line["exit"]), float(line["took_s"]), read, line["commit"])
            right, wrong, of = (int(line[name]) for name in ("right", "wrong", "of"))
            known.setdefault(key, run).answers[line["part"]] = Answer(right, wrong, line["word"], of, ratio)
    return known


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
        """Return the lowest share of right answers."""
        right = self.question.goals[self.part].right
        return right.get(self.shares[0], max(right.values()))

    @property
    def missed(self) -> bool:
        """Return whether there are too few right answers, too many wrong ones, or a run took too long."""
        answers, goal = self.count("of"), self.question.goals[self.part]
        late = any(run.took_s > self.question.bound_s for run in self.runs)
        few = self.count("right") < self.least_right * answers - 1e-9
        return late or few or self.count("wrong") > goal.wrong * answers + 1e-9

    def cells(self) -> list[object]:
        """Return its line of the table."""
        answers, goal = [run.answers[self.part] for run in self.runs], self.question.goals[self.part]
        read = [run.read for run in self.runs if run.read is not None]
        logs, took_s = [log(one.ratio) for one in answers if one.ratio], [run.took_s for run in self.runs]
        return [
            f"{self.question.name} {self.part}".strip(),
            " ".join(f"{share} %" for share in self.shares),
            f"{100 * statistics.fmean(read):.0f} %" if read else "–",
            f"{len(self.runs)} of {self.wanted}",
            f"{self.count('right')} of {self.count('of')}{', MISSED' if self.missed else ''}",
            f"≥ {self.least_right:.0%} right" if self.least_right else f"≤ {goal.wrong:.0%} wrong",
            self.count("wrong"),
            f"{exp(statistics.fmean(logs)):.3f}" if logs else "–",
            f"{statistics.fmean(took_s):.0f} ({max(took_s):.0f})" if took_s else "–",
            ", ".join(one.word for one in answers),
        ]


def rows_of(question: Question, known: Mapping[Key, Run], times: int) -> Iterator[Row]:
    """Return its rows: a part at a share of strangers, or over all shares."""
    for part, goal in question.goals.items():
        for some in [SHARES] if goal.together else [(share,) for share in SHARES]:
            keys = [(share, n) for share in some for n in range(question.wanted(share, times))]
            runs = [known[share, question.name, n] for share, n in keys if (share, question.name, n) in known]
            yield Row(question, part, some, len(keys), runs)


def table(rows: Sequence[Row]) -> str:
    """Return the table in Markdown."""
    columns = "question|share asked|share read|runs|right|goal|wrong|ratio read|s a run (most)|answers"
    return markdown(columns, [row.cells() for row in rows])


if __name__ == "__main__":
    sys.exit(main())
