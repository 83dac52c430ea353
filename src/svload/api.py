"""The Python API: one function a command. The command line parses, calls one of these, and prints.

It composes the rooms and decides nothing that a room could decide. Heavy imports happen inside the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.model.errors import ExitCode, SvloadError, fail
from svload.model.events import Event

if TYPE_CHECKING:
    from svload.model.results import Findings, TrialResult
    from svload.model.study import Case, CaseConfig, Lock
    from svload.run import Outcome
    from svload.store import RunDir

Emit = Callable[[Event], None]
RUNS = Path("runs")
DEMO_STUDY = "001-svload"


@dataclass
class Choices:
    """What a user may choose for a run beside the study: none of it is hidden in the study's folder."""

    profile: str | None = None
    seed: int | None = None
    out: Path = RUNS
    trusted: bool = False
    authorised: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    plant: str | None = None
    wait_s: float | None = None
    write_report: bool = True


@dataclass
class RunResult:
    """A finished (or stopped) execution: where it lies, what it means, and the command's exit code."""

    run: RunDir
    outcome: Outcome
    findings: Findings | None
    files: dict[str, Path]
    exit_code: ExitCode


def load_lock(study_path: str, choices: Choices) -> Lock:
    """The study resolved under the choices. Raises SvloadError with every mistake at once, exit 2."""
    from svload import lab, study
    from svload.run.trust import is_trusted, trust

    path = study.find_study(study_path)
    lock = study.load_study(
        path,
        profile=choices.profile,
        overrides=choices.overrides,
        seed=choices.seed,
        trusted=choices.trusted or is_trusted(path),
        authorised=choices.authorised,
        kits={name: kit.Options for name, kit in lab.all_kits().items()},
    )
    if choices.trusted:
        trust(path)
    if choices.only:
        lock = _only(lock, choices.only)
    if choices.plant:
        from svload.run import plant

        lock = plant(lock, choices.plant, study.resolve)
    return lock


def _only(lock: Lock, only: Sequence[str]) -> Lock:
    known = {case.name for case in lock.cases}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise fail(
            "usage",
            reason=f"There is no case {', '.join(unknown)}",
            hint=f"Cases: {', '.join(sorted(known))}.",
        )
    cases = tuple(
        case
        if case.name in only or case.excluded
        else case.model_copy(update={"excluded": "left out by --only"})
        for case in lock.cases
    )
    if not any(case.excluded is None for case in cases):
        raise fail(
            "usage",
            reason="--only leaves no case that can be run",
            hint="Name at least one case that is not excluded.",
        )
    return lock.model_copy(update={"cases": cases})


def plan(study_path: str, choices: Choices) -> dict[str, Any]:
    """The dry run: cases, trials, seconds, bytes, comparisons with their smallest p and least detectable effect. Starts nothing."""
    from svload import analysis, study

    lock = load_lock(study_path, choices)
    estimate = analysis.estimate_run(lock, _configs(lock))
    batch = study.first_batch(lock)
    return {
        "study": lock.name,
        "question": lock.question,
        "profile": lock.profile,
        "seed": lock.seed,
        "cases": [
            {"name": case.name, "levels": case.levels, "excluded": case.excluded} for case in lock.cases
        ],
        "trials": len(batch.trials),
        "order": [trial.trial for trial in batch.trials],
        "restarts": sum(trial.restart for trial in batch.trials),
        "factors": [
            {"name": factor.name, "change": factor.change, "levels": [level.name for level in factor.levels]}
            for factor in lock.factors
        ],
        "estimated_s": estimate.seconds,
        "estimated_bytes": estimate.size_bytes,
        "comparisons": analysis.plan_comparisons(lock),
        "trusted_needed": study.needs_trust(lock),
    }


def run_study(study_path: str, choices: Choices, emit: Emit) -> RunResult:
    """Run a study from its first trial to its report. Raises SvloadError before anything is started; later failures are in the result."""
    from svload import analysis, run, study

    lock = load_lock(study_path, choices)
    untrusted = [] if lock.trusted else study.needs_trust(lock)
    if untrusted:
        raise fail("study-untrusted", what="; ".join(untrusted), place=study_path)
    _refuse_undecidable(analysis.plan_comparisons(lock), lock)
    run.permitted_targets(_configs(lock).values(), lock.authorised)
    return _execute(run.begin(lock, choices.out), emit, choices)


