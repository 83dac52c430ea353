"""`svload capacity`: the largest load that meets criteria, or the load above which more users add little
throughput."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svload.api.load import LoadFiles, aimed, as_typed, in_environment, kept_study
from svload.api.studies import (
    Choices,
    Emit,
    RunResult,
    execute_run,
    held_certificates,
    load_lock,
    misfits,
    must_be_possible,
    must_fit,
)
from svload.api.trust import must_be_trusted
from svload.api.typed import is_url, writing
from svload.model.errors import SvloadError, fail
from svload.model.units import parse_quantity, show_duration, show_number
from svload.run.configs import case_config, case_configs
from svload.study.quick_load import TIMEOUT, QuickLoad

if TYPE_CHECKING:
    from svload.model.metrics import Criterion
    from svload.model.study import CapacitySearch, CaseConfig, Lock

LOADS = (1, 10_000)
"""Default range of the search for a URL: the upper end is halved until this machine can generate it."""
USERS, RATE = "users", "rate"
MAX_VUS = 4096
"""For a URL: requests in flight at the same time in an open loop. Requests beyond it wait, and their response
includes the wait."""
_START_USERS, _START_RPS = 8, 64
"""The first load tried, if it lies in the range; at a rate of 64, a trial of 5 s has enough requests for a
p95."""
_LONGEST_S, _USUAL_S, _SHORTEST_S = 30.0, 5.0, 1.0
_TRIALS, _FEWEST_TRIALS = 24, 12
"""For a URL: the measured time of a trial, and the approximate number of trials of a short search."""
_RESPONSES = 15
"""A trial lasts this multiple of the longest response that a criterion allows. Near the limit of a server
with a queue, successive responses are alike: the p95 of a pool of 4 with exponential times and 47 users reads
3.3 % too low in trials of 7 responses, 0.4 % in trials of 15 (simulated)."""
_TIMEOUTS, _FAR = 30, 4.0
"""A timeout is this fraction of a search's time, or this multiple of the required response."""
_SUCCESS = "success_rate >= 99.9 %"
"""Criterion that a search adds if none of its criteria is about failures: the server can't sustain a load
whose requests fail, however fast the other responses are."""
_GAIN = re.compile(r"\s*gain\s*<\s*(?P<percent>\d+(?:\.\d+)?)\s*%\s*")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_BESIDE_S = 1.5
"""Assumed overhead of a trial beside its load, until trials have shown it."""


@dataclass(frozen=True)
class CapacityAsk:
    """What was typed. `target`: a study, or the URL of one server. `least`, `most`: null means the bounds of
    the study's open factor.

    Without `that` and `until` the study's own thresholds are the criteria. `at_least` makes it a gate.
    `request` and `files` are for a URL: its request, by rate if it has one, and the length of a trial.
    """

    target: str
    that: str = ""
    until: str = ""
    over: str = ""
    least: int | None = None
    most: int | None = None
    tolerance: float = 0.05
    within_s: float | None = None
    at_least: int | None = None
    request: QuickLoad | None = None
    files: LoadFiles = field(default_factory=LoadFiles)

    @property
    def of_url(self) -> QuickLoad:
        """The requested load on a URL."""
        return self.request or QuickLoad(self.target)


def capacity(ask: CapacityAsk, choices: Choices, emit: Emit) -> RunResult:
    """Search, judge, report; the answer is in the findings. Raises SvloadError before anything is started.

    `svload resume` continues a search that was killed.
    """
    from svload import run
    from svload.run.policies.capacity import first_batch

    with in_environment(dict(ask.of_url.secrets.values())):
        with searched_lock(ask, choices) as lock:
            must_be_trusted(lock, ask.target)
            run.permitted_targets(case_configs(lock).values(), lock.authorised)
            must_be_possible(lock, choices)
            must_fit(lock)
            with writing(choices.out):
                begun = run.begin(lock, choices.out, held_certificates(lock), batch=first_batch(lock))
        return execute_run(begun, emit, choices)


