"""Labs: a study's servers without a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from svload.api.studies import Choices, Emit, load_lock
from svload.api.trust import must_be_trusted
from svload.api.typed import seconds, writing
from svload.model.errors import fail
from svload.model.events import Event
from svload.run.configs import case_configs, case_labs


def _nobody(event: Event) -> None:
    return None


def lab_install(study_path: str, profile: str | None, emit: Emit) -> list[str]:
    """Install what the study's kits need and return one line per action. Without a profile that names real
    servers it is the study's own lab."""
    from svload import host, lab, run

    def waiting(holder: str) -> None:
        text = f"waiting: another installation runs on this machine ({holder})"
        emit(Event("notice", {"text": text, "waiting": holder}))

    lock = load_lock(study_path, Choices(profile=profile))
    run.put_back(emit)
    emit(Event("phase", {"name": "install", "state": "begin"}))
    cache = host.cache_dir()
    done = [line for specs in case_labs(lock) for line in lab.install(specs, cache, on_wait=waiting)]
    emit(Event("phase", {"name": "install", "state": "end"}))
    return list(dict.fromkeys(done))


def lab_up(
    study_path: str,
    profile: str | None,
    lease: str,
    trust: bool,
    emit: Emit,
    authorised: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Start a study's servers and keep them for `lease` (such as 2h); return the lab's id, until and
    endpoints. Linked ones can be reached only from `network`, a namespace file (None: from anywhere on this
    machine).

    Servers may forward to one elsewhere: its host must be `authorised` like a target of load.
    """
    from svload import run
    from svload.run.kept import keep

    lease_s = seconds(lease, "--for")
    lock = load_lock(study_path, Choices(profile=profile, trusted=trust, authorised=authorised))
    must_be_trusted(lock, study_path)
    run.permitted_targets(case_configs(lock).values(), authorised)
    run.put_back(emit)
    emit(Event("phase", {"name": "up", "state": "begin"}))
    found = keep(lock, lease_s)
    emit(Event("phase", {"name": "up", "state": "end"}))
    return found


def lab_urls(
    study_path: str,
    profile: str | None,
    target: Path | None,
    trust: bool,
    emit: Emit,
    authorised: tuple[str, ...] = (),
) -> dict[str, list[Any]]:
    """Return every URL of every account of a study's stores, filling empty stores first: columns url, path,
    size_bytes, digest.

    With `target` they are also written there as CSV, which a feeder can read.
    """
    from svload import run
    from svload.run.inputs import csv_bytes
    from svload.run.listing import listed_urls
    from svload.store.seal import write_whole

    lock = load_lock(study_path, Choices(profile=profile, trusted=trust, authorised=authorised))
    must_be_trusted(lock, study_path)
    run.permitted_targets(case_configs(lock).values(), authorised)
    found = listed_urls(lock, emit)
    if target is not None:
        with writing(target):
            write_whole(target, csv_bytes(found))
    return found


def lab_status(emit: Emit = _nobody) -> dict[str, Any]:
    """Return kept labs, agents, the warm process (null: none), and the sizes of svload's caches on this
    machine."""
    from svload import host, run
    from svload.host.process.warm import warm_state
    from svload.model.units import show_size
    from svload.run.kept import agents, kept_labs

    run.put_back(emit)
    cache = host.cache_dir()
    sizes = {
        str(path.relative_to(cache)): show_size(host.folder_bytes(path)) for path in sorted(cache.glob("*/*"))
    }
    labs = [
        {
            "id": lab["id"],
            "owner": lab["study"],
            "lease": f"until {lab['until']}",
            "endpoints": lab["endpoints"],
            "network": lab.get("network"),
        }
        for lab in kept_labs()
    ]
    return {"labs": labs, "agents": agents(), "warm": warm_state(), "caches": sizes}


def lab_reset(lab_id: str | None, emit: Emit = _nobody) -> dict[str, Any]:
    """Reset a kept lab's servers and return each one's proof."""
    from svload import run
    from svload.run.kept import ask

    run.put_back(emit)
    return dict(ask(lab_id or _only_lab(), "reset").get("proof", {}))


def lab_down(lab_id: str | None, emit: Emit = _nobody) -> list[str]:
    """Stop one kept lab, or all; return one line each."""
    from svload import run
    from svload.run.kept import ask, kept_labs

    lines = []
    for name in [lab_id] if lab_id else [str(lab["id"]) for lab in kept_labs()]:
        ask(name, "down")
        lines.append(f"{name} is being stopped")
    run.put_back(emit)
    return lines or ["no lab is running"]


def warm_keep(lease: str, emit: Emit = _nobody) -> dict[str, Any]:
    """Keep a process ready for `lease` (such as 10m), so that the next loads start immediately; return its
    `until`, `until_wall` and `pid`."""
    from svload import run
    from svload.host.process.warm import keep_warm

    lease_s = seconds(lease, "--for")
    run.put_back(emit)
    return keep_warm(lease_s)


def warm_end(emit: Emit = _nobody) -> dict[str, Any]:
    """End the warm process; return whether there was one (`ended`)."""
    from svload import run
    from svload.host.process.warm import end_warm

    ended = end_warm()
    run.put_back(emit)
    return {"ended": ended}


def _only_lab() -> str:
    from svload.run.kept import kept_labs

    labs = kept_labs()
    if not labs:
        raise fail("usage", reason="no lab is running", hint="Start one with “svload lab up STUDY”.")
    if len(labs) > 1:
        names = ", ".join(str(lab["id"]) for lab in labs)
        raise fail("usage", reason=f"{len(labs)} labs are running", hint=f"Name one: {names}.")
    return str(labs[0]["id"])
