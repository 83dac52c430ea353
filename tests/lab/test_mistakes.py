"""Mistakes about a study's servers are reported together with all its other mistakes, by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload.lab import find_mistakes, kit_options
from svload.model.errors import Problem, SvloadError
from svload.study import load_study

STUDY = """\
name: servers
lab:
  backend: {kit: truth, role: store, workers: 4}
  cache: {kit: truth, role: cache, of: backend, workers: "${workers}"}
  mine: {run: "./server --port ${port}", ready: GET /health}
factors:
  workers: [2, 4]
requests:
  fetch: {get: http://cache/x, timeout: 5s}
traffic:
  crowd: {executor: constant-vus, vus: 4, request: fetch}
measure: {duration: 2s, replicates: 3}
profiles:
  elsewhere:
    lab: {backend: {kit: of-elsewhere, speed: 9}}
"""


def told(folder: Path, text: str, profile: str | None = None) -> list[tuple[int, Problem]]:
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    try:
        load_study(folder, profile=profile, kits=kit_options(), check_lab=find_mistakes)
    except SvloadError as error:
        return [(int(problem.place.rpartition(":")[2]), problem) for problem in error.problems]
    return []


def test_the_study_is_sound_and_another_machines_kit_is_no_mistake_of_this_one(tmp_path: Path) -> None:
    assert told(tmp_path, STUDY) == []
    ((line, problem),) = told(tmp_path, STUDY, "elsewhere")
    assert (line, problem.code) == (15, "study-unknown-name")
    assert "of-elsewhere" in str(problem)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("workers: 4}", "wrokers: 4}", 3, "“workers”"),
        ("workers: 4}", "workers: many}", 3, "lab.backend.workers"),
        ("role: store, ", "", 3, "role"),
        ("role: store", "role: stor", 3, "“store”"),
        ("of: backend", "of: backnd", 4, "“backend”"),
        ("role: cache, of: backend", "role: cache", 4, "`of`"),
        ("workers: 4}", "workers: 4, tls: stunnel}", 3, "no such TLS front"),
        ("workers: 4}", "workers: 4, tls: 5}", 3, "terminate TLS"),
        ("workers: 4}", "workers: 4, service_time: 2}", 3, "unit is missing"),
        ("workers: 4}", "workers: 4, memory: 1 GB/s}", 3, "does not fit"),
        ("workers: 4}", "workers: 4, memory: 1 gb}", 3, "Write “1 GB” or “1 GiB”."),
        ("kit: truth, role: store", "kit: truht, role: store", 3, "“truth”"),
        ('run: "./server --port ${port}", ready: GET /health', "kit: external", 5, "needs “at”"),
        ("workers: 4}", "workers: 4, link: 10 Mbit/s}", 3, "lab.backend.link"),
        ("workers: 4}", "workers: 4, link: {latency: 20 s}}", 3, "lab.backend.link"),
        ("workers: 4}", "workers: 4, link: {speed: 10 Mbit/s}}", 3, "lab.backend.link"),
        ("workers: 4}", "workers: 4, disk_rate: 10 MB/s}", 3, "disk_rate"),
        ("workers: 4}", "workers: 4, disk_rate: {reads: 10 MB/s}}", 3, "disk_rate"),
        ("workers: 4}", "workers: 4, disk_rate: {read: 10 MB}}", 3, "disk_rate"),
        ("workers: 4}", "workers: 4, disk_rate: {}}", 3, "disk_rate"),
        ("[2, 4]", "[2, -4]", 4, "-4"),
        ("GET /health", "POST /health", 5, "GET and a path"),
    ],
)
def test_one_mistake_among_the_servers(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert STUDY.count(old) == 1
    ((found, problem),) = told(tmp_path, STUDY.replace(old, new))
    assert found == line
    assert says in str(problem)


def test_they_are_reported_beside_mistakes_that_keep_cases_from_being_made(tmp_path: Path) -> None:
    """Each of the other mistakes prevents resolving any case; options used to be checked after that."""
    text = STUDY
    for old, new in (
        ("workers: 4}", "wrokers: 4}"),
        ("of: backend", "of: backnd"),
        ("timeout: 5s", "timeout: 5"),
        ("vus: 4", 'vus: "${worker}"'),
        ("duration: 2s", "duration: soon"),
        ("[2, 4]", "[]"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert [line for line, _ in told(tmp_path, text)] == [3, 4, 7, 9, 11, 12]
