"""Results of a trial and their meaning: the generators' summary, the seal, verdicts, claims and findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from svload.model.base import Artefact, Frozen
from svload.model.capacity import CapacityResult
from svload.model.certificates import InstrumentCertificate
from svload.model.evidence import CaseEvidence, Evidence
from svload.model.failures import FailureKind as FailureKind
from svload.model.failures import Failures as Failures
from svload.model.load_curve import GroupLoad, LoadCurve, RampBreak, ResourceUse
from svload.model.metrics import is_timing
from svload.model.pairs import CarryOver as CarryOver
from svload.model.pairs import Gate as Gate
from svload.model.pairs import LostPair as LostPair
from svload.model.pairs import PairRatio as PairRatio
from svload.model.pairs import SideSpread as SideSpread
from svload.model.pairs import Strangers as Strangers
from svload.model.summaries import FirstFailure as FirstFailure
from svload.model.summaries import GeneratorPart as GeneratorPart
from svload.model.summaries import GeneratorResult as GeneratorResult
from svload.model.summaries import GeneratorSummary as GeneratorSummary
from svload.model.summaries import GroupSummary as GroupSummary
from svload.model.summaries import Http2Summary as Http2Summary
from svload.model.summaries import Imported as Imported
from svload.model.summaries import StepSummary as StepSummary
from svload.model.summaries import TrialSummary as TrialSummary
from svload.model.summaries import TurnRecord as TurnRecord

Grade = Literal["VALID", "WEAK", "REFUSED"]
_WORST_FIRST: tuple[Grade, ...] = ("REFUSED", "WEAK")
Why = Literal[
    "",
    "too few",
    "time-out",
    "in stages",
    "grows",
    "correlated",
    "pooled",
    "no request",
    "not measured",
    "refused",
    "null in a run",
    "no looks-up",
    "no ratio",
    "not recovered",
]
"""Why a number is null, or what else to know about it, as a code that pages read; `reason` has it in
words."""
ServerState = Literal["STEADY", "SATURATED", "OVERLOADED", "UNKNOWN"]


class Harm(Frozen):
    """What a check found about one number, or about all numbers of a kind (docs/method.md §3)."""

    number: str
    """full metric name, such as probe.response.p99; or a kind: `all`, or `timing` (times, rates and CPU;
    counts, shares and sizes are not harmed)"""
    grade: Grade
    """grade of that number by this check only"""
    below: float | None = 0.0
    """how far below the value the true value may lie, as a share of the value (0.05 is 5 %); null: unknown"""
    above: float | None = 0.0
    """the same above it; null: unknown"""

    def is_of(self, number: str) -> bool:
        """Return whether it applies to the number with this full name."""
        return self.number in (number, "all") or (self.number == "timing" and is_timing(number))


class CheckResult(Frozen):
    """One row of docs/method.md §3 for one trial. `value` and `limit` are in the check's own unit; `remedy`
    is the one change that would fix it.

    `grade` is the worst of `harms`, over all numbers; `on` gives what it means for one number. If `measured`
    is False, the trial holds no facts for the check, and its grade means nothing.
    """

    check: str
    """the check's name, as in the reference of verdicts"""
    grade: Grade
    """VALID if it was not measured"""
    sentence: str
    """what it found, with its numbers"""
    value: float | None = None
    """what was measured; null: not a single number"""
    limit: float | None = None
    """the limit for `value`; null: none"""
    remedy: str = ""
    """what would fix it; empty for VALID"""
    measured: bool = True
    """false: the trial holds no facts for it, and it does not count in the verdict"""
    harms: tuple[Harm, ...] = ()
    """the numbers that it doubts, and how far off they may be; empty: none"""
    who: str = ""
    """who caused it (process, user, command), if known"""

    def on(self, number: str) -> Grade:
        """Return the result for one number, by its full name."""
        grades = [harm.grade for harm in self.harms if harm.is_of(number)]
        return next((grade for grade in _WORST_FIRST if grade in grades), "VALID")


