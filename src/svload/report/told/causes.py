"""What a check found, in words for readers who don't know the check. Pure."""

from __future__ import annotations

_CAUSES = {
    # disturbed: the number has a wider range
    "generator-harm": "svload itself was late",
    "others-cpu": "other programs used the machine",
    "hiccups": "the machine stalled",
    "run-queue": "svload waited for a core",
    "steal": "the hypervisor gave CPU time to other virtual machines",
    "calibration": "the machine changed speed",
    "clocks": "the clock was set or is too coarse",
    "tcp-loss": "TCP segments were lost",
    "steadiness": "the numbers drifted during the load",
    "imported-instrument": "the other tool's own delays are unknown",
    # broken: the load or the instrument was not what the study asked for
    "accounting": "the load was not as requested, or its counts do not add up",
    "warm-up": "the load was too short to settle",
    "carried-over": "requests from before the measurement dominate it",
    "generator-cpu": "svload's CPU was full",
    "imported-little": "the other tool's numbers contradict each other",
    "reconciliation": "the servers counted different requests than were sent",
    "manipulation": "the factor did not take effect",
    "build": "the server was a different build",
    # reported, but no number has a wider range
    "surroundings": "something unusual besides the load",
    "limits-acted": "a limit that the study sets was never reached",
    "worker-spread": "the users are spread unevenly over the workers",
}


def cause(check: str) -> str:
    """Return a clause for a check's name: `other programs used the machine`."""
    return _CAUSES.get(check, check.replace("-", " "))


def program(who: str) -> str:
    """Return only the program's name of `stress-ng (1.2 s of CPU, process 4711)`."""
    return who.partition(" (")[0]
