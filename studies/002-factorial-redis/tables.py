"""The tables of these studies: the paper's beside ours, the page's cost by what is stored, who ends for want of memory.

python studies/002-factorial-redis/tables.py RUN [--report]

The run's study says which. With --report the run's report and workbook show them, too.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from svload import api
from svload.analysis.cases import over_runs
from svload.analysis.laws.n_star import Station, mean_values
from svload.api import OwnTable
from svload.model.results import CaseResult, Estimate, Findings, TrialResult
from svload.model.units import show_duration

HERE = Path(__file__).parent
REFERENCE = HERE / "reference"
USERS = 50
LETTERS = {"factorial": "F", "calculationsStored": "S"}
DELAYS_MS = (0, 100, 200)
LIMITS = ("1.0", "0.9", "0.8")
THROUGHPUT, RESPONSE = "users.throughput", "users.response.mean"
ANSWERED = "users.ok_throughput"
FIRST, LAST = "users.server_time.p50", "users.service.p50"
WEB, STORE = "web.cpu.mean", "store.cpu.mean"
Cases = Mapping[str, CaseResult]
Ask = Callable[[str], list[dict[str, object]]]
"""The name of a query in `queries/` → the run's answer."""


@dataclass(frozen=True)
class Cell:
    """A cell of the paper's tables, and its name in the study."""

    name: str
    scenario: str
    cpus: str
    delay_ms: int
    throughput_rps: float
    response_s: float


def cells() -> list[Cell]:
    """As the paper prints them."""
    with (REFERENCE / "factorial.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Cell(
            f"{LETTERS[row['scenario']]}-{row['cpus']}-{row['delay_ms']}",
            row["scenario"],
            row["cpus"],
            int(row["delay_ms"]),
            float(row["throughput_per_s"]),
            float(row["mean_elapsed_ms"]) / 1000,
        )
        for row in rows
    ]


def tables(run: Findings, ask: Ask) -> list[OwnTable]:
    """All that belong to the run's study; none to another's."""
    made = STUDIES.get(run.study)
    return list(made(run, ask)) if made else []


def of_the_paper(run: Findings, ask: Ask) -> Iterator[OwnTable]:
    """Of study.yaml."""
    ours = {case.case: case for case in run.cases}
    yield beside(ours)
    yield limit_directions(ours)
    yield think_directions(ours)
    yield limit_claims(run)
    yield predictions(ours)
    yield first_bytes(ours, ask("first-byte"))


def beside(ours: Cases) -> OwnTable:
    """Throughput and mean response of each cell, and N = X·(R + Z) of both."""
    rows = []
    for cell in cells():
        x, r = (found(ours, cell.name, key) for key in (THROUGHPUT, RESPONSE))
        law = "–" if x is None or r is None else f"{x.value * (r.value + cell.delay_ms / 1000):.1f}"
        theirs = cell.throughput_rps * (cell.response_s + cell.delay_ms / 1000)
        rows.append((
            cell.name, rate(x), f"{cell.throughput_rps:g}/s", seconds(r), f"{cell.response_s:.3g} s", law, f"{theirs:.1f}",
        ))  # fmt: skip
    head = ("cell", "throughput", "the paper's", "mean response", "the paper's", "X·(R + Z)", "the paper's")
    return table("Cell by cell", f"{USERS} users: X·(R + Z) can be no more.", head, rows)


def limit_directions(ours: Cases) -> OwnTable:
    """Throughput under each limit over that without one: does ours go where the paper's goes?"""
    rows = []
    for letter, delay in rows_of_cells():
        found = [
            ratios(ours, f"{letter}-1.0-{delay}", f"{letter}-{cpus}-{delay}", THROUGHPUT)
            for cpus in LIMITS[1:]
        ]
        rows.append((f"{letter}, {delay} ms", *(text for three in found for text in three)))
    head = (
        "cells",
        *(word for cpus in LIMITS[1:] for word in (f"{cpus} over 1.0", "the paper's", "direction")),
    )
    return table("What the limit does to throughput", NOT_DISTINGUISHABLE, head, rows)


