"""What is asked: a study file becomes factors, cases, exclusions and batches. Pure, the reading of the file apart."""

from __future__ import annotations

from svload.study.check import owners_of as owners_of
from svload.study.load import find_study, load_study, study_digest
from svload.study.objects import account_names, draw_objects
from svload.study.order import draw, first_batch
from svload.study.resolve import resolve

__all__ = [
    "account_names",
    "draw",
    "draw_objects",
    "find_study",
    "first_batch",
    "load_study",
    "resolve",
    "study_digest",
]
