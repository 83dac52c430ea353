"""What is asked: a study file becomes factors, cases, exclusions and batches. Pure, the reading of the file apart."""

from __future__ import annotations

from svload.model.metrics import Source
from svload.model.study import Lock
from svload.study.check import owners_of
from svload.study.editor import json_schema
from svload.study.first import init_study
from svload.study.load import find_study, load_study, study_digest
from svload.study.order import draw, first_batch
from svload.study.resolve import resolve
from svload.study.trust import needs_trust

__all__ = [
    "draw",
    "find_study",
    "first_batch",
    "init_study",
    "json_schema",
    "load_study",
    "needs_trust",
    "owners",
    "resolve",
    "study_digest",
]


def owners(lock: Lock) -> dict[str, Source]:
    """Whom the metric grammar may name in this study: traffic groups, services and feeders."""
    return owners_of(lock.source)
