"""A trial, then all: order, journal, resume, placement."""

from svload.run.execute import Options, Outcome, begin, execute
from svload.run.faults import FAULTS, plant
from svload.run.order import next_trial, replacement_batch

__all__ = ["FAULTS", "Options", "Outcome", "begin", "execute", "next_trial", "plant", "replacement_batch"]
