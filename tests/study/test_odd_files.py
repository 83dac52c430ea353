"""Whatever stands in a file, the answer is a lock that can be run or mistakes with their lines; never a traceback."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from svload.lab import asks_trust
from svload.model.errors import SvloadError
from svload.study import first_batch, load_study, needs_trust, resolve
from svload.study.check import owners_of

from .conftest import SMALL

BASE = YAML(typ="safe").load(SMALL)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(inner for key, child in children for inner in paths(child, (*path, key)))]


odd = st.sampled_from(
    [
        None, True, 0, -1, 1.5, 10**30, "", "x", "a b", "${x}", "${way.host}", "${users}", "${thing.path}", "$${", "${", "20s", "99 %", "4 KiB",
        "http://x", "GET http://front/", "crowd.ramped", [], {}, [1], [[]], [{}], [None], ["${way}"], {"a": 1}, {"when": {"users": 8}},
        {"kit": "x"}, {"run": "a"}, {"constant": "1s"}, {"uniform": ["1s"]}, {"lognormal": {}}, {"when": 5},
    ]
)  # fmt: skip
keys = st.sampled_from(
    [
        "x",
        "store",
        "way",
        "",
        "0",
        "when",
        "kit",
        "run",
        "value",
        "expect",
        "constant",
        "executor",
        "${users}",
    ]
)


def struck(study: Any, draw: Any) -> None:
    path = draw(st.sampled_from(paths(study)[1:]))
    inner = study
    for step in path[:-1]:
        inner = inner[step]
    action = draw(st.sampled_from(["put", "put", "drop", "rename", "add"]))
    if action == "put":
        inner[path[-1]] = copy.deepcopy(draw(odd))
    elif action == "drop":
        del inner[path[-1]]
    elif action == "rename" and isinstance(inner, dict):
        inner[draw(keys)] = inner.pop(path[-1])
    elif isinstance(inner[path[-1]], dict):
        inner[path[-1]][draw(keys)] = copy.deepcopy(draw(odd))
    elif isinstance(inner[path[-1]], list):
        inner[path[-1]].append(copy.deepcopy(draw(odd)))


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data(), st.integers(1, 3))
def test_a_struck_study(folder: Path, data: st.DataObject, strokes: int) -> None:
    study = copy.deepcopy(BASE)
    for _ in range(strokes):
        struck(study, data.draw)
    text = io.StringIO()
    YAML(typ="safe").dump(study, text)
    (folder / "study.yaml").write_text(text.getvalue(), encoding="utf-8")
    try:
        lock = load_study(folder)
    except SvloadError as why:
        for problem in why.problems:
            assert problem.place.rpartition(":")[2].isdigit()
            assert "\n" not in str(problem)
        return
    assert first_batch(lock).trials
    for case in lock.valid_cases:
        assert resolve(lock, case).groups
    needs_trust(lock, asks_trust)
    owners_of(lock.source)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
def test_any_text(folder: Path, text: str) -> None:
    """No text of 60 signs is a study."""
    (folder / "study.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SvloadError):
        load_study(folder)
