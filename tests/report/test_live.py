"""Output of `svload run` and `svload load` while they run, and of `svload load` at its end."""

from __future__ import annotations

import io
import re
from difflib import ndiff
from typing import Any

import pytest
from rich.cells import cell_len
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
from svload.report.terminal.live import PlainView, ScreenView, live_view
from svload.report.terminal.load_end import show_load
from svload.report.terminal.load_live import PlainLoad, ScreenLoad, sparkline

COLUMNS = 80


def group(name: str, **fields: Any) -> dict[str, Any]:
    last = {"ok": 14_321, "failed": 3, "response_p50_ns": 2_345_678, "response_p99_ns": 34_567_890}
    return {"name": name, "due": 9, "begun": 9, "ok": 9, "failed": 0, "in_flight": 3, "active_vus": 4000, "errors": {}, "last": last} | fields  # fmt: skip


def events() -> list[Event]:
    """Return a run in its third trial of eighty, with events one second apart."""
    errors = {"timeout_first_byte": 12, "status": 3}
    groups = [group("background"), group("probe", active_vus=10, errors=errors)]
    progress = [
        ("progress", {"trial": "TC7.r3", "offset_s": float(at), "groups": groups, "generator_cpu_s": 0.9 * at, "service_cores": {"cache": 0.4, "backend": 1.6}})
        for at in (1, 2, 3)
    ]  # fmt: skip
    found: list[tuple[str, dict[str, Any]]] = [
        ("run-started", {"study": "svload", "profile": "demo", "trials": 80, "sealed": 0, "seed": 1}),
        ("phase", {"name": "up", "state": "begin"}),
        ("trial-started", {"trial": "TC0.r1"}),
        ("trial-sealed", {"trial": "TC0.r1", "instrument": "VALID", "server": "STEADY", "reasons": [], "headline": "probe p50 2.5 ms, 353/s, 100 % ok"}),
        ("notice", {"text": "waiting", "waiting": "svload run demo-7, pid 4711, since 18:02"}),
        ("trial-started", {"trial": "TC23.r4"}),
        ("trial-sealed", {"trial": "TC23.r4", "instrument": "REFUSED", "server": "UNKNOWN", "reasons": ["The factor did not take effect."], "headline": "probe p50 2.5 ms"}),
        ("trial-started", {"trial": "TC7.r3"}),
        *progress,
    ]  # fmt: skip
    return [Event(kind, data, monotonic_ns=at * 10**9) for at, (kind, data) in enumerate(found)]


def screen(width: int = COLUMNS, colour: bool = False) -> tuple[str, str]:
    """Return (what scrolled above, the view itself) after all events."""
    out = io.StringIO()
    colours = "truecolor" if colour else None
    console = Console(file=out, force_terminal=True, width=width, color_system=colours, highlight=False)
    view = ScreenView(console)
    for event in events():
        view.on_event(event)
    above = out.getvalue()
    console.print(view.render())
    return above, out.getvalue()[len(above) :]


def view_of(*events: Event) -> ScreenView:
    """Return the view after these events."""
    view = ScreenView(Console(file=io.StringIO(), width=COLUMNS))
    for event in events:
        view.on_event(event)
    return view


def rendered(view: ScreenView) -> str:
    out = Console(file=io.StringIO(), width=COLUMNS)
    with out.capture() as reply:
        out.print(view.render())
    return reply.get()


@pytest.mark.parametrize("width", [80, 100, 120, 60])
def test_it_fits_and_nothing_is_cut(width: int) -> None:
    for part in screen(width):
        assert max(cell_len(line) for line in part.splitlines()) <= width
        assert "…" not in part or width == 60


def test_it_says_what_the_run_does(snapshot: SnapshotAssertion) -> None:
    """Verdicts of single trials are only counted, and one trial can't show that a server is STEADY."""
    above, view = screen()
    assert re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", above + view) == snapshot


def test_who_holds_the_machine_is_named_while_it_is_waited_for() -> None:
    holder = "svload run demo-7, pid 4711, since 18:02"
    view = view_of(Event("notice", {"text": "waiting", "waiting": holder}))
    assert f"waiting for this machine: {holder}" in rendered(view)
    view.on_event(Event("phase", {"name": "up", "state": "begin"}))
    assert "waiting for this machine" not in rendered(view)


