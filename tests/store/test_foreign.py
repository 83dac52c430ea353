"""Imported files of other load testers give exact tables, whatever was cut, nested or written in words."""

from __future__ import annotations

import csv
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store import foreign_files as files
from tests.store.foreign_files import read as made

from svload.model.errors import SvloadError
from svload.run.configs import case_configs
from svload.store import read_trial, verify_run
from svload.store.foreign.jtl import read_jtl, thread_group
from svload.store.foreign.jtl_xml import read_jtl_xml
from svload.store.foreign.lines import CUT
from svload.store.foreign.locust import MOST_SECONDS_A_ROW
from svload.store.foreign.nested import PLAIN, TRANSACTION, requests_among
from svload.store.foreign.run import form_of, read_foreign
from svload.store.foreign.stamps import day_first, has_fraction, is_stamp, unix_ms
from svload.store.foreign.tabulate import MOST_STEPS

LOAD = files.closed_loop(failing=0.03)
JTL = "timeStamp,elapsed,success,label\n"
K6 = "metric_name,timestamp,metric_value\n"
LOCUST = "Timestamp,User Count,Name,Total Request Count,Total Failure Count,Total Average Response Time\n"


@pytest.mark.parametrize("name", files.WRITERS)
def test_every_request_is_there_once(name: str, tmp_path: Path) -> None:
    path = files.WRITERS[name](tmp_path / name, LOAD)
    assert form_of(path) == files.FORMS[name]
    read = made(path)
    (group,) = read.groups
    assert group.begun == len(LOAD) == read.requests
    assert group.failed == sum(not one.ok for one in LOAD) and group.errors == {"status": group.failed}
    assert group.status == {"200": group.ok, "500": group.failed}
    samples = read.tables["samples"]
    spent = sorted((samples["done_ns"] - samples["begun_ns"]).tolist())
    assert spent == sorted(one.spent * 1_000_000 for one in LOAD)
    assert sorted(read.labels.values()) == ["buy, now", "home"]
    assert {step.name: step.begun for step in group.steps} == {
        "buy-now": sum(one.label == "buy, now" for one in LOAD),
        "home": sum(one.label == "home" for one in LOAD),
    }


@pytest.mark.parametrize("name", files.WRITERS)
def test_ramps_are_outside_the_window(name: str, tmp_path: Path) -> None:
    """Ten users start 300 ms apart: the window begins once nine are seen, and ends as the second leaves or
    nobody begins."""
    low, high = (read := made(files.WRITERS[name](tmp_path / name, LOAD))).window_ns
    k6 = files.FORMS[name] == "k6"
    slack = 1_100_000_000 if k6 else 130_000_000  # k6 reports its users once a second
    assert 2_400_000_000 - 1_000_000_000 * k6 <= low <= 2_400_000_000 + slack
    assert 20_000_000_000 - slack <= high <= 20_000_000_000
    assert set(read.users.values()) == {10}


def test_times_are_clipped_to_the_window_and_tables_agree(tmp_path: Path) -> None:
    """Little's law holds exactly: Σ clipped request time + the rest = N·T, computed differently than by
    the reader."""
    read = made(files.write_jtl(tmp_path / "a.jtl", LOAD))
    low, high = (edge // 1_000_000 for edge in read.window_ns)
    spent_ms = sum(max(min(one.begun + one.spent, high) - max(one.begun, low), 0) for one in LOAD)
    (group,) = read.groups
    assert group.request_ns == spent_ms * 1_000_000
    assert group.request_ns + group.think_ns == group.active_ns == 10 * (high - low) * 1_000_000
    assert group.completed_in_window == sum(low <= one.begun + one.spent < high for one in LOAD)
    totals = {"due": group.due, "ok": group.ok, "failed": group.failed, "completed_ok": group.ok}
    totals |= {"response_sum_ns": sum(one.spent for one in LOAD) * 1_000_000}
    totals |= {"bytes_received": 1234 * len(LOAD)}
    assert {column: int(read.tables["intervals"][column].sum()) for column in totals} == totals
    assert group.bytes_received == totals["bytes_received"]
    counts = read.tables["histograms"]
    counted = {code: int(counts["count"][counts["metric"] == code].sum()) for code in (0, 1, 2)}
    assert counted == {0: group.ok, 1: group.failed, 2: group.ok}


def test_a_locust_history_has_totals_and_no_percentile(tmp_path: Path) -> None:
    """Its small means have exponents."""
    path = files.write_history(tmp_path / "x_stats_history.csv", LOAD)
    assert form_of(path) == "locust"
    read = made(path)
    (group,) = read.groups
    last = max(one.begun + one.spent for one in LOAD) // 1000 * 1000
    counted = [one for one in LOAD if one.begun + one.spent <= last]
    assert not read.single and "histograms" not in read.tables
    assert group.begun == len(counted) and group.failed == sum(not one.ok for one in counted)
    total_ms = int(read.tables["intervals"]["response_sum_ns"].sum()) / 1e6
    assert total_ms == pytest.approx(sum(one.spent for one in counted), rel=1e-6)
    assert read.users == {"load": 10} and read.window_ns[0] == 3_000_000_000
    path.write_text(path.read_text().replace(",1234.0", ",9.5e-05"))
    assert made(path).groups[0].bytes_received == 0
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *lines[5:]]))
    earlier = len(counted) - made(path).requests
    assert f"{earlier} requests that ended before its first row are left out." in made(path).notes
    assert earlier > 0 and not any("left out" in note for note in read.notes)


