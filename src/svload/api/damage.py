"""A run that was altered after it was sealed may break whoever reads it: then the damage
is told, and not what it broke."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from svload.model.errors import Problem, SvloadError, fail

P = ParamSpec("P")
T = TypeVar("T")
MOST_TOLD = 10


def damage_is_told(read: Callable[P, T]) -> Callable[P, T]:
    """For functions that are given runs: what they stumble over is run-damaged where a run's own
    digests say so, else a defect."""

    @wraps(read)
    def told(*args: P.args, **words: P.kwargs) -> T:
        try:
            return read(*args, **words)
        except (SvloadError, OSError, MemoryError):
            raise
        except Exception as why:
            if damage := list(_damage([*args, *words.values()])):
                raise SvloadError(*damage[:MOST_TOLD]) from why
            raise

    return told


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
