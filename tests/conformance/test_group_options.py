"""Every option of a traffic group is passed from the study file, or its flag, to the engine, and is in the
reference."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import TypeAdapter, ValidationError
from tests.options import BESIDE, written
from tests.results import case_of

from svload import _native
from svload.cli.app import app
from svload.drive.share.cut import build_shares
from svload.drive.share.timeline import timeline
from svload.drive.share.write import text_of
from svload.model.facts import Endpoint
from svload.model.options import Described, flagged, group_options
from svload.model.traffic import Group, Request, Text
from svload.study import schema_traffic
from svload.study.quick_load import QuickLoad, quick_study
from svload.study.traffic import read_group

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
REQUEST = Request(name="get", scheme="http", host="web", path=(Text(text="/"),))
ENDPOINTS = {"http://web": Endpoint(scheme="http", address="127.0.0.1", port=1)}
WRITTEN = {"executor": "constant-vus", "vus": 4, "request": "get"}
BOUNDED = [one for one in group_options() if one.option.most is not None]


def group_of(**written: Any) -> Group:
    part = TypeAdapter(schema_traffic.AnyOneGroup).validate_python(WRITTEN | written)
    return read_group("load", part, REQUEST, (), ("load",))


def shares_of(group: Group) -> list[str]:
    case = case_of(group)
    return [text_of(share.spec) for share in build_shares(case, 7, timeline(case, 10**9), ENDPOINTS, [])]


@pytest.mark.parametrize("one", group_options(), ids=lambda one: one.key)
def test_it_goes_from_the_study_to_the_engine(one: Described) -> None:
    beside = BESIDE.get(one.key, {})
    plain, group = group_of(**beside), group_of(**beside, **{one.key: written(one)[1]})
    assert getattr(plain, one.name) == one.default != getattr(group, one.name)
    assert shares_of(group) != shares_of(plain)
    assert {_native.share_fault(share, {}) for share in shares_of(group)} == {None}


def test_it_stands_in_the_reference() -> None:
    from reference import study

    page = study.make()
    for one in group_options():
        assert f"| `{one.key}` |" in page and one.option.doc in page, one.key


@pytest.mark.parametrize("one", BOUNDED, ids=lambda one: one.key)
def test_beyond_its_bound_it_is_refused_and_the_reason_told(one: Described) -> None:
    bound = one.option.most
    most, more = bound.most, bound.most + 1
    fits, exceeds = (f"{value / 1e9:.9f}s" if one.is_time else value for value in (most, more))
    assert getattr(group_of(**{one.key: fits}), one.name) == most
    with pytest.raises(ValidationError, match="can be planned") as caught:
        group_of(**{one.key: exceeds})
    assert bound.because in str(caught.value)
    with pytest.raises(ValidationError):
        Group(**{one.name: more}, name="load", executor=group_of().executor, request=REQUEST)


@pytest.mark.parametrize("one", flagged(), ids=lambda one: one.key)
def test_its_flag_writes_it_into_the_study(one: Described) -> None:
    command = typer.main.get_command(app).commands["load"]
    [flag] = [option for option in command.params if f"--{one.key.replace('_', '-')}" in option.opts]
    assert flag.help == one.option.flag
    value = written(one)[1]
    value = value.replace(" ", "") if one.is_time else value
    study = quick_study(QuickLoad("http://127.0.0.1:9", rate_rps=9.0, options={one.key: value}))
    assert json.loads(study)["traffic"]["load"][one.key] == value


def test_an_option_without_words_says_nothing_of_a_load() -> None:
    found = {one.key: one.words(getattr(group_of(), one.name)) for one in group_options()}
    assert set(found.values()) == {""}
    [quantum] = [one for one in group_options() if one.key == "pacing_quantum"]
    assert quantum.words(2_000_000) == "starts only every 2 ms"
