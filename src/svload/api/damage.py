"""Runs that were altered after sealing may break the code that reads them: then the damage is reported, not
its consequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from svload.model.errors import Problem, SvloadError, fail

P = ParamSpec("P")
T = TypeVar("T")
MOST_REPORTED = 10


def reports_damage(read: Callable[P, T]) -> Callable[P, T]:
    """Decorate functions that take runs: their failures become run-damaged if a run's own digests show
    damage, else they remain defects."""

    @wraps(read)
    def reporting(*args: P.args, **words: P.kwargs) -> T:
        try:
            return read(*args, **words)
        except (SvloadError, OSError, MemoryError):
            raise
        except Exception as why:
            if damage := list(_damage([*args, *words.values()])):
                raise SvloadError(*damage[:MOST_REPORTED]) from why
            raise

    return reporting


def _damage(given: list[Any]) -> Iterator[Problem]:
    from svload.store import RunDir, find_run, verify_run

    out = next((one for one in given if isinstance(one, Path)), Path("runs"))
    for one in given:
        try:
            if isinstance(one, RunDir):
                yield from verify_run(one)
            elif isinstance(one, str):
                yield from verify_run(find_run(one, out))
        except SvloadError:
            continue  # a text that names no run
        except Exception:
            path = one.path if isinstance(one, RunDir) else one
            yield fail("run-damaged", path=path, reason="its seals cannot be read").problems[0]
