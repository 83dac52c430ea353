"""Proof that files are unchanged: a trial's seal, and a list of what a thin copy changed."""

from __future__ import annotations

from typing import Any, ClassVar

from svload.model.base import Artefact, Frozen


class Seal(Artefact):
    """seal.json: written last and fsynced. `files` maps every other file of the trial to its SHA-256; `facts`
    contain no verdict."""

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
    """the load's start, its shares, its groups' counts, SHA-256 of the run's lock, plan, inputs and
    certificates, and the position of its journal; no verdict"""


class ThinnedFile(Frozen):
    """A file of a sealed trial that a thin pack holds in another form: the digests of the sealed file and of
    the one present."""

    sealed: str
    """SHA-256 in the seal, or of the file in the whole run"""
    kept: str
    """SHA-256 of the file present"""


class Thinned(Artefact):
    """thinned.json: which files of sealed trials (`trials/TC7.r3/lab.json`) a thin copy of a run changed, and
    how; always journal, placement and findings."""

    FORMAT: ClassVar[int] = 1
    what: str
    """what was changed, in words"""
    files: dict[str, ThinnedFile]
    """path in the run → digests"""
