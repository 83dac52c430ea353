"""The error catalogue: every failure a user can meet, with what to do about it.

A code is stable; its sentence says what happened, its remedy what to do. `SvloadError` carries
one or more `Problem`s, so that a study's mistakes are reported all at once. Light on imports:
the command line loads it first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


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
        """The one that wins: 2, then 130, 3, 1, 4, 0 (docs/method.md §2)."""
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
        ErrorKind("study-linked", _USAGE, "{path} is a link to {target}, outside its folder: its lines would be shown wherever a mistake is.", "Name that file itself, or copy it here."),
        ErrorKind("study-not-found", _USAGE, "There is no study at “{path}”.", "Name a folder that holds study.yaml, or the file itself."),
        ErrorKind("study-syntax", _USAGE, "This is not YAML: {reason}.", "Mend the line; a study is plain YAML 1.2 without tags."),
        ErrorKind("study-too-large", _USAGE, "The study is too large: {reason}.", "Split it into studies that can be read."),
        ErrorKind("study-unknown-key", _USAGE, "“{key}” is not known in {where}.", "{hint}"),
        ErrorKind("study-missing-key", _USAGE, "{where} needs “{key}”.", "{hint}"),
        ErrorKind("study-bad-value", _USAGE, "{where}: {reason}, found {found}.", "{hint}"),
        ErrorKind("study-unknown-name", _USAGE, "{where} names “{name}”, which is no {kind}.", "{hint}"),
        ErrorKind("study-bad-reference", _USAGE, "“{reference}” cannot be resolved in {where}.", "{hint}"),
        ErrorKind("study-bad-criterion", _USAGE, "“{text}” is not a criterion: {reason}.", "Write [group.|service.]metric[.stat] OP value unit, such as response.p95 < 200 ms."),
        ErrorKind("study-refused", _USAGE, "{where}: the engine cannot run it: {reason}.", "Change it, or leave it out."),
        ErrorKind("study-untrusted", _USAGE, "The study may run commands, act outside its lab or read what is yours ({what}), and {why}.", "Read it, then add --trust to run it."),
        ErrorKind("build-changed", _USAGE, "Since trials of {path} were measured {files} changed: what follows would be another build.", "Put it back, or begin a new run. With --changed-build the run goes on, and those trials are left out."),
        ErrorKind("run-untrusted", _USAGE, "The run at {path} {why}, and it may act outside the lab or read what is yours ({what}).", "Read its study.lock.json, then add --trust to resume it."),
        ErrorKind("study-open", _USAGE, "The factor {factor} is open: it has a range in place of levels, and only a search chooses values from it.", "Search it with svload capacity, or give it levels, such as [10, 100]."),
        ErrorKind("study-undecidable", _USAGE, "The comparison “{name}” has a fail_if that no outcome could decide: {reason}.", "{hint}, or drop fail_if."),
        ErrorKind("profile-unknown", _USAGE, "There is no profile “{name}”.", "{hint}"),
        # usage
        ErrorKind("usage", _USAGE, "{reason}.", "{hint}"),
        ErrorKind("url-bad", _USAGE, "“{url}” is not a URL that svload can load: {reason}.", "Write http://host:port/path or https://…"),
        ErrorKind("run-not-found", _USAGE, "There is no run at “{path}”.", "Name a folder under ./runs, a pack, or “latest”."),
        ErrorKind("run-damaged", _USAGE, "{path} is damaged: {reason}.", "Restore it from a copy; sealed files are never edited."),
        ErrorKind("run-linked", _USAGE, "{path} is a link to {target}; svload writes a run's files into the run's own folder alone.", "Put the folder itself there, or remove the link."),
        ErrorKind("input-unreadable", _USAGE, "{path} cannot be read as a feeder's rows: {reason}.", "A CSV file has one line of names and as many values in every row; a Parquet file has no empty values."),
        ErrorKind("import-unreadable", _USAGE, "{path} cannot be imported: {reason}.", "{hint}"),
        ErrorKind("run-exists", _USAGE, "{path} holds something already.", "Name another folder with --out."),
        ErrorKind("format-newer", _USAGE, "{path} has format {found}; this svload reads up to {known}.", "Use a newer svload."),
        ErrorKind("plan-too-large", _USAGE, "{case} asks for more than this machine can do: {reason}.", "{hint}"),
        ErrorKind("unauthorised-target", _USAGE, "{target} is not authorised as a target; no packet was sent to it.", "If you may load it, add --authorise {host} to the command."),
        ErrorKind("secret-missing", _USAGE, "The secret ${{{secret}}} has no value: {reason}.", "Set {variable} to it, or {variable}_FILE to the path of a file that holds it."),
        # the lab and the machine
        ErrorKind("tool-missing", _LAB, "{kit} needs {what}, which is not on this machine.", "{hint}"),
        ErrorKind("build-failed", _LAB, "{service} could not be built by {tool}: {reason}.", "Mend it; all that was said is in {log}."),
        ErrorKind("service-died", _LAB, "The service {service} ended by itself (exit {exit}). Its last words: {tail}", "See {log}; “svload resume {run}” continues where it stopped."),
        ErrorKind("service-out-of-memory", _LAB, "The kernel killed {count} of {service}'s processes for want of memory (its limit: {limit}).", "Give it more memory, or write on_death: finding where that is what the study asks. See {log}."),
        ErrorKind("service-not-ready", _LAB, "The service {service} did not become ready within {seconds} s. Its last words: {tail}", "See {log}."),
        ErrorKind("port-taken", _LAB, "Port {port} of {service} is taken by {holder}.", "Free it, or leave the port out so that svload picks one."),
        ErrorKind("service-not-ours", _LAB, "{holder} answers for {service} on port {port}, and ran before {service} was started.", "End it, then run it again: what it answers would count as {service}'s. See {log}."),
        ErrorKind("fill-failed", _LAB, "Filling {service} failed: {reason}.", "See the log of {service} at {log}."),
        ErrorKind("fault-failed", _LAB, "What was planned for {target} could not be done: {reason}.", "See the logs of {target}; the trial was not counted."),
        ErrorKind("reset-failed", _LAB, "{service} could not be reset: {reason}.", "See {log}; the trial was not counted."),
        ErrorKind("set-up-failed", _LAB, "The set-up of the trial failed: {reason}.", "Ask {request} by hand, or see what it takes from the answer; the trial was not counted."),
        ErrorKind("lab-failed", _LAB, "The lab failed: {reason}.", "{hint}"),
        ErrorKind("profile-not-measured", _LAB, "The profile of {service} is not measured: {reason}.", "{hint}"),
        ErrorKind("target-unreachable", _LAB, "{target} answered no request: {what} ({count} of {count}).", "{hint}"),
        ErrorKind("abort-held", ExitCode.THRESHOLD_FAILED, "abort_if ended the run: {that} held in {trial}, {at} into its load ({value} over the last {seconds} s).", "Complete trials stay; “svload resume” makes the one that was ended again, and goes on."),
        ErrorKind("target-silent", ExitCode.THRESHOLD_FAILED, "{target} took connections but gave no request a whole answer: {what} ({count} of {count}).", "{hint}"),
        ErrorKind("nothing-ok", ExitCode.THRESHOLD_FAILED, "No request succeeded: {reason}.", "{hint}"),
        ErrorKind("lab-failed-thrice", _LAB, "The lab failed three times in a row; the run was stopped.", "Mend the cause, then “svload resume {run}”."),
        ErrorKind("not-yours", _LAB, "{path} belongs to another user (uid {owner}), so svload does not use it.", "Copy it to where it is your own; svload's own folders are named by SVLOAD_STATE and SVLOAD_CACHE."),
        ErrorKind("disk-full", _LAB, "The run needs about {need} and {path} has {free} free.", "Free space, or write elsewhere with --out DIR."),
        ErrorKind("file-refused", _LAB, "The system refused {path} ({reason}).", "Name another place, make room, or raise the limit."),
        ErrorKind("memory-short", _LAB, "svload needs more memory than it may use.", "Raise the limit (ulimit -v), or free memory."),
        ErrorKind("not-undone", _LAB, "A killed svload ({lab}) changed something that could not be undone: {what}.", "Put it back by hand; {path} says what it was. Until then every command that uses a lab tries again."),
        ErrorKind("agent-lost", _LAB, "The machine's agent is gone ({reason}); what it had started was ended.", "“svload resume {run}” continues where it stopped."),
        ErrorKind("agent-refused", _LAB, "The machine's agent could not do this: {reason}.", "{hint}"),
        ErrorKind("generator-failed", _LAB, "A generator failed: {reason}.", "“svload resume {run}” continues where it stopped."),
        ErrorKind("machine-busy", _LAB, "Another svload load is running on this machine ({owner}).", "Wait for it to end, or leave out --no-wait."),
        ErrorKind("run-busy", _LAB, "Another svload is working on {path} at this moment.", "Wait for it to end, or look at it with “svload report {path}”."),
        ErrorKind("run-gone", _LAB, "The run's folder {path} was removed or moved while it ran; it is not complete.", "Run the study again, or put the folder back and “svload resume {path}”."),
        # the machines of an inventory
        ErrorKind("fleet-inventory", _USAGE, "The inventory can't be used: {reason}.", "Mend it; docs/fleet.md shows one."),
        ErrorKind("fleet-group", _USAGE, "The inventory names no machine that makes load: {reason}.", "{hint}"),
        ErrorKind("fleet-no-wheel", _USAGE, "There is no wheel at “{path}”.", "Make one with “make wheel”, or name it with --wheel."),
        ErrorKind("fleet-ansible", _LAB, "Ansible failed: {reason}.", "Run “ansible -i INVENTORY all -m ping” to see what it says."),
        ErrorKind("fleet-unreachable", _LAB, "{host} can't be reached by SSH: {reason}.", "{hint}"),
        ErrorKind("fleet-no-python", _LAB, "{host} has no Python that svload runs on ({found}).", "Install Python 3.11 or newer with venv there (Debian: apt-get install python3 python3-venv), or name one as ansible_python_interpreter in the inventory."),
        ErrorKind("fleet-folder", _LAB, "The folder {path} on {host} is not svload's, or can't be written.", "Name another one as svload_home in the inventory."),
        ErrorKind("fleet-disk-full", _LAB, "{host} has no room for svload at {path}{free}.", "Make room (2 GB), or name another folder as svload_home in the inventory."),
        ErrorKind("fleet-no-index", _LAB, "{host} cannot install packages from an index: {reason}.", "Fetch them here (pip download -r dist/requirements.txt -d wheelhouse), then add --wheelhouse wheelhouse."),
        ErrorKind("fleet-port-taken", _LAB, "Port {port} of {host} is taken by another program ({reason}).", "Free it, or name another one as svload_port in the inventory."),
        ErrorKind("fleet-port-closed", _LAB, "Port {port} of {host} can't be reached at {address}: {reason}.", "Open it in the firewall for this machine, or name the machine's address as svload_address in the inventory."),
        ErrorKind("fleet-clock", _LAB, "The clock of {host} is {off}.", "Let NTP set it (Debian: apt-get install chrony)."),
        ErrorKind("fleet-no-svload", _LAB, "{host} has no svload at {python}.", "Run “svload fleet install --inventory …”, or name its Python as svload_python in the inventory."),
        ErrorKind("fleet-scheduler", _LAB, "The Dask scheduler at {address} can't be used: {reason}.", "{hint}"),
        ErrorKind("fleet-other-svload", _LAB, "{host} has {found}, and this machine svload {own}.", "Install svload {own} where the cluster's workers run."),
        ErrorKind("fleet-worker", _LAB, "{host} did not come up for the run: {reason}.", "Run “svload fleet status” and “svload fleet check”; both say what a machine lacks."),
        ErrorKind("fleet-loopback", _USAGE, "{target} listens at {address}, which no other machine reaches.", "Name an address of the server that the machines of the inventory reach, with --authorise; servers that svload starts listen where they are reached."),
        ErrorKind("fleet-cannot", _USAGE, "{what} can't be had where other machines make the load.", "{hint}"),
        ErrorKind("fleet-on", _USAGE, "{service} is on {on}: {reason}.", "{hint}"),
        ErrorKind("fleet-step", _LAB, "{host} failed at “{step}”: {reason}.", "Mend it there, then say the same command again; what was done is not done twice."),
        ErrorKind("interrupted", ExitCode.INTERRUPTED, "Interrupted; what was sealed is kept.", "“svload resume {run}” continues where it stopped."),
        ErrorKind("load-interrupted", ExitCode.INTERRUPTED, "Interrupted; the load was stopped before its end.", "{hint}"),
        ErrorKind("internal", _LAB, "svload itself failed: {reason}.", "This is a defect of svload; the details are in {log}."),
    )
}  # fmt: skip


_SECRET = re.compile(r"://[^/@\s“”]+@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. `place` is `file:line` (or a command, a service) where the reader should look."""

    code: str
    details: dict[str, object]
    place: str = ""

    @property
    def kind(self) -> ErrorKind:
        return CATALOGUE[self.code]

    @property
    def sentence(self) -> str:
        """What happened, in one sentence."""
        said = self.kind.sentence.format_map(
            _Known({key: _cut(key, value) for key, value in self.details.items()})
        )
        return said[:-1] if said.endswith(("?.", "!.")) else said

    @property
    def remedy(self) -> str:
        """What to do, in one sentence; may be empty. The detail `remedy` stands in place of the catalogue's."""
        said = str(self.details.get("remedy") or self.kind.remedy).format_map(_Known(self.details)).strip()
        return said[:-1] if said.endswith(("?.", "!.")) else said

    def __str__(self) -> str:
        """`place: sentence remedy [code]`, as printed: one line, without a URL's user, and nothing in
        it that a terminal would obey."""
        head = f"{self.place}: " if self.place else ""
        tail = f" {self.remedy}" if self.remedy else ""
        said = _SECRET.sub("://…@", f"{head}{self.sentence}{tail} [{self.code}]")
        return _CONTROL.sub(" ", said)


MOST_SIGNS = 200
"""What a message repeats of a file or a command at most."""
_OWN_WORDS = ("reason", "hint", "tail", "what")
"""Details that are sentences of svload's or a server's last words: whoever makes them has cut what they repeat."""


def _cut(key: str, value: object) -> object:
    most = 3 * MOST_SIGNS if key in _OWN_WORDS else MOST_SIGNS
    return value[: most - 1] + "…" if isinstance(value, str) and len(value) > most else value


class _Known(dict[str, object]):
    """Details for a template: a missing one shows as nothing instead of a traceback."""

    def __missing__(self, key: str) -> str:
        return ""


class SvloadError(Exception):
    """Raised for everything a user can meet; the command line prints its problems and exits with its code."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @property
    def exit_code(self) -> ExitCode:
        """The winning code of all its problems."""
        return ExitCode.worst([problem.kind.exit_code for problem in self.problems])


def fail(code: str, place: str = "", **details: object) -> SvloadError:
    """The error to raise: `raise fail("run-not-found", path=p)`. Raises KeyError for a code outside the catalogue."""
    CATALOGUE[code]
    return SvloadError(Problem(code, details, place))