def test_a_full_locust_history_has_steps(tmp_path: Path) -> None:
    """With --csv-full-history each name has rows: they are steps, whose sum is the whole."""
    whole = made(files.write_history(tmp_path / "x_stats_history.csv", LOAD))
    full = made(files.write_history(tmp_path / "y_stats_history.csv", LOAD, full=True))
    assert full.steps == {"load": ("buy-now", "home")} and whole.steps == {"load": ("all",)}
    (group,) = full.groups
    assert sum(step.due for step in group.steps) == group.due == whole.groups[0].due
    assert sum(step.failed for step in group.steps) == group.failed
    for column in ("due", "failed", "completed_ok"):
        assert int(full.tables["intervals"][column].sum()) == int(whole.tables["intervals"][column].sum())


@pytest.mark.parametrize(
    ("one", "other", "labels"),
    [
        ("GET,/", "POST,/", {"GET /", "POST /"}),
        ("GET,cart", "DELETE,cart", {"GET cart", "DELETE cart"}),
        ("GET,/", "POST,/buy", {"/", "/buy"}),
    ],
)
def test_two_methods_are_two_steps(one: str, other: str, labels: set[str], tmp_path: Path) -> None:
    """Their rows alternate, so the totals of a single name would decrease."""
    text = (Path(__file__).parent / "formats" / "locust_stats_history.csv").read_text()
    path = tmp_path / "x_stats_history.csv"
    path.write_text(text.replace("GET,/,", f"{one},").replace("GET,missing,", f"{other},"))
    read = made(path)
    assert set(read.labels.values()) == labels
    assert sum(step.due for step in read.groups[0].steps) == read.groups[0].due


def threads_file(path: Path, rows: Callable[[int], tuple[object, ...]], *names: str) -> Path:
    """Write sixty requests 20 ms apart, each with its cells under these names."""
    lines = [",".join(("timeStamp,elapsed,label,responseCode,success", *names))]
    for at in range(60):
        lines.append(",".join(map(str, (1_700_000_000_000 + 20 * at, 7, "/", 200, "true", *rows(at)))))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("threads", "groups"),
    [
        (("Browse 1-1", "Buy 2-1"), {"Browse", "Buy"}),  # several scenarios in one plan
        (("10.0.0.1-Buy 1-1", "10.0.0.2-Buy 1-1"), {"10.0.0.1-Buy", "10.0.0.2-Buy"}),  # several machines
        ((), {"load"}),  # a tool without threads
    ],
)
def test_taurus_groups(threads: tuple[str, ...], groups: set[str], tmp_path: Path) -> None:
    names = ("Latency", "allThreads", *["threadName"][: len(threads)])
    path = threads_file(tmp_path / "kpi.jtl", lambda at: (7, 2, *threads[at % 2 :][:1]), *names)
    assert form_of(path) == "jtl"
    read = made(path)
    assert set(read.group_names.values()) == groups
    assert set(read.users.values()) == ({1} if threads else {2}), "allThreads counts those of all groups"


def test_k6_has_the_users_of_all_scenarios_together(tmp_path: Path) -> None:
    path = files.write_k6_csv(tmp_path / "a.csv", LOAD)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join(line.replace(",default,", ",other,") if "buy" in line else line for line in lines)
    )
    assert any("doesn't record the users of each group; at most" in note for note in made(path).notes)


def test_users_of_groups_with_like_names_are_kept_apart(tmp_path: Path) -> None:
    rows = {True: ("a-b 1-1", 2), False: ("a_b 1-1", 1)}
    path = threads_file(tmp_path / "a.jtl", lambda at: rows[at % 3 > 0], "threadName", "grpThreads")
    groups = case_configs(files.imported(tmp_path, path).lock())["a"].groups
    assert {group.name: group.executor.most_vus for group in groups} == {"a-b": 2, "a_b": 1}


