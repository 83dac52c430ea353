"""Synthetic runs with a known truth, made by the real writers, for the tests of analysis and report."""

from __future__ import annotations

from tests.support.runs import SyntheticRun, make_run
from tests.support.turns import TurnModel

__all__ = ["SyntheticRun", "TurnModel", "make_run"]
