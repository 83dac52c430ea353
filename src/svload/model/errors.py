"""The error catalogue: every failure a user can meet, with its remedy.

A code is stable; its sentence states what happened, its remedy what to do. `SvloadError` carries one or more
`Problem`s, so that all mistakes of a study are reported together. Light on imports: the command line loads it
first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """Exit codes of every command; where several apply, `worst` names the one to use."""

    DONE = 0
    THRESHOLD_FAILED = 1
    USAGE = 2
    LAB_FAILED = 3
    REFUSED = 4
    INTERRUPTED = 130

    @staticmethod
    def worst(codes: Sequence[ExitCode]) -> ExitCode:
        """Return the exit code that takes precedence: 2, then 130, 3, 1, 4, 0 (docs/method.md §2)."""
        order = (
            ExitCode.USAGE,
            ExitCode.INTERRUPTED,
            ExitCode.LAB_FAILED,
            ExitCode.THRESHOLD_FAILED,
            ExitCode.REFUSED,
        )
        return next((code for code in order if code in codes), ExitCode.DONE)


@dataclass(frozen=True)
class ErrorKind:
    """One entry of the catalogue; `sentence` and `remedy` are `str.format` templates over the problem's details."""

    code: str
    exit_code: ExitCode
    sentence: str
    remedy: str


_USAGE, _LAB = ExitCode.USAGE, ExitCode.LAB_FAILED