@pytest.mark.parametrize(
    ("one", "other", "left"),
    [
        ("10.0.0.1:1099-Buy tea 1-1,3,3", "10.0.0.2:1099-Buy tea 1-1,4,4", 4),
        ("load-1.example.com-Buy 1-1,3,3", "load-2.example.com-Buy 1-1,4,4", 4),
        ("first-Buy 1-1,3,3", "second-Buy 1-1,4,4", 4),
        ("read-tea 1-1,3,7", "write-tea 2-1,4,7", 7),  # on one machine
        ("Browse 1-1,3,7", "Buy 2-1,4,7", 7),
        ("Browse 1-1,3", "Buy 2-1,4", 4),
    ],
)
def test_users_of_all_machines_and_groups_are_added(one: str, other: str, left: int, tmp_path: Path) -> None:
    """Each machine of a distributed test counts its own threads as all. The first one ends earlier."""
    names = ("threadName", "grpThreads", "allThreads")[: one.count(",") + 1]
    path = threads_file(tmp_path / "a.jtl", lambda at: (other if at % 2 or at > 30 else one,), *names)
    users = read_jtl(path).users
    assert users is not None and (users.count.max(), users.count[-1]) == (7, left)


@pytest.mark.parametrize("name", ["-" * 200_000, "1" * 200_000])
def test_long_thread_names_take_no_quadratic_time(name: str) -> None:
    assert thread_group(name) == name and thread_group(f"{name}-a 1-2") == f"{name}-a"


@pytest.mark.parametrize("think", [0, 50])
def test_stamps_of_the_ends_are_seen(tmp_path: Path, think: int) -> None:
    """A thread makes one sample at a time, and JMeter writes it as it ends: this distinguishes stamps of
    ends from stamps of begins."""
    load = files.closed_loop(think=think)
    begins = made(files.write_jtl(tmp_path / "begins.jtl", load))
    ends = made(files.write_jtl(tmp_path / "ends.jtl", load, at_end=True))
    assert np.array_equal(begins.tables["samples"]["begun_ns"], ends.tables["samples"]["begun_ns"])
    assert any("timestamp.start=false" in note for note in ends.notes)
    assert not any("timestamp.start=false" in note for note in begins.notes)


def test_few_columns_suffice_and_what_is_missing_is_reported(tmp_path: Path) -> None:
    read = made(files.write_jtl(tmp_path / "a.jtl", LOAD, names=("timeStamp", "elapsed", "success")))
    assert read.users == {} and read.window_ns[0] == 3_000_000_000
    assert any("how many threads" in note for note in read.notes)
    edges = sorted([(one.begun, 1) for one in LOAD] + [(one.begun + one.spent, -1) for one in LOAD])
    level = most = 0
    for _, change in edges:
        level += change
        most = max(most, level)
    assert read.vus == {"load": most}
    (group,) = read.groups
    assert group.failed == sum(not one.ok for one in LOAD) and group.errors == {"other": group.failed}


def test_whole_seconds_and_missing_outcomes_of_k6_are_reported(tmp_path: Path) -> None:
    read = made(files.write_k6_csv(tmp_path / "a.csv", LOAD, per_second=1))
    assert read.clock_ns == 10**9 == read.interval_ns
    notes = " ".join(read.notes)
    assert "whole seconds" in notes and "No request says" not in notes
    (tmp_path / "b.csv").write_text(K6 + "http_req_duration,0,5\nhttp_req_duration,3,5\n")
    assert "No request says whether it succeeded" in " ".join(made(tmp_path / "b.csv").notes)


@pytest.mark.parametrize(
    ("exception", "message", "error"),
    [
        ("org.apache.http.conn.HttpHostConnectException", "Connect to h:80 failed: Connection refused", "connect_refused"),
        ("org.apache.http.conn.HttpHostConnectException", "Connect to h:80 failed: Connection timed out (Connection timed out)", "connect_timeout"),
        ("java.net.ConnectException", "Operation timed out", "connect_timeout"),
        ("java.net.SocketTimeoutException", "Connect timed out", "connect_timeout"),
        ("java.net.SocketTimeoutException", "Read timed out", "timeout_first_byte"),
        ("java.net.SocketException", "Connection reset", "read_reset"),
    ],
)  # fmt: skip
def test_failed_connections_are_named(tmp_path: Path, exception: str, message: str, error: str) -> None:
    code = f"Non HTTP response code: {exception}"
    table = tmp_path / "a.jtl"
    table.write_text(
        "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success\n"
        f"1700000000000,300,home,{code},Non HTTP response message: {message},T 1-1,false\n"
        "1700000000400,300,home,200,OK,T 1-1,true\n"
    )
    document = tmp_path / "a.xml"
    document.write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<testResults version="1.2">\n'
        f'<httpSample t="300" ts="1700000000000" s="false" lb="home" rc="{code}" rm="{message}" tn="T 1-1"/>\n'
        '<httpSample t="300" ts="1700000000400" s="true" lb="home" rc="200" rm="OK" tn="T 1-1"/>\n</testResults>\n'
    )
    for file in (table, document):
        assert made(file).groups[0].errors[error] == 1


