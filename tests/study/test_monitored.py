"""Criteria over what monitors read: names that some monitor has, in their unit; all else is refused with its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svload.model.errors import SvloadError
from svload.model.study import Lock
from svload.study import resolve
from svload.watch import monitored_names

STUDY = """
name: s
lab: {{app: {{kit: truth}}}}
traffic: {{users: {{executor: constant-vus, vus: 2, request: "GET http://app/"}}}}
measure: {{duration: 1s}}
thresholds: [{threshold}]
abort_if: [{abort}]
"""
Load = Callable[..., Lock]


def loaded(load: Load, threshold: str = "app.cpu < 1", abort: str = "") -> Lock:
    return load(
        STUDY.format(threshold=f'"{threshold}"', abort=f'"{abort}"' if abort else ""),
        monitored=monitored_names,
    )


@pytest.mark.parametrize(
    "that",
    [
        "app.throttled < 1 %",
        "app.throttled < 0.01",
        "app.threads_limited == 0",
        "app.fds < 1000",
        "app.fds.mean < 1000",
        "app.rss < 2 GiB",
        "app.gc_pause < 100 ms",
        "app.process.threads < 100",
        "app.accept_drops_total == 0",
    ],
)
def test_what_monitors_read_may_be_asked_for(load: Load, that: str) -> None:
    lock = loaded(load, that)
    assert lock.thresholds[0].that == that
    aborted = loaded(load, abort=that)
    assert resolve(aborted, aborted.cases[0]).abort_ifs == (that,)


@pytest.mark.parametrize(
    ("that", "told"),
    [
        (
            "app.treads_limited == 0",
            "not a metric of a service, nor does a monitor read it (Did you mean “threads_limited",
        ),
        ("app.throttled < 1 s", "throttled is a share of the time: write it in %"),
        ("app.fds < 10 MiB", "fds is read so: write it as a number without a unit"),
        ("app.rss < 10", "rss is read so: write it in B, kB"),
        ("app.threads_limited.max == 0", "threads_limited is one number and has no “.max”"),
        ("users.fds < 10", "“fds” is not a metric of traffic"),
    ],
)
def test_what_is_none_is_refused_at_its_line(load: Load, that: str, told: str) -> None:
    for how in ({"threshold": that}, {"abort": that}):
        with pytest.raises(SvloadError) as refused:
            loaded(load, **how)
        (problem,) = refused.value.problems
        assert problem.code == "study-bad-criterion"
        assert told in problem.sentence
        assert problem.place.endswith(":6" if "threshold" in how else ":7")


def test_a_run_is_ended_by_what_monitors_read_and_by_what_clients_see(load: Load) -> None:
    for that in (
        "users.response.p95 > 1 s",
        "users.response.p99 > 1 s",
        "error_rate > 10 %",
        "throughput < 450/s",
    ):
        lock = loaded(load, abort=that)
        assert resolve(lock, lock.cases[0]).abort_ifs == (that,)
    with pytest.raises(SvloadError) as refused:
        loaded(load, abort="users.response.mean > 1 s")
    assert "abort_if is asked while load is made" in refused.value.problems[0].sentence


def test_a_page_of_its_own_may_hold_any_name(load: Load) -> None:
    text = STUDY.format(threshold='"app.my_own_queue < 10"', abort="").replace(
        "{kit: truth}", "{kit: truth, metrics: /metrics}"
    )
    assert load(text, monitored=monitored_names).thresholds[0].that == "app.my_own_queue < 10"


def test_without_the_monitors_names_none_may_be_asked_for(load: Load) -> None:
    with pytest.raises(SvloadError, match="not a metric of a service"):
        load(STUDY.format(threshold='"app.fds < 10"', abort=""))
