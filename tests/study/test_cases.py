"""Cases and sets: order, names, exclusions, `when`, durations and replicates, what a set overrides."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from svload import lab
from svload.model.errors import SvloadError
from svload.model.plan import Point
from svload.model.study import Factor, Level, Lock
from svload.study import first_batch, load_study, resolve, study_digest
from svload.study.config import measure_of
from svload.study.factors import make_cases, read_factor

from .conftest import SMALL, load_text, problems_of, refusal


def test_without_a_table_cases_are_named_by_their_levels_in_product_order(load: Callable[..., Lock]) -> None:
    lock = load()
    levels = product(("http", "https"), ("direct", "through"), ("1", "8"))
    assert [case.name for case in lock.cases] == ["scheme-{}_way-{}_users-{}".format(*one) for one in levels]
    assert {case.name: case.excluded for case in lock.cases if case.excluded} == {
        "scheme-http_way-through_users-8": "too much",
        "scheme-https_way-through_users-8": "too much",
    }


NAMED = SMALL.replace("feeders:", "case_names: names.csv\nfeeders:", 1)


def test_a_table_names_and_orders_cases(load: Callable[..., Lock], folder: Path) -> None:
    """A profile may drop levels that it names."""
    (folder / "names.csv").write_text("case,users,way,scheme\nB,8,direct,https\nA,1,through,http\n")
    lock = load(NAMED)
    assert [case.name for case in lock.cases][:3] == ["B", "A", "scheme-http_way-direct_users-1"]
    assert lock.case("B").levels == {"scheme": "https", "way": "direct", "users": "8"}
    assert len({tuple(case.levels.values()) for case in lock.cases}) == 8
    dropped = NAMED.replace("tiny:", "tiny:\n    factors: {scheme: [http]}\n    thresholds: []")
    names = ["A", "way-direct_users-1", "way-direct_users-8", "way-through_users-8"]
    assert [case.name for case in load(dropped, profile="tiny").cases] == names


def test_a_case_without_a_name_takes_no_name_of_the_table() -> None:
    factors = [Factor(name=name, levels=(Level(name="x"), Level(name="y"))) for name in "abcd"]
    assert [one.name for one in make_cases(factors, [], {("x",) * 4: "case-3"})[2:4]] == ["case-2", "case-4"]


def test_levels_that_make_no_short_plain_names_leave_cases_numbered() -> None:
    def names(*levels: str) -> list[str]:
        factor = Factor(name="scheme", levels=tuple(Level(name=one, value=one) for one in levels))
        return [case.name for case in make_cases([factor], [], {})]

    assert names("50/s", "100/s") == ["scheme-50-s", "scheme-100-s"]
    assert names("a b", "a-b") == names("ä", "b") == names("x" * 41, "y" * 41) == ["case-0", "case-1"]
    assert names("only") == ["case-0"]


@pytest.mark.parametrize(
    ("raw", "names", "values"),
    [
        (["a", "b"], ["a", "b"], ["a", "b"]),
        ([1, 2.5, True], ["1", "2.5", "true"], [1, 2.5, True]),
        ({"few": {"n": 1}, "bare": None, "size": "4 KiB"}, ["few", "bare", "size"], [None, None, "4 KiB"]),
        (["a", {"b": {"n": 1}}], ["a", "b"], ["a", None]),
    ],
)
def test_a_level_is_a_value_or_a_name_with_fields(raw: Any, names: list[str], values: list[Any]) -> None:
    factor, mistakes = read_factor("f", raw)
    assert mistakes == []
    assert [level.name for level in factor.levels] == names
    assert [level.value for level in factor.levels] == values


def test_the_first_reason_that_matches_is_reported() -> None:
    factor, _ = read_factor("f", ["x", "y"])
    rules = [{"when": {"f": "x"}, "because": "one"}, {"when": {"f": ["x", "y"]}, "because": "two"}]
    assert [case.excluded for case in make_cases([factor], rules, {})] == ["one", "two"]


def test_groups_steps_and_thresholds_belong_to_the_cases_they_match(load: Callable[..., Lock]) -> None:
    lock = load()
    (_, way, _) = lock.factors
    assert [level.expect for level in way.levels] == [("front.requests == 0",), ("front.hit_ratio >= 99 %",)]
    assert all("expect" not in level.fields for level in way.levels)
    alone, crowded, through, https = (resolve(lock, lock.cases[number]) for number in (0, 1, 2, 4))
    assert [(one.name, one.start_when) for one in alone.groups] == [("guest", None)]
    assert (alone.ramp_ns, alone.groups[0].executor.vus) == (0, 1)
    assert [(one.name, one.start_when) for one in crowded.groups] == [("crowd", None), ("guest", "crowd")]
    assert crowded.ramp_ns == 1_000_000_000
    assert [step.warm for step in through.before_trial] == [None, "thing"]
    assert alone.thresholds == ("guest.success_rate >= 99 %",)
    assert https.thresholds == ("guest.success_rate >= 99 %", "guest.response.p95 < 1 s")


def test_the_lock_is_enough(load: Callable[..., Lock], folder: Path) -> None:
    """A resumed run has only the lock: it is resolved alike after it was written and read, and the study's
    file is gone."""
    lock = load(profile="tiny")
    (folder / "lock.json").write_text(lock.to_json())
    (folder / "study.yaml").unlink()
    again = Lock.read(folder / "lock.json")
    assert again == lock
    assert all(resolve(again, case) == resolve(lock, case) for case in lock.valid_cases)
    assert "profiles" not in again.source


def test_the_digest_notices_an_edit_of_study_table_or_set(load: Callable[..., Lock], folder: Path) -> None:
    (folder / "names.csv").write_text("case,scheme,way,users\nB,https,direct,8\n")
    digests = [load(NAMED).study_sha256]
    assert study_digest(folder) == digests[0]
    (folder / "names.csv").write_text("case,scheme,way,users\nC,https,direct,8\n")
    digests += [load_study(folder).study_sha256, load(NAMED + "# a remark\n").study_sha256]
    assert len(set(digests)) == 3
    (folder / "final.yaml").write_text("lab: {cache: {nofile: 77}}\n")
    lock = load_sets(folder, sets={"stock": {}, "final": "final.yaml"})
    assert lock.study_sha256 == study_digest(folder)
    (folder / "final.yaml").write_text("lab: {cache: {nofile: 78}}\n")
    assert study_digest(folder) != lock.study_sha256
    assert resolve(lock, lock.cases[1]).services[1].options["nofile"] == 77, "the lock contains it"


def test_seeds(load: Callable[..., Lock]) -> None:
    seeded = f"seed: 9\n{SMALL}"
    assert (load().seed, load(seeded).seed, load(seeded, seed=4).seed) == (1, 9, 4)


BY_LEVEL = """\
name: levels
lab: {api: {at: "http://127.0.0.1:8080"}}
factors:
  users:
    few: {count: 1, time: 2s, often: 3}
    many: {count: 50, time: 5s, often: 2}
