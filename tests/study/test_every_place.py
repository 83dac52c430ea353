"""The schema: editors accept what svload accepts, and a factor in each place acts or is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from tests.evolve import evolve
from tests.study import places

from svload import api
from svload.drive.refusals import CaseChecks, _somewhere
from svload.drive.share.cut import build_shares
from svload.drive.share.requests import Taken
from svload.drive.share.set_up import trial_set_up, vu_set_ups
from svload.drive.share.timeline import timeline
from svload.drive.share.write import plain
from svload.lab import check_specs, find_mistakes, kit_options, measures
from svload.model.errors import SvloadError
from svload.model.study import CaseConfig, Lock
from svload.run.targets import named_targets
from svload.study import json_schema, load_study, resolve
from svload.study.values import Part

RE_DECLARED = {"AnyGroup", "_WrongExecutor", "InStages"}
"""Groups whose executor is a reference, and models that others inherit: their places are those of the
executor's own group."""


def schema_fields() -> set[str]:
    """Return `Model.key` of every field, where it is declared."""
    found: set[str] = set()
    kinds = [Part]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if not kind.__module__.startswith("svload.study") or kind.__name__ in RE_DECLARED:
            continue
        for name in kind.__annotations__:
            if name in kind.model_fields:
                found.add(f"{kind.__name__}.{kind.model_fields[name].alias or name}")
    return found


def test_every_field_of_the_schema_is_tried() -> None:
    tried = {name.partition(" ")[0] for name in places.PLACES}
    assert schema_fields() - tried == set()
    assert {name for name in tried if not name.endswith("*")} - schema_fields() == set()


def with_factor(place: places.Place) -> dict[str, Any]:
    """Return the base study with a reference at the place, whose two levels hold the two values."""
    study = places.merged(copy.deepcopy(places.BASE), copy.deepcopy(place.over))
    study["factors"] = {"f": {"a": {"v": place.one}, "b": {"v": place.other}}, **study.get("factors", {})}
    at: Any = study
    for step in place.path[:-1]:
        at = at[step]
    at[place.path[-1]] = "${f.v}"
    return study


