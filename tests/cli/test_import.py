"""`svload import` as a command: its output, the files it leaves, and one-line errors for unreadable input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.store import foreign_files as files

from svload.model.units import show_duration

STUDIES = Path(__file__).resolve().parents[2] / "studies"
Say = Callable[[str], tuple[int, str, str]]


def test_a_file_is_read_summarised_and_reported(svload: Say, tmp_path: Path) -> None:
    files.write_jtl(tmp_path / "results.jtl", files.closed_loop(lasts=10_000))
    code, out, err = svload("import results.jtl")
    assert code == 0 and "reading results.jtl" in err
    assert "requests from JMeter (results.jtl): 10 users of Users" in out
    assert "Little's law holds" in " ".join(out.split()) and "~ " in out
    assert (tmp_path / "runs" / "imported-1" / "derived" / "report.html").is_file()
    assert (tmp_path / "runs" / "latest").is_symlink()
    assert " ".join(svload("why results.r1")[1].split()).count("whose results hold no facts for it") == 1


@pytest.mark.parametrize(("every", "slow_ms"), [(10, 9_000), (3, 20_000)])
def test_failures_count_in_the_mean_of_all(svload: Say, tmp_path: Path, every: int, slow_ms: int) -> None:
    fails = [user % every == 0 for user in range(150)]
    load = [files.Asked(n, 50 * n, slow_ms if bad else 100, ok=not bad) for n, bad in enumerate(fails)]
    files.write_jtl(tmp_path / "a.jtl", load)
    _, out, _ = svload("import a.jtl --window all")
    means = [line.rpartition("mean ")[2] for line in out.splitlines() if "mean " in line]
    mean = sum(one.spent for one in load) / len(load)
    assert means[:2] == [show_duration(mean / 1e3), show_duration(0.1)]


def test_names_from_a_file_are_never_obeyed(svload: Say, tmp_path: Path) -> None:
    """Control characters, mark-up, formulas and paths in labels: in text, JSON and the workbook's cells."""
    hostile = ["\x1b[31mred", "[bold]x[/bold]", "=cmd()", "../../etc", "<script>", "a\u202eb"]
    load = [files.Asked(place % 2, 100 * place, 50, hostile[place % len(hostile)]) for place in range(60)]
    files.write_jtl(tmp_path / "a.jtl", load, group="\x1b]0;title\x07=1+1")
    code, out, _ = svload("import a.jtl --json")
    assert code == 0 and "\x1b" not in out and "\u202e" not in out
    assert json.loads(out)["imported"]["a.r1"]["requests"] == 60
    page = (tmp_path / "runs" / "imported-1" / "derived" / "report.html").read_text()
    assert "<script>0" not in page and "\x1b" not in page
    code, out, _ = svload("import a.jtl")
    assert code == 0 and "\x1b" not in out and "\x07" not in out
    assert not (tmp_path / "etc").exists()


def test_a_table_is_reported_by_name_with_its_line(svload: Say) -> None:
    path = STUDIES / "002-factorial-redis" / "reference" / "factorial.csv"
    code, out, _ = svload(f"import {path}")
    assert code == 0
    text = " ".join(out.split())
    assert "delay-is-think-time" in text and "did not make the server faster" in text
    assert "factorial.csv:2)" in "".join(out.split())
    code, out, _ = svload(f"import --as table {path} --given users=60 --json")
    checks = {one["check"]: one for one in json.loads(out)["checks"]}
    assert code == 0 and not checks["delay-is-think-time"]["findings"]
    assert not checks["unit-impossible"]["measured"]


def test_locusts_final_statistics_are_a_table(svload: Say, tmp_path: Path) -> None:
    rows = "Type,Name,Request Count,Failure Count,Average Response Time,Requests/s\nGET,/,6000,0,500,120\n"
    (tmp_path / "x_stats.csv").write_text(rows)
    code, out, _ = svload("import x_stats.csv --given users=50 --given load=closed")
    assert code == 0 and "X·(R + Z) is 60 with 50 users (+20 %)" in " ".join(out.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import none.jtl", "none.jtl cannot be imported: there is no such file"),
        ("import .", "it is not a regular file"),
        ("import ../x=results.jtl", "is not a valid level name"),
        ("import torn.jtl", "torn.jtl:3: torn.jtl cannot be imported: elapsed is not a whole number"),
        ("import torn.jtl --given users=5", "--given applies only to finished tables"),
        ("import --as table torn.jtl --given users", "--given users is not NAME=VALUE"),
        ("import table.csv --name mine", "--name applies to a run, but a finished table is only checked"),
        ("import --as table table.csv --window all", "--window applies to a run"),
        ("import torn.jtl table.csv", "from different load testers"),
        ("import stats.txt", "its first line matches no known format"),
        ("import results.jtl --factor 9", "--factor takes a name"),
        ("import results.jtl --factor case", "“case” is a column of svload's own table of cases"),
        ("import results.jtl --factor request", "svload: factors.request: “request” is a reserved word"),
        ("import", "Missing argument"),
        ("export latest --format jtl", "There is no run"),
    ],
)
def test_what_is_wrong_is_one_line(svload: Say, tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "torn.jtl").write_text("timeStamp,elapsed,success\n17,1,true\n17,x,true\n")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "stats.txt").write_text("nothing that is known\n")
    files.write_jtl(tmp_path / "results.jtl", files.closed_loop(users=1, lasts=500))
    code, _, err = svload(line)
    assert code == 2 and expected in " ".join(err.split()) and "Traceback" not in err
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())
