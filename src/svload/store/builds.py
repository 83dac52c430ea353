"""The programs of the study's folder that each sealed trial of a run was measured with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from svload.model.errors import SvloadError
from svload.model.facts import TrialLab, newest_programs, other_programs
from svload.model.seals import Seal
from svload.store.layout import RunDir


def measured_programs(run: RunDir) -> dict[str, str]:
    """Return each program as in the last sealed trial with a server started from it: name → SHA-256."""
    return newest_programs((sealed_s, lab.programs) for _, sealed_s, lab in _labs(run))


def other_builds(run: RunDir) -> dict[str, list[str]]:
    """Return sealed trial → programs that differ from those of a later trial."""
    labs = list(_labs(run))
    newest = newest_programs((sealed_s, lab.programs) for _, sealed_s, lab in labs)
    apart = {name: other_programs(lab.programs, newest) for name, _, lab in labs}
    return {name: changed for name, changed in apart.items() if changed}


def _labs(run: RunDir) -> Iterator[tuple[str, float, TrialLab]]:
    for name in run.sealed_trials():
        trial = run.trial(name)
        with contextlib.suppress(SvloadError, OSError):  # verify reports damage
            yield name, Seal.read(trial.seal).sealed_wall, TrialLab.read(trial.lab)
