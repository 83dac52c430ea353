"""Imported runs and finished tables are judged as far as their data allow."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.store import foreign_files as files

from svload import api
from svload.analysis.checks import all_checks
from svload.api.imports import ImportedRun
from svload.model.errors import SvloadError
from svload.model.results import CheckResult, TrialResult
from svload.tables.checks import all_table_checks, judge_tables
from svload.tables.reading import read_table_file
from svload.tables.table import About, Table, TableCheckResult, number

USERS = 10
LOAD = files.closed_loop(users=USERS, lasts=30_000)


def imported(tmp_path: Path, *words: str, **how: object) -> ImportedRun:
    return api.import_files(list(words), out=tmp_path / "runs", write_report=False, **how)


def check(result: TrialResult, name: str) -> CheckResult:
    return next(one for one in result.verdict.checks if one.check == name)


@pytest.fixture(scope="module")
def jtl(tmp_path_factory: pytest.TempPathFactory) -> ImportedRun:
    folder = tmp_path_factory.mktemp("imported")
    return imported(folder, str(files.write_jtl(folder / "load.jtl", LOAD)))


@pytest.fixture(scope="module")
def result(jtl: ImportedRun) -> TrialResult:
    (found,) = jtl.findings.trials
    return found


def test_its_numbers_are_those_of_the_file(jtl: ImportedRun, result: TrialResult) -> None:
    found = jtl.imported[result.trial]
    window = api.query(str(jtl.run.path), "select window_from_ns, window_to_ns from trials")[1][0]
    low, high = (edge + result.cut_ns * (place == 0) for place, edge in enumerate(window))
    spent = sorted(one.spent for one in LOAD if low <= one.begun * 1_000_000 < high)
    value = {
        name: result.metrics[f"Users.{name}"].value
        for name in ("response.p50", "response.mean", "throughput")
    }
    assert value["response.p50"] * 1000 == pytest.approx(spent[len(spent) // 2], abs=2)
    assert value["response.mean"] * 1000 == pytest.approx(sum(spent) / len(spent), rel=0.02)
    assert value["throughput"] == pytest.approx(USERS / 0.150, rel=0.02)
    assert found.tool == "JMeter" and found.requests == len(LOAD)


def test_what_the_file_does_not_hold_is_not_measured(result: TrialResult) -> None:
    own = [one.name for one in all_checks() if one.of == "own"]
    assert len(own) > 15
    for name in own:
        assert not check(result, name).measured
        assert check(result, name).sentence.startswith("Not measured: load.jtl was written by JMeter")
    others = {one.name for one in all_checks() if one.of != "own"}
    assert others == {"warm-up", "steadiness", "imported-instrument", "imported-little"}
    for name in ("generator_lag.p99", "slot_wait.p50", "server_time.p50"):
        estimate = result.metrics[f"Users.{name}"]
        assert estimate.value is None and estimate.why == "not measured"


def test_it_is_weak_at_best(result: TrialResult) -> None:
    assert result.verdict.instrument == "WEAK" and result.metrics["Users.response.p50"].grade == "WEAK"
    assert result.metrics["Users.success_rate"].grade == "VALID"
    assert result.verdict.server in ("STEADY", "UNKNOWN")
    (harm,) = check(result, "imported-instrument").harms
    assert (harm.below, harm.above) == (0.06, 0.0)


def test_littles_law_is_reported_with_its_rest(result: TrialResult) -> None:
    found = check(result, "imported-little")
    assert found.grade == "VALID" and found.measured
    assert f"of {USERS} users active" in found.sentence
    assert re.search(r"the rest is 0\.05\d* s of other time per request", found.sentence)


def test_more_at_work_than_there_are_is_refused(tmp_path: Path) -> None:
    """Two runs in one file: twice as many concurrent requests as users."""
    one = files.write_jtl(tmp_path / "a.jtl", files.closed_loop(users=4, lasts=10_000, think=0, ramp=0))
    head, *rows = one.read_text().splitlines(keepends=True)
    one.write_text("".join([head, *sorted(rows * 2)]))
    (result,) = imported(tmp_path, str(one)).findings.trials
    found = check(result, "imported-little")
    assert found.grade == "REFUSED" and "more users were active than there were" in found.sentence
    assert result.verdict.instrument == "REFUSED"


def test_a_locust_history_has_means_and_no_percentile(tmp_path: Path) -> None:
    load = files.closed_loop(users=USERS, lasts=120_000, failing=0.02)
    path = files.write_history(tmp_path / "x_stats_history.csv", load)
    result = imported(tmp_path, str(path)).findings.trials[0]
    assert result.metrics["load.response.mean"].value * 1000 == pytest.approx(100, rel=0.02)
    p95 = result.metrics["load.response.p95"]
    assert (p95.value, p95.why) == (None, "not measured")
    assert result.metrics["load.throughput"].value == pytest.approx(USERS / 0.150, rel=0.03)
    assert result.metrics["load.success_rate"].value == pytest.approx(0.98, abs=0.01)
    assert check(result, "imported-little").grade == "VALID"


def test_replicates_of_levels_are_compared(tmp_path: Path) -> None:
    """Four blocks, the later level twice as slow: a ratio but no claim, as nobody randomised the order."""
    words = []
    for block in range(4):
        for level, spent in (("old", (80, 120)), ("new", (160, 240))):
            load = files.closed_loop(users=4, lasts=20_000, spent=spent, ramp=10, seed=block)
            path = files.write_jtl(tmp_path / f"{level}{block}.jtl", load)
            _shift(path, (2 * block + (level == "new")) * 60_000)
            words.append(f"{level}={path}")
    result = imported(tmp_path, *words, factor="build")
    assert result.interleaved
    (claim,) = [one for one in result.findings.claims if "median" in one.name]
    assert claim.ratio.value == pytest.approx(2.0, rel=0.05)
    assert 1.8 < claim.single[0] <= 2.0 <= claim.single[1] < 2.2
    assert claim.outcome == "open" and "drift is inside this difference" in claim.why_open
    assert [trial.trial for trial in result.findings.trials][:2] == ["old.r1", "old.r2"]
    for word in words[1::2]:
        _shift(Path(word.partition("=")[2]), 3_600_000)
    assert not imported(tmp_path, *words, factor="build").interleaved, "the new ones after all old ones"


def test_a_sweep_of_users_is_one(tmp_path: Path) -> None:
    words = [
        f"{users}={files.write_jtl(tmp_path / f'{users}.jtl', files.closed_loop(users=users, lasts=5000, ramp=10))}"
        for users in (2, 4, 8)
    ]
    result = imported(tmp_path, *words, factor="users")
    lock = result.run.lock()
    assert [level.value for level in lock.factors[0].levels] == [2, 4, 8]
    (curve,) = result.findings.curves
    assert curve.kind == "users"
    executors = [config.groups[0].executor for config in api.runs.case_configs(lock).values()]
    assert [executor.most_vus for executor in executors] == [2, 4, 8]


def test_every_command_reads_an_imported_run(jtl: ImportedRun, tmp_path: Path) -> None:
    path = str(jtl.run.path)
    _, written = api.report(jtl.run)
    assert {"report.html", "report.xlsx", "junit.xml", "findings.json"} <= set(written)
    assert api.verify(path)["damage"] == []
    assert api.query(path, "select count(*) from samples")[1] == [(len(LOAD),)]
    assert api.pack(path, tmp_path / "a.svload.zip").is_file()
    assert "imported" in api.openmetrics(path)
    assert api.compare(path, path, page=tmp_path / "c.html")[1].is_file()
    json.loads(api.why(path, jtl.findings.trials[0].trial).model_dump_json())


def _shift(path: Path, by_ms: int) -> None:
    """Return the same load, this much later."""
    head, *rows = (row.split(",", 1) for row in path.read_text().splitlines())
    moved = [[str(int(stamp) + by_ms), rest] for stamp, rest in rows]
    path.write_text("".join(",".join(row) + "\n" for row in [head, *moved]))


def table(text: str, name: str = "results", **about: Any) -> Table:
    """Return a table from its text, one row per line."""
    rows = [line.split(",") for line in text.strip().splitlines()]
    names = [cell.strip() for cell in rows[0]]
    columns = {column: tuple(row[place].strip() for row in rows[1:]) for place, column in enumerate(names)}
    lines = tuple(range(2, len(rows) + 1))
    return Table(name, f"{name}.csv", columns, lines, About.model_validate(about))


def judged(check: str, *tables: Table) -> TableCheckResult:
    (result,) = [one for one in judge_tables(tables) if one.check == check]
    return result


def pair(text: str, planted: object, clean: object, **about: Any) -> tuple[list[Table], list[Table]]:
    """Return a planted and a clean table, from a text with the place of what differs."""
    return [table(text.format(planted), **about)], [table(text.format(clean), **about)]


def times(*cells: str) -> Table:
    """Return six cases with their means before and after; those that are not given are equal."""
    rows = [f"{case},{one}" for case, one in zip("ABCDEF", [*cells, *["2,2"] * 6], strict=False)]
    return table("\n".join(["case,mean_before_s,mean_after_s", *rows]), "times")


def rates(before_pct: float) -> Table:
    return table(f"case,success_before_pct,success_after_pct\nA,{before_pct},100", "rates")


def improved(pct: int, name: str = "one") -> Table:
    return table(f"first_case,second_case,improvement_pct\nA,B,{pct}", name)


CLOSED = {"given": {"users": 50, "load": "closed"}}
CPUS = "cpus,throughput_per_s\n1.0,100\n"
THINKS = "delay_ms,mean_response_ms,throughput_per_s\n0,250,200\n200,50,{}"
IMPROVED = "case,mean_before_s,mean_after_s,improvement_pct\nA,1,{}"
DESIGN = "case,load,server\nA,idle,hit\nB,idle,miss\nC,idle,hit\nD,busy,hit\nE,busy,miss\nF,busy,hit"
HITS = table(DESIGN, "cases")
NAMED = [times("2,4", "1,1"), improved(50)]
SHIFTED = "test,servers,median_ms,out_streams\n1,1,10,3\n1,1,10,6\n1,1,10,9\n2,2,{0},3\n2,2,{0},6\n2,2,{0},9"
SENT = {"columns": {"mean": "response"}, "given": {"payload": "5 MB", "stated_unit": "ms"}}
UP_TO = {"text": "80 %", "column": "improvement_pct", "value": 80}
QUOTE = {"text": "A", "where": {"test": "A"}, "column": "median_ms", "value": 13}
MODEL = {"text": "y of x", "target": "y", "of": ["x"], "group": "g"}
GROUPS = "g,x,y\na,1,10\na,2,20\nb,{0}1,10\nb,{0}2,20\nc,{0}{0}1,10\nc,{0}{0}2,20"
ONE = "a,mean_ms\n1,1"
CASES: list[tuple[str, list[Table], list[Table]]] = [
    # check; tables in which it finds something, those just beyond its limit; tables just within or clean
    ("littles-law", *pair("cpus,mean_response_ms,throughput_per_s\n1,{},5", 10_350, 10_250, **CLOSED)),
    ("delay-is-think-time", *pair(THINKS, 208, 212, **CLOSED)),
    ("delay-is-think-time", *pair(THINKS + "\n100,,", 208, 212, **CLOSED)),
    ("think-time-slows", *pair("delay_ms,mean_response_ms\n0,250\n200,{}", 350, 255, **CLOSED)),
    ("think-time-slows", *pair("delay_ms,mean_response_ms\n200,250\n{},350", 400, 200, **CLOSED)),
    ("saturated-from-first-level", *pair("users,throughput_per_s\n1,100\n4,105\n16,{}", 114, 120)),
    ("saturated-from-first-level", *pair("users,throughput_per_s\n1,100\n4,101{}", "\n16,99", "")),
    (
        "ramp-in-statistics",
        *pair("users,run_time_s,mean_response_ms\n50,{},5", 450, 550, given={"spawn_rate": "1/s"}),
    ),
    ("limit-never-acted", *pair(CPUS + "0.5,{}", 86, 82)),
    ("smaller-limit-faster", *pair(CPUS + "0.9,{}", 106, 104)),
    ("elasticity-out-of-range", *pair(CPUS + "0.9,{}", 86.5, 89)),
    ("elasticity-out-of-range", *pair(CPUS + "0.9,{}", 102.5, 101.8)),
    ("means-of-survivors", [times("1,3"), rates(99.4)], [times("1,3"), rates(99.6)]),
    ("means-of-survivors", [times("1,3"), rates(60)], [times("3,1"), rates(60)]),
    ("improvement-over-the-larger", *pair(IMPROVED, "4,-70", "4,-68")),
    ("improvement-over-the-larger", *pair(IMPROVED, "1.4,-28", "1.36,-28")),
    ("improvement-over-the-larger", *pair(IMPROVED, "4,-75", "4,-300\nB,4,1,75")),
    ("means-not-named", [*NAMED, improved(75, "other")], [*NAMED, improved(50, "other")]),
    ("effect-reverses", [times("1,2.6", "1.3,2"), improved(50)], [times("1,2.3", "1.3,2"), improved(50)]),
    ("effect-reverses", [times("1,2", "1.3,1"), improved(50)], [times("1,2", "1.2,1"), improved(50)]),
    (
        "gain-from-one-level",
        [times(*["2,1"] * 3, "1,2", "1,2", "2,1"), HITS],
        [times(*["2,1"] * 5, "1,2"), HITS],
    ),
    ("headline-rows", *pair("case,improvement_pct\nA,80\nB,{}\nC,-60", 5, 80.4, headlines=[UP_TO])),
    ("hits-unverified", [times("2,2.6", "2,2"), HITS], [times("2,2.6", "2,2.2"), HITS]),
    ("layers-at-once", *pair("layer,parameter,default,final\ncache,threads,1,2\nkernel,backlog,1,{}", 2, 1)),
    ("no-replicates", *pair("case,mean_ms{}", "\nA,1", ",ci_low,ci_high\nA,1,0.9,1.1")),
    ("unmentioned-shift", *pair(SHIFTED, 23, 17, derive={"servers": "test.0"})),
    ("unmentioned-shift", *pair(SHIFTED.replace("\n1,", "\nram,"), 23, 17, derive={"test": "id.0"})),
    ("unit-impossible", *pair("users,mean\n1,{}", 0.36, 0.46, **SENT)),
    ("too-few-requests", *pair("size,requests\n1,{}", 90, 110)),
    ("not-bracketed", *pair("size,n_star\n1,{}", 1, 4)),
    ("bottleneck-without-evidence", *pair("size,{},CPU", "bottleneck\n1", "cpu_pct,bottleneck\n1,99")),
    ("mean-far-from-median", *pair("case,median_ms,mean_ms\nA,1,{}", 2.3, 1.7)),
    ("quote-differs", *pair("test,median_ms,cpu_pct\nA,{},20", 20, 13, quotes=[QUOTE])),
    ("held-out-prediction", *pair(GROUPS, 10, "", models=[MODEL])),
    ("same-host", [table(ONE, given={"same_host": True})], [table(ONE)]),
    (
        "generator-shared",
        [table(ONE, given={"generator_shares": "its disk"})],
        [table(ONE, given={"same_host": True})],
    ),
]


@pytest.mark.parametrize(("check", "planted", "clean"), CASES)
def test_it_finds_what_is_planted_and_nothing_else(
    check: str, planted: list[Table], clean: list[Table]
) -> None:
    result = judged(check, *planted)
    assert result.measured and result.findings
    assert all(finding.sentence.endswith(".") and finding.instead for finding in result.findings)
    assert judged(check, *clean).findings == ()


@pytest.mark.parametrize(
    "odd",
    [
        table("users,cpus,throughput_per_s\n1,1,1e300\n1,2,1e-300"),
        table("users,mean_response_ms\n1,1e-320", given={"payload": "5 MB", "stated_unit": "ns"}),
        table("g,x,y\n1,1e300,1\n2,1,2\n3,2,3", models=[MODEL | {"of": ["x^2"]}]),
        table("users,delay_ms,mean_response_ms\n1,-5,5"),
        table("users,run_time_s,delay_ms,mean_response_ms\n0,0,5,5", given={"spawn_rate": "1/s"}),
        table("case,mean_before_s,mean_after_s,first_case,second_case\nA,1e300,1,A,B\nB,1e-300,2,A,B"),
    ],
    ids=["ratio", "unit", "square", "negative delay", "nobody for no time", "ratio of times"],
)
def test_no_check_fails_at_an_extreme_cell(odd: Table) -> None:
    judge_tables([odd])


def test_a_columns_numbers_are_read_once_for_all_pairs_of_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    read, numbers = list[str](), Table.numbers
    monkeypatch.setattr(Table, "numbers", lambda self, name: read.append(name) or numbers(self, name))
    rows = [f"{level},{level},10,{streams}" for level in range(20) for streams in (3, 6, 9)]
    text = "\n".join(["test,servers,median_ms,out_streams", *rows])
    assert judged("unmentioned-shift", table(text, derive={"servers": "test.0"})).measured
    assert read.count("median_ms") < 20


@pytest.mark.parametrize(("ms", "least"), [(0, "no delay"), (100, "a delay of 100 ms")])
def test_a_response_is_compared_with_that_of_the_least_delay(ms: int, least: str) -> None:
    slow = table(f"delay_ms,mean_response_ms\n200,350\n{ms},250", given=CLOSED["given"])
    (found,) = judged("think-time-slows", slow).findings
    assert f"+40 % against {least}, and" in found.sentence


@pytest.mark.parametrize(("rate", "hinted"), [(130, True), (132.5, False)])
def test_a_flat_rate_within_a_twentieth_of_a_links_hints_at_it(rate: float, hinted: bool) -> None:
    """1 Gbit/s is 125 MB per second."""
    flat = table(f"users,throughput_per_s\n1,{rate}\n4,{rate}\n16,{rate}", given={"payload": "1 MB"})
    (found,) = judged("saturated-from-first-level", flat).findings
    assert ("perhaps a link of 1 Gbit/s" in found.sentence) == hinted


def test_every_check_has_its_cases() -> None:
    assert {check.name for check in all_table_checks()} == {check for check, *_ in CASES}


def test_what_no_column_holds_is_not_measured() -> None:
    results = judge_tables([table("colour,shape\nred,round")])
    assert {one.check for one in results if one.measured} == set()
    assert all(one.sentence.startswith("Not measured: it needs ") for one in results)


@pytest.mark.parametrize(("cell", "is_one"), [("1,234.5", None), ("-3", -3.0), ("1e3", 1000.0), ("1e999", None), ("=1+1", None), ("nan", None), ("", None)])  # fmt: skip
def test_a_cell_is_a_number_or_none(cell: str, is_one: float | None) -> None:
    assert number(cell) == is_one or (is_one is None and number(cell) != number(cell))


REPORTS = {
    "English": "Label,# Samples,Average,Median,90% Line,Min,Max,Error %,Throughput",
    "German": "Label;Anz. der Proben;Durchschnitt;Mittel;90% Line;Min;Max;% Fehler;Durchsatz",
    "Chinese": "Label,# 样本,平均值,中位数,90% 百分位,最小值,最大值,异常 %,吞吐量",
    "Turkish": "Etiket;# Örnek;Ortalama;Ortalama;90% Line;En Az;En Çok;Hata %;Transfer Oranı",
}


@pytest.mark.parametrize("language", REPORTS)
def test_a_saved_report_in_its_language(language: str, tmp_path: Path) -> None:
    header = REPORTS[language]
    sign = ";" if ";" in header else ","
    mark = "," if sign == ";" else "."
    row = sign.join(["Start 你好", "1200", "20", "18", "31", "5", "640", f"0{mark}25%", f"12{mark}5"])
    path = tmp_path / "report.csv"
    path.write_text(f"{header}\n{row}\n", encoding="utf-8")
    table = read_table_file(path)
    assert table.quantity("requests") == [1200.0]
    assert table.quantity("response") == [0.02]
    assert table.quantity("throughput") == [12.5]
    assert table.numbers("median_response_ms") == [18.0]
    assert table.numbers("p90_ms") == [31.0] and table.columns["label"] == ("Start 你好",)


def test_a_table_with_some_of_these_words_keeps_its_names(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("Median,Throughput,users\n1,2,3\n", encoding="utf-8")
    assert list(read_table_file(path).columns) == ["Median", "Throughput", "users"]


def test_a_csv_without_results_is_refused_with_what_could_be_imported(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("id;when;what\n1;2026-01-01;login\n", encoding="utf-8")
    assert api.are_tables([str(path)])
    with pytest.raises(SvloadError, match="no check of tables knows a column of it") as raised:
        api.check_tables([str(path)])
    assert "NAME_stats_history.csv" in str(raised.value) and "results.jtl" in str(raised.value)
    assert raised.value.exit_code == 2


def test_locusts_summary_asks_for_its_history(tmp_path: Path) -> None:
    path = tmp_path / "load_stats.csv"
    path.write_text("Type,Name,Request Count,Average Response Time\nGET,/,1,5.5\n", encoding="utf-8")
    (sentence,) = api.better_files([str(path)])
    assert "load_stats_history.csv" in sentence
    own = tmp_path / "own.csv"
    own.write_text("users,throughput_per_s\n1,2\n", encoding="utf-8")
    assert api.better_files([str(own)]) == []
