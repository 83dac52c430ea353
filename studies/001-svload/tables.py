"""The paper's tables VII to X and its Fig. 5, ours beside them: of one run of the campaign, or of two runs of the study, before and after.

    python studies/001-svload/tables.py RUN [--report]
    python studies/001-svload/tables.py BEFORE AFTER [--report]

With --report the run's report and workbook (of two runs the second's) show them, too.

Nothing is ranked by time where success differs: a request that fails early makes a mean of answers shorter. The paper's formula of
improvement, (before − after) / max(before, after), is a column of that name; ours are ratios with intervals, over pairs of one block
where one run holds both sides.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from svload import api
from svload.analysis.evidence import first_to_fail, what_failed
from svload.api import OwnTable
from svload.model.evidence import CaseEvidence
from svload.model.results import CaseResult, Claim, Estimate, Findings, TrialResult

REFERENCE = Path(__file__).parent / "reference"
PAPER = ("test-cases", "response-times", "success-rates", "cache-vs-backend", "http-vs-https", "tuning")
"""The paper's tables that are held against each other."""
BEFORE, AFTER = ("default", "lab-default"), ("final", "lab-final")
"""The sets before and after; the latter of each with what stood beside it when it was measured by hand."""
SAME_SUCCESS = 0.01
"""Success that differs by less is the same: 1 of 100 requests."""
ALMOST = 0.10
"""Our reading of “almost the same”: the paper gives no number."""
ALPHA = 0.05
ALIKE = 1e-12
"""A scatter that is none but rounding."""
TIME, SUCCESS = "probe.response.mean", "probe.success_rate"
LOADED_SUCCESS, GOODPUT = "background.success_rate", "background.goodput(1 s)"
ANSWERED = "background.ok_throughput"
USES = (("cpu.mean", "CPU"), ("memory.max", "memory"))


@dataclass(frozen=True, eq=False)
class Side:
    """One state of the system: its cases by the paper's names, and their trials."""

    cases: Mapping[str, CaseResult]
    trials: Mapping[str, Sequence[TrialResult]]

    def at(self, case: str, key: str) -> Estimate | None:
        """A case's number; None: no such case or number."""
        found = self.cases.get(case)
        return found.metrics.get(key) if found else None

    def by_block(self, case: str, key: str) -> dict[int, float]:
        """A number's believed values, by block."""
        found: dict[int, float] = {}
        for trial in self.trials.get(case, ()):
            one = trial.metrics.get(key)
            if one is not None and one.value is not None and one.grade != "REFUSED":
                found[trial.block] = one.value
        return found

    def counted(self, case: str, key: str) -> float:
        """The mean over all trials, whatever disturbed their times; not a number: none has it."""
        found = [trial.metrics[key].value for trial in self.trials.get(case, ()) if key in trial.metrics]
        known = [one for one in found if one is not None]
        return float(np.mean(known)) if known else float("nan")

    def succeeded(self, case: str) -> float:
        """Success of all requests of the background, its ramp's included; not a number: no trial tells."""
        begun, failed = (self.counted(case, f"background.{name}") for name in ("requests", "failed"))
        return 1 - failed / begun if begun else float("nan")

    def first(self, case: str, cpu: bool) -> str:
        """Which limit or counter moved first, then next: of CPU, or of all else."""
        found = first_to_fail(self.cases[case].evidence if case in self.cases else CaseEvidence())
        result = [what_failed(one) for one in found if (one.resource == "cpu") == cpu]
        return "; then ".join(result[:3]) or "nothing"


@dataclass(frozen=True)
class Change:
    """How a second number differs from a first: ratio or difference with its 95 % interval, and p. None: too few pairs."""

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    is_difference: bool = False

    def __str__(self) -> str:
        """As a cell of a table."""
        if self.value is None:
            return "–"
        ends = (self.value, self.low, self.high)
        value, low, high = (
            f"{100 * (end or 0):+.1f}" if self.is_difference else f"{end or 0:.2f}" for end in ends
        )
        unit = " points" if self.is_difference else ""
        return value + unit if self.low is None else f"{value}{unit} ({low} to {high})"


