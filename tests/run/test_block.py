"""Trials that take turns: one load of all sides, files with plain names, a block sealed as a whole."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import pairwise
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyarrow.parquet import read_table
from tests.bounds import HANG_S
from tests.results import readings, rows_of
from tests.servers import Answering, program, serving

from svload import api
from svload.analysis import limits
from svload.drive.share.timeline import Timeline
from svload.model.errors import ExitCode, fail
from svload.model.events import Event
from svload.model.messages import Action, GroupLimits, HoldSysctls, MakeGroup, Spawn
from svload.model.study import Lock
from svload.run import Options, Outcome, aa_batch, aa_lock, begin, execute, sides, warming
from svload.run.block import _in_turns, plan_turns, plan_within, why_long
from svload.run.configs import case_config
from svload.run.parts import _responses
from svload.run.pauses import PauseReadings
from svload.run.sides import SideHost, own_readings, side_names
from svload.run.trial import TrialRun
from svload.run.warming import Warmed, confirmed, typical_p99_ns, warm_up
from svload.store import RunDir, read_trial
from svload.store.journal import read_events
from svload.store.layout import TrialDir
from svload.store.parquet import TrialData

MS = 1_000_000


class Server(Answering):
    """Answers a path with itself, and counts the requests."""

    asked: Counter[str] = Counter()

    def do_GET(self) -> None:
        Server.asked[self.path] += 1
        if self.path == "/late":
            time.sleep(0.4)
        self.answer(self.path.encode())


@pytest.fixture
def port() -> Iterator[int]:
    Server.asked.clear()
    with serving(Server) as found:
        yield found


@pytest.fixture(autouse=True)
def _short_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVLOAD_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(limits, "TURN_LEAST_NS", 100 * MS)
    monkeypatch.setattr(limits, "TURN_ROUND_NS", 100 * MS)
    monkeypatch.setattr(limits, "TURN_BLOCK_HOLDS", 10)
    monkeypatch.setattr(limits, "TURN_PLANNED", 3)
    monkeypatch.setattr(limits, "TURN_STRETCH", 3)
    monkeypatch.setattr(limits, "TURN_APART_S", (0.01, 0.02))
    monkeypatch.setattr(warming, "STRETCHES_S", (0.2, 0.2))


def locked(folder: Path, study: dict[str, Any]) -> Lock:
    path = folder / "study.yaml"
    path.write_text(json.dumps(study))
    return api.load_lock(str(path), api.Choices(trusted=True))


def study_of(
    name: str, web: dict[str, Any], levels: list[str], request: Any, **measure: Any
) -> dict[str, Any]:
    """Return a study of two levels of the factor `name`, whose response times are compared."""
    load = {"executor": "constant-vus", "vus": 2, "think_time": "2ms", "request": request}
    return {
        "name": f"{name}s",
        "lab": {"web": web},
        "factors": {name: levels},
        "traffic": {"load": load},
        "measure": {"duration": "0.3s", **measure},
        "compare": [{"factor": name, "baseline": levels[0], "metric": "response.p50"}],
    }


def by_path(port: int, replicates: int = 2, other: str = "b", **request: str) -> dict[str, Any]:
    """Return two sides of one server, which differ in the path that they request."""
    web, get = {"at": f"http://127.0.0.1:{port}"}, {"get": "http://web/${page}", **request}
    return study_of("page", web, ["a", other], get, replicates=replicates, order="turns")


OWN_SERVER = program("self.answer(sys.argv[2].encode())")
SERVE = f"{sys.executable} server.py ${{port}}"


def of_builds(folder: Path, request: Any, **measure: Any) -> dict[str, Any]:
    """Return two builds of a server that answers with the build's name."""
    (folder / "server.py").write_text(OWN_SERVER)
    return study_of("build", {"run": f"{SERVE} ${{build}}"}, ["old", "new"], request, **measure)


def begun(folder: Path, study: dict[str, Any]) -> RunDir:
    return begin(locked(folder, study), folder / "runs")


def made(run: RunDir, tell: Callable[[Event], None] = lambda event: None) -> Outcome:
    """Return an execution whose trials nobody judges."""
    return execute(run, Options(tell, lambda run, trial: {"instrument": "VALID"}, trusted=True))


