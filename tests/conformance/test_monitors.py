"""The contract of monitors, checked for every module of the folder; a new monitor needs no change here."""

from __future__ import annotations

import copy
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from svload.watch import Monitor, load_monitors, monitored_names, monitors_for
from svload.watch import monitors as folder
from svload.watch.sampler import METRICS as SAMPLER_METRICS

SETTINGS = [{"name": "cpus", "asked": "1", "found": "1"}]
NOWHERE = {"outside": "nowhere", "network": "/proc/nowhere/ns/net"}
LINK = {"name": "everything", "settings": [], "delay_line": None} | NOWHERE
FACTS: dict[str, Any] = {
    "service": "everything",
    "kit": "any",
    "processes": [{"name": "one", "pid": 0, "start_ticks": 1}],
    "groups": [{"name": "everything", "paths": {"cpu": "/proc/nowhere"}, "settings": SETTINGS}],
    "links": [LINK],
    "endpoints": [{"scheme": "http", "address": "127.0.0.1", "port": 9}],
    "admin": {name: where for kind in load_monitors() for name, where in kind.example.items()},
}
UNITS = re.compile(r"_(seconds|bytes|ratio|total)$")
KINDS = load_monitors()


def test_every_file_of_the_folder_is_found_and_names_are_unique() -> None:
    files = {path.stem for path in Path(folder.__file__).parent.glob("*.py")} - {"__init__"}
    assert {Path(inspect.getfile(kind)).stem for kind in KINDS} == files
    assert len({kind.name for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
class TestEveryMonitor:
    def test_it_says_what_it_is(self, kind: type[Monitor]) -> None:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", kind.name)
        assert kind.summary and kind.summary[-1] != "."
        assert kind.interval_s >= 0 and kind.__doc__

    def test_every_metric_is_documented_with_its_unit(self, kind: type[Monitor]) -> None:
        assert kind.metrics
        for metric, text in {**kind.metrics, **SAMPLER_METRICS}.items():
            assert re.fullmatch(r"[a-z][a-z0-9_]*", metric) and text
            assert UNITS.search(metric) or text.startswith("number of"), f"{metric} has no unit and no number"
            if metric.endswith("_total") and not re.search(r"_(seconds|bytes)_total$", metric):
                assert "number of" in text, f"{metric} counts something; its text says what"

    def test_what_it_declares_is_of_its_own_metrics(self, kind: type[Monitor]) -> None:
        for limit in kind.limits:
            named = {name for name in (limit.used, limit.of, limit.waiting) if isinstance(name, str) and name}
            assert named <= set(kind.metrics), limit.name
            assert not (isinstance(limit.of, str) and limit.of.endswith("_total")), "a limit is a gauge"
            assert limit.name and limit.name[-1] != "."
            assert 0 < limit.at <= 1
        for refusal in kind.refusals:
            assert refusal.counter in kind.metrics and refusal.counter.endswith("_total")
            assert refusal.means and refusal.means[-1] != "."
        assert len({limit.name for limit in kind.limits}) == len(kind.limits)
        assert len({refusal.counter for refusal in kind.refusals}) == len(kind.refusals)

    def test_where_it_attaches_is_a_pure_question(self, kind: type[Monitor]) -> None:
        before = copy.deepcopy(FACTS)
        asked = (FACTS, None, {}, {"admin": {}}, {"service": "x", "admin": {}, "processes": []})
        answers = [kind.reads(facts) for facts in asked]
        assert answers == [kind.reads(facts) for facts in asked]
        assert before == FACTS
        assert answers[0] != answers[1], "it attaches to a service that offers all, or to the host"
        assert not any(answers[2:])

    def test_what_is_gone_is_an_oserror_and_closing_is_harmless(self, kind: type[Monitor]) -> None:
        if kind.reads(None):
            return  # the host is never gone
        monitor = kind("everything", copy.deepcopy(FACTS))
        with pytest.raises(OSError, match=r"."):
            list(monitor.sample())
        monitor.close()
        monitor.close()


def test_the_host_and_a_service_get_theirs() -> None:
    of_host = ["host", "others", "qdisc"]
    assert [kind.name for kind in monitors_for(None)] == of_host
    assert {kind.name for kind in monitors_for(FACTS)} == {kind.name for kind in KINDS} - {*of_host}
    assert monitors_for({"service": "x"}) == []


def test_criteria_can_name_every_metric_of_a_service() -> None:
    """By its full name, by a shorter one if that is unambiguous, and always with the monitor's name before
    it."""
    names = monitored_names()
    for kind in KINDS:
        for metric in () if kind.reads(None) else kind.metrics:
            assert names[f"{kind.name}.{metric}"].metric == metric and metric in names
    assert (names["throttled"].how, names["throttled"].dimension) == ("share", "ratio")
    assert names["threads_limited"].how == "growth"
    assert names["rss"].dimension == "size_bytes"
