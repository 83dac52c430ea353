"""A refused trial that was made once more: the one that is believed counts, and the findings say so."""

from __future__ import annotations

from pathlib import Path

from svload import api
from svload.model.results import Findings, TrialResult
from svload.testing import make_run


def _findings(folder: Path) -> Findings:
    run = make_run(folder, cases=2, replicates=4, faults={"TC1.r2": "no-hits"})
    return api.runs.analyse(run)


def test_without_another_its_pairs_are_out(tmp_path: Path) -> None:
    found = _findings(tmp_path)
    assert {trial.trial for trial in found.trials if trial.verdict.instrument == "REFUSED"} == {"TC1.r2"}
    (sentence,) = (one.sentence for one in found.findings if one.sentence.startswith("TC1.r2 is REFUSED"))
    assert "takes its pairs out of comparisons" in sentence


def test_with_another_it_counts(tmp_path: Path) -> None:
    from svload.analysis.sentences import findings_of

    run = make_run(tmp_path, cases=2, replicates=4, faults={"TC1.r2": "no-hits"})
    found = api.runs.analyse(run)
    (lost,) = (trial for trial in found.trials if trial.trial == "TC1.r2")
    (good,) = (trial for trial in found.trials if trial.trial == "TC1.r1")
    again: TrialResult = good.model_copy(update={"trial": "TC1.r5", "block": lost.block})
    sentences = findings_of(run.lock(), found.cases, (*found.trials, again), found.claims, found.thresholds)
    (sentence,) = (one.sentence for one in sentences if one.sentence.startswith("TC1.r2 is REFUSED"))
    assert "was made once more (TC1.r5)" in sentence
