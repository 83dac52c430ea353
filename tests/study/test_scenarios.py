"""Scenarios, variables, set-up, feeders and checks as a study says them; and every slip in them is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from svload.model.errors import SvloadError
from svload.model.executors import ThinkTime
from svload.model.study import CaseConfig
from svload.model.traffic import (
    BodyCheck,
    DigestCheck,
    Feeder,
    FeederPart,
    HeaderCheck,
    TakenPart,
    Text,
    TextTest,
)
from svload.study import load_study, resolve
from svload.study.checks import read_check
from svload.study.feeders import read_file
from svload.study.templates import Names

S = 1_000_000_000
STUDY = """\
name: t
lab: {{web: {{kit: stone}}}}
feeders: {feeders}
factors: {{size: [1, 2]}}
requests:
  login: {{post: http://web/login, take: {{token: {{header: X-Auth-Token}}, base: {{json: "urls[0].base"}}}}}}
  read: {{get: "http://web/${{number.value}}", headers: {{Authorization: "Bearer ${{token}}"}}}}
  away: {{get: "${{base}}/more?size=${{size}}"}}
  plain: {{get: http://web/}}
scenarios:
  visit: [{{request: login, think_time: 2s}}, read, {{request: GET http://web/last, think_time: {{exponential: 1s}}}}, away]
setup: {setup}
traffic:
  g: {group}
measure: {{duration: 60s}}
{more}
"""
FEEDERS = "{number: {range: [1, 9], take: sequential}}"
VISIT = "{executor: constant-vus, vus: 4, scenario: visit}"
Made = Callable[..., CaseConfig]


@pytest.fixture
def study(folder: Path) -> Made:
    def made(group: str = VISIT, feeders: str = FEEDERS, setup: str = "[]", more: str = "") -> CaseConfig:
        text = STUDY.format(group=group, feeders=feeders, setup=setup, more=more)
        (folder / "study.yaml").write_text(text)
        lock = load_study(folder)
        return resolve(lock, lock.cases[-1])

    return made


@pytest.fixture
def told(study: Made) -> Callable[..., list[str]]:
    def problems(**parts: str) -> list[str]:
        with pytest.raises(SvloadError) as caught:
            study(**parts)
        return [str(problem) for problem in caught.value.problems]

    return problems


def test_a_scenario_is_its_steps_in_order(study: Made) -> None:
    group = study().groups[0]
    (scenario,) = group.scenarios
    assert (scenario.name, scenario.weight) == ("visit", 1)
    assert [step.name for step in group.steps] == ["login", "read", "step3", "away"]
    assert [step.think_time for step in group.steps[:3]] == [
        ThinkTime(constant_ns=2 * S),
        ThinkTime(constant_ns=0),
        ThinkTime(exponential_ns=S),
    ]
    login, read, last, away = group.requests
    assert [(take.name, take.header, take.json_path) for take in login.take] == [
        ("token", "X-Auth-Token", None),
        ("base", None, "urls[0].base"),
    ]
    assert read.path == (Text(text="/"), FeederPart(feeder="number", column="value"))
    assert read.headers[0][1] == (Text(text="Bearer "), TakenPart(taken="token"))
    assert (last.method, last.path) == ("GET", (Text(text="/last"),))
    assert away.url == (TakenPart(taken="base"), Text(text="/more?size=2"))
    assert (away.host, group.hosts, group.endpoints) == ("", {"web", ""}, ("http://web",))
    assert group.longest_timeout_ns == 30 * S


def test_a_mix_weighs_scenarios_and_requests_and_steps_keep_names_of_their_own(study: Made) -> None:
    group = study("{executor: constant-vus, vus: 4, mix: {visit: 3, plain: 1, login: 2}}").groups[0]
    assert [(scenario.name, scenario.weight) for scenario in group.scenarios] == [("visit", 3), ("plain", 1), ("login", 2)]  # fmt: skip
    assert [step.name for step in group.steps] == ["login", "read", "step3", "away", "plain", "login-2"]


def test_steps_may_stand_in_the_group_and_metrics_name_them(study: Made) -> None:
    group = "{executor: constant-vus, vus: 4, scenario: [plain, {get: http://web/two, timeout: 45s}]}"
    more = "thresholds: [g.plain.response.p95 < 1 s, g.step2.success_rate >= 99 %, g.response.p50 < 1 s]"
    config = study(group, more=more)
    assert [step.name for step in config.groups[0].steps] == ["plain", "step2"]
    assert config.groups[0].longest_timeout_ns == 45 * S


def test_set_up_gives_its_variables_to_all(study: Made) -> None:
    users = "{executor: constant-vus, vus: 4, request: read}"
    for setup, once in (("[login]", "trial"), ("[{request: login, once: vu}]", "vu")):
        config = study(users, setup=setup)
        assert [(part.request.name, part.once) for part in config.set_up] == [("login", once)]


@pytest.mark.parametrize(
    ("feeder", "wanted", "rows"),
    [
        (
            "{csv: rows.csv, take: unique, when_exhausted: stop}",
            {"take": "unique", "when_exhausted": "stop"},
            "csv",
        ),
        ("{values: [a, 2], take: random}", {"take": "random"}, "values"),
        ("{range: [1, 9], offset: 2000}", {"take": "walk", "offset": 2000}, "numbers"),
        ("{range: [1, 9], offset: 0}", {"take": "walk", "offset": 0}, "numbers"),
    ],
)
def test_a_feeder_has_rows_of_its_own(
    study: Made, folder: Path, feeder: str, wanted: dict[str, object], rows: str
) -> None:
    (folder / "rows.csv").write_text("value,size_bytes\na,1\nb,2\n")
    config = study("{executor: constant-vus, vus: 2, request: plain}", f"{{number: {feeder}}}")
    (found,), (table,) = config.feeders, config.tables
    assert found == Feeder(name="number", table=table.name, **wanted)
    assert [kind for kind in ("csv", "parquet", "values", "numbers") if getattr(table, kind)] == [rows]
    assert table.csv is None or table.csv == str(folder / "rows.csv")


def test_a_parquet_files_columns_are_known(study: Made, folder: Path, told: Callable[..., list[str]]) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    write_table(pyarrow.table({"value": [1, 2]}), folder / "rows.parquet")
    plain = "{executor: constant-vus, vus: 2, scenario: [login, read]}"
    assert study(plain, "{number: {parquet: rows.parquet}}").tables[0].parquet == str(folder / "rows.parquet")
    write_table(pyarrow.table({"valeu": [1, 2]}), folder / "rows.parquet")
    (problem,) = told(group=plain, feeders="{number: {parquet: rows.parquet}}")
    assert "number.valeu" in problem


def bombs() -> dict[str, object]:
    """Columns of a few KiB that decode to far more than a table may take."""
    import pyarrow

    rows = 3_000
    text = pyarrow.array(["x" * 100_000]), pyarrow.array(["x" * 100_000, "y"])
    return {
        "one-text": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, "int32"), text[0]),
        "two-texts": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1] * rows, "int32"), text[1]),
        "bytes": pyarrow.array([b"x" * 100_000] * rows, pyarrow.binary(100_000)),
        "lists": pyarrow.array([[7] * 100_000] * 10),
    }


@pytest.mark.parametrize("name", ["one-text", "two-texts", "bytes", "lists"])
def test_a_parquet_file_is_bounded_by_what_it_decodes_to(name: str, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    file = tmp_path / "rows.parquet"
    write_table(pyarrow.table({"value": bombs()[name]}), file, compression="zstd")
    assert file.stat().st_size < 1 << 20
    with pytest.raises(ValueError, match=r"67,108,864 bytes at most|more than one value a row"):
        read_file("parquet", file)


def test_a_parquet_file_with_a_dictionary_is_read_as_it_is(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    table = {"value": ["a", "ü", "a"], "fixed": [b"xy", b"zw", b"xy"], "size_bytes": [1, 2, 1]}
    columns = {**table, "value": pyarrow.array(table["value"]).dictionary_encode()}
    write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    assert read_file("parquet", tmp_path / "rows.parquet") == table


NAMES = Names(("web",), {"object": ("digest",)}, ("token",))


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("header.X-Cache present", HeaderCheck(name="header.X-Cache present", header="X-Cache", test=TextTest(present=True))),
        ("header.ETag == ${object.digest}", HeaderCheck(name="header.ETag == ${object.digest}", header="ETag", test=TextTest(equals=(FeederPart(feeder="object", column="digest"),)))),
        (r"body matches ^\d+$", BodyCheck(name=r"body matches ^\d+$", body=TextTest(matches=r"^\d+$"))),
        ("body contains hi ${token}", BodyCheck(name="body contains hi ${token}", body=TextTest(contains=(Text(text="hi "), TakenPart(taken="token"))))),
        ("md5 == ${object.digest}", DigestCheck(name="md5 == ${object.digest}", digest="md5", equals=(FeederPart(feeder="object", column="digest"),))),
    ],
)  # fmt: skip
def test_checks_of_texts_and_digests(text: str, check: object) -> None:
    assert read_check(text, NAMES) == check


@pytest.mark.parametrize(
    "text",
    [
        "header.X present now",
        "header.X ==",
        "body present",
        "sha256 == abc",
        "md5 > 1",
        "sha1 == 00",
    ],
)
def test_a_check_that_is_none_is_told(text: str) -> None:
    assert isinstance(read_check(text, NAMES), str)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"group": "{executor: constant-vus, vus: 2}"}, ["one of request, scenario, mix"]),
        ({"group": "{executor: constant-vus, vus: 2, " "request: plain, " "scenario: visit}"}, ["one of request, scenario, mix"]),
        ({"group": "{executor: constant-vus, vus: 2, scenario: vist}"}, ["vist", "visit"]),
        ({"group": "{executor: constant-vus, vus: 2, mix: {visit: 1, plian: 2}}"}, ["plian", "plain"]),
        ({"group": "{client: curl, executor: constant-vus, vus: 2, scenario: visit}"}, ["client: curl"]),
        ({"group": "{executor: constant-vus, vus: 2, scenario: [read, login]}"}, ["${token}", "no earlier step"]),
        ({"group": "{executor: constant-vus, vus: 2, request: read}"}, ["${token}", "setup"]),
        ({"setup": "[login]"}, ["setup takes this variable already"]),
        ({"group": "{executor: constant-arrival-rate, " "rate: 5/s, " "request: read}", "setup": "[{request: login, once: vu}]"}, ["open loop"]),
        ({"setup": "[logni]"}, ["logni", "login"]),
        ({"feeders": "{number: {range: [1, 9], values: [a]}}"}, ["one of from, csv"]),
        ({"feeders": "{number: {range: [9, 1]}}"}, ["range"]),
        ({"feeders": "{number: {range: [1, 9], take: random, when_exhausted: stop}}"}, ["no last row"]),
        ({"feeders": "{number: {range: [1, 9], take: random, offset: 2}}"}, ["offset"]),
        ({"feeders": "{number: {csv: none.csv}}"}, ["inside the study's folder"]),
        ({"feeders": "{token: {range: [1, 9]}, number: {range: [1, 9]}}"}, ["variable of that name"]),
    ],
)  # fmt: skip
def test_slips_are_told(told: Callable[..., list[str]], parts: dict[str, str], words: list[str]) -> None:
    problems = told(**parts)
    assert any(all(word in problem for word in words) for problem in problems), problems


def test_a_table_without_rows_or_with_unclear_columns_is_told(
    told: Callable[..., list[str]], folder: Path
) -> None:
    for text in ("value\n", "", "value,value\n1,2\n", "value,\n1,2\n"):
        (folder / "rows.csv").write_text(text)
        assert any("expected a table" in problem for problem in told(feeders="{number: {csv: rows.csv}}"))
