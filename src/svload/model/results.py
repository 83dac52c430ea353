"""What a trial left and what it means: the generators' summary, the seal, verdicts, claims and findings."""

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
"""Why a number is null, or what else there is to know of it, as a code that pages read;
`reason` says the same in words."""
ServerState = Literal["STEADY", "SATURATED", "OVERLOADED", "UNKNOWN"]


class Harm(Frozen):
    """What a check says of one number, or of all numbers of a kind (docs/method.md §3)."""

    number: str
    """full metric name, such as probe.response.p99; or a kind: `all`, or `timing` (times, rates and CPU;
    counts, shares and sizes are not harmed)"""
    grade: Grade
    """of that number by this check alone"""
    below: float | None = 0.0
    """the true value lies at most this share of the value below it (0.05 is 5 %); null: unknown"""
    above: float | None = 0.0
    """the same above it; null: unknown"""

    def is_of(self, number: str) -> bool:
        """Whether it speaks of the number with this full name."""
        return self.number in (number, "all") or (self.number == "timing" and is_timing(number))


class CheckResult(Frozen):
    """One row of docs/method.md §3 on one trial. `value` and `limit` in the check's own unit; `remedy` is
    the one edit that would mend it.

    `grade` is the worst of `harms`, whichever number it is of: what one number is worth, `on` says.
    `measured` is False where the trial holds no facts for it: then its grade says nothing.
    """

    check: str
    """the check's name, as in the reference of verdicts"""
    grade: Grade
    """VALID where it was not measured"""
    sentence: str
    """what it found, with its numbers"""
    value: float | None = None
    """what was measured; null: nothing that is one number"""
    limit: float | None = None
    """what `value` is held against; null: no limit"""
    remedy: str = ""
    """what would mend it; empty for VALID"""
    measured: bool = True
    """false: the trial holds no facts for it, and it takes no part in the verdict"""
    harms: tuple[Harm, ...] = ()
    """the numbers that it doubts, and by how much they may be off; empty: none"""
    who: str = ""
    """whose doing it is (process, user, command), where that is known"""

    def on(self, number: str) -> Grade:
        """What it says of one number, by its full name."""
        grades = [harm.grade for harm in self.harms if harm.is_of(number)]
        return next((grade for grade in _WORST_FIRST if grade in grades), "VALID")


class Verdict(Frozen):
    """Both verdicts on one trial: may the instrument be believed, and how was the server?"""

    trial: str
    """the trial, such as TC7.r3"""
    instrument: Grade
    """the worst grade of the numbers that the study asks for"""
    server: ServerState
    """UNKNOWN: no steady state was sought or seen, or the instrument can't tell"""
    reasons: tuple[str, ...]
    """sentences: checks that doubt a number that the study asks for, REFUSED first, then what the server showed"""
    checks: tuple[CheckResult, ...]
    """every check, with its sentence"""
    remedy: str = ""
    """of the first of these checks; empty: nothing to mend"""


class Belief(Frozen):
    """How far a number may be believed, where it is not simply VALID (docs/method.md §3)."""

    grade: Grade
    """worst of what the checks say of this number"""
    below: float | None = 0.0
    """the true value lies at most this share of the value below it, by all checks that can say how much;
    null: one that REFUSES it can't"""
    above: float | None = 0.0
    """the same above it"""
    doubts: tuple[str, ...] = ()
    """the checks that doubt it, the worst first"""
    as_measured: float | None = None
    """the value with the disturbed moments in it, or of a case with the REFUSED trials in it, in base
    units; null: none were left out"""
    left_out: float = 0.0
    """share of the requests that were left out of `value`, since they were due in disturbed moments"""


