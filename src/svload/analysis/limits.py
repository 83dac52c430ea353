"""Every limit of docs/method.md by name. No other module of this package holds a threshold; changing one here
breaks a test.

WEAK and REFUSED limits are pairs (weak, refused). Ratios are shares of one; times are in ns where the name
says so.
"""

from __future__ import annotations

ANALYSIS_VERSION = 25
"""Stamped on derived/; findings of another version are computed again."""

# How sure (docs/method.md §2)
ALPHA = 0.05
"""Family-wise level of a study's claims."""
TAIL = 0.025
"""Each tail of an interval: 95 %, equal tails."""
SUCCESS_LEADS = 0.999
"""Share of ok requests of a group or step below which its failures lead the answer; fewer failures are
reported in one line of the doubts."""
STRONG_TAIL = 10
"""A percentile is marked weak unless n_eff·(1 − p) reaches this."""
BATCHES = 20
"""Batches of neighbouring requests, or intervals, from which a run's own intervals come."""
ENUMERATE_UP_TO = 16
"""Sign flips are enumerated up to 2^this, drawn above."""
POWER = 0.8
"""Probability with which the minimum detectable effect is detected."""
DESCRIBE_BLOCKS = 3
"""Replicates (bring-ups, where those were randomised) needed to describe a case; with fewer left it is
refused."""
CLAIM_BLOCKS = 3
"""Independent units that a claim needs: with fewer, t has less than two degrees of freedom."""
CLAIM_BRING_UPS = 6
"""Bring-ups needed for a claim about a factor that restarts services; from this number on they are the unit
of every claim."""
CASE_UNITS = 2
"""Units in which a matched case must have a pair, so that it remains when one of them is left out."""
LEANING = 0.1
"""p of the sign test below which other programs lean to one side of a comparison."""
UNEQUAL = 0.02
"""Shares of the machine that differ by no more are equal to that test."""
EVEN = 0.05
"""Added to both sides' mean shares before these are made equal, so that small shares are not scaled up."""
CALM = 0.2
"""Share of the machine that other programs have beside a pair that weighs half."""
CALM_TAIL = 0.02
"""The same for the highest percentiles, as a minimum."""
TAIL_FROM = 0.9
"""Percentiles from here on weigh as tails."""
DILUTION = 0.4
"""Strangers at share x pull the ratio of percentile p towards 1 by at most this · x / (1 − p)."""
DILUTION_MOST = 0.9
"""Where other programs may hide more of an effect than this, neither "no difference" nor a pass is
reported."""
APART_P = 0.1
"""p below which the ratio with all pairs weighed alike is surely not 1: beyond a margin it prevents a
pass."""
LATTICE = 1 / 128
"""Relative step of a number that is read from a histogram: its logarithm scatters by at least this over
√12."""
GATE_WIDTH = 0.6
"""A gate adds blocks until half of its interval is no wider than this share of its margin."""
GATE_FAILS_P, GATE_PASSES_P, GATE_ENDS_FROM = 0.01, 0.001, 6
"""With sides that take turns it ends earlier: from this number of blocks on, where it fails or passes at these levels."""
GATE_MOST = 4
"""And at most this many times the planned blocks."""
SUCCESS_MARGIN = 0.001
"""How far success may fall where `fail_if` sets no limit for it: a tenth of a percentage point."""
NO_DIFFERENCE = 0.05
"""A claim reads "no difference larger than x" where its interval lies within this: the possible error of a
VALID number."""
ADJUST_UNITS = 6
"""Units from which the ratio is also computed with the side that ran just before as a term."""
CASES_DIFFER_P = 0.05
"""p below which the effects of matched cases differ, so that their range is shown beside the mean."""
MOST_MORE_BLOCKS = 1000
"""More blocks than this are not proposed."""
AA_PAIRS = 20
"""Pairs that an A/A certificate needs: its floor is estimated."""
AA_CERTIFIED = 59
"""Pairs from which their maximum certifies the floor: 0.95⁵⁹ < 0.05."""
AA_QUANTILE = 0.95
"""Quantile of |log ratio| over those pairs that is the floor."""
SUCCESS_DIFFERS = 0.001
"""Difference of success rates from which a claim reports both."""

