"""Were a server's files in the page cache, or read from a disk, as the study intends? Parts of the
manipulation check (docs/method.md §3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from svload.analysis import limits
from svload.analysis.checks.base import Context, Part
from svload.analysis.readings import readings_of, whole_of
from svload.analysis.view import GroupView, Window, first_feeder
from svload.model.facts import FILES, RESIDENT_FILES
from svload.model.study import CaseConfig
from svload.model.units import show_percent, show_size

if TYPE_CHECKING:
    from svload.store import TrialData


class FilesSent(NamedTuple):
    """One server over the whole load: its files and the share of them in the page cache at the start; bytes
    that the load received from it, those of them that were requested for the first time (None: not known),
    and those that it had a disk read (None: not counted)."""

    service: str
    files_bytes: float
    resident: float
    sent_bytes: float
    first_bytes: float | None
    read_bytes: float | None

    @property
    def reads(self) -> float:
        """Disk reads over the bytes that it sent; 0 where they are not known."""
        return (self.read_bytes or 0.0) / self.sent_bytes if self.sent_bytes else 0.0

    @property
    def from_disk(self) -> float | None:
        """Disk reads over the bytes that had to come from there: those that were requested for the first
        time."""
        if self.read_bytes is None or not self.first_bytes:
            return None
        return self.read_bytes / self.first_bytes

    @property
    def cold(self) -> bool:
        """Disk reads above 1 % of the bytes sent, or less than 99 % resident at the start."""
        return self.resident < limits.RESIDENT or self.reads > limits.DISK_READS

    @property
    def warm(self) -> bool:
        """More than 1 % resident at the start, or a disk read less than 90 % of what was first sent."""
        unread = self.from_disk is not None and self.from_disk < limits.COLD_READS
        return self.resident > limits.COLD or unread

    def of_cold(self) -> str:
        """Describe what is known of dropped files."""
        whole = f"the {show_size(self.files_bytes)} of {self.service}"
        told = f"at the start it held {show_percent(self.resident)} of {whole}"
        if self.read_bytes is None:
            return f"{told}, and nobody counted what came from a disk"
        if self.from_disk is None or self.first_bytes is None:
            return (
                f"{told}; a disk read {show_size(self.read_bytes)} for the {show_size(self.sent_bytes)} that it "
                "sent, of which nobody knows how much it had sent before"
            )
        return (
            f"{told}; {show_percent(min(self.from_disk, 1.0))} of what it sent for the first time "
            f"({show_size(self.first_bytes)} of {show_size(self.sent_bytes)}) came from a disk"
        )


def warm_files(trial: TrialData, config: CaseConfig, context: Context) -> Iterator[Part]:
    """REFUSED where less than 99 % of a server's files were in the page cache at the start, or it had a disk
    read more than 1 % of what it sent over the whole load.

    svload writes the files before the first trial, and an idle machine may drop them again.
    """
    dropped = {service for step in config.before_trial for service in step.drop_cache}
    asked = {service for group in context.groups for service in group.spec.hosts} - dropped
    found = [one for name in sorted(asked) if (one := _sent(trial, name, context)) is not None]
    cold = [one for one in found if one.cold]
    if found:
        told = "; ".join(
            f"{one.service} had {show_percent(one.resident)} of its {show_size(one.files_bytes)} of files in the page cache "
            f"at the start and read {show_percent(one.reads)} of what it sent from a disk"
            for one in (cold or found)
        )
        yield Part(
            "REFUSED" if cold else "VALID",
            f"the page cache was {'not warm' if cold else 'warm'}: {told}",
            "Warm the files right before the load (before_trial: warm), or give the server memory for them.",
        )


def cold_files(trial: TrialData, config: CaseConfig, context: Context) -> Iterator[Part]:
    """WEAK where more than 1 % of a server's files were in the page cache at the start although a step before
    the trial dropped them, or where a disk read less than 90 % of what it sent for the first time.

    Files mapped by a process, and files on a file system without a disk (tmpfs), cannot be dropped. What was
    requested for the first time is known from the feeder that the requests name first, one row per file: the
    share of distinct rows among those requested, at most all files.
    """
    dropped = dict.fromkeys(service for step in config.before_trial for service in step.drop_cache)
    found = [one for name in dropped if (one := _sent(trial, name, context)) is not None]
    warm = [one for one in found if one.warm]
    if found:
        yield Part(
            "WEAK" if warm else "VALID",
            f"files were dropped from the page cache, and {'; '.join(one.of_cold() for one in (warm or found))}",
            "Put the files on a disk, let no process map them, and drop them last before the load.",
        )


def _sent(trial: TrialData, service: str, context: Context) -> FilesSent | None:
    """Return what a server sent of its files; None for one that does not report them."""
    before = trial.lab.before.get(service)
    if before is None or not before.values.get(FILES):
        return None
    asking = [group for group in context.groups if service in group.spec.hosts]
    files_bytes = before.values[FILES]
    first = _first_bytes(trial, asking)
    return FilesSent(
        service,
        files_bytes,
        before.values[RESIDENT_FILES] / files_bytes,
        sum(group.summary.bytes_received for group in asking),
        None if first is None else min(first, files_bytes),
        _disk_reads(trial, service),
    )


def _disk_reads(trial: TrialData, service: str) -> float | None:
    """Return the bytes that a server's processes had a disk read from the load's start to its end; None: not
    counted."""
    read = whole_of(readings_of(trial.monitors).metric(service, "read_bytes_total"))
    if not read:
        return None
    interval_ns = trial.summary.interval_ns
    whole = Window(0, -(-trial.summary.window_ns[1] // interval_ns), interval_ns)
    return max(sum(series.enclosing(whole).change for series in read), 0.0)


def _first_bytes(trial: TrialData, asking: list[GroupView]) -> float | None:
    """Return the first-time bytes of what these groups received; None where one of them uses no rows."""
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
