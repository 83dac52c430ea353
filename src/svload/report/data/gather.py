"""All data of a report, read once from a run's folder. What cannot be read is noted, never fatal: the report
of a damaged run mentions it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from svload import study
from svload.host.process.forks import spread
from svload.model.errors import SvloadError
from svload.model.events import Event
from svload.model.plan import Batch, Placement, TrialPlan
from svload.model.results import CaseResult, Findings, TrialResult
from svload.model.study import CaseConfig, Lock
from svload.report.data.digest import TrialDigest, digest_trial
from svload.report.data.resources import MACHINE
from svload.report.wording.numbers import Number, Numbers
from svload.report.wording.spelling import factor_levels, services_of, traffic_groups
from svload.store.journal import read_events
from svload.store.layout import RunDir
from svload.store.parquet import TrialData, read_trial
from svload.store.seal import sha256_file

T = TypeVar("T")
PALETTE = ("#0072b2", "#c2520a", "#00795c", "#9c3f8c", "#8a6d00", "#5f6772")
"""The light colours of figures and of the workbook's charts, distinguishable with any kind of colour vision,
and in grey; a test compares them with the page's `--c0` … `--c5` in style.css."""
_LARGEST_HASHED_BYTES = 64 << 20


@dataclass(frozen=True)
class Gathered:
    """A run and its findings. `digests` are by trial; `notes` are sentences on what could not be read."""

    run: RunDir
    findings: Findings
    lock: Lock
    configs: dict[str, CaseConfig]
    batches: tuple[Batch, ...]
    placement: Placement | None
    events: tuple[Event, ...]
    digests: dict[str, TrialDigest]
    inputs: tuple[tuple[str, int, str], ...] = ()
    notes: tuple[str, ...] = ()
    own: Mapping[str, Any] | None = None
    """the study's own tables: a `note` on all, and `tables` of title, note, head and rows"""

    @cached_property
    def plan(self) -> dict[str, TrialPlan]:
        """Trial → its place in the plan, in the order in which trials run."""
        return {trial.trial: trial for batch in self.batches for trial in batch.trials}

    @cached_property
    def place(self) -> dict[str, int]:
        """Trial → its number (from 0) in the order in which trials run."""
        return {trial: number for number, trial in enumerate(self.plan)}

    @cached_property
    def numbers(self) -> Numbers:
        """The run's numbers as shared by every output."""
        return Numbers(self.findings)

    @property
    def group(self) -> str:
        """The traffic group that the report shows first."""
        return self.numbers.group

    @cached_property
    def colours(self) -> dict[str, int]:
        """Service, then traffic group, then the machine → its colour's number, the same in
        every chart and figure of the run."""
        watched = (facts.service for one in self.digests.values() for facts in one.lab.services)
        names = dict.fromkeys([*services_of(self.findings), *watched])
        groups = [name for name in traffic_groups(self.findings) if name not in names]
        return {name: number % len(PALETTE) for number, name in enumerate((*names, *groups, MACHINE))}

    @cached_property
    def factors(self) -> dict[str, list[str]]:
        """Factor → its levels."""
        return factor_levels(self.findings)

    def filters(self, case: CaseResult) -> str:
        """Return the numbers of the case's levels by factor (`-` for a factor it does not have), which the
        page's filters compare."""
        return " ".join(
            str(levels.index(case.levels[factor])) if factor in case.levels else "-"
            for factor, levels in self.factors.items()
        )

    @cached_property
    def _by_case(self) -> dict[str, list[TrialResult]]:
        found: dict[str, list[TrialResult]] = {}
        for trial in self.findings.trials:
            found.setdefault(trial.case, []).append(trial)
        return found

    def trials_of(self, case: str) -> list[TrialResult]:
        """Return the judged trials of a case."""
        return self._by_case.get(case, [])

    def of_case(self, case: str) -> list[TrialDigest]:
        """Return the digests of a case's trials, in the order of its results."""
        return [self.digests[one.trial] for one in self.trials_of(case) if one.trial in self.digests]

    def counted(self, case: CaseResult) -> list[TrialDigest]:
        """Return the digests of a case's trials that count towards its median; if REFUSED, of all."""
        digests, names = self.of_case(case.case), set(self.numbers.counts(case, f"{self.group}.response.p50"))
        return [one for one in digests if one.name in names] or digests

    def read(self) -> Iterator[tuple[TrialResult, TrialData]]:
        """Yield every judged trial with its tables, read again, one trial in memory at a time; unreadable
        ones are skipped (they are in `notes`)."""
        for result in self.findings.trials:
            if result.trial in self.digests:
                yield result, read_trial(self.run.trial(result.trial))