# Sides that take turns (benches/turns.py)
TURN_REQUESTS = 1.5
"""Requests that a side has in a round, times 1 − p: fewer hold no percentile p, and neighbouring rounds are joined."""
TURN_ROUNDS = 5
"""Rounds of a block below which they are too few."""
TURN_IN_FLIGHT = 0.05
"""Share of rounds with a request in flight as the next turn is measured, above which nothing is decided."""
TURN_HEAD_NS = 30_000_000
"""Requests due within this time of a turn's begin find cold caches and do not count;"""
TURN_HEAD = 3.0
"""nor do those within this many times the p99, if that is longer."""
TURN_RISES = 0.025
"""Log ratio of the mean response late in a turn to that early in it from which it surely still rises."""
TURN_WAITS = 0.05
"""Share of turns in which requests waited for a slot, above which a server is too near its limit for turns."""
TURN_DEFERRED = 0.05
"""What a side uses between its turns over what it uses in them, above which it defers work,"""
TURN_IDLE = (0.01, 100_000.0)
"""unless that is less than this: cores of CPU, and bytes a second written for a disk, the use of an idle
server."""
TURN_FAR = 10.0
"""A load without turns may change the ratio by up to this multiple of a rise, drift or deferred work."""
TURN_CONTROL = 0.25
"""An effect of the baseline against itself within this share of the margin changes nothing."""
TURN_LEAST_NS = 200_000_000
"""A turn is at least this long: shorter than spells of other programs, so that both sides of a round meet the
same one,"""
TURN_P99S = 10.0
"""and this many times the p99 of the slower side,"""
TURN_MOST_NS = 5_000_000_000
"""but for the sake of the p99 no longer than this, or than leaves half of it measured;"""
TURN_HOLDS = (10, 30)
"""and long enough for as many requests that count as there are connections, within these bounds;"""
TURN_ROUND_NS = 500_000_000
"""the turns of a block are at least as long as its rounds would be with turns of this length,"""
TURN_BLOCK_HOLDS = 300
"""and hold about this many requests that count, ten times what a p95 needs."""
TURN_PAUSE = 2.0
"""The pause after a turn, times that p99,"""
TURN_PAUSE_NS = (50_000_000, 1_000_000_000)
"""within these bounds."""
TURN_PLANNED = 10
"""Rounds of a block: more measuring of one start gains little, more starts gain more."""
TURN_STRETCH = 20
"""Rounds of a block of servers that run already: these are not restarted for it, so a block has more of
them."""
TURN_APART_S = (1.0, 5.0)
"""The time between two such blocks is drawn from this range."""
TURN_INTERVALS = 50
"""Intervals of a turn, of whole milliseconds each."""

# Warm-up and steadiness (docs/method.md §1)
MSER_OBSERVATIONS = 600
"""Below this number of observations MSER-5 is not used."""
MSER_BATCH = 5
"""Observations per batch of MSER-5."""
CUT_AT_MOST = 0.5
"""A warm-up cut above this share of the window means that the trial was too short."""
LATE_SEARCH = 0.75
"""MSER-5 also looks for its minimum up to this share of the run, to detect a warm-up that ends in the second
half."""
LATE_CLEAR = 3.0
"""Such a late minimum counts if it is this many times below the best of the first half."""
STALL_HEAD = 0.1
"""A stall is distinguished from a warm-up by this first part of what MSER-5 would drop: in a stall it is at
the level of what is kept."""
STALL_LEVEL = 0.95
"""That level: this quantile of the kept observations."""
STALL_CLEAR = 10.0
"""And something in what would be dropped is this many times above that level."""
MOSTLY_FAILED = 0.5
"""Share of failed requests above which a server's state is not judged."""
DRIFT = 0.10
"""|Theil–Sen slope| · T over the median from which a trial is not steady."""

