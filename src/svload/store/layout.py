"""A run's folder: the paths of all artefacts, and how runs are numbered and found."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from svload.model.certificates import Certificates
from svload.model.errors import fail
from svload.model.plan import Batch, Placement, TrialPlan
from svload.model.seals import Thinned
from svload.model.study import Case, Level, Lock
from svload.study.factors import level_name

PACK_SUFFIX = ".svload.zip"
LATEST = "latest"
_LONGEST_NAME_BYTES = 120
_TABLES = ("intervals", "histograms", "samples", "rows", "monitors")


def folder_name(name: str) -> str:
    """Return a trial's or study's name as one safe path component: unchanged if it is plain, else
    percent-encoded, shortened with a hash if long."""
    safe = "".join(
        c if c.isalnum() or c in "._-+=@~" else quote(c, safe="", errors="surrogatepass") for c in name
    )
    safe = re.sub(r"^\.", "%2E", safe) or "%00"
    if len(safe.encode()) <= _LONGEST_NAME_BYTES:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return safe.encode()[: _LONGEST_NAME_BYTES - 16].decode("utf-8", "ignore") + "~" + digest


@dataclass(frozen=True)
class TrialDir:
    """Files of one trial (or one attempt). `path` is its folder, `name` the trial's name."""

    path: Path
    name: str

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def lab(self) -> Path:
        return self.path / "lab.json"

    @property
    def stacks(self) -> Path:
        """stacks.json (Stacks), for a trial whose service was sampled."""
        return self.path / "stacks.json"

    @property
    def seal(self) -> Path:
        """seal.json (Seal); only trials that have it count."""
        return self.path / "seal.json"

    def table(self, name: str) -> Path:
        """`intervals`, `histograms`, `samples`, `rows` or `monitors` as Parquet."""
        if name not in _TABLES:
            raise ValueError(f"a trial has no table {name!r}")
        return self.path / f"{name}.parquet"


