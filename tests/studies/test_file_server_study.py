"""studies/005-file-server: each study can be planned, asks for files that it makes, and expects their lengths."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.studies.scripts import script

from svload.lab import find_mistakes, kit_options
from svload.model.executors import ConstantVus
from svload.model.traffic import FeederPart, Template
from svload.study import load_study, resolve

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "studies/005-file-server"
PROFILES = [
    *(("study.yaml", profile) for profile in (None, "short", "demo", "counted", "tuned")),
    *(("new.yaml", profile) for profile in (None, "short", "demo")),
    *(("different.yaml", profile) for profile in (None, "short", "demo", "as-printed")),
    *(("mended.yaml", profile) for profile in (None, "short", "demo")),
    *(("limits.yaml", profile) for profile in (None, "demo")),
]


def make_files() -> ModuleType:
    return script(STUDY / "target/make_files.py")


def written(template: Template, row: int) -> str:
    """A turn's text; a feeder's column is its row, every other part its name."""
    parts = [
        str(row) if isinstance(part, FeederPart) else getattr(part, "text", getattr(part, "var", ""))
        for part in template
    ]
    return "".join(parts)


@pytest.mark.parametrize(("file", "profile"), PROFILES)
def test_what_is_asked_for_is_there_and_as_long_as_expected(file: str, profile: str | None) -> None:
    lock = load_study(STUDY / file, profile=profile, kits=kit_options(), check_lab=find_mistakes)
    for case in lock.valid_cases:
        config = resolve(lock, case)
        [server] = [service for service in config.services if service.name == "server"]
        asked = server.options["build"].get("args", "").partition("FILES=")[2].split()
        made = server.options.get("files", {})
        assert made or file == "new.yaml", "who makes accounts reads no file"
        there = make_files().wanted(asked) if made == "${build}/files" else made
        [group] = config.groups
        turns = group.request.dialogue
        assert turns[-1].until_close
        if file == "new.yaml":
            continue
        rows = [row for table in config.tables if table.numbers for row in table.numbers] or [0]
        for row in rows:
            name = written(turns[2].send or (), row).strip()
            assert turns[3].expect == f"file {there[name]}\n"


def test_files_are_as_long_as_it_says(tmp_path: Path) -> None:
    make_files().main(tmp_path / "files", ["a=10", "b=3000000*2"])
    made = {path.name: path.read_bytes() for path in (tmp_path / "files").iterdir()}
    assert {name: len(text) for name, text in made.items()} == {"a": 10, "b-0": 3_000_000, "b-1": 3_000_000}
    assert made["b-0"] != made["b-1"]


def first_row(take: str, offset: int | None, rows: int, user: int, users: int) -> int:
    """The row that a user's first iteration takes (engine/engine/src/feeder.rs)."""
    assert take == "walk"
    return rows * user // users if offset is None else offset * user % rows


@pytest.mark.parametrize("profile", [None, "short", "demo"])
def test_users_who_walk_begin_at_different_files(profile: str | None) -> None:
    lock = load_study(STUDY / "different.yaml", profile=profile, kits=kit_options(), check_lab=find_mistakes)
    walked = 0
    for case in lock.valid_cases:
        config = resolve(lock, case)
        [feeder], [table], [group] = config.feeders, config.tables, config.groups
        assert isinstance(group.executor, ConstantVus)
        rows, users = table.numbers[1] + 1, group.executor.vus
        assert users <= rows, case.levels
        if feeder.take == "walk":
            begins = {first_row(feeder.take, feeder.offset, rows, user, users) for user in range(users)}
            assert len(begins) == users, case.levels
            walked += 1
    assert walked


def test_of_1_kb_the_most_users_begin_as_far_apart_as_the_papers() -> None:
    begins = [first_row("walk", None, 128_000, user, 64) for user in range(64)]
    assert begins == [2000 * user for user in range(64)]


def test_what_the_paper_set_is_planned_and_mends_come_one_by_one() -> None:
    lock = load_study(STUDY / "study.yaml", profile="tuned", kits=kit_options(), check_lab=find_mistakes)
    [tuned] = [
        resolve(lock, case)
        for case in lock.valid_cases
        if case.levels["tuning"] == "paper" and case.levels["users"] == "64" and case.levels["size"] == "1KB"
    ]
    servers = {service.name: service.options for service in tuned.services}
    for name in ("auth", "server"):
        assert (servers[name]["nofile"], servers[name]["nofile_hard"]) == (9000, 64000)
        assert "--backlog 30000" in servers[name]["run"]
    mends = load_study(STUDY / "mended.yaml", kits=kit_options(), check_lab=find_mistakes)
    [levels] = [factor.levels for factor in mends.factors if factor.name == "mend"]
    fields = {level.name: level.fields for level in levels}
    paper = fields.pop("paper")
    assert set(paper.values()) == {0}
    assert any(own == {**paper, "workers": 4} for own in fields.values())
    assert any(own == {**paper, "workers": 4, "keep_db": 1} for own in fields.values())