class Both:
    """Before and after. `interleaved`: both are of one run, so that trials of one block are pairs."""

    def __init__(self, before: Side, after: Side, interleaved: bool) -> None:
        self.before, self.after, self.interleaved = before, after, interleaved

    def change(
        self, first: tuple[Side, str], second: tuple[Side, str], key: str, differences: bool = False
    ) -> Change:
        """The second (side, case) against the first; of shares the difference, since they may be 0."""
        one, other = (side.by_block(case, key) for side, case in (first, second))
        paired = self.interleaved or first[0] is second[0]
        return _paired(one, other, differences) if paired else _apart(one, other, differences)

    def over(self, case: str, key: str, differences: bool = False) -> Change:
        """After against before, of one case."""
        return self.change((self.before, case), (self.after, case), key, differences)


def sides(runs: Sequence[Findings]) -> Both:
    """By the paper's case names. One run has both as levels of `tuning`; of two runs the first is before."""
    if len(runs) == 2:
        before, after = (_side(run, lambda case: case.case) for run in runs)
        return Both(before, after, False)
    [run] = runs
    before, after = (_side(run, _at_level(names)) for names in (BEFORE, AFTER))
    return Both(before, after, True)


def _at_level(names: Sequence[str]) -> Callable[[CaseResult], str | None]:
    return lambda case: case.case.partition(".")[0] if case.levels.get("tuning") in names else None


def _side(run: Findings, name_of: Callable[[CaseResult], str | None]) -> Side:
    cases = {name: case for case in run.cases if (name := name_of(case)) and case.excluded is None}
    trials = {name: [one for one in run.trials if one.case == case.case] for name, case in cases.items()}
    return Side(cases, trials)


# the tables


def tables(both: Both, claims: Sequence[Claim] = ()) -> Iterator[OwnTable]:
    """All that can be laid beside the paper's, then what its tables contradict by themselves."""
    yield success(both)
    yield goodput(both)
    yield times(both)
    yield pairs(
        "IX", "cache over backend", both, "cache-vs-backend.csv", "backend_case", "cache_case", "before"
    )
    yield pairs("X", "HTTP over HTTPS", both, "http-vs-https.csv", "https_case", "http_case", "after")
    yield usage(both)
    yield usage_of_all(both)
    yield gives_way(both)
    if any("lab-default" in case.levels.values() for case in both.before.cases.values()):
        yield by_hand(both)
    yield interactions(claims)
    yield mistakes()


def own_table(title: str, note: str, head: str, rows: Iterable[Sequence[str]]) -> OwnTable:
    """A table as the report shows it; the names of its columns are separated by `|`."""
    return OwnTable(title=title, note=note, head=tuple(head.split("|")), rows=tuple(map(tuple, rows)))


def loaded(both: Both) -> list[str]:
    """The cases with load, in the paper's order."""
    return [
        row["case"]
        for row in read("test-cases.csv")
        if row["load"] == "with" and row["case"] in both.after.cases
    ]


def success(both: Both) -> OwnTable:
    """Table VII. The paper's miss is a failed request."""
    paper = {row["case"]: row for row in read("success-rates.csv")}
    names = [*paper, *(name for name in loaded(both) if name not in paper)]
    changes = [both.over(name, LOADED_SUCCESS, differences=True) for name in names]
    rows = []
    for name, change, clear in zip(names, changes, clear_ones(changes), strict=True):
        ours = [side.at(name, LOADED_SUCCESS) for side in (both.before, both.after)]
        theirs = (
            [paper[name][f"success_{state}_pct"] for state in ("before", "after")] if name in paper else None
        )
        found = direction(change, clear, *map(float, theirs)) if theirs else unmatched(change, clear)
        rows.append((
            name, *map(percent, ours), *map(failed, ours), str(change),
            *([f"{theirs[0]} %", f"{theirs[1]} %"] if theirs else ["100 % (text)", "99 % or more (text)"]), found,
        ))  # fmt: skip
    note = (
        "Requests of the background. What the paper calls “miss” is a failed request, no miss of the cache: here it is called failed. "
        "The change is in percentage points."
    )
    head = (
        "case|success before|success after|failed before|failed after|change|paper before|"
        "paper after|direction"
    )
    return own_table("Table VII: success", note, head, rows)


