"""The JSON Schema for editors accepts what svload accepts, and says no where an editor should."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from svload import api
from svload.study import init_study, json_schema

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted([*ROOT.glob("studies/*/study.yaml"), *ROOT.glob("examples/*/study.yaml")])
KITS = {
    "swift": {
        "type": "object",
        "properties": {
            "tls": {"type": "string"},
            **{name: {} for name in ("nofile", "memcached_connections", "memcached_memory")},
        },
        "additionalProperties": False,
    },
    "varnish": {
        "type": "object",
        "properties": {
            "of": {"$ref": "#/$defs/Of"},
            "storage": {"type": "string"},
            "tls": {"type": "string"},
            "tuning": {"type": "object"},
        },
        "required": ["of"],
        "$defs": {"Of": {"type": "string"}},
    },
    "truth": {
        "type": "object",
        "properties": {name: {} for name in ("role", "service_time", "workers", "tls", "of")},
    },
    "command": {"type": "object", "properties": {"run": {"type": "string"}}, "required": ["run"]},
}


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


def test_it_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(json_schema())
    Draft202012Validator.check_schema(json_schema(KITS))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_it_accepts_our_studies(path: Path) -> None:
    assert list(Draft202012Validator(json_schema()).iter_errors(read(path))) == []


def test_it_accepts_what_init_writes() -> None:
    for target in ("http://127.0.0.1:8080/a", "./server --port {port}"):
        assert (
            list(Draft202012Validator(json_schema()).iter_errors(YAML(typ="safe").load(init_study(target))))
            == []
        )


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("measure", "duraton"), "1s"),
        (("measure", "replicates"), 0),
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
    study = copy.deepcopy(read(ROOT / "studies" / "001-svload" / "study.yaml"))
    validator = Draft202012Validator(json_schema(KITS))
    assert list(validator.iter_errors(study)) == []
    inner = study
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    assert list(validator.iter_errors(study)) != []


def unexplained(part: Any, path: tuple[str, ...] = ()) -> list[str]:
    """Every key below `part` that has no line of its own."""
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


def test_every_key_of_it_is_explained() -> None:
    """An editor shows these lines on hover."""
    assert unexplained(api.schema()) == []


def test_a_key_without_a_line_would_be_seen() -> None:
    schema = json_schema()
    del schema["$defs"]["ClosedGroup"]["properties"]["start"]["description"]
    assert unexplained(schema) == ["$defs.ClosedGroup.start"]
