"""Runs: judge, report, query, verify, compare, pack."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from svload.api.damage import reports_damage
from svload.api.typed import writing
from svload.model.errors import ExitCode, SvloadError, fail
from svload.model.events import Event
from svload.run.configs import case_config, case_configs

if TYPE_CHECKING:
    from svload.model.results import CaseResult, Claim, Findings, TrialResult
    from svload.run.policies.base import Verdicts
    from svload.store import RunDir, TrialData
    from svload.tables.own import OwnTable

Emit = Callable[[Event], None]
RUNS = Path("runs")


@reports_damage
def judge_trial(found: RunDir, trial: str) -> dict[str, Any]:
    """Return the provisional verdict on one sealed trial, as data of a `trial-sealed` event."""
    from svload import analysis
    from svload.store.seal import sha256_file

    lock = found.lock()
    folder = found.trial(trial)
    data = read_declared(folder.path)
    plan = next((one for one in found.planned_trials() if one.trial == trial), None)
    config = case_config(lock, lock.case(data.summary.case), plan.at if plan else None)
    result: TrialResult = analysis.judge_trial(data, config, lock=lock, server_cores=_server_cores(found))
    return {
        "analysis_version": analysis.ANALYSIS_VERSION,
        "instrument": result.verdict.instrument,
        "server": result.verdict.server,
        "reasons": list(result.verdict.reasons),
        "refused_by": {
            check.check: [check.sentence, check.remedy]
            for check in result.verdict.checks
            if check.grade == "REFUSED"
        },
        "headline": analysis.headline(result),
        "unauthorised": list(data.summary.unauthorised),
        "seal_sha256": sha256_file(folder.seal),
    }


def read_declared(folder: Path) -> TrialData:
    """Read a sealed trial; if an older svload recorded no declarations of its monitors, use those of this
    one."""
    from svload.store import read_trial
    from svload.watch import declarations

    data = read_trial(folder)
    if data.lab.declared is not None:
        return data
    lab = data.lab.model_copy(update={"declared": declarations(data.lab.services)})
    return replace(data, lab=lab)


@reports_damage
def analyse(found: RunDir, emit: Emit = lambda event: None) -> Findings:
    """Make the final verdicts and findings from the sealed trials alone, and write derived/findings.json."""
    with _phase("analyse", emit):
        findings, phases_s = _judge_again(found)
    return _with_phases(found, findings, phases_s)


def judged(found: RunDir) -> Findings:
    """Return the findings of the sealed trials by today's rules; writes nothing."""
    return _judge_again(found)[0]


def _judge_again(found: RunDir) -> tuple[Findings, list[dict[str, float]]]:
    """Return the findings of the sealed trials, made on all cores, and the phases of each trial. Writes
    nothing."""
    from svload import analysis
    from svload.host.process.forks import spread
    from svload.report.wording.answer import in_words
    from svload.report.wording.traffic import describe_imported, describe_run

    trials = [read_declared(found.trial(name).path) for name in found.sealed_trials()]
    findings = _judge_all(found, trials, each=spread)
    imported = [one.summary.imported for one in trials if one.summary.imported is not None]
    load = (
        describe_imported(imported) if imported else describe_run(list(case_configs(found.lock()).values()))
    )
    worded = in_words(findings.model_copy(update={"load": load}))
    return worded, [analysis.own_phases(trial) for trial in trials]


class FinalVerdicts:
    """The sealed trials of one running run as the final verdict has them now, how wide each comparison's
    interval is, and which gates are decided.

    A policy asks again after every block or few trials, and the warm-up cut of a case, made from all its
    trials, may change earlier verdicts: a trial is judged again only where that of its case has changed. Uses
    one core, since more trials may follow and the lab is up.
    """

    def __init__(self) -> None:
        self._trials: dict[str, TrialData] = {}
        self._known: dict[tuple[str, str], Any] = {}

    def __call__(self, found: RunDir) -> Verdicts:
        """Return them; a search has no claims, and asks for verdicts alone."""
        from svload.analysis.claims.decide import metrics_of_claims, so_far
        from svload.analysis.claims.turned import made_of
        from svload.analysis.judge import judge_trials, sealed_at
        from svload.run.policies.base import Verdicts
        from svload.store import read_events

        for name in found.sealed_trials():
            if name not in self._trials:
                self._trials[name] = read_declared(found.trial(name).path)
        trials = [self._trials[name] for name in found.sealed_trials()]
        lock, begun_s = found.lock(), _begun_s(read_events(found.events).events, trials)
        configs = case_configs(lock)
        if lock.search:
            cores = _server_cores(found)
            results = judge_trials(lock, configs, trials, server_cores=cores, known=self._known)
            return Verdicts({one.trial: one for one in results}, sealed_s=sealed_at(trials), begun_s=begun_s)
        judged = _judge_all(found, trials, known=self._known).trials
        made = made_of(trials, configs, metrics_of_claims(lock, configs), known=self._known)
        found_so_far = so_far(lock, configs, judged, made)
        return Verdicts(
            {one.trial: one for one in judged},
            {name: one.width for name, one in found_so_far.items()},
            sealed_at(trials),
            begun_s,
            frozenset(name for name, one in found_so_far.items() if one.decided),
        )


