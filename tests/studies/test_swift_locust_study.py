"""studies/004-swift-locust: the paper's users and times, its queries' results, its committed run."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from tests.studies.scripts import check_readme, check_whole, packed, words_of

from svload import api
from svload.api.studies import misfits
from svload.lab import copies, find_mistakes, kit_options
from svload.model.executors import ConstantVus
from svload.model.study import CaseConfig
from svload.run.fits import overfull, written_bytes
from svload.store import RunDir
from svload.study import load_study, resolve

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parents[2] / "studies/004-swift-locust"
S_NS = 1_000_000_000
SHOWN = (
    "The paper's summary, ours beside it",
    "More users: which way it goes",
    "What the ramp does to the statistics",
)
run = packed(STUDY / "example/swift-locust-short.svload.zip")


def test_its_run_is_whole_and_the_readme_shows_what_its_tables_say(run: RunDir) -> None:
    """The tables are those of the pack: tables.py makes them from rows, which a thin pack lacks."""
    findings = api.runs.analyse(run)
    check_whole(run, findings, 12)
    assert {trial.verdict.instrument for trial in findings.trials} <= {"VALID", "WEAK"}
    assert "12 trials in 8 min 9 s, none of them refused" in words_of(STUDY / "README.md")
    tables = {one.title: one for one in api.read_tables(run.tables_path)}
    assert len(tables) == 7
    check_readme(STUDY, *(tables[title] for title in SHOWN))


def configs(profile: str | None, file: str = "study.yaml") -> list[CaseConfig]:
    made = load_study(STUDY / file, profile=profile, kits=kit_options(), check_lab=find_mistakes)
    return [resolve(made, case) for case in made.valid_cases]


def test_users_and_times_are_the_papers() -> None:
    paper = list(csv.DictReader((STUDY / "reference/summary.csv").open()))
    found = []
    for config in configs(None):
        [group] = config.groups
        executor = group.executor
        assert isinstance(executor, ConstantVus)
        assert executor.ramp_up_ns == executor.vus * S_NS, "one user a second"
        assert executor.think_time.uniform_ns == (S_NS, 2 * S_NS)
        found.append((executor.vus, (executor.ramp_up_ns + config.measure.duration_ns) // S_NS))
        assert [(one.count, one.size) for one in config.objects] == [(20, {"constant": 5_000_000})]
    assert found == [(int(row["users"]), int(row["run_time_s"])) for row in paper]


STATISTICS = ("mean", "std", "min", "p25", "p50", "p75", "max")


def scaled(served_per_s: float) -> dict[tuple[int, str], dict[str, float]]:
    """Return scale.sql's result for a server that is full from the first user on: users / served_per_s."""
    with duckdb.connect(":memory:") as base:
        base.execute("create table cases (case_name text, users text)")
        base.execute("create table trials (trial text, window_from_ns bigint, window_to_ns bigint)")
        base.execute(
            "create table samples (trial text, case_name text, error int, due_ns bigint, done_ns bigint)"
        )
        for users, seconds in ((10, 70), (50, 130), (100, 150), (150, 170)):
            name = f"vus-{users}"
            base.execute("insert into cases values (?, ?)", [name, name])
            base.execute("insert into trials values (?, ?, ?)", [name, users * S_NS, seconds * S_NS])
            base.execute(
                "insert into samples select $name, $name, 0, cast((at_s - least(at_s, $users) / $rate) * 1e9 as bigint),"
                " cast(at_s * 1e9 as bigint) from (select n / $rate as at_s from range(1, cast(2 * $seconds * $rate as int)) t(n))",
                {"name": name, "users": users, "rate": served_per_s, "seconds": seconds},
            )
        return {(row["users"], row["who"]): row for row in answer_of(base, "scale")}


