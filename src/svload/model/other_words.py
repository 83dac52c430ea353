"""Terms of other load testers, and svload's terms for the same."""

from __future__ import annotations

OTHER_WORDS = {
    "clients": "vus",
    "concurrency": "vus",
    "connections": "vus",
    "threads": "vus",
    "users": "vus",
    "virtual_users": "vus",
    "qps": "rate",
    "rps": "rate",
    "throughput": "rate",
    "servers": "lab",
    "services": "lab",
    "endpoint": "request",
    "target": "request",
    "to": "request",
    "url": "request",
    "repetitions": "replicates",
    "runs": "replicates",
    "replace_refused": "until",
    "maxvus": "max_vus",
    "preallocatedvus": "max_vus",
    "startrate": "start_rate",
    "startvus": "start_vus",
    "spawn_rate": "ramp_up",
    "rampup": "ramp_up",
    "delay": "think_time",
    "pause": "think_time",
    "sleep": "think_time",
    "wait": "think_time",
    "wait_time": "think_time",
}
PAUSES = frozenset(word for word, ours in OTHER_WORDS.items() if ours == "think_time") | {"think_time"}
