"""Every limit of docs/method.md by name. Nothing else in this room holds a threshold; changing one here breaks a test.

WEAK and REFUSED limits are pairs (weak, refused). Ratios are shares of one, times in ns where the name says so.
"""

from __future__ import annotations

# How sure (docs/method.md §2)
ALPHA = 0.05
"""Family-wise level of a study's claims."""
TAIL = 0.025
"""Each tail of an interval: 95 %, equal tails."""
LEAST_N_EFF = {0.5: 6, 0.75: 13, 0.9: 36, 0.95: 72, 0.99: 368, 0.999: 3688}
"""Least effective sample for a percentile: the smallest n with max(p, 1 − p)ⁿ ≤ 0.025, so that order statistics enclose it."""
STRONG_TAIL = 10
"""A percentile is marked weak unless n_eff·(1 − p) reaches this."""
BATCHES = (400, 200, 100)
"""Numbers of batch means that are tried, most first (Banks et al.)."""
BATCH_LAG1 = 0.2
"""Lag-1 correlation of batch means above which no interval within a run is given."""
REGROUPED = (20, 40)
"""Batches are regrouped to this many for the variance."""
BOOTSTRAP_FROM = 20
"""Blocks per side from which the bootstrap gives the interval instead of t."""
ENUMERATE_UP_TO = 16
"""Sign flips are enumerated up to 2^this, drawn above."""
POWER = 0.8
"""Probability with which the least detectable effect is detected."""
DESCRIBE_BLOCKS = 3
"""Replicates (bring-ups, where those were randomised) needed to describe a case; fewer left make it refused."""
CLAIM_BLOCKS = 3
"""Independent units that a claim needs: with fewer, t has less than two degrees of freedom."""
CLAIM_BRING_UPS = 6
"""Bring-ups needed for a claim about a factor that restarts services; from so many on they are the unit of every claim."""
CASE_UNITS = 2
"""Units that a matched case must have a pair in, so that it stays when one of them is left out."""
LEANING = 0.1
"""p of the sign test below which refusals lean to one side of a claim."""
NO_DIFFERENCE = 0.05
"""A claim reads "no difference larger than x" where its interval lies within this: what a VALID number may itself be off."""
CARRY_OVER_P = 0.01
"""p below which the effects of both orders differ: it costs a sound claim in a hundred."""
CARRY_OVER_PAIRS = 3
"""Neighbours of either order needed to compare them."""
CASES_DIFFER_P = 0.05
"""p below which the effects of matched cases differ, so that their range stands beside the mean."""
MOST_MORE_BLOCKS = 1000
"""More blocks than this are not proposed."""
AA_PAIRS = 20
"""Pairs that an A/A certificate needs: its floor is estimated."""
AA_CERTIFIED = 59
"""Pairs from which their maximum certifies the floor: 0.95⁵⁹ < 0.05."""
AA_QUANTILE = 0.95
"""Quantile of |log ratio| over those pairs that is the floor."""
SUCCESS_DIFFERS = 0.001
"""Difference of success rates from which a claim tells both."""

# Warm-up and steadiness (docs/method.md §1)
MSER_OBSERVATIONS = 600
"""Below so many observations MSER-5 is not used."""
MSER_BATCH = 5
"""Observations per batch of MSER-5."""
CUT_AT_MOST = 0.5
"""A warm-up cut above this share of the window means that the trial was too short."""
LATE_SEARCH = 0.75
"""MSER-5 also looks for its minimum up to this share of the run, to tell a warm-up that ends in the second half."""
LATE_CLEAR = 3.0
"""Such a late minimum counts if it is this many times below the best of the first half."""
STALL_HEAD = 0.1
"""A stall is told from a warm-up by this first part of what MSER-5 would drop: it is at the level of what is kept."""
STALL_LEVEL = 0.95
"""That level: this quantile of the kept observations."""
STALL_CLEAR = 10.0
"""And something in what would be dropped is so many times above that level."""
MOSTLY_FAILED = 0.5
"""Share of failed requests above which nothing is said of a server's state."""
DRIFT = 0.10
"""|Theil–Sen slope| · T over the median from which a trial is not steady."""