def _begun_s(events: Sequence[Event], trials: Iterable[TrialData]) -> float | None:
    """Return when the execution that sealed the first trial had the machine to itself, as Unix time: one that
    was stopped before, and the pause after it, take none of the run's time. None if its journal lacks it."""
    from svload.analysis.judge import sealed_at

    sealed_s = min(sealed_at(trials).values(), default=inf)
    return max((one.wall for one in events if one.kind == "placement" and one.wall <= sealed_s), default=None)


def _judge_all(found: RunDir, trials: Sequence[TrialData], **how: Any) -> Findings:
    from svload import analysis
    from svload.store import read_events

    lock, events = found.lock(), read_events(found.events).events
    attempts = [
        _attempt(folder.path.name, read_events(folder.events).events) for folder in found.kept_attempts()
    ]
    findings = analysis.judge_run(
        lock,
        case_configs(lock),
        trials,
        planned=len(found.planned_trials()),
        attempts=attempts,
        certificates=found.certificates(),
        environment=_environment(events, trials),
        server_cores=_server_cores(found),
        begun_s=_begun_s(events, trials),
        **how,
    )
    return findings.model_copy(update={"own_verdicts": analysis.own_verdicts(events)})


def _server_cores(found: RunDir) -> tuple[int, ...]:
    """Return the cores that the services are pinned to; empty if they are not pinned or it was not
    recorded."""
    try:
        placement = found.placement()
    except (SvloadError, OSError):
        return ()
    return placement.server_cores if placement and placement.pinned else ()


def _with_phases(found: RunDir, findings: Findings, trials: Iterable[Mapping[str, float]]) -> Findings:
    """Add the time spent in each phase, from the run's journal so far, to the findings and write them."""
    from svload import analysis
    from svload.store import read_events, write_findings

    phases_s = analysis.phases_of(read_events(found.events).events, trials)
    findings = findings.model_copy(update={"phases_s": phases_s})
    found.derived.mkdir(exist_ok=True)
    write_findings(found, findings)
    return findings


@contextmanager
def _phase(name: str, emit: Emit) -> Iterator[None]:
    begun = time.monotonic()
    emit(Event("phase", {"name": name, "state": "begin"}))
    yield
    emit(Event("phase", {"name": name, "state": "end", "seconds": time.monotonic() - begun}))


def _attempt(name: str, events: Sequence[Event]) -> dict[str, Any]:
    last = next((event for event in reversed(events) if event.kind == "notice"), Event("notice"))
    return {"attempt": name, "why": last.text("why") or "interrupted", "text": last.text("text")}


def _environment(events: Sequence[Event], trials: Sequence[TrialData]) -> dict[str, str]:
    """Return the machine in words, from the run's last start and the preflight."""
    from svload.host.machine.facts import measured_words

    descriptions = [found for event in events if isinstance(found := event.data.get("machine"), dict)]
    words = {str(name): str(value) for name, value in descriptions[-1].items()} if descriptions else {}
    machines = [
        one.lab.conditions.machine for one in trials if one.lab.conditions and one.lab.conditions.machine
    ]
    return words | (measured_words(machines[-1]) if machines else {})


@reports_damage
def report(found: RunDir, emit: Emit = lambda event: None) -> tuple[Findings, dict[str, Path]]:
    """Analyse a run and write its reports: report.html, report.xlsx, junit.xml, findings.json (in derived/).

    The time that this takes is known only afterwards: findings.json has it, the page does not.
    """
    from svload.analysis.phases import OF_TRIALS
    from svload.report.files.write import write_all
    from svload.store.leftovers import sweep
    from svload.store.seal import write_report_digests

    sweep(found.derived)
    findings = analyse(found, emit)
    with _phase("report", emit):
        files = write_all(found, findings, *_own_tables(found, findings.sealed_trials))
        write_report_digests(found, files.values())
    of_trials = {name: seconds for name, seconds in findings.phases_s.items() if name in OF_TRIALS}
    findings = _with_phases(found, findings, [of_trials])
    return findings, {"findings.json": found.findings_path, **files}