def test_files_with_other_steps_get_the_same_order(tmp_path: Path) -> None:
    """The second file has "buy, now" only: its step is the second, as in the first file."""
    both = files.write_jtl(tmp_path / "a.jtl", LOAD)
    one = files.write_jtl(tmp_path / "b.jtl", [one for one in LOAD if one.label != "home"])
    run = files.imported(tmp_path, both, one)
    first, second = (read_trial(run.trial(name).path) for name in ("a.r1", "b.r1"))
    steps = second.summary.groups[0].steps
    names = [step.name for step in steps]
    assert names == [step.name for step in first.summary.groups[0].steps]
    assert set(names) == {"home", "buy-now"}
    place, count = names.index("buy-now"), sum(one.label != "home" for one in LOAD)
    assert set(second.samples["step"].tolist()) == {place}
    assert int(second.intervals["due"][second.intervals["step"] == place].sum()) == count
    assert {step.name: step.due for step in steps} == {"home": 0, "buy-now": count}


def test_a_changed_seal_of_an_import_is_damage(tmp_path: Path) -> None:
    run = files.imported(tmp_path, files.write_jtl(tmp_path / "a.jtl", LOAD))
    assert verify_run(run) == []
    seal = run.trial("a.r1").seal
    seal.write_text(seal.read_text().replace('"replicate": 1', '"replicate": 2'))
    assert [problem.details["path"] for problem in verify_run(run)] == [seal]


def test_too_many_different_steps_become_one(tmp_path: Path) -> None:
    parts = []
    for part in range(2):
        asked = [files.Asked(0, 100 * place, 50, f"item-{part}-{place}") for place in range(MOST_STEPS - 5)]
        parts.append(files.write_jtl(tmp_path / f"part{part}.jtl", asked))
    trial = read_trial(files.imported(tmp_path, *parts).trial("part1.r1").path)
    (step,) = trial.summary.groups[0].steps
    assert step.name == "all" and step.due == MOST_STEPS - 5
    assert set(trial.samples["step"].tolist()) == {0} and int(trial.intervals["due"].sum()) == MOST_STEPS - 5


def test_a_window_that_would_lose_most_requests_is_the_whole_file(tmp_path: Path) -> None:
    """The most users were present for a single second: the strict maximum kept 4 ms of 5.75 s of a real
    file."""
    spike = [files.Asked(user, at, 90) for user in range(20) for at in range(0, 2_000 + 1_000 * user, 200)]
    read = made(files.write_jtl(tmp_path / "a.jtl", sorted(spike, key=lambda one: one.begun + one.spent)))
    assert read.window_ns == (0, max(one.begun + one.spent for one in spike) * 1_000_000 + 1)
    assert read.groups[0].completed_in_window == len(spike)
    notes = " ".join(read.notes)
    assert "Without its ramps only" in notes and "the whole file is measured" in notes


