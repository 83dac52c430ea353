"""Every URL of a study's stores, as listed by the servers: started alone, filled if needed, and stopped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from svload import study
from svload.host import cache_dir, labs_dir, start_agent
from svload.lab import Lab, is_linked
from svload.lab.graph import needed, needs_of
from svload.model.errors import fail
from svload.model.events import Event
from svload.model.study import Lock
from svload.run.leftovers import put_back


def listed_urls(lock: Lock, emit: Callable[[Event], None]) -> dict[str, list[Any]]:
    """Return every object of the first case's data: columns url (its host is the service's name), path,
    size_bytes, digest.

    Raise SvloadError.
    """
    put_back(emit)
    config = study.resolve(lock, lock.valid_cases[0])
    if not config.objects:
        hint = "“data: {objects: {in: …}}” says what a store holds."
        raise fail("usage", reason=f"{lock.name} fills no store", hint=hint)
    needs = needs_of(config.services)
    wanted = needed({one.service for one in config.objects}, needs)
    specs = [spec for spec in config.services if spec.name in wanted]
    found: dict[str, list[Any]] = {"url": [], "path": [], "size_bytes": [], "digest": []}
    place, linked = labs_dir() / f"urls-{os.getpid()}", any(map(is_linked, specs))
    with start_agent(place, f"urls of {lock.name}", own_network=linked) as agent, agent.joined():
        lab = Lab(
            specs,
            agent,
            agent.dir,
            cache_dir(),
            None,
            emit,
            study_dir=Path(lock.study_dir),
            secrets=config.secrets,
        )
        try:
            lab.up()
            lab.stores.fill_all(config.objects, lock.seed)
            for one in config.objects:
                columns = lab.stores.listed(one).columns()
                found["url"] += [f"http://{one.service}{path}" for path in columns["path"]]
                for name, values in columns.items():
                    found[name] += values
        finally:
            lab.down()
    return found
