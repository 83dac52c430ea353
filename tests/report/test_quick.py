"""Output of `svload load` while it runs and at its end."""

from __future__ import annotations

import io
from difflib import ndiff
from typing import Any

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion
from tests.report.conftest import Shown

from svload.model.events import Event
from svload.model.load_summary import (
    Bar,
    Connections,
    InstrumentVerdict,
    Lag,
    LoadSummary,
    RequestError,
    ServerVerdict,
    ThresholdVerdict,
    Times,
    WarmUp,
)
from svload.report.terminal.load_end import show_load
from svload.report.terminal.load_live import PlainLoad, ScreenLoad


def summary(**changes: Any) -> LoadSummary:
    found: dict[str, Any] = {
        "url": "http://127.0.0.1:8080/", "load": "64 VUs, keep-alive", "model": "closed loop",
        "due": 5064, "begun": 5064, "waiting": 0, "dropped": 0, "requests": 5000, "ok": 5000, "failed": 0, "in_flight": 64,
        "errors": {}, "status": {"200": 5000}, "duration_s": 10.0, "rate_asked_rps": None, "begun_rps": 506.4,
        "throughput_rps": 500.0, "bytes_sent": 2048, "bytes_received": 1 << 20,
        "response_ms": Times(mean=2.0, p50=1.5, p90=3.0, p95=4.0, p99=9.0, max=1234.5),
        "ok_response_ms": Times(p50=1.5), "service_ms": Times(p50=1.4, p99=8.0), "server_time_ms": Times(p50=1.3),
        "slot_wait_ms": Lag(p50=0.0), "generator_lag_ms": Lag(p50=0.02, p99=0.1, max=0.4),
        "reasons": {"response_ms.p99.9": "too few: 5000 effective requests of 5064, correlated, p99.9 needs 3688"},
        "whys": {"response_ms.p99.9": "too few"},
        "histogram": (Bar(from_ms=0.5, to_ms=1, count=4000), Bar(from_ms=1, to_ms=2, count=1000), Bar(from_ms=2, to_ms=4, count=0)),
        "longest_silence_ms": 17.25, "connections": Connections(opened=64, tls_full=0, tls_resumed=0),
        "cpu_s": 0.05, "measurable_rps": 100_000.0,
        "instrument": InstrumentVerdict(grade="VALID"), "server": ServerVerdict(state="STEADY"),
    }  # fmt: skip
    return LoadSummary(**found | changes)


FULL = "The system refused /x (No space left on device)."
FAILED = ("A generator failed: generator.0.0 ended (exit -9).", FULL)
STATS = ("p50", "p90", "p95", "p99", "p99.9", "max")
SUMMARIES: dict[str, dict[str, Any]] = {
    # both clocks, why p99.9 is missing, the longest silence, and four fifths of the completed rate as a rate
    # to try
    "closed loop": {},
    "open loop": {"model": "open loop", "rate_asked_rps": 500.0},
    "warm-up is cut": {"warm_up": WarmUp(cut_s=1.5, slowest_ms=2045.2)},
    "some fail": {
        "ok": 4993, "failed": 7, "errors": {"status": 7}, "status": {"200": 4993, "503": 7},
        "error_hints": (RequestError(name="status", count=7, hint="see the server's log"),),
        "failed_response_ms": Lag(p50=1.25, p99=2.5, max=1500.0),
    },
    # the mean is of requests that ended; no percentile has a time, and no time-out is named
    "all fail at once": {
        "ok": 0, "failed": 5000, "errors": {"status": 5000}, "status": {"401": 5000}, "measurable_rps": None, "histogram": (),
        "response_ms": Times(mean=0.25), "failed_response_ms": Lag(p50=0.2, p99=0.9, max=2.5),
        "reasons": dict.fromkeys((f"response_ms.{stat}" for stat in STATS), "> time-out (100 % failed)"),
        "whys": dict.fromkeys((f"response_ms.{stat}" for stat in STATS), "time-out"),
    },
    "one fails": {
        "ok": 4999, "failed": 1, "whys": {"response_ms.max": "time-out"}, "reasons": {"response_ms.max": "> time-out (0.02 % failed)"},
        "response_ms": Times(mean=8.0, p50=1.5, p90=3.0, p95=4.0, p99=9.0, p99_9=12.0),
    },
    # no advice to load more, no row of successful requests only
    "all time out": {
        "ok": 0, "failed": 5000, "errors": {"status": 5000}, "status": {"503": 5000}, "measurable_rps": None,
        "reasons": {"response_ms.p50": "> time-out (100 % failed)"}, "histogram": (),
    },
    "refused": {
        "instrument": InstrumentVerdict(grade="REFUSED", reasons=("It was late.",), remedy="Ask for less."),
        "server": ServerVerdict(state="OVERLOADED", reasons=("The backlog grew.",)),
        "thresholds": (
            ThresholdVerdict(that="a", outcome="passed", measured=1.0, sentence="a holds."),
            ThresholdVerdict(that="b", outcome="refused", measured=None, sentence="b was not judged."),
        ),
    },
    "marks": {
        "grades": {"response_ms.p99": "REFUSED", "service_ms.p99": "WEAK", "throughput_rps": "WEAK", "ok": "REFUSED", "longest_silence_ms": "REFUSED"},
        "weak": ("response_ms.p95", "response_ms.p99"),
    },
    "a doubt about what is not shown": {"grades": {"server_time_ms.p50": "REFUSED"}},
    "grows with the run": {"whys": {"response_ms.p50": "grows", "response_ms.p99.9": "too few"}},
    "made again": {"made_again": FAILED},
}  # fmt: skip


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary(shown: Shown, snapshot: SnapshotAssertion, name: str) -> None:
    """The snapshot has the whole summary of a closed loop; of the others, the lines that differ from it."""
    usual, text = (shown(show_load, summary(**SUMMARIES[one])) for one in ("closed loop", name))
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    differing = [line for line in ndiff(usual.splitlines(), text.splitlines()) if line[0] in "+-"]
    assert (text if name == "closed loop" else "\n".join(differing)) == snapshot


