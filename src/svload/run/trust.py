"""What this user allows on this machine: studies that `init` wrote or --trust confirmed, and locks of runs
started or confirmed here.

It is state of the host, never of a study or a run: what comes from elsewhere cannot allow itself anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from svload.host import state_dir
from svload.model.errors import SvloadError
from svload.model.parsed import parsed
from svload.model.private import append_private, read_private, write_private
from svload.model.study import Lock
from svload.store.seal import sha256_file
from svload.study import digest_of, study_digest, study_programs
from svload.study.tree import plain, read_tree

_STUDIES, _LOCKS = "trusted.json", "locks.jsonl"
_MOST_BYTES, _KEPT_LINES = 4 << 20, 8000


def trust(path: Path) -> None:
    """Remember the study at `path` in its present state as the user's: an edited one is asked about again."""
    known = _known()
    known[str(path.resolve())] = _as_it_stands(path)
    write_private(state_dir() / _STUDIES, json.dumps(known, indent=1))


def is_trusted(path: Path) -> bool:
    """Return whether the study at `path` is known and unchanged since."""
    known = _known().get(str(path.resolve()))
    try:
        return known is not None and known == _as_it_stands(path)
    except (SvloadError, OSError, ValueError):
        return False


def _as_it_stands(path: Path) -> dict[str, str]:
    """Return the study's text and the programs of its folder that it names: name → digest."""
    tree, _ = read_tree(path.read_text(encoding="utf-8"), str(path))
    return {path.name: study_digest(path)} | study_programs(path.absolute().parent, plain(tree))


def changed_since_trusted(path: Path) -> list[str]:
    """Return the names of what has changed in the study at `path` since it was last trusted; empty if it
    never was."""
    known = _known().get(str(path.resolve()))
    if known is None:
        return []
    return (changed_names(known, _as_it_stands(path)) if known else []) or [path.name]


def changed_names(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names whose values differ, or that only one of the two has."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


@dataclass(frozen=True)
class Allowed:
    """What one lock may do on this machine: run its commands and read its files, and load these hosts outside
    the lab."""

    trusted: bool = False
    hosts: tuple[str, ...] = ()
    changed: Literal["", "folder", "code"] = ""
    """It was trusted, but in another folder or with other programs, as this says."""


def allow(lock: Lock) -> None:
    """Remember the lock of a run that this user starts here with a trusted study and authorised hosts."""
    digest = hashlib.sha256(lock.to_json().encode("utf-8", "backslashreplace")).hexdigest()
    _allow(digest, Allowed(True, lock.authorised), _stands_for(lock))


def allow_file(lock_path: Path, lock: Lock, more: Allowed) -> None:
    """Remember what the user confirmed for a lock that was made elsewhere."""
    _allow(sha256_file(lock_path), more, _stands_for(lock))


def _stands_for(lock: Lock) -> dict[str, str]:
    """Return what its commands mean here: they run in its folder, and are the programs in it now."""
    folder = Path(lock.study_dir).absolute()
    return {"folder": str(folder.resolve()), "code": digest_of(study_programs(folder, lock.source))}


def allowed(lock_path: Path, lock: Lock) -> Allowed:
    """Return what this user has allowed the lock at `lock_path` on this machine: by its digest, so that an
    edited lock is unknown, and for the folder and the programs that its commands named then."""
    digest, stands_for = sha256_file(lock_path), _stands_for(lock)
    found = [one for one in _lines() if one.get("lock") == digest]
    hosts = dict.fromkeys(str(host) for one in found for host in one.get("hosts", ()))
    same = [one for one in found if all(one.get(name) == value for name, value in stands_for.items())]
    trusted = any(one.get("trusted") is True for one in same)
    before = [one for one in found if one.get("trusted") is True]
    if trusted or not before:
        return Allowed(trusted, tuple(hosts))
    here = any(one.get("folder") == stands_for["folder"] for one in before)
    return Allowed(False, tuple(hosts), "code" if here else "folder")


def _allow(digest: str, what: Allowed, stands_for: Mapping[str, str]) -> None:
    path = state_dir() / _LOCKS
    line = json.dumps({"lock": digest, "trusted": what.trusted, "hosts": what.hosts, **stands_for})
    if append_private(path, line) > _MOST_BYTES:
        newest = [text for text in read_private(path).splitlines() if text][-_KEPT_LINES:]
        write_private(path, "\n".join(newest) + "\n")


def _lines() -> Iterator[dict[str, Any]]:
    for line in read_private(state_dir() / _LOCKS).splitlines():
        try:
            found = parsed(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _known() -> dict[str, dict[str, str]]:
    """Return study → its text and programs when it was trusted; entries of older svloads are ignored."""
    try:
        known = parsed(read_private(state_dir() / _STUDIES))
    except ValueError:
        return {}
    found = known.items() if isinstance(known, dict) else ()
    return {str(key): value if isinstance(value, dict) else {} for key, value in found}