def _own_tables(found: RunDir, sealed: int) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the study's own tables as plain data for its report, and notes on what could not be read of
    them."""
    if not found.tables_path.exists():
        return None, ()
    from svload.tables.own import shown_tables

    return shown_tables(found.tables_path, sealed)


@reports_damage
def put_tables(found: RunDir, tables: Sequence[OwnTable], made_by: str) -> Path:
    """Store tables for the run's next reports in place of earlier ones; return their file.

    `made_by` is shown with them. Raises SvloadError run-damaged, usage if the run cannot be written.
    """
    from svload.store import write_artefact
    from svload.tables.own import OwnTables

    own = OwnTables(made_by=made_by, trials=read_findings(found).sealed_trials, tables=tuple(tables))
    with writing(found.tables_path):
        write_artefact(found.tables_path, own)
    return found.tables_path


def verdict_exit(findings: Findings) -> ExitCode:
    """Return 1 if a threshold or a gate failed, 4 if one is open or the study's question has no answer, else
    0: what could not be judged never passes (docs/method.md §2)."""
    from svload.report.wording.ending import ending

    return ending(findings).code


@reports_damage
def why(run_name: str, name: str = "", out: Path = RUNS) -> TrialResult | CaseResult | Claim | Findings:
    """Return what is behind a trial's numbers, a case's limits, or a comparison's claim, by its name (or the
    beginning of it); without a name all findings, with every doubt.

    Raises SvloadError usage for an unknown name.
    """
    from svload.store import find_run

    found = find_run(run_name, out)
    findings = read_findings(found)
    if not name:
        return findings
    for result in findings.trials:
        if result.trial == name:
            return result
    for case in findings.cases:
        if case.case == name and case.trials:
            return case
    wanted = name.casefold().strip()
    named = [claim for claim in findings.claims if claim.name.casefold().startswith(wanted)]
    whole = [claim for claim in named if claim.name.casefold() == wanted]
    if whole or len(named) == 1:
        return (whole or named)[0]
    claims = [f"“{claim.name}”" for claim in findings.claims[:4]]
    raise fail(
        "usage",
        reason=f"{found.name} has no sealed trial, case or comparison “{name}”",
        hint=f"It has {', '.join([*found.sealed_trials()[:6], *claims])} …",
    )


@reports_damage
def read_findings(found: RunDir) -> Findings:
    """Read derived/findings.json; make it again if it is missing, altered, or from another analysis."""
    from svload import analysis
    from svload.model.results import Findings
    from svload.store import findings_are_as_written

    if findings_are_as_written(found):
        findings = Findings.read(found.findings_path)
        if findings.analysis_version == analysis.ANALYSIS_VERSION:
            return findings
    return analyse(found)


@reports_damage
def compare(
    first: str, second: str, out: Path = RUNS, page: Path | None = None
) -> tuple[list[dict[str, Any]], Path]:
    """Return the ratios between two runs, case by case, and the page that shows them.

    The runs were not interleaved, which every row states. The page is `page`, or compare.html in the second
    run's derived/.
    """
    from svload import analysis
    from svload.report.files.write import write_comparison
    from svload.store import find_run

    runs = [find_run(name, out) for name in (first, second)]
    found = [read_findings(run) for run in runs]
    rows = analysis.compare_runs(*found)
    path = page or runs[1].derived / "compare.html"
    with writing(path):
        write_comparison((runs[0], found[0]), (runs[1], found[1]), rows, path)
    return rows, path


@reports_damage
def query(run_name: str, sql: str, out: Path = RUNS) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run SQL over a run's tables; return column names and rows. Raises SvloadError usage with DuckDB's
    message."""
    from svload import store

    found = store.find_run(run_name, out)
    if found.sealed_trials() and not store.findings_are_as_written(found):
        analyse(found)
    return store.query(found, sql)


@reports_damage
def verify(run_name: str, out: Path = RUNS) -> dict[str, Any]:
    """Return {"sealed": number of seals checked, "thinned": files that a thin pack holds in another form than
    was sealed, "damage": a sentence for each, "builds": a sentence for trials of another build than later
    ones, "made_again": a sentence if findings.json did not match the sealed trials, "altered": a sentence for
    each file of the last report that was changed}.

    Detects damage, not forgery.
    """
    from svload.store import find_run, other_builds, verify_run
    from svload.store.seal import altered_reports

    found = find_run(run_name, out)
    damage = [str(problem) for problem in verify_run(found)]
    builds: dict[str, list[str]] = {}
    for trial, changed in {} if damage else other_builds(found).items():
        builds.setdefault(", ".join(changed), []).append(trial)
    thinned = found.thinned() if not damage else None
    return {
        "sealed": len(found.sealed_trials()),
        "thinned": len(thinned.files) if thinned is not None else 0,
        "damage": damage,
        "builds": [
            f"{', '.join(trials)} {'was' if len(trials) == 1 else 'were'} measured with a different build than later "
            f"trials and are left out: {names} changed"
            for names, trials in builds.items()
        ],
        "made_again": [] if damage or _as_packed(found) else _findings_made_again(found),
        "altered": [
            f"{path} is not as svload wrote it; “svload report {found.path}” writes it again"
            for path in altered_reports(found)
        ],
    }