class Estimate(Frozen):
    """A number with its interval, or null with the reason. `value`, `low`, `high` in base units."""

    value: float | None
    """s, bytes, 1/s, share of one or a count; null: `reason` says why"""
    low: float | None = None
    """lower end of the 95 % interval; null: none can be given"""
    high: float | None = None
    """upper end; null: none can be given"""
    n: int = 0
    """what it rests on: requests or events of a trial (1 for a plain count), trials of
    a case, blocks of a comparison"""
    n_eff: float | None = None
    """`n` over its autocorrelation time; null for all but percentiles of a trial"""
    weak: bool = False
    """few effective requests carry it, or they stay correlated; of a case: in one of its trials"""
    reason: str = ""
    """why `value` is null, or what else to know of it; empty: nothing"""
    why: Why = ""
    """the same as a code"""
    need: int | None = None
    """effective requests that the percentile needs, where it has too few; null: it has enough"""
    belief: Belief | None = None
    """how far it may be believed; null: VALID, and no check bounds it"""

    @property
    def grade(self) -> Grade:
        """VALID unless a check doubts it."""
        return self.belief.grade if self.belief else "VALID"

    @property
    def within(self) -> tuple[float | None, float | None]:
        """Its interval, widened by what disturbed it: what stands beside it, and decides its thresholds."""
        below, above = (self.belief.below, self.belief.above) if self.belief else (0.0, 0.0)
        if below is None or above is None:
            return None, None
        low = None if self.low is None else self.low * (1 - below)
        return low, None if self.high is None else self.high * (1 + above)


class FaultResult(Frozen):
    """A planned fault of a trial, or what took it back, as it was carried out. Offsets in
    seconds from the load's start."""

    place: int
    """its place under `faults` in the study, from 0"""
    what: str
    """what was done to whom"""
    planned_s: float
    """when it was due"""
    begun_s: float | None
    """when it was begun; null: the load had ended before"""
    done_s: float | None
    """when it was done; null: it was not"""
    sentence: str
    """all of that in words"""
    recovery: dict[str, Estimate] = {}
    """traffic group → how long until it was back at its level before the first fault;
    empty for what takes a fault back"""


class Outage(Frozen):
    """A server that went away while it was loaded, as clients saw it: no answer, and refused connections. Offsets in
    seconds from the load's start."""

    group: str
    """the traffic group that saw it"""
    since_s: float
    """from its first request that failed so"""
    until_s: float | None
    """to the last one; null: it did not come back"""
    error: str
    """the most frequent error"""
    failed: int
    """requests that failed meanwhile"""
    sentence: str
    """all of that in words"""


class StageResult(Frozen):
    """One stage of a group whose load comes in stages. Offsets in seconds from the group's start."""

    group: str
    """the traffic group"""
    label: str
    """`50 users` of a level, `0 → 50 users` of a ramp"""
    holds: bool
    """a level: the load stays the same"""
    from_s: float
    """its begin"""
    to_s: float
    """its end"""
    metrics: dict[str, Estimate] = {}
    """metric.stat → estimate of the requests that were due in it"""


class TrialResult(Frozen):
    """A trial as judged: its metrics (`group.metric.stat` → estimate) after the case's warm-up cut."""

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
    """full name → estimate, in the kept window after the cut or over the whole trial, as the metric is defined"""
    cut_ns: int = 0
    """warm-up cut of its case, from the begin of `window_ns`; 0: none"""
    deaths: tuple[str, ...] = ()
    """limited services that came to their end in it, a sentence each: a finding, where the
    study says `on_death: finding`"""
    outages: tuple[Outage, ...] = ()
    """when a server was gone, by no planned fault; where it did not come back, times are of the part before"""
    stages: tuple[StageResult, ...] = ()
    """each ramp and level of groups in stages; `metrics` are over all of them"""
    loads: dict[str, GroupLoad] = {}
    """traffic group → what its users did; without groups whose load comes in stages or is a fixed amount of work"""
    uses: tuple[ResourceUse, ...] = ()
    """resources whose use and capacity are known"""
    breaks: tuple[RampBreak, ...] = ()
    """where response and errors of groups in stages leave their line"""
    evidence: Evidence = Evidence()
    """how near each declared limit was, and which counters of refusals moved"""
    faults: tuple[FaultResult, ...] = ()
    """planned faults as they were carried out in it"""
    strangers: float | None = None
    """share of the machine that others had in the kept window; null: not read"""
    unread: tuple[str, ...] = ()
    """services whose machine nobody read, since they ran already, elsewhere"""


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
    """A case over its replicates: the headline interval is t over per-run log values (docs/method.md §2)."""

    case: str
    """the case, as in the lock"""
    levels: dict[str, str]
    """factor → level"""
    excluded: str | None
    """why it is not run; null: it is"""
    instrument: Grade | None
    """worst grade of the numbers in `asked`; null: excluded, or no trial"""
    server: ServerState | None
    """what most of its trials show, the more severe of equals; null: excluded, or no trial"""
    trials: tuple[str, ...]
    """its sealed trials"""
    refused: tuple[str, ...]
    """those of them that are REFUSED"""
    metrics: dict[str, Estimate]
    """full name → estimate over the trials in which that number is not REFUSED; null where fewer than three are"""
    reasons: tuple[str, ...] = ()
    """what is doubted of its trials, and why, in sentences, as the report has them"""
    load_model: dict[str, str] = {}
    """traffic group → closed loop or open loop"""
    asked: tuple[str, ...] = ()
    """the numbers that the study asks of it (compare, thresholds, expect; else the main group's median,
    throughput and success): they give its grade"""
    evidence: CaseEvidence = CaseEvidence()
    """how near each declared limit was over its trials, and which counters of refusals moved"""
    generators: tuple[GeneratorResult, ...] = ()
    """by traffic group and generator, of groups that have several"""