class Verdict(Frozen):
    """Both verdicts on one trial: whether the instrument can be trusted, and how the server behaved."""

    trial: str
    """the trial, such as TC7.r3"""
    instrument: Grade
    """the worst grade of the numbers that the study asks for"""
    server: ServerState
    """UNKNOWN: no steady state was expected or seen, or the instrument can't tell"""
    reasons: tuple[str, ...]
    """sentences: checks that doubt a number the study asks for, REFUSED first, then the server's state"""
    checks: tuple[CheckResult, ...]
    """every check, with its sentence"""
    remedy: str = ""
    """of the first of these checks; empty: nothing to fix"""


class Belief(Frozen):
    """How far a number can be trusted, if it is not simply VALID (docs/method.md §3)."""

    grade: Grade
    """worst grade of this number by any check"""
    below: float | None = 0.0
    """how far below the value the true value may lie, as a share of the value, by all checks that can bound
    it; null: a check that REFUSES it cannot"""
    above: float | None = 0.0
    """the same above it"""
    doubts: tuple[str, ...] = ()
    """the checks that doubt it, the worst first"""
    as_measured: float | None = None
    """the value including the disturbed moments, or for a case including the REFUSED trials, in base units;
    null: none were left out"""
    left_out: float = 0.0
    """share of the requests left out of `value` because they were due in disturbed moments"""


class Estimate(Frozen):
    """A number with its interval, or null with the reason. `value`, `low`, `high` in base units."""

    value: float | None
    """s, bytes, 1/s, share of one or a count; null: `reason` says why"""
    low: float | None = None
    """lower end of the 95 % interval; null: not available"""
    high: float | None = None
    """upper end; null: none can be given"""
    n: int = 0
    """what it rests on: requests or events of a trial (1 for a plain count), trials of a case, blocks of a
    comparison"""
    n_eff: float | None = None
    """`n` over its autocorrelation time; null except for percentiles of a trial"""
    weak: bool = False
    """it rests on few effective requests, or they remain correlated; for a case: in one of its trials"""
    reason: str = ""
    """why `value` is null, or what else to know about it; empty: nothing"""
    why: Why = ""
    """the same as a code"""
    need: int | None = None
    """effective requests that the percentile needs, if it has too few; null: it has enough"""
    belief: Belief | None = None
    """how far it can be trusted; null: VALID, and no check bounds it"""

    @property
    def grade(self) -> Grade:
        """Return VALID unless a check doubts it."""
        return self.belief.grade if self.belief else "VALID"

    @property
    def within(self) -> tuple[float | None, float | None]:
        """Return its interval, widened by disturbances, as printed beside the number and used by
        thresholds."""
        below, above = (self.belief.below, self.belief.above) if self.belief else (0.0, 0.0)
        if below is None or above is None:
            return None, None
        low = None if self.low is None else self.low * (1 - below)
        return low, None if self.high is None else self.high * (1 + above)


class FaultResult(Frozen):
    """A planned fault of a trial, or its reversal, as it was carried out. Offsets in seconds from the load's
    start."""

    place: int
    """its index under `faults` in the study, from 0"""
    what: str
    """what was done, and its target"""
    planned_s: float
    """when it was due"""
    begun_s: float | None
    """when it was started; null: the load had ended before"""
    done_s: float | None
    """when it was finished; null: it was not"""
    sentence: str
    """all of this in words"""
    recovery: dict[str, Estimate] = {}
    """traffic group → time until it was back at its level before the first fault; empty for a reversal"""


class Outage(Frozen):
    """A server that disappeared under load, as clients saw it: no answer, and refused connections. Offsets in
    seconds from the load's start."""

    group: str
    """the traffic group that saw it"""
    since_s: float
    """from the first request that failed in this way"""
    until_s: float | None
    """to the last one; null: it did not come back"""
    error: str
    """the most frequent error"""
    failed: int
    """requests that failed in this time"""
    sentence: str
    """all of this in words"""


class StageResult(Frozen):
    """One stage of a group whose load comes in stages. Offsets in seconds from the group's start."""

    group: str
    """the traffic group"""
    label: str
    """`50 users` for a level, `0 → 50 users` for a ramp"""
    holds: bool
    """a level: the load stays constant"""
    from_s: float
    """its beginning"""
    to_s: float
    """its end"""
    metrics: dict[str, Estimate] = {}
    """metric.stat → estimate over the requests that were due in it"""


