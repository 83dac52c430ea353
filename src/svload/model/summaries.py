"""The generators' totals for a trial: by share, group and step (summary.json)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from svload.model.base import Artefact, Frozen


class Http2Summary(Frozen):
    """A group's use of HTTP/2."""

    connections: int = 0
    """connections that negotiated HTTP/2"""
    requests: int = 0
    """requests written on them"""
    stream_waits: int = 0
    """requests that waited because the server accepted no further stream"""
    fallbacks: int = 0
    """connections on which the server chose HTTP/1.1"""
    resets: dict[str, int] = {}
    """RST_STREAM frames received, by name of the error code (RFC 9113 §7)"""
    goaways: dict[str, int] = {}
    """GOAWAY frames received, by name of the error code"""


class StepSummary(Frozen):
    """A step's totals over all shares: each step of the scenarios, or the only request of a group."""

    name: str
    """the step; for a lone request the request's name"""
    due: int
    """requests of this step that became due"""
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
    """status of its answer; 0: there was none"""
    body: str
    """the first 200 bytes of the answer's body, with … for values of secrets; empty if the body came in
    pieces, compressed, over HTTP/2 or in a study that takes values out of answers"""


class GroupSummary(Frozen):
    """A traffic group's totals over all shares (engine/docs/results.md, summary). Sums of times (Σ) are
    clipped to `window_ns`."""

    name: str
    """the traffic group, as in the study"""
    due: int
    """requests that became due in the whole load, each step of a scenario counting as one"""
    begun: int
    """of those, the ones that began"""
    waiting: int
    """due, and still waiting at the load's end"""
    waiting_ready: int = 0
    """of those, the ones with a free VU or connection: the generator did not begin them"""
    dropped: int
    """arrivals that a full pool dropped (`on_full: drop`)"""
    ok: int
    """complete answers of an expected status that passed all checks"""
    failed: int
    """all others that ended, including failed connects and timeouts"""
    in_flight: int
    """begun, and not ended when the load did"""
    written: int
    """requests whose first byte was about to be written; redirect hops do not count"""
    completed_in_window: int
    """requests done within `window_ns`, ok or failed, whenever they were due"""
    ok_in_window: int
    """the ok ones of those"""
    errors: dict[str, int] = {}
    """failed requests by error's name"""
    status: dict[str, int] = {}
    """final answers by status, those of failed requests too; redirect hops are left out"""
    checks_failed: dict[str, int] = {}
    """failures by check; in a scenario by `step: check`"""
    steps: tuple[StepSummary, ...] = ()
    """totals by step, in order through all scenarios; a lone request is the only step"""
    connections_opened: int = 0
    """connections that were made, whether or not TLS succeeded on them"""
    http2: Http2Summary = Http2Summary()
    """use of HTTP/2; all 0 without it"""
    tls_full: int = 0
    """full TLS handshakes"""
    tls_resumed: int = 0
    """resumed TLS sessions"""
    bytes_sent: int = 0
    """bytes written to connections, TLS excluded"""
    bytes_received: int = 0
    """bytes read from connections, heads and framing included, TLS excluded"""
    body_bytes: int = 0
    """bytes of all answers' bodies, for all requests that ended"""
    early_repeats: int = 0
    """rows that a VU requested again before it had all; open loop: beyond whole rounds of the table"""
    unasked_data: int = 0
    """connections that ended because bytes arrived while they were idle"""
    request_ns: int = 0
    """Σ begun → done, or the load's end"""
    think_ns: int = 0
    """Σ think time, pacing and the pause after a failed connect; in an open loop only between steps"""
    lag_ns: int = 0
    """Σ ready → begun: delay by the instrument itself"""
    wait_ns: int = 0
    """Σ due → ready: waiting for a free VU or connection"""
    active_ns: int = 0
    """Σ over VUs of the time that they were present; 0 in an open loop"""
    in_flight_mean: float = 0.0
    """requests due and not done, time average over the window; the counter does not track single requests"""
    left_at_end: int = -1
    """requests due and not done at the load's end, same counter; −1: an older svload did not record it"""
    residence_ns: int = 0
    """Σ due → done, or the load's end"""
    longest_silence_ns: int = 0
    """longest stretch of the window without a completion; over several shares an upper bound"""
    last_done_ns: int = -1
    """offset of the last completion; −1: none"""
    first_failure: FirstFailure | None = None
    """null if none failed, and in summaries of an older svload"""
    last_failed_ns: int = -1
    """offset at which the last failed request ended; −1: none"""
    plan_done: bool = False
    """everything planned had ended before the load's end"""


class GeneratorSummary(Frozen):
    """The cost of one share, summed over its threads."""

    share: str
    """its name: the parts of groups that it runs"""
    cpu_ns: int
    """CPU time, without spinning"""
    wall_ns: int
    """from a thread's start to its end, the longest"""
    run_queue_ns: int
    """time that a thread was ready to run and waited for a core"""
    loop_pass_max_ns: int
    """longest pass of an event loop: what arrived in it was read late"""


class GeneratorPart(Frozen):
    """Totals of one generator, in a group with several: only its own users' requests. The group's totals are
    the sums.

    Times are of its ok requests due in `window_ns`, from buckets (error ≤ 0.4 %); null: there were none.
    """

    group: str
    """the traffic group"""
    generator: int
    """its number in the group, from 0"""
    share: str
    """the process that it ran in, as in `generators`; several may share a process"""
    machine: str = ""
    """the fleet's machine that it ran on; empty: this one"""
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
    """Σ of their response times"""
    response_p50_ns: float | None = None
    """median of their response times"""
    response_p99_ns: float | None = None
    """their 99th percentile"""