# May this trial be believed? (docs/method.md §3)
HARM = (0.05, 0.20)
"""Generator's harm: Q(response) over Q(response − generator lag − read lag), less one."""
LEAST_READ_LAGS = 30
"""Sampled read lags needed for harm on the mean, where there are histograms alone."""
LOAD_OPEN = (0.999, 0.995)
"""Open: begun + dropped over what was due with slots free."""
LOAD_CLOSED = (0.999, 0.99)
"""Closed: time-average of active VUs over N."""
LITTLE_CLOSED = 0.005
"""Closed: Σ of VU time over N·T may be off by this."""
LITTLE_OPEN = 0.02
"""Open: Σ clipped residence over the gauge's mean may be off by this."""
RECONCILED = (0.005, 0.02)
"""Deviation of servers' counters from what was written, beyond what was in flight."""
REUSE = 0.02
"""Connections beyond the planned ones, as a share of requests, from which reuse was not what was asked."""
CONNECTIONS = 3.0
"""Connections opened over the planned ones, failures aside, from which reuse is not quite what was asked."""
WORN_OUT = 0.002
"""Share of requests on connections that were not planned up to which a server may be ending worn-out ones: 500 requests on each."""
TLS_COUNTED = 0.02
"""Deviation of the server's count of TLS sessions from the generators'."""
LIMIT_ACTED = 0.95
"""Use of a CPU quota below which, with no throttled time, it never acted."""
HICCUP = 0.10
"""Longest gap on a core of the load over the smallest shown p99."""
HICCUP_PERIOD_S = 0.01
"""Period of the hiccup thread: a shorter pass of a load's own loop is its work, and judged by the read lag alone."""
RUN_QUEUE = (0.01, 0.05)
"""Share of wall time that threads of the load waited for a core."""
GENERATOR_CPU = 0.90
"""CPU of the load without spinning, over the cores that it has."""
STEAL = (0.01, 0.05)
"""Share of any second of a core that the hypervisor gave to others."""
OTHERS_CPU = (0.05, 0.20)
"""CPU of processes that are neither generators, servers nor monitors, over all cores."""
CALIBRATION = (0.03, 0.10)
"""Drift of a fixed piece of work from before the load to after it."""
CLOCK_DRIFT_NS_PER_MIN = 1_000_000
"""Monotonic against wall clock; also what a suspension must exceed."""
CLOCK_SOURCES = ("tsc", "kvm-clock", "arch_sys_counter")
"""Clock sources that count a core's own ticks (the last one is the tsc of ARM)."""
DISK_READS = 0.01
"""Bytes that a server read from a disk over those it sent, where its files should lie in the page cache."""
RESIDENT = 0.99
"""Share of a server's files that is in the page cache at the start."""
TIME_WAIT = 0.05
"""Sockets in TIME_WAIT at the start over the local ports."""
UNEVEN_WORKERS = 0.25
"""Connections of the busiest of workers that share a port over an even share, less one."""
GC_PAUSE = 0.10
"""Longest pause of a garbage collector over the smallest shown p99."""
BACKLOG = 0.05
"""Growth of the backlog over what was due from which a server is overloaded."""
SLOTS_FULL = 0.5
"""Share of the median response spent waiting for a slot from which an open loop's server is saturated."""
WORKERS_FULL = 0.9
"""Share of readings with all workers at work and requests waiting from which a server is saturated."""

# Each number by itself (docs/method.md §2, §3)
EXACT_VALUES = 20_000
"""Values of a trial that are pooled as they are; more go into histogram buckets (error ≤ 0.4 %)."""
COUNTED = (0.05, 0.20)
"""Largest distance of a number from where it can truly lie, over its value, by counting the requests that a disturbance touched."""
GAP_S = 0.005
"""A gap of a thread of the load that is longer is a disturbance; of a pass of its own loop one above `HICCUP_PERIOD_S`."""
FOREIGN_LOOK_S = 0.25
"""Readings of other processes' CPU must be this close for requests due in them to be left out."""
LEFT_OUT = 0.30
"""At most this share of the requests is left out; a disturbance that covers more of the window is not local in time."""
AROUND_S = 0.1
"""What is due so close to a disturbed moment is left out with it."""
