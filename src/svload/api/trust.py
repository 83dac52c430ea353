"""Trust: whether a study or a stored run may do what it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from svload.model.environment import refuse_strange
from svload.model.errors import fail

if TYPE_CHECKING:
    from svload.model.study import Lock
    from svload.store import RunDir
    from svload.study.draft import Checks

MOST_NAMED = 5
NOT_ALLOWED = "you have not allowed that"
CHANGED = {
    "": "was not made here by you",
    "folder": "is in another folder than when you allowed it",
    "code": "has different programs in its folder than when you allowed it",
}


def must_be_trusted(lock: Lock, place: str) -> None:
    """Raise SvloadError study-untrusted if a study just read asks for more than load and is not the user's
    own."""
    from svload import lab, study
    from svload.run.trust import changed_since_trusted

    if not lock.trusted and (asked := study.needs_trust(lock, lab.asks_trust)):
        edited = changed_since_trusted(study.find_study(place))
        why = (
            f"{_some(edited)} was edited after svload init wrote it or you allowed it with --trust"
            if edited
            else NOT_ALLOWED
        )
        remedy = "Check what changed, then add --trust once." if edited else ""
        raise fail("study-untrusted", what=_some(asked), why=why, remedy=remedy, place=place)


def allowed_hosts(
    found: RunDir,
    lock: Lock,
    trusted: bool = False,
    authorised: Sequence[str] = (),
    changed_build: bool = False,
) -> tuple[str, ...]:
    """Return the hosts outside this machine that a resumed run may load: allowed for its lock on this
    machine, or now.

    `changed_build` also allows programs of its folder that changed, if the rest was allowed. Raises
    SvloadError run-untrusted, build-changed, unauthorised-target, run-damaged, not-yours. The lock's own
    statements on trust and hosts count for nothing here.
    """
    from svload import lab, run, study
    from svload.run.configs import case_configs
    from svload.run.trust import Allowed, allow_file, allowed

    for path in (found.path, found.lock_path):
        refuse_strange(path)
    known = allowed(found.lock_path, lock)
    trusted = trusted or (changed_build and known.changed == "code")
    if known.trusted or known.changed == "code":
        _must_be_same_build(found, lock, changed_build)
    if not known.trusted:
        study.must_be_sound(lock, str(found.lock_path), study_checks(Path(lock.study_dir)))
        asked = [*study.needs_trust(lock, lab.asks_trust), *study.reads_here(lock)]
        if asked and not trusted:
            raise fail("run-untrusted", path=found.path, what=_some(asked), why=CHANGED[known.changed])
        _must_be_same_build(found, lock, changed_build)
    hosts = tuple(dict.fromkeys((*known.hosts, *authorised)))
    run.permitted_targets(case_configs(lock).values(), hosts)
    if trusted or authorised:
        allow_file(found.lock_path, lock, Allowed(trusted, tuple(authorised)))
    return hosts


def may_administer(found: RunDir, lock: Lock, trusted: bool) -> bool:
    """Return whether a run's traffic may administer the lab's servers: the study was trusted here, or is now.
    The lock's own statement counts for nothing."""
    from svload.run.trust import allowed

    return trusted or (lock.trusted and allowed(found.lock_path, lock).trusted)


def _must_be_same_build(found: RunDir, lock: Lock, changed_build: bool) -> None:
    """Raise SvloadError build-changed if the programs to be measured now differ from those measured
    before."""
    from svload.run.programs import changed_programs

    if not changed_build and (changed := changed_programs(found, lock)):
        raise fail("build-changed", path=found.path, files=_some(changed))


def study_checks(folder: Path) -> Checks:
    """Return all checks that a study in `folder` must pass before it is run."""
    from svload import lab
    from svload.drive.refusals import CaseChecks
    from svload.study.draft import Checks
    from svload.watch import monitored_names

    return Checks(folder, lab.kit_options(), lab.find_mistakes, CaseChecks(), lab.measures, monitored_names)


def _some(asked: Sequence[str]) -> str:
    """Return the first few: a study may ask for hundreds."""
    more = len(asked) - MOST_NAMED
    return "; ".join(asked[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