@pytest.mark.parametrize("name", SUMMARIES)
def test_at_80_columns_it_fits_and_says_the_same(shown: Shown, name: str) -> None:
    wide, narrow = (shown(show_load, summary(**SUMMARIES[name]), width=width) for width in (100, 80))
    assert max(map(len, narrow.splitlines())) <= 80
    assert narrow.replace("█", "").split() == wide.replace("█", "").split()


def progress(offset_s: float, last_ok: int, **changes: Any) -> Event:
    last = {"ok": last_ok, "failed": 0, "response_p50_ns": 1_200_000, "response_p99_ns": 3_400_000}
    group = {"name": "load", "ok": last_ok, "failed": 0, "in_flight": 5, "errors": {}, "last": last}
    return Event("progress", {"offset_s": offset_s, "groups": [group | changes]})


FAILING = {"ok": 0, "failed": 900}
LINES: dict[str, list[Event]] = {
    "one a second, whatever the number of generators": [
        progress(1.0, 100), progress(1.01, 200), progress(2.0, 1300, errors={"status": 3}),
    ],
    "parts stand beneath those of the last": [
        progress(1.0, 100), progress(2.0, 0, last=FAILING, errors={"status": 900}), progress(3.0, 12_345),
    ],
    "no answer": [progress(1.0, 0), progress(2.0, 5), progress(3.0, 0, ok=5)],
    "all answers fail": [progress(1.0, 0, failed=900, errors={"status": 900}, last=FAILING)],
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_lines_of_a_running_load(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion, name: str):
    view = PlainLoad(10.0)
    for event in LINES[name]:
        view.on_event(event)
    assert capsys.readouterr().err == snapshot


@pytest.mark.parametrize("sentence", FAILED, ids=["generator", "disk"])
@pytest.mark.parametrize("view", [PlainLoad(10.0), ScreenLoad(10.0)], ids=["lines", "screen"])
def test_a_load_that_is_made_again_is_reported(
    view: PlainLoad | ScreenLoad, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view.on_event(Event("trial-failed", {"trial": "load.r1", "code": "x", "sentence": sentence}))
    assert capsys.readouterr().err == f"this load does not count: {sentence}\n"


def test_the_screen_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    view = ScreenLoad(10.0)
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
    view.on_event(Event("notice", {"text": "waiting: another load"}))
    console.print(view.render())
    for second in range(1, 5):
        view.on_event(progress(float(second), 100 * second))
    console.print(view.render())
    text = console.export_text()
    assert "waiting: another load" in text and "4 s of 10 s  400/s  p50 1.2 ms  p99 3.4 ms" in text
    assert "▂▄▆█" in text