@pytest.mark.parametrize(
    ("within_s", "words"),
    [
        (None, "about 5 min 12 s left, at most 20 min 48 s with added blocks"),
        (610.0, "about 5 min 12 s left, at most 10 min 1 s with added blocks"),
        (110.0, "about 1 min 41 s left"),
    ],
)
def test_added_blocks_take_no_longer_than_the_run_may(within_s: float | None, words: str) -> None:
    """A run's time begins when it has the machine, a second after its start."""
    view = view_of()
    for event in events():
        more = {"most_trials": 314, "within_s": within_s} if event.kind == "run-started" else {}
        view.on_event(Event(event.kind, event.data | more, monotonic_ns=event.monotonic_ns))
        if event.kind == "phase":
            view.on_event(Event("placement", {}, monotonic_ns=event.monotonic_ns))
    assert view.left_words == words


def test_no_color_has_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = re.compile(r"\x1b\[[0-9;]*3[0-9]")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured.search("".join(screen(colour=True)))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search("".join(screen(colour=True)))


def test_plain_lines_if_piped(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    with live_view() as view:
        assert isinstance(view, PlainView)
        for event in events():
            view.on_event(event)
    found = capsys.readouterr()
    assert found.out == "" and found.err == snapshot


def test_sides_that_take_turns_are_one_line() -> None:
    view = view_of(*(Event("trial-started", {"trial": f"{side}.r1"}) for side in ("main", "new")))
    seen = []
    for at, (side, own) in enumerate([("main", 300), ("new", 200), ("main", 300), ("new", 200)], 1):
        groups = [group("probe", last={"ok": own, "response_p50_ns": 1_000_000 * own})]
        data = {"trial": f"{side}.r1", "offset_s": float(at), "groups": groups, "service_cores": {"web": 0.5}}
        view.on_event(Event("progress", data))
        seen.append(rendered(view))
    assert all("main.r1 and new.r1 under load" in one for one in seen)
    assert all("500/s" in one and "p50 300 ms" in one and "web 1.0" in one for one in seen[1:])


def test_a_second_in_which_nothing_ended_has_no_latency() -> None:
    view = view_of(Event("trial-started", {"trial": "main.r1"}))
    for at, p50_ns in enumerate((1_000_000, None, 0, 8_000_000), 1):
        last = {"ok": 9 if p50_ns else 0, "failed": 0, "response_p50_ns": p50_ns}
        data = {"trial": "main.r1", "offset_s": float(at), "groups": [group("probe", last=last)]}
        view.on_event(Event("progress", data))
    assert sparkline(list(view.latencies)) == "▁  █" and sparkline(list(view.rates)) == "█▁▁█"


def test_a_name_that_turns_the_screen_is_spelt_out() -> None:
    shown = rendered(view_of(Event("trial-started", {"trial": "a\u202eb\x1b[2J"})))
    assert not {"\u202e", "\x1b"} & set(shown)


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
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
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
    # the mean is of requests that ended; no percentile has a time, and no timeout is named
    "all fail at once": {
        "ok": 0, "failed": 5000, "errors": {"status": 5000}, "status": {"401": 5000}, "measurable_rps": None, "histogram": (),
        "response_ms": Times(mean=0.25), "failed_response_ms": Lag(p50=0.2, p99=0.9, max=2.5),
        "reasons": dict.fromkeys((f"response_ms.{stat}" for stat in STATS), "> timeout (100 % failed)"),
        "whys": dict.fromkeys((f"response_ms.{stat}" for stat in STATS), "time-out"),
    },
    "one fails": {
        "ok": 4999, "failed": 1, "whys": {"response_ms.max": "time-out"}, "reasons": {"response_ms.max": "> timeout (0.02 % failed)"},
        "response_ms": Times(mean=8.0, p50=1.5, p90=3.0, p95=4.0, p99=9.0, p99_9=12.0),
    },
    # no advice to load more, no row of successful requests only
    "all time out": {
        "ok": 0, "failed": 5000, "errors": {"status": 5000}, "status": {"503": 5000}, "measurable_rps": None,
        "reasons": {"response_ms.p50": "> timeout (100 % failed)"}, "histogram": (),
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
        "weak": ("response_ms.p95", "response_ms.p99", "service_ms.p99"),
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
    differing = [line for line in ndiff(usual.splitlines(), text.splitlines()) if line[0] in "+-"]
    assert (text if name == "closed loop" else "\n".join(differing)) == snapshot
    narrow = shown(show_load, summary(**SUMMARIES[name]), width=80)
    assert max(map(len, text.splitlines())) <= 100 and max(map(len, narrow.splitlines())) <= 80
    assert narrow.replace("█", "").split() == text.replace("█", "").split()
    tiny = shown(show_load, summary(**SUMMARIES[name]), width=40)
    assert max(map(len, tiny.splitlines())) <= 40
    assert set(NUMBER.findall(tiny)) <= set(NUMBER.findall(text)) and tiny.count("…") == text.count("…")


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