def think_directions(ours: Cases) -> OwnTable:
    """Mean response with each delay over that without one."""
    rows = []
    for letter in LETTERS.values():
        for cpus in LIMITS:
            names = [f"{letter}-{cpus}-{delay}" for delay in DELAYS_MS]
            found = [ratios(ours, names[0], name, RESPONSE) for name in names[1:]]
            rows.append((f"{letter}, {cpus} CPU", *(text for three in found for text in three)))
    head = (
        "cells",
        *(word for delay in DELAYS_MS[1:] for word in (f"{delay} ms over 0", "the paper's", "direction")),
    )
    return table("What think time does to the mean response", NOT_DISTINGUISHABLE, head, rows)


NOT_DISTINGUISHABLE = "“Not distinguishable”: our two intervals overlap, so ours shows no direction."


def rows_of_cells() -> list[tuple[str, int]]:
    """Letter and delay of each line of three cells."""
    return [(letter, delay) for letter in LETTERS.values() for delay in DELAYS_MS]


def ratios(ours: Cases, base: str, name: str, key: str) -> tuple[str, str, str]:
    """A cell over another: ours, the paper's, and whether both go the same way."""
    by_name = {cell.name: cell for cell in cells()}
    first, second = by_name[base], by_name[name]
    of_rates = key == THROUGHPUT
    theirs = (
        second.throughput_rps / first.throughput_rps if of_rates else second.response_s / first.response_s
    )
    one, other = found(ours, base, key), found(ours, name, key)
    mine = "–" if one is None or other is None else f"{other.value / one.value:.3g}"
    return mine, f"{theirs:.3g}", api.direction(one, other, theirs)


def limit_claims(run: Findings) -> OwnTable:
    """What pairs of one block say of the limit, and the least effect that so many can find."""
    by_name = {cell.name: cell for cell in cells()}
    rows = []
    for claim in run.claims:
        if claim.factor != "cpus" or len(claim.pairs) != 1:
            continue
        base, treated = claim.pairs[0]
        if base not in by_name or treated not in by_name:
            continue
        theirs = by_name[treated].throughput_rps / by_name[base].throughput_rps
        least = "–" if claim.mde is None else f"{100 * claim.mde:.2g} %"
        outcome = (
            claim.outcome if claim.outcome != "open" or not claim.why_open else f"open: {claim.why_open}"
        )
        rows.append(
            (
                f"{treated} over {base}",
                shown(claim.ratio, "{:.3g}", ""),
                f"{theirs:.3g}",
                str(claim.blocks),
                least,
                outcome,
            )
        )
    note = "The paper has one run a cell and calls its own “no significant difference”. The least effect is one that so many pairs find four times in five."
    head = ("throughput", "ours", "the paper's", "pairs", "least effect that these find", "outcome")
    return table("The limit, by pairs", note, head, rows)


def predictions(ours: Cases) -> OwnTable:
    """Every cell's throughput from what one request of each page asks of web server and Redis, by exact mean value analysis.

    The demands are measured in the cells without limit and without think time alone.
    """
    rows = []
    for letter, delay in rows_of_cells():
        found = [predicted(ours, letter, cpus, delay) for cpus in LIMITS]
        rows.append((f"{letter}, {delay} ms", *found))
    note = (
        "Throughput by two demands, each measured in one cell (F-1.0-0, S-1.0-0): CPU time of web server and of Redis per request. "
        "Behind it, how far that is off what was measured."
    )
    return table("All cells from two demands", note, ("cells", *(f"{cpus} CPU" for cpus in LIMITS)), rows)


def predicted(ours: Cases, letter: str, cpus: str, delay_ms: int) -> str:
    """A cell's throughput as predicted, and the error."""
    x, web, store = (found(ours, f"{letter}-1.0-0", key) for key in (THROUGHPUT, WEB, STORE))
    if x is None or web is None or store is None:
        return "–"
    stations = [Station(web.value / x.value / float(cpus)), Station(store.value / x.value)]
    expected = float(mean_values(stations, delay_ms / 1000, USERS).throughput_rps[-1])
    seen = found(ours, f"{letter}-{cpus}-{delay_ms}", THROUGHPUT)
    error = "" if seen is None else f" ({expected / seen.value - 1:+.1%})"
    return f"{expected:.4g}/s{error}"