def test_the_share_that_is_kept_is_reported(tmp_path: Path) -> None:
    path = files.write_jtl(tmp_path / "a.jtl", LOAD)
    read = made(path)
    low, high = (edge // 1_000_000 for edge in read.window_ns)
    kept = sum(low <= one.begun < high for one in LOAD) / len(LOAD)
    assert any(f"Measured without its ramps: {kept:.1%} of the requests" in note for note in read.notes)
    whole = read_foreign(path, "jtl", whole=True)
    last_ns = max(one.begun + one.spent for one in LOAD) * 1_000_000
    assert whole.window_ns[0] == 0 and last_ns < whole.window_ns[1] < last_ns + 1_000
    assert whole.window_ns[1] % whole.interval_ns == 0
    assert whole.groups[0].completed_in_window == len(LOAD)
    assert not any("ramps" in note for note in whole.notes)


def test_users_before_the_first_request_are_outside_the_window(tmp_path: Path) -> None:
    """k6 counts users from the start of the test, and they may begin with a pause."""
    path = files.write_k6_json(tmp_path / "a.json", files.closed_loop(users=5, ramp=0))
    first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    users = '{"metric":"vus","type":"Point","data":{"time":"2023-11-14T22:13:%sZ","value":%s,"tags":{}}}\n'
    path.write_text(first + users % (10, 1) + users % (12, 5) + "".join(rest), encoding="utf-8")
    read = made(path)
    assert read.window_ns[0] == 0
    assert read.groups[0].active_ns == 5 * read.window_ns[1]


def shifted(load: list[files.Asked], by_ms: int) -> list[files.Asked]:
    return [replace(one, begun=one.begun + by_ms) for one in load]


@pytest.mark.parametrize("runs", [2, 3])
def test_runs_appended_to_one_file_are_refused_with_their_number(tmp_path: Path, runs: int) -> None:
    """Each has its own count of users."""
    path = tmp_path / "a.jtl"
    loads = (shifted(LOAD, 100_000 * run) for run in range(runs))
    head, *rest = (files.write_jtl(path, load).read_text(encoding="utf-8") for load in loads)
    path.write_text(head + "".join(text.partition("\n")[2] for text in rest), encoding="utf-8")
    with pytest.raises(SvloadError, match=f"holds {runs} runs, one after the other: nothing began for 80 s"):
        made(path)


def test_a_pause_of_all_users_is_no_second_run(tmp_path: Path) -> None:
    """All ten users stay; only the requests pause."""
    steady = files.closed_loop(ramp=0)
    read = made(files.write_jtl(tmp_path / "a.jtl", [*steady, *shifted(steady, 100_000)]))
    assert "Nothing began for 80 s from 20 s on: taken as a pause" in " ".join(read.notes)
    assert read.requests == 2 * len(steady)


DAY = 86_400_000
FAR = {
    "JTL, a month between requests": f"{JTL}0,9,true,a\n{30 * DAY},9,true,a\n{30 * DAY + 7},9,true,x\n",
    "JTL, a response of 20 days": f"{JTL}0,9,true,a\n3500,{20 * DAY},true,b\n7000,9,true,c\n",
    "k6, a response of 60 days": f"{K6}http_req_duration,0,5\nhttp_req_duration,3,{60 * DAY}\n",
    "k6, a month between requests": f"{K6}http_req_duration,0,5\nhttp_req_duration,{30 * 86_400},5\n",
    "Locust, ten minutes between rows": f"{LOCUST}0,1,Aggregated,0,0,5\n600,1,Aggregated,9,0,5\n",
    "Locust, forty names with a row each": f"{LOCUST}0,1,Aggregated,0,0,5\n"
    + "".join(f"{600 * row},1,Aggregated,40,0,5\n" for row in range(1, 101))
    + "".join(f"60000,1,page{name},1,0,5\n" for name in range(40)),
}


@pytest.mark.parametrize("kind", FAR)
def test_memory_is_bounded_by_rows(kind: str, tmp_path: Path) -> None:
    """Times far apart take memory for the rows, not for the time between them."""
    path = tmp_path / "file.csv"
    path.write_text(FAR[kind])
    tracemalloc.start()
    try:
        read = read_foreign(path, kind.partition(",")[0].lower(), whole=True)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert len(read.tables["intervals"]["due"]) <= MOST_SECONDS_A_ROW * FAR[kind].count("\n")


SHORT = files.closed_loop(users=4, lasts=12_000, ramp=0)
LINES = {name: write for name, write in files.WRITERS.items() if name != "a.xml"}
read = partial(files.read, whole=True)


@pytest.mark.parametrize("begun", [None, 3, 14, 31])
@pytest.mark.parametrize("name", LINES)
def test_a_record_that_was_begun_is_left_out(name: str, begun: int | None, tmp_path: Path) -> None:
    """Without its last line end a file is whole."""
    text = LINES[name](tmp_path / name, SHORT).read_text(encoding="utf-8")
    whole = read(tmp_path / name)
    cut = text.rstrip("\n") if begun is None else text + text.splitlines()[-1][:begun]
    (tmp_path / name).write_text(cut, encoding="utf-8")
    found = read(tmp_path / name)
    assert found.requests == whole.requests == len(SHORT)
    assert (CUT in found.notes) == (begun is not None) and CUT not in whole.notes


@pytest.mark.parametrize("points", [2, 3, 6])
@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_a_k6_request_without_its_last_points_is_left_out(name: str, points: int, tmp_path: Path) -> None:
    """Times of the other requests still contain what connecting took."""
    whole = read(LINES[name](tmp_path / name, SHORT[:-1]))
    lines = LINES[name](tmp_path / name, SHORT).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / name).write_text("".join(lines[: points - 9]), encoding="utf-8")
    found = read(tmp_path / name)
    assert found.requests == len(SHORT) - 1 and found.notes == (CUT, *whole.notes)
    assert found.groups[0].request_ns == whole.groups[0].request_ns