class ClaimTurns(Frozen):
    """What stands beside a ratio whose sides took turns."""

    pooled: Estimate
    """the same ratio of the percentiles of all measured requests of each block: a median of rounds hides a side that is slow
    now and then"""
    rounds: int
    """rounds of all its blocks"""
    in_flight: float
    """share of them in which a request was still in flight as the next turn began"""
    guards: tuple[str, ...] = ()
    """why no pass, and no "no difference", is said by turns, as clauses; empty: nothing holds it back"""
    control: Estimate | None = None
    """the ratio of the baseline's second server over the baseline; null: the study has no control, or it has too few blocks"""


class Claim(Frozen):
    """A comparison's outcome: `ratio` of treatment over baseline with its interval, p, and what may be said."""

    name: str
    """the comparison's name, with the treatment or the pair of cases where it makes several claims"""
    factor: str
    """the factor that is compared over"""
    baseline: str
    """its level that the other is compared with"""
    treatment: str
    """the other level"""
    metric: str
    """as the study wrote it; without an owner it is the case's main group's"""
    pairs: tuple[tuple[str, str], ...]
    """matched cases that differ in this factor alone: (baseline's, treatment's)"""
    blocks: int
    """independent units that are left: blocks, or bring-ups where these are the unit"""
    ratio: Estimate
    """treatment over baseline: mean over matched cases of the weighted mean log ratio of each case's
    pairs; its interval holds for all claims of the study together, with and without the generator's delays"""
    p: float | None
    """two-sided p of the same t that makes the interval, before adjustment; null:
    there is no ratio, or too few units"""
    p_adjusted: float | None
    """the same after Holm over all claims of the study; null: there is no ratio"""
    mde: float | None
    """least relative effect that so many blocks detect with power 0.8 by their own scatter
    (0.05 is 5 %); null: there is no ratio, or too few units"""
    success: tuple[float | None, float | None] = (None, None)
    """mean success rate of baseline and treatment, shares of one; null: not measured"""
    sentence: str = ""
    """the outcome in words, as the report has them"""
    floor: float | None = None
    """|log ratio| that a mean of as many units shows in the lab against itself (A/A certificate); null: no
    certificate fits
    """
    outcome: Literal["decided", "no difference", "open", "refused"] = "open"
    """decided: the direction is claimed; no difference: any is smaller than `within`; open: neither;
    refused: every pair is broken"""
    within: float | None = None
    """largest relative difference that the interval leaves, stretched by what strangers can hide (0.05 is 5 %); null:
    there is no interval"""
    by: str | None = None
    """factor whose levels the effect is compared between (an interaction); null: a plain comparison"""
    by_levels: tuple[str, str] | None = None
    """of an interaction: the level of `by`, and the first one that it is held against; null: a plain comparison"""
    single: tuple[float, float] | None = None
    """95 % interval of this claim alone; `ratio` has the one for all claims of the study together (Bonferroni)"""
    p_sign_flip: float | None = None
    """p of sign flips of single pairs, before adjustment: a check that assumes no distribution, exact where the
    treatment does nothing anywhere; null: no pair"""
    unit: Literal["block", "bring-up"] = "block"
    """what is independent: `blocks` counts these. block: blocks share bring-ups, and the claim speaks of those alone"""
    bring_ups: int = 0
    """independent bring-ups behind its pairs; 0: unknown"""
    evidence: tuple[PairRatio, ...] = ()
    """every pair that counts"""
    lost: tuple[LostPair, ...] = ()
    """every pair that does not"""
    strangers: Strangers | None = None
    """what others had of the machine beside its pairs; null: trials ran as listed"""
    without_lag: float | None = None
    """the ratio without the generator's own delays: the interval reaches over both; null: none was measured"""
    alike: Estimate | None = None
    """the ratio in which all pairs count alike, for itself; null: that is the ratio"""
    turns: ClaimTurns | None = None
    """what stands beside a ratio whose sides took turns; null: each trial was loaded alone, or the metric is none of single
    requests"""
    spread: tuple[SideSpread, SideSpread] | None = None
    """scatter and worst trial of baseline and treatment; null: fewer than three trials"""
    carry_over: CarryOver | None = None
    """the ratio with the side that ran just before as a term; null: fewer than six units, or servers restart between trials"""
    more_blocks: int | None = None
    """blocks that, by the scatter seen, would decide an open claim or gate, beyond those
    made; null: unknown, or not open"""
    more_s: float | None = None
    """the time that these take in this run, s"""
    gate: Gate | None = None
    """what `fail_if` says; null: the comparison has none"""
    believed_of: tuple[int, int] = (0, 0)
    """pairs that count, pairs that were made"""
    range: tuple[float, float] | None = None
    """least and largest ratio of a matched case, where the cases differ by more than chance;
    null: they do not, or there is one"""
    dropped_cases: tuple[str, ...] = ()
    """matched cases left out, since they have a pair in fewer than two units"""
    timed_out: tuple[int, int] = (0, 0)
    """pairs of which only the baseline's number, or only the treatment's, is beyond the
    time-out: worse than any number"""
    overloaded: tuple[int, int] = (0, 0)
    """trials of the baseline and of the treatment whose server was OVERLOADED"""
    success_interval: tuple[float, float] | None = None
    """95 % interval of the treatment's success rate less the baseline's, over pairs; null: fewer than three units"""
    why_open: str = ""
    """what keeps an open claim open, as a clause; empty: its interval alone, or it is not open"""