class TrialResult(Frozen):
    """A judged trial: its metrics (`group.metric.stat` → estimate) after the case's warm-up cut."""

    trial: str
    """the trial, such as TC7.r3"""
    case: str
    """the case, as in the lock"""
    replicate: int
    """as in the plan, from 1"""
    block: int
    """as in the plan, from 1"""
    verdict: Verdict
    """both verdicts and every check"""
    metrics: dict[str, Estimate]
    """full name → estimate, in the kept window after the cut or over the whole trial, as the metric
    requires"""
    cut_ns: int = 0
    """warm-up cut of its case, from the beginning of `window_ns`; 0: none"""
    deaths: tuple[str, ...] = ()
    """limited services that ended in it, one sentence each: a finding if the study has `on_death: finding`"""
    outages: tuple[Outage, ...] = ()
    """when a server was gone without a planned fault; if it stayed away, times are of the part before"""
    stages: tuple[StageResult, ...] = ()
    """each ramp and level of groups in stages; `metrics` cover all of them"""
    loads: dict[str, GroupLoad] = {}
    """traffic group → what its users did; without groups with stages or a fixed amount of work"""
    uses: tuple[ResourceUse, ...] = ()
    """resources whose use and capacity are known"""
    breaks: tuple[RampBreak, ...] = ()
    """where response and errors of groups in stages leave their line"""
    evidence: Evidence = Evidence()
    """how near each declared limit was, and which counters of refusals grew"""
    faults: tuple[FaultResult, ...] = ()
    """planned faults as they were carried out in it"""
    strangers: float | None = None
    """share of the machine used by other programs in the kept window; null: not read"""
    unread: tuple[str, ...] = ()
    """services on machines that nobody read, since they were already running elsewhere"""


def marks(
    trials: Iterable[TrialResult], grade: Grade | None = None
) -> dict[str, list[tuple[TrialResult, CheckResult]]]:
    """Return the trials' results by check, in the order met; with `grade` only those of that grade."""
    found: dict[str, list[tuple[TrialResult, CheckResult]]] = {}
    for trial in trials:
        for check in trial.verdict.checks:
            if grade in (None, check.grade):
                found.setdefault(check.check, []).append((trial, check))
    return found


class CaseResult(Frozen):
    """A case over its replicates: the main interval is t over log values per run (docs/method.md §2)."""

    case: str
    """the case, as in the lock"""
    levels: dict[str, str]
    """factor → level"""
    excluded: str | None
    """why it is not run; null: it is run"""
    instrument: Grade | None
    """worst grade of the numbers in `asked`; null: excluded, or no trial"""
    server: ServerState | None
    """the state of most of its trials, the more severe one in a tie; null: excluded, or no trial"""
    trials: tuple[str, ...]
    """its sealed trials"""
    refused: tuple[str, ...]
    """the REFUSED ones among them"""
    metrics: dict[str, Estimate]
    """full name → estimate over the trials in which it is not REFUSED; null if fewer than three are"""
    reasons: tuple[str, ...] = ()
    """sentences on what is doubted about its trials, and why, as in the report"""
    load_model: dict[str, str] = {}
    """traffic group → closed loop or open loop"""
    asked: tuple[str, ...] = ()
    """the numbers that the study asks for (compare, thresholds, expect; else the main group's median,
    throughput and success), which determine its grade"""
    evidence: CaseEvidence = CaseEvidence()
    """how near each declared limit was over its trials, and which counters of refusals grew"""
    generators: tuple[GeneratorResult, ...] = ()
    """by traffic group and generator, for groups with several"""


class ClaimTurns(Frozen):
    """Details of a ratio whose sides took turns."""

    pooled: Estimate
    """the same ratio of the percentiles of all measured requests of each block: a median of rounds hides a
    side that is slow now and then"""
    rounds: int
    """rounds in all its blocks"""
    in_flight: float
    """share of the rounds in which a request was still in flight while the next turn was measured"""
    guards: tuple[str, ...] = ()
    """why turns cannot give a pass, or "no difference", as clauses; empty: they can"""
    control: Estimate | None = None
    """the ratio of the baseline's second server over the baseline; null: the study has no control, or it has too few blocks"""