traffic:
  people: {executor: constant-vus, vus: "${users.count}", request: GET http://api/}
measure: {duration: "${users.time}", replicates: "${users.often}"}
"""
OPEN = """\
name: open
lab: {api: {at: "http://127.0.0.1:8080"}}
factors:
  users: {open: [2, 400]}
  think: [0.1s, 0.2s]
traffic:
  people: {executor: constant-vus, vus: "${users}", think_time: "${think}", request: GET http://api/}
measure: {duration: 2s, replicates: 1}
"""


def test_a_level_says_how_long_and_how_often(load: Callable[..., Lock]) -> None:
    lock = load(BY_LEVEL)
    few, many = (resolve(lock, case).measure for case in lock.cases)
    assert [(one.duration_ns, one.replicates) for one in (few, many)] == [(2 * 10**9, 3), (5 * 10**9, 2)]
    assert [measure_of(lock, case) for case in lock.cases] == [few, many]
    assert (lock.measure.duration_ns, lock.measure.replicates) == (5 * 10**9, 3), "the most that any case has"
    planned = sorted((one.case, one.block, one.at.duration_ns // 10**9) for one in first_batch(lock).trials)
    assert planned == [("users-few", one, 2) for one in (1, 2, 3)] + [
        ("users-many", one, 5) for one in (1, 2)
    ]


def test_an_open_factor_is_what_its_batch_says(load: Callable[..., Lock], folder: Path) -> None:
    """It needs a search, and a table of names has no column for it."""
    lock = load(OPEN)
    assert [case.levels for case in lock.cases] == [{"think": "0.1s"}, {"think": "0.2s"}]
    at = Point(values={"users": 37}, duration_ns=3 * 10**9)
    config = resolve(lock, lock.cases[0], at)
    assert config.groups[0].executor.vus == 37
    assert config.measure.duration_ns == 3 * 10**9
    assert resolve(lock, lock.cases[0]).groups[0].executor.vus == 2, "without a point the least"
    with pytest.raises(SvloadError, match="study-open"):
        first_batch(lock)
    (folder / "names.csv").write_text("case,think\nA,0.2s\nB,0.1s\n")
    assert [case.name for case in load(f"{OPEN}case_names: names.csv\n").cases] == ["A", "B"]


@pytest.mark.parametrize("ends", ["[2]", "[400, 2]", "[a, b]", "[-1, 2]", "[1, 2, 3]", "[2, 4000000]"])
def test_both_ends_of_an_open_factor_are_checked(folder: Path, ends: str) -> None:
    says = "virtual users" if "4000000" in ends else "the least and the largest value"
    assert says in " ".join(map(str, problems_of(folder, OPEN.replace("[2, 400]", ends))))


STORE = {"kit": "truth", "role": "store"}
FINAL = {"nofile": 9000, "tuning": {"thread_queue_limit": 100, "thread_pool_max": 400}}
TUNED: dict[str, Any] = {
    "name": "tuned",
    "lab": {"store": STORE, "cache": {"kit": "varnish", "of": "store", "tuning": {"thread_queue_limit": 20}}},
    "sysctl": {"net.ipv4.tcp_fin_timeout": 30},
    "sets": {"stock": {}, "final": {"lab": {"cache": FINAL}, "sysctl": {"net.core.somaxconn": 4096}}},
    "tuning": "${tuning}",
    "factors": {"tuning": ["stock", "final"]},
    "traffic": {"users": {"executor": "constant-vus", "vus": 1, "request": "GET http://cache/"}},
    "measure": {"duration": "1s", "replicates": 2},
}


CHECKS: dict[str, Any] = {"kits": lab.kit_options(), "check_lab": lab.find_mistakes}


def load_sets(folder: Path, **changes: Any) -> Lock:
    return load_text(folder, {**TUNED, **changes}, **CHECKS)


def test_each_case_has_the_study_under_its_set(tmp_path: Path) -> None:
    """A setting that a level lacks is left out."""
    lock = load_sets(tmp_path)
    stock, final = (resolve(lock, case) for case in lock.cases)
    assert stock.services[1].options == {"of": "store", "tuning": {"thread_queue_limit": 20}}
    assert final.services[1].options == {"of": "store"} | FINAL
    assert stock.sysctl == {"net.ipv4.tcp_fin_timeout": "30"}
    assert final.sysctl == {"net.ipv4.tcp_fin_timeout": "30", "net.core.somaxconn": "4096"}
    assert resolve(Lock.model_validate_json(lock.to_json()), lock.cases[1]) == final, "it holds all of it"
    most = {"factors": {"most": {"none": {}, "many": {"files": 9000}}}}
    lock = load_sets(tmp_path, sets={}, tuning=None, sysctl={"fs.file-max": "${most.files}"}, **most)
    assert [resolve(lock, case).sysctl for case in lock.cases] == [{}, {"fs.file-max": "9000"}]


UNTUNED: dict[str, Any] = {"sets": {}, "tuning": None, "factors": {"tuning": [1, 2]}}
OUTSIDE = {"store": {"at": "http://127.0.0.1:9"}, "cache": {"kit": "varnish", "of": "store"}}


def final(of_set: Any) -> dict[str, Any]:
    return {"sets": {"stock": {}, "final": of_set}}


LIVE = {"a": {"lab": {"cache": {"tuning": {"thread_queue_limit": 5}}}}, "b": {"lab": {"cache": {"tuning": {"thread_queue_limit": 9}}}}}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        ({}, "restart"),
        ({"sets": LIVE, "factors": {"tuning": ["a", "b"]}}, "live"),
        ({"sets": {**LIVE, "c": {"sysctl": {"net.ipv4.tcp_max_syn_backlog": 9}}}, "factors": {"tuning": ["a", "b"]}}, "live"),
        ({"sets": {**LIVE, "c": {"sysctl": {"net.core.somaxconn": 9}}}, "factors": {"tuning": ["a", "b", "c"]}}, "restart"),
        ({"sets": {"a": {}, "b": {}}, "factors": {"tuning": ["a", "b"]}}, "request"),
        ({**UNTUNED, "lab": {**TUNED["lab"], "cache": {"kit": "varnish", "of": "store", "tuning": {"default_ttl": "${tuning}"}}}}, "live"),
        ({**UNTUNED, "lab": {**TUNED["lab"], "cache": {"kit": "varnish", "of": "store", "tuning": {"listen_depth": "${tuning}"}}}}, "restart"),
        ({**UNTUNED, "sysctl": {"net.ipv4.tcp_max_syn_backlog": "${tuning}"}}, "live"),
        ({**UNTUNED, "sysctl": {"net.core.somaxconn": "${tuning}"}}, "restart"),
    ],
)  # fmt: skip
def test_a_factor_costs_its_dearest_parameter(tmp_path: Path, changes: dict[str, Any], change: str) -> None:
    lock = load_sets(tmp_path, **changes)
    assert [factor.change for factor in lock.factors] == [change]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tuning": "finla"}, "no such set under sets: “finla”"),
        ({"factors": {"tuning": ["stock", "finished"]}}, "no such set under sets: “finished”"),
        (final({"lab": {"cash": {}}}), "no such service: “cash”"),
        (final({"lab": {"cache": {"kit": "nginx"}}}), "can't replace it"),
        (final({"lba": {}}), "Unknown key “lba”"),
        (final("../final.yaml"), "a file inside the study's folder"),
        (final({"lab": {"cache": {"nofiles": 3}}}), "Unknown key “nofiles”"),
        ({"sysctl": {"kernel.core_pattern": "|/tmp/x"}}, "a setting of the network"),
        ({"sysctl": {"net.core.somaxconn": ["1"]}}, "sysctl"),
        (final("cash.yaml"), "cash.yaml:3"),
        (UNTUNED | {"lab": OUTSIDE}, "its own network"),
    ],
)
def test_mistakes_in_sets_are_reported(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    (tmp_path / "cash.yaml").write_text("lab:\n  cache: {nofile: 1}\n  cash: {nofile: 2}\n")
    assert expected in refusal(tmp_path, TUNED | changes, **CHECKS)
    assert load_sets(tmp_path, **UNTUNED, lab=OUTSIDE, sysctl={"fs.file-max": 9}).cases