class PlacePart(Frozen):
    """Totals of a group in one trial, for the generators of one machine, or of all machines of one site.
    Times are of all their ok requests due in `window_ns`, merged (error ≤ 0.4 %); null: there were none."""

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
    """Σ of their response times"""
    response_p50_ns: float | None = None
    """median of their response times"""
    response_p99_ns: float | None = None
    """their 99th percentile"""


class GeneratorResult(Frozen):
    """Totals of one generator of a group over a case's sealed trials. Times are of its ok requests in the
    kept windows: the survivors; null: there were none."""

    group: str
    """the traffic group"""
    generator: int | None
    """its number in the group, from 0; null: all generators of `place`"""
    trials: int
    """trials that it rests on"""
    due: int
    """requests that became due, over these trials"""
    ok: int
    """of those, the ones that ended ok"""
    failed: int
    """of those, the ones that ended and failed"""
    success_rate: float | None
    """ok over ok + failed; null: none ended"""
    response_mean_s: float | None
    """mean over all its responses (error ≤ 0.4 %)"""
    response_p50_s: float | None
    """median over the trials of each trial's median"""
    response_p99_s: float | None
    """median over the trials of each trial's 99th percentile"""
    place: str = ""
    """the fleet's machine that it ran on; for all generators of a machine or a site: its name"""


class Imported(Frozen):
    """The origin of an imported trial's numbers, and what its file did not contain."""

    tool: Literal["JMeter", "Locust", "k6"]
    """the load tester that wrote the file"""
    file: str
    """the file's name, without its folder"""
    sha256: str
    """SHA-256 of its bytes"""
    clock_ns: int
    """resolution of its time stamps, in ns"""
    requests: int
    """finished requests in it; requests that never ended are missing"""
    single: bool
    """it holds single requests; false: only totals over time, which give no percentiles"""
    users: dict[str, int] = {}
    """most users by traffic group; a missing group: not in the file"""
    groups: dict[str, str] = {}
    """traffic group → its name in the file"""
    labels: dict[str, str] = {}
    """step → its name in the file"""
    notes: tuple[str, ...] = ()
    """assumptions and omissions, in sentences"""
    whole: bool = False
    """all of its requests are measured, ramps and warm-up included, as was requested"""


class TurnRecord(Frozen):
    """The turns of a trial whose block was loaded by turns, and the values that fixed them before the first.

    Offsets are in real time from `start_at_ns`, which all sides of the block share.
    """

    turns_ns: tuple[tuple[int, int], ...] = Field(min_length=1)
    """[begin, end) of each of its turns, one per round"""
    next_ns: tuple[int, ...]
    """for each turn, when the next turn of any side begins: the end of the pause"""
    p99_ns: float = Field(ge=0)
    """99th percentile of response in the slower side's warm-up; the unmeasured first and last parts of a turn
    follow from it"""
    pause_ns: int = Field(ge=0)
    """pause after each turn, in which no side sends"""
    sides: tuple[str, ...]
    """cases of the block that took turns with each other, including this one, in the order of the study"""
    warm_ns: int = Field(ge=0)
    """how long this side was loaded alone, unmeasured, before the first turn"""
    settled: bool
    """whether its responses had settled by the end of that time"""

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
"""Largest number of intervals in a trial's window, since they are read into memory; the engine accepts a
tenth of it."""


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
    """[begin, end) as offsets: after all ramps; ends early with a finished fixed amount of work, or a stop"""
    interval_ns: int
    """width of the intervals of the tables"""
    groups: tuple[GroupSummary, ...]
    """by traffic group, in the case's order: `group` in the tables is the index, from 0"""
    populated: tuple[GroupSummary, ...] = ()
    """groups that populated before the load, in the order they ran: their requests are in no other number"""
    generators: tuple[GeneratorSummary, ...]
    """by share: `share` in samples is the index, from 0"""
    parts: tuple[GeneratorPart, ...] = ()
    """by traffic group and generator, for groups with several; empty in summaries of an older svload"""
    places: tuple[PlacePart, ...] = ()
    """by traffic group, machine and site, for a load made by several machines"""
    unauthorised: tuple[str, ...] = ()
    """scheme://host:port of requests to targets that are not authorised: no packet was sent"""
    stopped: Literal["end", "stop_fd", "interrupted"] = "end"
    """end: by itself; stop_fd: stopped since the run's time was over; interrupted: stopped by the user"""
    seed: int | None = None
    """seed of everything random in its load; null: an older svload did not record it, or another load tester
    made the load"""
    imported: Imported | None = None
    """the file of another load tester from which it was made; null: svload made the load"""
    turns: TurnRecord | None = None
    """its turns, if sides of its block took turns: offsets of the window and the tables are then in load
    time, which stands still between its turns, and those of samples in real time; null: it was loaded
    alone"""

    @model_validator(mode="after")
    def _window_is_bounded(self) -> TrialSummary:
        if not self.interval_ns > 0 or self.window_ns[1] // self.interval_ns > MOST_INTERVALS:
            raise ValueError(f"window_ns holds more than {MOST_INTERVALS:,} intervals")
        return self
