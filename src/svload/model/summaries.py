"""What the generators summed up of a trial: by share, group and step (summary.json)."""

from __future__ import annotations

from typing import ClassVar, Literal

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
    """the first 200 bytes of the answer's body, values of secrets as …; empty where they came in pieces, compressed, over HTTP/2 or from a study that takes values out of answers"""


class GroupSummary(Frozen):
    """A traffic group's totals over all shares (engine/README.md, summary). What is summed up as time (Σ) is clipped to `window_ns`."""

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


class TrialSummary(Artefact):
    """summary.json of a trial. Offsets are from the load's start; `window_ns` is the kept window before any warm-up cut."""

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
    generators: tuple[GeneratorSummary, ...]
    """by share: `share` of samples is the place, from 0"""
    unauthorised: tuple[str, ...] = ()
    """scheme://host:port that requests were to go to and may not: no packet was sent"""
    stopped: Literal["end", "stop_fd"] = "end"
    """end: by itself; stop_fd: it was stopped before"""
    seed: int | None = None
    """seed of all that was random in its load; null: an older svload did not record it"""