class LevelOutcome(Frozen):
    """A threshold on one level of a load in stages, by the requests that were due in it."""

    group: str
    """the traffic group"""
    level: str
    """`50 users`, as its stage"""
    outcome: Literal["passed", "failed", "open", "refused", "no value"]
    """as of the whole; of several trials they must agree"""
    measured: float | None
    """the median of its trials, in base units; null: no number"""


class ThresholdResult(Frozen):
    """A threshold on one case: passed, failed, or one of three that are never a pass."""

    case: str
    """the case, as in the lock"""
    that: str
    """the criterion as the study wrote it"""
    outcome: Literal["passed", "failed", "open", "refused", "no value"]
    """open: the limit lies within its range, or it grows with the run's length in some trials; refused: the number is
    REFUSED in this case; no value: it is null there"""
    measured: float | None
    """in base units: s, bytes, 1/s, share of one; null: no number"""
    sentence: str
    """the same in words"""
    told: str = ""
    """what came of it, in the same words without the case and the criterion"""
    overloaded: bool = False
    """it failed since the server is OVERLOADED, which is worse than any limit, whatever was measured"""
    levels: tuple[LevelOutcome, ...] = ()
    """of a load in stages: each of its levels by itself; `outcome` is over all stages, and they do not change it"""


class Finding(Frozen):
    """A sentence with its evidence (paths into the run: cases, trials, claims). `certainty` in words."""

    kind: str
    """planted, gone, death, level, fault, capacity, server, limit, law, exploratory or design"""
    sentence: str
    """what was found"""
    evidence: tuple[str, ...]
    """what it rests on: cases/TC7, trials/TC7.r3"""
    certainty: str
    """how sure it is: certain, measured, exploratory, a claim's outcome, or where it stands to the floor"""


class OwnVerdicts(Frozen):
    """What a run's trials were called when they were sealed, by rules of another
    version than those that judge it now."""

    version: int
    """of the rules that judged then"""
    trials: dict[str, Grade]
    """trial → the provisional grade of its instrument"""


