"""A trial, then all: order, journal, resume, placement."""

from svload.run.execute import Options, Outcome, begin, execute
from svload.run.faults import FAULTS, plant, planted_config
from svload.run.order import next_trial, replacement_batch
from svload.run.targets import permitted_targets

__all__ = [
    "FAULTS",
    "Options",
    "Outcome",
    "begin",
    "execute",
    "next_trial",
    "permitted_targets",
    "plant",
    "planted_config",
    "replacement_batch",
]
