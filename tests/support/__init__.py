"""Synthetic runs with a known truth, made by the real writers, for all tests of analysis and report."""

from __future__ import annotations

from tests.support.runs import SyntheticRun, make_run
from tests.support.truth import FAULTS, CaseTruth, Truth
from tests.support.turns import TurnModel

__all__ = ["FAULTS", "CaseTruth", "SyntheticRun", "Truth", "TurnModel", "make_run"]
