"""A small study with every section, and helpers to write and load studies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svload.model.errors import ExitCode, Problem, SvloadError
from svload.model.study import CaseConfig, Lock
from svload.study import load_study, resolve

SMALL = """\
name: small
lab:
  store: {kit: stone, workers: 4}
  front: {kit: glass, of: store}
data:
  things: {in: store, containers: 10, count: 100, size: 4 KiB}
factors:
  scheme: [http, https]
  way:
    direct: {host: store, expect: "front.requests == 0"}
    through: {host: front, mark: "m-${request.id}", expect: "front.hit_ratio >= 99 %"}
  users: [1, 8]
exclude:
  - {when: {way: through, users: 8}, because: too much}
feeders:
  thing: {from: things, take: walk}
before_trial:
  - reset: [store, front]
  - {when: {way: through}, warm: thing, through: front}
requests:
  fetch:
    get: ${scheme}://${way.host}${thing.path}
    headers: {X-Mark: "${way.mark}", X-Users: "${users}"}
    timeout: 5s
    check: [status == 200, "size_bytes == ${thing.size_bytes}"]
traffic:
  crowd: {when: {users: 8}, executor: constant-vus, vus: 40, generators: 2, ramp_up: 1s, request: fetch}
  guest: {client: curl, executor: constant-vus, vus: "${users}", think_time: 10ms, start_when: crowd.ramped, request: fetch}
measure: {duration: 2s, replicates: 3}
compare:
  - {name: the front, factor: way, baseline: direct, metric: guest.response.p50}
thresholds:
  - guest.success_rate >= 99 %
  - {when: {scheme: https}, that: guest.response.p95 < 1 s}
profiles:
  tiny:
    measure: {duration: 0.5s}
    traffic: {crowd: {vus: 4}}
"""


PAGE = """\
name: t
lab: {{web: {{kit: stone}}}}
data: {{o: {{in: web, count: 5, size: {size}}}}}
feeders: {{thing: {{from: o}}}}
factors: {{how: [shared-iterations, per-vu-iterations]}}
requests:
  page: {request}
traffic:
  g: {group}
measure: {{duration: 60s}}
{more}
"""


def page_of(
    request: str = "{get: http://web/}",
    group: str = "{executor: constant-vus, vus: 4, request: page}",
    size: str = "1 KiB",
    more: str = "",
) -> str:
    """Return a study of one group; its one request is `page`."""
    return PAGE.format(request=request, group=group, size=size, more=more)


Study = str | bytes | dict[str, Any]


def load_text(folder: Path, study: Study, **options: Any) -> Lock:
    """Return the lock of a study with that text, or of those values."""
    text = json.dumps(study) if isinstance(study, dict) else study
    (folder / "study.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    return load_study(folder, **options)


def problems_of(folder: Path, study: Study, **options: Any) -> tuple[Problem, ...]:
    with pytest.raises(SvloadError) as found:
        load_text(folder, study, **options)
    assert found.value.exit_code == ExitCode.USAGE
    return found.value.problems


def refusal(folder: Path, study: Study, **options: Any) -> str:
    """Return the problems of a study, one a line; empty if there are none."""
    try:
        load_text(folder, study, **options)
    except SvloadError as why:
        return "\n".join(map(str, why.problems))
    return ""


def line_of(problem: Problem) -> int:
    file, _, line = problem.place.rpartition(":")
    assert Path(file).name == "study.yaml"
    return int(line)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def load(folder: Path) -> Callable[..., Lock]:
    """Return load(study, **options) → its lock."""
    return lambda study=SMALL, **options: load_text(folder, study, **options)


@pytest.fixture
def case(load: Callable[..., Lock]) -> Callable[..., CaseConfig]:
    """Return case(study, number) → its case of that number."""

    def resolved(study: Study, number: int = 0, **options: Any) -> CaseConfig:
        lock = load(study, **options)
        return resolve(lock, lock.cases[number])

    return resolved
