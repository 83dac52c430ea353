"""What proves that files are as they were: a trial's seal, and what a thin copy changed."""

from __future__ import annotations

from typing import Any, ClassVar

from svload.model.base import Artefact, Frozen


class Seal(Artefact):
    """seal.json: written last and fsynced. `files` maps every other file of the trial to its
    SHA-256; `facts` are no verdict."""

    FORMAT: ClassVar[int] = 1
    trial: str
    """the trial, such as TC7.r3"""
    case: str
    """the case, as in the lock"""
    replicate: int
    """as in the plan, from 1"""
    block: int
    """as in the plan, from 1"""
    attempt: int
    """which attempt at the trial this is, from 1"""
    svload_version: str
    """the svload that made the trial"""
    sealed_wall: float
    """when it was sealed, Unix time in s"""
    files: dict[str, str]
    """file in the trial's folder → SHA-256 of its bytes"""
    facts: dict[str, Any]
    """the load's start, its shares, its groups' counts, and SHA-256 of the run's lock, plan, inputs and
    certificates, and how far its journal had come; no verdict"""


class ThinnedFile(Frozen):
    """A file of a sealed trial that a thin pack holds in another form: the digests of what
    was sealed and of what is there."""

    sealed: str
    """SHA-256 that the seal has, or that the file had in the whole run"""
    kept: str
    """SHA-256 of the file as it is here"""


class Thinned(Artefact):
    """thinned.json: which files of sealed trials (`trials/TC7.r3/lab.json`) a thin copy of a run changed, and
    how; journal, placement and findings always."""

    FORMAT: ClassVar[int] = 1
    what: str
    """what was changed, in words"""
    files: dict[str, ThinnedFile]
    """path in the run → digests"""
