"""What a trial left and what it means: the generators' summary, the seal, verdicts, claims and findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from pydantic import Field

from svload.model.base import Artefact, Frozen
from svload.model.certificates import InstrumentCertificate

Grade = Literal["VALID", "WEAK", "REFUSED"]
ServerState = Literal["STEADY", "SATURATED", "OVERLOADED", "UNKNOWN"]


class Http2Summary(Frozen):
    """What a group did over HTTP/2. `stream_waits`: requests that waited since the server took no further stream; `fallbacks`:
    connections on which it chose HTTP/1.1; `resets` (RST_STREAM) and `goaways` by their error code's name (RFC 9113 §7).
    """

    connections: int = 0
    requests: int = 0
    stream_waits: int = 0
    fallbacks: int = 0
    resets: dict[str, int] = {}
    goaways: dict[str, int] = {}


class StepSummary(Frozen):
    """A step's totals over all shares: of a scenario's steps, and of a request alone, which is the group's."""

    name: str
    due: int
    begun: int
    dropped: int
    ok: int
    failed: int
    errors: dict[str, int] = {}
    status: dict[str, int] = {}


class GroupSummary(Frozen):
    """A traffic group's totals over all shares (engine/README.md, summary; times in ns, clipped to the window)."""

    name: str
    due: int
    begun: int
    waiting: int
    dropped: int
    ok: int
    failed: int
    in_flight: int
    written: int
    completed_in_window: int
    ok_in_window: int
    errors: dict[str, int] = {}
    status: dict[str, int] = {}
    checks_failed: dict[str, int] = {}
    steps: tuple[StepSummary, ...] = ()
    connections_opened: int = 0
    http2: Http2Summary = Http2Summary()
    tls_full: int = 0
    tls_resumed: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    body_bytes: int = 0
    early_repeats: int = 0
    unasked_data: int = Field(
        default=0, description="connections that ended because bytes came while they were idle"
    )
    request_ns: int = 0
    think_ns: int = 0
    lag_ns: int = 0
    wait_ns: int = 0
    active_ns: int = 0
    in_flight_mean: float = 0.0
    residence_ns: int = 0
    longest_silence_ns: int = 0
    last_done_ns: int = -1
    plan_done: bool = Field(default=False, description="all that was planned had ended before the load's end")


class GeneratorSummary(Frozen):
    """One share's own cost: CPU, wall and run-queue time of its threads in ns."""

    share: str
    cpu_ns: int
    wall_ns: int
    run_queue_ns: int
    loop_pass_max_ns: int


class TrialSummary(Artefact):
    """summary.json of a trial. Offsets are from the load's start; `window_ns` is the kept window before any warm-up cut."""

    FORMAT: ClassVar[int] = 1
    trial: str
    case: str
    started_wall: float
    start_at_ns: int
    window_ns: tuple[int, int]
    interval_ns: int
    groups: tuple[GroupSummary, ...]
    generators: tuple[GeneratorSummary, ...]
    unauthorised: tuple[str, ...] = ()
    stopped: Literal["end", "stop_fd"] = "end"


class Seal(Artefact):
    """seal.json: written last and fsynced. `files` maps every other file of the trial to its SHA-256; `facts` are no verdict."""

    FORMAT: ClassVar[int] = 1
    trial: str
    case: str
    replicate: int
    block: int
    attempt: int
    svload_version: str
    sealed_wall: float
    files: dict[str, str]
    facts: dict[str, Any]


class ThinnedFile(Frozen):
    """A file of a sealed trial that a thin pack holds in another form: the digests of what was sealed and of what is there."""

    sealed: str
    kept: str


class Thinned(Artefact):
    """thinned.json: which files of sealed trials (`trials/TC7.r3/lab.json`) a thin copy of a run changed, and how."""

    FORMAT: ClassVar[int] = 1
    what: str
    files: dict[str, ThinnedFile]