# May this trial be believed? (docs/method.md §3)
OWN_DOING = 0.20
"""Share of what a warm-up cut would drop that is due to the generator's own delays, from which it is not a
warm-up."""
HARM = 0.05
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
TCP_LOSS = 0.1
"""Requests that waited for a TCP segment that was sent again, as a share of those beyond a percentile, from which that
percentile is rough: each of them waited for 200 ms as a rule."""
REUSE = 0.02
"""Connections beyond the planned ones, as a share of requests, from which reuse was not as requested."""
TLS_COUNTED = 0.02
"""Deviation of the server's count of TLS sessions from the generators' count."""
DELAY_LATE = 0.05
DELAY_CPU = 0.9
"""As a share of a round trip's latency, and of a core: a delay line above either no longer keeps its
delay."""
LIMIT_ACTED = 0.95
"""Use of a CPU quota below which, with no throttled time, it never acted."""
HICCUP_PERIOD_S = 0.01
"""Period of the hiccup thread: a shorter pass of a load's own loop is normal work, and judged by the read lag
alone."""
RUN_QUEUE = 0.01
"""Share of wall time that threads of the load waited for a core."""
GENERATOR_CPU = 0.90
"""CPU of the load without spinning, over the cores available to it."""
CARRIED = (0.05, 0.20)
"""By how much a closed loop's success falls with the requests under way as the kept window begins, in shares of one."""
STEAL = 0.01
"""Share of any second of a core that the hypervisor gave to others."""
OTHERS_CPU = 0.05
"""CPU of processes that are neither generators, servers nor monitors, over all cores."""
CALIBRATION = 0.03
"""Drift of a fixed piece of work from before the load to after it that an idle machine shows as well."""
SLEPT_NS = 1_000_000
"""Length that a suspension must exceed."""
CLOCK_OFFSET_NS = 1_000_000
"""How well the clock of a fleet's machine must be known where its stamps are compared with a server's."""
CLOCK_READS_S = {
    "tsc": 0.0,
    "kvm-clock": 0.0,
    "arch_sys_counter": 0.0,
    "hyperv_clocksource_tsc_page": 0.0,
    "xen": 0.0,
    "hyperv_clocksource_msr": 2e-6,
    "hpet": 2e-6,
    "acpi_pm": 4e-6,
}
"""What a reading of each clock source costs and how coarse it is, at most; the first five count a core's own ticks."""
COARSE_CLOCK_S = 0.01
"""The same for any other clock source: a tick of the kernel."""
DISK_READS = 0.01
"""Bytes that a server read from a disk over those it sent, where its files should lie in the page cache."""
RESIDENT = 0.99
"""Share of a server's files that is in the page cache at the start."""
COLD = 0.01
"""Share of a server's files that may still be in the page cache at the start where the study dropped them."""
COLD_READS = 0.9
"""Bytes that a disk read over those that were sent for the first time, where the study dropped the files
beforehand."""
TIME_WAIT = 0.05
"""Sockets in TIME_WAIT at the start over the local ports."""
UNEVEN_WORKERS = 0.25
"""Connections of the busiest of workers that share a port over an even share, less one."""
LATE_BODY_S = (0.038, 0.056)
"""From the first byte of a small response to its last: Linux delays an acknowledgement by 40 ms, and its
timers add up to 8 ms or more."""
LATE_BODY_BYTES = 10_000
"""Mean size on the wire of responses that fit in the first flight of a connection (ten segments)."""
LATE_BODY_CONNECTS = 0.1
"""Share of the requests that may connect first, which takes time before the request is written."""
ANSWERED_OFTEN = 0.01
"""Share of a side's answers from which a status that the other side never has is named."""
GC_PAUSE = 0.10
"""Longest pause of a garbage collector over the smallest shown p99."""
BACKLOG = 0.05
"""Growth of the backlog over what was due from which a server is overloaded."""
SLOTS_FULL = 0.5
"""Share of the median response spent waiting for a slot from which an open loop's server is saturated."""
WORKERS_FULL = 0.9
"""Share of readings with all workers at work and requests waiting from which a server is saturated."""
LIMIT_APPROACHED = 0.8
"""Share of a declared limit from which it was approached."""

# Each number by itself (docs/method.md §2, §3)
OFF = 0.05
"""A number that may be off by more, in either direction and by all checks together, is WEAK."""
WIDEST = (0.97, 4.0)
"""How far below and above it a disturbed number may lie at most, as shares of it; also used where the
distance is unknown."""
CORES_CONCERNED = 2
"""Cores that other programs are assumed to have shared where nobody read how long the servers waited for
one."""
IMPORTED = 0.06
"""Range of the times and rates of an imported run, since its tool's own delays were not recorded: never
VALID."""
CALM_FROM = 0.1
"""A number that was pushed by no more than this share is bounded by the index of disturbance, others by calm
requests."""
CALM_LEAST = 0.05
"""Share of a group's requests that must be due in calm intervals to stand for all."""
CALM_ABOVE = 1
"""The number of them that must lie above a percentile."""
CALM_BEFORE = 3.0
"""Mean times in flight before a disturbance in which a request is no longer calm."""
CALM_REACH = 2.5
"""Standard errors by which the calm requests' statistic may miss that of all."""
CALM_USE = 0.7
"""Use that servers are assumed to have at least while a queue empties: a pool may be fuller than its core."""
CLOGGED = 0.5
"""Share of the time with a queue that other programs left from which on the readings bound nothing."""
WAITING = 2.0
"""Threads of servers that one other program keeps waiting on average, at most."""
MOST_HANDED_ON = 0.99
"""Use of a core above which a queue is assumed to hand delays on as at this one: a hundred times over."""
PUSHED = {"mean": 3.0, "p50": 3.0, "p90": 7.0, "p95": 8.0, "p99": 9.0}
"""By statistic: how far a number is pushed at most, over the index of disturbance, in 97 % of the planted
trials with too few calm requests."""
PUSHED_UP_TO = 0.6
"""Share of all cores that other programs had up to which that was fitted (50 %, and what the machine does beside):
above it nobody knows how far a request is pushed whose servers waited for a core."""
WOKEN_S = 0.00015
"""What a request may gain where other programs keep the cores awake: an exchange of one byte takes 90 µs on
idle cores, 16 on busy ones (p99: 280, 45)."""
GAP_S = 0.005
"""A longer gap of a thread of the load is a disturbance; a pass of its own loop is one above
`HICCUP_PERIOD_S`."""