def goodput(both: Both) -> OwnTable:
    """Time and success in one number, which the paper has not."""
    names = loaded(both)
    changes = [both.over(name, GOODPUT) for name in names]
    rows = [
        (
            name,
            *(rate(side.at(name, GOODPUT)) for side in (both.before, both.after)),
            str(change),
            unmatched(change, clear),
        )
        for name, change, clear in zip(names, changes, clear_ones(changes), strict=True)
    ]
    note = "Requests of the background that were answered rightly within 1 s, a second. It falls by failures as by slow answers."
    return own_table("Goodput within 1 s", note, "case|before|after|after / before|distinguishable", rows)


def times(both: Both) -> OwnTable:
    """Table VIII, with success, without which a mean cannot be read."""
    paper = read("response-times.csv")
    changes = [both.over(row["case"], TIME) for row in paper]
    rows = []
    for row, change, clear in zip(paper, changes, clear_ones(changes), strict=True):
        case = row["case"]
        ours, shares = ([side.at(case, key) for side in (both.before, both.after)] for key in (TIME, SUCCESS))
        theirs = float(row["mean_before_s"]), float(row["mean_after_s"])
        rows.append((
            case, *map(seconds, ours), *map(percent, shares), str(change), improvement(*map(value, ours)),
            f"{theirs[0]:g} s", f"{theirs[1]:g} s", f"{theirs[1] / theirs[0]:.2f}", f"{float(row['improvement_pct']):+.0f}%",
            unranked(shares) or direction(change, clear, *theirs),
        ))  # fmt: skip
    note = (
        "Mean response of the probe; a failed request counts as its timeout. Where success differs by 1 % or more, no time is ranked. "
        "Improvement is the paper's formula, (before − after)/max(before, after): it never says less than −100 %."
    )
    head = (
        "case|ours before|ours after|success before|success after|after / before|improvement|"
        "paper before|paper after|paper after / before|paper's improvement|direction"
    )
    return own_table("Table VIII: response times", note, head, rows)


def pairs(number: str, what: str, both: Both, file: str, first: str, second: str, state: str) -> OwnTable:
    """Tables IX and X: the second case of a pair against the first, in the state whose means the paper uses, and in the other."""
    used, other = (both.before, both.after) if state == "before" else (both.after, both.before)
    paper = read(file)
    changes = {
        side: [both.change((side, row[first]), (side, row[second]), TIME) for row in paper]
        for side in (used, other)
    }
    clear = {side: clear_ones(found) for side, found in changes.items()}
    rows = []
    for at, row in enumerate(paper):
        names = row[first], row[second]
        ours, shares = ([used.at(name, key) for name in names] for key in (TIME, SUCCESS))
        theirs = float(row["improvement_pct"])
        here, there = changes[used][at], changes[other][at]
        turns = reverses(here, there, clear[used][at] and clear[other][at])
        rows.append((
            *names, *map(seconds, ours), str(here), improvement(*map(value, ours)), f"{theirs:g} %",
            unranked(shares) or direction(here, clear[used][at], 100.0, 100.0 - theirs), str(there), turns,
        ))  # fmt: skip
    elsewhere = "after" if state == "before" else "before"
    note = (
        f"Mean response of the probe, {state} the tuning: by its own Table VIII that is what the paper's table uses, though it does not say so. "
        f"Improvement is the paper's formula. The last columns have the same ratio {elsewhere} the tuning."
    )
    head = (
        f"{first[:-5]}|{second[:-5]}|ours|ours, other|other / first|improvement|paper's|direction|"
        f"other / first {elsewhere}|reverses"
    )
    return own_table(f"Table {number}: {what}", note, head, rows)


def usage(both: Both) -> OwnTable:
    """Fig. 5, case by case."""
    wanted = [
        (case, f"{service}.{key}")
        for key, _ in USES
        for service in ("cache", "backend")
        for case in both.after.cases
    ]
    wanted = [one for one in wanted if all(value(side.at(*one)) > 0 for side in (both.before, both.after))]
    changes = [both.over(*one) for one in wanted]
    rows = [
        (case, key.replace(".", " ", 1), *(shown_use(key)(side.at(case, key)) for side in (both.before, both.after)),
         str(change), unmatched(change, clear))
        for (case, key), change, clear in zip(wanted, changes, clear_ones(changes), strict=True)
    ]  # fmt: skip
    note = "CPU in cores (processes of the service), memory as resident at most."
    head = "case|of|before|after|after / before|distinguishable"
    return own_table("Fig. 5: CPU and memory, case by case", note, head, rows)


