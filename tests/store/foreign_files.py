"""Files in the formats of JMeter, k6 and Locust, of loads whose every request is known."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

from svload.store import RunDir
from svload.store.foreign.jtl import HEADER
from svload.store.foreign.run import Source, form_of, read_foreign, write_run
from svload.store.foreign.tabulate import Made

EPOCH_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Asked:
    """One request: times in ms from EPOCH_MS."""

    user: int
    begun: int
    spent: int
    label: str = "home"
    status: int = 200
    ok: bool = True
    connect: int = 0


def closed_loop(
    users: int = 10,
    lasts: int = 20_000,
    spent: tuple[int, int] = (80, 120),
    think: int = 50,
    ramp: int = 300,
    failing: float = 0.0,
    seed: int = 1,
) -> list[Asked]:
    """Return requests of users that start `ramp` ms apart, ask, wait and think; none begins after `lasts`.
    In the order of their ends."""
    draw = random.Random(seed)
    made = []
    for user in range(users):
        at = user * ramp
        while at < lasts:
            takes, ok = draw.randint(*spent), draw.random() >= failing
            label, connect = draw.choice(["home", "buy, now"]), 3 if at == user * ramp else 0
            made.append(Asked(user, at, takes, label, 200 if ok else 500, ok, connect))
            at += takes + think
    return sorted(made, key=lambda one: one.begun + one.spent)


def users_at_end(asked: Sequence[Asked]) -> list[int]:
    """Return how many users there are as each request ends, as JMeter counts them: begun, and not yet past
    their last."""
    by_user: dict[int, list[Asked]] = {}
    for one in asked:
        by_user.setdefault(one.user, []).append(one)
    begun = [min(one.begun for one in mine) for mine in by_user.values()]
    ended = [mine[-1].begun + mine[-1].spent for mine in by_user.values()]
    ends = [one.begun + one.spent for one in asked]
    return [sum(at <= end for at in begun) - sum(at < end for at in ended) for end in ends]


def write_jtl(
    path: Path,
    asked: Sequence[Asked],
    names: Sequence[str] = HEADER,
    at_end: bool = False,
    group: str = "Users",
) -> Path:
    """Write JMeter's CSV with these columns."""
    counts = users_at_end(asked)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        rows.writeheader()
        for one, users in zip(asked, counts, strict=True):
            rows.writerow({
                "timeStamp": EPOCH_MS + one.begun + (one.spent if at_end else 0), "elapsed": one.spent, "label": one.label,
                "responseCode": str(one.status), "responseMessage": "OK", "threadName": f"{group} 1-{one.user + 1}", "dataType": "text",
                "success": str(one.ok).lower(), "failureMessage": "", "bytes": 1234, "sentBytes": 120, "grpThreads": users,
                "allThreads": users, "URL": "http://x/", "Latency": one.spent // 2, "IdleTime": 0, "Connect": one.connect,
            })  # fmt: skip
    return path