def resume(run_name: str, choices: Choices, emit: Emit) -> RunResult:
    """Go on with a run where it stopped, from its lock alone; says so if the study has changed since."""
    from svload import study
    from svload.store import find_run

    found = find_run(run_name, choices.out)
    lock = found.lock()
    try:
        changed = study.study_digest(lock.study_dir) != lock.study_sha256
    except (SvloadError, OSError):
        changed = False
    if changed:
        emit(
            Event(
                "notice",
                {
                    "text": f"{lock.study_dir} has changed since this run began; the run goes on with its own lock"
                },
            )
        )
    return _execute(found, emit, choices)


def _refuse_undecidable(comparisons: Sequence[Mapping[str, Any]], lock: Lock) -> None:
    gated = {comparison.name for comparison in lock.comparisons if comparison.fail_if}
    hopeless = [entry for entry in comparisons if entry["state"] == "undecidable" and entry["name"] in gated]
    if hopeless:
        raise SvloadError(
            *(
                fail(
                    "study-undecidable",
                    name=entry["name"],
                    blocks=lock.measure.replicates,
                    smallest_p=entry["smallest_p"],
                    needed=entry["needed_blocks"],
                ).problems[0]
                for entry in hopeless
            )
        )


def _execute(found: RunDir, emit: Emit, choices: Choices) -> RunResult:
    from svload import analysis, run

    lock = found.lock()
    need = analysis.estimate_run(lock, _configs(lock)).size_bytes
    options = run.Options(
        emit=emit, judge=judge_trial, wait_for_machine_s=choices.wait_s, need_bytes=round(need)
    )
    outcome = run.execute(found, options)
    findings: Findings | None = None
    files: dict[str, Path] = {}
    codes = [outcome.exit_code]
    if found.sealed_trials():
        if choices.write_report:
            findings, files = report(found, emit)
        else:
            findings = analyse(found)
        codes.append(verdict_exit(findings))
    return RunResult(found, outcome, findings, files, ExitCode.worst(codes))


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


def _configs(lock: Lock) -> dict[str, CaseConfig]:
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
    phases = _phases(read_events(found.events).events)
    findings = analysis.judge_run(
        lock, _configs(lock), trials, planned=len(found.planned_trials()), attempts=attempts, phases_s=phases
    )
    found.derived.mkdir(exist_ok=True)
    write_artefact(found.findings_path, findings)
    return findings


def _attempt(name: str, events: Sequence[Event]) -> dict[str, Any]:
    last = next((event.data for event in reversed(events) if event.kind == "notice"), {})
    return {"attempt": name, "why": last.get("why", "interrupted"), "text": last.get("text", "")}


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
    """4 if a threshold met a refused case, 1 if one failed or a gated comparison did, else 0."""
    codes = [ExitCode.DONE]
    for threshold in findings.thresholds:
        if threshold.outcome in ("refused", "no value"):
            codes.append(ExitCode.REFUSED)
        elif threshold.outcome == "failed":
            codes.append(ExitCode.THRESHOLD_FAILED)
    if any(claim.failed for claim in findings.claims):
        codes.append(ExitCode.THRESHOLD_FAILED)
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


def init(target: str, folder: Path, authorised: tuple[str, ...] = ()) -> tuple[Path, str]:
    """Write study.yaml for a URL or a command into `folder` (made if absent); its path and what one look at the server said."""
    from svload import study
    from svload.run.trust import trust

    path = folder / "study.yaml"
    if path.exists():
        raise fail("usage", reason=f"{path} is there already", hint="Name another folder.")
    text = study.init_study(target)
    said = f"a study that starts “{target}”"
    if "://" in target:
        row = probe(target, 1, (), None, authorised, False)[0]
        said = f"{target} answered {row['http_code']} in {row['time_total'] * 1e3:.1f} ms ({row['size_download']} bytes)"
        if row["error"]:
            said = f"{target} did not answer ({row['error']}); the study is written all the same"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    trust(path)
    return path, said


