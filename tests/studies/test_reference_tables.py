"""Published tables under studies/: mistakes are found by name, and our numbers are shown beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload import api
from svload.model.results import Estimate
from svload.tables.table import TableFinding

STUDIES = Path(__file__).resolve().parents[2] / "studies"


def found(study: str, check: str) -> list[TableFinding]:
    files = [str(STUDIES / study / "reference" / f"{name}.csv") for name in TABLES[study]]
    (result,) = [one for one in api.check_tables(files) if one.check == check]
    assert result.measured
    return list(result.findings)


SVLOAD, FACTORIAL, COLLABORATION = "001-svload", "002-factorial-redis", "003-collaboration"
LOCUST, FILES = "004-swift-locust", "005-file-server"
TABLES = {
    SVLOAD: ("test-cases", "response-times", "success-rates", "cache-vs-backend", "http-vs-https", "tuning"),
    FACTORIAL: ("factorial",),
    COLLABORATION: ("results", "points"),
    LOCUST: ("results",),
    FILES: ("summary",),
}
"""The published tables of each study, by name."""


@pytest.mark.parametrize(
    ("study", "check", "text"),
    [
        # 001: time and success are read apart
        (SVLOAD, "means-of-survivors", ("TC13: the mean goes from 270 ms " "to 1.83 " "s while " "success " "goes from " "57 % to 100 %",)),
        # 001: the improvement is a share of the larger value, and its tables use different means
        (SVLOAD, "improvement-over-the-larger", ("TC13: -85 % stands for a 6.8-fold slowdown",)),
        (SVLOAD, "means-not-named", ("cache-vs-backend uses the means before", "http-vs-https uses the means after")),
        # 001: after tuning the cache is slower than the backend
        (SVLOAD, "effect-reverses", ("TC7→TC11: the ratio of times goes from 0.65 before to 1.74 after", "TC0→TC2")),
        # 001: misses are faster than hits, and no counter shows that hits hit
        (SVLOAD, "hits-unverified", ("TC9 420 ms < TC11 820 ms", "TC21 1.18 s < TC23 1.67 s")),
        # 001: layers changed at once, no interval in any table
        (SVLOAD, "layers-at-once", ("varnish, memcached, kernel, swift, network",)),
        (SVLOAD, "no-replicates", ("response-times", "success-rates")),
        # 001: the headline comes from idle cases; “90 %” follows from no table
        (SVLOAD, "gain-from-one-level", ("All 10 cases with load " "“without” became " "faster, " "6 of 10 " "with load " "“with” slower",)),
        (SVLOAD, "headline-rows", ("is 2 of 20 rows: TC0, TC6", "“success rates improved by up to 90 %” " "follows from " "no table")),
        # 002: a longer delay makes the server faster
        (FACTORIAL, "delay-is-think-time", ("223.65/s × (22.4 ms + 200 ms) = " "49.7 of " "50 users", "did not make the server faster")),
        # 002: L of 51–60 with 50 threads
        (FACTORIAL, "littles-law", ("cpus 0.8, delay_ms 100: X·(R + Z) " "is 59.7 " "with 50 " "users (+19 %)", "late completions counted")),
        # 002: −20 % CPU changes throughput by −2 %, and 0.9 CPU appears faster than 1.0
        (FACTORIAL, "limit-never-acted", ("cpus from 1.0 to 0.8 changes throughput by −2 % (elasticity 0.09)",)),
        (FACTORIAL, "smaller-limit-faster", ("cpus 0.9 looks 9 % faster than 1.0",)),
        # 002: elasticities from −0.10 to 2.70
        (FACTORIAL, "elasticity-out-of-range", ("elasticity 2.7, outside [-0.2, 1.2]", "Unidentified")),
        # 002: a delay that slows by up to 53 %; generator and servers share the machine
        (FACTORIAL, "think-time-slows", ("+53 % against no delay", "share one machine")),
        (FACTORIAL, "same-host", ("no absolute capacity",)),
        # 003: 20.41 is the CPU column; with it the stated effect reverses
        (COLLABORATION, "quote-differs", ("20.41, which is its " "median_cpu_pct; the " "table's " "median_latency_ms is 13.2", "is not in the table (15.69, " "16.71, 13.2)")),
        # 003: users and incoming streams predict left-out tests worse than their mean; out-going
        # streams, squared, and users do better
        (COLLABORATION, "held-out-prediction", ("users_total and streams predict " "median_latency_ms of the " "left-out " "test worse than its mean", "out_streams^2 and users_per_server do")),
        # 003: with a second server the median message latency rises from 10 to 33 ms
        (COLLABORATION, "unmentioned-shift", ("servers from 1 to 2: " "median_message_latency_ms is " "3.33-fold", "10 against 33")),
        # 003: means and medians far apart
        (COLLABORATION, "mean-far-from-median", ("latency_ms differ 2.95-fold", "message_latency_ms differ 15.9-fold")),
        # 004: ms instead of s
        (LOCUST, "unit-impossible", ("5 MB in 0.37 ms would be 13.5 GB/s", "most likely in s")),
        # 004: the ramp fills the statistics
        (LOCUST, "ramp-in-statistics", ("vus 10 14 %", "vus 150 88 %")),
        # 004: saturated from the first level, at about 1 Gbit/s
        (LOCUST, "saturated-from-first-level", ("25.1, 24.8, 25.3, 25.7/s at 10, " "50, 100, " "150 users", "0.99 to 1.03 Gbit/s: perhaps a link of " "1 Gbit/s")),
        # 004: the generator, its disk writes and Python share one machine; the servers are elsewhere
        (LOCUST, "generator-shared", ("shares its machine with its own disk writes and Python",)),
        # 005: X·R = 1.88 against N = 2, about 12 requests, N* = 1 at the lowest level
        (FILES, "littles-law", ("500MB: X·(R + Z) is 1.88 with 2 users (−5.9 %)",)),
        (FILES, "too-few-requests", ("500MB: about 12",)),
        (FILES, "not-bracketed", ("N* = 1 is the lowest level", "100KB")),
        # 005: “disk” at 0.35 MB/s, “CPU” without a column of its use
        (FILES, "bottleneck-without-evidence", ("CPU and Disk I/O named in 7 rows", "1KB it moved 0.346 MB/s", "Unidentified")),
    ],
)  # fmt: skip
def test_a_published_mistake_is_caught_by_name(study: str, check: str, text: tuple[str, ...]) -> None:
    sentences = " ".join(finding.sentence for finding in found(study, check))
    assert [words for words in text if words not in sentences] == [], sentences


def test_a_finding_names_its_rows() -> None:
    (finding,) = found(FACTORIAL, "limit-never-acted")
    assert "002-factorial-redis/reference/factorial.csv:" in finding.place
    assert set(finding.lines) == {2, 8, 4, 10}  # cpus 1.0 and 0.8, without a delay and with 200 ms
    (finding,) = found(FACTORIAL, "littles-law")
    assert min(finding.lines) > 10, "L of the second scenario alone: the first is within 3 %"


def test_the_papers_servers_stood_elsewhere() -> None:
    """Its generator was one VM, its Swift another OpenStack."""
    results = api.check_tables([str(STUDIES / LOCUST / "reference/results.csv")])
    [found] = [one for one in results if one.check == "same-host"]
    assert not found.measured


def known(low: float, high: float) -> Estimate:
    return Estimate(value=(low + high) / 2, low=low, high=high, n=6)


TEN = known(9.9, 10.1)


@pytest.mark.parametrize(
    ("second", "theirs", "expected"),
    [
        (known(14, 16), 1.4, "agrees"),
        (known(14, 16), 0.7, "opposite"),
        (known(6, 7), 0.7, "agrees"),
        (known(6, 7), 1.4, "opposite"),
        (known(9.8, 12), 1.4, "not distinguishable"),
        # unchanged in the paper: 25.1 and 24.8, 25.3, 25.7 downloads/s; 223.80 and 223.65 requests/s
        (known(14, 16), 0.988, "ours alone moves"),
        (known(6, 7), 0.988, "ours alone moves"),
        (known(14, 16), 1.02, "ours alone moves"),
        (known(9.9, 10.2), 1.008, "agrees: both stay"),
        (known(9.8, 10.0), 223.65 / 223.80, "agrees: both stay"),
        (known(10.15, 10.2), 1.02, "agrees: both stay"),  # different, but by less than counts as flat
        (known(8, 13), 1.008, "not distinguishable"),  # too wide to conclude that it is unchanged
        # just beyond: a direction
        (known(14, 16), 1.051, "agrees"),
        (known(14, 16), 0.949, "opposite"),
    ],
)
def test_where_ours_goes(second: Estimate, theirs: float, expected: str) -> None:
    assert api.direction(TEN, second, theirs) == expected


@pytest.mark.parametrize("theirs", [1.4, 1.0])
def test_what_we_lack_has_no_direction(theirs: float) -> None:
    assert api.direction(None, TEN, theirs) == "not measured"
    assert api.direction(TEN, Estimate(value=None, reason="refused"), theirs) == "not measured"
    assert api.direction(TEN, Estimate(value=15.0, n=1), theirs) == "no interval"