class Claim(Frozen):
    """A comparison's outcome: `ratio` of treatment over baseline with its interval, p, and conclusion."""

    name: str
    """the comparison's name, with the treatment or the pair of cases if it makes several claims"""
    factor: str
    """the factor that is compared over"""
    baseline: str
    """the level that is the baseline"""
    treatment: str
    """the other level"""
    metric: str
    """as the study wrote it; without an owner it belongs to the case's main group"""
    pairs: tuple[tuple[str, str], ...]
    """matched cases that only differ in this factor: (baseline's, treatment's)"""
    blocks: int
    """remaining independent units: blocks, or bring-ups if these are the unit"""
    ratio: Estimate
    """treatment over baseline: mean over matched cases of the weighted mean log ratio of each case's
    pairs; its interval holds for all claims of the study together, with and without the generator's delays"""
    p: float | None
    """two-sided p of the t test behind the interval, before adjustment; null: there is no ratio, or too few
    units"""
    p_adjusted: float | None
    """p after Holm's adjustment over all claims of the study; null: there is no ratio"""
    mde: float | None
    """smallest relative effect that this number of blocks detects with power 0.8 given their scatter (0.05 is
    5 %); null: there is no ratio, or too few units"""
    success: tuple[float | None, float | None] = (None, None)
    """mean success rate of baseline and treatment, as fractions; null: not measured"""
    sentence: str = ""
    """the outcome in words, as in the report"""
    floor: float | None = None
    """|log ratio| that a mean of as many units shows in the lab compared with itself (A/A certificate); null:
    no certificate fits"""
    outcome: Literal["decided", "no difference", "open", "refused"] = "open"
    """decided: the direction is claimed; no difference: any is smaller than `within`; open: neither; refused:
    every pair is broken"""
    within: float | None = None
    """largest relative difference that the interval allows, widened by what other programs can hide (0.05 is
    5 %); null: there is no interval"""
    by: str | None = None
    """factor between whose levels the effect is compared (an interaction); null: a plain comparison"""
    by_levels: tuple[str, str] | None = None
    """for an interaction: the level of `by`, and the first one to compare it with; null: a plain
    comparison"""
    single: tuple[float, float] | None = None
    """95 % interval of this claim alone; that of `ratio` holds for all claims of the study together
    (Bonferroni)"""
    p_sign_flip: float | None = None
    """p of sign flips of single pairs, before adjustment: a check that assumes no distribution, exact if the
    treatment has no effect anywhere; null: no pair"""
    unit: Literal["block", "bring-up"] = "block"
    """the independent unit that `blocks` counts. block: blocks share bring-ups, the claim is about these
    only"""
    bring_ups: int = 0
    """independent bring-ups behind its pairs; 0: unknown"""
    evidence: tuple[PairRatio, ...] = ()
    """every pair that counts"""
    lost: tuple[LostPair, ...] = ()
    """every pair that does not"""
    strangers: Strangers | None = None
    """machine use by other programs during its pairs; null: trials ran as listed"""
    without_lag: float | None = None
    """the ratio without the generator's own delays: the interval covers both; null: none was measured"""
    alike: Estimate | None = None
    """the ratio, by itself, with equal weights for all pairs; null: that is the ratio"""
    turns: ClaimTurns | None = None
    """details for sides that took turns; null: each trial was loaded alone, or the metric is not about single
    requests"""
    spread: tuple[SideSpread, SideSpread] | None = None
    """scatter and worst trial of baseline and treatment; null: fewer than three trials"""
    carry_over: CarryOver | None = None
    """the ratio from a model with the side that ran just before as a term; null: fewer than six units, or
    servers restart between trials"""
    more_blocks: int | None = None
    """further blocks that would decide an open claim or gate, estimated from the scatter; null: unknown, or
    not open"""
    more_s: float | None = None
    """the time that these take in this run, in s"""
    gate: Gate | None = None
    """the outcome of `fail_if`; null: the comparison has none"""
    believed_of: tuple[int, int] = (0, 0)
    """pairs that count, and pairs that were made"""
    range: tuple[float, float] | None = None
    """smallest and largest ratio of a matched case, if the cases differ by more than chance; null: they do
    not, or there is one"""
    dropped_cases: tuple[str, ...] = ()
    """matched cases left out because they have a pair in fewer than two units"""
    timed_out: tuple[int, int] = (0, 0)
    """pairs in which only the baseline's number, or only the treatment's, is beyond the timeout: worse than
    any number"""
    overloaded: tuple[int, int] = (0, 0)
    """trials of the baseline and of the treatment whose server was OVERLOADED"""
    success_interval: tuple[float, float] | None = None
    """95 % interval of the treatment's success rate minus the baseline's; null: fewer than three units"""
    why_open: str = ""
    """why an open claim is open, as a clause; empty: only its interval, or it is not open"""


