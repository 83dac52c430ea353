"""Reading and merging, YAML restricted to data, and substitution of `${…}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svload.model.errors import SvloadError
from svload.model.study import CaseConfig, Factor, Level, Lock
from svload.model.traffic import FeederPart, Text, VarPart
from svload.study import resolve
from svload.study.references import COLUMNS, MISSING, Resolver, Vocabulary
from svload.study.tree import Node, merge, override, place_of, plain, read_tree

from .conftest import SMALL

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "b", "4 KiB", "${x}"])
keys = st.sampled_from(["a", "b", "c", "lab", "size", "traffic"])
mappings = st.recursive(
    st.dictionaries(keys, scalars, max_size=3),
    lambda inner: st.dictionaries(keys, scalars | inner | st.lists(scalars, max_size=2), max_size=3),
    max_leaves=12,
)


def tree_of(value: Any, place: str = "f:1") -> Node:
    if isinstance(value, dict):
        return Node({key: tree_of(child, place) for key, child in value.items()}, place)
    if isinstance(value, list):
        return Node([tree_of(child, place) for child in value], place)
    return Node(value, place)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    if not isinstance(value, dict) or not value:
        return {path: value}
    return dict(leaf for name, child in value.items() for leaf in leaves(child, (*path, name)).items())


@given(mappings, mappings)
@example({}, {"a": {"b": 1}})
@example({"a": {"b": 1}}, {})
def test_every_leaf_of_a_profile_keeps_its_line_and_all_else_stays(base: Any, over: Any) -> None:
    merged = merge(tree_of(base, "base:1"), tree_of(over, "over:1"))
    data = plain(merged)
    assert data.keys() == base.keys() | over.keys()
    assert all(data[key] == base[key] for key in base.keys() - over.keys())
    for path, leaf in leaves(over).items():
        if leaf == {}:
            continue
        found = data
        for step in path:
            found = found[step]
        assert found == leaf
        assert place_of(merged, path) == "over:1"


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"kit": "a", "x": 1}, {"kit": "a", "y": 2}, {"kit": "a", "x": 1, "y": 2}),
        ({"kit": "a", "x": 1}, {"y": 2}, {"kit": "a", "x": 1, "y": 2}),
        ({"kit": "a", "x": 1}, {"kit": "b"}, {"kit": "b"}),
        ({"kit": "a", "x": 1}, {"run": "./b"}, {"run": "./b"}),
        ({"run": "./a", "ready": "GET /"}, {"run": "./b"}, {"run": "./b", "ready": "GET /"}),
        ({"run": "./a"}, {"at": "http://127.0.0.1"}, {"at": "http://127.0.0.1"}),
        ({"kit": "command", "run": "./a", "x": 1}, {"run": "./b"}, {"kit": "command", "run": "./b", "x": 1}),
    ],
)
def test_a_new_kit_replaces_all(base: dict[str, Any], over: dict[str, Any], merged: dict[str, Any]) -> None:
    study = merge(tree_of({"lab": {"web": base, "other": {"kit": "z"}}}), tree_of({"lab": {"web": over}}))
    assert plain(study) == {"lab": {"web": merged, "other": {"kit": "z"}}}


@pytest.mark.parametrize("path", ["data.o.size", "factors.size.few", "factors.f.size", "requests.body.take"])
def test_a_distribution_is_one_value(path: str) -> None:
    section, name, inner = path.split(".")
    base = {section: {name: {inner: {"a": 1}, "other": {"a": 2}}}}
    merged = plain(merge(tree_of(base), tree_of({section: {name: {inner: {"b": 3}}}})))[section][name]
    assert merged == {inner: {"b": 3} if section == "data" else {"a": 1, "b": 3}, "other": {"a": 2}}


TYPED = [("5s", "5s"), ("7", 7), (7, 7), ("[1]", [1]), ("{a: b}", {"a": "b"}), ("", ""), (None, None)]


@pytest.mark.parametrize(("value", "read"), [*TYPED, ("true", True)])
def test_an_override_is_read_as_yaml(value: Any, read: Any) -> None:
    tree = override(tree_of({"a": {"b": 1, "c": 2}}), "a.b", value)
    assert plain(tree) == {"a": {"b": read, "c": 2}}
    assert place_of(tree, ("a", "b")) == "override a.b"


def test_a_fault_of_an_override_is_reported() -> None:
    with pytest.raises(SvloadError, match="“a” is listed twice") as caught:
        override(tree_of({}), "a.b", "{a: 1, a: 2}")
    assert caught.value.problems[0].place == "override a.b:1"


def test_overrides_come_after_the_profile(load: Callable[..., Lock]) -> None:
    lock = load(profile="tiny", overrides={"measure.replicates": "9", "traffic.crowd.vus": 12})
    assert (lock.measure.duration_ns, lock.measure.replicates) == (500_000_000, 9)
    assert resolve(lock, lock.cases[1]).groups[0].executor.vus == 12


def test_scalars_are_those_of_yaml_1_2() -> None:
    """A number that other parsers read differently remains text, and is refused where a number is
    required."""
    tree, faults = read_tree("[yes, 010, 0x10, 1e3, 2024-01-01, ~, 'true', true, 1_000, -1_0.5, {1: x}]", "f")
    assert faults == []
    read = plain(tree)
    assert read == ["yes", 10, 16, 1000.0, "2024-01-01", None, "true", True, "1_000", "-1_0.5", {"1": "x"}]
    assert read[7] is True


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: !!python/object/apply:os.system [echo]", "is not data"),
        ("a: !x {b: 1}", "is not data"),
        ("a: 1\nb: 2\na: 3", "listed twice"),
        ("a: .inf", "not a usable number"),
        ("a: !!bool yes", "neither true nor false"),
        ("%YAML 1.1\n---\na: yes", "neither true nor false"),
        ("? [a, b]\n: 1", "a key must be a word"),
    ],
)
def test_what_is_no_plain_data_is_reported(text: str, says: str) -> None:
    _, faults = read_tree(text, "f")
    assert len(faults) == 1
    assert says in str(faults[0])
    assert faults[0].place.startswith("f:")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1, 2", "f:"),
        ("a:\n  b: [1, 2, oops\n", "f:2"),
        ("a: {b: ${c}}", "must be quoted"),
        ("--- a\n--- b", "another document"),
        ("a: \x01", "character"),
        ("[" * 1200, "nested"),
        ("x: 1\n" * 300_000, "longer than"),
        ("a: &a [" + ", ".join("x" * 1 for _ in range(10)) + "]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} " f"[{', '.join('*' + chr(97 + n) for _ in range(10))}]\n" for n in range(8)), "at most 10,000 values"),
        ("a: &a [*a]", "study-syntax"),
        ('{"a": 1, "b": 2, "a": 3}', "“a” is listed twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_error(text: str, says: str) -> None:
    with pytest.raises(SvloadError) as result:
        read_tree(text, "f.json" if text.startswith('{"') else "f")
    assert result.value.problems[0].code in ("study-syntax", "study-too-large")
    assert says in str(result.value)


@pytest.mark.filterwarnings("error")
def test_an_anchor_may_stand_twice() -> None:
    tree, faults = read_tree("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", "f")
    assert (plain(tree), faults) == ({"a": 1, "b": 1, "c": 2, "d": 2}, [])


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


around = st.text(alphabet="xy/-", max_size=4)


@given(st.integers() | st.sampled_from(["a", "b c"]), around, around)
def test_inside_a_text_it_is_formatted(value: Any, before: str, after: str) -> None:
    found = resolver(Level(name="n", value=value)).put_in(f"{before}-${{f}}{after}", ("lab",))
    assert found == f"{before}-{value}{after}"


def test_a_factor_alone_is_its_value_or_its_name() -> None:
    few, bare, eight = Level(name="few", fields={"n": 3}), Level(name="bare"), Level(name="8", value=8)
    both = (Level(name="x", value=True), Level(name="x", fields={"value": 3, "n": 4}))
    found = [resolver(one).put_in("${f}", ("lab",)) for one in (few, bare, eight, *both)]
    assert found == ["few", "bare", 8, True, 3]


def test_a_missing_field_leaves_its_key_out_and_any_text_is_a_mistake() -> None:
    inside = resolver(Level(name="x", fields={"a": 1}))
    assert inside.put_in({"k": "${f.b}", "l": "${f.a}"}, ("lab",)) == {"l": 1}
    assert inside.put_in("${f.b}", ("lab",)) is MISSING
    headers = {"headers": {"One": "v-${f.b}", "Two": "v-${f.a}"}}
    assert inside.put_in(headers, ("requests", "r")) == {"headers": {"Two": "v-1"}}
    assert inside.mistakes == []
    inside.put_in({"k": "-${f.b}"}, ("lab",))
    inside.put_in({"k": ["${f.b}"]}, ("lab",))
    assert [mistake.path for mistake in inside.mistakes] == [("lab", "k"), ("lab", "k", 0)]


def test_fields_may_refer_to_other_factors_but_not_in_a_circle() -> None:
    nested = {"tuning": {"threads": 5, "deep": {"k": "${f.c}"}}}
    inside = resolver(
        Level(name="x", fields={"a": "${g0.b}/x", "c": 5, **nested}), Level(name="y", fields={"b": "${f.c}"})
    )
    assert inside.put_in("${f.a}", ("lab",)) == "5/x"
    found = inside.put_in({"t": "${f.tuning}", "n": "${f.tuning.threads}"}, ("lab",))
    assert found == {"t": {"threads": 5, "deep": {"k": 5}}, "n": 5}
    circle = resolver(Level(name="x", fields={"a": "${g0.b}"}), Level(name="y", fields={"b": "${f.a}"}))
    circle.put_in("${f.a}", ("lab",))
    assert [mistake.code for mistake in circle.mistakes] == ["study-bad-reference"]


def test_request_time_references_stay_parts_of_templates(case: Callable[..., CaseConfig]) -> None:
    """`${port}` stays for the kit, and other dollars are let through."""
    run = '{run: "./server-${scheme} --port ${port} $${HOME} $PATH", ready: GET /}'
    text = SMALL.replace("${thing.path}", "${thing.path}?vu=${vu}&n=${iteration}&$${users}=${users}", 1)
    config = case(text.replace("{kit: stone, workers: 4}", run), 2)
    request = config.groups[-1].request
    path, vu, n = FeederPart(feeder="thing", column="path"), VarPart(var="vu"), VarPart(var="iteration")
    assert request.path == (path, Text(text="?vu="), vu, Text(text="&n="), n, Text(text="&${users}=1"))
    mark = (Text(text="m-"), VarPart(var="request.id"))
    assert dict(request.headers) == {"X-Mark": mark, "X-Users": (Text(text="1"),)}
    (store, _) = config.services
    assert store.kit == "command"
    assert store.options == {"run": "./server-http --port ${port} ${HOME} $PATH", "ready": "GET /"}


def test_escaped_references_are_literal_in_rows_and_reasons(load: Callable[..., Lock]) -> None:
    text = SMALL.replace("feeders:", "feeders:\n  row: {values: ['$${x}']}").replace("too much", "'no $${a}'")
    lock = load(text)
    assert lock.cases[3].excluded == "no ${a}"
    assert resolve(lock, lock.cases[0]).tables[0].values == ("${x}",)