def first_bytes(ours: Cases, kept: Sequence[Mapping[str, object]]) -> OwnTable:
    """First byte beside last byte; `kept`: of cells that keep rows, the share of requests where both are one."""
    shares = {str(row["cell"]): row for row in kept}
    rows = []
    for cell in cells():
        first, last = found(ours, cell.name, FIRST), found(ours, cell.name, LAST)
        row = shares.get(cell.name)
        result = (
            ("–", "–", "–") if row is None else (f"{row['n']:,}", percent(row["near"]), percent(row["same"]))
        )
        theirs = "about half" if cell.scenario == "factorial" else "–"
        rows.append((cell.name, short(first), short(last), *result, theirs))
    note = (
        "Medians. The last byte is counted from the request's begin, the first from its write, which on a connection that stands is the same "
        "moment. “Within 1 ms”: the last byte came less than 1 ms after the first; “same”: in the same millisecond, JMeter's resolution, "
        "which is when it prints one number for both. Shares are of cells that keep a row a request."
    )
    head = ("cell", "first byte", "last byte", "requests", "within 1 ms", "same", "the paper's")
    return table("First byte and last byte", note, head, rows)


def of_storage(run: Findings, ask: Ask) -> Iterator[OwnTable]:
    """Of storage.yaml: the page's cost by how much is stored and how it is read."""
    rows = []
    for case in sorted(run.cases, key=lambda one: ORDER.index(one.levels["stored"])):
        if case.excluded is not None:
            continue
        trials = [trial for trial in run.trials if trial.case == case.case]
        rows.append((
            case.levels["stored"], case.levels["storage"], cost(trials, "web"), cost(trials, "store"),
            seconds(known(case, "users.response.p50")), rate(known(case, THROUGHPUT)),
        ))  # fmt: skip
    note = "CPU seconds of web server and Redis a page: mean over trials of CPU over throughput, with its 95 % interval between trials."
    head = ("stored", "read by", "CPU of web a page", "CPU of Redis a page", "median response", "pages")
    yield table("What a page costs by what is stored", note, head, rows)


ORDER = ("ten", "hundred", "thousand")


def cost(trials: Sequence[TrialResult], service: str) -> str:
    """CPU of a service a request, over the trials that may be believed."""
    key = f"{service}.cpu.mean"
    each = [{key: one} for trial in trials if (one := cost_in(trial, key)) is not None]
    return shown(over_runs(each)[key] if each else None, "{:.3g}", " ms")


def cost_in(trial: TrialResult, key: str) -> Estimate | None:
    """In ms, of one trial; None where one of both numbers is null or REFUSED."""
    cpu, x = trial.metrics.get(key), trial.metrics.get(THROUGHPUT)
    if cpu is None or x is None or "REFUSED" in (cpu.grade, x.grade) or cpu.value is None or not x.value:
        return None
    return Estimate(value=1000 * cpu.value / x.value, n=1)


def of_memory(run: Findings, ask: Ask) -> Iterator[OwnTable]:
    """Of memory.yaml: who ends under which limit."""
    rows = []
    for case in run.cases:
        if case.excluded is not None:
            continue
        trials = [trial for trial in run.trials if trial.case == case.case]
        peaks = (size(peak(trials, service)) for service in SERVICES)
        rows.append(
            (case.levels["limits"], case.levels["stored"], died(trials), *peaks, rate(known(case, ANSWERED)))
        )
    note = (
        "Trials in which a service, or a process of it, was ended, over all trials. Peaks are the largest resident memory of any trial; what ends within "
        "a second may have had more. Pages are whole ones: a server that is gone refuses fast."
    )
    head = ("limit", "stored", "who ended", "most memory of web", "of Redis", "whole pages")
    yield table("Memory: who ends where it is too little", note, head, rows)


SERVICES = ("web", "store")


