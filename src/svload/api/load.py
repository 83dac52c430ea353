"""`svload load URL`: one URL, one group, one trial, through the same pipeline as any study."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.api.studies import AbortIf, Choices, Emit, RunResult, load_lock, run_study
from svload.api.typed import authority, writing
from svload.host import passing_folder
from svload.model.errors import ExitCode, Problem, SvloadError, fail
from svload.model.events import Event
from svload.model.outputs import write_output
from svload.model.private import private_folder
from svload.model.request_hints import HINTS, no_answer, nothing_sent
from svload.run.configs import case_configs
from svload.run.hands import early_hands, hold_ready
from svload.study.quick_load import BODY_FILE, CA_FILE, QuickLoad, quick_study, study_of, study_text

if TYPE_CHECKING:
    from svload.drive.targets import Target
    from svload.model.load_summary import LoadSummary
    from svload.run.hands import EarlyHands
    from svload.store import RunDir

_CONNECT_TO = re.compile(r"(?:(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d*):)?(?P<to>(?:\[[^\]]+\]|[^:\[\]]+):\d+)")  # fmt: skip
STUDIES, STUDY = ".studies", "study.json"


@dataclass(frozen=True)
class LoadFiles:
    """The user's files that a load reads."""

    ca: Path | None = None
    body: Path | None = None


@dataclass(frozen=True)
class LoadResult:
    """The result of a load. `error` is what stopped it early (Ctrl-C), printed after the summary."""

    summary: LoadSummary
    exit_code: ExitCode
    error: SvloadError | None = None


def load(
    ask: QuickLoad,
    *,
    files: LoadFiles = LoadFiles(),
    out: Path | None = None,
    authorised: tuple[str, ...] = (),
    wait_s: float | None = None,
    wait_quiet_s: float = 0.0,
    emit: Emit,
) -> LoadResult:
    """Load one URL and judge the result. With `out` the run is kept like any other.

    Raises SvloadError: usage, url-bad, unauthorised-target before anything is started; target-unreachable as
    soon as it is clear that no request is answered; load-interrupted (interrupted with `out`) if it was
    stopped before anything was measured.
    """
    ask = replace(ask, has_ca_file=files.ca is not None, has_data_file=files.body is not None)
    ask.check()
    ask, target = aimed(ask, authorised)
    enough_ports(ask, target)
    with _study_folder(ask, files, out) as folder, in_environment(dict(ask.secrets.values())):
        choices = Choices(
            out=out or folder / "runs",
            own=True,
            seed=ask.seed,
            authorised=authorised,
            wait_s=wait_s,
            wait_quiet_s=wait_quiet_s,
            look_round=False,
            write_report=False,
        )
        with early_hands("load", ask.generators) as early:
            answers = _Answers(target.endpoint)
            result = _run(folder, choices, emit, answers.abort_if, early)
        return _result(ask, answers, result, out)


def rehearse() -> None:
    """Read the study of a load without making the load, so that the study reader is initialised. Sends
    nothing."""
    with passing_folder("warm") as folder:
        study = folder / STUDY
        study.write_text(quick_study(QuickLoad("http://127.0.0.1:9/")), encoding="utf-8")
        case_configs(load_lock(str(study), Choices()))


def ready_hands() -> EarlyHands:
    """Start the agent and generator of the next load."""
    return hold_ready("warm", generators=1)


@contextmanager
def in_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables, which a study's secrets refer to, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _run(
    folder: Path, choices: Choices, emit: Emit, abort_if: AbortIf, early: EarlyHands | None
) -> RunResult:
    """Run the generated study; errors name options instead of places in its file."""
    try:
        return run_study(str(folder / STUDY), choices, emit, abort_if, early)
    except SvloadError as error:
        raise as_typed(error, folder) from error


def as_typed(error: SvloadError, folder: Path) -> SvloadError:
    """Return the errors of a generated study in terms of the typed options, each once."""
    problems = {str(one): one for one in (_as_option(problem, str(folder)) for problem in error.problems)}
    return SvloadError(*problems.values())


def _as_option(problem: Problem, folder: str) -> Problem:
    """Return the problem by its option: `traffic.load.rate` of the generated study becomes `--rate`."""
    if not problem.place.startswith(folder):
        return problem
    where = str(problem.details.get("where", ""))
    part, _, key = where.rpartition(".")
    if part in ("traffic.load", "requests.get", "measure") or key == "fail_if":
        return replace(
            problem,
            place="",
            details={**problem.details, "where": f"--{_OPTIONS.get(key, key.replace('_', '-'))}"},
        )
    return replace(problem, place="")


_OPTIONS = {"iterations": "requests", "replicates": "blocks"}
"""Keys of the study whose option has a different name."""


