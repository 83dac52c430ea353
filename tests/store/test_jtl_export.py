"""`svload export --format jtl`: JMeter's columns, which `svload import` reads back alike, labels included."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.store import foreign_files as files
from tests.support import make_run

from svload import api
from svload.model.errors import SvloadError
from svload.model.request_errors import ERRORS
from svload.store import read_trial
from svload.store.foreign.jtl import HEADER
from svload.store.foreign.tabulate import plain_names

LOAD = files.closed_loop(users=4, lasts=5000, failing=0.05)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_what_was_imported_comes_out_as_it_was(tmp_path: Path) -> None:
    """Every column that svload keeps is equal; numbers of threads and messages are its own."""
    path = files.write_jtl(tmp_path / "a.jtl", LOAD)
    run = files.imported(tmp_path / "runs", path)
    (exported,) = api.export_jtl(str(run.path), tmp_path / "out")
    before, after = rows(path), rows(exported)
    assert list(after[0]) == list(HEADER)
    own = ("responseMessage", "threadName", "dataType", "failureMessage", "URL", "IdleTime")
    kept = [name for name in HEADER if name not in own]
    first, again = (sorted(tuple(row[name] for name in kept) for row in some) for some in (before, after))
    assert first == again
    ends = [int(row["timeStamp"]) + int(row["elapsed"]) for row in after]
    assert ends == sorted(ends)


def test_svload_s_own_rows_are_jmeters(tmp_path: Path) -> None:
    """Each finished request of a group that keeps rows is a row, from its begin to its end, to the
    millisecond."""
    run = make_run(tmp_path / "runs", cases=1, replicates=1, duration_s=0.4, faults={"*": "errors"})
    (exported,) = api.export_jtl(str(run.path), tmp_path / "out")
    trial = read_trial(run.trial(run.sealed_trials()[0]).path)
    finished = trial.samples["done_ns"] >= 0
    found = rows(exported)
    assert len(found) == int(finished.sum())
    connected = np.maximum(trial.samples["connect_ns"], trial.samples["appconnect_ns"])[finished] // 1_000_000
    assert sorted(int(row["Connect"]) for row in found) == sorted(connected.tolist())
    errors = [code for code in trial.samples["error"][finished].tolist() if code]
    assert sum(row["success"] == "false" for row in found) == len(errors) > 0
    begun_ms, done_ms = (trial.samples[name][finished] // 1_000_000 for name in ("begun_ns", "done_ns"))
    assert sorted(int(row["elapsed"]) for row in found) == sorted((done_ms - begun_ms).tolist())
    again = files.imported(tmp_path / "again", exported)
    (name,) = again.sealed_trials()
    kept = read_trial(again.trial(name).path).summary.groups[0].errors
    assert dict(kept.items()) == Counter(ERRORS[code] for code in errors)


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    labels = ("=cmd()", "+1+1", "@x", "a\u202eb", "home")
    load = [files.Asked(0, 100 * place, 50, label) for place, label in enumerate(labels)]
    run = files.imported(tmp_path / "runs", files.write_jtl(tmp_path / "a.jtl", load, group="-2+3"))
    (exported,) = api.export_jtl(str(run.path), tmp_path / "out")
    texts = {row[name] for row in rows(exported) for name in ("label", "threadName")}
    assert not any(text[0] in "=+-@" for text in texts) and not any("\u202e" in text for text in texts)


def test_a_run_without_rows_says_so(tmp_path: Path) -> None:
    run = files.imported(tmp_path, files.write_history(tmp_path / "h.csv", LOAD), form="locust")
    with pytest.raises(SvloadError, match="one by one"):
        api.export_jtl(str(run.path), tmp_path / "out")


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


def test_thousands_of_labels_that_begin_alike_take_no_quadratic_time() -> None:
    labels = [f"http://shop.example/{'a' * 60}/{number}" for number in range(60_000)]
    assert len(set(plain_names(labels, ()))) == len(labels)


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