@contextmanager
def searched_lock(ask: CapacityAsk, choices: Choices) -> Iterator[Lock]:
    """Yield the study's lock with the search in it. The study written for a URL is removed where what follows
    refuses the run."""
    bare = is_url(ask.target)
    if bare and (option := _only_of_studies(ask, choices)):
        reason = f"{option} applies to a study, and {ask.target} is a URL"
        raise fail("usage", reason=reason, hint="Leave it out.")
    if not bare and (
        replace(ask.of_url, seed=None, duration=None) != QuickLoad(ask.target) or ask.files != LoadFiles()
    ):
        raise fail(
            "usage",
            reason=f"--rate and request options apply to a URL, but {ask.target} is a study",
            hint="Set them in the study.",
        )
    allowed = LOADS if bare else (0, inf)
    low, high = ask.least or allowed[0], ask.most or allowed[1]
    if low >= high:
        raise fail(
            "usage",
            reason=f"a search from {low:,} to {high:,} has no range",
            hint="Write --from 1 --to 4000.",
        )
    with _bare(ask, choices) if bare else nullcontext(ask.target) as study:
        yield _searched(ask, replace(choices, own=bare), study)


def _only_of_studies(ask: CapacityAsk, choices: Choices) -> str:
    """Return the first given option that applies to studies only; empty without one."""
    typed = {
        "--over": ask.over,
        "--profile": choices.profile,
        "--only": choices.only,
        "--trust": choices.trusted,
    }
    return next((option for option, value in typed.items() if value), "")


def _searched(ask: CapacityAsk, chosen: Choices, study: str) -> Lock:
    bare = chosen.own
    if not bare and ask.over and ask.least is not None and ask.most is not None:
        ends = {"open": [ask.least, ask.most]}
        # Comparisons name levels.
        blocks = {"measure.until": None, "measure.at_most": None}
        searched: dict[str, Any] = {f"factors.{ask.over}": ends, "compare": [], **blocks}
        chosen = replace(chosen, overrides={**chosen.overrides, **searched})
    if not bare and (duration := ask.of_url.duration):
        chosen = replace(chosen, overrides={**chosen.overrides, "measure.duration": duration})
    try:
        lock = load_lock(study, chosen)
        factor = _open_factor(ask, lock)
        least, most = _ends(ask, factor)
        _must_matter(ask, lock, factor[0], (least, most))
        most = _carried(lock, factor[0], least, most, shrinks=bare and ask.most is None)
    except SvloadError as error:
        raise (_as_typed(error, study) if bare else error) from error
    (config,) = case_configs(lock).values()
    search = _search(ask, config, factor[0], least, most, bare)
    trial_s = (config.ramp_ns + lock.measure.duration_ns) / 1e9 + _BESIDE_S
    if ask.within_s is not None:
        given_up_s = _given_up_s(ask) if bare else None
        search = search.model_copy(
            update={"within_s": ask.within_s, "trial_s": trial_s, "given_up_s": given_up_s}
        )
        if (search.measuring_s or 0.0) < trial_s:
            raise fail(
                "usage",
                reason=f"--for is too short: one trial takes {show_duration(trial_s)}, and the report follows",
                hint="Give more time: an answer takes 20 trials or more.",
            )
    # The study's criteria and comparisons apply to its own levels: a search breaks them on purpose.
    source = {key: part for key, part in lock.source.items() if key not in ("thresholds", "compare")}
    measure = lock.measure.model_copy(update={"replicates": 1})
    return lock.model_copy(
        update={"search": search, "source": source, "measure": measure, "thresholds": (), "comparisons": ()}
    )


def _as_typed(error: SvloadError, study: str) -> SvloadError:
    """Return the errors of a URL's study in terms of the typed options; its load is searched up to --to."""
    problems = as_typed(error, Path(study).parent).problems
    ends = [one.details.get("where") in ("--vus", "--rate") for one in problems]
    return SvloadError(
        *(
            replace(one, details={**one.details, "where": "--to"}) if is_end else one
            for one, is_end in zip(problems, ends, strict=True)
        )
    )


