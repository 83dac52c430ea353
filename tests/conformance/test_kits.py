"""Every kit that is found fulfils the contract of `svload.lab.kit.Kit`."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest

from svload.lab import all_kits, check_specs
from svload.lab import kits as folder
from svload.lab.kit import Change, Kit, KitOptions
from svload.model.study import ServiceSpec

KITS = all_kits()
MINIMAL: dict[str, dict[str, Any]] = {
    "command": {"run": "true"},
    "external": {"at": "http://127.0.0.1:1"},
    "hitch": {"of": "backend"},
    "truth": {"role": "store"},
    "varnish": {"of": "backend"},
}
"""The required options of kits; the others have none."""


def in_tree() -> set[str]:
    return {path.stem for path in Path(folder.__file__).parent.glob("*.py") if path.stem != "__init__"}


def test_a_file_in_the_folder_is_a_kit_of_that_name() -> None:
    assert in_tree() <= set(KITS)


@pytest.fixture(params=sorted(KITS))
def kit(request: pytest.FixtureRequest) -> type[Kit]:
    return KITS[request.param]


def options_of(kit: type[Kit]) -> KitOptions:
    return kit.Options.model_validate(MINIMAL.get(kit.name, {}))


def test_it_says_what_it_is(kit: type[Kit]) -> None:
    assert kit.name.isascii()
    assert kit.name == kit.name.lower()
    assert 10 < len(kit.summary) < 90
    assert kit.__doc__
    assert kit.__doc__ != Kit.__doc__


def test_every_option_says_what_it_means_and_what_a_change_costs(kit: type[Kit]) -> None:
    assert issubclass(kit.Options, KitOptions)
    assert set(KitOptions.model_fields) <= set(kit.Options.model_fields), "options of every service"
    for name, field in kit.Options.model_fields.items():
        assert field.description, name
        assert not field.description.endswith("."), name
        extra = field.json_schema_extra
        assert isinstance(extra, dict), name
        assert extra["change"] in get_args(Change), name


def test_its_options_have_a_schema_for_editors(kit: type[Kit]) -> None:
    schema = json.loads(json.dumps(kit.Options.model_json_schema()))
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(kit.Options.model_fields)


def test_a_live_option_means_that_the_kit_can_adjust(kit: type[Kit]) -> None:
    own = kit.Options.model_fields.keys() - KitOptions.model_fields.keys()
    if any(kit.Options.model_fields[name].json_schema_extra["change"] == "live" for name in own):
        assert kit.adjust is not Kit.adjust


@pytest.mark.parametrize("bare", [False, True], ids=["this machine", "no programs"])
def test_check_starts_nothing_and_says_what_is_missing(
    kit: type[Kit], bare: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Any:
        raise AssertionError("check must not start a process or open a connection")

    monkeypatch.setattr(subprocess, "Popen", never)
    monkeypatch.setattr(socket.socket, "connect", never)
    if bare:
        monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    problems = kit.check(options_of(kit), tmp_path / "cache")
    for problem in problems:
        assert problem.code == "tool-missing"
        assert problem.details["hint"] and str(problem), "a remedy"
    assert problems == kit.check(options_of(kit), tmp_path / "cache")


def test_it_says_what_it_takes_beside_load(kit: type[Kit]) -> None:
    costs = kit.costs
    assert min(costs.up_s, costs.reset_s, costs.settle_s) >= 0
    assert max(costs.up_s, costs.reset_s, costs.settle_s) < 60
    assert min(costs.fill_per_s, costs.refill_per_s or 1, costs.answers_per_s) > 0


def test_needs_are_read_from_raw_options(kit: type[Kit]) -> None:
    assert kit.needs({}) == ()
    if "of" in kit.Options.model_fields:
        assert kit.needs({"of": "backend"}) == ("backend",)


def test_unknown_options_are_refused(kit: type[Kit]) -> None:
    options = {**MINIMAL.get(kit.name, {}), "no_such_option": 1}
    _, mistakes = check_specs([ServiceSpec(name="it", kit=kit.name, options=options)])
    assert [mistake.code for mistake in mistakes] == ["study-unknown-key"]
