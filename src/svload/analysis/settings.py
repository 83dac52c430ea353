"""A digest of everything that a study asks of its lab: an A/A certificate holds for equal settings only.
Cheap to import: every run needs it."""

from __future__ import annotations

import hashlib
import json

from svload.model.study import Lock

_SETTINGS = [
    "lab",
    "sysctl",
    "sets",
    "tuning",
    "data",
    "feeders",
    "before_trial",
    "requests",
    "traffic",
    "scenarios",
    "factors",
]


def settings_digest(lock: Lock) -> str:
    """Return a digest of all that a study asks of lab, data and traffic, and of how long it measures: any
    change voids the certificate.

    Its name, question, comparisons, thresholds and number of replicates are not included.
    """
    settings = {key: lock.source[key] for key in _SETTINGS if key in lock.source}
    settings["duration_ns"] = lock.measure.duration_ns
    written = lock.source.get("measure", {}).get("duration")
    if isinstance(written, str) and "${" in written:
        settings["duration"] = written
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