def _result(ask: QuickLoad, answers: _Answers, result: RunResult, out: Path | None) -> LoadResult:
    """Return the summary of a sealed trial, or of what a stopped one had measured."""
    if (failed := result.outcome.error) is not None:
        raise failed if out else SvloadError(*(_unkept(one) for one in failed.problems))
    from svload.report.wording.ending import criteria_ending

    code, error = result.exit_code, None
    if result.findings is None:
        code = ExitCode.INTERRUPTED
        error = fail("interrupted", run=result.run.path) if out else fail("load-interrupted")
        if not (kept := [one for one in result.run.kept_attempts() if one.summary.exists()]):
            raise error
        summary = _summary(ask, result.run, kept[-1].path, None)
    else:
        trial = result.run.trial(result.findings.trials[0].trial).path
        # Only thresholds decide a load's exit code: 0 even if a busy machine made it REFUSED, which is shown.
        code = ExitCode.worst([result.outcome.exit_code, criteria_ending(result.findings).code])
        summary = _summary(ask, result.run, trial, result)
        again = tuple(str(one["text"]) for one in result.findings.attempts)
        summary = summary.model_copy(update={"made_again": again})
        if unanswered := answers.lacking(summary):
            raise unanswered
        if not summary.ok:
            error = _nothing_ok(summary)
            code = ExitCode.worst([code, error.exit_code])
    if out is not None:
        summary = summary.model_copy(update={"run": str(result.run.path)})
    return LoadResult(summary, code, error)


def _nothing_ok(summary: LoadSummary) -> SvloadError:
    """Return the error printed, not raised, after the summary of a load without any successful request."""
    if not summary.requests:
        reason = (
            f"none of {summary.begun:,} requests completed in time"
            if summary.begun
            else "no request was sent"
        )
        return fail("nothing-ok", reason=reason, hint="Check the server, or use a longer --duration.")
    reason = f"all {summary.failed:,} requests failed"
    return fail("nothing-ok", reason=reason, hint="Run “svload probe” with this URL to see the response.")


def _unkept(problem: Problem) -> Problem:
    """Return the problem without references to files: a load without `out` keeps nothing to resume or
    inspect."""
    from svload.run.attempts import without_logs  # not before agent and generator are started

    if problem.code == "interrupted":
        return fail("load-interrupted").problems[0]
    found = without_logs(problem, "Add --out DIR to keep the run with its logs.")
    return replace(found, place="" if found.place.startswith("lab.") else found.place)


def _summary(ask: QuickLoad, run: RunDir, folder: Path, result: RunResult | None) -> LoadSummary:
    from svload import analysis
    from svload.report.wording.traffic import describe_load
    from svload.store import read_trial

    lock = run.lock()
    config = case_configs(lock)[lock.cases[0].name]
    trial = read_trial(folder)
    findings = result.findings if result else None
    judged = findings.trials[0] if findings else analysis.judge_trial(trial, config, lock=lock)
    thresholds = findings.thresholds if findings else ()
    text = describe_load(config.groups[0])
    summary = analysis.summarise_load(ask.url, text, trial, config, judged, thresholds)
    notes = [one.sentence for one in findings.findings if one.kind == "late-body"] if findings else []
    summary = summary.model_copy(update={"notes": tuple(notes)})
    group = trial.summary.groups[0]
    if (first := group.first_failure) is None:
        return summary
    span = (first.at_ns / 1e9, max(first.at_ns, group.last_failed_ns) / 1e9)
    return summary.model_copy(update={"first_failure": first, "failed_s": span})


def aimed(ask: QuickLoad, authorised: tuple[str, ...]) -> tuple[QuickLoad, Target]:
    """Return the load with `connect_to` as host and port, and its target, if that is allowed. Raises
    SvloadError url-bad, usage, unauthorised-target."""
    from svload.drive.targets import find_target, parse_connect_to, parse_url

    target = parse_url(ask.url)
    if elsewhere := _connect_to(ask, target):
        target = replace(target, connect_to=parse_connect_to(elsewhere))
    find_target(target, authorised)
    return replace(ask, connect_to=elsewhere), target


def _connect_to(ask: QuickLoad, target: Target) -> str | None:
    """Return `--connect-to` as host:port; also accepts curl's four parts if the first two match the URL.
    Raises SvloadError usage."""
    if ask.connect_to is None:
        return None
    found = _CONNECT_TO.fullmatch(ask.connect_to)
    if not found:
        raise fail("usage", reason=f"--connect-to {ask.connect_to} names no host and port", hint="Write --connect-to 127.0.0.1:8443.")  # fmt: skip
    host, port = found["host"], found["port"]
    if (host and host.strip("[]") != target.host) or (port and int(port) != target.port):
        raise fail("usage", reason=f"--connect-to names {host}:{port}, but the URL doesn't", hint="Write --connect-to HOST:PORT.")  # fmt: skip
    return found["to"]


