"""A service that is started once for inspection: without load, leaving nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from svload.host import cache_dir, labs_dir, start_agent
from svload.lab import Lab
from svload.model.study import ServiceSpec
from svload.run.leftovers import Emit, put_back


@contextmanager
def started_once(spec: ServiceSpec, study_dir: Path, emit: Emit) -> Iterator[str]:
    """Yield the URL of a service, which is up until the exit. Raise SvloadError if it does not start, as a
    lab does."""
    put_back(emit)
    owner = f"once-{os.getpid()}"
    with start_agent(labs_dir() / owner, "init") as agent:
        lab = Lab((spec,), agent, agent.dir, cache_dir(), study_dir=study_dir)
        try:
            endpoint = next(iter(lab.up()[spec.name].endpoints))
            yield f"{endpoint.scheme}://{endpoint.connects_to}"
        finally:
            lab.down()
