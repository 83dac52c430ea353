"""What the generators summed up of a trial: by share, group and step (summary.json)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from svload.model.base import Artefact, Frozen


class Http2Summary(Frozen):
    """What a group did over HTTP/2."""

    connections: int = 0
    """connections that came up with HTTP/2"""
    requests: int = 0
    """requests written on them"""
    stream_waits: int = 0
    """requests that waited because the server took no further stream"""
    fallbacks: int = 0
    """connections on which the server chose HTTP/1.1"""
    resets: dict[str, int] = {}
    """RST_STREAM received, by error code's name (RFC 9113 §7)"""
    goaways: dict[str, int] = {}
    """GOAWAY received, by error code's name"""


class StepSummary(Frozen):
    """A step's totals over all shares: of a scenario's steps, and of a request alone, which is the group's."""

    name: str
    """the step; of a lone request the request's name"""
    due: int
    """requests of it that became due"""
    begun: int
    """of those, the ones that began"""
    dropped: int
    """of those, the ones that a full pool dropped"""
    ok: int
    """begun, and ended ok"""
    failed: int
    """begun, and ended with an error, a wrong status or a failed check"""
    errors: dict[str, int] = {}
    """failed requests by error's name"""
    status: dict[str, int] = {}
    """final answers by status, those of failed requests too"""


class FirstFailure(Frozen):
    """The first request of a group that failed."""

    at_ns: int
    """when it ended, as an offset from the load's start"""
    error: str
    """the error's name"""
    status: int
    """status of its answer; 0: none came"""
    body: str
    """the first 200 bytes of the answer's body, values of secrets as …; empty where they came in pieces,
    compressed, over HTTP/2 or from a study that takes values out of answers"""


class GroupSummary(Frozen):
    """A traffic group's totals over all shares (engine/docs/results.md, summary). What is summed up as time
    (Σ) is clipped to `window_ns`."""

    name: str
    """the traffic group, as in the study"""
    due: int
    """requests that became due in the whole load, each step of a scenario for itself"""
    begun: int
    """of those, the ones that began"""
    waiting: int
    """due, and still waiting at the load's end"""
    waiting_ready: int = 0
    """of those, the ones for whom a VU or connection was free: the generator did not begin them"""
    dropped: int
    """arrivals that a full pool dropped (`on_full: drop`)"""
    ok: int
    """complete answers of an expected status that passed all checks"""
    failed: int
    """all others that ended, failed connects and time-outs too"""
    in_flight: int
    """begun, and not ended when the load did"""
    written: int
    """requests of which a first byte was about to be written; redirect hops do not count"""
    completed_in_window: int
    """requests done within `window_ns`, ok or failed, whenever they were due"""
    ok_in_window: int
    """the ok ones of those"""
    errors: dict[str, int] = {}
    """failed requests by error's name"""
    status: dict[str, int] = {}
    """final answers by status, those of failed requests too; redirect hops are left out"""
    checks_failed: dict[str, int] = {}
    """failures by check; in a scenario `step: check`"""
    steps: tuple[StepSummary, ...] = ()
    """totals by step, in order through all scenarios; a lone request is the one step"""
    connections_opened: int = 0
    """connections that were made, whatever came of TLS on them"""
    http2: Http2Summary = Http2Summary()
    """what it did over HTTP/2; all 0 without"""
    tls_full: int = 0
    """full TLS handshakes"""
    tls_resumed: int = 0
    """TLS sessions taken up again"""
    bytes_sent: int = 0
    """bytes written to connections, TLS excluded"""
    bytes_received: int = 0
    """bytes read from connections, heads and framing included, TLS excluded"""
    body_bytes: int = 0
    """bytes of the answers' bodies, of all requests that ended"""
    early_repeats: int = 0
    """rows that a VU asked again before it had asked all; open loop: beyond whole rounds of the table"""
    unasked_data: int = 0
    """connections that ended because bytes came while they were idle"""
    request_ns: int = 0
    """Σ begun → done, or the load's end"""
    think_ns: int = 0
    """Σ think time, pacing and the pause after a failed connect included; in an open loop between steps alone"""
    lag_ns: int = 0
    """Σ ready → begun: the instrument's own doing"""
    wait_ns: int = 0
    """Σ due → ready: waiting for a free VU or connection"""
    active_ns: int = 0
    """Σ over VUs of the time that they were there; 0 in an open loop"""
    in_flight_mean: float = 0.0
    """requests due and not done, time average over the window, by a gauge that knows no single request"""
    left_at_end: int = -1
    """due and not done when the load ended, by that gauge; −1: an older svload did not record it"""
    residence_ns: int = 0
    """Σ due → done, or the load's end"""
    longest_silence_ns: int = 0
    """longest stretch of the window without a completion; over several shares an upper bound"""
    last_done_ns: int = -1
    """offset of the last completion; −1: none"""
    first_failure: FirstFailure | None = None
    """null where none failed, and in summaries of an older svload"""
    last_failed_ns: int = -1
    """offset at which the last failed request ended; −1: none"""
    plan_done: bool = False
    """all that was planned had ended before the load's end"""