def _open_factor(ask: CapacityAsk, lock: Lock) -> tuple[str, tuple[float, float]]:
    found = {factor.name: factor.open for factor in lock.factors if factor.open is not None}
    if len(found) != 1 or (ask.over and ask.over not in found):
        had = f"it has {', '.join(found)}" if found else "it has none"
        raise fail(
            "usage",
            reason=f"{ask.target}: a search needs one open factor, but {had}",
            hint='Write factors: {users: {open: [1, 4000]}} and vus: "${users}" in the study, or name one: '
            "--over users --from 1 --to 4000.",
        )
    if len(lock.valid_cases) != 1:
        raise fail(
            "usage",
            reason=f"{ask.target} has {len(lock.valid_cases)} cases, but a search needs exactly one",
            hint=f"Choose one with --only: {', '.join(case.name for case in lock.valid_cases[:5])}.",
        )
    return next(iter(found.items()))


def _ends(ask: CapacityAsk, factor: tuple[str, tuple[float, float]]) -> tuple[int, int]:
    name, (least, most) = factor
    low = int(least) if ask.least is None else ask.least
    high = int(most) if ask.most is None else ask.most
    if not 1 <= max(low, 1) < high or low < least or high > most:
        raise fail(
            "usage",
            reason=f"a search from {low:,} to {high:,} does not fit {name}, which is open from "
            f"{show_number(least)} to {show_number(most)}",
            hint="Write --from 1 --to 4000.",
        )
    return max(low, 1), high


def _must_matter(ask: CapacityAsk, lock: Lock, over: str, ends: tuple[int, int]) -> None:
    """Raise SvloadError usage if the factor changes nothing between the ends of the search."""
    from svload.model.plan import Point

    (case,) = lock.valid_cases
    first, last = (case_config(lock, case, Point(values={over: end})) for end in ends)
    if first == last.model_copy(update={"case": first.case}):
        raise fail(
            "usage",
            reason=f"nothing in {ask.target} depends on {over}, so there is nothing to search",
            hint=f'Write vus: "${{{over}}}" in the study, or name another factor with --over.',
        )


def _carried(lock: Lock, over: str, least: int, most: int, *, shrinks: bool) -> int:
    """Return `most`, or, if it `shrinks`, the largest repeated half of it that this machine can generate.
    Raises SvloadError plan-too-large."""
    from svload.model.plan import Point

    (case,) = lock.valid_cases
    while problems := misfits([case_config(lock, case, Point(values={over: most}))], place=lock.study_dir):
        if not shrinks or most // 2 <= least:
            raise SvloadError(*problems)
        most //= 2
    return most


def _search(
    ask: CapacityAsk, config: CaseConfig, over: str, least: int, most: int, bare: bool
) -> CapacitySearch:
    from svload.analysis.failures import OF_SUCCESS
    from svload.model.study import CapacitySearch

    main = next(group for group in config.groups if group.name == config.main_group)
    first = _START_RPS if main.executor.model == "open loop" else _START_USERS
    search = CapacitySearch(
        over=over,
        least=least,
        most=most,
        start=min(max(least, first), most),
        tolerance=ask.tolerance,
        at_least=_needed(ask, least, most),
    )
    if ask.until:
        return search.model_copy(update={"gain": _gain(ask)})
    texts = tuple(text.strip() for text in _AND.split(ask.that) if text.strip()) or config.thresholds
    if not texts:
        raise fail(
            "usage",
            reason=f"a search needs a criterion{'' if bare else ', but the study has no threshold'}",
            hint='Write --that "p95 <= 200 ms and success_rate >= 99.9 %", or --until "gain < 10 %".',
        )
    criteria = [_criterion(text, config) for text in texts]
    if not any(one.ref.metric.name in OF_SUCCESS for one in criteria):
        criteria.append(_criterion(_SUCCESS, config))
    return search.model_copy(update={"that": tuple(one.text for one in criteria)})


def _needed(ask: CapacityAsk, least: int, most: int) -> int | None:
    if ask.at_least is None:
        return None
    if ask.until:
        raise fail(
            "usage", reason="--at-least needs a criterion, which --until doesn't have", hint="Write --that."
        )
    if not least <= ask.at_least <= most:
        raise fail(
            "usage",
            reason=f"--at-least {ask.at_least:,} is not between {least:,} and {most:,}, the range of the search",
            hint=f"Write --to {2 * ask.at_least}.",
        )
    return ask.at_least


