"""`svload compare URL URL`: which of two deployments is faster, by a study with two levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.api.first_look import probe
from svload.api.load import LoadFiles, aimed, as_typed, enough_ports, hopeless, in_environment, kept_study
from svload.api.studies import AbortIf, Choices, Emit, RunResult, load_lock, run_lock
from svload.api.typed import is_url
from svload.model.errors import SvloadError, fail
from svload.model.events import Event
from svload.model.request_hints import HINTS
from svload.model.units import show_duration
from svload.run.configs import case_configs
from svload.study.compared_urls import FACTOR, ComparedUrls, compare_study

if TYPE_CHECKING:
    from svload.model.study import Lock
    from svload.store import RunDir
    from svload.study.quick_load import QuickLoad

_UNUSABLE = ("target-unreachable", "target-silent", "nothing-ok", "target-gone")
"""Errors that end a comparison immediately: the results so far are useless."""
ANSWERS_WITHIN_S = 10.0
"""A URL whose first single request is not answered within this time is reported before anything is loaded."""
_FAILS_S = 3.0
"""A server that is starting may fail for a moment, but not for longer than this."""
_SLOWER = 3
"""A side hangs that answers nothing for this many times its largest p99 so far."""
_RESUME = "“svload resume” repeats this block and continues."


def are_urls(first: str, second: str) -> bool:
    """Return whether two URLs are to be compared, not two runs; a URL has a scheme. Raises SvloadError usage
    for one of each, and for an address without its scheme."""
    found = [is_url(text) for text in (first, second)]
    if len(set(found)) > 1:
        url, run = (first, second) if found[0] else (second, first)
        raise fail(
            "usage",
            reason=f"{url} is a URL, and {run} is a run",
            hint="Compare two runs, or two URLs, each with its http:// or https://.",
        )
    return found[0]


def compare_urls(ask: ComparedUrls, choices: Choices, emit: Emit, files: LoadFiles) -> RunResult:
    """Load both URLs equally, in turn, and judge which is faster; the run is kept in `choices.out`.

    Raises SvloadError: usage, url-bad, unauthorised-target before anything is started; target-unreachable,
    target-silent, nothing-ok, target-gone (it did before) as soon as it is clear that one of them answers no
    request as it should: after one initial request to each, or within seconds of its load.
    """
    asked = replace(ask.request, has_ca_file=files.ca is not None, has_data_file=files.body is not None)
    ask = replace(ask, request=asked)
    for side in ask.sides:
        side.check()
    aims = [aimed(side, choices.authorised) for side in ask.sides]
    study = compare_study(ask)
    sides: dict[str, _Side] = {}
    for name, (side, target) in zip(ask.names, aims, strict=True):
        enough_ports(side, target)
        sides[name] = _Side(side.url, target.endpoint)
        study["lab"]["server"] |= {"connect_to": side.connect_to} if side.connect_to else {}
    with in_environment(dict(asked.secrets.values())):
        chosen = replace(choices, own=True, within_s=ask.within_s)
        with kept_study("compare", study, files, choices.out) as path:
            try:
                lock = load_lock(path, chosen)
            except SvloadError as error:
                raise as_typed(error, Path(path).parent) from error
            _must_have_time(lock, ask.within_s)
            for name, (side, _) in zip(ask.names, aims, strict=True):
                sides[name].succeeded = _must_answer(side, files, choices.authorised)
        baseline = sides[ask.names[0]]
        by_case = {case.name: sides.get(case.levels[FACTOR], baseline) for case in lock.cases}
        result = run_lock(lock, path, chosen, emit, _unusable(by_case))
    if (ended := result.outcome.error) is not None and ended.problems[0].code in _UNUSABLE:
        raise _with_status(ended, result.run)
    return result


def _must_have_time(lock: Lock, within_s: float | None) -> None:
    """Check that the blocks needed for a claim fit into the given time with the shortest turns and warm-up.
    Raises SvloadError usage."""
    from svload.analysis.limits import CLAIM_BLOCKS
    from svload.analysis.turn_plan import expected_turns, shortened
    from svload.run.warming import STRETCHES_S

    turns = expected_turns(lock, case_configs(lock))
    if within_s is None or turns is None:
        return
    rounds = shortened(turns["rounds"])
    block_s = turns["block_s"] * rounds / turns["rounds"]
    needed_s = CLAIM_BLOCKS * (block_s + STRETCHES_S[0] * len(lock.valid_cases))
    if within_s < needed_s:
        needs = f"{CLAIM_BLOCKS} blocks of at least {rounds} turns each take {show_duration(needed_s)}"
        raise fail("usage", reason=f"--for is too short for an answer: {needs}", hint="Give more time.")


def _must_answer(ask: QuickLoad, files: LoadFiles, authorised: tuple[str, ...]) -> bool:
    """Check that one request is answered, whatever the answer is; return whether it succeeded. Raises
    SvloadError target-unreachable, target-silent."""
    own_files = replace(files, ca=files.ca if ask.has_ca_file else None)
    (row,) = probe(ask, 1, own_files, authorised, ANSWERS_WITHIN_S)
    url = f"{ask.url} at {ask.connect_to}" if ask.connect_to else ask.url
    if row["error"] and (error := hopeless(url, {"ok": 0, "errors": {row["error"]: 1}})) is not None:
        raise error
    return not row["error"] and int(row["http_code"]) < 400


def _with_status(error: SvloadError, run: RunDir) -> SvloadError:
    """Return the error with the status that the server returned, if its trial was sealed."""
    from svload.store import read_trial

    (problem,) = error.problems
    if "trial" not in problem.details:
        return error
    folder = run.trial(str(problem.details["trial"]))
    if not folder.seal.exists():
        return error
    group = read_trial(folder.path).summary.groups[0]
    if group.first_failure is None or not group.first_failure.status:
        return error
    reason = f"{problem.details['reason']}, with status {group.first_failure.status}"
    return SvloadError(replace(problem, details={**problem.details, "reason": reason}))


@dataclass
class _Side:
    """One of the two URLs, and the results of its load so far."""

    url: str
    endpoint: str
    group: Mapping[str, Any] = field(default_factory=lambda: {"ok": 0, "errors": {}})
    succeeded: bool = False
    """whether a request succeeded before this load"""
    answered: int = 0
    answered_s: float = 0.0
    """how many requests had ended, and when in this load that last changed, or none was in flight"""
    slowest_s: float = 0.0
    """its largest p99 of any second"""

    def no_answer(self) -> SvloadError | None:
        """Return the error to raise if no request was ever answered."""
        return None if self.succeeded else hopeless(self.endpoint, self.group)

    def hangs(self, trial: str, offset_s: float) -> SvloadError | None:
        """Return the error to raise if requests are in flight and none has ended for long."""
        answered = self.group["ok"] + sum(self.group["errors"].values())
        last_p99_ns = self.group.get("last", {}).get("response_p99_ns") or 0
        self.slowest_s = max(self.slowest_s, last_p99_ns / 1e9)
        if answered != self.answered or not (in_flight := self.group.get("in_flight", 0)):
            self.answered, self.answered_s = answered, offset_s
        elif (silent_s := offset_s - self.answered_s) >= self._patience_s():
            reason = f"it sent no response in the last {show_duration(silent_s)} of {trial}"
            waits = f"{in_flight} request{' waits' if in_flight == 1 else 's wait'}"
            hint = f"{waits} for an answer: check that the server does not hang. {_RESUME}"
            return fail("target-gone", target=self.url, reason=reason, hint=hint, trial=trial)
        return None

    def _patience_s(self) -> float:
        """Return how long it may answer nothing: longer if it is slow, or has not answered yet."""
        return max(ANSWERS_WITHIN_S, _SLOWER * self.slowest_s) if self.slowest_s else 2 * ANSWERS_WITHIN_S

    def none_ok(self, trial: str) -> SvloadError | None:
        """Return the error to raise if no request of a whole trial succeeded."""
        errors: Mapping[str, int] = self.group["errors"]
        if self.group["ok"] or not errors:
            return None
        most = max(errors, key=lambda name: errors[name])
        if self.succeeded:
            reason = f"all {sum(errors.values()):,} requests of {trial} failed ({most})"
            hint = f"{HINTS[most][:1].upper()}{HINTS[most][1:]}. {_RESUME}"
            return fail("target-gone", target=self.url, reason=reason, hint=hint, trial=trial)
        reason = f"all {sum(errors.values()):,} requests to {self.url} failed ({most})"
        hint = f"See what it answers: svload probe {self.url}"
        return fail("nothing-ok", reason=reason, hint=hint, trial=trial)


def _unusable(sides: Mapping[str, _Side]) -> AbortIf:
    """Return a function that detects, from events, a side (by its case) that can't be compared: no request is
    answered, or none has succeeded by the end of a trial or of its first seconds."""
    sides = {case: replace(side) for case, side in sides.items()}  # a control's are counts of their own
    of_trial: dict[str, _Side] = {}

    def abort_if(event: Event) -> SvloadError | None:
        trial = event.text("trial")
        if event.kind == "trial-started":
            side = of_trial[trial] = sides[event.text("case")]
            side.succeeded |= bool(side.group["ok"])
            side.answered, side.answered_s = 0, 0.0
        elif event.kind == "progress" and trial in of_trial and (groups := event.data["groups"]):
            side = of_trial[trial]
            side.group = groups[0]  # type: ignore[index]
            offset_s = float(event.number("offset_s") or 0.0)
            failing = side.none_ok(trial) if offset_s >= _FAILS_S else None
            return side.no_answer() or failing or side.hangs(trial, offset_s)
        elif event.kind == "trial-sealed" and trial in of_trial:
            return of_trial[trial].none_ok(trial)
        return None

    return abort_if