CATALOGUE: dict[str, ErrorKind] = {
    kind.code: kind
    for kind in (
        # the study file
        ErrorKind("study-linked", _USAGE, "{path} is a symbolic link to {target}, outside its folder, so error messages could show lines of that file.", "Name that file itself, or copy it here."),
        ErrorKind("study-not-found", _USAGE, "There is no study at “{path}”.", "Name a folder that holds study.yaml, or the file itself."),
        ErrorKind("study-syntax", _USAGE, "Invalid YAML: {reason}.", "Fix this line; a study is plain YAML 1.2 without tags."),
        ErrorKind("study-too-large", _USAGE, "The study is too large: {reason}.", "Split it into smaller studies."),
        ErrorKind("study-unknown-key", _USAGE, "Unknown key “{key}” in {where}.", "{hint}"),
        ErrorKind("study-missing-key", _USAGE, "{where} needs “{key}”.", "{hint}"),
        ErrorKind("study-bad-value", _USAGE, "{where}: {reason}, found {found}.", "{hint}"),
        ErrorKind("study-unknown-name", _USAGE, "{where}: no such {kind}: “{name}”.", "{hint}"),
        ErrorKind("study-bad-reference", _USAGE, "“{reference}” cannot be resolved in {where}.", "{hint}"),
        ErrorKind("study-bad-criterion", _USAGE, "“{text}” is not a criterion: {reason}.", "Write [group.|service.]metric[.stat] OP value unit, for example response.p95 < 200 ms."),
        ErrorKind("study-refused", _USAGE, "{where}: the load generator can't run this: {reason}.", "Change or remove it."),
        ErrorKind("study-untrusted", _USAGE, "The study could run commands, act outside its lab or read your files and secrets ({what}), and {why}.", "Read it, then add --trust to run it."),
        ErrorKind("build-changed", _USAGE, "{files} changed after the first trials of {path}, so further trials would measure a different build.", "Restore it, start a new run, or add --changed-build to continue without the earlier trials."),
        ErrorKind("run-untrusted", _USAGE, "The run at {path} {why}, and it could act outside the lab or read your files and secrets ({what}).", "Read its study.lock.json, then add --trust to resume it."),
        ErrorKind("study-open", _USAGE, "The factor {factor} has a range instead of levels, which only a search can use.", "Run svload capacity, or give the factor levels, such as [10, 100]."),
        ErrorKind("study-undecidable", _USAGE, "The comparison “{name}” could never decide its fail_if: {reason}.", "{hint}, or drop fail_if."),
        ErrorKind("profile-unknown", _USAGE, "There is no profile “{name}”.", "{hint}"),
        # usage
        ErrorKind("usage", _USAGE, "{reason}.", "{hint}"),
        ErrorKind("url-bad", _USAGE, "“{url}” is not a URL that svload can load: {reason}.", "Write http://host:port/path or https://…"),
        ErrorKind("run-not-found", _USAGE, "There is no {state}run at “{path}”.", "Name a folder under ./runs, a pack, or “latest”."),
        ErrorKind("run-damaged", _USAGE, "{path} is damaged: {reason}.", "Restore it from a copy; never edit sealed files."),
        ErrorKind("run-linked", _USAGE, "{path} is a symbolic link to {target}, but svload writes only inside the run's own folder.", "Put the folder itself there, or remove the link."),
        ErrorKind("input-unreadable", _USAGE, "{path} can't be read as feeder rows: {reason}.", "A CSV file needs a header line and the same number of values in every row; a Parquet file may have no empty values."),
        ErrorKind("import-unreadable", _USAGE, "{path} cannot be imported: {reason}.", "{hint}"),
        ErrorKind("run-exists", _USAGE, "{path} already exists and is not empty.", "Name another folder with --out."),
        ErrorKind("format-newer", _USAGE, "{path} has format {found}; this svload reads up to {known}.", "Use a newer svload."),
        ErrorKind("plan-too-large", _USAGE, "{case} needs more than this machine can provide: {reason}.", "{hint}"),
        ErrorKind("unauthorised-target", _USAGE, "{target} is not authorised as a target; no packet was sent to it.", "If you may load it, add --authorise {host} to the command."),
        ErrorKind("secret-missing", _USAGE, "The secret ${{{secret}}} has no value: {reason}.", "Set {variable} to the value, or {variable}_FILE to the path of a file that contains it."),
        # the lab and the machine
        ErrorKind("tool-missing", _LAB, "{kit} needs {what}, which is not installed on this machine.", "{hint}"),
        ErrorKind("build-failed", _LAB, "Building {service} with {tool} failed: {reason}.", "Fix the build; its full output is in {log}."),
        ErrorKind("service-died", _LAB, "The service {service} exited unexpectedly (exit {exit}). Its last output: {tail}", "See {log}; “svload resume {run}” continues where the run stopped."),
        ErrorKind("link-died", _LAB, "The delay line of {service}'s link exited unexpectedly (exit {exit}), and nothing reached {service} since. Its last output: {tail}", "See {log}; “svload resume {run}” continues where the run stopped."),
        ErrorKind("service-out-of-memory", _LAB, "The kernel killed {count} of {service}'s processes for lack of memory (limit: {limit}).", "Give it more memory, or set on_death: finding if the study expects this. See {log}."),
        ErrorKind("service-not-ready", _LAB, "The service {service} was not ready within {seconds} s. Its last output: {tail}", "See {log}."),
        ErrorKind("port-taken", _LAB, "Port {port} of {service} is already in use by {holder}.", "Stop that program, or leave the port out so that svload picks one."),
        ErrorKind("service-not-ours", _LAB, "{holder} was already running on {service}'s port {port}, and its responses would count as {service}'s.", "Stop it, then run again. See {log}."),
        ErrorKind("fill-failed", _LAB, "Filling {service} failed: {reason}.", "See the log of {service} at {log}."),
        ErrorKind("fault-failed", _LAB, "The planned fault of {target} failed: {reason}.", "See the logs of {target}; the trial was not counted."),
        ErrorKind("reset-failed", _LAB, "Resetting {service} failed: {reason}.", "See {log}; the trial was not counted."),
        ErrorKind("set-up-failed", _LAB, "Setting up the trial failed: {reason}.", "Send {request} by hand and check its response; the trial was not counted."),
        ErrorKind("lab-failed", _LAB, "The lab failed: {reason}.", "{hint}"),
        ErrorKind("profile-not-measured", _LAB, "The profile of {service} is not measured: {reason}.", "{hint}"),
        ErrorKind("target-unreachable", _LAB, "{target} answered no request: {what} ({count} of {count}).", "{hint}"),
        ErrorKind("abort-held", ExitCode.THRESHOLD_FAILED, "abort_if stopped the run: {that} was true in {trial}, {at} into its load ({value} over the last {seconds} s).", "Completed trials are kept; “svload resume” repeats this trial and continues."),
        ErrorKind("target-silent", ExitCode.THRESHOLD_FAILED, "{target} accepted connections but completed no response: {what} ({count} of {count}).", "{hint}"),
        ErrorKind("nothing-ok", ExitCode.THRESHOLD_FAILED, "No request succeeded: {reason}.", "{hint}"),
        ErrorKind("target-gone", ExitCode.THRESHOLD_FAILED, "{target} no longer answers as it did: {reason}.", "{hint}"),
        ErrorKind("lab-failed-thrice", _LAB, "The lab failed three times in a row; the run was stopped.", "Fix the cause, then continue with “svload resume {run}”."),
        ErrorKind("not-yours", _LAB, "{path} belongs to another user (uid {owner}), so svload does not use it.", "Copy it to a folder of your own; SVLOAD_STATE and SVLOAD_CACHE name svload's folders."),
        ErrorKind("disk-full", _LAB, "The run needs about {need} and {path} has {free} free.", "Free space, or write elsewhere with --out DIR."),
        ErrorKind("file-refused", _LAB, "The system refused access to {path} ({reason}).", "Free space, raise the limit, or use another path (SVLOAD_STATE and SVLOAD_CACHE name svload's own folders)."),
        ErrorKind("limit-low", _LAB, "This shell's limit for {what} is {found}, but svload needs {needed}.", "Raise it with “{command}”, or ask the machine's administrator."),
        ErrorKind("memory-short", _LAB, "svload needs more memory than it is allowed to use.", "Raise the limit (ulimit -v), or free memory."),
        ErrorKind("not-undone", _LAB, "An svload that was killed ({lab}) left a change that could not be undone: {what}.", "Restore it by hand; {path} has the original value. Until then every command that uses a lab tries again."),
        ErrorKind("agent-lost", _LAB, "svload's agent on this machine ended unexpectedly ({reason}); everything it had started was stopped.", "“svload resume {run}” continues where the run stopped."),
        ErrorKind("agent-refused", _LAB, "svload's agent on this machine failed: {reason}.", "{hint}"),
        ErrorKind("generator-failed", _LAB, "A load generator failed: {reason}.", "“svload resume {run}” continues where the run stopped."),
        ErrorKind("machine-busy", _LAB, "Another svload load is running on this machine ({owner}).", "Wait for it to end, or leave out --no-wait."),
        ErrorKind("run-busy", _LAB, "Another svload is working on {path}.", "Wait for it to end, or view the run with “svload report {path}”."),
        ErrorKind("run-gone", _LAB, "The run's folder {path} was removed or moved during the run, which is incomplete.", "Run the study again, or restore the folder and run “svload resume {path}”."),
        # the machines of an inventory
        ErrorKind("fleet-inventory", _USAGE, "The inventory can't be used: {reason}.", "Fix it; docs/fleet.md has an example."),
        ErrorKind("fleet-group", _USAGE, "The inventory names no machine that generates load: {reason}.", "{hint}"),
        ErrorKind("fleet-no-wheel", _USAGE, "There is no wheel at “{path}”.", "Make one with “make wheel”, or name it with --wheel."),
        ErrorKind("fleet-ansible", _LAB, "Ansible failed: {reason}.", "Run “ansible -i INVENTORY all -m ping” to see its errors."),
        ErrorKind("fleet-unreachable", _LAB, "{host} can't be reached by SSH: {reason}.", "{hint}"),
        ErrorKind("fleet-no-python", _LAB, "{host} has no Python that svload supports ({found}).", "Install Python 3.11 or newer with venv there (Debian: apt-get install python3 python3-venv), or name one as ansible_python_interpreter in the inventory."),
        ErrorKind("fleet-folder", _LAB, "The folder {path} on {host} is not svload's, or is not writable.", "Set svload_home to another folder in the inventory."),
        ErrorKind("fleet-disk-full", _LAB, "{host} has no space for svload at {path}{free}.", "Free 2 GB, or set svload_home to another folder in the inventory."),
        ErrorKind("fleet-no-index", _LAB, "{host} can't install packages from an index: {reason}.", "Download them here (pip download -r dist/requirements.txt -d wheelhouse), then add --wheelhouse wheelhouse."),
        ErrorKind("fleet-port-taken", _LAB, "Port {port} on {host} is already in use ({reason}).", "Stop that program, or set svload_port to another port in the inventory."),
        ErrorKind("fleet-port-closed", _LAB, "Port {port} on {host} can't be reached at {address}: {reason}.", "Open it in the firewall for this machine, or set svload_address to the right address in the inventory."),
        ErrorKind("fleet-clock", _LAB, "The clock of {host} is {off}.", "Synchronise it with NTP (Debian: apt-get install chrony)."),
        ErrorKind("fleet-no-svload", _LAB, "{host} has no svload at {python}.", "Run “svload fleet install --inventory …”, or set svload_python in the inventory."),
        ErrorKind("fleet-scheduler", _LAB, "The Dask scheduler at {address} can't be used: {reason}.", "{hint}"),
        ErrorKind("fleet-other-svload", _LAB, "{host} has {found}, but this machine has svload {own}.", "Install svload {own} on the cluster's workers."),
        ErrorKind("fleet-busy", _LAB, "Another svload load is running on {host} ({owner}).", "Wait for it to end; “svload resume {run}” then continues this run."),
        ErrorKind("fleet-worker", _LAB, "{host} could not join the run: {reason}.", "Run “svload fleet status” and “svload fleet check” to see what is missing."),
        ErrorKind("fleet-loopback", _USAGE, "{target} listens at {address}, which other machines can't reach.", "Use an address that the machines of the inventory can reach, with --authorise, or let svload start the server."),
        ErrorKind("fleet-cannot", _USAGE, "{what} is not supported when other machines generate the load.", "{hint}"),
        ErrorKind("fleet-on", _USAGE, "{service} can't run on {on}: {reason}.", "{hint}"),
        ErrorKind("fleet-step", _LAB, "{host} failed at “{step}”: {reason}.", "Fix it there, then repeat the command; completed steps are not repeated."),
        ErrorKind("interrupted", ExitCode.INTERRUPTED, "Interrupted; sealed trials are kept.", "“svload resume {run}” continues where the run stopped."),
        ErrorKind("load-interrupted", ExitCode.INTERRUPTED, "Interrupted; the load was stopped before its end.", "{hint}"),
        ErrorKind("internal", _LAB, "svload itself failed: {reason}.", "This is a bug in svload; details are in {log}."),
    )
}  # fmt: skip


