"""What a check found, in the words of somebody who has never heard of the check. Pure."""

from __future__ import annotations

_CAUSES = {
    # disturbed: the number has a wider range
    "generator-harm": "svload itself was late",
    "others-cpu": "other programs used the machine",
    "hiccups": "the machine stood still for moments",
    "run-queue": "svload waited for a core",
    "steal": "the hypervisor gave time to other guests",
    "calibration": "the machine changed its speed",
    "clocks": "the clock was set or is too coarse",
    "steadiness": "the numbers drifted during the load",
    "delay-line": "the link's delay was late itself",
    "imported-instrument": "nobody knows what the other tool's own delays were",
    # broken: the load or the instrument was not what the study asked for
    "warm-up": "the load was too short to settle",
    "carried-over": "requests from before the measurement filled it",
    "load-asked": "the load that was asked for was not made",
    "generator-cpu": "svload's CPU was full",
    "generator-first": "svload itself was the limit",
    "generator-limits": "svload ran out of ports or descriptors",
    "identities": "requests are missing from the books",
    "little": "the books of the load do not balance",
    "imported-little": "the other tool's numbers contradict each other",
    "reconciliation": "the servers counted other requests than were sent",
    "physics": "more was measured than the link carries",
    "manipulation": "the factor did not act",
    "build": "the server was another build",
    "repeats": "URLs repeated more often than planned",
    "tls-sessions": "TLS sessions were not as planned",
    "connection-reuse": "connections were not reused as planned",
    "warm-files": "files were not in memory as planned",
    "cold-files": "files were in memory though they should not be",
    # said, and no number's range
    "limits-acted": "a limit that the study sets never acted",
    "disk-writes": "some disk writes escape their limit",
    "page-cache": "somebody dropped the page cache",
    "time-wait": "many ports were still taken by earlier connections",
    "connection-rate": "more new connections a second than ports",
    "name-look-up": "each request looked its host's name up",
    "address-families": "localhost has two addresses",
    "worker-spread": "the users are spread unevenly over the workers",
    "gc-pause": "the server's garbage collector paused",
    "same-host": "load and servers share a machine",
}


def cause(check: str) -> str:
    """A clause for a check's name: `other programs used the machine`."""
    return _CAUSES.get(check, check.replace("-", " "))


def program(who: str) -> str:
    """The program's name alone of `stress-ng (1.2 s of CPU, process 4711)`."""
    return who.partition(" (")[0]