def usage_of_all(both: Both) -> OwnTable:
    """Fig. 5's “almost the same after the tuning”, tested over all cases together."""
    rows = []
    for key, what in USES:
        for service in ("cache", "backend"):
            cells = [_logs(both, case, f"{service}.{key}") for case in both.after.cases]
            change = _of_logs(_by_unit([cell for cell in cells if cell]))
            rows.append((service, what, str(change), almost(change)))
    note = (
        f"The paper says “almost the same after the tuning”, and gives no number. Here: the whole interval lies within {ALMOST:.0%}. "
        "Mean over cases in each block, t over blocks."
    )
    return own_table(
        "Fig. 5: is it almost the same?", note, "service|of|after / before|almost the same", rows
    )


def gives_way(both: Both) -> OwnTable:
    """What the paper finds “in words”: which limit or counter of each loaded case moves first."""
    rows = [
        (name, *(side.first(name, cpu) for side in (both.before, both.after) for cpu in (False, True)))
        for name in loaded(both)
    ]
    note = (
        "The servers' own limits that most trials reached, and counters of refusals that moved in most, in the order of time; at most three. "
        "CPU stands apart: users who ask again at once fill a core within their first second, whatever else is short. "
        "The paper names memcached, descriptors, thread pools and socket buffers, without a counter."
    )
    head = "case|before: queue, limit or counter|before: CPU|after: queue, limit or counter|after: CPU"
    return own_table("What gives way first", note, head, rows)


def by_hand(both: Both) -> OwnTable:
    """What fails first at 4,000 connections, beside five cells that were measured by hand."""
    hand = {(row["case"], row["tuning"]): row for row in read("a8.csv")}
    rows = []
    for (case, tuning), theirs in hand.items():
        side = both.before if tuning == "default" else both.after
        moved = both.after.succeeded(case) - both.before.succeeded(case)
        by_hand_pct = float(hand[case, "final"]["success_pct"]) - float(hand[case, "default"]["success_pct"])
        rows.append((
            case, tuning, f"{theirs['success_pct']} %", f"{float(theirs['ok_rps']):,.0f}/s", theirs["errors"] or "none",
            *plainly(side.succeeded(case), side.counted(case, ANSWERED)), side.first(case, False), side.first(case, True),
            went(moved, by_hand_pct) if tuning == "final" else "",
        ))  # fmt: skip
    note = (
        "A8 is one run of each cell with another load program, by hand, before this study: 4,000 kept connections, 12 s, some 100 KiB each, 500 URLs. "
        "Ours are means over all trials. Success is of all requests of the load there and here, the ramp's included: of 4,000 users who wait for an answer until their "
        "timeout hardly one asks again in the kept window. The direction is that of success, from default to final."
    )
    head = (
        "case|set|A8: success|A8: right answers|A8: errors|ours: success|ours: right answers|"
        "ours: first queue, limit or counter|ours: CPU|direction"
    )
    return own_table("What fails first at 4,000 connections: A8 by hand, ours", note, head, rows)


def interactions(claims: Sequence[Claim]) -> OwnTable:
    """Whether tuning does the same at each server and with and without load: the run's own planned claims."""
    rows = [
        (one.name, one.outcome, one.sentence)
        for one in claims
        if one.by is not None and one.factor == "tuning"
    ]
    note = (
        "The paper says that the behaviour “remains same after tuning” and that response improved “by up to 80 %”. Its Table VIII has the "
        "opposite in both: the cache becomes slower than the backend, and the largest gains are those of idle cases."
    )
    return own_table("Tuning by server and by load", note, "comparison|outcome|what may be said", rows)