_SECRET = re.compile(r"://[^/@\s“”]+@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True)
class Problem:
    """One problem. `place` is the `file:line` (or a command, a service) where the reader should look."""

    code: str
    details: dict[str, object]
    place: str = ""

    @property
    def kind(self) -> ErrorKind:
        return CATALOGUE[self.code]

    @property
    def sentence(self) -> str:
        """Return what happened, in one sentence."""
        text = self.kind.sentence.format_map(
            _Known({key: _cut(key, value) for key, value in self.details.items()})
        )
        return text[:-1] if text.endswith(("?.", "!.")) else text

    @property
    def remedy(self) -> str:
        """Return what to do, in one sentence; may be empty. The detail `remedy` replaces the catalogue's."""
        text = str(self.details.get("remedy") or self.kind.remedy).format_map(_Known(self.details)).strip()
        return text[:-1] if text.endswith(("?.", "!.")) else text

    def __str__(self) -> str:
        """Return `place: sentence remedy [code]` on one line, without the user part of URLs and without
        terminal control characters."""
        head = f"{self.place}: " if self.place else ""
        tail = f" {self.remedy}" if self.remedy else ""
        text = _SECRET.sub("://…@", f"{head}{self.sentence}{tail} [{self.code}]")
        return _CONTROL.sub(" ", text)


MOST_SIGNS = 200
"""Most characters of a file or command that a message repeats."""
_OWN_WORDS = ("reason", "hint", "tail", "what")
"""Details that are sentences of svload or a server's last output: already shortened where they were made."""


def _cut(key: str, value: object) -> object:
    most = 3 * MOST_SIGNS if key in _OWN_WORDS else MOST_SIGNS
    return value[: most - 1] + "…" if isinstance(value, str) and len(value) > most else value


class _Known(dict[str, object]):
    """Details for a template: a missing one shows as nothing instead of raising an error."""

    def __missing__(self, key: str) -> str:
        return ""


class SvloadError(Exception):
    """Raised for everything a user can meet; the command line prints its problems and exits with its code."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of the most important of its problems."""
        return ExitCode.worst([problem.kind.exit_code for problem in self.problems])


def carry_out(*steps: Callable[[], object]) -> None:
    """Carry out every step even if earlier ones fail. Raises one SvloadError with the problems of all."""
    problems: list[Problem] = []
    for step in steps:
        try:
            step()
        except SvloadError as why:
            problems += why.problems
    if problems:
        raise SvloadError(*problems)


def fail(code: str, place: str = "", **details: object) -> SvloadError:
    """Return the error: `raise fail("run-not-found", path=p)`. Raises KeyError for an unknown code."""
    CATALOGUE[code]
    return SvloadError(Problem(code, details, place))


def error_line(why: BaseException, file: object) -> dict[str, object]:
    """Return the line with which a generator or a sampler reports a failure to its agent: a refusal by the
    system with its file (`file`: the one being written), else generator-failed."""
    if isinstance(why, OSError) and why.errno:
        details = {"path": os.fsdecode(why.filename) if isinstance(why.filename, str | bytes) else str(file)}
        return {"error": {"code": "file-refused", "details": details | {"reason": why.strerror or str(why)}}}
    return {"error": {"code": "generator-failed", "details": {"reason": f"{type(why).__name__}: {why}"}}}


def refusal_line(why: SvloadError) -> dict[str, dict[str, object]]:
    """Return the line with which an agent reports a failure to its controller."""
    problem = why.problems[0]
    return {
        "error": {
            "code": problem.code,
            "details": {key: str(value) for key, value in problem.details.items()},
        }
    }


def error_of(name: str, line: object) -> SvloadError:
    """Return the error in such a line of process `name`; for an unknown code generator-failed with the
    line."""
    error: dict[str, Any] = line if isinstance(line, dict) else {}
    details: dict[str, object] = dict(error.get("details") or {})
    code = str(error.get("code", ""))
    if code in CATALOGUE and code != "generator-failed":
        return SvloadError(Problem(code, details))
    return fail("generator-failed", reason=f"{name}: {details.get('reason', line)}")