class GeneratorSummary(Frozen):
    """One share's own cost, its threads added."""

    share: str
    """its name: the parts of groups that it makes"""
    cpu_ns: int
    """CPU time, without what was spun away"""
    wall_ns: int
    """from a thread's start to its end, the longest"""
    run_queue_ns: int
    """time that a thread could have run and waited for a core"""
    loop_pass_max_ns: int
    """longest pass of an event loop: what came meanwhile was read late"""


class GeneratorPart(Frozen):
    """What one generator of a group that has several did: its own users' requests, apart from the others'.
    The group's totals are their sums.

    Times are of its ok requests due in `window_ns`, from buckets (error ≤ 0.4 %); null: there were none.
    """

    group: str
    """the traffic group"""
    generator: int
    """its number in the group, from 0"""
    share: str
    """the process that it ran in, as in `generators`; several may share one"""
    machine: str = ""
    """the machine of the fleet that it ran on; empty: this one"""
    due: int
    """requests that became due in the whole load"""
    begun: int
    """of those, the ones that began"""
    ok: int
    """complete answers of an expected status that passed all checks"""
    failed: int
    """all others that ended"""
    connections_opened: int = 0
    """connections that were made"""
    bytes_received: int = 0
    """bytes read from connections, heads and framing included, TLS excluded"""
    errors: dict[str, int] = {}
    """failed requests by error's name"""
    status: dict[str, int] = {}
    """final answers by status"""
    responses: int = 0
    """ok requests due in `window_ns`"""
    response_sum_ns: float = 0.0
    """Σ of their response"""
    response_p50_ns: float | None = None
    """their median response"""
    response_p99_ns: float | None = None
    """their 99th percentile"""


class PlacePart(Frozen):
    """What the generators of one machine, or of all machines of one site, did of a group in one trial. Times are of the ok
    requests due in `window_ns`, of all of them merged (error ≤ 0.4 %); null: there were none."""

    kind: Literal["machine", "site"]
    """what the place is"""
    place: str
    """its name in the inventory"""
    group: str
    """the traffic group"""
    due: int
    """requests that became due in the whole load"""
    ok: int
    """of those, the ones that ended ok"""
    failed: int
    """of those, the ones that ended and failed"""
    responses: int = 0
    """ok requests due in `window_ns`"""
    response_sum_ns: float = 0.0
    """Σ of their response"""
    response_p50_ns: float | None = None
    """their median response"""
    response_p99_ns: float | None = None
    """their 99th percentile"""


class GeneratorResult(Frozen):
    """What one generator of a group did over a case's sealed trials. Times are of its ok requests of the kept
    windows: the survivors; null: none."""

    group: str
    """the traffic group"""
    generator: int | None
    """its number in the group, from 0; null: `place` says whose they are"""
    trials: int
    """trials that it rests on"""
    due: int
    """requests that became due, over all these trials"""
    ok: int
    """of those, the ones that ended ok"""
    failed: int
    """of those, the ones that ended and failed"""
    success_rate: float | None
    """ok over ok and failed; null: none ended"""
    response_mean_s: float | None
    """mean over all its responses (error ≤ 0.4 %)"""
    response_p50_s: float | None
    """median over the trials of each trial's median"""
    response_p99_s: float | None
    """median over the trials of each trial's 99th percentile"""
    place: str = ""
    """the machine that it ran on, of a fleet; of all generators of a machine or a site: which"""


