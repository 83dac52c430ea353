"""Certificates: the error of the instrument, and the difference of a lab from itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from svload.api.studies import Choices, execute_run, load_lock, must_be_possible, must_fit
from svload.api.trust import must_be_trusted
from svload.api.typed import writing
from svload.model.errors import fail
from svload.model.events import Event

if TYPE_CHECKING:
    from svload.api.studies import RunResult
    from svload.model.certificates import AaCertificate, InstrumentCertificate

Emit = Callable[[Event], None]
AA_PAIRS = 20


def certify(emit: Emit, wait_s: float | None = None) -> InstrumentCertificate:
    """Measure the truth server at known service times and store the load's measurements of them for this
    host, kernel and engine."""
    from svload import run
    from svload.host import passing_folder
    from svload.host.machine import kept_certificates

    with passing_folder("certify") as folder:
        path = folder / "study.yaml"
        path.write_text(run.certificate_study(), encoding="utf-8")
        made = run.certify_instrument(load_lock(str(path), Choices()), folder, emit, wait_s)
    kept_certificates.keep(made)
    return made


MOST_PAIRS = 10_000
"""More pairs per load are a typing mistake; their plan alone would fill the memory."""


def aa(study_path: str, choices: Choices, pairs: int, emit: Emit) -> tuple[AaCertificate | None, RunResult]:
    """Run a study's lab against itself and store how far its two sides differ, per metric and load.

    One case of each load of the study is repeated (`choices.only` names others). There is no certificate if
    too few pairs are left, or if the run did not end. Raises SvloadError before anything is started.
    """
    from svload import analysis, run
    from svload.host.machine import kept_certificates
    from svload.model.certificates import AaCertificate
    from svload.run.configs import case_configs

    if pairs < AA_PAIRS:
        raise fail(
            "usage", reason=f"an A/A certificate needs at least {AA_PAIRS} pairs", hint="Leave --pairs out."
        )
    if pairs > MOST_PAIRS:
        raise fail("usage", reason=f"{pairs} pairs are more than {MOST_PAIRS:,}", hint="Use fewer.")
    whole = load_lock(study_path, choices)
    must_be_trusted(whole, study_path)
    cases = analysis.one_case_a_load(case_configs(whole))
    lock = run.aa_lock(whole, cases, pairs)
    run.permitted_targets(case_configs(lock).values(), lock.authorised)
    must_be_possible(lock, choices)
    must_fit(lock)
    restarts = run.compares_restarts(whole)
    with writing(choices.out):
        begun = run.begin(lock, choices.out, batch=run.aa_batch(lock, restarts))
    result = execute_run(begun, emit, choices)
    findings = result.findings
    floors = (
        analysis.floors_of(case_configs(lock), findings.trials)
        if findings and result.outcome.complete
        else ()
    )
    if not floors:
        return None, result
    made = AaCertificate(
        place=kept_certificates.place(),
        settings=analysis.settings_digest(whole),
        made_wall=time.time(),
        study=whole.name,
        cases=cases,
        pairs=min(floor.pairs for floor in floors),
        restarts=restarts,
        floors=floors,
    )
    kept_certificates.keep(made)
    return made, result
