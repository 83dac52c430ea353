"""The same done to several servers of a lab at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from svload.model.errors import SvloadError

PARALLEL = 4
T = TypeVar("T")


def together(act: Callable[[str], T], names: Sequence[str]) -> list[T]:
    """`act` on every name in parallel; when some fail, all are awaited and one error carries every problem."""
    if len(names) < 2:
        return [act(name) for name in names]
    with ThreadPoolExecutor(max_workers=min(PARALLEL, len(names))) as pool:
        futures = [pool.submit(act, name) for name in names]
    errors = [error for future in futures if (error := future.exception())]
    known = [error for error in errors if isinstance(error, SvloadError)]
    if errors and len(known) < len(errors):
        raise next(error for error in errors if not isinstance(error, SvloadError))
    if known:
        raise SvloadError(*(problem for error in known for problem in error.problems))
    return [future.result() for future in futures]