def probe(
    url: str,
    count: int,
    headers: Sequence[str],
    ca_file: Path | None,
    authorised: tuple[str, ...],
    keep_alive: bool,
) -> list[dict[str, Any]]:
    """curl's eleven variables of `count` transfers, one after another. Raises SvloadError."""
    from svload.drive import quick

    pairs = []
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon or not name.strip() or "\n" in header or "\r" in header:
            raise fail("usage", reason=f"“{header}” is no header", hint="Write “Name: value”.")
        pairs.append((name.strip(), value.strip()))
    ca_pem = _read_text(ca_file) if ca_file else None
    return quick.probe(url, count, pairs, ca_pem, authorised, "keep-alive" if keep_alive else "new")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as why:
        raise fail("usage", reason=f"{path} cannot be read ({why.strerror})", hint="") from why


def _seconds(text: str, option: str) -> float:
    from svload.model.units import parse_quantity

    try:
        return parse_quantity(text, "time_s")
    except ValueError as why:
        raise fail("usage", reason=f"{option} {text}: {why}", hint="Write it like 10s or 2h.") from why


def load(
    url: str,
    *,
    vus: int | None,
    rate_rps: float | None,
    max_vus: int | None,
    duration: str,
    ca_file: Path | None,
    out: Path | None,
    authorised: tuple[str, ...],
    wait_s: float | None,
    emit: Emit,
) -> tuple[dict[str, Any], ExitCode]:
    """One URL, one group, one trial: the same river as a study. Returns the summary of DESIGN (Commands) and the exit code."""
    import tempfile

    from svload.drive.targets import parse_url, resolve_target
    from svload.study.quick import quick_study

    if rate_rps is not None and (vus is not None or rate_rps <= 0):
        raise fail(
            "usage",
            reason="--rate takes a number above 0, and not together with --vus",
            hint="Use --max-vus to bound it.",
        )
    if _seconds(duration, "--duration") <= 0:
        raise fail("usage", reason=f"--duration {duration} is no time to measure", hint="Write it like 10s.")
    resolve_target(parse_url(url), authorised)
    authority = _read_text(ca_file) if ca_file else None
    with tempfile.TemporaryDirectory(prefix="svload-load-") as folder:
        beside = Path(folder) / "ca.pem" if authority else None
        if beside and authority:
            beside.write_text(authority, encoding="utf-8")
        path = Path(folder) / "study.yaml"
        text = quick_study(url, vus, rate_rps, max_vus, duration, beside)
        path.write_text(text, encoding="utf-8")
        choices = Choices(
            out=out or Path(folder) / "runs",
            authorised=authorised,
            wait_s=wait_s,
            write_report=out is not None,
        )
        result = run_study(str(path), choices, emit)
        if result.outcome.error is not None:
            raise result.outcome.error
        if result.findings is None:
            raise fail("interrupted", run=result.run.path) if out else fail("load-interrupted")
        from svload.store import read_trial

        trial = read_trial(result.run.trial(result.findings.trials[0].trial).path)
        summary = load_summary(trial.summary, result.findings.trials[0])
        if out is not None:
            summary["run"] = str(result.run.path)
    return summary, result.exit_code


def load_summary(summary: Any, result: TrialResult) -> dict[str, Any]:
    """`svload load`'s JSON: counts in balance, times in ms, the instrument's verdict and the server's."""
    group = summary.groups[0]
    metrics = result.metrics
    window_s = (summary.window_ns[1] - summary.window_ns[0]) / 1e9

    def times(metric: str, stats: Sequence[str]) -> dict[str, float | None]:
        found = {stat: metrics.get(f"{group.name}.{metric}.{stat}") for stat in stats}
        return {
            stat: None if one is None or one.value is None else one.value * 1e3 for stat, one in found.items()
        }

    full = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")
    return {
        "due": group.due,
        "begun": group.begun,
        "waiting": group.waiting,
        "dropped": group.dropped,
        "requests": group.ok + group.failed,
        "ok": group.ok,
        "failed": group.failed,
        "in_flight": group.in_flight,
        "errors": group.errors,
        "status": group.status,
        "duration_s": window_s,
        "throughput_rps": group.completed_in_window / window_s if window_s else None,
        "bytes_received": group.bytes_received,
        "response_ms": times("response", full),
        "ok_response_ms": times("ok_response", full),
        "service_ms": times("service", full),
        "generator_lag_ms": times("generator_lag", ("p50", "p99", "max")),
        "cpu_s": sum(generator.cpu_ns for generator in summary.generators) / 1e9,
        "instrument": {"grade": result.verdict.instrument, "reasons": list(result.verdict.reasons)},
        "server": {"state": result.verdict.server},
        "longest_silence_ms": group.longest_silence_ns / 1e6,
    }


