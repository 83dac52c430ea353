"""Synthetic runs with a known truth, through the real writers: for everybody's tests of analysis and report."""

from __future__ import annotations

from svload.testing.runs import SyntheticRun, make_run
from svload.testing.truth import FAULTS, CaseTruth, Truth
from svload.testing.turns import TurnModel

__all__ = ["FAULTS", "CaseTruth", "SyntheticRun", "Truth", "TurnModel", "make_run"]