def _gain(ask: CapacityAsk) -> float:
    found = _GAIN.fullmatch(ask.until)
    if ask.that or not found or not 0 < float(found["percent"]) < 100:
        raise fail(
            "usage",
            reason=f"--until {ask.until}: expected a gain between 0 and 100 %, without --that",
            hint='Write --until "gain < 10 %".',
        )
    return float(found["percent"]) / 100


def _criterion(text: str, config: CaseConfig) -> Criterion:
    """Return a criterion spelt as in a study, or in k6's style (`p95 <= 200 ms`)."""
    from svload.analysis.capacity.readings import why_no_limit
    from svload.analysis.criteria import criterion_of
    from svload.study.k6 import study_criterion

    found: Criterion | None = None
    reason = ""
    try:
        found = criterion_of(text, config)
    except ValueError as why:
        reason = str(why)
        with suppress(SvloadError, ValueError):
            found = criterion_of(study_criterion(text), config)
    reason = why_no_limit(found) if found else reason
    if found is None or reason:
        raise fail(
            "usage",
            reason=f"--that {text}: {reason}",
            hint='Write --that "p95 <= 200 ms and success_rate >= 99.9 %".',
        )
    return found


def _bare(ask: CapacityAsk, choices: Choices) -> AbstractContextManager[str]:
    """Write a study for one URL beside its run, as `kept_study` does."""
    from svload.study.quick_load import literal, study_of

    request, given_up_s = ask.of_url, _given_up_s(ask)
    request = replace(
        request,
        duration=request.duration or _trial_lasts(ask.within_s, _allowed_s(ask.that)),
        timeout=request.timeout if given_up_s is None else f"{given_up_s:.3g}s",
        has_ca_file=ask.files.ca is not None,
        has_data_file=ask.files.body is not None,
    )
    request, _ = aimed(request, choices.authorised)
    study = study_of(request)
    over = RATE if request.open_loop else USERS
    ends = [LOADS[0] if ask.least is None else ask.least, LOADS[1] if ask.most is None else ask.most]
    group = {
        key: value
        for key, value in study["traffic"]["load"].items()
        if key not in ("vus", "rate", "executor")
    }
    load = (
        {"executor": "constant-arrival-rate", "rate": f"${{{over}}}/s", "max_vus": request.max_vus or MAX_VUS}
        if request.open_loop
        else {"executor": "constant-vus", "vus": f"${{{over}}}"}
    )
    study |= {
        "name": "capacity",
        "question": literal(f"How much load can {ask.target} handle?"),
        "factors": {over: {"open": ends}},
        "traffic": {"load": group | load},
    }
    return kept_study("capacity", study, ask.files, choices.out)


def _trial_lasts(within_s: float | None, allowed_s: float) -> str:
    """Return the length of a trial, given the search's time and the longest response that a criterion allows:
    the less time there is the shorter, the slower the server may be the longer."""
    lasts_s, most_s = _USUAL_S, _LONGEST_S
    if within_s is not None:
        lasts_s = min(max(within_s / _TRIALS - _BESIDE_S, _SHORTEST_S), _USUAL_S)
        most_s = min(within_s / _FEWEST_TRIALS - _BESIDE_S, most_s)
    return f"{max(lasts_s, min(_RESPONSES * allowed_s, most_s)):.3g}s"


def _given_up_s(ask: CapacityAsk) -> float | None:
    """Return the timeout for requests of a search with little time; None: as typed, or the default. Each
    load with unanswered requests takes that much longer. It is well above the required times, so that only
    those decide."""
    if ask.within_s is None or ask.of_url.timeout is not None:
        return None
    least_s = max(ask.within_s / _TIMEOUTS, _SHORTEST_S, _FAR * _allowed_s(ask.that))
    return least_s if least_s < parse_quantity(TIMEOUT, "time_s") else None


def _allowed_s(that: str) -> float:
    """Return the longest time that a criterion allows; 0 where none is about a time."""
    from svload.model.metrics import parse_criterion
    from svload.study.k6 import study_criterion

    allowed_s = 0.0
    for text in filter(None, _AND.split(that)):
        with suppress(SvloadError, ValueError):
            criterion = parse_criterion(study_criterion(text.strip()), {"load": "traffic"})
            if criterion.ref.metric.dimension == "time_s":
                allowed_s = max(allowed_s, criterion.value)
    return allowed_s