MESSAGES = ('"expected 200\nbut got', '"a, b\n\nc""', '"')
TAILS = [("a.jtl", f"1700000000000,5,home,500,{message}") for message in MESSAGES]
TAILS += [("a.xml", "<httpSample t="[:begun]) for begun in (0, 4, 30)]


@pytest.mark.parametrize(("name", "tail"), TAILS)
def test_a_message_or_a_sample_that_was_begun_is_cut(name: str, tail: str, tmp_path: Path) -> None:
    path = files.WRITERS[name](tmp_path / name, SHORT)
    path.write_text(path.read_text(encoding="utf-8").replace("</testResults>", "") + tail, encoding="utf-8")
    found = read(path)
    assert found.requests == len(SHORT) and CUT in found.notes


def test_stamps_with_a_comma_are_no_records_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jtl"
    row = '"2026-03-04 10:00:0{},250",7,home,true\n'
    path.write_text("timeStamp,elapsed,label,success\n" + row.format(1) + row.format(2) + row.format(3)[:20])
    found = read(path)
    assert found.requests == 2 and CUT in found.notes


START = 1_700_000_000_000
HOLDS = "Number of samples in transaction : 2, number of failing samples : 0"
Row = tuple[int, int, str, str]
"""ms from the start, elapsed ms, label, and `T` for a transaction, `U` for one without a URL, else empty."""


def write(path: Path, rows: Sequence[Row], columns: Sequence[str] = (), threads: Sequence[int] = ()) -> Path:
    written: list[dict[str, Any]] = []
    for place, (at, spent, label, kind) in enumerate(rows):
        cells = {"timeStamp": START + at, "elapsed": spent, "label": label, "responseCode": "200"}
        cells |= {"responseMessage": HOLDS if kind == "T" else "OK", "success": "true"}
        cells |= {"threadName": f"Users 1-{threads[place] if threads else 1}"}
        written.append(cells | {"URL": "" if kind else f"http://x/{label}"})
    with path.open("w", newline="", encoding="utf-8") as file:
        names = columns or list(written[0])
        table = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(written)
    return path