def doctor(study_path: str | None, profile: str | None) -> dict[str, Any]:
    """What this machine is, and what a study's kits would miss here: `machine` and `problems` (sentences)."""
    from svload import host, lab, study

    problems: list[str] = []
    if study_path:
        lock = load_lock(study_path, Choices(profile=profile))
        config = study.resolve(lock, lock.valid_cases[0])
        problems = [str(problem) for problem in lab.check(config.services, host.cache_dir())]
    return {"machine": host.describe_machine(), "problems": problems}


def lab_install(study_path: str, profile: str | None, emit: Emit) -> list[str]:
    """Install what the study's kits need; what was done, a line each. Without a profile that names real servers, the study's own lab."""
    from svload import host, lab, study

    lock = load_lock(study_path, Choices(profile=profile))
    config = study.resolve(lock, lock.valid_cases[0])
    emit(Event("phase", {"name": "install", "state": "begin"}))
    done = lab.install(config.services, host.cache_dir())
    emit(Event("phase", {"name": "install", "state": "end"}))
    return done


def lab_up(study_path: str, profile: str | None, lease: str, trust: bool, emit: Emit) -> dict[str, Any]:
    """Bring a study's servers up and keep them for `lease` (such as 2h); its id, until and endpoints."""
    from svload import host, study
    from svload.run.keeper import keep

    lease_s = _seconds(lease, "--for")
    lock = load_lock(study_path, Choices(profile=profile, trusted=trust))
    untrusted = [] if lock.trusted else study.needs_trust(lock)
    if untrusted:
        raise fail("study-untrusted", what="; ".join(untrusted), place=study_path)
    host.finish_leftovers()
    emit(Event("phase", {"name": "up", "state": "begin"}))
    found = keep(lock, lease_s)
    emit(Event("phase", {"name": "up", "state": "end"}))
    return found


def lab_status() -> dict[str, Any]:
    """Kept labs, agents, and the sizes of svload's caches on this machine."""
    from svload import host
    from svload.model.units import show_size
    from svload.run.keeper import agents, kept_labs

    host.finish_leftovers()
    cache = host.cache_dir()
    sizes = {
        str(path.relative_to(cache)): show_size(
            sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        )
        for path in sorted(cache.glob("*/*"))
    }
    labs = [
        {
            "id": lab["id"],
            "owner": lab["study"],
            "lease": f"until {lab['until']}",
            "endpoints": lab["endpoints"],
        }
        for lab in kept_labs()
    ]
    return {"labs": labs, "agents": agents(), "caches": sizes}


def lab_reset(lab_id: str | None) -> dict[str, Any]:
    """Reset a kept lab's servers; each one's proof."""
    from svload.run.keeper import ask

    return dict(ask(lab_id or _only_lab(), "reset").get("proof", {}))


def lab_down(lab_id: str | None) -> list[str]:
    """End one kept lab, or all; a line each."""
    from svload import host
    from svload.run.keeper import ask, kept_labs

    lines = []
    for name in [lab_id] if lab_id else [str(lab["id"]) for lab in kept_labs()]:
        ask(name, "down")
        lines.append(f"{name} is going down")
    host.finish_leftovers()
    return lines or ["no lab is up"]


def _only_lab() -> str:
    from svload.run.keeper import kept_labs

    labs = kept_labs()
    if len(labs) != 1:
        raise fail(
            "usage",
            reason=f"{len(labs)} labs are up",
            hint="Name one: " + ", ".join(str(lab["id"]) for lab in labs) if labs else "",
        )
    return str(labs[0]["id"])
