"""Checks of finished tables: each finds its planted table and is silent on its clean one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from svload.tables.checks import all_table_checks, judge_tables
from svload.tables.table import About, Table, TableCheckResult, number


def table(text: str, name: str = "results", **about: Any) -> Table:
    """A table from its text, a row a line."""
    rows = [line.split(",") for line in text.strip().splitlines()]
    names = [cell.strip() for cell in rows[0]]
    columns = {column: tuple(row[place].strip() for row in rows[1:]) for place, column in enumerate(names)}
    lines = tuple(range(2, len(rows) + 1))
    return Table(name, f"{name}.csv", columns, lines, About.model_validate(about))


def judged(check: str, *tables: Table) -> TableCheckResult:
    (result,) = [one for one in judge_tables(tables) if one.check == check]
    return result


CLOSED = {"given": {"users": 50, "load": "closed"}}
TIMES = "case,mean_before_s,mean_after_s\nA,{}\nB,{}\nC,{}\nD,{}\nE,{}\nF,{}"
DESIGN = "case,load,server\nA,idle,hit\nB,idle,miss\nC,idle,hit\nD,busy,hit\nE,busy,miss\nF,busy,hit"
PAIRS = "first_case,second_case,improvement_pct\nA,B,50"


def times(*cells: str) -> Table:
    return table(TIMES.format(*cells), "times")


STEADY = times("2,2", "2,2", "2,2", "2,2", "2,2", "2,2")
CASES: Mapping[str, tuple[list[Table], list[Table]]] = {
    "littles-law": (
        [table("cpus,mean_response_ms,throughput_per_s\n1,12000,5", **CLOSED)],
        [table("cpus,mean_response_ms,throughput_per_s\n1,10000,5", **CLOSED)],
    ),
    "delay-is-think-time": (
        [table("delay_ms,mean_response_ms,throughput_per_s\n0,250,200\n200,50,200", **CLOSED)],
        [table("delay_ms,mean_response_ms,throughput_per_s\n0,250,200\n200,250,111", **CLOSED)],
    ),
    "think-time-slows": (
        [table("delay_ms,mean_response_ms\n0,250\n200,350", **CLOSED)],
        [table("delay_ms,mean_response_ms\n0,250\n200,255", **CLOSED)],
    ),
    "saturated-from-first-level": (
        [table("users,throughput_per_s\n1,100\n4,101\n16,99")],
        [table("users,throughput_per_s\n1,100\n4,390\n16,400")],
    ),
    "ramp-in-statistics": (
        [table("users,run_time_s,mean_response_ms\n50,100,5", given={"spawn_rate": "1/s"})],
        [table("users,run_time_s,mean_response_ms\n50,1000,5", given={"spawn_rate": "1/s"})],
    ),
    "limit-never-acted": (
        [table("cpus,throughput_per_s\n1.0,100\n0.5,98")],
        [table("cpus,throughput_per_s\n1.0,100\n0.5,52")],
    ),
    "smaller-limit-faster": (
        [table("cpus,throughput_per_s\n1.0,100\n0.9,110")],
        [table("cpus,throughput_per_s\n1.0,100\n0.9,101")],
    ),
    "elasticity-out-of-range": (
        [table("cpus,throughput_per_s\n1.0,100\n0.9,70")],
        [table("cpus,throughput_per_s\n1.0,100\n0.9,90")],
    ),
    "means-of-survivors": (
        [times("1,3", "2,2", "2,2", "2,2", "2,2", "2,2"), table("case,success_before_pct,success_after_pct\nA,60,100", "rates")],
        [times("3,1", "2,2", "2,2", "2,2", "2,2", "2,2"), table("case,success_before_pct,success_after_pct\nA,60,100", "rates")],
    ),
    "improvement-over-the-larger": (
        [table("case,mean_before_s,mean_after_s,improvement_pct\nA,1,4,-75")],
        [table("case,mean_before_s,mean_after_s,improvement_pct\nA,1,4,-300\nB,4,1,75")],
    ),
    "means-not-named": (
        [times("2,4", "1,1", "2,2", "2,2", "2,2", "2,2"), table(PAIRS, "one"), table(PAIRS.replace("50", "75"), "other")],
        [times("2,4", "1,1", "2,2", "2,2", "2,2", "2,2"), table(PAIRS, "one"), table(PAIRS, "other")],
    ),
    "effect-reverses": (
        [times("1,4", "2,2", "2,2", "2,2", "2,2", "2,2"), table(PAIRS, "pairs")],
        [times("1,1", "2,2", "2,2", "2,2", "2,2", "2,2"), table(PAIRS, "pairs")],
    ),
    "gain-from-one-level": (
        [times("2,1", "2,1", "2,1", "1,2", "1,2", "2,1"), table(DESIGN, "cases")],
        [times("2,1", "2,1", "2,1", "2,1", "2,1", "1,2"), table(DESIGN, "cases")],
    ),
    "headline-rows": (
        [table("case,improvement_pct\nA,80\nB,5\nC,-60", headlines=[{"text": "up to 80 %", "column": "improvement_pct", "value": 80}])],
        [table("case,improvement_pct\nA,80\nB,80.4\nC,-60", headlines=[{"text": "80 %", "column": "improvement_pct", "value": 80}])],
    ),
    "hits-unverified": (
        [times("2,2", "2,1", "2,2", "2,2", "2,2", "2,2"), table(DESIGN, "cases")],
        [STEADY, table(DESIGN, "cases")],
    ),
    "layers-at-once": (
        [table("layer,parameter,default,final\ncache,threads,1,2\nkernel,backlog,1,2")],
        [table("layer,parameter,default,final\ncache,threads,1,2\nkernel,backlog,1,1")],
    ),
    "no-replicates": ([table("case,mean_ms\nA,1")], [table("case,mean_ms,ci_low,ci_high\nA,1,0.9,1.1")]),
    "unmentioned-shift": (
        [table("test,servers,median_ms,out_streams\n1,1,10,3\n1,1,10,6\n1,1,10,9\n2,2,30,3\n2,2,30,6\n2,2,30,9", derive={"servers": "test.0"})],
        [table("test,servers,median_ms,out_streams\n1,1,10,3\n1,1,10,6\n1,1,10,9\n2,2,11,3\n2,2,12,6\n2,2,11,9", derive={"servers": "test.0"})],
    ),
    "unit-impossible": (
        [table("users,mean\n1,0.1", columns={"mean": "response"}, given={"payload": "5 MB", "stated_unit": "ms"})],
        [table("users,mean\n1,100", columns={"mean": "response"}, given={"payload": "5 MB", "stated_unit": "ms"})],
    ),
    "too-few-requests": ([table("size,requests\n1,12")], [table("size,requests\n1,1200")]),
    "not-bracketed": ([table("size,n_star\n1,1")], [table("size,n_star\n1,4")]),
    "bottleneck-without-evidence": ([table("size,bottleneck\n1,CPU")], [table("size,cpu_pct,bottleneck\n1,99,CPU")]),
    "mean-far-from-median": ([table("case,median_ms,mean_ms\nA,1,5")], [table("case,median_ms,mean_ms\nA,1,1.3")]),
    "quote-differs": (
        [table("test,median_ms,cpu_pct\nA,13,20", quotes=[{"text": "A", "where": {"test": "A"}, "column": "median_ms", "value": 20}])],
        [table("test,median_ms,cpu_pct\nA,13,20", quotes=[{"text": "A", "where": {"test": "A"}, "column": "median_ms", "value": 13}])],
    ),
    "held-out-prediction": (
        [table("g,x,y\na,1,10\na,2,20\nb,10,10\nb,20,20\nc,100,10\nc,200,20", models=[{"text": "y of x", "target": "y", "of": ["x"], "group": "g"}])],
        [table("g,x,y\na,1,10\na,2,20\nb,1,10\nb,2,20\nc,1,10\nc,2,20", models=[{"text": "y of x", "target": "y", "of": ["x"], "group": "g"}])],
    ),
    "same-host": ([table("a,mean_ms\n1,1", given={"same_host": True})], [table("a,mean_ms\n1,1")]),
    "generator-shared": (
        [table("a,mean_ms\n1,1", given={"generator_shares": "its disk"})],
        [table("a,mean_ms\n1,1", given={"same_host": True})],
    ),
}  # fmt: skip


def test_every_check_has_its_cases() -> None:
    assert {check.name for check in all_table_checks()} == set(CASES)


@pytest.mark.parametrize("check", sorted(CASES))
def test_it_finds_what_is_planted(check: str) -> None:
    result = judged(check, *CASES[check][0])
    assert result.measured and result.findings
    assert all(finding.sentence.endswith(".") and finding.instead for finding in result.findings)


@pytest.mark.parametrize("check", sorted(CASES))
def test_it_is_silent_on_what_is_clean(check: str) -> None:
    assert judged(check, *CASES[check][1]).findings == ()


def test_what_no_column_holds_is_not_measured() -> None:
    results = judge_tables([table("colour,shape\nred,round")])
    assert {one.check for one in results if one.measured} == set()
    assert all(one.sentence.startswith("Not measured: it needs ") for one in results)


@pytest.mark.parametrize(("cell", "is_one"), [("1,234.5", None), ("-3", -3.0), ("1e3", 1000.0), ("1e999", None), ("=1+1", None), ("nan", None), ("", None)])  # fmt: skip
def test_a_cell_is_a_number_or_none(cell: str, is_one: float | None) -> None:
    assert number(cell) == is_one or (is_one is None and number(cell) != number(cell))


def test_odd_cells_break_no_check() -> None:
    """Every check reads a table of everything, whose cells are no numbers, zeros and infinities."""
    names = {name for planted, clean in CASES.values() for one in (*planted, *clean) for name in one.columns}
    for cell in ("", "0", "-1", "1e308", "x", "=cmd()", "\u202e1"):
        columns = dict.fromkeys(sorted(names), (cell, cell, "1"))
        about = About.model_validate(
            {
                "given": {
                    "users": 1,
                    "run_time": "1s",
                    "spawn_rate": "1/s",
                    "payload": "1 MB",
                    "stated_unit": "ms",
                }
            }
        )
        assert judge_tables([Table("odd", "odd.csv", columns, (2, 3, 4), about)])
