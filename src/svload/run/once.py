"""A service that is started once to be looked at: no load, nothing is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from svload.host import cache_dir, labs_dir, start_agent
from svload.lab import Lab
from svload.model.messages import Lease
from svload.model.study import ServiceSpec
from svload.run.leftovers import Emit, put_back


@contextmanager
def started_once(spec: ServiceSpec, study_dir: Path, emit: Emit) -> Iterator[str]:
    """The URL of a service that is up for so long. Raises SvloadError as a lab does that does not come up."""
    put_back(emit)
    owner = f"once-{os.getpid()}"
    with start_agent(labs_dir() / owner, Lease(), "init") as agent:
        lab = Lab((spec,), agent, agent.dir, cache_dir(), study_dir=study_dir)
        try:
            endpoint = next(iter(lab.up()[spec.name].endpoints))
            yield f"{endpoint.scheme}://{endpoint.connects_to}"
        finally:
            lab.down()