class LevelOutcome(Frozen):
    """A threshold on one level of a load in stages, for the requests that were due in it."""

    group: str
    """the traffic group"""
    level: str
    """the stage's label, such as `50 users`"""
    outcome: Literal["passed", "failed", "open", "refused", "no value"]
    """as for the whole; several trials must agree"""
    measured: float | None
    """the median of its trials, in base units; null: no number"""


class ThresholdResult(Frozen):
    """A threshold on one case: passed, failed, or one of three outcomes that are never a pass."""

    case: str
    """the case, as in the lock"""
    that: str
    """the criterion as the study wrote it"""
    outcome: Literal["passed", "failed", "open", "refused", "no value"]
    """open: the limit lies within its range, or it grows with the run's length in some trials; refused: the
    number is REFUSED in this case; no value: the number is null"""
    measured: float | None
    """in base units: s, bytes, 1/s, share of one; null: no number"""
    sentence: str
    """the outcome in words"""
    told: str = ""
    """the same without the case and the criterion"""
    overloaded: bool = False
    """it failed because the server is OVERLOADED, which is worse than any limit, whatever was measured"""
    levels: tuple[LevelOutcome, ...] = ()
    """for a load in stages: each level alone; `outcome` is over all stages and independent of these"""


class Finding(Frozen):
    """A sentence with its evidence (paths into the run: cases, trials, claims). `certainty` in words."""

    kind: str
    """planted, gone, death, level, fault, capacity, server, limit, law, exploratory, late-body or design"""
    sentence: str
    """what was found"""
    evidence: tuple[str, ...]
    """what it rests on: cases/TC7, trials/TC7.r3"""
    certainty: str
    """how certain it is: certain, measured, exploratory, a claim's outcome, or its relation to the floor"""


class OwnVerdicts(Frozen):
    """The grades of a run's trials when they were sealed, by another version of the rules than the one that
    judges now."""

    version: int
    """of the rules that judged then"""
    trials: dict[str, Grade]
    """trial → the provisional grade of its instrument"""