def answer_of(base: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    """Return the rows that a query of the study finds in this database."""
    answer = base.execute((STUDY / f"queries/{query}.sql").read_text())
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def test_the_paper_beside_a_run_is_the_papers_table() -> None:
    found = scaled(40.0)
    for row in csv.DictReader((STUDY / "reference/summary.csv").open()):
        result = found[int(row["users"]), "paper"]
        for name in STATISTICS:
            of_mean = pytest.approx(float(row[f"{name}_s"]) / 0.37, abs=0.005)
            assert result[f"{name}_x"] == of_mean, (row["users"], name)
    rates = [found[users, "paper"]["per_s"] for users in (10, 50, 100, 150)]
    assert rates == pytest.approx([25.1, 24.8, 25.3, 25.7], abs=0.05)


def made_up(tables: Mapping[str, str], sql: str, **rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the result of a query of the study over tables with these rows."""
    with duckdb.connect(":memory:") as base:
        for name, columns in tables.items():
            base.execute(f"create table {name} ({columns})")
            for row in rows.get(name, ()):
                base.execute(f"insert into {name} values ({', '.join('?' * len(row))})", list(row))
        return answer_of(base, sql)


def downloads(times_s: Sequence[float], trial: str = "t", case: str = "vus-10") -> list[tuple[Any, ...]]:
    """Return ok downloads of one user, one after the other, each of another row."""
    rows, at_ns = [], 0
    for number, time_s in enumerate(times_s):
        done_ns = at_ns + int(time_s * S_NS)
        rows.append((trial, case, "users", 0, number, number, 0, at_ns, at_ns, done_ns))
        at_ns = done_ns
    return rows


TEN = ("vus-10", "vus-10")
OF_DOWNLOADS = {
    "cases": "case_name text, users text",
    "trials": "trial text, case_name text, window_from_ns bigint, window_to_ns bigint",
    "samples": "trial text, case_name text, group_name text, vu int, seq int, row int, error int,"
    " due_ns bigint, begun_ns bigint, done_ns bigint",
    "monitors": "trial text, offset_ns bigint, service text, monitor text, entity text, metric text, value double",
    "verdicts": "trial text, case_name text, instrument text",
}


def test_outliers_have_the_whole_services_cpu_once() -> None:
    """The monitor reads a service as a whole and process by process: 1.5 cores are not 3."""
    readings = [
        ("t", second * S_NS, "swift", "process", entity, "cpu_seconds_total", cores * second)
        for second in range(30)
        for entity, cores in (("proxy", 0.5), ("object", 1.0), ("", 1.5))
    ]
    readings += [("t", at * S_NS, "", "host", "cpu0", "cpu_seconds_total", at) for at in range(30)]
    samples = downloads([0.5, 0.6] * 10 + [5.0])
    trials = [("t", "vus-10", 0, 100 * S_NS)]
    found = made_up(OF_DOWNLOADS, "outliers", cases=[TEN], trials=trials, samples=samples, monitors=readings)
    assert [(row["row"], row["servers_then"]) for row in found] == [(20, "swift 1.5 cores")]


def test_each_level_shows_its_own_outliers() -> None:
    """Slower ones at another level don't displace any."""
    cases = [TEN, ("vus-150", "vus-150")]
    trials = [(name, name, 0, 10_000 * S_NS) for name, _ in cases]
    fast = downloads([0.1, 0.11] * 40 + [1.0, 1.1, 1.2], *TEN)
    slow = downloads([1.0, 1.1] * 200 + [9.0 + n for n in range(60)], "vus-150", "vus-150")
    found = made_up(OF_DOWNLOADS, "outliers", cases=cases, trials=trials, samples=[*fast, *slow])
    assert [row["users"] for row in found] == 3 * ["vus-10"] + 5 * ["vus-150"]
    assert [row["response_s"] for row in found] == pytest.approx([1.2, 1.1, 1.0, 68, 67, 66, 65, 64])


@pytest.mark.parametrize(
    ("rows", "in_order"),
    [
        ([0, 1, 2, 3] * 5, 1.0),  # a script that begins again after the last
        ([2, 3, 0, 1] * 5, 1.0),
        ([0, 1, 2, 0, 1, 3], 0.6),  # 2 → 0 is no wrap, since there is a 3
        ([0, 2, 1, 3, 0, 2, 1, 3], 0.143),
    ],
)
def test_a_walk_through_the_list_is_in_order_over_its_end(rows: list[int], in_order: float) -> None:
    user = ("t", "vus-10", "users", 0)
    samples = [(*user, seq, row, 0, seq * S_NS, seq * S_NS, seq * S_NS + 1) for seq, row in enumerate(rows)]
    trials = [("t", "vus-10", 0, S_NS)]
    [found] = made_up(OF_DOWNLOADS, "sent", cases=[TEN], trials=trials, samples=samples)
    assert (found["objects"], found["in_order"]) == (4, in_order)


def test_the_spread_is_of_trials_that_were_not_refused() -> None:
    times = {"a": [1.0, 2.0, 3.0, 4.0, 20.0], "b": [1.0, 1.0, 1.0, 1.0]}
    rows = {
        "trials": [(name, "vus-10", 0, 1000 * S_NS) for name in times],
        "samples": [row for name, some in times.items() for row in downloads(some, name)],
        "verdicts": [("a", "vus-10", "WEAK"), ("b", "vus-10", "REFUSED")],
    }
    found = made_up(OF_DOWNLOADS, "spread", cases=[TEN], **rows)
    assert [(row["trial"], row["iqr_s"], row["beyond"]) for row in found] == [("a", 2.0, 0.2)]


def test_operations_are_reported_by_second() -> None:
    """In 10 s of one trial: a put and two reads of 200 KiB that were ok, one failed, one before the
    window."""
    row = "t", "middle", "users"
    samples = [
        (*row, 0, 0, 11 * S_NS, 12 * S_NS, 0),
        (*row, 1, 0, 12 * S_NS, 13 * S_NS, 204_800),
        (*row, 1, 0, 13 * S_NS, 16 * S_NS, 204_800),
        (*row, 1, 7, 14 * S_NS, 15 * S_NS, 99),
        (*row, 1, 0, 1 * S_NS, 2 * S_NS, 204_800),
        ("t", "middle", "prepare", 0, 0, 12 * S_NS, 13 * S_NS, 0),
    ]
    tables = {
        "cases": "case_name text, size text",
        "trials": OF_DOWNLOADS["trials"],
        "samples": "trial text, case_name text, group_name text, step int, error int, due_ns bigint,"
        " done_ns bigint, body_bytes bigint",
    }
    trials = [("t", "middle", 10 * S_NS, 20 * S_NS)]
    put, get = made_up(tables, "operations", cases=[("middle", "middle")], trials=trials, samples=samples)
    assert (put["operation"], put["ok_per_s"], put["mb_per_s"]) == ("put", 0.1, pytest.approx(0.02048))
    assert (get["operation"], get["asked"], get["ok_per_s"]) == ("get", 3, 0.2)
    assert (get["failed"], get["p50_s"], get["mb_per_s"]) == pytest.approx((1 / 3, 2.0, 0.04096))


def test_consistency_knows_a_look_by_its_place() -> None:
    [config] = configs(None, "consistency.yaml")
    names = [step.name.partition("-")[0] for step in config.groups[0].steps]
    assert names == 3 * ["first", "second", "listed"]


def test_stale_lost_and_missed_are_distinguished() -> None:
    def one(group: str, seq: int, step: int, at_s: float, **words: Any) -> tuple[Any, ...]:
        result = {"error": 0, "error_name": "", "status": 200, "body_bytes": 20_000} | words
        begun_ns = int(at_s * S_NS)
        return ("t", group, seq, step, begun_ns, begun_ns + S_NS // 10, *result.values())

    check = {"error": 5, "error_name": "check"}
    samples = [
        one("writers", 1, 0, 1.0), one("writers", 1, 1, 2.0), one("writers", 1, 2, 2.1),
        one("writers", 2, 0, 1.0), one("writers", 2, 1, 2.0), one("writers", 2, 2, 2.1, **check, status=204),
        one("writers", 3, 6, 1.0), one("writers", 3, 7, 2.0), one("writers", 3, 8, 14.1, **check),
        one("writers", 4, 3, 1.0), one("writers", 4, 4, 2.0), one("writers", 4, 5, 6.1, error=3, error_name="status", status=503),
        one("readers", 0, 0, 3.0), one("readers", 0, 0, 3.1, **check, body_bytes=10_000),
        one("readers", 1, 0, 3.2, **check, body_bytes=7), one("readers", 2, 0, 3.3, error=3, error_name="status", status=404),
    ]  # fmt: skip
    columns = (
        "trial text, group_name text, seq int, step int, begun_ns bigint, done_ns bigint,"
        " error int, error_name text, status int, body_bytes bigint"
    )
    found = made_up({"samples": columns}, "consistency", samples=samples)
    result = {(row["what"], row["outcome"]): row for row in found}
    assert {key: row["share"] for key, row in result.items()} == {
        ("look at once", "listed"): 0.5, ("look at once", "missed"): 0.5, ("look after 12 s", "missed"): 1.0, ("look after 4 s", "failed"): 1.0,
        ("read", "verified"): 0.25, ("read", "stale"): 0.25, ("read", "altered"): 0.25, ("read", "lost"): 0.25,
    }  # fmt: skip
    assert result["look at once", "missed"]["least_age_s"] == pytest.approx(0.0)
    assert result["look after 12 s", "missed"]["greatest_age_s"] == pytest.approx(12.0)
    assert result["read", "stale"]["least_age_s"] is None


@pytest.mark.parametrize(("profile", "bytes_written"), [(None, 1 << 30), ("ring", 3 << 30)])
def test_a_large_object_is_planned_with_its_copies(profile: str | None, bytes_written: int) -> None:
    [config] = configs(profile, "large.yaml")
    known = copies(config.services)
    assert sum(written_bytes(config, known).values()) == bytes_written
    assert overfull([config], bytes_written / 0.79, known) == ()
    assert overfull([config], bytes_written / 0.81, known)


def test_the_smaller_disk_of_cache_and_labs_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with a set keeps it below the cache, one without writes below the lab's folder."""
    for name in ("cache", "state"):
        monkeypatch.setenv(f"SVLOAD_{name.upper()}", str(tmp_path / name))
        (tmp_path / name).mkdir()
    planned = configs("ring", "large.yaml")
    free = {"cache": 100 << 30, "state": 100 << 30}

    def usage(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(free=free[Path(folder).name])

    monkeypatch.setattr("svload.api.studies.shutil.disk_usage", usage)
    assert misfits(planned, "here") == []
    for small in free:
        free.update({"cache": 100 << 30, "state": 100 << 30, small: 3 << 30})
        [problem] = misfits(planned, "here")
        assert problem.code == "plan-too-large", small
