"""Nothing in the river knows a name: the study with every case, level, service, factor, group
and feeder renamed runs the same."""

from __future__ import annotations

import csv
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from .world import World, assert_valid

STUDY = Path(__file__).parents[2] / "studies" / "001-svload"
NAMES = {
    "backend": "zulu", "cache": "alfa", "cache-hit": "oscar-two", "cache-miss": "oscar-three",
    "protocol": "papa", "url": "quebec", "same": "kilo", "different": "juliett", "load": "lima", "without": "bravo",
    "with": "yankee", "server": "romeo", "object": "echo", "objects": "echoes", "fetch": "golf",
    "background": "mike", "probe": "hotel",
}  # fmt: skip
"""Old name → new: sorted otherwise than the old ones, none containing another's meaning."""
FREE = {"host", "take", "cold", "expect", "first", "walk", "path", "id", "request", "size_bytes"}
FREE |= {"http", "https"}
"""Words of the language, and the scheme itself."""
KEEP_UNDER = {"kit", "role", "take", "executor", "client", "connection", "order", "size"}
KEEP_UNDER |= {"question", "because"}
"""Keys whose values are words of the language or prose."""
SECTIONS = {"lab", "data", "factors", "feeders", "requests", "traffic", "when", "profiles"}
SECTIONS |= {"url", "load", "server"}
"""Sections, and factors, whose keys are names of the study's own."""


def rename(value: Any, key: str = "") -> Any:
    """The study's data with every name of `NAMES` replaced, in keys, whole values and inside of expressions."""
    if isinstance(value, dict):
        return {_key(name, key): rename(below, str(name)) for name, below in value.items()}
    if isinstance(value, list):
        return [rename(below, key) for below in value]
    if not isinstance(value, str) or (key in KEEP_UNDER and "${" not in value):
        return value
    return _text(value, key)


def _key(name: str, parent: str) -> str:
    return NAMES.get(name, name) if parent in SECTIONS else name


def _text(text: str, key: str) -> str:
    if text in NAMES:
        return NAMES[text]
    if key in ("get", "that", "metric", "expect", "check", "start_when", "cold", "X-Cold", "take", "host"):
        return re.sub(
            r"(?<![\w-])([a-z][a-z-]*)(?=[.}])",
            lambda found: found[1] if found[1] in FREE else NAMES.get(found[1], found[1]),
            text,
        )
    return text


@pytest.fixture
def renamed(tmp_path: Path) -> Path:
    """The study's folder under new names, cases too."""
    study = YAML(typ="safe").load((STUDY / "study.yaml").read_text())
    # Other profiles have tables and sets of their own.
    study["profiles"] = {"demo": study["profiles"]["demo"]}
    data = rename(study)
    data["name"] = "november"
    rows = list(csv.reader((STUDY / "reference" / "test-cases.csv").open()))
    heading = [NAMES.get(name, name) for name in rows[0]]
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        [heading, *([case_of(row[0]), *(NAMES.get(cell, cell) for cell in row[1:])] for row in rows[1:])]
    )
    folder = tmp_path / "november"
    (folder / "reference").mkdir(parents=True)
    (folder / "reference" / "test-cases.csv").write_text(out.getvalue())
    (folder / "study.yaml").write_text(json.dumps(data))
    return folder


def case_of(name: str) -> str:
    """TC7 → x-93: the order by name is turned round."""
    return f"x-{100 - int(name.removeprefix('TC'))}"


@pytest.mark.truth
def test_every_name_may_be_another(world: World, renamed: Path) -> None:
    text = (renamed / "study.yaml").read_text()
    for name in set(NAMES) - {"cache", "load", "url", "same", "with", "server", "object", "objects"}:
        assert not re.search(rf'"{name}"\s*:', text), f"{name} is still there"
    plain, other = (world.json("plan", study, "--profile", "demo") for study in ("001-svload", str(renamed)))
    assert [case_of(case["name"]) for case in plain["cases"]] == [case["name"] for case in other["cases"]]
    assert [bool(case["excluded"]) for case in plain["cases"]] == [
        bool(case["excluded"]) for case in other["cases"]
    ]
    assert [_renamed_trial(name) for name in plain["order"]] == other["order"], "the order is by position"
    assert plain["estimated_s"] == other["estimated_s"]
    only = ",".join(case_of(name) for name in ("TC0", "TC3", "TC9", "TC14"))
    trials = world.run(renamed, "--profile", "demo", "--only", only, "--replicates", "1")["trials"]
    assert len(trials) == 4
    for trial in trials:
        assert_valid(trial, "accounting", "manipulation", "reconciliation")
        assert trial["metrics"]["hotel.success_rate"]["value"] == 1.0


def _renamed_trial(name: str) -> str:
    case, _, replicate = name.partition(".")
    return f"{case_of(case)}.{replicate}"
