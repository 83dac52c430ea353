"""Runs: judged, reported, asked, checked, compared, packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.model.errors import ExitCode, fail
from svload.model.events import Event

if TYPE_CHECKING:
    from svload.model.results import Findings, TrialResult
    from svload.model.study import Case, CaseConfig, Lock
    from svload.store import RunDir, TrialData

Emit = Callable[[Event], None]
RUNS = Path("runs")


def judge_trial(found: RunDir, trial: str) -> dict[str, Any]:
    """The provisional verdict on one sealed trial, as data of a `trial-sealed` event."""
    from svload import analysis
    from svload.store import read_trial
    from svload.store.seal import sha256_file

    lock = found.lock()
    folder = found.trial(trial)
    data = read_trial(folder.path)
    config = _config(lock, lock.case(data.summary.case))
    result: TrialResult = analysis.judge_trial(data, config, lock=lock)
    return {
        "instrument": result.verdict.instrument,
        "server": result.verdict.server,
        "reasons": list(result.verdict.reasons),
        "headline": analysis.headline(result),
        "unauthorised": list(data.summary.unauthorised),
        "seal_sha256": sha256_file(folder.seal),
    }


def case_configs(lock: Lock) -> dict[str, CaseConfig]:
    """What each valid case asks for, by its name."""
    return {case.name: _config(lock, case) for case in lock.valid_cases}


def _config(lock: Lock, case: Case) -> CaseConfig:
    """What a case asks for, a planted fault of its traffic included: a trial is judged by what it was told to do."""
    from svload import run, study

    config = study.resolve(lock, case)
    return run.planted_config(config, lock.plants.get(case.name), lock.measure.duration_ns)


def analyse(found: RunDir) -> Findings:
    """The final verdicts and findings from the sealed trials alone; written to derived/findings.json."""
    from svload import analysis
    from svload.store import read_events, read_trial, write_artefact

    lock = found.lock()
    trials = [read_trial(found.trial(name).path) for name in found.sealed_trials()]
    attempts = [
        _attempt(folder.path.name, read_events(folder.events).events) for folder in found.kept_attempts()
    ]
    events = read_events(found.events).events
    findings = analysis.judge_run(
        lock,
        case_configs(lock),
        trials,
        planned=len(found.planned_trials()),
        attempts=attempts,
        phases_s=_phases(events),
        certificates=found.certificates(),
        environment=_environment(events, trials),
    )
    found.derived.mkdir(exist_ok=True)
    write_artefact(found.findings_path, findings)
    return findings


def _attempt(name: str, events: Sequence[Event]) -> dict[str, Any]:
    last = next((event.data for event in reversed(events) if event.kind == "notice"), {})
    return {"attempt": name, "why": last.get("why", "interrupted"), "text": last.get("text", "")}


def _environment(events: Sequence[Event], trials: Sequence[TrialData]) -> dict[str, str]:
    """The machine in words, as the run's last start and the preflight found it."""
    from svload.host.machine import measured_words

    told = [event.data["machine"] for event in events if isinstance(event.data.get("machine"), dict)]
    words = {str(name): str(value) for name, value in told[-1].items()} if told else {}
    machines = [
        one.lab.conditions.machine for one in trials if one.lab.conditions and one.lab.conditions.machine
    ]
    return words | (measured_words(machines[-1]) if machines else {})


def _phases(events: Sequence[Event]) -> dict[str, float]:
    """Seconds of the run by phase, added over resumes: up, fill, load, and all of it."""
    phases: dict[str, float] = {}
    for event in events:
        if event.kind == "phase" and event.data.get("state") == "end":
            name = str(event.data["name"])
            phases[name] = phases.get(name, 0.0) + float(event.data["seconds"])  # type: ignore[arg-type]
        if event.kind == "run-ended":
            for key, name in (("seconds", "total"), ("load_s", "load")):
                phases[name] = phases.get(name, 0.0) + float(event.data.get(key, 0.0))  # type: ignore[arg-type]
    return phases


def report(found: RunDir, emit: Emit = lambda event: None) -> tuple[Findings, dict[str, Path]]:
    """Analyse a run and write all that people read: report.html, report.xlsx, junit.xml, findings.json (in derived/)."""
    from svload.report import write_all

    emit(Event("phase", {"name": "analyse", "state": "begin"}))
    findings = analyse(found)
    emit(Event("phase", {"name": "report", "state": "begin"}))
    files = write_all(found, findings)
    return findings, {"findings.json": found.findings_path, **files}


def verdict_exit(findings: Findings) -> ExitCode:
    """4 if a threshold or a gate met what could not be judged, 1 if one failed, else 0: a gate is never passed for want of trials."""
    codes = [ExitCode.DONE]
    for threshold in findings.thresholds:
        if threshold.outcome in ("refused", "no value"):
            codes.append(ExitCode.REFUSED)
        elif threshold.outcome == "failed":
            codes.append(ExitCode.THRESHOLD_FAILED)
    for claim in findings.claims:
        if claim.failed:
            codes.append(ExitCode.THRESHOLD_FAILED)
        elif claim.gated and claim.state in ("undecidable", "refused"):
            codes.append(ExitCode.REFUSED)
    return ExitCode.worst(codes)


def why(run_name: str, trial: str, out: Path = RUNS) -> TrialResult:
    """The verdict on one trial with every check, passed ones too. Raises SvloadError usage for an unknown trial."""
    from svload.store import find_run

    found = find_run(run_name, out)
    findings = read_findings(found)
    for result in findings.trials:
        if result.trial == trial:
            return result
    raise fail(
        "usage",
        reason=f"{found.name} has no sealed trial {trial}",
        hint=f"It has {', '.join(found.sealed_trials()[:6])} …",
    )


def read_findings(found: RunDir) -> Findings:
    """derived/findings.json, made anew if it is not there or of another analysis."""
    from svload import analysis
    from svload.model.results import Findings

    if found.findings_path.exists():
        findings = Findings.read(found.findings_path)
        if findings.analysis_version == analysis.ANALYSIS_VERSION:
            return findings
    return analyse(found)


def compare(first: str, second: str, out: Path = RUNS) -> list[dict[str, Any]]:
    """Effects and intervals between two runs, case by case. They were not interleaved, and every row says so."""
    from svload import analysis
    from svload.store import find_run

    return analysis.compare_runs(read_findings(find_run(first, out)), read_findings(find_run(second, out)))


def query(run_name: str, sql: str, out: Path = RUNS) -> tuple[list[str], list[tuple[Any, ...]]]:
    """SQL over a run's tables: column names and rows. Raises SvloadError usage with DuckDB's own words."""
    from svload import store

    return store.query(store.find_run(run_name, out), sql)


def verify(run_name: str, out: Path = RUNS) -> tuple[int, list[str]]:
    """How many seals were checked, and a sentence for each thing that is damaged (damage is detected, not forgery)."""
    from svload.store import find_run, verify_run

    found = find_run(run_name, out)
    return len(found.sealed_trials()), [str(problem) for problem in verify_run(found)]


def pack(run_name: str, target: Path | None, out: Path = RUNS) -> Path:
    """The run as one file without secrets, which every command reads like the run itself."""
    from svload.store import find_run, pack_run

    found = find_run(run_name, out)
    return pack_run(found, target)


def schema() -> dict[str, Any]:
    """The study file's JSON Schema, with every kit's options."""
    from svload import lab, study

    return study.json_schema({name: kit.Options.model_json_schema() for name, kit in lab.all_kits().items()})