@dataclass(frozen=True)
class RunDir:
    """One execution of a study. All paths of a run are named here and nowhere else."""

    path: Path

    # the artefacts

    @property
    def name(self) -> str:
        """`svload-demo-3`."""
        return self.path.name

    @property
    def lock_path(self) -> Path:
        return self.path / "study.lock.json"

    @property
    def inputs(self) -> Path:
        """inputs/: object and URL tables with digests."""
        return self.path / "inputs"

    @property
    def plan(self) -> Path:
        """plan/: 000.json, 001.json, …"""
        return self.path / "plan"

    @property
    def placement_path(self) -> Path:
        return self.path / "placement.json"

    @property
    def thinned_path(self) -> Path:
        """thinned.json, only in a thin copy."""
        return self.path / "thinned.json"

    @property
    def certificates_path(self) -> Path:
        """certificates.json: what was known about instrument and noise when the run started."""
        return self.path / "certificates.json"

    @property
    def trials(self) -> Path:
        """trials/: one folder per trial."""
        return self.path / "trials"

    @property
    def attempts(self) -> Path:
        """attempts/: attempts that do not count."""
        return self.path / "attempts"

    @property
    def derived(self) -> Path:
        """derived/: made from the rest, can be deleted."""
        return self.path / "derived"

    @property
    def findings_path(self) -> Path:
        return self.derived / "findings.json"

    @property
    def report_digests_path(self) -> Path:
        """The digests of the files that the last report wrote, in the format of sha256sum."""
        return self.derived / "SHA256SUMS"

    @property
    def findings_digest_path(self) -> Path:
        """derived/findings.sha256: the digest of findings.json as it was written."""
        return self.derived / "findings.sha256"

    @property
    def tables_path(self) -> Path:
        """derived/tables.json: the study's own tables, if a script made any."""
        return self.derived / "tables.json"

    @property
    def events(self) -> Path:
        """events.jsonl of the whole run."""
        return self.path / "events.jsonl"

    @property
    def unlinked_latest(self) -> Path:
        """Beside the run: the link that will be renamed to `latest`."""
        return self.path.parent / f".{LATEST}.{self.name}"

    def batch_path(self, number: int) -> Path:
        return self.plan / f"{number:03}.json"

    def trial(self, name: str) -> TrialDir:
        """Return the folder of a trial, whether or not it exists; a hostile name stays inside trials/."""
        return TrialDir(self.trials / folder_name(name), name)

    def attempt(self, name: str, attempt: int) -> TrialDir:
        """Return the folder for attempt number `attempt` (from 1) of a trial if it does not count."""
        return TrialDir(self.attempts / f"{folder_name(name)}.a{attempt}", name)

    # reading

    def lock(self) -> Lock:
        """The study as resolved, with the values chosen so far. Raises SvloadError (run-not-found,
        run-damaged, format-newer)."""
        try:
            lock = Lock.read(self.lock_path)
        except FileNotFoundError as why:
            raise fail("run-not-found", path=self.path) from why
        return closed(lock, self.batches()) if any(one.open is not None for one in lock.factors) else lock

    def batches(self) -> tuple[Batch, ...]:
        """All batches of the plan, in order."""
        return tuple(Batch.read(path) for path in sorted(self.plan.glob("[0-9]*.json")))

    def placement(self) -> Placement | None:
        """The machine of each share, or None before it is decided."""
        return Placement.read(self.placement_path) if self.placement_path.exists() else None

    def thinned(self) -> Thinned | None:
        """What a thin copy changed, or None in a full run."""
        return Thinned.read(self.thinned_path) if self.thinned_path.exists() else None

    def certificates(self) -> Certificates:
        """The certificates valid when the run started; none for a run of an older svload without any."""
        return (
            Certificates.read(self.certificates_path) if self.certificates_path.exists() else Certificates()
        )

    def planned_trials(self) -> tuple[TrialPlan, ...]:
        """All trials of all batches, in the order they run."""
        return tuple(trial for batch in self.batches() for trial in batch.trials)

    def sealed_trials(self) -> tuple[str, ...]:
        """Names of the sealed trials, in plan order; those that are not in the plan follow by name."""
        return tuple(name for name in self._trial_names() if self.trial(name).seal.exists())

    def unsealed_trials(self) -> tuple[str, ...]:
        """Names of planned trials whose folder exists without a seal: started, never finished. A folder that
        is not in the plan is not svload's."""
        begun = [trial.trial for trial in self.planned_trials() if self.trial(trial.trial).path.is_dir()]
        return tuple(name for name in begun if not self.trial(name).seal.exists())

    def is_complete(self) -> bool:
        """Return whether every planned trial is sealed. A run without a plan is not complete."""
        planned = {trial.trial for trial in self.planned_trials()}
        return bool(planned) and planned <= set(self.sealed_trials())

    def kept_attempts(self) -> tuple[TrialDir, ...]:
        """Return the attempts that did not count, by name."""
        found = sorted(self.attempts.glob("*.a[0-9]*")) if self.attempts.is_dir() else []
        return tuple(TrialDir(path, unquote(path.name.rpartition(".a")[0])) for path in found)

    def next_attempt(self, name: str) -> int:
        """Return the number (from 1) of the next attempt at this trial."""
        prefix = f"{folder_name(name)}.a"
        if not self.attempts.is_dir():
            return 1
        kept = [path.name[len(prefix) :] for path in self.attempts.iterdir() if path.name.startswith(prefix)]
        return 1 + max((int(number) for number in kept if number.isdigit()), default=0)

    def _trial_names(self) -> list[str]:
        if not self.trials.is_dir():
            return []
        there = {path.name for path in self.trials.iterdir() if path.is_dir()}
        planned = [trial.trial for trial in self.planned_trials()]
        names = [name for name in planned if folder_name(name) in there]
        rest = there - {folder_name(name) for name in names}
        return names + sorted(unquote(name) for name in rest)

    # making and finding

    @staticmethod
    def create(parent: Path, study: str, profile: str | None = None) -> RunDir:
        """Create an empty folder `<study>-<profile>-<n>` in `parent`; n is one above the highest there. Safe
        if other processes do the same."""
        stem = run_stem(study, profile)
        parent.mkdir(parents=True, exist_ok=True)
        number = 1 + max(run_numbers(parent, stem), default=0)
        while True:
            path = parent / f"{stem}-{number}"
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
                continue
            run = RunDir(path)
            for folder in (run.inputs, run.plan, run.trials, run.attempts, run.derived):
                folder.mkdir()
            return run

    def make_latest(self) -> None:
        """Make the link `latest` beside the run point to it, atomically. Called when a run has finished."""
        link = self.path.parent / LATEST
        if link.exists() and not link.is_symlink():
            return
        temporary = self.unlinked_latest
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(self.path.name)
        os.replace(temporary, link)


def run_stem(study: str, profile: str | None) -> str:
    """Return the start of the names of a study's runs under this profile."""
    return "-".join(folder_name(part) for part in (study, profile) if part)


def run_numbers(parent: Path, stem: str) -> list[int]:
    """Return the numbers of the runs with that stem in `parent`, in no order."""
    pattern = re.compile(re.escape(stem) + r"-(\d+)")
    return [int(match[1]) for path in parent.iterdir() if (match := pattern.fullmatch(path.name))]


def closed(lock: Lock, batches: Iterable[Batch]) -> Lock:
    """Return the lock with the values that batches chose as levels; unchanged if it has no open factor, or
    nothing was chosen yet.

    So readers of a run find factors, levels and cases, none of them open. A search has
    only one case besides its open factor.
    """
    searched = [factor.name for factor in lock.factors if factor.open is not None]
    chosen = {trial.case: trial.at.values for batch in batches for trial in batch.trials if trial.at.values}
    if not searched or not chosen:
        return lock
    factors = tuple(
        factor
        if factor.open is None
        else factor.model_copy(
            update={
                "open": None,
                "levels": tuple(
                    Level(name=level_name(value), value=value)
                    for value in sorted({values[factor.name] for values in chosen.values()})
                ),
            }
        )
        for factor in lock.factors
    )
    (base,) = lock.valid_cases
    ordered = sorted(chosen.items(), key=lambda one: tuple(one[1][name] for name in searched))
    cases = [
        _case(base, name, {key: level_name(value) for key, value in values.items()})
        for name, values in ordered
    ]
    return lock.model_copy(update={"factors": factors, "cases": tuple(cases)})


def _case(base: Case, name: str, levels: dict[str, str]) -> Case:
    return base.model_copy(update={"name": name, "levels": base.levels | levels})