def died(trials: Sequence[TrialResult]) -> str:
    """`web in 3 of 3 (killed for want of memory)`; the words that name a limit's group are no service."""
    counts: Counter[tuple[str, str]] = Counter()
    for trial in trials:
        found = {
            (
                service,
                "killed for want of memory"
                if " of memory " in death.partition("(")[0]
                else "ended by itself",
            )
            for death in trial.deaths
            for service in SERVICES
            if re.search(rf"\b{service}\b", death.partition("(")[0])
        }
        counts.update(found)
    return (
        ", ".join(
            f"{service} in {count} of {len(trials)} ({how})"
            for (service, how), count in sorted(counts.items())
        )
        or "nobody"
    )


def peak(trials: Sequence[TrialResult], service: str) -> float | None:
    """Bytes; None: in no trial it was read."""
    found = [one.value for trial in trials if (one := trial.metrics.get(f"{service}.memory.max")) is not None]
    return max((value for value in found if value is not None), default=None)


def of_confounded(run: Findings, ask: Ask) -> Iterator[OwnTable]:
    """Of confounded.yaml: what its intervals would say, and why nothing is claimed."""
    rows = [
        (claim.name, shown(claim.ratio, "{:.3g}", ""), claim.outcome, claim.why_open or "–")
        for claim in run.claims
    ]
    note = "How much is stored goes with the limit: whatever the intervals, no claim about the limit may come out of it."
    yield table("The limit and the page at once", note, ("comparison", "ratio", "outcome", "why"), rows)


STUDIES: dict[str, Callable[[Findings, Ask], Iterator[OwnTable]]] = {
    "factorial": of_the_paper,
    "factorial-storage": of_storage,
    "factorial-memory": of_memory,
    "factorial-confounded": of_confounded,
}
"""Study → its tables."""


def found(ours: Cases, case: str, key: str) -> Estimate | None:
    """A case's number; None: none that may be believed."""
    return known(ours[case], key) if case in ours else None


def known(case: CaseResult, key: str) -> Estimate | None:
    """The same of a case that there is."""
    one = case.metrics.get(key)
    return None if one is None or one.value is None else one


def rate(one: Estimate | None) -> str:
    return shown(one, "{:.4g}", "/s")


def seconds(one: Estimate | None) -> str:
    return shown(one, "{:.3g}", " s")


def short(one: Estimate | None) -> str:
    """A time in the unit that fits it, without an interval."""
    return "–" if one is None or one.value is None else show_duration(one.value)


def size(value: float | None) -> str:
    return "–" if value is None else f"{value / (1 << 20):.3g} MiB"


def percent(share: object) -> str:
    return f"{100 * float(str(share)):.3g} %"


def shown(one: Estimate | None, form: str, unit: str) -> str:
    """With its interval in brackets, where it has one."""
    if one is None or one.value is None:
        return "–"
    ends = (
        "" if one.low is None or one.high is None else f" ({form.format(one.low)} to {form.format(one.high)})"
    )
    return form.format(one.value) + unit + ends


def table(title: str, note: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> OwnTable:
    """A table as the report shows it."""
    return OwnTable(title=title, note=note, head=tuple(head), rows=tuple(map(tuple, rows)))


def asking(run: Path) -> Ask:
    """The queries of `queries/`, of this run."""

    def ask(name: str) -> list[dict[str, object]]:
        names, rows = api.query(str(run), (HERE / "queries" / f"{name}.sql").read_text(encoding="utf-8"))
        return [dict(zip(names, row, strict=True)) for row in rows]

    return ask


def main(words: Sequence[str]) -> int:
    """Print the tables of a run; with --report put them into its report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args(words)
    run = api.find_run(asked.run)
    findings = api.read_findings(run)
    made = tables(findings, asking(run.path))
    if not made:
        parser.error(
            f"{asked.run} is of the study {findings.study}; there are tables of {', '.join(STUDIES)}"
        )
    print("\n".join(table.markdown() for table in made))
    if asked.report:
        api.put_tables(run, made, "studies/002-factorial-redis/tables.py")
        api.report(run)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