def trials_of(run: RunDir, block: int) -> list[TrialDir]:
    return [run.trial(one.trial) for one in run.planned_trials() if one.block == block]


@pytest.mark.truth
def test_sides_take_turns_in_one_load(tmp_path: Path, port: int) -> None:
    run = begun(tmp_path, by_path(port))
    heard: list[Event] = []
    outcome = made(run, heard.append)
    assert outcome.complete, outcome.error
    for one in [event.data for event in heard if event.kind == "trial-sealed"]:
        assert one["seconds"] - one["beside_s"] == pytest.approx(3 * 0.15), "three turns with their pauses"
    for block in (1, 2):
        found = read_block_in_turns(run, block, ("page-a", "page-b"))
        every = sorted(turn for one in found for turn in one.summary.turns.turns_ns)
        assert len(every) == 6
        assert all(end_ns < begin_ns for (_, end_ns), (begin_ns, _) in pairwise(every))
        assert all({facts.service for facts in one.lab.services} == {"web"} for one in found)


def read_block_in_turns(run: RunDir, block: int, sides: tuple[str, str]) -> list[TrialData]:
    """Check that all trials of the block ran in one load of these sides; return them."""
    found = [read_trial(one) for one in trials_of(run, block)]
    for one in found:
        assert_in_turns(run.trial(one.trial))
    assert {one.summary.turns.sides for one in found} == {sides}
    assert len({one.summary.start_at_ns for one in found}) == 1
    return found


def assert_in_turns(folder: TrialDir) -> None:
    """Check that every request was due in its row's turn of real time; intervals count only load time."""
    trial = read_trial(folder)
    turns_ns = trial.summary.turns.turns_ns
    due_ns = read_table(folder.table("samples"), columns=["due_ns"])["due_ns"].to_numpy()
    assert len(due_ns) > 0
    assert all(any(begin <= at < end for begin, end in turns_ns) for at in due_ns.tolist())
    (load,) = trial.summary.groups
    assert load.due == len(due_ns) == load.ok, "what was under way at the end could end"
    loaded_ns = sum(end - begin for begin, end in turns_ns)
    assert trial.summary.window_ns == (0, loaded_ns)
    loaded = trial.intervals["interval"][trial.intervals["due"] > 0]
    assert int(loaded.max()) < loaded_ns // trial.summary.interval_ns
    length_ns = turns_ns[0][1] - turns_ns[0][0]
    assert length_ns % trial.summary.interval_ns == 0
    assert load.failed == 0