def enough_ports(ask: QuickLoad, target: Target) -> None:
    """Refuse a load that would use up the local ports before it starts. Raises SvloadError usage."""
    from svload.drive.targets import is_authorised
    from svload.host.machine.ports import local_ports, most_new_connections

    at_once = ask.max_vus if ask.open_loop else ask.users
    ports = len(local_ports())
    if (at_once or 0) > ports:
        raise fail(
            "usage",
            reason=f"{at_once} concurrent connections need as many local ports, but this machine has {ports} per "
            f"target",
            hint="Use fewer, or widen net.ipv4.ip_local_port_range.",
        )
    if ask.keep_alive or ask.peak_rps is None:
        return
    host = (target.connect_to or (target.host, target.port))[0]
    most_rps = most_new_connections(ask.lasts_s, is_authorised(host))
    if ask.peak_rps > most_rps:
        raise fail(
            "usage",
            reason=f"--rate {ask.peak_rps:.12g} with a new connection each uses up this machine's local ports; "
            f"{most_rps:.0f}/s is the most for {ask.lasts_s:g} s",
            hint="Reduce the rate, or leave out --no-keepalive.",
        )


class _Answers:
    """The answers counted in a load's progress events."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._redirects = 0

    def abort_if(self, event: Event) -> SvloadError | None:
        """Return the error to raise immediately if an event shows that no request is answered."""
        if event.kind != "progress" or not (groups := event.data["groups"]):
            return None
        self._redirects = groups[0].get("redirects", 0)  # type: ignore[index]
        return hopeless(self._origin, groups[0])  # type: ignore[index]

    def lacking(self, summary: LoadSummary) -> SvloadError | None:
        """Return the error to raise if no request was answered by the end."""
        whole = {"ok": summary.ok, "errors": summary.errors, "redirects": self._redirects}
        return hopeless(self._origin, whole)


def hopeless(origin: str, group: Mapping[str, Any]) -> SvloadError | None:
    """Return the error to raise if every request failed without an answer (a redirect is an answer); None if
    any had one."""
    errors: Mapping[str, int] = group["errors"]
    if group["ok"] or group.get("redirects") or not errors or not all(map(no_answer, errors)):
        return None
    most = max(errors, key=lambda name: errors[name])
    what = ", ".join(errors)
    hint = HINTS[most][:1].upper() + HINTS[most][1:] + "."
    code = "target-unreachable" if all(map(nothing_sent, errors)) else "target-silent"
    return fail(code, target=origin, what=what, count=sum(errors.values()), hint=hint)


@contextmanager
def _study_folder(ask: QuickLoad, files: LoadFiles, out: Path | None) -> Iterator[Path]:
    """Yield the folder of the generated study with its files: removed afterwards, or kept beside a run that
    may be resumed."""
    study = study_of(ask)
    if out is not None:
        with kept_study("load", study, files, out) as path:
            yield Path(path).parent
        return
    with passing_folder("load") as folder:
        place_files(files, folder)
        (folder / STUDY).write_text(study_text(study), encoding="utf-8")
        yield folder


@contextmanager
def kept_study(name: str, study: Mapping[str, Any], files: LoadFiles, out: Path) -> Iterator[str]:
    """Write a generated study beside its run, which may be resumed, and yield its path. Where what follows
    refuses the run, what was not there before is removed. Raises SvloadError usage."""
    text = study_text(study)
    folder = out / STUDIES / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        with writing(out):
            private_folder(folder)
            place_files(files, folder)
            write_output(folder / STUDY, text)
        yield str(folder / STUDY)
    except SvloadError:
        if folder in new:
            shutil.rmtree(folder, ignore_errors=True)
        for empty in new:
            with suppress(OSError):  # it holds something else, or was never made
                empty.rmdir()
        raise


def place_files(files: LoadFiles, folder: Path) -> None:
    """Place the user's files beside the study. Raises SvloadError usage."""
    for option, name, path in (("--cacert", CA_FILE, files.ca), ("--data-file", BODY_FILE, files.body)):
        if path is not None:
            _place(option, path, folder / name)
    if files.ca is not None:
        authority((folder / CA_FILE).read_text("ascii", "replace"), files.ca)


def _place(option: str, source: Path, target: Path) -> None:
    """Link or copy a user's file to a place beside the study. Raises SvloadError usage."""
    target.unlink(missing_ok=True)
    try:
        if not source.is_file():
            raise IsADirectoryError(0, "is no file") if source.exists() else FileNotFoundError(0, "there is no such file")  # fmt: skip
        try:
            os.link(source.resolve(), target)
        except OSError:
            shutil.copyfile(source, target)
    except OSError as why:
        raise fail("usage", reason=f"{option} {source} cannot be read ({why.strerror})", hint="") from why
