"""Every profile in studies/ can be planned, and its comparisons can be decided, demos aside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from svload import api
from svload.study import loading
from svload.study.draft import Checks, Draft
from svload.study.tree import Node

pytestmark = pytest.mark.slow

STUDIES = Path(__file__).parents[2] / "studies"
SEARCHED = "004-swift-locust/breakpoint.yaml"
"""`svload capacity` finds its users, so it is not planned."""

CONFOUNDED = "002-factorial-redis/confounded.yaml"
FEW_BLOCKS = {
    ("001-svload/study.yaml", "machines"),
    ("002-factorial-redis/storage.yaml", "short"),
    ("004-swift-locust/script.yaml", "unlimited"),
}
"""Profiles that only describe, with too few blocks to decide comparisons; the same holds for every demo."""


def profiles() -> Iterator[tuple[str, str | None]]:
    for file in sorted(STUDIES.glob("*/*.yaml")):
        text, name = yaml.safe_load(file.read_text(encoding="utf-8")), str(file.relative_to(STUDIES))
        if "traffic" in text and name != SEARCHED:
            yield from ((name, profile) for profile in (None, *text.get("profiles", ())))


class ChosenAlone(Checks):
    """Checks the chosen profile, not those beside it."""

    def run(self, tree: Node, whole: bool, chosen: bool) -> Draft:
        return super().run(tree, whole, chosen) if chosen else Draft({}, (), (), [])


@pytest.mark.parametrize(("file", "profile"), list(profiles()))
def test_a_profile_can_be_planned(file: str, profile: str | None, tmp_path: Path, monkeypatch: Any) -> None:
    if profile is not None:  # the plan without a profile has checked all of them
        monkeypatch.setattr(loading, "Checks", ChosenAlone)
    found = api.plan(str(STUDIES / file), api.Choices(profile=profile, out=tmp_path))
    assert found["trials"] > 0
    assert found["estimated_s"] > found["estimated_load_s"] > 0
    if profile != "demo" and (file, profile) not in FEW_BLOCKS:
        state = "confounded" if file == CONFOUNDED else "decidable"
        assert {one["state"] for one in found["comparisons"]} <= {state}, found["comparisons"]


def test_a_search_is_over_users() -> None:
    lock = api.load_lock(str(STUDIES / SEARCHED), api.Choices())
    assert [(factor.name, bool(factor.open)) for factor in lock.factors] == [("users", True)]
