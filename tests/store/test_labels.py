"""Labels of other tools keep their letters, in any alphabet; services of a study do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from svload import api
from svload.model.errors import SvloadError
from svload.store.foreign.tabulate import plain_names

KEPT = {
    "首页": "首页", "Корзина": "Корзина", "größe": "größe", "Σύνολο 1": "Σύνολο-1", "עגלה/קנה": "עגלה-קנה", "a, b": "a-b", "home": "home",
    "हिन्दी पेज": "हिन्दी-पेज", "e\u0301tape 1": "étape-1", "q\u0303-x": "q\u0303-x", "สินค้า": "สินค้า", "שָׁלוֹם/x": "שָׁלוֹם-x", "\u0301": "n0-\u0301",
    "2 купить": "n0-2-купить", "🛒": "n0", "日" * 99: "日" * 60,
}  # fmt: skip


@pytest.mark.parametrize("label", KEPT)
def test_letters_stay(label: str) -> None:
    assert plain_names([label], ()) == (KEPT[label],)


def test_labels_that_become_one_name_stay_apart() -> None:
    assert plain_names(["Корзина!", "корзина?", "Корзина"], ()) == ("Корзина", "корзина-2", "Корзина-3")


def study(folder: Path, request: str, group: str, service: str = "it") -> str:
    text = {
        "name": "x",
        "lab": {service: {"kit": "truth", "role": "store"}},
        "requests": {request: {"get": f"http://{service}/"}},
        "traffic": {group: {"executor": "constant-vus", "vus": 1, "request": request}},
        "measure": {"duration": "1s"},
        "thresholds": [f"{group}.response.p95 < 1 s"],
    }
    (folder / "study.yaml").write_text(json.dumps(text, ensure_ascii=False), encoding="utf-8")
    return str(folder / "study.yaml")


@pytest.mark.parametrize("label", ["हिन्दी पेज", "e\u0301tape", "สินค้า 2", "שָׁלוֹם"])
def test_a_label_comes_back_from_an_export_as_it_was(label: str, tmp_path: Path) -> None:
    """With its thread group, which has the same name."""

    def imported(path: Path) -> tuple[str, set[str], set[str]]:
        run = api.import_files([str(path)], out=tmp_path / "runs", write_report=False)
        (one,) = run.imported.values()
        return str(run.run.path), set(one.labels.values()), set(one.groups.values())

    rows = [f"{1_700_000_000_000 + 10 * at},5,{label},200,{label} 1-{1 + at % 2},true" for at in range(40)]
    table = "timeStamp,elapsed,label,responseCode,threadName,success\n" + "\n".join(rows)
    (tmp_path / "a.jtl").write_text(table, encoding="utf-8")
    run, labels, groups = imported(tmp_path / "a.jtl")
    assert (labels, groups) == ({label}, {label})
    (exported,) = api.export_jtl(run, tmp_path / "out")
    assert imported(exported)[1:] == (labels, groups)


@pytest.mark.parametrize(
    ("name", "group"),
    [("首页", "Читатели"), ("größe", "Αγοραστές"), ("home", "users"), ("हिन्दी", "e\u0301tape")],
)
def test_a_study_names_requests_and_groups_so(name: str, group: str, tmp_path: Path) -> None:
    lock = api.load_lock(study(tmp_path, name, group), api.Choices())
    assert [one.name for one in api.studies.case_configs(lock)[lock.cases[0].name].groups] == [group]


NO_NAMES = [("\u0301a", "a", "it"), ("1首", "a", "it"), ("首 页", "a", "it"), ("首页", "чит.атели", "it")]


@pytest.mark.parametrize("names", [*NO_NAMES, ("首页", "a", "сервер")])
def test_other_names_are_refused(names: tuple[str, str, str], tmp_path: Path) -> None:
    with pytest.raises(SvloadError, match="expected a name"):
        api.load_lock(study(tmp_path, *names), api.Choices())