def gather(
    run: RunDir, findings: Findings, own: Mapping[str, Any] | None = None, notes_before: Sequence[str] = ()
) -> Gathered:
    """Read a run; `own` are the study's own tables. Raises SvloadError for a lock that cannot be read; other
    damage becomes a note."""
    lock = run.lock()
    notes = [*notes_before]
    configs = {}
    for case in lock.valid_cases:
        found = _tried(
            partial(study.resolve, lock, case), f"{case.name} cannot be resolved from the lock", notes
        )
        if found is not None:
            configs[case.name] = found
    digests = {}
    for result, (digest, problem) in zip(
        findings.trials, spread(partial(_digest, run), findings.trials), strict=True
    ):
        notes += problem
        if digest is not None:
            digests[result.trial] = digest
    return Gathered(
        run=run,
        findings=findings,
        lock=lock,
        configs=configs,
        batches=_tried(run.batches, "the plan cannot be read", notes) or (),
        placement=_tried(run.placement, "the placement cannot be read", notes),
        events=tuple(_events(run, notes)),
        digests=digests,
        inputs=tuple(_inputs(run)),
        own=own,
        notes=tuple(notes),
    )


def _digest(run: RunDir, result: TrialResult) -> tuple[TrialDigest | None, list[str]]:
    notes: list[str] = []

    def read() -> TrialDigest:
        return digest_trial(read_trial(run.trial(result.trial)), result.cut_ns)

    return _tried(read, f"{result.trial} cannot be read", notes), notes


def _tried(read: Callable[[], T], what: str, notes: list[str]) -> T | None:
    try:
        return read()
    except (SvloadError, OSError, ValueError, KeyError) as why:
        notes.append(f"{what}: {why}")
        return None


def _events(run: RunDir, notes: list[str]) -> list[Event]:
    if not run.events.exists():
        return []
    return list(_tried(lambda: read_events(run.events).events, "the journal cannot be read", notes) or [])


def _inputs(run: RunDir) -> Iterator[tuple[str, int, str]]:
    """Yield (name, bytes, SHA-256) of each file made by set-up."""
    if not run.inputs.is_dir():
        return
    for path in sorted(path for path in run.inputs.rglob("*") if path.is_file()):
        size = path.stat().st_size
        digest = sha256_file(path) if size <= _LARGEST_HASHED_BYTES else "not hashed: large"
        yield str(path.relative_to(run.inputs)), size, digest


def seal_hashes(gathered: Gathered) -> Mapping[str, str]:
    """Return the SHA-256 of each trial's seal, which itself holds the hash of every other file."""
    found = {}
    for trial in gathered.findings.trials:
        path: Path = gathered.run.trial(trial.trial).seal
        if path.exists():
            found[trial.trial] = sha256_file(path)
    return found


def anatomy_by_case(gathered: Gathered, group: str) -> dict[str, dict[str, float]]:
    """Return, by case, the mean seconds of each part of a request of `group` (`report.digest.SEGMENTS`), over
    its trials that count."""
    found = {}
    for case in gathered.findings.cases:
        if parts := mean_anatomy(gathered.counted(case), group):
            found[case.case] = parts
    return found


def mean_anatomy(digests: Sequence[TrialDigest], group: str) -> dict[str, float]:
    """Return the mean seconds of each part over the trials with any; a missing part is zero."""
    known = [parts for one in digests if group in one.groups and (parts := one.groups[group].anatomy_s)]
    return {part: sum(one.get(part, 0.0) for one in known) / len(known) for one in known for part in one}


def usage_by_service(
    gathered: Gathered, metric: str
) -> tuple[list[CaseResult], list[tuple[str, int, list[Number]]]]:
    """Return the cases that ran, and for each service that has a number of `metric` (such as `cpu.mean`) its
    name, its colour's number and its number in each case."""
    cases = [case for case in gathered.findings.cases if case.excluded is None and case.trials]
    found = [
        (service, gathered.colours[service], [gathered.numbers.of_case(case, f"{service}.{metric}") for case in cases])
        for service in services_of(gathered.findings)
    ]  # fmt: skip
    return cases, [one for one in found if any(number.shown is not None for number in one[2])]
