"""Had a server's files really left the page cache, where the study dropped them, and did its answers come
from a disk? (docs/method.md §3, manipulation checks)"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Check, Context, percent
from svload.analysis.checks.warm_files import disk_reads
from svload.analysis.view import GroupView, Window, first_feeder
from svload.model.facts import FILES, RESIDENT_FILES
from svload.model.results import CheckResult
from svload.model.study import CaseConfig
from svload.model.units import show_size

if TYPE_CHECKING:
    from svload.store import TrialData


class Coldness(NamedTuple):
    """One server over the whole trial: its files and the share of them in the page cache at the start; bytes that
    the load received of it, those of them that were asked for the first time (None: not known), and those that
    it had a disk read (None: nobody counted them)."""

    service: str
    files_bytes: float
    resident: float
    sent_bytes: float
    first_bytes: float | None
    read_bytes: float | None

    @property
    def from_disk(self) -> float | None:
        """Disk reads over the bytes that had to come from there: those that were asked for the first time."""
        if self.read_bytes is None or not self.first_bytes:
            return None
        return self.read_bytes / self.first_bytes

    @property
    def warm(self) -> bool:
        """docs/method.md §3: more than 1 % resident at the start, or less than 90 % of what was sent first read."""
        unread = self.from_disk is not None and self.from_disk < limits.COLD_READS
        return self.resident > limits.COLD or unread

    def __str__(self) -> str:
        whole = f"the {show_size(self.files_bytes)} of {self.service}"
        told = f"at the start it held {percent(self.resident)} of {whole}"
        if self.read_bytes is None:
            return f"{told}, and nobody counted what came from a disk"
        if self.from_disk is None or self.first_bytes is None:
            return (
                f"{told}; a disk read {show_size(self.read_bytes)} for the {show_size(self.sent_bytes)} that it "
                "sent, of which nobody knows how much it had sent before"
            )
        return (
            f"{told}; {percent(min(self.from_disk, 1.0))} of what it sent for the first time "
            f"({show_size(self.first_bytes)} of {show_size(self.sent_bytes)}) came from a disk"
        )


class ColdFiles(Check):
    """WEAK where more than 1 % of the files of a server lay in the page cache at the start although a step
    before the trial dropped them, or where a disk read less than 90 % of what it sent for the first time.

    What a process has mapped, and what lies on a file system without a disk (tmpfs), cannot be dropped. What was
    asked for the first time is told by the feeder that the requests name first, a row a file: the share of distinct
    rows in those that were asked, at most all files.
    """

    name = "cold-files"
    row = "manipulation checks: cold page cache"
    order = 36
    scope = "all"

    def judge(self, trial: TrialData, config: CaseConfig, context: Context) -> CheckResult:
        """Every server whose files were to be dropped."""
        dropped = dict.fromkeys(service for step in config.before_trial for service in step.drop_cache)
        if not dropped:
            return self.result("VALID", "No files were to be dropped from the page cache.")
        found = [one for service in dropped if (one := _coldness(trial, service, context)) is not None]
        if not found:
            return self.unmeasured("no server whose files were dropped tells of them")
        warm = [one for one in found if one.warm]
        left = max(found, key=lambda one: one.resident)
        read = [one.from_disk for one in found if one.from_disk is not None]
        by_reads = left.resident <= limits.COLD and bool(warm)
        return self.result(
            "WEAK" if warm else "VALID",
            f"Files were dropped from the page cache, and {'; '.join(map(str, warm or found))}.",
            min(read) if by_reads else left.resident,
            limits.COLD_READS if by_reads else limits.COLD,
            "Put the files on a disk, let no process map them, and drop them last before the load.",
        )


def _coldness(trial: TrialData, service: str, context: Context) -> Coldness | None:
    before = trial.lab.before.get(service)
    if before is None or not before.values.get(FILES):
        return None
    asking = [group for group in context.groups if service in group.spec.hosts]
    files_bytes = before.values[FILES]
    first = _first_bytes(trial, asking)
    return Coldness(
        service,
        files_bytes,
        before.values[RESIDENT_FILES] / files_bytes,
        sum(group.summary.bytes_received for group in asking),
        None if first is None else min(first, files_bytes),
        disk_reads(trial, service, _whole(trial)),
    )


def _whole(trial: TrialData) -> Window:
    """From the load's start to its end."""
    interval_ns = trial.summary.interval_ns
    return Window(0, -(-trial.summary.window_ns[1] // interval_ns), interval_ns)


def _first_bytes(trial: TrialData, asking: list[GroupView]) -> float | None:
    """Of what these groups received; None where one of them asks for no row."""
    by_feeder: dict[str | None, list[GroupView]] = {}
    for group in asking:
        by_feeder.setdefault(first_feeder(group.spec), []).append(group)
    if not asking or None in by_feeder:
        return None
    total = 0.0
    for groups in by_feeder.values():
        mine = np.isin(trial.rows["group"], [group.index for group in groups])
        asked = float(trial.rows["asked"][mine].sum())
        if not asked:
            return None
        distinct = len(np.unique(trial.rows["row"][mine]))
        total += distinct / asked * sum(group.summary.bytes_received for group in groups)
    return total