def mistakes() -> OwnTable:
    """What the paper's tables contradict by themselves, by the name of the check."""
    found = api.check_tables([str(REFERENCE / f"{name}.csv") for name in PAPER])
    rows = [(one.check, finding.sentence, finding.instead) for one in found for finding in one.findings]
    note = "From the paper's tables alone, as `svload import` checks any table."
    return own_table("What the paper's tables say wrongly", note, "check|found|here instead", rows)


# what is said of two numbers


def clear_ones(changes: Sequence[Change]) -> list[bool]:
    """Which are no chance: Benjamini and Hochberg over a table's rows."""
    known = [at for at, one in enumerate(changes) if one.p is not None]
    found = stats.false_discovery_control([float(changes[at].p or 0.0) for at in known]) if known else []
    clear = {at for at, p in zip(known, found, strict=True) if p <= ALPHA}
    return [at in clear for at in range(len(changes))]


def direction(change: Change, clear: bool, before: float, after: float) -> str:
    """Does ours go where theirs goes? Only what is clear goes anywhere."""
    if change.value is None:
        return "not measured"
    if not clear:
        return "ours not distinguishable"
    if before == after:
        return "paper's does not move"
    return "agrees" if grows(change) == (after > before) else "opposite"


def went(ours: float, theirs: float) -> str:
    """Does our success go where theirs goes? No interval is claimed of so few trials."""
    if math.isnan(ours):
        return "not measured"
    if abs(ours) < SAME_SUCCESS:
        return "ours does not move"
    return "agrees" if (ours > 0) == (theirs > 0) else "opposite"


def plainly(success: float, answered_rps: float) -> tuple[str, str]:
    """Two numbers as cells, without an interval."""
    return (
        "–" if math.isnan(success) else f"{success:.1%}",
        "–" if math.isnan(answered_rps) else f"{answered_rps:,.0f}/s",
    )


def grows(change: Change) -> bool:
    """Whether the second number is the larger one."""
    assert change.value is not None
    return change.value > (0.0 if change.is_difference else 1.0)


def unmatched(change: Change, clear: bool) -> str:
    """What can be said where the paper has no number."""
    if change.value is None:
        return "not measured"
    return ("rises" if grows(change) else "falls") if clear else "no"


def unranked(shares: Sequence[Estimate | None]) -> str:
    """Why two times are not ranked; empty: their success is the same, or not known."""
    known = [one.value for one in shares if one is not None and one.value is not None]
    if len(known) == 2 and abs(known[0] - known[1]) >= SAME_SUCCESS:
        return f"not ranked: success {known[0]:.1%} and {known[1]:.1%}"
    return ""


def reverses(here: Change, there: Change, clear: bool) -> str:
    """Whether one state has the opposite of the other."""
    if here.value is None or there.value is None:
        return "not measured"
    if not clear:
        return "not distinguishable"
    return "yes" if grows(here) != grows(there) else "no"


def almost(change: Change) -> str:
    """Whether a ratio's whole interval is near 1."""
    if change.low is None or change.high is None:
        return "not measured"
    if max(change.high - 1, 1 - change.low) <= ALMOST:
        return f"yes: any difference is below {max(change.high - 1, 1 - change.low):.1%}"
    if change.low > 1 or change.high < 1:
        return f"no: it {'rises' if change.low > 1 else 'falls'}"
    return "open: the interval holds both"


def improvement(before: float, after: float) -> str:
    """The paper's formula, in %: it says −85 % of what takes 6.8 times as long."""
    if math.isnan(before) or math.isnan(after) or max(before, after) <= 0:
        return "–"
    return f"{(before - after) / max(before, after):+.0%}"


# statistics: t on log ratios (of shares on differences)


def _paired(one: Mapping[int, float], other: Mapping[int, float], differences: bool) -> Change:
    blocks = sorted(one.keys() & other.keys())
    if differences:
        return _t([other[at] - one[at] for at in blocks], True)
    return _of_logs([math.log(other[at] / one[at]) for at in blocks if one[at] > 0 and other[at] > 0])