class Findings(Artefact):
    """derived/findings.json: the final verdicts, made only from the sealed trials.

    Format 1 judged trials as a whole: its grades are used for all of their numbers. Up to format 2 a claim
    stated that it was planned, which all are; up to format 3 it had a state besides its outcome; up to format
    4 its pairs were lost by refusals, and had bounds.
    """

    FORMAT: ClassVar[int] = 5
    format: int = 5
    """number of the file's format; a higher one comes from a newer svload"""
    analysis_version: int
    """version of the rules that judged; results of other rules are judged again"""
    own_verdicts: OwnVerdicts | None = None
    """the run's own grades, if other rules judge it now: then all is exploratory; null: the same rules"""
    study: str
    """the study's name"""
    question: str
    """what the study asks, in its own words"""
    profile: str | None
    """the profile that was run; null: the study without a profile"""
    floor: str = "the lab's own noise is not measured: exploratory"
    """whether the lab's own noise is known, in words"""
    complete: bool
    """every planned trial is sealed"""
    planned_trials: int
    """trials in all batches of the plan"""
    sealed_trials: int
    """those of them that are sealed"""
    attempts: tuple[dict[str, Any], ...] = ()
    """kept attempts that do not count: {attempt, why: stopped, failed or interrupted, text}"""
    cases: tuple[CaseResult, ...]
    """every case of the study, also excluded ones"""
    trials: tuple[TrialResult, ...]
    """every sealed trial, by case and replicate"""
    claims: tuple[Claim, ...] = ()
    """one for each contrast that the study planned"""
    capacity: CapacityResult | None = None
    """the result of a search for the largest load; null: none was requested"""
    thresholds: tuple[ThresholdResult, ...] = ()
    """each threshold on each case that it applies to"""
    failures: tuple[Failures, ...] = ()
    """failures of each case's groups, or their steps, by status, error and check; empty: none failed"""
    curves: tuple[LoadCurve, ...] = ()
    """throughput and response over each factor that is a load, with the limits from the laws"""
    findings: tuple[Finding, ...] = ()
    """the most important first"""
    phases_s: dict[str, float] = {}
    """wall time by phase in seconds, then `other` and `total`; summed over resumes"""
    load: dict[str, str] = {}
    """the load of this run in words: by traffic group, and the contents of its object stores"""
    environment: dict[str, str] = {}
    """the machine in words: its properties, and what the preflight measured"""
    instrument: InstrumentCertificate | None = None
    """the instrument's certificate that was valid when the run began; null: there was none"""

    @classmethod
    def upgrade(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Convert older formats. 1 to 2: a check's result for a trial applies to all of its numbers, and a
        code states why a number is null. 2 to 3: every claim is planned. 3 to 4: a claim has an outcome and a
        gate, and no state. 4 to 5: its pairs count, or are broken."""
        if raw["format"] >= cls.FORMAT:
            return raw
        trials, cases = raw["trials"], raw["cases"]
        if raw["format"] < 2:
            trials = [_by_number(trial) for trial in trials]
            cases = [{**case, "metrics": _coded(case["metrics"])} for case in cases]
        claims = [_with_outcome(claim) for claim in raw.get("claims", ())]
        return {**raw, "format": cls.FORMAT, "trials": trials, "cases": cases, "claims": claims}


_ONCE_SAID: dict[str, str] = {"claim": "decided", "refused": "refused"}
"""A claim's state in earlier formats → its outcome; any other state is open."""


_ONCE_HELD = (
    "planned", "smallest_p", "mde_reason", "state", "gated", "failed", "robust", "refused_sides", "refused_both",
    "leaning", "left_out_sides", "left_out_leaning", "overturn_pairs", "overturn_bias", "weak_pairs", "pooled", "carry_over",
)  # fmt: skip
"""Keys of a claim in earlier formats."""


def _without(raw: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in keys}


def _with_outcome(claim: dict[str, Any]) -> dict[str, Any]:
    """Return a claim of an earlier format with its outcome and gate, made from its state and `failed`."""
    found = {key: value for key, value in claim.items() if key not in _ONCE_HELD}
    found["evidence"] = [_without(pair, "below", "above") for pair in claim.get("evidence", ())]
    found["lost"] = [
        _without(pair, "refused") | {"why": "broken" if pair["why"] == "refused" else pair["why"]}
        for pair in claim.get("lost", ())
    ]
    found.setdefault("outcome", _ONCE_SAID.get(claim.get("state", ""), "open"))
    if claim.get("failed") and not found.get("gate"):
        found["gate"] = {"text": "", "outcome": "fail"}
    return found


def _by_number(trial: dict[str, Any]) -> dict[str, Any]:
    """Return a trial of format 1 with its numbers graded as the trial was."""
    verdict = trial["verdict"]
    doubts = [check for check in verdict["checks"] if check["grade"] != "VALID"]
    unknown = {"below": None, "above": None}
    checks = [
        {**check, "harms": [{"number": "all", "grade": check["grade"], **unknown}]}
        if check in doubts
        else check
        for check in verdict["checks"]
    ]
    belief = {
        "grade": verdict["instrument"],
        "doubts": [check["check"] for check in sorted(doubts, key=lambda check: str(check["grade"]))],
        **(unknown if verdict["instrument"] == "REFUSED" else {}),
    }
    metrics = {
        name: {**estimate, "belief": belief} if doubts else estimate
        for name, estimate in _coded(trial["metrics"]).items()
    }
    return {**trial, "verdict": {**verdict, "checks": checks}, "metrics": metrics}


_CODES: dict[str, Why] = {"> time-out": "time-out", "grows with run length": "grows"}
"""How reasons began in format 1, which had no codes."""


def _coded(metrics: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return numbers of format 1 with their codes."""
    found = {}
    for name, estimate in metrics.items():
        reason = estimate.get("reason", "")
        code = next((code for begin, code in _CODES.items() if reason.startswith(begin)), "")
        found[name] = {**estimate, "why": code} if code else estimate
    return found