class Imported(Frozen):
    """Where an imported trial's numbers come from, and what its file did not hold."""

    tool: Literal["JMeter", "Locust", "k6"]
    """the load tester that wrote the file"""
    file: str
    """the file's name, without its folder"""
    sha256: str
    """SHA-256 of its bytes"""
    clock_ns: int
    """resolution of its time stamps"""
    requests: int
    """finished requests in it; what never ended is not there"""
    single: bool
    """it holds single requests; false: totals over time, so that no percentile can be made"""
    users: dict[str, int] = {}
    """most users by traffic group; a group that is not there: the file does not say"""
    groups: dict[str, str] = {}
    """traffic group → its name in the file"""
    labels: dict[str, str] = {}
    """step → its name in the file"""
    notes: tuple[str, ...] = ()
    """what had to be assumed or left out, in sentences"""
    whole: bool = False
    """all of its requests are measured, ramps and warm-up included, because that was asked for"""


class TurnRecord(Frozen):
    """The turns of a trial whose block was loaded by turns: when it had its own, and what fixed them before the first.

    Offsets are in real time from `start_at_ns`, which all sides of the block share.
    """

    turns_ns: tuple[tuple[int, int], ...] = Field(min_length=1)
    """[begin, end) of each of its turns, a round each"""
    next_ns: tuple[int, ...]
    """when the next turn of any side begins, of each turn: the end of its pause"""
    p99_ns: float = Field(ge=0)
    """99th percentile of the response of the slower side's warm-up: a turn's unmeasured first and last parts follow from it"""
    pause_ns: int = Field(ge=0)
    """pause after each turn, in which nobody sends"""
    sides: tuple[str, ...]
    """cases of the block that took turns with each other, this one among them, in the order of the study"""
    warm_ns: int = Field(ge=0)
    """how long this side was loaded alone, unmeasured, before the first turn"""
    settled: bool
    """whether its responses had settled by then"""

    @model_validator(mode="after")
    def _is_in_order(self) -> TurnRecord:
        at_ns = 0
        if len(self.next_ns) != len(self.turns_ns):
            raise ValueError("next_ns holds one value for each turn")
        for (begin_ns, end_ns), next_ns in zip(self.turns_ns, self.next_ns, strict=True):
            if not at_ns <= begin_ns < end_ns <= next_ns:
                raise ValueError("turns_ns are not in order")
            at_ns = next_ns
        return self


MOST_INTERVALS = 10_000_000
"""What a trial's window is cut into is read into memory; the engine takes a tenth of it."""


class TrialSummary(Artefact):
    """summary.json of a trial. Offsets are from the load's start; `window_ns` is the kept
    window before any warm-up cut."""

    FORMAT: ClassVar[int] = 1
    trial: str
    """the trial, such as TC7.r3"""
    case: str
    """the case, as in the lock"""
    started_wall: float
    """the load's start, Unix time in s"""
    start_at_ns: int
    """the load's start on CLOCK_MONOTONIC: offsets count from here"""
    window_ns: tuple[int, int]
    """[begin, end) as offsets: after all ramps; ends early with a fixed amount of work that was done, or a stop"""
    interval_ns: int
    """width of the intervals of the tables"""
    groups: tuple[GroupSummary, ...]
    """by traffic group, in the case's order: `group` of the tables is the place, from 0"""
    populated: tuple[GroupSummary, ...] = ()
    """groups that populated before the load, in the order they ran: no request of theirs is in any other number"""
    generators: tuple[GeneratorSummary, ...]
    """by share: `share` of samples is the place, from 0"""
    parts: tuple[GeneratorPart, ...] = ()
    """by traffic group and generator, of groups that have several generators; empty in summaries of an older svload"""
    places: tuple[PlacePart, ...] = ()
    """by traffic group, machine and site, of a load that several machines made"""
    unauthorised: tuple[str, ...] = ()
    """scheme://host:port that requests were to go to and may not: no packet was sent"""
    stopped: Literal["end", "stop_fd", "interrupted"] = "end"
    """end: by itself; stop_fd: stopped before, since the run's time was over; interrupted: stopped by the user"""
    seed: int | None = None
    """seed of all that was random in its load; null: an older svload did not record it, or
    another load tester made the load"""
    imported: Imported | None = None
    """the file of another load tester that it was made of; null: svload made the load"""
    turns: TurnRecord | None = None
    """its turns, where sides of its block took turns: offsets of the window and the tables are then in load time, which stands
    still between its turns, and those of samples in real time; null: it was loaded alone"""

    @model_validator(mode="after")
    def _window_is_bounded(self) -> TrialSummary:
        if not self.interval_ns > 0 or self.window_ns[1] // self.interval_ns > MOST_INTERVALS:
            raise ValueError(f"window_ns holds more than {MOST_INTERVALS:,} intervals")
        return self
