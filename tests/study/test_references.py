"""`${…}`: what stands in its place keeps its type where it is the whole value, and is formatted where it is a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svload.model.errors import SvloadError
from svload.model.study import CaseConfig, Factor, Level, Lock
from svload.model.traffic import FeederPart, Text, VarPart
from svload.study import load_study, resolve
from svload.study.references import COLUMNS, MISSING, Resolver, Vocabulary

from .conftest import SMALL

plain_values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet="ab {}:/$", max_size=8).filter(lambda text: "${" not in text),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def resolver(level: Level, *others: Level) -> Resolver:
    levels = {"f": level, **{f"g{number}": other for number, other in enumerate(others)}}
    factors = {name: Factor(name=name, levels=(one,)) for name, one in levels.items()}
    return Resolver(levels, Vocabulary(factors, {"rows": COLUMNS}))


@given(plain_values)
def test_a_whole_reference_keeps_value_and_type(value: Any) -> None:
    inside = resolver(Level(name="x", fields={"field": value}))
    found = inside.put_in({"key": "${f.field}"}, ("lab", "s"))
    assert found == {"key": value}
    assert type(found["key"]) is type(value)
    assert inside.mistakes == []


@given(plain_values)
def test_without_references_nothing_changes(value: Any) -> None:
    inside = resolver(Level(name="x"))
    assert inside.put_in(value, ("lab", "s")) == value
    assert inside.mistakes == []


@given(
    st.integers() | st.sampled_from(["a", "b c"]),
    st.text(alphabet="xy/-", max_size=4),
    st.text(alphabet="xy/-", max_size=4),
)
def test_inside_a_text_it_is_formatted(value: Any, before: str, after: str) -> None:
    found = resolver(Level(name="n", value=value)).put_in(f"{before}-${{f}}{after}", ("lab",))
    assert found == f"{before}-{value}{after}"


@pytest.mark.parametrize(
    ("level", "stands_for"),
    [
        (Level(name="8", value=8), 8),
        (Level(name="true", value=True), True),
        (Level(name="few", fields={"n": 3}), "few"),
        (Level(name="few", fields={"value": 3, "n": 4}), 3),
        (Level(name="bare"), "bare"),
    ],
)
def test_a_factor_alone_is_its_value_or_its_name(level: Level, stands_for: Any) -> None:
    assert resolver(level).put_in("${f}", ("lab",)) == stands_for


def test_a_missing_field_leaves_its_key_out_and_any_text_is_a_mistake() -> None:
    inside = resolver(Level(name="x", fields={"a": 1}))
    assert inside.put_in({"k": "${f.b}", "l": "${f.a}"}, ("lab",)) == {"l": 1}
    assert inside.put_in("${f.b}", ("lab",)) is MISSING
    assert inside.mistakes == []
    inside.put_in({"k": "-${f.b}"}, ("lab",))
    inside.put_in({"k": ["${f.b}"]}, ("lab",))
    assert [mistake.path for mistake in inside.mistakes] == [("lab", "k"), ("lab", "k", 0)]


def test_a_header_with_a_missing_field_is_left_out_whole() -> None:
    inside = resolver(Level(name="x", fields={"a": 1}))
    headers = {"headers": {"One": "v-${f.b}", "Two": "v-${f.a}"}}
    assert inside.put_in(headers, ("requests", "r")) == {"headers": {"Two": "v-1"}}
    assert inside.mistakes == []


def test_fields_may_refer_to_other_factors_but_not_in_a_circle() -> None:
    inside = resolver(Level(name="x", fields={"a": "${g0.b}/x"}), Level(name="y", fields={"b": "${f.c}"}))
    inside.levels = {**inside.levels, "f": Level(name="x", fields={"a": "${g0.b}/x", "c": 5})}
    assert inside.put_in("${f.a}", ("lab",)) == "5/x"
    circle = resolver(Level(name="x", fields={"a": "${g0.b}"}), Level(name="y", fields={"b": "${f.a}"}))
    circle.put_in("${f.a}", ("lab",))
    assert [mistake.code for mistake in circle.mistakes] == ["study-bad-reference"]


def test_nested_fields_and_mappings() -> None:
    inside = resolver(Level(name="x", fields={"tuning": {"threads": 5, "deep": {"k": "${f.n}"}}, "n": 2}))
    assert inside.put_in({"t": "${f.tuning}", "n": "${f.tuning.threads}"}, ("lab",)) == {
        "t": {"threads": 5, "deep": {"k": 2}},
        "n": 5,
    }


def of_case(lock: Lock, number: int = 1) -> CaseConfig:
    return resolve(lock, lock.cases[number])


def test_request_time_references_stay_parts_of_templates(load: Callable[..., Lock]) -> None:
    text = SMALL.replace("${thing.path}", "${thing.path}?vu=${vu}&n=${iteration}&$${users}=${users}", 1)
    request = of_case(load(text), 2).groups[-1].request
    assert request.path == (
        FeederPart(feeder="thing", column="path"),
        Text(text="?vu="),
        VarPart(var="vu"),
        Text(text="&n="),
        VarPart(var="iteration"),
        Text(text="&${users}=1"),
    )
    assert dict(request.headers) == {
        "X-Mark": (Text(text="m-"), VarPart(var="request.id")),
        "X-Users": (Text(text="1"),),
    }


def test_a_level_without_the_field_sends_no_header(load: Callable[..., Lock]) -> None:
    assert dict(of_case(load(), 0).groups[-1].request.headers) == {"X-Users": (Text(text="1"),)}


def test_port_stays_for_the_kit_and_other_dollars_are_let_through(load: Callable[..., Lock]) -> None:
    text = SMALL.replace(
        "{kit: stone, workers: 4}", '{run: "./server-${scheme} --port ${port} $${HOME} $PATH", ready: GET /}'
    )
    (store, _) = of_case(load(text)).services
    assert store.kit == "command"
    assert store.options == {"run": "./server-http --port ${port} ${HOME} $PATH", "ready": "GET /"}


def test_references_stand_anywhere(load: Callable[..., Lock]) -> None:
    text = (
        SMALL.replace("workers: 4", 'workers: "${users}"')
        .replace("count: 100", 'count: "${users}"')
        .replace("timeout: 5s", "timeout: ${users}s")
        .replace("guest.success_rate >= 99 %", "guest.success_rate >= ${users} %")
        .replace('expect: "front.requests == 0"', 'expect: "front.requests < ${users}"')
        .replace("warm: thing, through: front", 'warm: thing, through: "${way.host}"')
    )
    config = of_case(load(text), 1)
    assert config.services[0].options == {"workers": 8}
    assert config.objects[0].count == 8
    assert config.groups[0].request.timeout_ns == 8_000_000_000
    assert config.thresholds == ("guest.success_rate >= 8 %",)
    assert config.expects == ("front.requests < 8",)
    assert of_case(load(text), 2).before_trial[1].through == "front"


def test_an_executor_may_be_a_level(load: Callable[..., Lock]) -> None:
    text = SMALL.replace(
        "users: [1, 8]", "users: [1, 8]\n  model:\n    closed: {kind: constant-vus, vus: 8}\n    open: {kind: constant-arrival-rate, rate: 50/s}"
    ).replace(
        "executor: constant-vus, vus: 40, generators: 2, ramp_up: 1s,", 'executor: "${model.kind}", vus: "${model.vus}", rate: "${model.rate}",'
    )  # fmt: skip
    lock = load(text.replace("    traffic: {crowd: {vus: 4}}\n", ""))
    crowds = [
        resolve(lock, case).groups[0].executor for case in lock.valid_cases if case.levels["users"] == "8"
    ]
    assert {executor.kind for executor in crowds} == {"constant-vus", "constant-arrival-rate"}


def test_a_study_without_factors_is_one_case(tmp_path: Any) -> None:
    (tmp_path / "study.yaml").write_text(
        "name: one\nlab: {web: {at: 'http://127.0.0.1:1'}}\ntraffic: {g: {executor: constant-vus, vus: 1, "
        "request: GET http://web}}\nmeasure: {duration: 1s}\n"
    )
    lock = load_study(tmp_path)
    assert [(case.name, case.levels) for case in lock.cases] == [("one", {})]
    request = of_case(lock, 0).groups[0].request
    assert (request.method, request.endpoint, request.path) == ("GET", "http://web", (Text(text="/"),))


def test_unknown_text_is_not_guessed(load: Callable[..., Lock]) -> None:
    with pytest.raises(SvloadError, match="cannot be resolved"):
        load(SMALL.replace("workers: 4", 'workers: "${zzz}"'))


def test_a_named_request_may_be_its_method_and_url_alone(tmp_path: Any) -> None:
    (tmp_path / "study.yaml").write_text(
        "name: one\nlab: {web: {at: 'http://127.0.0.1:1'}}\nrequests: {read: 'HEAD http://web/a'}\n"
        "traffic: {g: {executor: constant-vus, vus: 1, request: read}}\nmeasure: {duration: 1s}\n"
    )
    request = of_case(load_study(tmp_path), 0).groups[0].request
    assert (request.name, request.method, request.path) == ("read", "HEAD", (Text(text="/a"),))


def test_a_named_request_of_an_unknown_method_is_told_where_it_stands(tmp_path: Any) -> None:
    (tmp_path / "study.yaml").write_text(
        "name: one\nlab: {web: {at: 'http://127.0.0.1:1'}}\nrequests:\n  read: FETCH http://web/a\n"
        "traffic: {g: {executor: constant-vus, vus: 1, request: read}}\nmeasure: {duration: 1s}\n"
    )
    with pytest.raises(SvloadError, match=r"study\.yaml:4: .*expected one of GET"):
        load_study(tmp_path)