class Findings(Artefact):
    """derived/findings.json: the final verdicts, made from the sealed trials alone.

    Format 1 judged trials as a whole: its grades are taken for those of all numbers. Up to format 2 a claim
    said that it was planned, as each is; up to format 3 it had a state beside its outcome; up to format 4 its pairs
    were lost by refusals, and lay between bounds.
    """

    FORMAT: ClassVar[int] = 5
    format: int = 5
    """number of the file's format; a higher one is of a newer svload"""
    analysis_version: int
    """version of the rules that judged; another svload's are judged anew"""
    own_verdicts: OwnVerdicts | None = None
    """what the run itself said, where it is judged anew by other rules: all is exploratory then; null: by the same"""
    study: str
    """the study's name"""
    question: str
    """what the study asks, in its own words"""
    profile: str | None
    """the profile that was run; null: the study without one"""
    floor: str = "the lab's own noise is not measured: exploratory"
    """whether the lab's own noise is known, in words"""
    complete: bool
    """every planned trial is sealed"""
    planned_trials: int
    """trials in all batches of the plan"""
    sealed_trials: int
    """of those, the ones that happened"""
    attempts: tuple[dict[str, Any], ...] = ()
    """kept attempts that do not count: {attempt, why: stopped, failed or interrupted, text}"""
    cases: tuple[CaseResult, ...]
    """every case of the study, excluded ones too"""
    trials: tuple[TrialResult, ...]
    """every sealed trial, by case and replicate"""
    claims: tuple[Claim, ...] = ()
    """one for each contrast that the study planned"""
    capacity: CapacityResult | None = None
    """what a search for the largest load has found; null: none was asked"""
    thresholds: tuple[ThresholdResult, ...] = ()
    """each threshold on each case that it is for"""
    failures: tuple[Failures, ...] = ()
    """what failed of each case's groups, or of their steps, by status, error and check; empty: no request did"""
    curves: tuple[LoadCurve, ...] = ()
    """throughput and response over each factor that is a load, with the limits that the laws find"""
    findings: tuple[Finding, ...] = ()
    """the most important first"""
    phases_s: dict[str, float] = {}
    """where the wall time went, seconds by phase, then `other` and `total`; added over resumes"""
    load: dict[str, str] = {}
    """the load that this run made, in words: by traffic group, and what its object stores held"""
    environment: dict[str, str] = {}
    """the machine in words: what it is, what the preflight measured there"""
    instrument: InstrumentCertificate | None = None
    """the instrument's certificate that held when the run began; null: there was none"""

    @classmethod
    def upgrade(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Format 1 as 2: what a check said of a trial, it says of all of its numbers, and why one
        is null has a code. Format 2 as 3: no claim is other than planned. Format 3 as 4: a claim has an outcome
        and a gate, and no state beside them. Format 4 as 5: its pairs count, or are broken.
        """
        if raw["format"] >= cls.FORMAT:
            return raw
        trials, cases = raw["trials"], raw["cases"]
        if raw["format"] < 2:
            trials = [_by_number(trial) for trial in trials]
            cases = [{**case, "metrics": _coded(case["metrics"])} for case in cases]
        claims = [_with_outcome(claim) for claim in raw.get("claims", ())]
        return {**raw, "format": cls.FORMAT, "trials": trials, "cases": cases, "claims": claims}


_ONCE_SAID: dict[str, str] = {"claim": "decided", "refused": "refused"}
"""A claim's state of earlier formats, as its outcome; any other is open."""


_ONCE_HELD = (
    "planned", "smallest_p", "mde_reason", "state", "gated", "failed", "robust", "refused_sides", "refused_both",
    "leaning", "left_out_sides", "left_out_leaning", "overturn_pairs", "overturn_bias", "weak_pairs", "pooled", "carry_over",
)  # fmt: skip
"""Keys of a claim in earlier formats."""


def _without(raw: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in keys}


def _with_outcome(claim: dict[str, Any]) -> dict[str, Any]:
    """A claim of an earlier format: its outcome and its gate, where it had but a state, and `failed`."""
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
    """A trial of findings of format 1, its numbers graded as the trial was."""
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
"""How reasons of format 1 began, which had no codes."""


def _coded(metrics: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Numbers of format 1 with the codes that decide."""
    found = {}
    for name, estimate in metrics.items():
        reason = estimate.get("reason", "")
        code = next((code for begin, code in _CODES.items() if reason.startswith(begin)), "")
        found[name] = {**estimate, "why": code} if code else estimate
    return found
