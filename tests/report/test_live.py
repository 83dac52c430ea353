"""The live view fits 80 columns, shows what the run does, and is plain lines without a terminal."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from svload.model.events import Event
from svload.report.terminal.live import PlainView, ScreenView, live_view, sparkline

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
    console = Console(file=out, force_terminal=True, width=width, color_system="truecolor" if colour else None, highlight=False)  # fmt: skip
    view = ScreenView(console)
    for event in events():
        view.on_event(event)
    above = out.getvalue()
    console.print(view.render())
    return above, out.getvalue()[len(above) :]


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
    view = ScreenView(Console(file=io.StringIO(), width=COLUMNS))
    view.on_event(Event("notice", {"text": "waiting", "waiting": "svload run demo-7, pid 4711, since 18:02"}))
    assert "waiting for this machine: svload run demo-7, pid 4711, since 18:02" in rendered(view)
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
    view = ScreenView(Console(file=io.StringIO(), width=COLUMNS))
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
    view = ScreenView(Console(file=io.StringIO(), width=COLUMNS))
    for side in ("main", "new"):
        view.on_event(Event("trial-started", {"trial": f"{side}.r1"}))
    seen = []
    for at, (side, own) in enumerate([("main", 300), ("new", 200), ("main", 300), ("new", 200)], 1):
        last = {"ok": own, "response_p50_ns": 1_000_000 * own}
        groups = [{**group("probe"), "last": last}]
        data = {"trial": f"{side}.r1", "offset_s": float(at), "groups": groups, "service_cores": {"web": 0.5}}
        view.on_event(Event("progress", data))
        seen.append(rendered(view))
    assert all("main.r1 and new.r1 under load" in one for one in seen)
    assert all("500/s" in one and "p50 300 ms" in one and "web 1.0" in one for one in seen[1:])


def test_a_second_in_which_nothing_ended_has_no_latency() -> None:
    view = ScreenView(Console(file=io.StringIO(), width=COLUMNS))
    view.on_event(Event("trial-started", {"trial": "main.r1"}))
    for at, p50_ns in enumerate((1_000_000, None, 0, 8_000_000), 1):
        last = {"ok": 9 if p50_ns else 0, "failed": 0, "response_p50_ns": p50_ns}
        data = {"trial": "main.r1", "offset_s": float(at), "groups": [{**group("probe"), "last": last}]}
        view.on_event(Event("progress", data))
    assert sparkline(list(view.latencies)) == "▁  █" and sparkline(list(view.rates)) == "█▁▁█"


def test_a_name_that_turns_the_screen_is_spelt_out() -> None:
    view = ScreenView(Console(file=io.StringIO(), width=COLUMNS))
    view.on_event(Event("trial-started", {"trial": "a\u202eb\x1b[2J"}))
    assert "\u202e" not in rendered(view) and "\x1b" not in rendered(view)