# Laws and capacity (docs/method.md §4)
LAW_CYCLES = 20
"""Mean cycles that a window needs for Little's law by completions: its edges shift it by at most a cycle."""
LAW_HOLDS = 0.03
"""Deviation of X·(R + Z) from N from which it is reported, with its sign."""
LOADS_APART = 1.25
"""Ratio of two levels from which they show a gain, and from which throughput separates demand from use at
rest."""
GAIN = 0.1
"""d ln X / d ln load below which more load brings no more throughput."""
FLAT = 0.05
"""Growth of throughput up to which two levels are flat; growth of response from which single runs count as
rising."""
LIMIT_SEEN = 0.8
"""Flat throughput below this share of what the measured resources can bear: none of them is the
bottleneck."""
MOST_USED = 1.1
"""Use above this share of a capacity: the assumed capacity is wrong."""
WAITING_UNSURE = 0.5
"""Share of the waiting at the least load by which N*'s interval is widened: what constant service saves
compared with exponential service."""
LIMITS_AGREE = 0.25
"""N_break and N* agree within this."""
LEVELS_PAST = 2
"""Levels needed beyond a break or a peak."""
USL_LEVELS = 6
"""Levels of users needed for the Universal Scalability Law."""
BREAK_P = 0.001
"""p below which a ramp's second piece is surely the better fit."""
BREAK_RESPONSE = 0.25
"""Response at a ramp's end over the line that it followed, less one, from which it has left that line."""
BREAK_ERRORS = 0.01
"""Share of errors at a ramp's end from which they are a breakpoint."""
CPU_FULL = 0.95
"""Use of a CPU quota, or of a core that the servers run on, from which they are at their limit."""
WAVES = 0.10
"""Amplitude of a wave over the median from which a trial is not steady."""
WAVES_P = 0.001
"""p of such a wave in noise with the same autocorrelation."""
WAVE_CYCLES = 3
"""Waves that the window must hold."""
WAVE_POINT = 2.0
"""Mean cycles of a closed loop's users that a point covers: what returns with each cycle is the load's own rhythm."""

# Finished tables and imported runs (docs/method.md §4)
TABLE_BIAS = 0.03
"""X·(R + Z) further than this from N is flagged with its sign: completions counted without stamps have
an edge bias of a cycle over T."""
TABLE_LAW_HOLDS = 0.05
"""A table's rounded figures fit N = X·(R + Z) within this."""
TABLE_FASTER = 1.10
"""Ratio of two cells of a table from which one is called larger; tables without replicates allow no finer
statement."""
TABLE_FLAT = 1.15
"""Throughput that rises by less than this over the levels of users, which at least double, is flat."""
TABLE_LEVELS = 3
"""Levels of users that show whether throughput is flat."""
TABLE_NEAR_LINK = 0.05
"""Carried bits within this of a usual link's rate hint at that link."""
TABLE_RAMP = 0.10
"""Share of the measured time in which users are still being started, from which the ramp is reported."""
NEVER_ACTED = 0.25
"""Elasticity of throughput to a limit below which the limit did not act."""
ELASTICITY = (-0.2, 1.2)
"""Elasticities beyond these cannot be due to a resource: Unidentified (docs/method.md §5)."""
TABLE_SUCCESS_POINTS = 0.5
"""Percentage points of difference in success from which no ranking by the mean is valid."""
TABLE_IMPROVEMENT = (6.0, 10.0)
"""Percentage points: a formula fits a rounded improvement within the first, and misses it beyond the second."""
TABLE_REVERSED = 1.25
"""Ratio on both sides of 1 from which an effect counts as reversed."""
TABLE_MEAN_OVER_MEDIAN = 2.0
"""Mean over median, or its inverse, from which the distribution is reported instead of either of them."""
TABLE_SHIFTED = 2.0
"""Median ratio of matched rows from which a level's effect is reported though the text does not mention
it."""
TABLE_FEW_REQUESTS = 100
"""Requests that batch means need at least (BATCHES): with fewer no steady state is claimed."""
TABLE_CARRIED_BYTES_PER_S = 12.5e9
"""What a link of 100 Gbit/s carries: an answer that came faster was measured in another unit."""

# Planned faults (docs/method.md §1)
RECOVERY_REQUESTS = 20
"""Requests due on average in a cell: a median of fewer is mostly random."""
RECOVERY_LEVEL_CELLS = 5
"""Cells before the first fault that determine the level."""
RECOVERED = 0.10
"""A median above the level by no more than this has recovered: the limit of a drift elsewhere."""
RECOVERY_CELLS = 3
"""Consecutive cells that must have recovered."""
RECOVERY_OUTSIDE = 0.05
"""Share of later cells that may lie outside for another reason."""
