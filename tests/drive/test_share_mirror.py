"""The share's dataclasses have the same fields and words as the structs in the engine's source."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from svload.drive.share import executor_spec, request_spec, spec

SOURCE = Path(__file__).resolve().parents[2] / "engine" / "engine" / "src"
STRUCTS: dict[str, type] = {
    "Share": spec.ShareSpec,
    "EndpointSpec": spec.EndpointSpec,
    "TlsSpec": spec.TlsSpec,
    "GroupSpec": spec.GroupSpec,
    "Http2Spec": spec.Http2Spec,
    "FeederSpec": spec.FeederSpec,
    "SetSpec": spec.SetSpec,
    "ScenarioSpec": spec.ScenarioSpec,
    "StepSpec": spec.StepSpec,
    "RequestSpec": request_spec.RequestSpec,
    "Stage": executor_spec.Stage,
    "LoopOptions": executor_spec.LoopOptions,
    "Places": executor_spec.Places,
}
EXECUTORS: tuple[type, ...] = get_args(executor_spec.ClosedSpec) + get_args(executor_spec.OpenSpec)
VALUED: dict[str, tuple[type, str]] = {
    "BodySpec": (request_spec.BodySpec, ""),
    "TurnSpec": (request_spec.TurnSpec, "until_close"),
    "TextTest": (request_spec.TextTest, "present"),
    "SizeLaw": (request_spec.SizeLaw, ""),
    "ThinkTime": (executor_spec.ThinkTime, ""),
}
"""Enums whose variants carry a value, and the one that carries none."""
UNTAGGED: dict[str, Any] = {
    "Part": request_spec.Part,
    "CheckSpec": request_spec.CheckSpec,
    "TakeSpec": request_spec.TakeSpec,
}
WORDS: dict[str, tuple[type, str]] = {
    "Client": (spec.GroupSpec, "client"),
    "Connection": (spec.GroupSpec, "connection"),
    "Record": (spec.GroupSpec, "record"),
    "TlsVersion": (spec.TlsSpec, "min"),
    "Take": (spec.FeederSpec, "take"),
    "WhenExhausted": (spec.FeederSpec, "when_exhausted"),
    "OnFull": (executor_spec.Places, "on_full"),
    "Arrivals": (executor_spec.Places, "arrivals"),
    "Var": (request_spec.VarPart, "var"),
    "Algorithm": (request_spec.DigestCheck, "digest"),
}


def definition(kind: str, name: str, within: str = "**/*.rs") -> tuple[str, str]:
    """Return the attributes and the body of a struct or an enum that is read from a share."""
    pattern = re.compile(rf"((?:#\[[^\n]*\]\n)+)pub {kind} {name}(?:<\w+>)? \{{\n(.*?)\n\}}", re.DOTALL)
    texts = [path.read_text("utf-8") for path in sorted(SOURCE.glob(within))]
    found = [match.groups() for text in texts for match in pattern.finditer(text)]
    [one] = [(attributes, body) for attributes, body in found if "Deserialize" in attributes]
    return one


def struct_fields(name: str, within: str = "**/*.rs") -> dict[str, str]:
    """Return field → its Rust type, including fields that are flattened into it."""
    _, body = definition("struct", name, within)
    found: dict[str, str] = {}
    pattern = r"((?:    #\[[^\n]*\]\n)*)    pub (\w+): ([^\n]+),"
    for attributes, field, kind in re.findall(pattern, body + "\n"):
        if "serde(flatten)" in attributes:
            found |= struct_fields(kind)
        elif "serde(skip)" not in attributes:
            found[field] = kind
    return found


def variants(name: str) -> dict[str, str]:
    """Return variant, as a share writes it → its content."""
    attributes, body = definition("enum", name)
    rename = re.search(r'rename_all = "([\w-]+)"', attributes)
    body = re.sub(r"^ *//[^\n]*\n", "", body + "\n", flags=re.MULTILINE)
    found = {}
    renamed = r"(?:    #\[serde\(rename = \"([^\"]+)\"\)\]\n)?"
    pattern = renamed + r"(?:    #\[default\]\n)?" + renamed + r"    (\w+)( ?[({].*?[)}])?,\n"
    for first, second, variant, carried in re.findall(pattern, body, re.DOTALL):
        found[first or second or cased(variant, rename[1] if rename else "")] = carried
    return found


def cased(variant: str, how: str) -> str:
    words = [word.lower() for word in re.findall(r"[A-Z][a-z0-9]*", variant)]
    return {"snake_case": "_", "kebab-case": "-", "lowercase": ""}.get(how, "_").join(words)


def own_fields(mirror: type) -> set[str]:
    return {one.name for one in fields(mirror)}


def alike(mirror: type, theirs: dict[str, str]) -> None:
    hints = get_type_hints(mirror)
    assert own_fields(mirror) - {"kind"} == set(theirs)
    for name, kind in theirs.items():
        if NoneType in get_args(hints[name]):
            assert kind.startswith("Option<"), f"{name} may be left out here, and not there"


@pytest.mark.parametrize("name", STRUCTS)
def test_a_struct_has_its_dataclass(name: str) -> None:
    alike(STRUCTS[name], struct_fields(name))


def test_every_executor_has_its_dataclass() -> None:
    assert set(variants("ExecutorSpec")) == {mirror.kind for mirror in EXECUTORS}
    for mirror in EXECUTORS:
        alike(mirror, struct_fields("Options", f"executor/{mirror.kind.replace('-', '_')}.rs"))


@pytest.mark.parametrize("name", VALUED)
def test_what_carries_a_value_is_one_of_as_many(name: str) -> None:
    mirror, alone = VALUED[name]
    theirs = variants(name)
    assert own_fields(mirror) == {variant for variant, carried in theirs.items() if carried}
    assert {variant for variant, carried in theirs.items() if not carried} == ({alone} if alone else set())


@pytest.mark.parametrize("name", UNTAGGED)
def test_a_type_recognised_by_its_fields_has_them(name: str) -> None:
    theirs = {frozenset(re.findall(r"(\w+):", carried)) for carried in variants(name).values()}
    assert {frozenset(own_fields(mirror)) for mirror in get_args(UNTAGGED[name])} == theirs


@pytest.mark.parametrize("name", WORDS)
def test_words_are_the_same(name: str) -> None:
    mirror, field = WORDS[name]
    kind = get_type_hints(mirror)[field]
    assert get_origin(kind) is Literal
    assert set(get_args(kind)) == set(variants(name))


def test_a_field_that_only_one_side_has_is_found() -> None:
    theirs = struct_fields("Http2Spec")
    for changed in ({**theirs, "window": "u64"}, {"streams": "u64"}):
        with pytest.raises(AssertionError):
            alike(spec.Http2Spec, changed)
    with pytest.raises(AssertionError, match="and not there"):
        alike(spec.EndpointSpec, struct_fields("EndpointSpec") | {"tls": "TlsSpec"})