def _as_packed(found: RunDir) -> bool:
    """Return whether these findings came with a thin pack: they are based on more data than it holds. A
    report may have replaced them since."""
    from svload.store.seal import sha256_file

    thinned = found.thinned()
    known = thinned.files.get("derived/findings.json") if thinned is not None else None
    return (
        known is not None and found.findings_path.is_file() and sha256_file(found.findings_path) == known.kept
    )


def find_run(name: str, out: Path = RUNS) -> RunDir:
    """Find the run that a user names: `latest`, a name under `out`, a folder's path, or a pack. Raises
    SvloadError: run-not-found, run-linked, run-damaged."""
    from svload import store

    return store.find_run(name, out)


def names_run(name: str, out: Path = RUNS) -> bool:
    """Return whether there is a run or pack of that name, which `find_run` would open."""
    from svload.store import names_run as names

    return names(name, out)


def damaged(run_name: str, out: Path = RUNS, trial: str | None = None) -> list[str]:
    """Return one sentence for each damage that `verify` would find; with `trial` without other trials."""
    from svload.store import find_run, verify_run

    found = find_run(run_name, out)
    of_others = {found.trial(name).path for name in found.sealed_trials() if trial not in (None, name)}
    return [
        str(problem)
        for problem in verify_run(found)
        if not of_others & {(path := Path(str(problem.details.get("path", "")))), *path.parents}
    ]


def _findings_made_again(found: RunDir) -> list[str]:
    """Make findings.json again if it does not match the sealed trials; return a sentence on that."""
    from svload import analysis
    from svload.model.results import Findings

    path = found.findings_path
    if not path.is_file():
        return []
    before = None
    with suppress(SvloadError):
        before = Findings.read(path)
    if before is not None and before.analysis_version != analysis.ANALYSIS_VERSION:
        return []
    findings, phases_s = _judge_again(found)
    if (
        before is not None
        and findings.model_copy(update={"phases_s": before.phases_s}).to_json() == before.to_json()
    ):
        return []
    with writing(path):
        _with_phases(found, findings, phases_s)
    return [
        f"{path} did not match the sealed trials and was generated again. “svload report {found.path}” generates the rest."
    ]


@reports_damage
def pack(run_name: str, target: Path | None, out: Path = RUNS, thin: bool = False) -> Path:
    """Write the run as one file, without its study's secrets, that every command reads like the run itself;
    `thin`: small, and without the paths of this machine."""
    from svload.store import find_run, findings_are_as_written, pack_run, thin_copy
    from svload.store.layout import PACK_SUFFIX

    found = find_run(run_name, out)
    if found.findings_path.exists() and not findings_are_as_written(found):
        analyse(found)
    to = target or found.path.with_name(found.name + PACK_SUFFIX)
    with writing(to):
        if not thin:
            return pack_run(found, to)
        with TemporaryDirectory() as folder:
            folders = _own_folders() | {found.lock().study_dir: "."}
            copy = thin_copy(found, Path(folder), _kept_windows(found), folders)
            return pack_run(copy, to)


def secret_columns(run_name: str, out: Path = RUNS) -> list[str]:
    """Return the columns of the run's tables that may hold passwords, as `users.csv: password`; a pack
    includes them."""
    from svload.store import find_run
    from svload.store.pack import secret_columns

    return secret_columns(find_run(run_name, out))


def _kept_windows(found: RunDir) -> dict[str, tuple[int, int]]:
    """Return each trial's kept window as [first, last) intervals, from the findings."""
    from svload.analysis.view import kept_window
    from svload.store import read_trial

    windows = {}
    for trial in read_findings(found).trials:
        window = kept_window(read_trial(found.trial(trial.trial)).summary, trial.cut_ns)
        windows[trial.trial] = (window.first, window.last)
    return windows


def _own_folders() -> dict[str, str]:
    from svload.host import cache_dir, state_dir

    return {str(state_dir()): "$SVLOAD_STATE", str(cache_dir()): "$SVLOAD_CACHE", str(Path.home()): "~"}


def schema() -> dict[str, Any]:
    """Return the study file's JSON Schema, with every kit's options."""
    from svload import lab, study

    return study.json_schema({name: kit.Options.model_json_schema() for name, kit in lab.all_kits().items()})