def write_jtl_xml(path: Path, asked: Sequence[Asked]) -> Path:
    """Write JMeter's XML: each request with a redirect hop inside, every tenth within a transaction."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<testResults version="1.2">']
    response = '<responseData class="java.lang.String">a &lt; b</responseData>'
    holds = 'rm="Number of samples in transaction : 1, number of failing samples : 0"'
    for place, (one, users) in enumerate(zip(asked, users_at_end(asked), strict=True)):
        words = (
            f't="{one.spent}" it="0" lt="{one.spent // 2}" ct="{one.connect}" ts="{EPOCH_MS + one.begun}" '
            f's="{str(one.ok).lower()}" lb="{one.label}" rc="{one.status}" rm="OK" '
            f'tn="Users 1-{one.user + 1}" dt="text" by="1234" sby="120" ng="{users}" na="{users}"'
        )
        sample = f"<httpSample {words}><httpSample {words}/>{response}</httpSample>"
        whole = words.replace('rm="OK"', holds)
        lines.append(f"<sample {whole}>{sample}</sample>" if place % 10 == 0 else sample)
    path.write_text("\n".join([*lines, "</testResults>"]) + "\n", encoding="utf-8")
    return path


def _moment(ms: float) -> str:
    at = datetime.fromtimestamp((EPOCH_MS + ms) / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def k6_points(asked: Sequence[Asked]) -> list[tuple[str, float, float, dict[str, str]]]:
    """Yield (metric, ms, value, tags) as k6 emits them: of a request at its end, of its users once a
    second."""
    points: list[tuple[str, float, float, dict[str, str]]] = []
    counts = users_at_end(asked)
    second = 0
    for one, users in zip(asked, counts, strict=True):
        end = one.begun + one.spent
        while second * 1000 <= end:
            points.append(("vus", second * 1000, users, {}))
            second += 1
        tags = {"name": one.label, "scenario": "default", "status": str(one.status), "method": "GET"}
        tags["expected_response"] = str(one.ok).lower()
        if not one.ok:
            tags["error_code"] = f"1{one.status}"
        blocked = float(one.connect + 1)
        for metric, value in (
            ("http_reqs", 1.0), ("http_req_duration", one.spent - blocked), ("http_req_blocked", blocked), ("http_req_connecting", float(one.connect)),
            ("http_req_tls_handshaking", 0.0), ("http_req_sending", 0.0), ("http_req_waiting", one.spent / 2), ("http_req_receiving", 0.1),
            ("http_req_failed", 0.0 if one.ok else 1.0),
        ):  # fmt: skip
            points.append((metric, end, value, tags))
    return points


def write_k6_json(path: Path, asked: Sequence[Asked]) -> Path:
    """Write k6's JSON lines."""
    about = {"name": "http_reqs", "type": "counter", "contains": "default"}
    about |= {"thresholds": [], "submetrics": None}
    lines = [json.dumps({"type": "Metric", "data": about, "metric": "http_reqs"})]
    for metric, ms, value, tags in k6_points(asked):
        data = {"time": _moment(ms), "value": value, "tags": tags}
        lines.append(json.dumps({"metric": metric, "type": "Point", "data": data}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


K6_CSV = (
    "metric_name", "timestamp", "metric_value", "check", "error", "error_code", "expected_response", "group", "method", "name", "proto",
    "scenario", "service", "status", "subproto", "tls_version", "url", "extra_tags", "metadata",
)  # fmt: skip


def write_k6_csv(path: Path, asked: Sequence[Asked], per_second: int = 1000) -> Path:
    """Write k6's CSV; `per_second` units of its time stamps make a second."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, K6_CSV, extrasaction="ignore", lineterminator="\n")
        rows.writeheader()
        for metric, ms, value, tags in k6_points(asked):
            stamp = int((EPOCH_MS + ms) * per_second / 1000)
            rows.writerow({"metric_name": metric, "timestamp": stamp, "metric_value": value, **tags})
    return path


LOCUST = (
    "Timestamp", "User Count", "Type", "Name", "Requests/s", "Failures/s", "50%", "66%", "75%", "80%", "90%", "95%", "98%", "99%", "99.9%", "99.99%",
    "100%", "Total Request Count", "Total Failure Count", "Total Median Response Time", "Total Average Response Time", "Total Min Response Time",
    "Total Max Response Time", "Total Average Content Size",
)  # fmt: skip


def write_history(path: Path, asked: Sequence[Asked], full: bool = False) -> Path:
    """Write Locust's history of totals: one row per second, of all; with `full` (--csv-full-history) of
    each name too."""
    ends = [one.begun + one.spent for one in asked]
    counts = users_at_end(asked)
    names = ["Aggregated", *(sorted({one.label for one in asked}) if full else ())]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, LOCUST, lineterminator="\n", restval="N/A")
        rows.writeheader()
        for second, name in product(range(max(ends) // 1000 + 1), names):
            ended = [place for place, end in enumerate(ends) if end <= second * 1000]
            done = [place for place in ended if name in ("Aggregated", asked[place].label)]
            if name != "Aggregated" and not done:
                continue
            spent = [asked[place].spent for place in done]
            totals = {
                "Timestamp": EPOCH_MS // 1000 + second, "User Count": counts[done[-1]] if done else 0, "Type": "", "Name": name,
                "Total Request Count": len(done), "Total Failure Count": sum(not asked[place].ok for place in done),
                "Total Average Response Time": sum(spent) / len(spent) if spent else 0.0, "Total Average Content Size": 1234.0 if spent else 0.0,
            }  # fmt: skip
            rows.writerow(totals)
    return path


WRITERS: dict[str, Callable[[Path, list[Asked]], Path]] = {
    "a.jtl": write_jtl,
    "a.xml": write_jtl_xml,
    "a.json": write_k6_json,
    "a.csv": write_k6_csv,
}
"""Writers whose format contains each request, by a name for the file."""
FORMS = {"a.jtl": "jtl", "a.xml": "jtl", "a.json": "k6", "a.csv": "k6"}


def read(path: Path, whole: bool = False) -> Made:
    """Read a file, whose format svload recognises."""
    form = form_of(path)
    assert form is not None
    return read_foreign(path, form, whole=whole)


def imported(folder: Path, *paths: Path, form: str = "jtl") -> RunDir:
    """Import these files as a run, each a case named like the file."""
    sources = [Source(path.stem, path) for path in paths]
    return write_run(folder, "imported", "file", sources, form, lambda event: None)