@pytest.mark.truth
def test_a_case_takes_turns_with_itself_in_an_aa_run(tmp_path: Path, port: int) -> None:
    lock = aa_lock(locked(tmp_path, by_path(port)), ("page-b",), 2)
    run = begin(lock, tmp_path / "runs", batch=aa_batch(lock, restarts=False))
    outcome = made(run)
    assert outcome.complete, outcome.error
    pairs = [("page-b.r1", 1), ("page-b.r2", 1), ("page-b.r3", 2), ("page-b.r4", 2)]
    assert [(one.trial, one.block) for one in run.planned_trials()] == pairs
    for block in (1, 2):
        read_block_in_turns(run, block, ("page-b", "page-b"))


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.truth
def test_a_partly_sealed_block_is_remade(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(tmp_path, by_path(port))
    seal, sealed = TrialRun.seal, []

    def killed_at_the_fourth(self: TrialRun, *args: Any) -> Any:
        if len(sealed) == 3:
            raise Killed
        sealed.append(self.plan.trial)
        return seal(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(TrialRun, "seal", killed_at_the_fourth)
        with pytest.raises(Killed):
            made(run)
    first = {one.trial: run.trial(one.trial).seal.read_bytes() for one in run.planned_trials()[:2]}
    assert set(run.sealed_trials()) == set(sealed)
    assert len(sealed) == 3
    heard: list[Event] = []
    outcome = made(run, heard.append)
    assert outcome.complete, outcome.error
    started = next(one for one in heard if one.kind == "run-started")
    assert started.data["sealed"] == 2, "the sealed half of the second block is made again"
    again = {one.trial for one in run.planned_trials() if one.block == 2}
    assert {kept.name for kept in run.kept_attempts()} >= again, "a busy machine may repeat others, too"
    assert not any(kept.seal.exists() for kept in run.kept_attempts())
    assert {name: run.trial(name).seal.read_bytes() for name in first} == first
    turns = [read_trial(run.trial(one.trial)).summary.turns for one in run.planned_trials()]
    lengths = [one.turns_ns[0][1] - one.turns_ns[0][0] for one in turns]
    plans = {(length, one.pause_ns, len(one.turns_ns)) for length, one in zip(lengths, turns, strict=True)}
    assert len(plans) == 1, "the turns of the first block are those of all"
    assert all(not problem for problem in api.damaged(run.name, tmp_path / "runs"))


def test_an_interrupt_is_no_failure(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: TrialRun, times: Timeline) -> None:
        raise fail("interrupted")

    monkeypatch.setattr(TrialRun, "prepare", interrupted)
    run = begun(tmp_path, by_path(port))
    outcome = made(run)
    assert (outcome.exit_code, outcome.error) == (ExitCode.INTERRUPTED, None)
    kept = [event.data for one in run.kept_attempts() for event in read_events(one.events).events]
    assert [data["why"] for data in kept if data.get("why")] == ["stopped", "stopped"]


@pytest.mark.truth
def test_each_side_has_servers_of_its_own_under_plain_names(tmp_path: Path) -> None:
    """Two builds of a server and its dependency run at once: events name the side, files of a trial don't."""
    request = {"get": "http://web/", "check": ["body matches ^${build}$"]}
    study = of_builds(tmp_path, request, replicates=2, order="turns")
    web = {"run": f"{SERVE} ${{build}} ${{store.port}}", "needs": "store"}
    study["lab"] = {"store": {"run": f"{SERVE} store"}, "web": web}
    run = begun(tmp_path, study)
    events: list[Event] = []
    outcome = made(run, events.append)
    assert outcome.complete, outcome.error
    ready = Counter(e.text("service") for e in events if e.kind == "service" and e.text("state") == "ready")
    assert ready == {"web@old": 2, "store@old": 2, "web@new": 2, "store@new": 2}
    ports = set()
    for folder in [*trials_of(run, 1), *trials_of(run, 2)]:
        assert_in_turns(folder)
        trial = read_trial(folder)
        assert [facts.service for facts in trial.lab.services] == ["store", "web"]
        ports |= {(end.port, trial.case) for facts in trial.lab.services for end in facts.endpoints}
        watched = set(trial.monitors["service"])
        assert {"store", "web", ""} <= watched
        assert not any("@" in name for name in watched)
    assert len({number for number, _ in ports}) == 4, "a server keeps its port, and shares it with none"


@pytest.mark.truth
def test_sides_need_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate's default is turns; a server in Python takes more than three quarters of a mebibyte."""
    study = of_builds(tmp_path, "GET http://web/", replicates=1)
    study["compare"][0]["fail_if"] = "worse by more than 5 %"
    run = begun(tmp_path, study)
    assert run.lock().measure.order == "turns"
    monkeypatch.setattr(sides, "free_memory_bytes", lambda: 1 << 20)
    outcome = made(run)
    assert outcome.exit_code is ExitCode.USAGE
    assert "the sides don't fit side by side: build-" in str(outcome.error)
    assert "Write order: trials" in str(outcome.error)


def test_the_agent_is_asked_under_the_names_of_the_side() -> None:
    asked: list[Action] = []
    host = SideHost(SimpleNamespace(prepare=lambda actions, timeout_s: asked.extend(actions)), "a")
    held = HoldSysctls(values={"net.core.somaxconn": "9"})
    server = Spawn(child="web[2].http", role="server", argv=("x",), log="web.log", group="web", link="web")
    host.prepare([MakeGroup(name="web", limits=GroupLimits(), within="vm"), server, held])
    group, spawn, sysctls = asked
    assert isinstance(group, MakeGroup) and isinstance(spawn, Spawn)
    assert (group.name, group.within) == ("web@a", "vm@a")
    assert (spawn.child, spawn.group, spawn.link, spawn.log) == ("web@a[2].http", "web@a", "web@a", "web.log")
    assert sysctls == held
    assert side_names(["http://a/", "main"]) == {"http://a/": "1", "main": "2"}, "the levels are no names"


def test_a_side_has_its_own_readings_and_those_of_the_machine() -> None:
    host = (1, "", "host", "", "m", 0.5)
    other = (3, "web@b", "process", "", "m", 2.5)
    read, quota = (2, "web@a", "process", "", "m", 1.5), (4, "web@a", "quota", "vm@a", "m", 3.5)
    own = [host, (2, "web", "process", "", "m", 1.5), (4, "web", "quota", "vm", "m", 3.5)]
    assert rows_of(own_readings(readings(host, read, other, quota), "a")) == own


def test_turns_follow_from_the_slower_side() -> None:
    fast, slow = Warmed(1e6, 900.0, 4, 2, 2), Warmed(20e6, 700.0, 6, 2, 2)
    found = plan_turns([fast, slow], 0, 3)
    assert (found.p99_ns, found.turns.pause_ns, found.turns.rounds) == (20e6, 50e6, 3)
    assert found.turns.length_ns >= 10 * 20e6
    assert plan_turns([fast, slow], 10 * found.turns.length_ns, 3).turns.rounds == 10


@pytest.mark.parametrize(
    ("load", "followed_ns"),
    [
        ({"executor": "constant-arrival-rate", "rate": "10/s", "max_vus": 4}, 1_000 * MS),
        ({"executor": "constant-vus", "vus": 2}, None),
    ],
)
def test_what_is_under_way_after_the_last_turn_may_end(
    tmp_path: Path, load: dict[str, Any], followed_ns: int | None
) -> None:
    """Not only during the pause, which a stall outlasts. None: until its timeout."""
    study = by_path(80)
    study["traffic"]["load"] = {**load, "request": {"get": "http://web/${page}", "timeout": "2s"}}
    lock = locked(tmp_path, study)
    (group,) = _in_turns(case_config(lock, lock.valid_cases[0])).groups
    assert group.graceful_stop_ns == followed_ns


@pytest.mark.parametrize(("left_s", "rounds", "fits"), [(inf, 50, True), (40.0, 10, True), (12.0, 10, False)])
def test_short_of_time(monkeypatch: pytest.MonkeyPatch, left_s: float, rounds: int, fits: bool) -> None:
    """With 50 turns of 0.2 s and pauses for both sides three blocks take 75 s; with 10 turns, 15 s."""
    monkeypatch.setattr(limits, "TURN_PLANNED", 10)
    monkeypatch.setattr(limits, "TURN_LEAST_NS", 200_000_000)
    monkeypatch.setattr(limits, "TURN_ROUND_NS", 500_000_000)
    planned, lacks_s = plan_within([Warmed(1e6, 900.0, 4, 2, 2)] * 2, 0, 20, left_s)
    assert planned.turns.rounds == rounds
    assert (lacks_s <= 0) is fits


def responses(rate: float, seconds: float, level_ns: float, stall_s: float | None = None) -> Any:
    """Return responses of an open loop in order; all that are due in a stall of 0.3 s wait for its end."""
    rng = np.random.default_rng(5)
    due_s = np.arange(0, seconds, 1 / rate)
    took = level_ns * np.exp(0.3 * rng.standard_normal(len(due_s)))
    if stall_s is None:
        return took
    return took + 1e9 * np.where((due_s >= stall_s) & (due_s < stall_s + 0.3), stall_s + 0.3 - due_s, 0)


def length_ns(took: Any, rate: float) -> int:
    return plan_turns([Warmed(typical_p99_ns(took), rate, 1, 2, 2)], 0, 3).turns.length_ns


@pytest.mark.parametrize(("rate", "seconds"), [(120, 6), (200, 2), (2000, 2), (40, 14)])
@pytest.mark.parametrize("at", [0.0, 0.35, 0.7, 0.85, 1.0, 1.3, 1.65])
def test_a_stall_in_the_warm_up_makes_no_turn_longer(rate: float, seconds: float, at: float) -> None:
    calm, stalled = (length_ns(responses(rate, seconds, 30e6, stall), rate) for stall in (None, at))
    assert 1 / 1.5 < stalled / calm < 1.5
    p99_ns = typical_p99_ns(responses(rate, seconds, 30e6, at))
    assert p99_ns == pytest.approx(30e6 * np.exp(0.3 * 2.33), rel=0.25)


@pytest.mark.parametrize(
    ("p99s_ms", "again_ms", "planned_ms"),
    [
        ((12, 80), 14, (12, 14)),
        ((80, 12), 70, (70, 12)),
        ((12, 80), 90, (12, 80)),
        ((12, 23), None, (12, 23)),
        ((0, 80), None, (0, 80)),
        ((12, 80, 79), None, (12, 80, 79)),
    ],
    ids=["a stall", "a slow server", "two stalls", "alike", "one answers nothing", "two slow servers"],
)
def test_a_side_that_is_far_slower_is_warmed_up_again(
    p99s_ms: tuple[int, ...], again_ms: int | None, planned_ms: tuple[int, ...]
) -> None:
    def warmed(p99_ms: int) -> Warmed:
        return Warmed(p99_ms * 1e6, 100.0, 0, 3_000 * MS, 1_000 * MS)

    asked: list[str] = []

    def again(side: str) -> Warmed:
        asked.append(side)
        return warmed(again_ms or 1)

    found = confirmed({f"side {at}": warmed(one) for at, one in enumerate(p99s_ms)}, again)
    assert [one.p99_ns / 1e6 for one in found.values()] == list(planned_ms)
    assert asked == ([f"side {p99s_ms.index(80)}"] if again_ms else [])
    assert sum(one.took_ns for one in found.values()) == 3_000 * MS * (len(found) + len(asked))


class WarmingTrial:
    """A trial whose warm-up loads give planted results: how many responses, and whether it has settled."""

    def __init__(self, config: Any, shows: Sequence[tuple[int, bool]]) -> None:
        self.config, self.plan, self.left = config, SimpleNamespace(seed=1, case="page-a"), list(shows)
        self.notices: list[str] = []
        self.notice = self.notices.append

    def phase(self, name: str) -> Any:
        return nullcontext()

    def shares(self, *args: Any) -> list[Any]:
        return []

    def load_apart(self, shares: Any) -> Any:
        return None

    def look(self, *args: Any) -> Any:
        number, settled = self.left.pop(0)
        return warming._Seen((np.resize([2e6, 2e6, 5e6], number),), 10.0, 1, settled)


TOO_FEW = "page-a: 300 requests in 400 ms of warm-up are too few"
Warming = Callable[[Any], Any]


@pytest.fixture
def warming_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warming:
    """Return warming_trial(shows) → a trial with four warm-up loads of 0.1 s."""

    def make(shows: Any) -> WarmingTrial:
        lock = begun(tmp_path, by_path(9)).lock()
        trial = WarmingTrial(case_config(lock, lock.cases[0]), shows)
        monkeypatch.setattr(warming, "STRETCHES_S", (0.1,) * 4)
        monkeypatch.setattr(warming, "_look", trial.look)
        return trial

    return make


@pytest.mark.parametrize(
    ("shows", "least", "loads", "settles", "checked_ms", "notice"),
    [
        ([(100, True)], 0, 1, 1, None, ""),  # a later block
        ([(400, True)], 335, 1, 1, [5], ""),
        ([(100, True), (240, True)], 335, 2, 1, None, ""),  # together they are enough
        ([(300, False), (100, True), (250, True)], 335, 3, 2, None, ""),  # what had not settled is left out
        ([(20, True), (40, True), (80, True), (160, True)], 335, 4, 1, None, TOO_FEW),
        ([(400, False)] * 4, 335, 4, None, None, "page-a had not settled after"),
        ([(0, False)] * 4, 335, 4, None, None, "page-a answered none of its requests in 400 ms of warm-up"),
        ([(400, False), (400, True)], 335, 2, 2, [5], ""),  # a load that had not settled gives no estimate
        ([(20, True), (400, True)], 335, 2, 1, [2, 5], ""),  # the p99 of 20 may be a stall: their median
    ],
)
def test_the_warm_up_that_plans_turns_goes_on_until_it_can(
    warming_trial: Warming, shows: Any, least: int, loads: int, settles: Any, checked_ms: Any, notice: str
) -> None:
    trial = warming_trial(shows)
    checked: list[Warmed] = []
    found = warm_up(trial, least, checked.append)
    assert found.took_ns == loads * 100 * MS
    assert found.settled_ns == (settles and settles * 100 * MS)
    assert [one.startswith(notice) for one in trial.notices] == [True] * bool(notice)
    if checked_ms:
        assert [one.p99_ns / MS for one in checked] == pytest.approx(checked_ms)


def test_a_side_that_only_times_out_ends_its_warm_up_with_its_first_load(tmp_path: Path, port: int) -> None:
    heard: list[Event] = []
    made(begun(tmp_path, by_path(port, 1, "late", timeout="250ms")), heard.append)
    texts = [one.text("text") for one in heard if one.kind == "notice"]
    assert "page-late answered none of its requests in 200 ms of warm-up" in texts


@pytest.mark.parametrize(
    ("p99_s", "long"),
    [(0.5, ""), (15.0, "each block takes 1 h 21 min (turns last 2 min 0 s, because the p99 is 15 s): ")],
)
def test_a_long_block_is_announced(p99_s: float, long: str) -> None:
    """A server that answers in 15 s needs turns of two minutes; two URLs take twenty of them each."""
    planned = plan_turns([Warmed(p99_s * 1e9, 900.0, 0, 2, 2)] * 2, 0, 20)
    assert why_long(planned, 2).startswith(long)
    assert bool(why_long(planned, 2)) == bool(long)


def test_only_connections_that_are_kept_make_a_turn_longer() -> None:
    """A connection for each request and one that replaces a closed one ask for no more requests."""

    def rows(connection: Sequence[int], share: Sequence[int] = [0] * 240) -> dict[str, Any]:
        due = np.arange(240) * MS
        numbers = {"connection": np.array(connection), "share": np.array(share)}
        return numbers | {"due_ns": due, "done_ns": due + MS // 2}

    new, kept, shares = rows(range(240)), rows([1, 2] * 120), rows([1] * 240, [0, 1] * 120)
    closed = rows([place // 4 * 2 + place % 2 for place in range(240)])
    groups: Any = [SimpleNamespace(rows=rows) for rows in (new, kept, shares, closed, None)]
    assert [warming.connections_kept([one]) for one in groups] == [0, 2, 2, 2, 0]


def test_load_time_stands_still_between_turns() -> None:
    times = Timeline(0, 200 * MS, turns_ns=((0, 100 * MS), (150 * MS, 250 * MS)))
    found = [times.load_ns(at * MS) for at in (0, 50, 100, 149, 150, 200, 250, 400)]
    assert found == [at * MS for at in (0, 50, 100, 100, 100, 150, 200, 200)]
    assert times.real_end_ns == 250 * MS
    assert times.interval_ns == 2 * MS
    assert times.until(201 * MS) == (0, 150 * MS)


class Readings:
    """A sampler that counts what it is asked for."""

    def __init__(self, wanted: int) -> None:
        self.count, self._wanted = 0, wanted
        self.all = threading.Event()

    def read(self) -> None:
        self.count += 1
        if self.count == self._wanted:
            self.all.set()


def test_monitors_are_read_once_in_each_pause_until_the_load_is_over() -> None:
    hour_ns = 3_600_000 * MS
    sampler: Any = Readings(2)
    pauses = PauseReadings(sampler, [0, hour_ns, 10 * MS], 10 * MS)
    pauses.begin(time.monotonic_ns() - 20 * MS)
    assert sampler.all.wait(HANG_S)
    pauses.finish()
    assert sampler.count == 2


TURNS = ((0, 500 * MS), (1_000 * MS, 1_500 * MS))


def test_a_generators_responses_leave_out_the_time_between_its_turns() -> None:
    """The second request is due 10 ms before a turn's end and gets its slot 20 ms into the next; the third
    belongs to that turn."""
    rows = {
        "group": [0, 0, 0, 1],
        "error": [0, 0, 0, 0],
        "due_ns": [100 * MS, 490 * MS, 1_100 * MS, 100 * MS],
        "ready_ns": [100 * MS, 1_020 * MS, 1_100 * MS, 100 * MS],
        "done_ns": [108 * MS, 1_025 * MS, 1_104 * MS, 900 * MS],
    }
    columns = {name: np.array(cells) for name, cells in rows.items()}
    columns |= dict.fromkeys(("begun_ns", "written_ns", "first_byte_ns"), columns["ready_ns"])
    ranked, total_ns = _responses({"samples": columns}, 0, (0, 1_000 * MS), 10 * MS, TURNS)
    assert ranked.total == 3
    assert total_ns == (8 + 35 + 4) * MS