CASES: dict[str, tuple[list[Row], list[str], str]] = {
    "a transaction of samplers that are called as its parts would be": (
        [(0, 100, "Search-1", ""), (100, 150, "Search-2", ""), (0, 250, "Search", "T")],
        ["Search-1", "Search-2"],
        "1 rows of transactions are left out, since the samples in them stand for themselves (Search: 1).",
    ),
    "a transaction without a message, by its empty URL": (
        [(0, 300, "buy", "U"), (0, 120, "cart", ""), (130, 170, "pay", "")],
        ["cart", "pay"],
        "1 rows of transactions are left out",
    ),
    "a transaction with a name of 5,000 characters in two lines": (
        [(0, 250, "buy\nnow " + "x" * 5_000, "T"), (0, 100, "cart", "")],
        ["cart"],
        f"(buy now {'x' * 71}…: 1).",
    ),
    "a sampler without a URL that holds nothing": ([(0, 7, "script", "U"), (8, 9, "home", "")], ["script", "home"], ""),
    "one after the other, with clocks that round": (
        [(0, 100, "x", ""), (99, 1, "x-1", ""), (100, 0, "y", ""), (100, 50, "x", "")],
        ["x", "x-1", "y", "x"],
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_requests(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same whether they are looked at as a whole or one by one."""
    rows, stand, sentence = CASES[name]
    read = read_jtl(write(tmp_path / "a.jtl", rows))
    assert sorted(read.labels[code] for code in read.label.tolist()) == sorted(stand)
    notes = [note for note in read.notes if "left out" in note]
    assert any(sentence in note for note in notes) if sentence else not notes
    monkeypatch.setattr("svload.store.foreign.nested._AT_ONCE", 1)
    again = read_jtl(tmp_path / "a.jtl")
    assert (again.label.tolist(), again.notes) == (read.label.tolist(), read.notes)


def test_nested_rows_are_looked_at_without_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction of two requests, many times."""
    monkeypatch.setattr("svload.store.foreign.nested._AT_ONCE", 1_000)
    times = 10_000
    begun = np.repeat(np.arange(times) * 200, 3) + np.tile((0, 0, 60), times)
    spent, label = np.tile((150, 50, 80), times), np.tile((0, 1, 2), times)
    kind = np.where(label == 0, TRANSACTION, PLAIN)
    tracemalloc.start()
    try:
        kept, (note,) = requests_among(
            begun * 10**6, spent * 10**6, np.zeros_like(label), label, kind, ["buy", "cart", "pay"]
        )
        assert tracemalloc.get_traced_memory()[1] < 120 * len(label)
    finally:
        tracemalloc.stop()
    assert kept is not None and kept.tolist() == (label > 0).tolist()
    assert note.startswith("10,000 rows of transactions") and note.endswith("(buy: 10,000).")


def test_another_threads_samples_are_never_parts(tmp_path: Path) -> None:
    rows = [(0, 300, "home", ""), (10, 100, "home-0", ""), (10, 100, "home-0", ""), (150, 100, "other", "")]
    read = read_jtl(write(tmp_path / "a.jtl", rows, threads=(1, 1, 2, 2)))
    assert [read.labels[code] for code in read.label.tolist()] == ["home", "home-0", "other"]
    assert [read.vu[place] for place in range(3)] == [0, 1, 1]


def test_threads_of_two_machines_with_one_name_lose_no_request(tmp_path: Path) -> None:
    one, other = (files.closed_loop(users=8, lasts=5_000, spent=(50, 200), seed=seed) for seed in (1, 2))
    load = sorted([*one, *other], key=lambda asked: asked.begun + asked.spent)
    read = read_jtl(files.write_jtl(tmp_path / "a.jtl", load))
    assert len(read) == len(load)
    assert any("Samples of one thread overlap" in note for note in read.notes)


@pytest.mark.parametrize(
    ("rows", "stand"),
    [
        ([(0, 300, "home", ""), (0, 200, "home-0", "")], ["home"]),
        ([(0, 300, "Checkout", ""), (0, 200, "cart", ""), (210, 60, "pay", "")], ["cart", "pay"]),
    ],
)
def test_without_message_and_url_names_decide(rows: list[Row], stand: list[str], tmp_path: Path) -> None:
    columns = ("timeStamp", "elapsed", "label", "threadName", "success")
    read = read_jtl(write(tmp_path / "a.jtl", rows, columns))
    assert [read.labels[code] for code in read.label.tolist()] == stand


PAY = '<httpSample t="5" ts="0" s="true" lb="pay" rm="OK" tn="Users 1-1"/>'


@pytest.mark.parametrize(
    ("before", "inside", "stand"), [("", "", ["Checkout"]), ("", PAY, ["pay"]), (PAY, "", ["pay"])]
)
def test_transactions_in_xml(before: str, inside: str, stand: list[str], tmp_path: Path) -> None:
    """Its samples are in it or, if it makes no parent sample, before it."""
    path = tmp_path / "a.xml"
    path.write_text(
        f'<testResults version="1.2">{before}<sample t="9" ts="0" s="false" lb="Checkout" rm="{HOLDS}" tn="Users 1-1">'
        f"{inside}</sample></testResults>",
        encoding="utf-8",
    )
    read = read_jtl_xml(path)
    assert [read.labels[code] for code in read.label.tolist()] == stand


AT = round(datetime(2024, 4, 3, 10, 20, 30, tzinfo=UTC).timestamp() * 1000)
WRITTEN = {
    "2024-04-03 10:20:30": AT,
    "2024/04/03 10:20:30.125": AT + 125,
    "2024.4.3 10:20:30,5": AT + 500,
    "2024-04-03T12:20:30+02:00": AT,
    "2024-04-03T05:50:30.000-0430": AT,
    "2024-04-03T10:20:30Z": AT,
    "03.04.2024 10:20:30": AT,
    "4/3/2024 10:20:30.001": AT + 1,
}


@pytest.mark.parametrize("cell", WRITTEN)
def test_a_stamp_in_words_is_its_moment(cell: str) -> None:
    assert (is_stamp(cell), unix_ms([cell], None)) == (True, [WRITTEN[cell]])
    assert has_fraction(cell) is ("." in cell.partition(":")[2] or "," in cell)


@pytest.mark.parametrize(
    "cell", ["", "1700000000000", "2024-04-03", "10:20:30", "2024-04/03 10:20:30", "٢٠٢٤-٠٤-٠٣ 10:20:30"]
)
def test_what_is_no_stamp(cell: str) -> None:
    assert not is_stamp(cell)
    with pytest.raises(ValueError, match="no time"):
        unix_ms([cell], None)


@pytest.mark.parametrize(
    ("cells", "days_apart"),
    [(["03/04/2024 00:00:00", "25/04/2024 00:00:00"], 22), (["04/03/2024 00:00:00", "04/25/2024 00:00:00"], 22),
     (["03/04/2024 00:00:00", "04/04/2024 00:00:00"], 31), (["03.04.2024 00:00:00", "04.04.2024 00:00:00"], 1)],
)  # fmt: skip
def test_a_number_above_twelve_says_which_is_the_day(cells: list[str], days_apart: int) -> None:
    first, second = unix_ms(cells, day_first(cells))
    assert second - first == days_apart * 86_400_000


ROW = "{at},{took},home,200,OK,Users 1-1,text,true,,3,0,1,1,null,{took},0,0"


def headless(path: Path, *stamps: object, sign: str = ",") -> Path:
    rows = [ROW.format(at=at, took=5 + number) for number, at in enumerate(stamps)]
    path.write_text("\n".join(rows).replace(",", sign) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("stamps", "sign"),
    [
        ((1_700_000_000_000, 1_700_000_000_100), ";"),
        (("2024-04-03 10:20:30.000", "2024-04-03 10:20:30.100"), "\t"),
    ],
)
def test_headless_rows_have_jmeters_columns(stamps: tuple[object, ...], sign: str, tmp_path: Path) -> None:
    path = headless(tmp_path / "a.jtl", *stamps, sign=sign)
    assert form_of(path) == "jtl"
    read = read_jtl(path)
    assert (read.begun_ns.tolist(), read.spent_ns.tolist()) == ([0, 100_000_000], [5_000_000, 6_000_000])
    assert (read.labels, read.groups) == (("home",), ("Users",))


def test_a_run_past_midnight_takes_a_day_and_no_month(tmp_path: Path) -> None:
    read = read_jtl(headless(tmp_path / "a.jtl", "03/04/2024 23:59:59.000", "04/04/2024 00:00:00.000"))
    assert read.begun_ns.tolist() == [0, 10**9]


@pytest.mark.parametrize(
    ("stamps", "jump"),
    [
        (["10-27 02:59:58", "10-27 02:59:59", "10-27 02:00:01", "10-27 02:00:02"], "back by an hour"),
        (["03-31 01:59:58", "03-31 03:00:01", "03-31 01:59:59", "03-31 03:00:02"], "forward by an hour"),
        (["03-31 01:59:58Z", "03-31 03:00:00Z"], ""),
        (["03-31 01:00:00", "03-31 02:00:00", "03-31 03:00:00"], ""),
        (["03-31 01:59:58", "03-31 03:30:00"], ""),
    ],
    ids=["back", "forward, by two generators", "zone", "every hour", "pause"],
)
def test_local_stamps_that_jump_by_an_hour_are_reported(stamps: list[str], jump: str, tmp_path: Path) -> None:
    read = read_jtl(headless(tmp_path / "a.jtl", *(f"2024-{stamp}" for stamp in stamps)))
    found = [note for note in read.notes if "by an hour" in note]
    assert len(found) == bool(jump) and all(jump in note for note in found)


def test_a_file_is_read_one_way_in_all_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its last block shows which number is the day."""
    monkeypatch.setattr("svload.store.foreign.requests.BLOCK_BYTES", 500)
    stamps = ["12/04/2024 23:59:59.000"] * 20 + ["13/04/2024 00:00:00.000"]
    read = read_jtl(headless(tmp_path / "a.jtl", *stamps))
    assert set(read.begun_ns.tolist()) == {0, 10**9}


@pytest.mark.parametrize(
    ("write", "form", "sign"),
    [
        *((files.write_jtl, "jtl", sign) for sign in ",;\t"),
        (files.write_history, "locust", ","),
        (files.write_k6_csv, "k6", ","),
    ],
)
def test_rows_in_quotes_are_rows(write: Callable[..., Path], form: str, sign: str, tmp_path: Path) -> None:
    """JMeter's with and without a header."""
    plain, quoted = write(tmp_path / "plain", LOAD), tmp_path / "quoted"
    rows = list(csv.reader(plain.read_text().splitlines()))
    for some in (rows, rows[1:]) if form == "jtl" else (rows,):
        with quoted.open("w", newline="") as file:
            csv.writer(file, delimiter=sign, quoting=csv.QUOTE_ALL).writerows(some)
        assert form_of(quoted) == form
        assert made(quoted).requests == made(plain).requests


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_table_in_quotes_is_one(sign: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f'"users"{sign}"rps"\n"1"{sign}"2"\n')
    assert form_of(tmp_path / "a.csv") == "table"


@pytest.mark.parametrize(
    "line",
    ["a,b,c", ROW.format(at="soon", took=5), ROW.format(at=1, took="x"), ROW.format(at=1, took=5) + ",9"],
)
def test_other_rows_without_names_are_not_taken_for_them(line: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(line + "\n" + line + "\n")
    assert form_of(path) != "jtl"