def what_runs(lock: Lock, config: CaseConfig) -> str:
    """Return everything that determines a trial of the case, as text."""
    options, wrong = check_specs(config.services)
    assert not wrong
    known = _somewhere(evolve(config, groups=config.all_groups))
    secrets = dict.fromkeys(config.secrets, "x")
    takes = [(part.once, take.name) for part in config.set_up for take in part.request.take]
    variables = {name: "x" for once, name in takes if once == "trial"}
    vus = {name: ["x"] * 500 for once, name in takes if once == "vu"}
    taken = Taken({**secrets, **variables}, {group.name: vus for group in config.groups} if vus else {})
    times = timeline(config, config.measure.duration_ns)
    shares = [plain(share.spec) for share in build_shares(config, 1, times, known, [], taken=taken)]
    populations = [
        [plain(share.spec) for share in build_shares(evolve(config, groups=(step.populate,)), 1, timeline(config, step.lasts_ns), known, [], taken=taken)]
        for step in config.before_trial
        if step.populate
    ]  # fmt: skip
    before = trial_set_up(config, 1, known, [], Taken(secrets))
    each = vu_set_ups(config, 1, known, [], Taken({**secrets, **variables}))
    return json.dumps(
        {
            "lab": [(one.name, one.kit, one.options, repr(options[one.name])) for one in config.services],
            "sysctl": config.sysctl,
            "at": {name: repr(target) for name, target in named_targets(config).items()},
            "data": [one.model_dump() for one in config.objects],
            "tables": [one.model_dump() for one in config.tables],
            "steps": [step.model_dump() for step in config.before_trial],
            "faults": [fault.model_dump() for fault in config.faults],
            "measure": config.measure.model_dump(),
            "profile": config.profile,
            "criteria": [config.expects, config.thresholds],
            "secrets": config.secrets,
            "load": shares,
            "populations": populations,
            "counts": [request.counts_as for group in config.groups for request in group.requests],
            "set-up": [before and plain(before.spec), [plain(one.share.spec) for one in each.values()]],
        },
        default=str,
        sort_keys=True,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a study's folder with every file that a value names."""
    import pyarrow
    from pyarrow.parquet import write_table

    for name in ("one", "other"):
        (tmp_path / f"{name}.csv").write_text(f"value\n{name}\n")
        write_table(pyarrow.table({"value": [name]}), tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.bin").write_bytes(name.encode())
    return tmp_path


@pytest.mark.parametrize("name", sorted(places.PLACES))
def test_a_factor_there_acts_or_is_refused_with_its_reason(folder: Path, name: str) -> None:
    place = places.PLACES[name]
    study = folder / "study.json"
    study.write_text(json.dumps(with_factor(place)))
    checks: dict[str, Any] = {"check_lab": find_mistakes, "check_case": CaseChecks(), "measures": measures}
    try:
        lock = load_study(study, kits=kit_options(), **checks)
    except SvloadError as refused:
        found = list(map(str, refused.problems))
        assert place.refused and any(place.refused in text for text in found), found
        return
    assert not place.refused, "it was taken"
    by_level: dict[str, list[str]] = {}
    for case in lock.valid_cases:
        by_level.setdefault(case.levels["f"], []).append(what_runs(lock, resolve(lock, case)))
    assert set(by_level["a"]).isdisjoint(by_level["b"]), "both levels run the same"


ROOT = Path(__file__).resolve().parents[2]
STUDIES = {
    path.parent.name: YAML(typ="safe").load(path.read_text())
    for part in ("studies", "examples")
    for path in sorted(ROOT.glob(f"{part}/*/study.yaml"))
}
OWN = STUDIES["001-svload"]
PLANNED = {
    "a kit by level": OWN | {"lab": {"api": {"kit": "${kit}"}}},
    "a threshold of k6": OWN | {"thresholds": [{"http_req_duration": "p(95)<200", "when": {"cache": "on"}}]},
}


@pytest.mark.parametrize("study", [*STUDIES.values(), *PLANNED.values()], ids=[*STUDIES, *PLANNED])
def test_it_accepts_what_a_plan_does(study: Any) -> None:
    assert list(Draft202012Validator(api.schema()).iter_errors(study)) == []


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("measure", "duraton"), "1s"),
        (("measure", "replicates"), 0),
        (("measure", "control"), "${cache}"),
        (("traffic", "probe", "client"), "crl"),
        (("traffic", "probe", "vus"), "ten"),
        (("profiles", "demo", "measur"), {}),
        (("profiles", "demo", "traffic", "background", "vuss"), 1),
        (("lab", "cache", "storag"), "1 GiB"),
        (("lab", "cache", "kit"), "varnsh"),
        (("lab", "cache", "of"), 5),
        (("requests", "fetch", "timeut"), "1s"),
    ],
)
def test_it_refuses(where: tuple[str, ...], value: Any) -> None:
    study = inner = copy.deepcopy(OWN)
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    assert not Draft202012Validator(api.schema()).is_valid(study)


def unexplained(part: Any, path: tuple[str, ...] = ()) -> list[str]:
    """Return every key below `part` that has no description."""
    if isinstance(part, list):
        return [found for child in part for found in unexplained(child, path)]
    if not isinstance(part, dict):
        return []
    found = []
    for key, child in part.items():
        if key == "properties":
            found += [".".join((*path, name)) for name, one in child.items() if not one.get("description")]
            found += [one for name, inner in child.items() for one in unexplained(inner, (*path, name))]
        else:
            found += unexplained(child, (*path, key) if path[-1:] == ("$defs",) or key == "$defs" else path)
    return found


def test_it_is_a_json_schema_whose_every_key_is_explained() -> None:
    """An editor shows these lines on hover."""
    for schema in (json_schema(), api.schema()):
        Draft202012Validator.check_schema(schema)
    assert unexplained(schema) == []
