"""What `svload load` shows: while it runs, and at its end."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

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
from svload.report import show_load
from svload.report.terminal.load_live import PlainLoad, ScreenLoad


def summary(**changes: Any) -> LoadSummary:
    said: dict[str, Any] = {
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
    return LoadSummary(**said | changes)


def shown(capsys: pytest.CaptureFixture[str], **changes: Any) -> str:
    show_load(summary(**changes))
    return capsys.readouterr().out


def test_what_is_cut_as_warm_up_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, warm_up=WarmUp(cut_s=1.5, slowest_ms=2045.2))
    assert "times above exclude the first 1.5 s as warm-up (slowest response there: 2,045.2 ms)" in text
    assert "warm-up" not in shown(capsys)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")


def test_both_clocks_and_why_a_percentile_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys)
    response = next(line for line in text.splitlines() if line.startswith("response"))
    assert response.split()[-8:] == ["2.000", "1.500", "3.000", "4.000", "9.000", "too", "few", "1,234"], (
        "by its code"
    )
    assert "too few: 5000 effective requests" in text
    assert any(line.startswith("service (from sent)") and "1.400" in line for line in text.splitlines())
    assert "\x1b" not in text, "NO_COLOR"
    assert max(len(line) for line in text.splitlines()) <= 100


def test_a_closed_loop_says_so_beside_its_longest_silence_and_offers_a_rate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = " ".join(shown(capsys).split())
    assert "longest silence 17.2 ms" in text
    assert "--rate 400" in text, "four fifths of what was completed"
    open_loop = " ".join(shown(capsys, model="open loop", rate_asked_rps=500.0).split())
    assert "target 500/s" in open_loop
    assert "--rate" not in open_loop


def test_the_longest_bar_is_of_the_most_requests(capsys: pytest.CaptureFixture[str]) -> None:
    bars = [line.count("█") for line in shown(capsys).splitlines() if " … " in line]
    assert bars == [40, 10], "an end without a request is no bar"


def test_failures_have_name_count_and_hint_and_a_row_of_survivors(capsys: pytest.CaptureFixture[str]) -> None:
    error = RequestError(name="read_reset", count=7, hint="look at its log")
    text = shown(capsys, failed=7, errors={"read_reset": 7}, error_hints=(error,))
    assert "7 × read_reset: look at its log" in text
    assert "response, ok only" in text
    assert "ok only" not in shown(capsys)


def test_success_and_what_failed_lead(capsys: pytest.CaptureFixture[str]) -> None:
    error = RequestError(name="status", count=7, hint="see the server's log")
    text = shown(capsys, ok=4993, failed=7, errors={"status": 7}, error_hints=(error,), status={"200": 4993, "503": 7},
                 failed_response_ms=Lag(p50=1.25, p99=2.5, max=1500.0))  # fmt: skip
    lines = text.splitlines()
    assert lines[1:5] == [
        "4,993 of 5,000 requests ok (99.86 %), 7 failed",
        "7 × status: see the server's log",
        "failures took p50 1.250, p99 2.500, max 1,500 ms",
        "status 4,993 × 200, 7 × 503",
    ]
    assert shown(capsys).splitlines()[1:3] == ["5,000 of 5,000 requests ok (100 %)", "status 5,000 × 200"]


ALL_FAILED: dict[str, Any] = {
    "ok": 0, "failed": 5000, "errors": {"status": 5000}, "status": {"401": 5000}, "measurable_rps": None, "histogram": (),
    "response_ms": Times(mean=0.25), "failed_response_ms": Lag(p50=0.2, p99=0.9, max=2.5),
    "reasons": dict.fromkeys((f"response_ms.{stat}" for stat in ("p50", "p90", "p95", "p99", "p99.9", "max")), "> time-out (100 % failed)"),
    "whys": dict.fromkeys((f"response_ms.{stat}" for stat in ("p50", "p90", "p95", "p99", "p99.9", "max")), "time-out"),
}  # fmt: skip


def test_what_failed_at_once_is_no_time_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, **ALL_FAILED)
    response = next(line for line in text.splitlines() if line.startswith("response"))
    # The mean is of what ended; no percentile has a time.
    assert response.split()[3:] == ["0.250", *["failed"] * 6]
    assert "time-out" not in " ".join(text.split()).replace("in a mean as long as the time-out", "")
    assert "30,000" not in text
    assert "failures took p50 0.200, p99 0.900, max 2.500 ms" in text.splitlines()
    assert "failed: so many requests failed" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100


def test_a_single_failure_leaves_the_mean(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, ok=4999, failed=1, whys={"response_ms.max": "time-out"},
                 reasons={"response_ms.max": "> time-out (0.02 % failed)"},
                 response_ms=Times(mean=8.0, p50=1.5, p90=3.0, p95=4.0, p99=9.0, p99_9=12.0))  # fmt: skip
    response = next(line for line in text.splitlines() if line.startswith("response (from due)"))
    assert response.split()[3:] == ["8.000", "1.500", "3.000", "4.000", "9.000", "12.000", "failed"]
    assert "failed: so many requests failed" not in shown(capsys)


def test_where_nothing_was_ok_nobody_is_told_to_load_more(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, ok=0, failed=5000, errors={"status": 5000}, status={"503": 5000}, measurable_rps=None,
                 reasons={"response_ms.p50": "> time-out (100 % failed)"}, histogram=())  # fmt: skip
    assert "0 of 5,000 requests ok (0 %), 5,000 failed" in text.splitlines()
    for words in ("--rate", "could generate", "service (from sent)", "ok only"):
        assert words not in text
    assert "longest silence 17.2 ms" in text


def test_verdicts_come_with_reasons_and_the_edit_that_would_mend_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(
        capsys,
        instrument=InstrumentVerdict(grade="REFUSED", reasons=("It was late.",), remedy="Ask for less."),
        server=ServerVerdict(state="OVERLOADED", reasons=("The backlog grew.",)),
        thresholds=(
            ThresholdVerdict(that="a", outcome="passed", measured=1.0, sentence="a holds."),
            ThresholdVerdict(that="b", outcome="refused", measured=None, sentence="b was not judged."),
        ),
    )
    for line in ("REFUSED: do not use these numbers", "  It was late.", "  → Ask for less.",
                 "server OVERLOADED", "  The backlog grew.", "✓ a holds.", "? b was not judged."):  # fmt: skip
        assert line in text.splitlines()


@pytest.mark.parametrize(
    ("outcome", "line", "style"),
    [
        ("passed", "✓ a told.", "32"),
        ("failed", "✗ a told.", "31"),
        ("refused", "? a told.", "33"),
        ("no value", "? a told.", "33"),
    ],
)
def test_a_threshold_that_is_open_is_no_failed_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, outcome: Any, line: str, style: str
) -> None:
    one = ThresholdVerdict(that="a", outcome=outcome, measured=None, sentence="a told.")
    assert line in shown(capsys, thresholds=(one,)).splitlines()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    coloured = next(text for text in shown(capsys, thresholds=(one,)).splitlines() if line in text)
    assert coloured == f"\x1b[{style}m{line}\x1b[0m"


@pytest.mark.parametrize("width", [80, 100])
def test_a_number_that_is_refused_or_weak_bears_its_mark_and_one_line_says_what_it_means(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = shown(
        capsys,
        grades={"response_ms.p99": "REFUSED", "service_ms.p99": "WEAK", "throughput_rps": "WEAK"},
        weak=("response_ms.p95", "response_ms.p99"),
    )
    lines = text.splitlines()
    response, service = (next(one for one in lines if one.startswith(name)) for name in ("resp", "serv"))
    assert response.split()[3:] == [
        "2.000",
        "1.500",
        "3.000",
        "4.000",
        "°",
        "9.000",
        "✗",
        "too",
        "few",
        "1,234",
    ]
    assert service.split()[3:] == ["–", "1.400", "–", "–", "8.000", "~", "–", "–"]
    assert "completed 500/s ~" in " ".join(text.split())
    assert "~ WEAK: rough, its range includes the disturbance" in text
    assert max(map(len, lines)) <= width


def test_where_all_numbers_may_be_believed_no_mark_stands(capsys: pytest.CaptureFixture[str]) -> None:
    unseen = {"server_time_ms.p50": "REFUSED"}
    for text in (shown(capsys), shown(capsys, grades=unseen)):
        assert not set("✗~°") & set(text)
        assert "REFUSED" not in text


def test_what_grows_with_the_run_is_told_as_that(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, whys={"response_ms.p50": "grows", "response_ms.p99.9": "too few"})
    assert "1.500 °" in text
    assert "° based on few requests, or grows with the run's length" in text.splitlines()


def test_success_bears_its_mark_too(capsys: pytest.CaptureFixture[str]) -> None:
    marked = shown(capsys, grades={"ok": "REFUSED", "longest_silence_ms": "REFUSED"})
    assert "5,000 of 5,000 requests ok (100 %) ✗" in marked.splitlines()
    assert "longest silence 17.2 ms ✗" in " ".join(marked.split())


def progress(offset_s: float, last_ok: int, **changes: Any) -> Event:
    last = {"ok": last_ok, "failed": 0, "response_p50_ns": 1_200_000, "response_p99_ns": 3_400_000}
    group = {"name": "load", "ok": last_ok, "failed": 0, "in_flight": 5, "errors": {}, "last": last}
    return Event("progress", {"offset_s": offset_s, "groups": [group | changes]})


def test_parts_of_a_line_stand_beneath_those_of_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainLoad(10.0)
    failed = {"ok": 0, "failed": 900}
    view.on_event(progress(1.0, 100))
    view.on_event(progress(2.0, 0, last=failed, errors={"status": 900}))
    view.on_event(progress(3.0, 12_345))
    lines = capsys.readouterr().err.splitlines()
    assert "none ok" in lines[1]
    assert len({line.index("in flight") for line in lines}) == 1


FAILED = (
    "A generator failed: generator.0.0 ended (exit -9).",
    "The system refused /x (No space left on device).",
)


@pytest.mark.parametrize("sentence", FAILED, ids=["generator", "disk"])
@pytest.mark.parametrize("view", [PlainLoad(10.0), ScreenLoad(10.0)], ids=["lines", "screen"])
def test_a_load_that_is_made_again_is_told(
    view: PlainLoad | ScreenLoad, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view.on_event(Event("trial-failed", {"trial": "load.r1", "code": "x", "sentence": sentence}))
    assert capsys.readouterr().err == f"this load does not count: {sentence}\n"
    assert f"made again, since an earlier load failed: {sentence}" in shown(capsys, made_again=(sentence,))
    assert "made again" not in shown(capsys)


def test_a_line_a_second_whoever_many_generators_report(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainLoad(10.0)
    for event in (progress(1.0, 100), progress(1.01, 200), progress(2.0, 1300, errors={"status": 3})):
        view.on_event(event)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].split() == [
        "1",
        "s",
        "100/s",
        "p50",
        "1.2",
        "ms",
        "p99",
        "3.4",
        "ms",
        "5",
        "in",
        "flight",
    ]
    assert lines[1].endswith("failed: 3 status")
    assert "1,300/s" in lines[1]


def test_a_second_without_an_answer_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainLoad(10.0)
    view.on_event(progress(1.0, 0))
    view.on_event(progress(2.0, 5))
    view.on_event(progress(3.0, 0, ok=5))
    told = [line for line in capsys.readouterr().err.splitlines() if "no response" in line]
    assert [line.partition("no response")[2].split("  ")[0] for line in told] == [" yet", " this second"]


def test_a_second_in_which_all_answers_fail_is_not_one_without_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = PlainLoad(10.0)
    last = {"ok": 0, "failed": 300}
    view.on_event(progress(1.0, 0, failed=300, errors={"status": 300}, last=last))
    (line,) = capsys.readouterr().err.splitlines()
    assert "300/s  none ok" in line
    assert line.endswith("failed: 300 status")


def test_the_screen_shows_how_far_it_is() -> None:
    view = ScreenLoad(10.0)
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
    view.on_event(Event("notice", {"text": "waiting: another load"}))
    console.print(view.render())
    for second in range(1, 5):
        view.on_event(progress(float(second), 100 * second))
    console.print(view.render())
    text = console.export_text()
    assert "waiting: another load" in text
    assert "4 s of 10 s  400/s  p50 1.2 ms  p99 3.4 ms" in text
    assert "▂▄▆█" in text
