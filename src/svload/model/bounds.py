"""Upper bounds on the size of a study, each with its reason. Numbers and their products are checked before
use.

Where the engine has a bound too, both are equal (tests/drive/test_engine_bounds.py). The bounds are far above
what one machine can run; a study too large for a given machine is reported separately (plan-too-large).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """An upper bound on something, with its reason."""

    most: int
    what: str
    because: str

    @property
    def text(self) -> str:
        """Return the reason for a mistake: `at most 1,024 generators can be planned (…)`."""
        return f"at most {self.most:,} {self.what} can be planned ({self.because})"


# the file
TEXT_BYTES = Bound(1_000_000, "bytes of a study", "plan reads them within 5 s")
VALUES = Bound(10_000, "values of a study", "plan reads them within 5 s; what an alias repeats counts twice")
PROFILES = Bound(20, "profiles", "plan checks the study under each of them")
REPORTED = Bound(100, "mistakes", "the others appear once these are fixed")
"""Mistakes reported together."""
# numbers
DIGITS = Bound(40, "digits of a number", "nothing that is measured needs more")
VUS = Bound(
    1_000_000,
    "virtual users or places of a group",
    "each has a connection, and a process about a million descriptors",
)
GENERATORS = Bound(1_024, "generators", "each is a process with a core of its own")
ITERATIONS = Bound(
    10**10, "iterations of a trial", "a core of load makes 100,000 a second, so that they last a day"
)
RATE_RPS = Bound(10**8, "arrivals a second", "no machine makes more")
TIME_S = Bound(90 * 86_400, "seconds", "90 days: all times of a trial together must fit 63 bits of ns")
TIME_NS = Bound(TIME_S.most * 10**9, "ns", "90 days, as any time")
SPIN_NS = Bound(10**7, "ns of spinning", "10 ms: it takes a core for as long")
QUANTUM_NS = Bound(10**9, "ns of a pacing quantum", "1 s: what is due waits for it")
SIZE_BYTES = Bound(2**40, "bytes", "1 TiB: more than a server or a body holds here")
STREAMS = Bound(1_000, "streams of an HTTP/2 connection", "the engine takes no more")
REDIRECTS = Bound(100, "redirects of a request", "a longer chain is a loop")
STAGES = Bound(1_000, "stages", "their times together must fit 63 bits of ns")
STEPS = Bound(1_000, "steps", "the engine takes no more in a group")
PATTERNS = Bound(
    100, "different regular expressions", "each may take 40 ms to be made, and plan makes all of them"
)
# tables
OBJECTS = Bound(1_000_000, "objects", "each is drawn, put and listed, and its row held by every generator")
CONTAINERS = Bound(100_000, "accounts or containers", "each is made before the first trial")
DATA_BYTES = Bound(100 * 2**40, "bytes of objects", "100 TiB: each is drawn and put before the first trial")
ROWS = Bound(1_000_000, "rows of a feeder", "they are written under inputs/ and held by every generator")
TABLE_BYTES = Bound(64 * 2**20, "bytes of a table", "64 MiB: plan reads it all, and every generator holds it")
# lab
SERVICES = Bound(100, "services", "each is a server on one machine")
WORKERS = Bound(1_024, "workers of a service", "each is a process or a thread")
OPTION = Bound(10**9, "as a number of a kit's option", "no server takes more")
FILES_BYTES = Bound(2**30, "bytes of files", "1 GiB: they are written when the server comes up")
# the plan
OPEN = Bound(10**9, "as a value of an open factor", "no load is larger")
LEVELS = Bound(1_000, "levels of a factor", "each makes a case of its own")
CASES = Bound(1_000, "cases", "plan checks each of them, and answers within 5 s")
TRIALS = Bound(50_000, "trials", "each has a line of the plan; of one second each they last 14 hours")
WORK = Bound(
    150_000,
    "values of the study times its cases",
    "plan puts each case's levels into all values, and answers within 5 s",
)
"""(Values outside `factors` + VALUES_OF_A_CASE) × number of cases, summed over the study and its profiles."""
VALUES_OF_A_CASE = 20
"""The cost of a case besides its values, expressed as a number of values."""