def _apart(one: Mapping[int, float], other: Mapping[int, float], differences: bool) -> Change:
    """Welch's t: two runs were not interleaved, and drift is inside this difference."""
    values = [
        np.array([value for value in side.values() if differences or value > 0]) for side in (other, one)
    ]
    if min(map(len, values)) < 3:
        return Change(None)
    if not differences:
        values = [np.log(side) for side in values]
    mean = float(values[0].mean() - values[1].mean())
    if all(side.std() < ALIKE for side in values):
        return _told(mean, mean, mean, 1.0 if abs(mean) < ALIKE else 0.0, differences)
    found = stats.ttest_ind(*values, equal_var=False)
    low, high = found.confidence_interval(1 - ALPHA)
    return _told(mean, float(low), float(high), float(found.pvalue), differences)


def _of_logs(logs: Sequence[float]) -> Change:
    return _t(logs, False)


def _t(values: Sequence[float], differences: bool) -> Change:
    if len(values) < 3:
        return Change(None)
    mean = float(np.mean(values))
    if np.std(values) < ALIKE:  # all alike, such as success of 100 % on both sides
        return _told(mean, mean, mean, 1.0 if abs(mean) < ALIKE else 0.0, differences)
    found = stats.ttest_1samp(values, 0.0)
    low, high = found.confidence_interval(1 - ALPHA)
    return _told(mean, float(low), float(high), float(found.pvalue), differences)


def _told(mean: float, low: float, high: float, p: float, differences: bool) -> Change:
    if differences:
        return Change(mean, low, high, p, True)
    return Change(math.exp(mean), math.exp(low), math.exp(high), p)


def _logs(both: Both, case: str, key: str) -> dict[int, float]:
    """A case's log ratios by block; of two runs by the order of their blocks."""
    before, after = (side.by_block(case, key) for side in (both.before, both.after))
    return {
        at: math.log(after[at] / before[at])
        for at in before.keys() & after.keys()
        if before[at] > 0 < after[at]
    }


def _by_unit(cells: Sequence[Mapping[int, float]]) -> list[float]:
    """The mean over cases in each block that has them all, else in each that has any."""
    whole = set.intersection(*(set(cell) for cell in cells)) if cells else set()
    blocks = whole if len(whole) > 2 else {at for cell in cells for at in cell}
    return [float(np.mean([cell[at] for cell in cells if at in cell])) for at in sorted(blocks)]


# reading and writing


def read(file: str) -> list[dict[str, str]]:
    """A table of the paper."""
    with (REFERENCE / file).open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def value(one: Estimate | None) -> float:
    """Its value, or not a number."""
    return float("nan") if one is None or one.value is None else one.value


def shown(show: Callable[[float], str]) -> Callable[[Estimate | None], str]:
    """With its interval in brackets, where it has one."""

    def text(one: Estimate | None) -> str:
        if one is None or one.value is None:
            return "–"
        ends = "" if one.low is None or one.high is None else f" ({show(one.low)} to {show(one.high)})"
        return show(one.value) + ends

    return text


percent = shown(lambda share: f"{share:.1%}")
seconds = shown(lambda time_s: f"{time_s:.3g} s")
rate = shown(lambda rate_rps: f"{rate_rps:,.0f}/s" if rate_rps >= 100 else f"{rate_rps:.3g}/s")
cores = shown(lambda share: f"{share:.2f}")
megabytes = shown(lambda size_bytes: f"{size_bytes / 1e6:.0f} MB")


def shown_use(key: str) -> Callable[[Estimate | None], str]:
    """How a use is written."""
    return megabytes if ".memory" in key else cores


def failed(one: Estimate | None) -> str:
    """The share that success leaves."""
    return "–" if one is None or one.value is None else f"{1 - one.value:.1%}"


def main(words: Sequence[str]) -> int:
    """Print all tables of these runs; with --report put them into the last one's report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args(words)
    if len(asked.runs) > 2:
        parser.error("one run of the campaign, or two runs of the study")
    found_runs = [api.find_run(name) for name in asked.runs]
    runs = [api.read_findings(run) for run in found_runs]
    both = sides(runs)
    if not (both.before.cases and both.after.cases):
        parser.error(f"{asked.runs[0]} holds no cases of the sets {BEFORE[0]} and {AFTER[0]}")
    found = list(tables(both, runs[-1].claims))
    print("\n".join(table.markdown() for table in found))
    if asked.report:
        api.put_tables(found_runs[-1], found, "studies/001-svload/tables.py")
        api.report(found_runs[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
