"""What the file server's CPU goes to, beside the paper's call graph.

    python studies/005-file-server/callgraph.py RUN... [--report]

With --report the last run's report and workbook show it, beside the tables that are there already.

The paper profiled its server with callgrind and says one thing: most of the time is spent in `upload_file`, which reads the file and
sends it. Here that function is `send_file`. A line for each case that a run with `profile: server` sampled: the share of the samples in
which each step of a request was under way, what took most, and whether that is the paper's function.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from svload import api
from svload.analysis.stacks import function_shares
from svload.api import OwnTable
from svload.model.stacks import Stacks
from svload.store import RunDir

STEPS: Mapping[str, tuple[str, ...]] = {
    "sends the file": ("send_file", "sendfile"),
    "asks the authentication server": ("Authority::ask", "Authority::once"),
    "reads what is asked": ("LineReader::next",),
    "says ok and the size": ("send_all", "__send"),
    "closes": ("close_politely",),
    "takes connections": ("thread_for", "pthread_create", "accept4"),
}
"""Steps of a request by the functions that make them; one that calls another of the same step counts once."""
PAPERS = "sends the file"
TITLE = "The paper's call graph, ours beside it"
NOTE = (
    "The paper profiled its file server with callgrind, at a load that it does not state: most of the time is in upload_file, "
    "which is send_file here. Shares of the samples in which each step of a request was under way."
)
HEAD = ("run", "case", "samples", *STEPS, "most of it", "paper: upload_file")


def steps(folded: Mapping[str, int]) -> dict[str, float]:
    """The share of the samples that has a function of each step, the first from the outside counting."""
    total = sum(folded.values())
    found = dict.fromkeys(STEPS, 0)
    for stack, samples in folded.items():
        names = [name.partition("@")[0] for name in stack.split(";")]
        places = {step: at for step, own in STEPS.items() if (at := _first(names, own)) is not None}
        if places:
            found[min(places, key=lambda step: places[step])] += samples
    return {step: samples / total for step, samples in found.items()} if total else {}


def _first(names: Sequence[str], own: Sequence[str]) -> int | None:
    return next((at for at, name in enumerate(names) if name in own), None)


def row(run: str, case: str, stacks: Stacks) -> tuple[str, ...]:
    """A case's line; without samples it says why."""
    if not stacks.samples:
        return (run, case, "0", *("–" for _ in STEPS), stacks.why, "not measured")
    shares = steps(stacks.folded)
    most = max(shares, key=lambda step: shares[step])
    own = function_shares(stacks.folded)[0]
    found = f"{most} (by itself: {own.name.replace('_[k]', ' in the kernel')})"
    agrees = "agrees" if most == PAPERS else "differs"
    return (run, case, str(stacks.samples), *(f"{share:.0%}" for share in shares.values()), found, agrees)


def rows(run: RunDir) -> list[tuple[str, ...]]:
    """A line for each case that was sampled, in the study's order."""
    levels = {case.name: " ".join(case.levels.values()) for case in run.lock().cases}
    trials = {trial.trial: trial.case for trial in run.planned_trials()}
    found = {}
    for name in run.sealed_trials():
        if run.trial(name).stacks.exists():
            found[trials[name]] = Stacks.read(run.trial(name).stacks)
    return [row(run.name, levels[case], found[case]) for case in levels if case in found]


def table(runs: Sequence[RunDir]) -> OwnTable | None:
    """All cases of these runs that were sampled; None where none was."""
    found = tuple(line for run in runs for line in rows(run))
    return OwnTable(title=TITLE, note=NOTE, head=HEAD, rows=found) if found else None


def put_beside(run: RunDir, made: Sequence[OwnTable], made_by: str) -> None:
    """Let the run's report show these tables, beside those that it shows already under other titles."""
    mine = {one.title for one in made}
    there = api.read_tables(run.tables_path) if run.tables_path.exists() else []
    api.put_tables(run, [*(one for one in there if one.title not in mine), *made], made_by)
    api.report(run)


def main(words: Sequence[str]) -> int:
    """Print one table of these runs; with --report put it into the last one's report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args(words)
    runs = [api.find_run(name) for name in asked.runs]
    found = table(runs)
    if found is None:
        print(
            "No case of these runs was sampled: run with profile: server, as --profile short does.",
            file=sys.stderr,
        )
        return 1
    print(found.markdown())
    if asked.report:
        put_beside(runs[-1], [found], "studies/005-file-server/callgraph.py")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
