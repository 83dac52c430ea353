"""Without a study of one's own: a first look, one transfer, one load, the machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.api.studies import Choices, Emit, load_lock, run_study
from svload.api.words import seconds
from svload.model.errors import ExitCode, fail

if TYPE_CHECKING:
    from svload.model.results import TrialResult

LOAD_TAKES, WORK_TAKES_AT_MOST = "10s", "10min"
"""`svload load`: how long, and how long at most with --iterations (k6's maxDuration)."""


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


def load(
    url: str,
    *,
    vus: int | None,
    rate_rps: float | None,
    max_vus: int | None,
    iterations: int | None,
    duration: str | None,
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
    if iterations is not None and rate_rps is not None:
        raise fail(
            "usage",
            reason="--iterations is made by users, not at a --rate",
            hint="Leave one of them out.",
        )
    length = duration or (WORK_TAKES_AT_MOST if iterations is not None else LOAD_TAKES)
    if seconds(length, "--duration") <= 0:
        raise fail("usage", reason=f"--duration {duration} is no time to measure", hint="Write it like 10s.")
    resolve_target(parse_url(url), authorised)
    authority = _read_text(ca_file) if ca_file else None
    with tempfile.TemporaryDirectory(prefix="svload-load-") as folder:
        beside = Path(folder) / "ca.pem" if authority else None
        if beside and authority:
            beside.write_text(authority, encoding="utf-8")
        path = Path(folder) / "study.yaml"
        text = quick_study(url, vus, rate_rps, max_vus, iterations, length, beside)
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
    begin_ns, end_ns = summary.window_ns
    done = group.plan_done and group.last_done_ns > begin_ns
    window_s = ((group.last_done_ns if done else end_ns) - begin_ns) / 1e9

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


def doctor(study_path: str | None, profile: str | None, *, anew: bool = False) -> dict[str, Any]:
    """What this machine is and carries, its instrument certificate, and what a study would miss here.

    Keys: `machine`, `instrument` (null: none), `problems` (sentences). Loopback and timers are measured once a boot, or `anew`.
    """
    from svload import host, lab, run, study
    from svload.host import certificates
    from svload.host.conditions import machine
    from svload.host.preflight import preflight

    problems: list[str] = []
    if study_path:
        lock = load_lock(study_path, Choices(profile=profile))
        config = study.resolve(lock, lock.valid_cases[0])
        problems = [str(problem) for problem in lab.check(config.services, host.cache_dir())]
        configs = [study.resolve(lock, case) for case in lock.valid_cases]
        problems += [str(problem) for problem in run.misfits(configs, machine())]
    figures = preflight(anew=anew)
    certificate = certificates.instrument()
    return {
        "machine": host.describe_machine(figures),
        "instrument": certificate.model_dump(mode="json") if certificate else None,
        "problems": problems,
    }
