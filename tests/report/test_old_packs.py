"""`svload report PACK` reads what any older svload wrote: a committed pack of every format, rendered anew."""

from __future__ import annotations

import json
import shutil
import zipfile
from fnmatch import fnmatch
from math import isclose
from pathlib import Path

import pytest

from svload import api
from svload.model.base import Artefact
from svload.model.certificates import Certificates
from svload.model.errors import SvloadError
from svload.model.facts import TrialLab
from svload.model.plan import Batch, Placement
from svload.model.results import Findings, TrialSummary
from svload.model.seals import Seal, Thinned
from svload.model.study import Lock
from svload.store import RunDir, open_pack, query, verify_run

pytestmark = pytest.mark.slow

PACKS = sorted((Path(__file__).parents[1] / "packs").glob("pack-*.svload.zip"))
ARTEFACTS: dict[str, type[Artefact]] = {
    "study.lock.json": Lock,
    "plan/*.json": Batch,
    "placement.json": Placement,
    "certificates.json": Certificates,
    "thinned.json": Thinned,
    "trials/*/summary.json": TrialSummary,
    "trials/*/lab.json": TrialLab,
    "trials/*/seal.json": Seal,
    "derived/findings.json": Findings,
}


def formats(pack: Path) -> dict[str, int]:
    """Artefact's pattern → its format in a pack."""
    found = {}
    with zipfile.ZipFile(pack) as archive:
        for name in archive.namelist():
            for pattern in ARTEFACTS:
                if fnmatch(name, pattern) and name.count("/") == pattern.count("/"):
                    found[pattern] = int(json.loads(archive.read(name))["format"])
    return found


@pytest.fixture(params=PACKS, ids=lambda path: path.name)
def unpacked(request: pytest.FixtureRequest, tmp_path: Path) -> RunDir:
    return open_pack(request.param, tmp_path)


def test_there_is_a_pack_of_every_format_of_today() -> None:
    held = [formats(pack) for pack in PACKS]
    lacking = [
        f"{pattern}: no pack has format {kind.FORMAT}; run tools/make_pack.py and commit its pack"
        for pattern, kind in ARTEFACTS.items()
        if not any(pack.get(pattern) == kind.FORMAT for pack in held)
    ]
    assert not lacking, "\n".join(lacking)


def test_a_pack_is_rendered_anew_with_the_numbers_it_had(unpacked: RunDir) -> None:
    assert verify_run(unpacked) == []
    before = Findings.read(unpacked.findings_path)
    shutil.rmtree(unpacked.derived)
    findings, files = api.report(unpacked)
    page = files["report.html"].read_text(encoding="utf-8")
    assert len(findings.trials) == len(before.trials) == len(unpacked.sealed_trials())
    for case, was in zip(findings.cases, before.cases, strict=True):
        assert f'id="{case.case}"' in page or case.excluded is not None
        now, then = (one.metrics.get("probe.response.p50") for one in (case, was))
        if now and then and now.value is not None and then.value is not None:
            assert isclose(now.value, then.value, rel_tol=0.01)
    assert {trial.verdict.instrument for trial in findings.trials} >= {"REFUSED"}
    assert all(path.stat().st_size for path in files.values())


def test_a_pack_answers_why_and_sql(unpacked: RunDir) -> None:
    trial = unpacked.sealed_trials()[0]
    assert api.why(str(unpacked.path), trial).verdict.checks
    assert query(unpacked, "select count(*) from trials")[1] == [(len(unpacked.sealed_trials()),)]
    assert query(unpacked, "select count(*) > 0 from probe where time_total > 0")[1] == [(True,)]


def test_a_pack_of_a_newer_svload_is_refused_in_a_sentence(unpacked: RunDir) -> None:
    raw = json.loads(unpacked.lock_path.read_text())
    unpacked.lock_path.write_text(json.dumps(raw | {"format": Lock.FORMAT + 1}))
    with pytest.raises(SvloadError, match="Use a newer svload"):
        api.report(unpacked)