class CheckResult(Frozen):
    """One row of METHOD §3 on one trial. `value` and `limit` in the check's own unit; `remedy` is the one edit that would mend it.

    `measured` is False where the trial holds no facts for it: then its grade says nothing.
    """

    check: str
    grade: Grade
    sentence: str
    value: float | None = None
    limit: float | None = None
    remedy: str = ""
    measured: bool = True


class Verdict(Frozen):
    """Both verdicts on one trial: may the instrument be believed, and how was the server?"""

    trial: str
    instrument: Grade
    server: ServerState
    reasons: tuple[str, ...]
    checks: tuple[CheckResult, ...]
    remedy: str = ""


class Estimate(Frozen):
    """A number with its interval, or null with the reason. `value`, `low`, `high` in base units."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    n_eff: float | None = None
    weak: bool = False
    reason: str = ""


class TrialResult(Frozen):
    """A trial as judged: its metrics (`group.metric.stat` → estimate) after the case's warm-up cut."""

    trial: str
    case: str
    replicate: int
    block: int
    verdict: Verdict
    metrics: dict[str, Estimate]
    cut_ns: int = 0


def marks(
    trials: Iterable[TrialResult], grade: Grade | None = None
) -> dict[str, list[tuple[TrialResult, CheckResult]]]:
    """The trials' rows by check, in the order met; only those of `grade` where it is given."""
    found: dict[str, list[tuple[TrialResult, CheckResult]]] = {}
    for trial in trials:
        for check in trial.verdict.checks:
            if grade in (None, check.grade):
                found.setdefault(check.check, []).append((trial, check))
    return found


class CaseResult(Frozen):
    """A case over its replicates: the headline interval is t over per-run log values (METHOD §2)."""

    case: str
    levels: dict[str, str]
    excluded: str | None
    instrument: Grade | None
    server: ServerState | None
    trials: tuple[str, ...]
    refused: tuple[str, ...]
    metrics: dict[str, Estimate]
    reasons: tuple[str, ...] = ()
    load_model: dict[str, str] = {}


class Claim(Frozen):
    """A comparison's outcome: `ratio` of treatment over baseline with its interval, p, and what may be said."""

    name: str
    factor: str
    baseline: str
    treatment: str
    metric: str
    pairs: tuple[tuple[str, str], ...]
    blocks: int
    ratio: Estimate
    p: float | None
    p_adjusted: float | None
    smallest_p: float | None
    mde: float | None
    mde_reason: str = ""
    state: Literal["claim", "no claim", "undecidable", "refused"]
    planned: bool = True
    success: tuple[float | None, float | None] = (None, None)
    sentence: str
    gated: bool = False
    failed: bool = False
    floor: float | None = Field(
        default=None, description="|log ratio| that the lab shows against itself (A/A certificate)"
    )


class ThresholdResult(Frozen):
    """A threshold on one case: passed, failed, or refused (never a pass)."""

    case: str
    that: str
    outcome: Literal["passed", "failed", "refused", "no value"]
    measured: float | None
    sentence: str


class Finding(Frozen):
    """A sentence with its evidence (paths into the run: cases, trials, claims). `certainty` in words."""

    kind: str
    sentence: str
    evidence: tuple[str, ...]
    certainty: str


class Findings(Artefact):
    """derived/findings.json: the final verdicts, made from the sealed trials alone."""

    FORMAT: ClassVar[int] = 1
    analysis_version: int
    study: str
    question: str
    profile: str | None
    floor: str = Field(default="floor unknown: exploratory")
    complete: bool
    planned_trials: int
    sealed_trials: int
    attempts: tuple[dict[str, Any], ...] = ()
    cases: tuple[CaseResult, ...]
    trials: tuple[TrialResult, ...]
    claims: tuple[Claim, ...] = ()
    thresholds: tuple[ThresholdResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    phases_s: dict[str, float] = {}
    load: dict[str, str] = Field(
        default={},
        description="the load that this run made, in words: by traffic group, and what its object stores held",
    )
    environment: dict[str, str] = Field(
        default={}, description="the machine in words: what it is, what the preflight measured there"
    )
    instrument: InstrumentCertificate | None = Field(
        default=None, description="the instrument's certificate that held when the run began"
    )
