"""Labels of other tools keep their letters, in whatever alphabet; services of a study do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from svload import api
from svload.model.errors import SvloadError
from svload.store.foreign.tabulate import plain_names

KEPT = {
    "首页": "首页", "Корзина": "Корзина", "größe": "größe", "Σύνολο 1": "Σύνολο-1", "עגלה/קנה": "עגלה-קנה", "a, b": "a-b", "home": "home",
    "2 купить": "n0-2-купить", "🛒": "n0", "日" * 99: "日" * 60,
}  # fmt: skip


@pytest.mark.parametrize("label", KEPT)
def test_letters_stay(label: str) -> None:
    assert plain_names([label], ()) == (KEPT[label],)


def test_labels_that_become_one_name_stay_apart() -> None:
    assert plain_names(["Корзина!", "корзина?", "Корзина"], ()) == ("Корзина", "корзина-2", "Корзина-3")


def study(folder: Path, request: str, group: str, service: str = "it") -> str:
    said = {
        "name": "x",
        "lab": {service: {"kit": "truth", "role": "store"}},
        "requests": {request: {"get": f"http://{service}/"}},
        "traffic": {group: {"executor": "constant-vus", "vus": 1, "request": request}},
        "measure": {"duration": "1s"},
        "thresholds": [f"{group}.response.p95 < 1 s"],
    }
    (folder / "study.yaml").write_text(json.dumps(said, ensure_ascii=False), encoding="utf-8")
    return str(folder / "study.yaml")


@pytest.mark.parametrize(
    ("request_", "group"), [("首页", "Читатели"), ("größe", "Αγοραστές"), ("home", "users")]
)
def test_a_study_names_requests_and_groups_so(request_: str, group: str, tmp_path: Path) -> None:
    lock = api.load_lock(study(tmp_path, request_, group), api.Choices())
    assert [one.name for one in api.studies.case_configs(lock)[lock.cases[0].name].groups] == [group]


@pytest.mark.parametrize(
    ("request_", "group", "service"),
    [("1首", "a", "it"), ("首 页", "a", "it"), ("首页", "чит.атели", "it"), ("首页", "a", "сервер")],
)
def test_other_names_are_refused(request_: str, group: str, service: str, tmp_path: Path) -> None:
    with pytest.raises(SvloadError, match="a name was expected"):
        api.load_lock(study(tmp_path, request_, group, service), api.Choices())
